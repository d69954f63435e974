//! Memory of the allocator that goes back to the system.
//!
//! glibc keeps what was freed below anything that is still in use. After a peak (a flood, a search,
//! thousands of connections) that can be most of the process's memory, for good.

/// Bytes that the allocator holds free; 0 where it does not say.
pub fn free_bytes() -> u64 {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: mallinfo2(3) takes nothing and returns numbers; it takes the allocator's locks
        // itself.
        unsafe { libc::mallinfo2() }.fordblks as u64
    }
    #[cfg(not(target_env = "gnu"))]
    0
}

/// Bytes that were taken of the allocator and not given back; 0 where it does not say.
pub fn used_bytes() -> u64 {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: mallinfo2(3) takes nothing and returns numbers; it takes the allocator's locks
        // itself.
        let found = unsafe { libc::mallinfo2() };
        (found.uordblks + found.hblkhd) as u64
    }
    #[cfg(not(target_env = "gnu"))]
    0
}

/// Gives the pages of free memory back.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: malloc_trim(3) takes a number, and the allocator's locks itself; it gives back
        // only pages in which nothing is in use.
        unsafe { libc::malloc_trim(0) };
    }
}

/// Has the allocator keep little, at the price of more system calls: for a process that has little
/// memory. Threads share `arenas` heaps: each keeps free memory of its own, and one alone has all
/// threads wait for each other. To be called before there are threads.
pub fn keep_little(arenas: u8) {
    #[cfg(not(target_env = "gnu"))]
    let _ = arenas;
    #[cfg(target_env = "gnu")]
    {
        const MMAP_BYTES: libc::c_int = 128 * 1024;
        const TRIM_BYTES: libc::c_int = 256 * 1024;
        set(&[
            (libc::M_ARENA_MAX, arenas.into()),
            (libc::M_MMAP_THRESHOLD, MMAP_BYTES),
            (libc::M_TRIM_THRESHOLD, TRIM_BYTES),
        ]);
    }
}

/// Has each heap keep up to 32 MiB that are free, where it would give back all but 128 KiB at once:
/// for a process that takes the same memory again and again. To be called before there are threads.
pub fn keep_much() {
    #[cfg(target_env = "gnu")]
    {
        const MMAP_BYTES: libc::c_int = 16 << 20;
        const TRIM_BYTES: libc::c_int = 32 << 20;
        set(&[
            (libc::M_MMAP_THRESHOLD, MMAP_BYTES),
            (libc::M_TRIM_THRESHOLD, TRIM_BYTES),
        ]);
    }
}

#[cfg(target_env = "gnu")]
fn set(options: &[(libc::c_int, libc::c_int)]) {
    for &(option, value) in options {
        // SAFETY: mallopt(3) takes two numbers; an unknown option changes nothing.
        unsafe { libc::mallopt(option, value) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_was_freed_goes_back() {
        let resident = || {
            let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
            let pages = text.split(' ').nth(1).and_then(|n| n.parse::<u64>().ok());
            pages.unwrap_or(0) * 4096
        };
        // In the heap, each below the size that has pages of its own, and one that stays above.
        let mut blocks: Vec<Vec<u8>> = (0..2000).map(|_| vec![1; 60_000]).collect();
        let top = blocks.pop();
        let full = resident();
        blocks.clear();
        trim();
        assert!(resident() + (80 << 20) < full, "{} of {full}", resident());
        drop(top);
    }
}
