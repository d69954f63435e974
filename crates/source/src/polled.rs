//! Sources that one thread polls: a journal, a topic, a feed. The type of the source reads records
//! and takes acknowledgements; thread, batches, reload and stop are here.
//!
//! # What it guarantees
//! * A reader is polled until the source stops; what it read by then is handed to the queue.
//! * Acknowledgements come in the order of the records, once their batch is durable or refused.
//! * Options change between two polls, never during one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use inrush_codec::SyslogOptions;
use inrush_event::MetricsPage;
use inrush_ingest::batch_writer::BatchWriter;
use inrush_ingest::batch_writer::acks::BatchAcks;
use inrush_ingest::batch_writer::source::{IngestSettings, IngestSource};
use inrush_ingest::enrichment::Enrichment;
use inrush_ingest::now::Now;
use inrush_ingest::pool::WorkerWaker;
use inrush_queue::Log;

use crate::options::{SourceOptions, ingest_settings, of_type};
use crate::{Source, SourceServices, StartedSource};

/// Reader of the records of one source.
pub trait RecordReader: Send + 'static {
    /// Options of the type of source.
    type Options: SourceOptions + Clone + Send;

    /// Hands the records that are there on to `writer`, and notes with [`BatchWriter::owe`] which
    /// numbers of them are to be acknowledged.
    fn read(&mut self, options: &Self::Options, writer: &mut BatchWriter, now: Now);

    /// Takes the acknowledgements of a batch.
    fn acknowledge(&mut self, acks: &BatchAcks);

    /// Counts of the reader beside those of every source.
    fn counts(&self) -> Option<Arc<dyn ReaderCounts>> {
        None
    }

    /// Pause between two polls.
    fn pause(&self) -> Duration {
        Duration::from_millis(10)
    }
}

/// Counts of a reader, which its thread adds to.
pub trait ReaderCounts: Send + Sync {
    /// Adds the counts of the source `name`.
    fn metrics(&self, name: &str, page: &mut MetricsPage);
}

/// A source whose reader is polled by a thread of its own.
pub struct PolledSource<R: RecordReader> {
    ingest: Arc<IngestSource>,
    options: Arc<Mutex<R::Options>>,
    prepared: Mutex<Option<(R::Options, IngestSettings)>>,
    stop: Arc<AtomicBool>,
    counts: Option<Arc<dyn ReaderCounts>>,
    thread: JoinHandle<()>,
}

impl<R: RecordReader> PolledSource<R> {
    /// Starts the thread.
    ///
    /// # Errors
    /// In words: there is no thread to be had.
    pub fn start(
        name: &str,
        options: &R::Options,
        mut reader: R,
        services: &SourceServices,
        known: &Enrichment,
    ) -> Result<StartedSource, String> {
        let context = services.context.clone();
        let log = Arc::clone(&context.log);
        let settings = ingest_settings(name, options, &SyslogOptions::default(), known)?;
        let ingest = IngestSource::new(name, settings, &context.ledger);
        let waker = WorkerWaker::new(|| Ok(()));
        let mut writer = BatchWriter::new(context, Arc::clone(&ingest), waker);
        let options = Arc::new(Mutex::new(options.clone()));
        let stop = Arc::new(AtomicBool::new(false));
        let (now_options, stopped) = (Arc::clone(&options), Arc::clone(&stop));
        let counts = reader.counts();
        let poll = move || {
            while !stopped.load(Ordering::Acquire) {
                let options = lock(&now_options).clone();
                reader.read(&options, &mut writer, Now::read());
                writer.flush(Now::read());
                acknowledge(&mut reader, &mut writer, &log);
                thread::park_timeout(reader.pause());
            }
            writer.close(Now::read());
        };
        let thread = thread::Builder::new().name(format!("poll-{name}"));
        let thread = thread.spawn(poll).map_err(|error| error.to_string())?;
        let source = Self {
            ingest,
            options,
            prepared: Mutex::default(),
            stop,
            counts,
            thread,
        };
        Ok(StartedSource {
            source: Arc::new(source),
            problems: Vec::new(),
        })
    }
}

fn acknowledge(reader: &mut impl RecordReader, writer: &mut BatchWriter, log: &Log) {
    while let Some(acks) = writer.next_due(log.durable_end()) {
        reader.acknowledge(&acks);
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<R: RecordReader> Source for PolledSource<R> {
    fn ingest(&self) -> &Arc<IngestSource> {
        &self.ingest
    }

    fn prepare(&self, options: &dyn SourceOptions, known: &Enrichment) -> Result<(), String> {
        let name = &self.ingest.name;
        let options = of_type::<R::Options>(options, name)?;
        let settings = ingest_settings(name, options, &SyslogOptions::default(), known)?;
        *lock(&self.prepared) = Some((options.clone(), settings));
        Ok(())
    }

    fn commit(&self) -> Vec<String> {
        if let Some((options, settings)) = lock(&self.prepared).take() {
            self.ingest.replace_settings(settings);
            *lock(&self.options) = options;
        }
        Vec::new()
    }

    fn metrics(&self, page: &mut MetricsPage) {
        if let Some(counts) = &self.counts {
            counts.metrics(&self.ingest.name, page);
        }
    }

    fn is_dead(&self) -> bool {
        self.thread.is_finished() && !self.stop.load(Ordering::Acquire)
    }

    fn close(&self) {
        self.stop();
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.thread.thread().unpark();
    }

    fn ended(&self) -> bool {
        self.thread.is_finished()
    }
}
