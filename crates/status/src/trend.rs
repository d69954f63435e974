//! Trend of the last minute: forecast of a full queue or backlog, and account of recent losses.
//!
//! # What it guarantees
//! * Growth is the lower of two rates, of bytes and of pending events: a filling segment is none.
//! * A disk budget that shrinks brings the forecast nearer, since other files use the same disk.
//! * An empty datagram and a peer of another protocol are no loss.
//!
//! # States
//! A loss is recent until it has not grown for `QUIET`. Its next growth begins a new spell at zero.
//!
//! # Limits
//! `SAMPLES_MAX` samples, one a second; a forecast needs `SAMPLES_MIN` of them and reaches
//! `AHEAD_MAX_S` ahead. Each source and destination of the ledger has three loss rows for good.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use inrush_event::{LedgerSnapshot, Record, Timestamp};
use inrush_queue::{DestinationBacklog, QueueLevels};
use inrush_tail::listing::FileListing;

/// Samples kept: a minute of them, and the one before.
const SAMPLES_MAX: usize = 61;

/// With fewer samples nothing is said about the future.
const SAMPLES_MIN: usize = 20;

/// Seconds that a forecast reaches ahead, at most: by then everything is different.
const AHEAD_MAX_S: f64 = 30.0 * 86_400.0;

/// So long after the last loss its alarm ends.
const QUIET: Duration = Duration::from_secs(300);

/// One second.
struct TrendSample {
    at: Instant,
    /// Bytes used of the budget that runs out first, and that budget.
    used: u64,
    max: u64,
    /// Events pending for the destination that has the most.
    pending: u64,
    /// Bytes that an event takes in the queue, about: the mean of those received, and a record.
    event_bytes: u64,
    /// Name of each destination, bytes of its backlog, and its pending events.
    backlogs: Vec<(String, u64, u64)>,
}

/// Something that is lost or put aside.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum LossKind {
    /// Datagrams, by the kernel, at a source.
    KernelDropped,
    /// Events, at a source, for want of room.
    Rejected,
    /// Bytes that are in no event, at a source.
    Cut,
    /// Bytes of files that were deleted unread, at a source.
    RotatedAway,
    /// Files that were deleted before they could be opened, at a source.
    MissedFiles,
    /// Events, for a destination, for good.
    Dropped,
    /// Events that a destination refused.
    Quarantined,
    /// Events that a store deleted to make room on its disk.
    DeletedForRoom,
}

/// A loss of late.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct GrowingLoss {
    pub kind: LossKind,
    /// The source or destination.
    pub name: String,
    /// Time at which this spell of it began.
    pub since: Timestamp,
    /// Datagrams, events, bytes or files since then, by its kind.
    pub count: u64,
}

#[derive(Default)]
struct LossHistory {
    total: u64,
    /// The total before the present spell.
    before: u64,
    since: Timestamp,
    last: Option<Instant>,
}

/// The last minute of the queue, and what has been lost.
#[derive(Default)]
pub(crate) struct Trend {
    /// The oldest first.
    samples: VecDeque<TrendSample>,
    /// By kind and name; as many as the ledger has rows.
    grown: HashMap<(LossKind, String), LossHistory>,
}

/// Used and allowed: of the disk if there is one, else of the memory.
fn budget(levels: &QueueLevels) -> (u64, u64) {
    match levels.disk_bytes_max {
        0 => (levels.bytes, levels.bytes_max),
        max => (levels.disk_bytes, max),
    }
}

