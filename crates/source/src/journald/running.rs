//! A journal source that runs, over reloads.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use inrush_codec::SyslogOptions;
use inrush_event::MetricsPage;
use inrush_ingest::batch_writer::BatchWriter;
use inrush_ingest::batch_writer::source::{IngestSettings, IngestSource};
use inrush_ingest::enrichment::Enrichment;
use inrush_ingest::pool::WorkerWaker;
use mio::{Poll, Waker};

use super::child::find;
use super::counts::JournalCounts;
use super::options::JournaldSource;
use super::reader::{JournalReader, WAKE};
use crate::options::{SourceOptions, ingest_settings, of_type};
use crate::{Source, SourceServices, StartedSource};

/// Parts that the source and its thread share.
pub(super) struct JournalShared {
    pub(super) name: String,
    pub(super) counts: JournalCounts,
    pub(super) stopping: AtomicBool,
    /// Counts the changes of the options, so that the thread looks at the lock only after one.
    pub(super) generation: AtomicU64,
    options: Mutex<JournaldSource>,
    waker: Waker,
}

impl JournalShared {
    /// The options, and their number.
    pub(super) fn options(&self) -> (u64, JournaldSource) {
        let options = lock(&self.options);
        (self.generation.load(Ordering::Acquire), options.clone())
    }

    fn wake(&self) {
        if let Err(error) = self.waker.wake() {
            tracing::warn!(source = self.name, %error, "the journal's thread is not woken");
        }
    }
}

/// A journal source that runs.
pub(super) struct RunningJournal {
    ingest: Arc<IngestSource>,
    shared: Arc<JournalShared>,
    prepared: Mutex<Option<(JournaldSource, IngestSettings)>>,
    thread: JoinHandle<()>,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RunningJournal {
    /// Starts the source; a program that is not there is told beside it.
    ///
    /// # Errors
    /// In words: there is no thread to be had.
    pub(super) fn start(
        name: &str,
        options: &JournaldSource,
        services: &SourceServices,
        known: &Enrichment,
    ) -> Result<StartedSource, String> {
        let said = |words: String| format!("source {name}: {words}");
        let settings = ingest_settings(name, options, &SyslogOptions::default(), known);
        let settings = settings.map_err(said)?;
        let started = Self::spawn(name, options, services, settings);
        let source = started.map_err(|error| said(error.to_string()))?;
        let problems = find(&options.journalctl).err().map(said);
        Ok(StartedSource {
            source: Arc::new(source),
            problems: problems.into_iter().collect(),
        })
    }

    fn spawn(
        name: &str,
        options: &JournaldSource,
        services: &SourceServices,
        settings: IngestSettings,
    ) -> io::Result<Self> {
        let context = services.context.clone();
        let log = Arc::clone(&context.log);
        let ingest = IngestSource::new(name, settings, &context.ledger);
        // It lends no batches, so that nobody wakes it for one.
        let waker = WorkerWaker::new(|| Ok(()));
        let writer = BatchWriter::new(context, Arc::clone(&ingest), waker).admitted();
        let poll = Poll::new()?;
        let shared = Arc::new(JournalShared {
            name: name.to_owned(),
            counts: JournalCounts::default(),
            stopping: AtomicBool::new(false),
            generation: AtomicU64::new(0),
            options: Mutex::new(options.clone()),
            waker: Waker::new(poll.registry(), WAKE)?,
        });
        let reader = JournalReader::new(Arc::clone(&shared), writer, log, poll);
        let thread = thread::Builder::new().name(format!("journal-{name}"));
        Ok(Self {
            ingest,
            shared,
            prepared: Mutex::default(),
            thread: thread.spawn(move || reader.run())?,
        })
    }
}

impl Source for RunningJournal {
    fn ingest(&self) -> &Arc<IngestSource> {
        &self.ingest
    }

    fn prepare(&self, options: &dyn SourceOptions, known: &Enrichment) -> Result<(), String> {
        let name = &self.shared.name;
        let options = of_type::<JournaldSource>(options, name)?;
        let settings = ingest_settings(name, options, &SyslogOptions::default(), known);
        let settings = settings.map_err(|words| format!("source {name}: {words}"))?;
        *lock(&self.prepared) = Some((options.clone(), settings));
        Ok(())
    }

    fn commit(&self) -> Vec<String> {
        let Some((options, settings)) = lock(&self.prepared).take() else {
            return Vec::new();
        };
        self.ingest.replace_settings(settings);
        let problem = find(&options.journalctl).err();
        let mut current = lock(&self.shared.options);
        if *current != options {
            *current = options;
            self.shared.generation.fetch_add(1, Ordering::Release);
        }
        drop(current);
        self.shared.wake();
        let name = &self.shared.name;
        let problem = problem.map(|words| format!("source {name}: {words}"));
        problem.into_iter().collect()
    }

    fn metrics(&self, page: &mut MetricsPage) {
        self.shared.counts.metrics(&self.shared.name, page);
    }

    fn is_dead(&self) -> bool {
        self.thread.is_finished() && !self.shared.stopping.load(Ordering::Acquire)
    }

    fn close(&self) {
        self.stop();
    }

    fn stop(&self) {
        self.shared.stopping.store(true, Ordering::Release);
        self.shared.wake();
    }

    fn ended(&self) -> bool {
        self.thread.is_finished()
    }
}
