//! Time and memory of the workers, seen from outside.

use std::fs;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::pool::{KillReason, PoolShared, WorkerProcess};

/// Intervals between two looks at the workers while one of them searches. One that takes a GiB a
/// second is found out after 20 MiB, or 5 where they may have little.
const EVERY: Duration = Duration::from_millis(20);
const EVERY_OF_LITTLE: Duration = Duration::from_millis(5);

/// Bytes of memory that are little for all workers.
const LITTLE_BYTES: usize = 64 << 20;

/// Interval between two looks while none searches.
const EVERY_IDLE: Duration = Duration::from_millis(500);

/// Looks at the workers for as long as anybody has them.
pub(super) fn watch(shared: &Weak<PoolShared>) {
    while let Some(shared) = shared.upgrade() {
        let busy = look(&shared);
        shared.pause(match busy {
            false => EVERY_IDLE,
            true if shared.memory_bytes() <= LITTLE_BYTES => EVERY_OF_LITTLE,
            true => EVERY,
        });
    }
}

/// Kills whoever is over a bound, and lets go of workers that idled for long; says whether any
/// searches.
fn look(shared: &PoolShared) -> bool {
    let now = Instant::now();
    let running = shared.running();
    for worker in &running {
        if let Some(why) = worker.is_over(now) {
            worker.kill(why);
        }
    }
    shared.end_idle(now);
    weigh(shared, &running);
    !running.is_empty()
}

/// Compares the memory of all workers with their budget.
fn weigh(shared: &PoolShared, running: &[Arc<WorkerProcess>]) {
    let mut all = 0;
    let mut largest: Option<(usize, &Arc<WorkerProcess>)> = None;
    for worker in running {
        let bytes = memory_of(worker.pid);
        worker.peak.fetch_max(bytes, Relaxed);
        all += bytes;
        if largest.is_none_or(|(most, _)| bytes > most) {
            largest = Some((bytes, worker));
        }
    }
    let idle = shared.idle_bytes();
    if all + idle > shared.memory_bytes() {
        shared.end_all_idle();
    }
    if all > shared.memory_bytes()
        && let Some((_, worker)) = largest
    {
        worker.kill(KillReason::Memory);
    }
}

/// Bytes that a process has for itself; 0 where nobody says.
pub(super) fn memory_of(pid: u32) -> usize {
    let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else {
        return 0;
    };
    let kib = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<usize>().ok()
    };
    let all = ["RssAnon:", "RssShmem:"].into_iter().filter_map(kib);
    all.sum::<usize>() * 1024
}

#[cfg(test)]
mod tests {
    use super::memory_of;

    #[test]
    fn a_process_has_memory_and_none_has_none() {
        assert!(memory_of(std::process::id()) > 100 * 1024);
        assert_eq!(memory_of(u32::MAX), 0);
    }
}
