//! Memory that the process may use, and what each part of it may take.
//!
//! [`MemoryLimit::read`] finds the tightest limit: of the control groups of the process, up the
//! tree (`memory.max` and `memory.high` of version 2, `memory.limit_in_bytes` of version 1), or
//! half of the host's memory, which others use too. [`MemoryShares::of`] is a pure function of that
//! limit and of the number of cores: parts for the queue, the store, searches and so on, and a
//! reserve. All parts together never exceed the limit; with 2 GiB or more each part has its full
//! size.
//!
//! # Limits
//! Below [`LIMIT_BYTES_MIN`] the parts have their smallest sizes, and exceed the limit. Searches
//! have nothing there, and little up to 128 MiB.

use std::path::Path;

use crate::doctor::cgroup::{ProcessCgroup, groups_of};
use crate::files::HostFiles;
use crate::text::number;

const MIB: u64 = 1 << 20;

/// Bytes: the smallest limit that the parts fit into, with nothing for searches.
pub const LIMIT_BYTES_MIN: u64 = BASE_BYTES + RESERVE_BYTES_MIN + LEAST_BYTES;

/// Bytes from which a limit of version 1 is none: without one it is the largest number of pages.
const UNBOUNDED_BYTES: u64 = u64::MAX / 4;

/// Bytes of the program's own pages, its tables, packs and thread stacks; 42 MiB were measured
/// with packs on, of which 28 MiB are pages of the binary that the kernel can take back.
const BASE_BYTES: u64 = 32 * MIB;

/// Bytes that a core takes which reads: an open batch of a stream worker and one of a UDP thread,
/// datagram slots, and a batch that is being studied.
const CORE_BYTES: u64 = 8 * MIB;

/// Bytes of the kernel's part at least. Measured with 4,500 connections: 10 MiB for the sockets,
/// and some pages of the files that are written.
const RESERVE_BYTES_MIN: u64 = 18 * MIB;

/// Bytes of memory that the store takes for each byte of `flush_bytes`: four times the text with
/// as much again for its columns, and twice that for files that are merged.
const STORE_FACTOR: u64 = 16;

/// Bytes that it takes whatever that is: encoders of 24 columns.
const STORE_BYTES_MIN: u64 = 6 * MIB;

/// Bytes of memory that searches have at least, if the limit has room for it: one search, which
/// scans texts. 23 MiB were measured, of which 10 are the process's own.
const SEARCH_BYTES_MIN: u64 = 28 * MIB;

/// The smallest sizes, in bytes.
const LEAST: MemoryMinimum = MemoryMinimum {
    work: CORE_BYTES,
    queue: 8 * MIB,
    store: STORE_BYTES_MIN + STORE_FACTOR * MIB,
    pool: ARENA_BYTES,
    carry: 2 * MIB,
    sinks: 4 * MIB,
};

/// All of them.
const LEAST_BYTES: u64 =
    LEAST.work + LEAST.queue + LEAST.store + LEAST.pool + LEAST.carry + LEAST.sinks;

/// Bytes of all parts beside the queue at their smallest, with one search and without receive
/// buffers.
pub const BESIDE_QUEUE_BYTES_MIN: u64 = LIMIT_BYTES_MIN - LEAST.queue + SEARCH_BYTES_MIN;

struct MemoryMinimum {
    work: u64,
    queue: u64,
    store: u64,
    pool: u64,
    carry: u64,
    sinks: u64,
}

/// Bytes of an arena, which is what a pool keeps.
const ARENA_BYTES: u64 = 2 * MIB;

/// Memory that the process may use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemoryLimit {
    /// Bytes of the limit.
    pub bytes: u64,
    /// Origin of the limit, in words: a control group's file, or half of the host's memory.
    pub from: String,
}

impl MemoryLimit {
    /// The limit of this process, on the host under `root` (`/`). `None` where the kernel shows
    /// neither control groups nor memory.
    pub fn read(root: &Path) -> Option<Self> {
        let files = HostFiles::at(root);
        let of_group = of_groups(&files);
        let of_host = of_host(&files);
        match (of_group, of_host) {
            (Some(group), Some(host)) if host.total < group.bytes => Some(host.limit()),
            (Some(group), _) => Some(group),
            (None, host) => host.map(HostMemory::limit),
        }
    }
}

struct HostMemory {
    total: u64,
}

impl HostMemory {
    fn limit(self) -> MemoryLimit {
        MemoryLimit {
            bytes: self.total / 2,
            from: format!("half of the host's {} MiB", self.total / MIB),
        }
    }
}

fn of_host(files: &HostFiles) -> Option<HostMemory> {
    let text = files.text("proc/meminfo")?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let total: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(HostMemory {
        total: total.saturating_mul(1024),
    })
}

