//! Memory for bytes in bulk.

use std::ops::{Deref, DerefMut};

use memmap2::{Advice, MmapMut};

/// Bytes that a large page has on the processors that we know. Where there are none, nothing
/// changes but the speed.
const LARGE_PAGE_BYTES: usize = 2 * 1024 * 1024;

/// A buffer of fixed length.
///
/// One of [`Arena::paged`] begins on a page and lies in large pages as far as the kernel has them:
/// a stream of megabytes then costs a translation every 2 MiB instead of every 4 KiB, and its
/// pages are handed to a disk as one piece.
pub struct Arena {
    memory: ArenaMemory,
    len: usize,
}

enum ArenaMemory {
    Paged(MmapMut),
    Heap(Vec<u8>),
}

impl Arena {
    /// `len` bytes of zeros in memory of their own. If the kernel gives none, they come from the
    /// heap, and begin anywhere.
    pub fn paged(len: usize) -> Self {
        let arena = Self::small_paged(len.next_multiple_of(LARGE_PAGE_BYTES));
        if let ArenaMemory::Paged(map) = &arena.memory {
            // A kernel without large pages refuses the advice, and small ones do as well.
            let _ = map.advise(Advice::HugePage);
        }
        Self { len, ..arena }
    }

    /// The same in small pages: only those that are written to take memory.
    pub fn small_paged(len: usize) -> Self {
        match MmapMut::map_anon(len) {
            Ok(map) => Self {
                memory: ArenaMemory::Paged(map),
                len,
            },
            Err(_) => Self::from(vec![0; len]),
        }
    }

    /// Bytes of memory that it takes, or may take.
    pub fn memory_bytes(&self) -> usize {
        match &self.memory {
            ArenaMemory::Paged(map) => map.len(),
            ArenaMemory::Heap(bytes) => bytes.capacity(),
        }
    }
}

impl Default for Arena {
    fn default() -> Self {
        Self::from(Vec::new())
    }
}

impl From<Vec<u8>> for Arena {
    fn from(bytes: Vec<u8>) -> Self {
        let len = bytes.len();
        let memory = ArenaMemory::Heap(bytes);
        Self { memory, len }
    }
}

impl Deref for Arena {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.memory {
            ArenaMemory::Paged(map) => &map[..self.len],
            ArenaMemory::Heap(bytes) => bytes,
        }
    }
}

impl DerefMut for Arena {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            ArenaMemory::Paged(map) => &mut map[..self.len],
            ArenaMemory::Heap(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_in_pages_begins_on_one_and_is_as_long_as_it_was_asked_for() {
        let mut arena = Arena::paged(10_000);
        assert_eq!(arena.len(), 10_000);
        assert_eq!(arena.as_ptr().addr() % 4096, 0);
        assert!(arena.iter().all(|byte| *byte == 0));
        arena[9_999] = 7;
        assert_eq!(arena.last(), Some(&7));
        assert_eq!(arena.memory_bytes(), LARGE_PAGE_BYTES);
        let small = Arena::small_paged(10_000);
        assert_eq!((small.len(), small.memory_bytes()), (10_000, 10_000));
    }
}
