//! The threads of this process, and how many CPUs it may use.

use std::path::{Component, Path};

use crate::files::HostFiles;
use crate::host::THREADS_MAX;
use crate::text::{cpu_list, schedstat, thread_stat};

/// Levels of control groups that are looked at; systemd's and Kubernetes' nest less than ten.
const LEVELS_MAX: usize = 32;

/// A thread of this process at one moment.
#[derive(Clone, PartialEq, Debug)]
pub struct ThreadTime {
    /// Its number.
    pub id: u64,
    /// Its name, which the kernel cuts to 15 characters.
    pub name: String,
    /// Seconds that it ran its own code, so far.
    pub user_seconds: f64,
    /// Seconds that the kernel ran for it, so far.
    pub system_seconds: f64,
    /// True if it is just now in a wait that cannot be interrupted (state `D`), which is for a
    /// disk.
    pub on_disk: bool,
}

/// Every thread of this process, at most [`THREADS_MAX`]; none where `/proc` is not there.
pub fn threads() -> Vec<ThreadTime> {
    let files = HostFiles::at(Path::new("/"));
    let names = files.names("proc/self/task");
    let numbers = names.iter().filter_map(|name| name.parse().ok());
    let read = |id| thread(&files, id);
    numbers.take(THREADS_MAX).filter_map(read).collect()
}

fn thread(files: &HostFiles, id: u64) -> Option<ThreadTime> {
    let folder = format!("proc/self/task/{id}");
    let stat = thread_stat(&files.text(format!("{folder}/stat"))?)?;
    // To the nanosecond, where the kernel has it; the ticks then only say how it is shared.
    let precise = files.text(format!("{folder}/schedstat"));
    let precise = precise.and_then(|text| schedstat(&text));
    let ticks_ns = stat.user_ns.saturating_add(stat.system_ns);
    let all_seconds = precise.unwrap_or(ticks_ns) as f64 / 1e9;
    let user_part = if ticks_ns == 0 {
        1.0
    } else {
        stat.user_ns as f64 / ticks_ns as f64
    };
    Some(ThreadTime {
        id,
        name: stat.name,
        user_seconds: all_seconds * user_part,
        system_seconds: all_seconds * (1.0 - user_part),
        on_disk: stat.state == 'D',
    })
}

/// CPUs that this process may use: those that it may run on, or the share that its control group
/// (v2) gives it if that is less. At least a hundredth of one.
pub fn usable_cpus() -> f64 {
    cpus_at(Path::new("/"))
}

pub(crate) fn cpus_at(root: &Path) -> f64 {
    let files = HostFiles::at(root);
    let status = files.text("proc/self/status").unwrap_or_default();
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let allowed = list.map_or(0, |list| cpu_list(list).len()).max(1) as f64;
    quota(&files).map_or(allowed, |quota| allowed.min(quota).max(0.01))
}

/// The tightest `cpu.max` of the group of this process and of those above it, in CPUs.
fn quota(files: &HostFiles) -> Option<f64> {
    let text = files.text("proc/self/cgroup").unwrap_or_default();
    let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    let parts = Path::new(path.trim()).components();
    let names = parts.filter_map(|part| match part {
        Component::Normal(name) => name.to_str(),
        _ => None,
    });
    let mut folder = "sys/fs/cgroup".to_owned();
    let mut tightest = bound(files, &folder);
    for name in names.take(LEVELS_MAX) {
        folder = format!("{folder}/{name}");
        tightest = match (tightest, bound(files, &folder)) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }
    tightest
}

fn bound(files: &HostFiles, folder: &str) -> Option<f64> {
    let text = files.text(format!("{folder}/cpu.max"))?;
    let mut words = text.split_ascii_whitespace();
    let quota: f64 = words.next()?.parse().ok()?;
    let period: f64 = words.next()?.parse().ok()?;
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_thread_that_works_is_found_by_its_name() {
        let work = || {
            let before = threads();
            let mine = |all: &[ThreadTime]| {
                let found = all.iter().find(|thread| thread.name == "rate-test");
                found.map(|thread| thread.user_seconds + thread.system_seconds)
            };
            let first = mine(&before).unwrap();
            // Until its clock has moved, however busy the machine is.
            while mine(&threads()).unwrap() - first < 0.02 {}
        };
        let named = std::thread::Builder::new().name("rate-test".into());
        named.spawn(work).unwrap().join().unwrap();
    }

    #[test]
    fn cpus_are_those_allowed_or_the_share_of_the_tightest_group() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let file = root.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        assert_eq!(cpus_at(root.path()), 1.0);
        write("proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-2,5\n");
        assert_eq!(cpus_at(root.path()), 4.0);
        write("proc/self/cgroup", "0::/a/b\n");
        write("sys/fs/cgroup/a/cpu.max", "50000 100000\n");
        write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
        assert_eq!(cpus_at(root.path()), 0.5);
        write("sys/fs/cgroup/a/b/cpu.max", "250000 100000\n");
        assert_eq!(cpus_at(root.path()), 0.5);
        write("sys/fs/cgroup/a/cpu.max", "900000 100000\n");
        assert_eq!(cpus_at(root.path()), 2.5);
    }
}
