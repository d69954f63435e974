//! Inputs of retention from outside the store: the believed time, and the room on the disk.
//!
//! # What it guarantees
//! * Ages are counted by a clock that one wrong time does not move, see
//!   [`inrush_event::WallClock`]. What was believed of the time is kept in `_log/clock`, so that a
//!   restart with a wrong clock is noticed.
//! * A store deletes for room only what is older than [`WriteOptions::min_age`], and only where
//!   its own files are too many: what the queue has a budget for is left free for it, and what
//!   the queue takes of that is no reason to delete.
//! * With nothing old enough to delete, nothing is written any more once half of what is left free
//!   is used. The events stay in the queue.

use std::io::{self, ErrorKind::InvalidData, ErrorKind::NotFound};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use inrush_event::{ByteSize, ClockJudgement, ClockLag, Timestamp, WallClock};
use serde::{Deserialize, Serialize};

use crate::chance::{now, steady};
use crate::decode::insist;
use crate::home::DurableStorage;
use crate::options::WriteOptions;

/// Path of the object that keeps the last believed time.
pub(crate) const CLOCK: &str = "_log/clock";
/// Bytes of it at most; what is longer is not ours.
const CLOCK_BYTES_MAX: u64 = 4096;
/// Interval between two writes of it, if the doubt and the last span stay the same.
const CLOCK_EVERY: Duration = Duration::from_secs(60 * 60);
/// Of a file system, one part in so many is left free at most, unless more is asked for.
const FREE_PART: u64 = 20;
/// Bytes that are left free at most, unless more is asked for.
const FREE_BYTES_MAX: u64 = 4 << 30;

/// Bytes of the file system of a store's folder that others may still take, by their budgets.
pub type ReservedBytes = Box<dyn Fn(&Path) -> u64 + Send + Sync>;

/// The room on a store's file system, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DiskHeadroom {
    /// Bytes that are free.
    pub free: u64,
    /// Of that, what others have a budget for and have not taken.
    pub claimed: u64,
    /// Bytes that are to stay free beside the claimed ones.
    pub least: u64,
    /// Bytes that are missing, for which retention found nothing old enough to delete.
    pub short: u64,
}

impl DiskHeadroom {
    /// Bytes that are to be deleted.
    pub(crate) fn wanted(&self) -> u64 {
        let least = self.least.saturating_add(self.claimed);
        least.saturating_sub(self.free)
    }

    /// Reason to write nothing, if less than half of `least` is free.
    fn hold(&self) -> Option<String> {
        (self.free < self.least / 2).then(|| {
            let (free, least) = (ByteSize(self.free), ByteSize(self.least));
            format!(
                "{free} of the disk is free, less than half of the {least} that the store leaves \
                 (`free`), and nothing is old enough to be deleted (`min_age`)"
            )
        })
    }
}

/// Bytes to leave free of a file system of `total` bytes: those asked for, or the default.
pub fn free_least(asked: Option<u64>, total: u64) -> u64 {
    asked.unwrap_or_else(|| FREE_BYTES_MAX.min(total / FREE_PART))
}

#[derive(Serialize, Deserialize)]
struct ClockCheckpoint {
    at_ms: i64,
    doubted: bool,
    /// Spans in which the clock was behind: the first and the last wrong time, and by how much, in
    /// nanoseconds.
    #[serde(default)]
    behind: Vec<(i64, i64, i64)>,
}

impl ClockCheckpoint {
    fn spans(&self) -> Vec<ClockLag> {
        let span = |&(from_ns, to_ns, by_ns): &(i64, i64, i64)| ClockLag {
            from_ns,
            to_ns,
            by_ns,
        };
        self.behind.iter().map(span).collect()
    }
}

struct ClockState {
    clock: WallClock,
    judged: ClockJudgement,
    /// Time of the last write, by the steady clock, and what was in the file that does not change
    /// all the time.
    written: Option<(Duration, ClockDoubt)>,
}

/// The spans that [`CLOCK`] holds, of these bytes.
#[cfg(feature = "simulation")]
pub(crate) fn spans_kept(bytes: &[u8]) -> Vec<ClockLag> {
    let kept = serde_json::from_slice::<ClockCheckpoint>(bytes);
    kept.map_or_else(|_| Vec::new(), |kept| kept.spans())
}

/// True if the clock is doubted; and the beginning of the last span in which it was behind.
type ClockDoubt = (bool, Option<i64>);

fn known(clock: &WallClock) -> ClockDoubt {
    let last = clock.spans().last();
    (clock.is_doubted(), last.map(|span| span.from_ns))
}

