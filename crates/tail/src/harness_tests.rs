//! Queue in memory, its one destination, and the context of batch writers: for tests that read real
//! files. Tests of the room `source` have this file too.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use inrush_event::{Delivery, DropReason, Fate, Feed, FeedNext, Ledger};
use inrush_ingest::batch_writer::WorkerContext;
use inrush_ingest::classification::MemoryBudget;
use inrush_ingest::enrichment::Enrichment;
use inrush_ingest::numa::NumaPlacement;
use inrush_ingest::options::{EnrichmentOptions, HostsOptions, PacksOptions};
use inrush_ingest::pool::WorkPool;
use inrush_ingest::unclassified::UnclassifiedTable;
use inrush_queue::{DestinationFeed, Durability, Log, QueueOptions};
use inrush_transport::nodes::NumaNodes;
use tempfile::TempDir;

/// Longest wait of a test for an event or a state; a test that passes ends it much earlier.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `is_so` returns true.
pub(crate) fn wait_for(mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "it is not so");
        thread::yield_now();
    }
}

/// Process around one source, whose events go to the destination `out`.
pub(crate) struct QueueHarness {
    /// Folder of the test.
    pub(crate) folder: TempDir,
    pub(crate) log: Arc<Log>,
    /// Context of batch writers.
    pub(crate) context: WorkerContext,
    /// Knowledge without packs.
    pub(crate) known: Enrichment,
    pub(crate) ledger: Arc<Ledger>,
    feed: Arc<DestinationFeed>,
}

impl QueueHarness {
    /// A process with this queue, in memory.
    pub(crate) fn new(queue: QueueOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::new();
        let durability = Durability::Memory;
        let log = Log::new(
            QueueOptions {
                durability,
                ..queue
            },
            Arc::clone(&ledger),
        );
        let feed = log.attach(&ledger.destination("out"));
        let context = WorkerContext {
            pool: log.pool(),
            log: Arc::clone(&log),
            ledger: Arc::clone(&ledger),
            room: MemoryBudget::new(),
            unknown: UnclassifiedTable::new(),
            pool_threads: WorkPool::new(1),
            near: NumaPlacement::new(NumaNodes::of_process(), log.pool()),
            worker: 0,
        };
        Self {
            context,
            known: knowledge(),
            folder,
            log,
            ledger,
            feed,
        }
    }

    /// Takes a batch and delivers it; `None` if none comes within the wait.
    pub(crate) fn take(&self, wait: Duration) -> Option<Delivery> {
        let FeedNext::Batch(delivery) = self.feed.next(wait) else {
            return None;
        };
        let (position, events) = (delivery.position, delivery.events.clone());
        self.feed.settle(position, events, Fate::Delivered);
        Some(delivery)
    }

    /// Adds the texts of events to `texts`, until there are so many.
    pub(crate) fn fill(&self, texts: &mut Vec<String>, count: usize) {
        while texts.len() < count {
            let Some(delivery) = self.take(PATIENCE) else {
                panic!("{count} texts: {texts:#?}");
            };
            texts.extend(texts_of(&delivery));
        }
    }
}

impl Drop for QueueHarness {
    fn drop(&mut self) {
        self.log.detach("out", DropReason::Shutdown);
    }
}

/// Texts of the events of a batch.
pub(crate) fn texts_of(delivery: &Delivery) -> impl Iterator<Item = String> {
    let batch = &delivery.batch;
    let records = batch.records()[delivery.events.start as usize..].iter();
    records.map(|record| String::from_utf8_lossy(batch.get(record.message)).into_owned())
}

/// Knowledge without packs.
pub(crate) fn knowledge() -> Enrichment {
    let packs = PacksOptions {
        enabled: false,
        ..PacksOptions::default()
    };
    let options = EnrichmentOptions {
        packs: &packs,
        hosts: &HostsOptions::default(),
        transforms: &[],
        routes: &[],
        data_dir: Path::new(""),
    };
    Enrichment::load(options, None).unwrap()
}
