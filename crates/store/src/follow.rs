//! Following what comes in.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::snapshot::Chunk;

/// Chunks that wait for a follower; what comes beyond is counted and left out.
const WAITING_MAX: usize = 64;

/// Gets what becomes searchable, as long as somebody holds it.
#[derive(Default, Debug)]
pub struct Follower {
    waiting: Mutex<FollowerQueue>,
    came: Condvar,
}

#[derive(Default, Debug)]
struct FollowerQueue {
    chunks: VecDeque<Arc<Chunk>>,
    dropped: u64,
}

impl Follower {
    pub(crate) fn push(&self, chunk: &Arc<Chunk>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.chunks.len() == WAITING_MAX {
            waiting.dropped += chunk.rows.num_rows() as u64;
        } else {
            waiting.chunks.push_back(Arc::clone(chunk));
        }
        drop(waiting);
        self.came.notify_all();
    }

    /// Returns the chunks since the last call, the oldest first, and the number of events left out.
    /// Events are left out if this is called too seldom. Waits for something for `wait` at most.
    pub fn next(&self, wait: Duration) -> (Vec<Arc<Chunk>>, u64) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let nothing = |w: &mut FollowerQueue| w.chunks.is_empty() && w.dropped == 0;
        let (mut waiting, _) = self
            .came
            .wait_timeout_while(waiting, wait, nothing)
            .unwrap_or_else(PoisonError::into_inner);
        let chunks = waiting.chunks.drain(..).collect();
        (chunks, std::mem::take(&mut waiting.dropped))
    }
}
