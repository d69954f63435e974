//! Delivering what was read again, past the queue of a running process: to destinations opened for
//! this alone, from a queue in memory.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use inrush_config::Config;
use inrush_event::{Batch, ByteSize, DropReason, Ledger, LedgerSnapshot};
use inrush_pipeline::destination::{RunningDestination, SinkContext};
use inrush_queue::{Durability, Log, QueueOptions, WhenFull};
use inrush_sink::{Quarantine, RefusedRecords, SinkStatus};

/// Bytes of events that wait for destinations at most; reading waits for them.
const QUEUE_BYTES: u64 = 64 * 1024 * 1024;

/// Number of events that a destination refused for one reason.
#[derive(Clone, Debug, Default)]
pub struct RefusalCount {
    /// The destination.
    pub destination: String,
    /// The closed reason.
    pub reason: String,
    /// The destination's own code, 0 if it gave none.
    pub code: u32,
    /// Its own words, the last time.
    pub text: String,
    /// Events.
    pub events: u64,
}

/// Result of a delivery, by destination.
#[derive(Clone, Debug)]
pub struct DeliveryReport {
    /// The ledger of the delivery; `pending` is 0 once it is finished.
    pub ledger: LedgerSnapshot,
    /// Refused events, by destination, reason and code.
    pub refused: Vec<RefusalCount>,
}

/// Keeps no refused event, which lies where it was read, but what it was refused for.
#[derive(Default)]
struct RefusalRecorder(Mutex<RecordedRefusals>);

#[derive(Default)]
struct RecordedRefusals {
    by_reason: BTreeMap<(String, String, u32), (String, u64)>,
    /// Indexes of refused events by the sequence of their batch, since they were last asked for.
    events: HashMap<u64, Vec<u32>>,
    /// True if those are wanted at all.
    wanted: bool,
}

impl RefusalRecorder {
    fn told(&self) -> std::sync::MutexGuard<'_, RecordedRefusals> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Quarantine for RefusalRecorder {
    fn put(&self, destination: &str, refused: &[RefusedRecords]) -> io::Result<()> {
        let mut told = self.told();
        for one in refused {
            let key = (
                destination.to_owned(),
                one.refusal.reason.name().to_owned(),
                one.refusal.code,
            );
            let entry = told.by_reason.entry(key).or_default();
            entry.0.clone_from(&one.refusal.text);
            entry.1 += u64::from(one.events.end - one.events.start);
            if told.wanted {
                let events = told.events.entry(one.batch.sequence()).or_default();
                events.extend(one.events.clone());
            }
        }
        Ok(())
    }
}

/// A delivery as other threads see it.
#[derive(Clone)]
pub struct DeliveryView {
    log: Arc<Log>,
    ledger: Arc<Ledger>,
    statuses: Vec<(String, Arc<SinkStatus>)>,
}

impl DeliveryView {
    /// Ends every wait for room: nothing more is taken.
    pub fn stop(&self) {
        self.log.close();
    }

    /// Snapshot of the ledger of the delivery.
    pub fn ledger(&self) -> LedgerSnapshot {
        self.ledger.snapshot()
    }

    /// A destination that gets nowhere just now, and its last error.
    pub fn trouble(&self) -> Option<(String, String)> {
        self.statuses.iter().find_map(|(name, status)| {
            let error = status.last_error().filter(|_| !status.healthy())?;
            Some((name.clone(), error.text))
        })
    }
}

/// Destinations that were opened to send events again.
pub struct ReplayDelivery {
    ledger: Arc<Ledger>,
    log: Arc<Log>,
    destinations: Vec<RunningDestination>,
    refusals: Arc<RefusalRecorder>,
}

impl ReplayDelivery {
    /// Opens the destinations of these names. With `each`, [`Self::refused`] says which events of a
    /// batch were refused.
    ///
    /// # Errors
    /// In words, what could not be opened.
    pub fn start(config: &Config, names: &[String], each: bool) -> Result<Self, String> {
        let ledger = Ledger::new();
        let options = QueueOptions {
            durability: Durability::Memory,
            memory_bytes: Some(ByteSize(QUEUE_BYTES)),
            when_full: WhenFull::Block,
            ..config.queue.clone()
        };
        let log = Log::new(options, Arc::clone(&ledger));
        let refusals = Arc::new(RefusalRecorder::default());
        refusals.told().wanted = each;
        let quarantine: Arc<dyn Quarantine> = Arc::clone(&refusals) as _;
        let mut delivery = Self {
            ledger,
            log,
            destinations: Vec::new(),
            refusals,
        };
        for name in names {
            let sink = config.destinations.get(name);
            let sink = sink.ok_or_else(|| format!("there is no destination `{name}`"))?;
            let around = SinkContext {
                log: &delivery.log,
                ledger: &delivery.ledger,
                data_dir: &config.data_dir,
                quarantine: &quarantine,
                descriptors: inrush_transport::process::open_files_max(),
                kept: None,
            };
            let started = RunningDestination::start(name, sink, &around)?;
            delivery.destinations.push(started);
        }
        Ok(delivery)
    }

    /// Returns a view of it for other threads.
    pub fn view(&self) -> DeliveryView {
        let status = |one: &RunningDestination| (one.name.clone(), Arc::clone(&one.status));
        DeliveryView {
            log: Arc::clone(&self.log),
            ledger: Arc::clone(&self.ledger),
            statuses: self.destinations.iter().map(status).collect(),
        }
    }

    /// Sends a batch; waits for room. Says whether it was taken: not once it was stopped.
    pub fn send(&self, batch: Batch) -> bool {
        let events = batch.len() as u64;
        let bytes = batch.raw_bytes();
        if events == 0 {
            return true;
        }
        let counters = self.ledger.source(&batch.source().name);
        let accept = || {
            counters.received.add(events);
            counters.received_bytes.add(bytes);
            counters.accepted.add(events);
        };
        self.log.append(batch, false, accept).is_ok()
    }

    /// Waits until nothing is pending, or so long; says whether it is so.
    pub fn wait(&self, at_most: Duration) -> bool {
        self.log.wait_empty(Instant::now() + at_most)
    }

    /// True if the thread of a destination has ended, so that waiting for it is of no use.
    pub fn is_broken(&self) -> bool {
        self.destinations.iter().any(RunningDestination::ended)
    }

    /// Takes the indexes of events refused since the last call, by the sequence of their batch.
    pub fn refused(&self) -> HashMap<u64, Vec<u32>> {
        std::mem::take(&mut self.refusals.told().events)
    }

    /// Ends the destinations. What is pending counts as dropped.
    pub fn finish(self) -> DeliveryReport {
        self.log.close();
        self.destinations
            .iter()
            .for_each(RunningDestination::ask_to_stop);
        self.destinations
            .into_iter()
            .for_each(RunningDestination::stop);
        for name in self.log.names() {
            self.log.detach(&name, DropReason::Shutdown);
        }
        let told = self.refusals.told();
        let refused = told.by_reason.iter();
        let refused = refused.map(
            |((destination, reason, code), (text, events))| RefusalCount {
                destination: destination.clone(),
                reason: reason.clone(),
                code: *code,
                text: text.clone(),
                events: *events,
            },
        );
        DeliveryReport {
            ledger: self.ledger.snapshot(),
            refused: refused.collect(),
        }
    }
}
