//! Memory, as commands bound it.

use inrush_config as config;
use inrush_host::memory::MemoryShares;
use inrush_transport::heap;

/// Bytes: with so little memory, what was freed goes back to the system at once.
const LITTLE_BYTES: u64 = 1 << 30;

/// Bytes: with so little, what a second heap keeps free is missed.
const LEAST_BYTES: u64 = 256 << 20;

/// Has the allocator keep little where there is little, and says whether it does. To be called
/// before there are threads.
pub(crate) fn spare_memory() -> bool {
    match config::memory_limit().map(|limit| limit.bytes) {
        Some(..=LEAST_BYTES) => heap::keep_little(1),
        Some(..=LITTLE_BYTES) => heap::keep_little(2),
        _ => return false,
    }
    true
}

/// Bytes that searches may take of the budget. Where that is little, few run at a time.
pub(crate) fn searches(budget: &MemoryShares) -> inrush_search::SearchOptions {
    /// Bytes of memory for each thread of a search: rows that it decodes.
    const THREAD_BYTES: u64 = 16 << 20;
    let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let full = inrush_search::SearchOptions::default();
    inrush_search::SearchOptions {
        memory_bytes: bytes(budget.search),
        threads: full.threads.min(bytes(budget.search / THREAD_BYTES)).max(1),
        ..full
    }
}
