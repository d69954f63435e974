//! Single steps of the log, for a simulation that decides itself what happens when. The steps of
//! the writer are in `rounds.rs`.

use std::ops::Range;
use std::time::Instant;

use inrush_event::{Batch, Delivery, Fate};

use crate::WhenFull;
use crate::log::Log;
use crate::state::Taken;

/// Why a batch was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TryAppend {
    /// The queue is full and its policy is [`WhenFull::DropNewest`].
    Full,
    /// [`Log::append`] would wait for room.
    Blocked,
}

impl Log {
    /// As [`Log::append`] at `now`, without waiting.
    ///
    /// # Errors
    /// If the batch was not taken; `accept` was not run then.
    pub fn try_append(
        &self,
        batch: Batch,
        urgent: bool,
        accept: impl FnOnce(),
        now: Instant,
    ) -> Result<u64, TryAppend> {
        let mut freed = Vec::new();
        let mut state = self.lock();
        if state.make_room(batch.memory_bytes(), &self.ledger, &mut freed) {
            return Ok(self.admit(&mut state, batch, urgent, accept, now));
        }
        Err(match state.options.when_full {
            WhenFull::DropNewest => TryAppend::Full,
            WhenFull::Block | WhenFull::DropOldest => TryAppend::Blocked,
        })
    }

    /// What a feed of this destination would get at `now`, if anything.
    pub fn poll(&self, name: &str, now: Instant) -> Option<Delivery> {
        loop {
            match self.try_next(name, now) {
                // The disk was read; now it is known what there is.
                None => {}
                Some(Taken::Delivery(delivery)) => return Some(delivery),
                Some(_) => return None,
            }
        }
    }

    /// What a feed of this destination would do at `now`.
    pub fn settle_at(
        &self,
        name: &str,
        position: u64,
        events: Range<u32>,
        fate: Fate,
        now: Instant,
    ) {
        self.settle(name, position, events, fate, now);
    }
}