impl Trend {
    /// Takes note of one second.
    pub(crate) fn note(
        &mut self,
        ledger: &LedgerSnapshot,
        levels: &QueueLevels,
        backlogs: &[DestinationBacklog],
        now: Instant,
    ) {
        let pending = |name: &str| ledger.destinations.get(name).map_or(0, |row| row.pending);
        let sum = |of: fn(&inrush_event::SourceSnapshot) -> u64| {
            ledger.sources.values().map(of).sum::<u64>()
        };
        let (events, bytes) = (sum(|row| row.received), sum(|row| row.received_bytes));
        if self.samples.len() >= SAMPLES_MAX {
            self.samples.pop_front();
        }
        let (used, max) = budget(levels);
        self.samples.push_back(TrendSample {
            at: now,
            used,
            max,
            pending: ledger
                .destinations
                .values()
                .map(|row| row.pending)
                .max()
                .unwrap_or(0),
            event_bytes: bytes / events.max(1) + size_of::<Record>() as u64,
            backlogs: backlogs
                .iter()
                .map(|one| {
                    (
                        one.destination.clone(),
                        one.bytes,
                        pending(&one.destination),
                    )
                })
                .collect(),
        });
        for (kind, name, total) in losses(ledger) {
            self.note_loss((kind, name.to_owned()), total, Timestamp(ledger.at_ns), now);
        }
    }

    /// Takes note of what a source could not read of its files before they were deleted.
    pub(crate) fn note_files(&mut self, source: &str, files: &FileListing, now: Instant) {
        for (kind, total) in [
            (LossKind::RotatedAway, files.rotated_away_unread_bytes),
            (LossKind::MissedFiles, files.missed_generations),
        ] {
            self.note_loss((kind, source.to_owned()), total, Timestamp::now(), now);
        }
    }

    fn note_loss(&mut self, key: (LossKind, String), total: u64, at: Timestamp, now: Instant) {
        let grown = self.grown.entry(key).or_default();
        if total <= grown.total {
            return;
        }
        let goes_on = grown
            .last
            .is_some_and(|last| now.saturating_duration_since(last) < QUIET);
        if !goes_on {
            (grown.before, grown.since) = (grown.total, at);
        }
        (grown.total, grown.last) = (total, Some(now));
    }

    /// Losses of the last minutes ([`QUIET`]), sorted by name.
    pub(crate) fn growing(&self, now: Instant) -> impl Iterator<Item = GrowingLoss> {
        let recent = self.grown.iter().filter(move |(_, grown)| {
            let last = grown.last;
            last.is_some_and(|last| now.saturating_duration_since(last) < QUIET)
        });
        let mut recent: Vec<_> = recent
            .map(|((kind, name), grown)| GrowingLoss {
                kind: *kind,
                name: name.clone(),
                since: grown.since,
                count: grown.total - grown.before,
            })
            .collect();
        recent.sort_by(|a, b| a.name.cmp(&b.name));
        recent.into_iter()
    }

    /// Seconds until the queue is full, if it goes on as in the last minute.
    ///
    /// Segments leave the disk as wholes, so its level is a saw: the lowest points of the two
    /// halves of the minute are compared, and the level may rise no faster than what is pending
    /// does. What the queue may take beyond its own shrinks while others take of the same disk.
    pub(crate) fn full_in_s(&self, levels: &QueueLevels) -> Option<u64> {
        let (used, max) = budget(levels);
        let grows = self.grows_by(&|sample| sample.used, &|sample| sample.pending)?;
        let own = levels.disk_budget;
        // Its own stays its own, whatever others take.
        let own_s = match used < own && own < max {
            true => own.saturating_sub(used) as f64 / grows,
            false => 0.0,
        };
        // Nothing comes near it while it does not grow, unless it is beyond its own.
        let nears = grows > 0.0 || own > 0 && used > own;
        let closer = grows + self.shrinks_by()?;
        if !nears || closer <= 0.0 {
            return None;
        }
        ahead(own_s.max(max.saturating_sub(used) as f64 / closer))
    }

    /// Seconds until a destination has used its room, if it goes on as in the last minute.
    pub(crate) fn backlog_full_in_s(&self, backlog: &DestinationBacklog) -> Option<u64> {
        let row = |sample: &TrendSample| {
            let mut rows = sample.backlogs.iter();
            let row = rows.find(|(name, ..)| *name == backlog.destination);
            row.map_or((0, 0), |(_, bytes, pending)| (*bytes, *pending))
        };
        let left = backlog.bytes_max.saturating_sub(backlog.bytes) as f64;
        let grows = self.grows_by(&|sample| row(sample).0, &|sample| row(sample).1)?;
        ahead(left / grows)
    }

