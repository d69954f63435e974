//! Source that makes up records: the least that a source has to be. It is for tests, with the
//! feature `made_up`.

pub mod options;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use inrush_event::Origin;
use inrush_ingest::batch_writer::BatchWriter;
use inrush_ingest::batch_writer::acks::AckTarget;
use inrush_ingest::batch_writer::source::{IngestSettings, IngestSource};
use inrush_ingest::enrichment::Enrichment;
use inrush_ingest::now::Now;
use inrush_ingest::pool::WorkerWaker;

use self::options::MadeUpSource;
use crate::options::SourceOptions;
use crate::{Source, SourceServices};

/// Records whose batches became durable, in the whole process.
pub static ACKNOWLEDGED: AtomicU64 = AtomicU64::new(0);

/// Between two looks at what became durable.
const LOOK: Duration = Duration::from_millis(2);

/// A source that makes up records.
pub(crate) struct RunningMadeUp {
    ingest: Arc<IngestSource>,
    wanted: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    prepared: Mutex<Option<(u64, IngestSettings)>>,
    thread: JoinHandle<()>,
}

fn settings(
    name: &str,
    options: &dyn SourceOptions,
    known: &Enrichment,
) -> Result<IngestSettings, String> {
    let syslog = inrush_codec::SyslogOptions::default();
    let zone = syslog.zone().map_err(|error| error.to_string())?;
    Ok(known.settings(options.info(name), options.product(), &syslog, zone))
}

impl RunningMadeUp {
    fn start(
        name: &str,
        options: &MadeUpSource,
        services: &SourceServices,
        known: &Enrichment,
    ) -> Result<Arc<Self>, String> {
        let context = services.context.clone();
        let ingest = IngestSource::new(name, settings(name, options, known)?, &context.ledger);
        let (wanted, stop) = (Arc::new(AtomicU64::new(options.records)), Arc::default());
        let (log, until, stopped) = (
            Arc::clone(&context.log),
            Arc::clone(&wanted),
            Arc::clone(&stop),
        );
        let mut writer =
            BatchWriter::new(context, Arc::clone(&ingest), WorkerWaker::new(|| Ok(())));
        let work = move || {
            let mut made = 0;
            while !AtomicBool::load(&stopped, Ordering::Acquire) {
                while made < until.load(Ordering::Acquire) {
                    made += 1;
                    make(&mut writer, made);
                }
                writer.flush(Now::read());
                while let Some(due) = writer.next_due(log.durable_end()) {
                    let records: u64 = due.acks.iter().map(|ack| u64::from(ack.count)).sum();
                    ACKNOWLEDGED.fetch_add(records, Ordering::AcqRel);
                }
                thread::park_timeout(LOOK);
            }
            writer.close(Now::read());
        };
        let thread = thread::Builder::new()
            .name("made-up".to_owned())
            .spawn(work);
        Ok(Arc::new(Self {
            ingest,
            wanted,
            stop,
            prepared: Mutex::default(),
            thread: thread.map_err(|error| error.to_string())?,
        }))
    }
}

/// Makes one record up, with the message `record NUMBER`, and asks for its acknowledgement.
fn make(writer: &mut BatchWriter, number: u64) {
    let origin = Origin::Unit("made-up".into());
    let text = format!("record {number}");
    writer.take_record(
        text.as_bytes(),
        &origin,
        |_, record| record.message = record.raw,
        Now::read(),
    );
    writer.owe(AckTarget { key: 0, serial: 0 }, number, 0);
}

impl Source for RunningMadeUp {
    fn ingest(&self) -> &Arc<IngestSource> {
        &self.ingest
    }

    fn prepare(&self, options: &dyn SourceOptions, known: &Enrichment) -> Result<(), String> {
        let Some(options) = options.as_any().downcast_ref::<MadeUpSource>() else {
            return Err("the type cannot change".to_owned());
        };
        let settings = settings(&self.ingest.name, options, known)?;
        let mut prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        *prepared = Some((options.records, settings));
        Ok(())
    }

    fn commit(&self) -> Vec<String> {
        let mut prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((records, settings)) = prepared.take() {
            self.ingest.replace_settings(settings);
            self.wanted.store(records, Ordering::Release);
        }
        Vec::new()
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
