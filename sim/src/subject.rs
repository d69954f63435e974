//! The log under test, as the run drives it: without threads, one step at a time.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use inrush_event::{
    Batch, Delivery, DestinationCounters, DestinationQueue, DropReason, Fate, Ledger, PositionList,
    SourceInfo, StreamPosition,
};
use inrush_queue::storage::VirtualDisk;
use inrush_queue::{
    AppendError, DestinationBacklog, FinishedRound, Log, LogId, QueueOptions, Reclaiming,
    SyncingRound, TryAppend, WrittenRound,
};

/// State of the round that the writer has in hand.
pub(crate) enum RoundPhase {
    Begun(inrush_queue::CommitRound),
    Written(WrittenRound),
    Syncing(SyncingRound),
    Run(FinishedRound),
}

/// Answer of the log to a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AppendOutcome {
    /// Taken; the position behind it.
    Taken(u64),
    /// Not taken, and never will be.
    Refused,
    /// There is no room now.
    Full,
}

pub(crate) struct LogUnderTest {
    log: Arc<Log>,
}

impl LogUnderTest {
    /// Starts a process on what is on the disk.
    ///
    /// # Errors
    /// The disk fails.
    pub(crate) fn open(
        disk: &VirtualDisk,
        options: &QueueOptions,
        ledger: &Arc<Ledger>,
    ) -> io::Result<Self> {
        let fresh = LogId::from_bytes(*b"a simulated log!");
        let (options, ledger) = (options.clone(), Arc::clone(ledger));
        let log = match options.durability.has_disk() {
            true => Log::open_on(Arc::new(disk.clone()), options, ledger, fresh)?,
            false => Log::new(options, ledger),
        };
        Ok(Self { log })
    }

    pub(crate) fn log(&self) -> &Arc<Log> {
        &self.log
    }

    pub(crate) fn append(
        &self,
        batch: Batch,
        gathered: Duration,
        urgent: bool,
        accept: impl FnOnce(),
        now: Instant,
    ) -> AppendOutcome {
        match self.log.try_append(batch, gathered, urgent, now, accept) {
            Ok(position) => AppendOutcome::Taken(position + 1),
            Err(TryAppend::Refused(AppendError::Full | AppendError::Closed)) => {
                AppendOutcome::Refused
            }
            Err(TryAppend::WouldBlock) => AppendOutcome::Full,
        }
    }

    /// Appends the position of a stream without a batch; `false`: the log is closed.
    pub(crate) fn note_position(&self, source: &Arc<SourceInfo>, position: StreamPosition) -> bool {
        let positions: PositionList = std::iter::once(position).collect();
        let positions = positions.freeze().unwrap_or_default();
        self.log.append_positions(source, positions).is_ok()
    }

    pub(crate) fn durable_end(&self) -> u64 {
        self.log.durable_end()
    }

    pub(crate) fn begin_round(&self, now: Instant) -> Option<inrush_queue::CommitRound> {
        self.log.begin_round(now)
    }

    pub(crate) fn finish_round(&self, done: FinishedRound, now: Instant) {
        self.log.finish_round(done, now);
    }

    pub(crate) fn begin_syncing(&self, written: WrittenRound) -> RoundPhase {
        RoundPhase::Syncing(self.log.begin_syncing(written))
    }

    pub(crate) fn write_more(&self, syncing: &mut SyncingRound) {
        self.log.write_more(syncing);
    }

    pub(crate) fn begin_reclaiming(&self, sync: bool) -> Reclaiming {
        self.log
            .begin_reclaiming(inrush_event::Timestamp::now(), sync)
    }

    pub(crate) fn go_on_reclaiming(&self, work: Reclaiming) -> Option<Reclaiming> {
        self.log.go_on_reclaiming(work)
    }

    pub(crate) fn next(&self, name: &str, now: Instant) -> Option<Delivery> {
        self.log.try_take(name, now)
    }

    pub(crate) fn settle(
        &self,
        name: &str,
        position: u64,
        events: Range<u32>,
        fate: Fate,
        now: Instant,
    ) {
        self.log.settle_now(name, position, events, &fate, now);
    }

    pub(crate) fn attach(&self, counters: &Arc<DestinationCounters>, queue: DestinationQueue) {
        self.log.attach(counters);
        self.log.limit(&counters.name, queue);
    }

    pub(crate) fn limit(&self, name: &str, queue: DestinationQueue) {
        self.log.limit(name, queue);
    }

    pub(crate) fn backlogs(&self) -> Vec<DestinationBacklog> {
        self.log.backlogs()
    }

    pub(crate) fn detach(&self, name: &str) {
        self.log.detach(name, DropReason::Removed);
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.log.names()
    }

    pub(crate) fn reconfigure(&self, options: &QueueOptions) {
        self.log.reconfigure(options.clone());
    }
}

/// The file of a destination's cursor.
pub(crate) fn cursor_file(destination: &str) -> String {
    let byte = |byte: u8| match byte.is_ascii_alphanumeric() {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02x}"),
    };
    format!(
        "cursor-{}",
        destination.bytes().map(byte).collect::<String>()
    )
}