/// State of the clock and of the disk room, shared by ingestion and upkeep.
pub(crate) struct RetentionInputs {
    watched: Mutex<ClockState>,
    claims: OnceLock<ReservedBytes>,
    /// As retention last saw it; `None` where there is no file system, or before.
    room: Mutex<Option<DiskHeadroom>>,
    /// Events that are too old by the wall clock, and are kept since it is doubted.
    held_back: Mutex<u64>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RetentionInputs {
    /// `newest_ns`: when the newest event was received that files hold.
    ///
    /// # Errors
    /// The believed time cannot be read just now: a wrong clock would be believed.
    pub(crate) fn open(home: &DurableStorage, newest_ns: Option<i64>) -> io::Result<Self> {
        let (wall, steady) = (now(), steady());
        let kept = match insist(|| home.get(CLOCK, CLOCK_BYTES_MAX)) {
            Ok(bytes) => serde_json::from_slice::<ClockCheckpoint>(&bytes).ok(),
            Err(error) if matches!(error.kind(), NotFound | InvalidData) => None,
            Err(error) => return Err(error),
        };
        // Without the file, an event that is newer than the clock says nothing.
        let newest = newest_ns.filter(|newest| *newest <= wall.0);
        let spans = kept.as_ref().map_or_else(Vec::new, ClockCheckpoint::spans);
        let known = match kept {
            Some(kept) => Some((
                Timestamp(kept.at_ms.saturating_mul(1_000_000)),
                kept.doubted,
            )),
            None => newest.map(|newest| (Timestamp(newest), false)),
        };
        let mut clock = WallClock::new(known, wall, steady);
        clock.remember(spans);
        let judged = clock.judge(wall, steady);
        Ok(Self {
            watched: Mutex::new(ClockState {
                clock,
                judged,
                written: None,
            }),
            claims: OnceLock::new(),
            room: Mutex::default(),
            held_back: Mutex::default(),
        })
    }

    /// Says what others may take; once, before the store is written to.
    pub(crate) fn set_claims(&self, claims: ReservedBytes) {
        // A second time would be a fault, and harmless.
        let _ = self.claims.set(claims);
    }

    /// The time now.
    pub(crate) fn time(&self) -> ClockJudgement {
        let mut watched = lock(&self.watched);
        let before = watched.judged;
        watched.judged = watched.clock.judge(now(), steady());
        let now = watched.judged;
        drop(watched);
        tell(&before, &now);
        now
    }

    /// The believed time of receipt of something that the wall clock has stamped so.
    pub(crate) fn mended(&self, received_ns: i64) -> i64 {
        self.time();
        lock(&self.watched).clock.mended(Timestamp(received_ns)).0
    }

    /// Writes down what is believed of the time, where that is due.
    pub(crate) fn keep_time(&self, home: &DurableStorage, at_once: bool) {
        let watched = lock(&self.watched);
        let (now, known) = (steady(), known(&watched.clock));
        let fresh = watched.written.is_some_and(|(at, was)| {
            was == known && !at_once && now.saturating_sub(at) < CLOCK_EVERY
        });
        if fresh {
            return;
        }
        let span = |span: &ClockLag| (span.from_ns, span.to_ns, span.by_ns);
        let believed = ClockCheckpoint {
            at_ms: watched.judged.expected().0 / 1_000_000,
            doubted: watched.clock.is_doubted(),
            behind: watched.clock.spans().iter().map(span).collect(),
        };
        drop(watched);
        let bytes = serde_json::to_vec(&believed).map_err(io::Error::from);
        let written = bytes.and_then(|bytes| home.put(CLOCK, Bytes::from(bytes)));
        match written {
            Ok(()) => lock(&self.watched).written = Some((now, known)),
            Err(error) => tracing::debug!(%error, "store: the time cannot be written down"),
        }
    }

    /// The room of the store's file system; `None` if it is on none, or the system does not say.
    pub(crate) fn look_for_room(
        &self,
        home: &DurableStorage,
        options: &WriteOptions,
    ) -> Option<DiskHeadroom> {
        let folder = home.as_folder()?;
        let space = home.space()?;
        Some(DiskHeadroom {
            free: space.free,
            claimed: self.claims.get().map_or(0, |claims| claims(folder)),
            least: free_least(options.free_bytes, space.total),
            short: 0,
        })
    }

    /// Fails if there is no room to write in.
    ///
    /// # Errors
    /// [`io::ErrorKind::StorageFull`].
    pub(crate) fn may_write(
        &self,
        home: &DurableStorage,
        options: &WriteOptions,
    ) -> io::Result<()> {
        let room = self.look_for_room(home, options);
        match room.and_then(|room| room.hold()) {
            Some(why) => Err(io::Error::new(io::ErrorKind::StorageFull, why)),
            None => Ok(()),
        }
    }

    pub(crate) fn note_room(&self, room: Option<DiskHeadroom>) {
        *lock(&self.room) = room;
    }

    pub(crate) fn room(&self) -> Option<DiskHeadroom> {
        *lock(&self.room)
    }

    pub(crate) fn note_held_back(&self, events: u64) {
        *lock(&self.held_back) = events;
    }

    /// The time as last judged, and how many events are kept because it is doubted.
    pub(crate) fn doubts(&self) -> (ClockJudgement, u64) {
        (lock(&self.watched).judged, *lock(&self.held_back))
    }
}

/// Says when the clock begins to be doubted, and when that ends.
fn tell(before: &ClockJudgement, now: &ClockJudgement) {
    match (before.believed_in, now.believed_in) {
        (None, Some(left)) => {
            let (off_s, believed_in_s) = (now.off_ns / 1_000_000_000, left.as_secs());
            tracing::warn!(
                off_s,
                believed_in_s,
                "store: the system clock jumped; events are kept by the time before the jump until \
                 the clock has gone on from it for a day, or is set right"
            );
        }
        (Some(_), None) => {
            tracing::info!("store: the system clock is believed again");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_free_follows_the_disk() {
        const GIB: u64 = 1 << 30;
        assert_eq!(free_least(None, GIB), GIB / 20);
        assert_eq!(free_least(None, 10 * GIB), GIB / 2);
        assert_eq!(free_least(None, 1000 * GIB), 4 * GIB);
        assert_eq!(free_least(Some(7), GIB), 7);
    }

    #[test]
    fn what_the_queue_takes_of_its_budget_is_no_reason_to_delete() {
        let room = |free, claimed| DiskHeadroom {
            free,
            claimed,
            least: 50,
            short: 0,
        };
        assert_eq!(room(250, 200).wanted(), 0);
        assert_eq!(room(50, 0).wanted(), 0, "the queue has taken all of it");
        assert_eq!(room(249, 200).wanted(), 1, "the store has grown");
        assert_eq!(room(25, 0).hold(), None);
        assert!(
            room(24, 0)
                .hold()
                .is_some_and(|why| why.contains("min_age"))
        );
    }
}
