//! Sending again what lay in quarantine: a batch for one destination, behind all others.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use inrush_event::Batch;

use crate::arrival::IncomingBatch;
use crate::log::{AppendError, Log};

/// Reason why a batch was not appended; none of its events was counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplayError {
    /// There is no room now.
    Full,
    /// The queue has been closed.
    Closed,
    /// The destination that the batch is for has no cursor.
    NoDestination,
}

impl Log {
    /// Appends a batch that is for one destination ([`Batch::only`]), without waiting for room:
    /// the caller can come again. It counts as accepted by that destination alone, and no source
    /// has received it. Returns its position.
    ///
    /// # Errors
    /// If the batch was not taken.
    pub fn append_again(&self, batch: Batch) -> Result<u64, ReplayError> {
        let arrival = IncomingBatch::new(batch, Duration::ZERO).kept(true);
        let mut freed = Vec::new();
        let mut state = self.lock();
        let only = arrival.batch.only();
        let known = only.is_some_and(|only| state.slot(only).is_some());
        if !known {
            return Err(ReplayError::NoDestination);
        }
        match self.admit(&mut state, &arrival, None, &mut freed) {
            Some(Ok(())) if !state.is_stalled() => {}
            Some(Err(AppendError::Closed)) => return Err(ReplayError::Closed),
            _ => return Err(ReplayError::Full),
        }
        let position = self.take_in(&mut state, arrival, true, Instant::now(), || {});
        drop(state);
        self.arrival.notify_all();
        self.work.notify_one();
        Ok(position)
    }

    /// Waits until the batch at this position is as durable as the mode promises, at most until
    /// `deadline`; says whether it is.
    pub fn wait_durable(self: &Arc<Self>, position: u64, deadline: Instant) -> bool {
        let (progress, made) = channel();
        let progress = Mutex::new(progress);
        let _hook = self.on_durable(Arc::new(move |_| {
            // Nobody listens any more once the wait is over.
            let _ = progress
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .send(());
        }));
        while self.durable_end() <= position {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || made.recv_timeout(left).is_err() {
                return self.durable_end() > position;
            }
        }
        true
    }
}
