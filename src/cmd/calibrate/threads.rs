//! CPU time and disk waits of the pipeline's threads, told apart from ours by their names: those of
//! ARCHITECTURE.md, "Threads".

use std::collections::HashMap;

use inrush_host::rate::{PipelineStage, ThreadUse};
use inrush_host::{ThreadTime, threads};

use super::collector;

/// The name of the generator's threads, which they take over from the one that starts them.
pub(super) const LOAD_THREAD: &str = "doctor-load";

/// Threads watched from one moment on.
pub(super) struct ThreadMonitor {
    before: HashMap<u64, ThreadTime>,
    /// Looks at which each waited for the disk.
    on_disk: HashMap<u64, u32>,
    looks: u32,
}

/// CPU time and disk waits of the threads that were watched.
pub(super) struct ThreadUsage {
    pub(super) pipeline: Vec<ThreadUse>,
    /// CPU seconds of generator, collector and of the thread that watches.
    pub(super) ours_seconds: f64,
    /// CPU seconds of the busiest thread of the generator.
    pub(super) generator_seconds: f64,
}

impl ThreadMonitor {
    /// Begins now.
    pub(super) fn begin() -> Self {
        Self {
            before: threads().into_iter().map(|one| (one.id, one)).collect(),
            on_disk: HashMap::new(),
            looks: 0,
        }
    }

    /// Looks which of them wait for the disk.
    pub(super) fn look(&mut self) {
        self.looks += 1;
        for thread in threads().iter().filter(|thread| thread.on_disk) {
            *self.on_disk.entry(thread.id).or_default() += 1;
        }
    }

    /// Returns what they used in the `seconds` since.
    pub(super) fn end(&self, seconds: f64) -> ThreadUsage {
        self.account(threads(), seconds)
    }

    fn account(&self, now: Vec<ThreadTime>, seconds: f64) -> ThreadUsage {
        let mut used = ThreadUsage {
            pipeline: Vec::new(),
            ours_seconds: 0.0,
            generator_seconds: 0.0,
        };
        for thread in now {
            let before = self.before.get(&thread.id);
            let user = thread.user_seconds - before.map_or(0.0, |one| one.user_seconds);
            let system = thread.system_seconds - before.map_or(0.0, |one| one.system_seconds);
            let cpu = (user + system).max(0.0);
            let Some(stage) = stage(&thread) else {
                used.ours_seconds += cpu;
                if thread.name == LOAD_THREAD {
                    used.generator_seconds = used.generator_seconds.max(cpu);
                }
                continue;
            };
            let looks = self.on_disk.get(&thread.id).copied().unwrap_or(0);
            used.pipeline.push(ThreadUse {
                stage,
                // How the kernel shares out user and system may go back a tick.
                user: user.clamp(0.0, cpu),
                system: system.clamp(0.0, cpu),
                disk: f64::from(looks) / f64::from(self.looks.max(1)) * seconds,
            });
        }
        used
    }
}

/// Stage of the pipeline that the thread is of; `None` for ours.
fn stage(thread: &ThreadTime) -> Option<PipelineStage> {
    let name = thread.name.as_str();
    let is_main = thread.id == u64::from(std::process::id());
    if is_main || name == LOAD_THREAD || name == collector::THREAD {
        return None;
    }
    let begins = |names: &[&str]| names.iter().any(|begin| name.starts_with(begin));
    Some(if name == "queue-sync" {
        PipelineStage::Sync
    } else if name == "queue" || name == "queue-tidy" {
        PipelineStage::Queue
    } else if begins(&["udp-", "stream-", "pool-", "acceptor"]) {
        PipelineStage::Intake
    } else if begins(&["to-", "store-"]) {
        PipelineStage::Send
    } else {
        PipelineStage::Other
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn thread(id: u64, name: &str, user: f64, system: f64) -> ThreadTime {
        ThreadTime {
            id,
            name: name.to_owned(),
            user_seconds: user,
            system_seconds: system,
            on_disk: false,
        }
    }

    #[test]
    fn threads_are_ours_or_of_a_stage_by_their_names() {
        let main = u64::from(std::process::id());
        let watched = ThreadMonitor {
            before: [(1_u64 << 40, thread(1 << 40, "stream-0", 1.0, 0.5))].into(),
            on_disk: [((1 << 40) + 2, 3)].into(),
            looks: 4,
        };
        let now = vec![
            thread(main, "inrush", 9.0, 0.0),
            thread(1 << 40, "stream-0", 2.0, 0.75),
            thread((1 << 40) + 1, "doctor-load", 0.25, 0.5),
            thread((1 << 40) + 2, "queue-sync", 0.0, 0.125),
            thread((1 << 40) + 3, "to-splunk", 0.5, 0.0),
            thread((1 << 40) + 4, "doctor-sink", 0.0, 1.0),
            thread((1 << 40) + 5, "watch", 0.0, 0.0),
        ];
        let used = watched.account(now, 2.0);
        assert_eq!((used.ours_seconds, used.generator_seconds), (10.75, 0.75));
        let use_of = |stage, user, system, disk| ThreadUse {
            stage,
            user,
            system,
            disk,
        };
        let wanted = [
            use_of(PipelineStage::Intake, 1.0, 0.25, 0.0),
            use_of(PipelineStage::Sync, 0.0, 0.125, 1.5),
            use_of(PipelineStage::Send, 0.5, 0.0, 0.0),
            use_of(PipelineStage::Other, 0.0, 0.0, 0.0),
        ];
        assert_eq!(used.pipeline, wanted);
    }
}