    /// Bytes a second by which a level rises; `None` before much is known.
    fn grows_by(
        &self,
        level: &dyn Fn(&TrendSample) -> u64,
        pending: &dyn Fn(&TrendSample) -> u64,
    ) -> Option<f64> {
        let (half, apart_s) = self.halves()?;
        let lowest = |of: &dyn Fn(&TrendSample) -> u64| {
            let first = self.samples.range(..half).map(of).min()?;
            let second = self.samples.range(half..).map(of).min()?;
            Some(second.saturating_sub(first))
        };
        let event_bytes = self.samples.back()?.event_bytes;
        let by_level = lowest(level)?;
        let by_events = lowest(pending)?.saturating_mul(event_bytes);
        Some(by_level.min(by_events) as f64 / apart_s)
    }

    /// Bytes a second by which the budget shrinks. What is written beside and goes again, such as
    /// what a merge of files has replaced, is no loss: the highest points are compared.
    fn shrinks_by(&self) -> Option<f64> {
        let (half, apart_s) = self.halves()?;
        let first = self.samples.range(..half).map(|sample| sample.max).max()?;
        let second = self.samples.range(half..).map(|sample| sample.max).max()?;
        Some(first.saturating_sub(second) as f64 / apart_s)
    }

    /// The index at which the second half of the samples begins, and its seconds behind the first.
    fn halves(&self) -> Option<(usize, f64)> {
        if self.samples.len() < SAMPLES_MIN {
            return None;
        }
        let half = self.samples.len() / 2;
        let apart = self.samples[half].at - self.samples.front()?.at;
        Some((half, apart.as_secs_f64().max(0.1)))
    }
}

/// Seconds until something is reached, if that is near enough to be said.
fn ahead(seconds: f64) -> Option<u64> {
    (seconds <= AHEAD_MAX_S).then_some(seconds as u64)
}

/// Reasons of what reached a source and is no event, so that it is no loss.
fn is_no_event(reason: &str) -> bool {
    use inrush_event::RejectReason::{Empty, Http, TlsOnPlain, UntrustedProxy};
    [Empty, Http, TlsOnPlain, UntrustedProxy]
        .iter()
        .any(|one| one.name() == reason)
}

/// Totals of what is lost or put aside, by kind and by name. An empty datagram is no loss.
fn losses(ledger: &LedgerSnapshot) -> impl Iterator<Item = (LossKind, &str, u64)> {
    let sources = ledger.sources.iter().flat_map(|(name, row)| {
        let rejected = row
            .rejected
            .iter()
            .filter(|(reason, _)| !is_no_event(reason));
        [
            (LossKind::KernelDropped, &**name, row.kernel_dropped),
            (
                LossKind::Rejected,
                &**name,
                rejected.map(|(_, n)| n).sum::<u64>(),
            ),
            (LossKind::Cut, &**name, row.cut_bytes.values().sum::<u64>()),
        ]
    });
    let destinations = ledger.destinations.iter().flat_map(|(name, row)| {
        [
            (
                LossKind::Dropped,
                &**name,
                row.dropped.values().sum::<u64>(),
            ),
            (
                LossKind::Quarantined,
                &**name,
                row.quarantined.values().sum::<u64>(),
            ),
            (LossKind::DeletedForRoom, &**name, row.deleted_for_room()),
        ]
    });
    sources.chain(destinations)
}

#[cfg(test)]
mod tests {
    use super::*;
    use inrush_event::{DropReason, Ledger, RejectReason};

    const SECOND: Duration = Duration::from_secs(1);

    fn levels(disk_bytes: u64) -> QueueLevels {
        QueueLevels {
            bytes: 0,
            bytes_max: 1000,
            batches: 0,
            disk_bytes,
            disk_bytes_max: 100_000_000,
            disk_budget: 100_000_000,
            segments: 1,
            stall: None,
        }
    }

