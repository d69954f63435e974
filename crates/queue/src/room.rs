//! Room of the log, as sources see it that can tell their peers to come again.

use inrush_event::{Timestamp, instant_now};

use crate::log::Log;

impl Log {
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
