//! CPU time that the control groups of this process withhold from it: `cpu.stat` of version 2
//! (kernel: Documentation/admin-guide/cgroup-v2.rst, "CPU Interface Files") and of version 1
//! (Documentation/scheduler/sched-bwc.rst).

use std::path::Path;

use crate::doctor::cgroup::{groups_of, value};
use crate::files::HostFiles;

/// Periods of the group that was held back most, since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CpuThrottling {
    /// Periods in which the group wanted CPU time.
    pub periods: u64,
    /// Periods of them in which its quota was used up: all its threads stood still.
    pub throttled: u64,
    /// Time for which they did, in nanoseconds.
    pub throttled_ns: u64,
}

impl CpuThrottling {
    /// Counts of this process, on the host under `root` (`/`); `None` where no group has any.
    pub fn read(root: &Path) -> Option<Self> {
        let files = HostFiles::at(root);
        let process = files.text("proc/self/cgroup").unwrap_or_default();
        let groups = groups_of(&|path| files.text(path), &process, "cpu");
        let groups = groups.iter();
        let counts = groups.filter_map(|group| {
            let text = files.text(format!("{}/cpu.stat", group.folder))?;
            Self::parse(&text)
        });
        counts.max_by_key(|counts| (counts.throttled, counts.periods))
    }

    /// The counts in a `cpu.stat`. A group without a bound has none in version 2.
    fn parse(text: &str) -> Option<Self> {
        let in_us = value(text, "throttled_usec").map(|us| us.saturating_mul(1000));
        Some(Self {
            periods: value(text, "nr_periods")?,
            throttled: value(text, "nr_throttled")?,
            throttled_ns: in_us.or_else(|| value(text, "throttled_time"))?,
        })
    }

    /// Increase since `before`; all of it where the process is in another group now.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        if self.periods < before.periods || self.throttled < before.throttled {
            return *self;
        }
        Self {
            periods: self.periods - before.periods,
            throttled: self.throttled - before.throttled,
            throttled_ns: self.throttled_ns.saturating_sub(before.throttled_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;

    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    const TWO: &str = "usage_usec 9\nnr_periods 50\nnr_throttled 7\nthrottled_usec 3000\n";

    #[test]
    fn the_group_that_is_held_back_most_counts_in_both_versions() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        assert_eq!(CpuThrottling::read(root), None);
        write(root, "proc/self/cgroup", "0::/a/b\n");
        for folder in ["", "a/", "a/b/"] {
            write(
                root,
                &format!("sys/fs/cgroup/{folder}cgroup.controllers"),
                "cpu",
            );
        }
        write(root, "sys/fs/cgroup/a/cpu.stat", TWO);
        write(
            root,
            "sys/fs/cgroup/a/b/cpu.stat",
            "usage_usec 9\nnr_periods 0\nnr_throttled 0\n",
        );
        let two = CpuThrottling {
            periods: 50,
            throttled: 7,
            throttled_ns: 3_000_000,
        };
        assert_eq!(CpuThrottling::read(root), Some(two));

        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        write(root, "proc/self/cgroup", "1:cpu,cpuacct:/x\n0::/\n");
        write(
            root,
            "proc/self/mountinfo",
            "25 22 0:22 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n",
        );
        write(root, "sys/fs/cgroup/cpu/cgroup.procs", "");
        write(root, "sys/fs/cgroup/cpu/x/cgroup.procs", "");
        let one = "nr_periods 50\nnr_throttled 7\nthrottled_time 3000000\n";
        write(root, "sys/fs/cgroup/cpu/x/cpu.stat", one);
        assert_eq!(CpuThrottling::read(root), Some(two));
    }

    #[test]
    fn counts_that_begin_anew_are_taken_whole() {
        let counts = |periods, throttled| CpuThrottling {
            periods,
            throttled,
            throttled_ns: throttled * 10,
        };
        assert_eq!(counts(9, 5).since(&counts(4, 2)), counts(5, 3));
        assert_eq!(counts(3, 1).since(&counts(4, 2)), counts(3, 1));
        assert_eq!(CpuThrottling::parse("nr_periods x\n"), None);
    }
}
