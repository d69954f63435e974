//! Room in the queue, and batches that wait for more: when a worker reads, and when it hands on.

use std::time::{Duration, Instant};

use super::StreamLoop;

/// While the queue has no room, it is looked for this often.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(5);

impl StreamLoop {
    /// Asks the queue whether it has room. While it has none, connections are not read, but those
    /// that can be told to come again.
    pub(super) fn look_for_room(&mut self) {
        if self.room && self.ready.is_empty() && self.waiting.is_empty() {
            return;
        }
        let has_room = self.doors.log.has_room();
        if has_room {
            for key in std::mem::take(&mut self.waiting) {
                if let Some(slot) = self.slots.get_mut(key) {
                    slot.waits = false;
                }
                self.mark_ready(key, false);
            }
        }
        let log = &self.doors.log;
        match (self.room, has_room) {
            (true, false) => log.waits(),
            (false, true) => {
                log.goes_on();
                self.ready.extend(self.parked.drain(..));
            }
            (true, true) | (false, false) => return,
        }
        self.room = !self.room;
    }

    /// Takes note of when a connection is to be read again though nothing comes.
    pub(super) fn look_again(&mut self, key: usize) {
        let Some(slot) = self.slots.get_mut(key) else {
            return;
        };
        let Some(debt) = slot.state.decoder.answering() else {
            return;
        };
        if debt.waits_for_room() && !slot.waits {
            slot.waits = true;
            self.waiting.push(key);
        }
        if let Some(at) = debt.retry_at()
            && slot.retry_at.is_none_or(|known| at < known)
        {
            slot.retry_at = Some(at);
            self.retries.push((at, key));
        }
    }

    /// True if a batch that someone waits for is on its way to the disk.
    pub(super) fn is_behind(&self) -> bool {
        let mut fillers = self.fillers.iter();
        fillers.any(|filler| filler.owed().is_waiting())
    }

    /// True if what someone waits for is held until others have come.
    pub(super) fn hold(&mut self, now: Instant) -> bool {
        let mut fillers = self.fillers.iter();
        let owed = fillers.any(|filler| filler.owed().is_open());
        let behind = self.is_behind();
        let stopping = self.stop_at.is_some();
        self.held_until = match owed && !stopping {
            true => self.gathering.holds(behind, now),
            false => None,
        };
        self.held_until.is_some()
    }
}