fn of_groups(files: &HostFiles) -> Option<MemoryLimit> {
    let text = |path: &str| files.text(path);
    let process = files.text("proc/self/cgroup").unwrap_or_default();
    let groups: Vec<ProcessCgroup> = groups_of(&text, &process, "memory");
    let limits = groups.iter().flat_map(|group| {
        group.limit_files().iter().filter_map(|name| {
            let file = format!("{}/{name}", group.folder);
            let bytes = number(&files.text(&file)?).filter(|bytes| *bytes < UNBOUNDED_BYTES)?;
            Some((bytes, file))
        })
    });
    let (bytes, file) = limits.min()?;
    Some(MemoryLimit {
        bytes,
        from: format!("/{file}"),
    })
}

/// Bytes that each part of the process may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryShares {
    /// All of it.
    pub limit: u64,
    /// The program itself.
    pub base: u64,
    /// The kernel's part: sockets, pages of files, page tables; and what an allocator loses.
    pub reserve: u64,
    /// Cores that take events in, at most.
    pub cores: usize,
    /// Batches that are filled.
    pub work: u64,
    /// `queue.memory_bytes`.
    pub queue: u64,
    /// `flush_bytes` of a store; it takes [`Self::store`] of that in all.
    pub store_flush: u64,
    /// Memory of all searches, in processes of their own; where it is nothing, none can run.
    pub search: u64,
    /// Free arenas that are kept.
    pub pool: u64,
    /// Unfinished frames and unread answers of all connections.
    pub carry: u64,
    /// Requests of destinations.
    pub sinks: u64,
}

impl MemoryShares {
    /// The parts within `limit` bytes, where the process may use `cores`.
    pub fn of(limit: u64, cores: usize) -> Self {
        let all = limit.max(LIMIT_BYTES_MIN);
        let reserve = (all / 8).max(RESERVE_BYTES_MIN);
        let beside = all.saturating_sub(BASE_BYTES + reserve + LEAST_BYTES);
        let search = beside.min(SEARCH_BYTES_MIN);
        let rest = beside - search;
        let part = |least: u64, percent: u64, most: u64| (least + rest / 100 * percent).min(most);
        let cores_max = part(LEAST.work, 18, u64::MAX) / CORE_BYTES;
        let cores = cores.clamp(1, usize::try_from(cores_max).unwrap_or(usize::MAX));
        let store = part(LEAST.store, 32, STORE_BYTES_MIN + 32 * STORE_FACTOR * MIB);
        Self {
            limit,
            base: BASE_BYTES,
            reserve,
            cores,
            work: cores as u64 * CORE_BYTES,
            queue: part(LEAST.queue, 16, 128 * MIB),
            store_flush: (store - STORE_BYTES_MIN) / STORE_FACTOR,
            search: part(search, 17, 256 * MIB),
            pool: part(LEAST.pool, 5, 64 * ARENA_BYTES),
            carry: part(LEAST.carry, 6, 1024 * MIB),
            sinks: part(LEAST.sinks, 6, 1024 * MIB),
        }
    }

    /// The parts with their full sizes.
    pub fn full(cores: usize) -> Self {
        Self::of(u64::MAX / 4, cores)
    }

    /// Bytes that stores with `flush_bytes` of so many bytes together take in all.
    pub fn store(store_flush: u64) -> u64 {
        match store_flush {
            0 => 0,
            bytes => bytes
                .saturating_mul(STORE_FACTOR)
                .saturating_add(STORE_BYTES_MIN),
        }
    }

    /// Bytes that the receive buffers of a source's UDP sockets may take, of the kernel's part.
    pub fn receive(&self) -> u64 {
        self.reserve / 2
    }

    /// All parts together.
    pub fn sum(&self) -> u64 {
        self.sum_with(self.queue, self.store_flush)
    }

    /// The same, where the queue and the stores have been given these sizes.
    pub fn sum_with(&self, queue: u64, store_flush: u64) -> u64 {
        let parts = [
            self.base,
            self.reserve,
            self.work,
            queue,
            Self::store(store_flush),
            self.search,
            self.pool,
            self.carry,
            self.sinks,
        ];
        parts.into_iter().fold(0, u64::saturating_add)
    }

    /// Free arenas that a pool may keep.
    pub fn pool_arenas(&self) -> usize {
        usize::try_from(self.pool / ARENA_BYTES).unwrap_or(usize::MAX)
    }

    /// In words, for the log: `queue 28 MiB, store 61 MiB (flush_bytes 3.8 MiB) …`.
    pub fn words(&self, queue: u64, store_flush: u64) -> String {
        let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / MIB as f64);
        format!(
            "queue {}, store {} (flush_bytes {}), searches {}, unfinished frames {}, \
             free arenas {}, {} cores that read {}, requests {}, program {}, reserve {}",
            mib(queue),
            mib(Self::store(store_flush)),
            mib(store_flush),
            mib(self.search),
            mib(self.carry),
            mib(self.pool),
            self.cores,
            mib(self.work),
            mib(self.sinks),
            mib(self.base),
            mib(self.reserve),
        )
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs;

