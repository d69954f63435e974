//! Searches take turns on the threads.

use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, Instant};

/// Length of a turn, but for the batch of rows that is being read when it ends.
const TURN: Duration = Duration::from_millis(5);

/// The turn of a part of a search.
#[derive(Debug)]
pub(crate) struct TimeSlice {
    since: Instant,
}

impl TimeSlice {
    /// It begins now.
    pub(crate) fn new() -> Self {
        Self {
            since: Instant::now(),
        }
    }

    /// To be called after each batch: ends the turn, if it has lasted long enough.
    pub(crate) async fn end_if_due(&mut self) {
        if self.since.elapsed() >= TURN {
            give_turn().await;
            self.since = Instant::now();
        }
    }
}

/// Lets the other searches have the thread: whoever calls it goes on behind all that are ready.
///
/// `tokio::task::yield_now` would go on only when nothing at all is ready any more, which beside
/// a few long searches is not for seconds.
async fn give_turn() {
    let mut given = false;
    poll_fn(|context| {
        if given {
            return Poll::Ready(());
        }
        given = true;
        // A task that wakes itself while it runs is queued behind the others.
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::Poll;

    use super::give_turn;

    /// Always ready, as a plan is that reads from memory.
    async fn have_turn() {
        let mut had = false;
        poll_fn(|context| {
            let ready = std::mem::replace(&mut had, true);
            context.waker().wake_by_ref();
            if ready {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }

    #[test]
    fn one_who_gives_turns_gets_as_many_as_one_who_is_always_ready() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let polite = {
            let over = Arc::clone(&over);
            async move {
                for _ in 0..1000 {
                    give_turn().await;
                }
                over.store(true, Ordering::Release);
            }
        };
        let busy = async move {
            let mut turns = 0;
            while !over.load(Ordering::Acquire) {
                have_turn().await;
                turns += 1;
            }
            turns
        };
        let turns = runtime.block_on(async {
            let busy = tokio::spawn(busy);
            tokio::spawn(polite).await.unwrap();
            busy.await.unwrap()
        });
        // With `yield_now` some 60,000.
        assert!(turns < 5000, "{turns}");
    }
}
