//! How much memory each part may take: what the file says, or what fits into the limit of the
//! process.

use std::path::Path;
use std::sync::OnceLock;

use inrush_event::{AutoCount, ByteSize};
use inrush_host::memory::{Budget, MemoryLimit};
use inrush_sink::SinkConfig;

use super::Config;
use crate::udp;

/// What was chosen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemoryPlan {
    /// The limit and the parts, in one line.
    pub line: String,
    /// Why it is too much, if it is.
    pub warning: Option<String>,
}

/// The limit of this process. It is read once: parts do not change while the process runs.
pub fn memory_limit() -> Option<&'static MemoryLimit> {
    static LIMIT: OnceLock<Option<MemoryLimit>> = OnceLock::new();
    LIMIT
        .get_or_init(|| MemoryLimit::read(Path::new("/")))
        .as_ref()
}

impl Config {
    /// Gives each part that the file does not size its share of `limit`. `None`: the full sizes.
    pub fn fit_memory(&mut self, limit: Option<&MemoryLimit>) -> MemoryPlan {
        let cores = udp::worker_count(self.workers);
        let budget = Budget::of(limit.map_or(u64::MAX / 4, |limit| limit.bytes), cores);
        self.budget = Some(budget);
        if self.workers == AutoCount::Auto && budget.cores < cores {
            self.workers = AutoCount::of(u16::try_from(budget.cores).unwrap_or(u16::MAX));
        }
        let queue = self
            .queue
            .memory_bytes
            .get_or_insert(ByteSize(budget.queue));
        let queue = queue.0;
        let stores = self
            .destinations
            .values_mut()
            .filter_map(|sink| match sink {
                SinkConfig::Store(store) => Some(store),
                _ => None,
            });
        let mut flush = 0;
        let mut stores: Vec<_> = stores.collect();
        // Several stores share what one would get.
        let each = budget.store_flush / (stores.len() as u64).max(1);
        for store in &mut stores {
            let chosen = ByteSize(each.max(1 << 20));
            flush += store.flush_bytes.get_or_insert(chosen).0;
        }
        let Some(limit) = limit else {
            return MemoryPlan {
                line: "memory: no limit is known; every part has its full size".to_owned(),
                warning: None,
            };
        };
        let sum = budget.sum_with(queue, flush);
        let mib = limit.bytes >> 20;
        MemoryPlan {
            line: format!(
                "memory: limit {mib} MiB from {}: {}",
                limit.from,
                budget.words(queue, flush)
            ),
            warning: (sum > limit.bytes).then(|| {
                format!(
                    "memory: the parts may take {} MiB together, and the limit is {mib} MiB ({}): \
                     lower queue.memory_bytes or flush_bytes of a store, or leave them out; below \
                     128 MiB give the process more",
                    sum >> 20,
                    limit.from
                )
            }),
        }
    }

    /// The parts, once [`Self::fit_memory`] has chosen them; else their full sizes.
    pub fn memory_budget(&self) -> Budget {
        let full = || Budget::of(u64::MAX / 4, udp::worker_count(self.workers));
        self.budget.unwrap_or_else(full)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn limit(mib: u64) -> MemoryLimit {
        MemoryLimit {
            bytes: mib << 20,
            from: "/sys/fs/cgroup/memory.max".to_owned(),
        }
    }

    fn builtin() -> Config {
        Config::builtin(None).unwrap()
    }

    fn flush(config: &Config) -> Option<u64> {
        config.destinations.values().find_map(|sink| match sink {
            SinkConfig::Store(store) => Some(store.flush_bytes?.0),
            _ => None,
        })
    }

    #[test]
    fn what_the_file_does_not_say_fits_into_the_limit() {
        for mib in [128, 256, 512, 1024, 16_384] {
            let mut config = builtin();
            let plan = config.fit_memory(Some(&limit(mib)));
            assert_eq!(plan.warning, None, "{mib}");
            assert!(
                plan.line.contains(&format!("limit {mib} MiB from /sys")),
                "{plan:?}"
            );
            let budget = config.memory_budget();
            assert_eq!(config.queue.memory_bytes, Some(ByteSize(budget.queue)));
            assert_eq!(flush(&config), Some(budget.store_flush));
            // A second time, as after a reload, nothing changes.
            let before = config.clone();
            config.fit_memory(Some(&limit(mib)));
            assert_eq!(config, before);
        }
    }

    #[test]
    fn what_the_file_says_counts_and_too_much_is_said() {
        let mut config = builtin();
        config.queue.memory_bytes = Some(ByteSize(200 << 20));
        let plan = config.fit_memory(Some(&limit(256)));
        assert_eq!(config.queue.memory_bytes, Some(ByteSize(200 << 20)));
        assert!(plan.warning.unwrap().contains("queue.memory_bytes"));
        assert_eq!(config.fit_memory(Some(&limit(1024))).warning, None);
    }

    #[test]
    fn without_a_limit_all_have_their_full_size() {
        let mut config = builtin();
        config.fit_memory(None);
        assert_eq!(config.queue.memory_bytes, Some(ByteSize(128 << 20)));
        assert_eq!(flush(&config), Some(32 << 20));
    }
}
