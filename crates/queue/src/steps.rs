//! The log without waiting and without threads, for the simulation, which has one thread and its
//! own clock. It goes through the same code as [`crate::DestinationFeed`] and the writer's thread.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use inrush_event::{Batch, Delivery, Fate};

use crate::log::{AppendError, Log};
use crate::state::Taken;

/// Why a batch was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TryAppend {
    /// As [`Log::append`] says.
    Refused(AppendError),
    /// [`Log::append`] would wait.
    WouldBlock,
}

impl Log {
    /// [`Self::append`] that does not wait.
    ///
    /// # Errors
    /// The batch was not taken.
    pub fn try_append(
        &self,
        batch: Batch,
        urgent: bool,
        now: Instant,
        accept: impl FnOnce(),
    ) -> Result<u64, TryAppend> {
        let mut freed = Vec::new();
        let mut state = self.lock();
        match self.admit(&mut state, batch.memory_bytes(), &mut freed) {
            Some(Ok(())) => {}
            Some(Err(error)) => return Err(TryAppend::Refused(error)),
            None => return Err(TryAppend::WouldBlock),
        }
        Ok(self.take_in(&mut state, Arc::new(batch), urgent, now, accept))
    }

    /// What [`crate::DestinationFeed`] would give now; `None` for nothing.
    pub fn try_take(&self, name: &str, now: Instant) -> Option<Delivery> {
        loop {
            match self.try_next(name, now) {
                None => {}
                Some(Taken::Delivery(delivery)) => return Some(delivery),
                Some(_) => return None,
            }
        }
    }

    /// What [`crate::DestinationFeed`] does to settle events.
    pub fn settle_now(
        &self,
        name: &str,
        position: u64,
        events: Range<u32>,
        fate: &Fate,
        now: Instant,
    ) {
        self.settle(name, position, events, fate, now);
    }
}
