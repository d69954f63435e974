//! Memory budget of each part: the size that the file gives, or a share of the limit of the
//! process.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::OnceLock;
use std::thread;

use inrush_event::{AutoCount, ByteSize};
use inrush_host::memory::{MemoryLimit, MemoryShares};
use inrush_sink::SinkConfig;

use super::Config;

/// Memory budgets that were chosen, in words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemoryPlan {
    /// The limit and the parts, in one line.
    pub line: String,
    /// Warning that the parts together exceed the limit, if they do.
    pub warning: Option<String>,
}

/// The limit of this process. It is read once: parts do not change while the process runs.
pub fn memory_limit() -> Option<&'static MemoryLimit> {
    static LIMIT: OnceLock<Option<MemoryLimit>> = OnceLock::new();
    LIMIT
        .get_or_init(|| MemoryLimit::read(Path::new("/")))
        .as_ref()
}

/// Cores that take events in: by default all that the process may use, by its affinity and the
/// quota of its cgroup.
pub fn worker_count(workers: AutoCount) -> usize {
    match workers {
        AutoCount::Count(n) => usize::from(n.get()),
        AutoCount::Auto => thread::available_parallelism().map_or(1, NonZeroUsize::get),
    }
}

impl Config {
    /// Gives each part that the file does not size its share of `limit`. `None`: the full sizes.
    pub fn fit_memory(&mut self, limit: Option<&MemoryLimit>) -> MemoryPlan {
        let cores = worker_count(self.workers);
        let budget = match limit {
            Some(limit) => MemoryShares::of(limit.bytes, cores),
            None => MemoryShares::full(cores),
        };
        self.budget = Some(budget);
        if self.workers == AutoCount::Auto && budget.cores < cores {
            self.workers = AutoCount::of(u16::try_from(budget.cores).unwrap_or(u16::MAX));
        }
        let queue = self
            .queue
            .memory_bytes
            .get_or_insert(ByteSize(budget.queue));
        let queue = queue.0;
        self.fit_sources(&budget);
        let flush = self.fit_destinations(&budget);
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

    /// Bounds the receive buffers of each source. They do not depend on other sources: a reload
    /// that adds one keeps the sockets of all.
    fn fit_sources(&mut self, budget: &MemoryShares) {
        let workers = worker_count(self.workers);
        for source in self.sources.values_mut() {
            source.options_mut().fit_memory(budget.receive(), workers);
        }
    }

    /// Gives destinations of one kind equal shares; returns `flush_bytes` of all stores together.
    fn fit_destinations(&mut self, budget: &MemoryShares) -> u64 {
        let count = |of: fn(&SinkConfig) -> bool| {
            let known = self.destinations.values();
            known.filter(|sink| of(sink)).count().max(1) as u64
        };
        let stores = count(|sink| matches!(sink, SinkConfig::Store(_)));
        let collectors = count(|sink| matches!(sink, SinkConfig::SplunkHec(_)));
        let mut flush = 0;
        for sink in self.destinations.values_mut() {
            match sink {
                SinkConfig::Store(store) => {
                    let chosen = ByteSize((budget.store_flush / stores).max(1 << 20));
                    flush += store.flush_bytes.get_or_insert(chosen).0;
                }
                SinkConfig::SplunkHec(hec) => hec.fit_memory(budget.sinks / collectors),
                _ => {}
            }
        }
        flush
    }

    /// The parts, once [`Self::fit_memory`] has chosen them; else their full sizes.
    pub fn memory_budget(&self) -> MemoryShares {
        let full = || MemoryShares::full(worker_count(self.workers));
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
    fn receive_buffers_follow_the_limit_unless_the_file_says_more() {
        let bytes = |config: &Config| {
            let options = config.sources[0].options();
            options.udp(1).receive_buffer_bytes >> 10
        };
        let mut config = builtin();
        let found = [128, 512, 4096, 1 << 16].map(|mib| {
            config.fit_memory(Some(&limit(mib)));
            bytes(&config)
        });
        assert!(found[0] < 5 << 10 && found[0] >= 1 << 10, "{found:?}");
        assert!(found.is_sorted() && found[3] == 64 << 10, "{found:?}");
        let syslog = config.sources[0].as_syslog_mut().unwrap();
        syslog.udp.receive_buffer = ByteSize(32 << 20);
        config.fit_memory(Some(&limit(128)));
        assert_eq!(bytes(&config), 32 << 10);
    }

    #[test]
    fn without_a_limit_all_have_their_full_size() {
        let mut config = builtin();
        config.fit_memory(None);
        assert_eq!(config.queue.memory_bytes, Some(ByteSize(128 << 20)));
        assert_eq!(flush(&config), Some(32 << 20));
    }
}
