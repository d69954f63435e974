//! Calls of those who wait for more to become durable.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::log::Log;

/// Called when more became durable; must not block.
pub type DurableCallback = Arc<dyn Fn(u64) + Send + Sync>;

/// Callbacks of a log, by number.
#[derive(Default)]
pub(crate) struct DurableHooks {
    wakes: Mutex<Vec<(u64, DurableCallback)>>,
    given: AtomicU64,
}

impl Log {
    /// Has `wake` called whenever more became durable, with [`Self::durable_end`], until the hook is
    /// dropped.
    pub fn on_durable(self: &Arc<Self>, wake: DurableCallback) -> DurableHook {
        let number = self.hooks.given.fetch_add(1, Relaxed);
        self.wakes().push((number, wake));
        DurableHook {
            log: Arc::downgrade(self),
            number,
        }
    }

    fn wakes(&self) -> MutexGuard<'_, Vec<(u64, DurableCallback)>> {
        self.hooks
            .wakes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn wake_waiters(&self) {
        let end = self.durable_end();
        for (_, wake) in &*self.wakes() {
            wake(end);
        }
    }
}

/// Keeps a wake of [`Log::on_durable`] in place.
pub struct DurableHook {
    log: Weak<Log>,
    number: u64,
}

impl Drop for DurableHook {
    fn drop(&mut self) {
        if let Some(log) = self.log.upgrade() {
            log.wakes().retain(|(number, _)| *number != self.number);
        }
    }
}
