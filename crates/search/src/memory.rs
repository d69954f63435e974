//! The memory of searches: one bound for all of them, and for each what it held at most.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use datafusion::error::Result;
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};

/// The part of a search in the pool of all.
#[derive(Debug)]
pub(crate) struct SearchMemoryPool {
    all: Arc<dyn MemoryPool>,
    held: AtomicUsize,
    peak: AtomicUsize,
}

impl SearchMemoryPool {
    pub(crate) fn of(all: &Arc<dyn MemoryPool>) -> Arc<Self> {
        Arc::new(Self {
            all: Arc::clone(all),
            held: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
        })
    }

    /// Bytes that it held at most.
    pub(crate) fn peak(&self) -> u64 {
        self.peak.load(Relaxed) as u64
    }

    fn grown(&self, bytes: usize) {
        let held = self.held.fetch_add(bytes, Relaxed) + bytes;
        self.peak.fetch_max(held, Relaxed);
    }
}

impl MemoryPool for SearchMemoryPool {
    fn name(&self) -> &str {
        "search"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.all.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.all.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.all.grow(reservation, additional);
        self.grown(additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.all.shrink(reservation, shrink);
        self.held.fetch_sub(shrink, Relaxed);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.all.try_grow(reservation, additional)?;
        self.grown(additional);
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.held.load(Relaxed)
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.all.memory_limit()
    }
}

impl fmt::Display for SearchMemoryPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "search({} bytes held)", self.reserved())
    }
}
