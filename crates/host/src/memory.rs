//! Memory that the process may use, and what each part of it may take.
//!
//! [`MemoryLimit::read`] finds the tightest limit: of the control groups of the process, up the
//! tree (`memory.max` and `memory.high` of version 2, `memory.limit_in_bytes` of version 1), or
//! half of the host's memory, which others use too. [`Budget::of`] is a pure function of that limit
//! and of the number of cores: parts for the queue, the store, searches and so on, and a reserve.
//! All parts together never exceed the limit; with 2 GiB or more each part has its full size.
//!
//! # Limits
//! Below [`LIMIT_BYTES_MIN`] the parts have their smallest sizes, and exceed the limit.

use std::path::Path;

use crate::doctor::cgroup::{Group, groups_of};
use crate::files::Files;
use crate::text::number;

const MIB: u64 = 1 << 20;

/// Bytes: the smallest limit that the parts fit into.
pub const LIMIT_BYTES_MIN: u64 = 96 * MIB;

/// Bytes from which a limit of version 1 is none: without one it is the largest number of pages.
const UNBOUNDED_BYTES: u64 = u64::MAX / 4;

/// Bytes of the program's own pages, its tables, packs and thread stacks; 42 MiB were measured
/// with packs on, of which 28 MiB are pages of the binary that the kernel can take back.
const BASE_BYTES: u64 = 32 * MIB;

/// Bytes that a core takes which reads: an open batch of a stream worker and one of a UDP thread,
/// datagram slots, and a batch that is being studied.
const CORE_BYTES: u64 = 8 * MIB;

/// Bytes of memory that the store takes for each byte of `flush_bytes`: four times the text with
/// as much again for its columns, and twice that for files that are merged.
const STORE_FACTOR: u64 = 16;

/// Bytes of an arena, which is what a pool keeps.
const ARENA_BYTES: u64 = 2 * MIB;

/// Memory that the process may use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemoryLimit {
    /// How much, in bytes.
    pub bytes: u64,
    /// Whose limit it is, in words.
    pub from: String,
}

impl MemoryLimit {
    /// The limit of this process, on the host under `root` (`/`). `None` where the kernel shows
    /// neither control groups nor memory.
    pub fn read(root: &Path) -> Option<Self> {
        let files = Files::at(root);
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

fn of_host(files: &Files) -> Option<HostMemory> {
    let text = files.text("proc/meminfo")?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let total: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(HostMemory {
        total: total.saturating_mul(1024),
    })
}

fn of_groups(files: &Files) -> Option<MemoryLimit> {
    let text = |path: &str| files.text(path);
    let process = files.text("proc/self/cgroup").unwrap_or_default();
    let groups: Vec<Group> = groups_of(&text, &process, "memory");
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
pub struct Budget {
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
    /// `flush_bytes` of a store; it takes [`Self::store`] in all.
    pub store_flush: u64,
    /// Memory of searches.
    pub search: u64,
    /// Footers of the store's files that searches keep.
    pub footers: u64,
    /// Free arenas that are kept.
    pub pool: u64,
    /// Unfinished frames and unread answers of all connections.
    pub carry: u64,
    /// Requests of destinations.
    pub sinks: u64,
}

impl Budget {
    /// The parts within `limit` bytes, where the process may use `cores`.
    pub fn of(limit: u64, cores: usize) -> Self {
        let reserve = limit / 8;
        let rest = limit.max(LIMIT_BYTES_MIN) - limit.max(LIMIT_BYTES_MIN) / 8 - BASE_BYTES;
        let share = |percent: u64| rest / 100 * percent;
        let part = |percent, least: u64, most: u64| share(percent).clamp(least, most);
        let cores_max = usize::try_from(share(18) / CORE_BYTES).unwrap_or(usize::MAX);
        let cores = cores.clamp(1, cores_max.max(1));
        Self {
            limit,
            base: BASE_BYTES,
            reserve,
            cores,
            work: cores as u64 * CORE_BYTES,
            queue: part(16, 8 * MIB, 128 * MIB),
            store_flush: part(32, STORE_FACTOR * MIB, 32 * STORE_FACTOR * MIB) / STORE_FACTOR,
            search: part(14, 4 * MIB, 256 * MIB),
            footers: part(3, MIB, 64 * MIB),
            pool: part(5, ARENA_BYTES, 64 * ARENA_BYTES),
            carry: part(6, 2 * MIB, 1024 * MIB),
            sinks: part(6, 2 * MIB, 1024 * MIB),
        }
    }

    /// Bytes that a store takes in all.
    pub fn store(&self) -> u64 {
        self.store_flush * STORE_FACTOR
    }

    /// All parts together.
    pub fn sum(&self) -> u64 {
        self.sum_with(self.queue, self.store_flush)
    }

    /// All parts together, where the queue and the stores have been given these sizes.
    pub fn sum_with(&self, queue: u64, store_flush: u64) -> u64 {
        let parts = [
            self.base,
            self.reserve,
            self.work,
            queue,
            store_flush.saturating_mul(STORE_FACTOR),
            self.search,
            self.footers,
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
            mib(store_flush.saturating_mul(STORE_FACTOR)),
            mib(store_flush),
            mib(self.search + self.footers),
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
        for mib in (96..4096).chain([8192, 16_384, 1 << 20]) {
            for cores in [1, 2, 4, 16, 128] {
                let budget = Budget::of(mib * MIB, cores);
                assert!(budget.sum() <= budget.limit, "{mib} MiB: {budget:?}");
                assert!(budget.cores >= 1 && budget.cores <= cores, "{budget:?}");
            }
        }
    }

    #[test]
    fn the_table_of_the_guide() {
        let row = |mib: u64, cores| {
            let b = Budget::of(mib * MIB, cores);
            (
                b.queue / MIB,
                b.store_flush * 10 / MIB,
                b.search / MIB,
                b.carry / MIB,
                b.cores,
            )
        };
        assert_eq!(row(128, 2), (12, 15, 11, 4, 1));
        assert_eq!(row(256, 2), (30, 38, 26, 11, 2));
        assert_eq!(row(512, 2), (66, 83, 58, 24, 2));
        assert_eq!(row(1024, 2), (128, 172, 120, 51, 2));
        assert_eq!(row(4096, 16), (128, 320, 256, 213, 16));
        assert_eq!(row(16_384, 16), (128, 320, 256, 858, 16));
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
