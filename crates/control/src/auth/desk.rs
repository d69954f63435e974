//! Desk at which passwords are checked: one at a time, on a thread of its own, and slowly.
//!
//! A check costs 30 ms of CPU and 19 MiB. A wrong one keeps the desk for [`PAUSE`] longer, so that
//! guessing from any number of addresses takes less than a fifth of one core, and five guesses are
//! made in a second.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Time for which the desk stays closed after a wrong password.
const PAUSE: Duration = Duration::from_millis(170);
/// Logins that wait for their turn; more are turned away.
pub(super) const WAITING_MAX: usize = 8;

/// The desk.
pub(super) struct HashQueue {
    free: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

impl Default for HashQueue {
    fn default() -> Self {
        Self {
            free: Arc::new(Semaphore::new(1)),
            waiting: Arc::new(Semaphore::new(WAITING_MAX)),
        }
    }
}

impl HashQueue {
    /// One's turn; `None` where too many wait.
    pub(super) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        let _place = Arc::clone(&self.waiting).try_acquire_owned().ok()?;
        Arc::clone(&self.free).acquire_owned().await.ok()
    }
}

/// Runs `check`, and `settle` with what came of it, whether or not anybody still waits: who hangs
/// up early has guessed all the same. `None` where there is no thread to be had.
pub(super) async fn check(
    turn: OwnedSemaphorePermit,
    check: impl FnOnce() -> bool + Send + 'static,
    settle: impl FnOnce(bool) + Send + 'static,
) -> Option<bool> {
    let (say, said) = oneshot::channel();
    let work = move || {
        let right = check();
        settle(right);
        if !right {
            thread::sleep(PAUSE);
        }
        drop(turn);
        let _ = say.send(right);
    };
    let thread = thread::Builder::new().name("inrush-login".into());
    thread.spawn(work).ok()?;
    said.await.ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::pin::pin;
    use std::sync::mpsc::channel;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn first_poll<T>(future: impl Future<Output = T>) -> Poll<T> {
        pin!(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    fn now(desk: &HashQueue) -> Option<OwnedSemaphorePermit> {
        match first_poll(desk.turn()) {
            Poll::Ready(turn) => turn,
            Poll::Pending => None,
        }
    }

    #[test]
    fn who_hangs_up_has_guessed_all_the_same_and_keeps_his_turn_until_then() {
        let desk = HashQueue::default();
        let (go, may_go) = channel();
        let (told, settled) = channel();
        let guess = move || {
            may_go.recv().unwrap();
            false
        };
        // Polled once, which starts it, and dropped.
        let turn = now(&desk).unwrap();
        let begun = first_poll(check(turn, guess, move |right| told.send(right).unwrap()));
        assert!(begun.is_pending());
        assert!(now(&desk).is_none(), "one at a time, whoever still waits");
        go.send(()).unwrap();
        assert_eq!(settled.recv(), Ok(false));
    }

    #[test]
    fn a_bounded_number_waits() {
        let desk = HashQueue::default();
        let _turn = now(&desk).unwrap();
        let mut waiting: Vec<_> = (0..WAITING_MAX).map(|_| Box::pin(desk.turn())).collect();
        let mut context = Context::from_waker(Waker::noop());
        for one in &mut waiting {
            assert!(one.as_mut().poll(&mut context).is_pending());
        }
        assert!(
            matches!(first_poll(desk.turn()), Poll::Ready(None)),
            "turned away"
        );
        waiting.pop();
        assert!(first_poll(desk.turn()).is_pending(), "its place is free");
    }
}