    /// A minute with this level and so many events of 912 bytes pending at each second.
    fn minute(level: impl Fn(u64) -> u64, pending: impl Fn(u64) -> u64) -> Option<u64> {
        let ledger = Ledger::new();
        let (source, destination) = (ledger.source("s"), ledger.destination("d"));
        source.received.add(10);
        source
            .received_bytes
            .add(10 * (1000 - size_of::<Record>() as u64));
        let mut trend = Trend::default();
        let start = Instant::now();
        for second in 0..100 {
            destination.pending.set(pending(second));
            let now = start + second as u32 * SECOND;
            trend.note(&ledger.snapshot(), &levels(level(second)), &[], now);
        }
        assert_eq!(trend.samples.len(), SAMPLES_MAX);
        trend.full_in_s(&levels(level(99)))
    }

    #[test]
    fn a_queue_that_fills_says_when_it_is_full() {
        // 100 MB at 1 MB a second, of which 99 are there.
        let level = |second| second * 1_000_000;
        assert_eq!(minute(level, |second| second * 1000), Some(1));
        let half = |second| second * 500_000;
        assert_eq!(minute(half, |second| second * 500), Some(101));
    }

    /// The same where the queue may take `max` bytes at each second, of which 20 MB are its own.
    fn beyond(max: impl Fn(u64) -> u64, level: impl Fn(u64) -> u64) -> Option<u64> {
        let ledger = Ledger::new();
        let destination = ledger.destination("d");
        let mut trend = Trend::default();
        let start = Instant::now();
        let levels = |second| QueueLevels {
            disk_bytes_max: max(second),
            disk_budget: 20_000_000,
            ..levels(level(second))
        };
        for second in 0..100 {
            destination.pending.set(second * 1_000_000);
            let now = start + second as u32 * SECOND;
            trend.note(&ledger.snapshot(), &levels(second), &[], now);
        }
        trend.full_in_s(&levels(99))
    }

    #[test]
    fn what_others_take_of_the_disk_brings_the_end_nearer() {
        let shrinks = |second| 1_000_000_000 - second * 3_000_000;
        let grows = |second| 30_000_000 + second * 1_000_000;
        // 703 MB are allowed and 129 used: 574 at 1 and 3 MB a second.
        assert_eq!(beyond(shrinks, grows), Some(143));
        assert_eq!(beyond(shrinks, |_| 30_000_000), Some(224), "only they grow");
        assert_eq!(beyond(shrinks, |_| 10_000_000), None, "it has its own");
        // 10 MB of its own at 0.1 MB a second, whatever they take.
        let slow = |second| 100_000 + second * 100_000;
        assert_eq!(
            beyond(|second| 22_000_000 - second * 20_000, slow),
            Some(100)
        );
    }

    #[test]
    fn a_merge_that_takes_room_for_a_while_is_no_loss_of_it() {
        let dips = |second: u64| 1_000_000_000 - (second % 7) * 50_000_000;
        let held = |_| 30_000_000;
        assert_eq!(beyond(dips, held), None);
    }

    #[test]
    fn a_queue_that_is_emptied_is_not_going_to_be_full() {
        let falling = |second: u64| 99_000_000 - second * 900_000;
        assert_eq!(minute(falling, |second| 99_000 - second * 900), None);
        assert_eq!(minute(|_| 50_000_000, |_| 50_000), None, "it stands still");
    }

    #[test]
    fn the_saw_of_segments_is_no_growth() {
        // A segment of 16 MB fills in 32 seconds and goes.
        let saw = |second: u64| (second % 32) * 500_000;
        assert_eq!(minute(saw, |_| 40), None);
        // One that takes longer than a minute, while nothing is pending for long.
        let slow = |second: u64| second * 100_000;
        assert_eq!(minute(slow, |second| 10 + second % 7), None);
        // What is pending rises a little: the level cannot fill faster than that.
        let far = minute(slow, |second| 10 + second / 3);
        assert!(far.is_some_and(|seconds| seconds > 100_000), "{far:?}");
    }