    #[test]
    fn the_parts_fit_into_every_limit() {
        for mib in (LIMIT_BYTES_MIN.div_ceil(MIB)..4096).chain([8192, 16_384, 1 << 20]) {
            for cores in [1, 2, 4, 16, 128] {
                let budget = MemoryShares::of(mib * MIB, cores);
                assert!(budget.sum() <= budget.limit, "{mib} MiB: {budget:?}");
                assert!(budget.cores >= 1 && budget.cores <= cores, "{budget:?}");
            }
        }
    }

    #[test]
    fn the_table_of_the_guide() {
        let row = |mib: u64, cores| {
            let b = MemoryShares::of(mib * MIB, cores);
            (
                b.queue / MIB,
                b.store_flush * 10 / MIB,
                b.search / MIB,
                b.carry / MIB,
                b.cores,
            )
        };
        assert_eq!(row(128, 2), (8, 10, 28, 2, 1));
        assert_eq!(row(256, 2), (26, 33, 48, 9, 2));
        assert_eq!(row(512, 2), (62, 78, 86, 22, 2));
        assert_eq!(row(1024, 2), (128, 167, 162, 49, 2));
        assert_eq!(row(4096, 16), (128, 320, 256, 210, 16));
        assert_eq!(row(16_384, 16), (128, 320, 256, 855, 16));
    }

    #[test]
    fn searches_are_the_first_to_have_less() {
        let search = |mib: u64| MemoryShares::of(mib * MIB, 2).search / MIB;
        assert_eq!([0, 96, 104, 112, 124].map(search), [0, 0, 8, 16, 28]);
        let (small, least) = (
            MemoryShares::of(104 * MIB, 2),
            MemoryShares::of(96 * MIB, 2),
        );
        assert_eq!(small.queue, least.queue);
    }

    #[test]
    fn what_the_doctor_asks_for_is_what_the_parts_take() {
        let budget = MemoryShares::of(124 * MIB, 1);
        assert_eq!(budget.sum(), BESIDE_QUEUE_BYTES_MIN + budget.queue);
        assert_eq!(budget.sum(), budget.limit);
    }

    fn limit(files: &[(&str, &str)]) -> Option<MemoryLimit> {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        MemoryLimit::read(root.path())
    }

    const HOST: (&str, &str) = (
        "proc/meminfo",
        "MemTotal:       8388608 kB\nMemFree: 1 kB\n",
    );

    #[test]
    fn without_a_group_half_of_the_host_is_ours() {
        let found = limit(&[HOST]).unwrap();
        assert_eq!(found.bytes, 4 << 30);
        assert!(
            found.from.contains("half of the host's 8192 MiB"),
            "{found:?}"
        );
        assert_eq!(limit(&[]), None);
    }

    #[test]
    fn the_smallest_limit_up_the_tree_counts() {
        let two = [
            HOST,
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/cgroup.controllers", "memory"),
            ("sys/fs/cgroup/a/cgroup.controllers", "memory"),
            ("sys/fs/cgroup/a/memory.max", "268435456\n"),
            ("sys/fs/cgroup/a/b/cgroup.controllers", "memory"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("sys/fs/cgroup/a/b/memory.high", "536870912\n"),
        ];
        let found = limit(&two).unwrap();
        assert_eq!(found.bytes, 256 << 20);
        assert_eq!(found.from, "/sys/fs/cgroup/a/memory.max");
        let high = [&two[..], &[("sys/fs/cgroup/a/b/memory.high", "134217728")]].concat();
        assert_eq!(limit(&high).unwrap().from, "/sys/fs/cgroup/a/b/memory.high");
        let one = [
            HOST,
            ("proc/self/cgroup", "4:memory:/x/y\n0::/\n"),
            ("sys/fs/cgroup/memory/cgroup.procs", ""),
            (
                "sys/fs/cgroup/memory/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
            ("sys/fs/cgroup/memory/x/cgroup.procs", ""),
            (
                "sys/fs/cgroup/memory/x/memory.limit_in_bytes",
                "134217728\n",
            ),
            ("sys/fs/cgroup/memory/x/y/cgroup.procs", ""),
            (
                "sys/fs/cgroup/memory/x/y/memory.limit_in_bytes",
                "536870912\n",
            ),
        ];
        let found = limit(&one).unwrap();
        assert_eq!(found.bytes, 128 << 20);
        assert_eq!(found.from, "/sys/fs/cgroup/memory/x/memory.limit_in_bytes");
    }

    #[test]
    fn a_limit_above_the_host_is_none() {
        let found = limit(&[
            HOST,
            ("proc/self/cgroup", "0::/\n"),
            ("sys/fs/cgroup/cgroup.controllers", "memory"),
            ("sys/fs/cgroup/memory.max", "99999999999\n"),
        ]);
        assert_eq!(found.unwrap().bytes, 4 << 30);
    }
}
