//! Calls of those who wait for more to become durable.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Called with the position behind what is durable, when more became so; must not block.
pub type DurableCallback = Arc<dyn Fn(u64) + Send + Sync>;

/// Callbacks of a log, by number.
#[derive(Default)]
pub(crate) struct DurableHooks {
    wakes: Mutex<Vec<(u64, DurableCallback)>>,
    given: AtomicU64,
}

impl DurableHooks {
    pub(crate) fn add(self: &Arc<Self>, wake: DurableCallback) -> DurableHook {
        let number = self.given.fetch_add(1, Relaxed);
        self.wakes().push((number, wake));
        DurableHook {
            hooks: Arc::downgrade(self),
            number,
        }
    }

    pub(crate) fn call(&self, durable_end: u64) {
        for (_, wake) in &*self.wakes() {
            wake(durable_end);
        }
    }

    fn wakes(&self) -> MutexGuard<'_, Vec<(u64, DurableCallback)>> {
        self.wakes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a callback of [`Log::on_durable`](crate::Log::on_durable) in place.
pub struct DurableHook {
    hooks: Weak<DurableHooks>,
    number: u64,
}

impl Drop for DurableHook {
    fn drop(&mut self) {
        if let Some(hooks) = self.hooks.upgrade() {
            hooks.wakes().retain(|(number, _)| *number != self.number);
        }
    }
}
