//! Room of the log, as sources see it that can tell their peers to come again, or wait themselves.

use std::time::{Duration, Instant};

use inrush_event::{Timestamp, instant_now, limits};

use crate::log::Log;
use crate::state::LogState;

/// Memory up to which a source that can wait fills it, in eighths of the budget: the rest is for
/// those who cannot.
const PATIENT_EIGHTHS: u64 = 3;

/// Arenas that it fills at least.
const PATIENT_ARENAS_MIN: u64 = 4;

/// While the oldest batch has been in memory for longer, its destination is slow: nobody waits for
/// that. So files are read at 40 MB/s at least, whatever a destination takes.
const PATIENCE_MAX: Duration = Duration::from_millis(500);

/// Room of the log for a source that can wait, because a disk has what it reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PatientRoom {
    /// There is room.
    Free,
    /// There is some for others. What is in memory is about to leave it.
    Soon,
    /// There is none for anybody.
    Full,
}

impl LogState {
    fn patient_room(&mut self, now: Instant) -> PatientRoom {
        if !self.has_room(now) {
            return PatientRoom::Full;
        }
        let pinned = limits::ARENA_BYTES as u64;
        let part = self.options.memory_bytes_max() / 8 * PATIENT_EIGHTHS;
        let is_filled = self.bytes + pinned > part.max(PATIENT_ARENAS_MIN * pinned);
        let is_recent = |came| now.saturating_duration_since(came) <= PATIENCE_MAX;
        match self.disk.is_some() && is_filled && self.oldest_came().is_some_and(is_recent) {
            true => PatientRoom::Soon,
            false => PatientRoom::Free,
        }
    }
}

impl Log {
    /// Room for a full batch of a source that can wait, because a disk has what it reads. Where
    /// destinations take what comes, it fills no more memory than they need; where they are slow,
    /// all that there is, and what is on disk leaves it.
    pub fn patient_room(&self) -> PatientRoom {
        self.lock().patient_room(instant_now())
    }

    /// True if a full batch would be taken now without waiting for room: for sources that can tell
    /// their peer to come again.
    pub fn has_room(&self) -> bool {
        self.lock().has_room(instant_now())
    }

    /// Takes note that a source waits for room, as [`Self::append`] does, until
    /// [`Self::goes_on`].
    pub fn waits(&self) {
        self.lock().block();
    }

    /// A source that waited goes on.
    pub fn goes_on(&self) {
        self.lock().unblock();
    }

    /// Share of the room that is used by the destination that has least left, 0 to 1, among those
    /// that hold up sources when they have none.
    pub fn fill(&self) -> f64 {
        self.lock().fill()
    }

    /// Number of the next event.
    pub fn next_event(&self) -> u64 {
        self.lock().next_event
    }

    /// Number below which every event is settled by every destination that is configured.
    pub fn settled_end(&self) -> u64 {
        let state = self.lock();
        let slots = state.slots.iter();
        let configured = slots.filter(|slot| slot.abandoned_since.is_none());
        let floors = configured.map(|slot| slot.cursor.floor());
        floors.min().unwrap_or(state.next_event)
    }

    /// Since when sources have been waiting for room without a pause; `None` if none waits.
    pub fn blocked_since(&self) -> Option<Timestamp> {
        let since = self.lock().blocked_since;
        since.is_some().then_some(since)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use inrush_event::{Anomalies, BatchPool, ByteSize, Ledger, Origin, Record, SourceInfo, Span};

    use super::*;
    use crate::QueueOptions;
    use crate::arrival::IncomingBatch;

    /// A batch that pins an arena.
    fn batch(pool: &Arc<BatchPool>) -> IncomingBatch {
        let source = Arc::new(SourceInfo {
            name: "files".into(),
            index: "main".into(),
            sourcetype: "file".into(),
        });
        let mut builder = pool.lend(&source, limits::MESSAGE_BYTES_DEFAULT);
        let origin = builder.origin(&Origin::File("/a.log".into()));
        builder.extend(&[b'a'; limits::BATCH_COPY_BYTES]);
        let raw = Span::new(0, limits::BATCH_COPY_BYTES);
        let record = Record::unparsed(raw, Timestamp(8), origin, Anomalies::NONE);
        builder.parts().1.push(record);
        IncomingBatch::new(builder.freeze(3), Duration::ZERO)
    }

    #[test]
    fn who_can_wait_fills_a_part_and_waits_for_what_is_taken_soon() {
        let folder = tempfile::tempdir().unwrap();
        let options = QueueOptions {
            memory_bytes: Some(ByteSize(32 << 20)),
            ..QueueOptions::default()
        };
        let ledger = Ledger::new();
        // It is not started: nothing is written, and nobody takes anything.
        let log = Log::open(folder.path(), options, Arc::clone(&ledger)).unwrap();
        let _feed = log.attach(&ledger.destination("a"));
        let (came, pool) = (instant_now(), log.pool());
        let at = |ms| came + Duration::from_millis(ms);
        let mut state = log.lock();
        state.slots[0].advanced_at = Some(came);
        while state.patient_room(came) == PatientRoom::Free {
            state.push(batch(&pool), 1, false, came);
        }
        let filled = state.bytes;
        assert!((8 << 20..=12 << 20).contains(&filled), "{filled}");
        assert!(state.has_room(came), "there is room for others");
        assert_eq!(
            state.patient_room(at(300)),
            PatientRoom::Full,
            "the disk is late"
        );
        let end = state.end();
        assert_eq!(state.now_durable(end, at(2)).len(), 0);
        assert_eq!(state.patient_room(at(500)), PatientRoom::Soon);
        assert_eq!(
            state.patient_room(at(501)),
            PatientRoom::Free,
            "its destination is slow"
        );
        let (first, _) = state.memory_start();
        assert!(state.settled_position(first).is_some());
        assert_eq!(
            state.patient_room(at(500)),
            PatientRoom::Free,
            "one has left"
        );
    }
}