    #[test]
    fn a_backlog_with_a_limit_of_its_own_says_when_it_is_reached() {
        let ledger = Ledger::new();
        let destination = ledger.destination("dead");
        let mut trend = Trend::default();
        let start = Instant::now();
        let backlog = |name: &str, bytes| DestinationBacklog {
            destination: name.to_owned(),
            bytes,
            bytes_max: 100_000_000,
            when_full: inrush_queue::WhenFull::Block,
            full: false,
            abandoned: false,
        };
        for second in 0..60 {
            destination.pending.set(second * 100_000);
            let backlogs = [
                backlog("dead", second * 1_000_000),
                backlog("well", 5_000_000),
            ];
            let now = start + second as u32 * SECOND;
            trend.note(&ledger.snapshot(), &levels(0), &backlogs, now);
        }
        let full_in = |name, bytes| trend.backlog_full_in_s(&backlog(name, bytes));
        assert_eq!(full_in("dead", 40_000_000), Some(60));
        assert_eq!(full_in("well", 5_000_000), None);
    }

    #[test]
    fn nothing_is_foretold_without_a_past() {
        let ledger = Ledger::new();
        let mut trend = Trend::default();
        assert_eq!(trend.full_in_s(&levels(0)), None);
        let destination = ledger.destination("d");
        let start = Instant::now();
        for second in 0..SAMPLES_MIN as u64 {
            let level = levels(second * 1_000_000);
            assert_eq!(trend.full_in_s(&level), None, "after {second} seconds");
            destination.pending.set(second * 100_000);
            let at = start + second as u32 * SECOND;
            trend.note(&ledger.snapshot(), &level, &[], at);
        }
        assert_eq!(trend.full_in_s(&levels(90_000_000)), Some(10));
    }

    #[test]
    fn files_that_were_deleted_unread_and_unopened_are_losses_of_their_own() {
        let (mut trend, now) = (Trend::default(), Instant::now());
        let files = FileListing {
            rotated_away_unread_bytes: 7,
            missed_generations: 2,
            ..FileListing::default()
        };
        trend.note_files("quiet", &FileListing::default(), now);
        trend.note_files("pods", &files, now);
        let growing = trend.growing(now);
        let mut found: Vec<_> = growing
            .map(|loss| (loss.name, loss.kind, loss.count))
            .collect();
        found.sort_by_key(|(.., count)| *count);
        let pods = |kind, count| ("pods".to_owned(), kind, count);
        let wanted = [
            pods(LossKind::MissedFiles, 2),
            pods(LossKind::RotatedAway, 7),
        ];
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_loss_is_recent_for_some_minutes_and_a_new_spell_counts_anew() {
        let ledger = Ledger::new();
        let (source, destination) = (ledger.source("s"), ledger.destination("d"));
        let mut trend = Trend::default();
        let start = Instant::now();
        let mut at = |seconds: u32| {
            let now = start + seconds * SECOND;
            trend.note(&ledger.snapshot(), &levels(0), &[], now);
            trend.growing(now).collect::<Vec<_>>()
        };
        source.rejected(RejectReason::Empty).add(5);
        assert_eq!(at(0), [], "an empty datagram is no loss");
        source.kernel_dropped.add(3);
        let first = at(1);
        assert_eq!(
            (first[0].kind, first[0].count),
            (LossKind::KernelDropped, 3)
        );
        source.kernel_dropped.add(4);
        let second = at(200);
        assert_eq!((second[0].since, second[0].count), (first[0].since, 7));
        assert_eq!(at(499).len(), 1);
        assert_eq!(at(500), [], "it is quiet");
        destination.dropped(DropReason::Corrupt).add(1);
        source.kernel_dropped.add(1);
        let third = at(501);
        assert_eq!(third.len(), 2);
        assert_eq!((third[0].kind, third[0].count), (LossKind::Dropped, 1));
        assert_eq!((third[1].count, third[1].name.as_str()), (1, "s"));
    }
}
