//! Idle CPU time of the machine.

use std::path::Path;
use std::time::Instant;

use crate::files::HostFiles;
use crate::text::idle_ticks;

/// Ticks in a second in `/proc/stat`: USER_HZ is 100 on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;

/// Watches the idle time of all CPUs together, in steps of 10 ms.
pub struct IdleMeter {
    files: HostFiles,
    last: Option<(u64, Instant)>,
}

impl Default for IdleMeter {
    fn default() -> Self {
        Self::new()
    }
}

impl IdleMeter {
    /// A meter of this machine.
    pub fn new() -> Self {
        Self::at(Path::new("/"))
    }

    pub(crate) fn at(root: &Path) -> Self {
        Self {
            files: HostFiles::at(root),
            last: None,
        }
    }

    /// CPUs that were idle on average since the last call; `None` for the first, and where the
    /// kernel does not say. Calls should be some 100 ms apart at least.
    pub fn idle_cpus(&mut self, now: Instant) -> Option<f64> {
        let text = self.files.text("proc/stat");
        let ticks = text.and_then(|text| idle_ticks(&text));
        let before = std::mem::replace(&mut self.last, ticks.map(|ticks| (ticks, now)));
        let ((ticks, _), (earlier, then)) = (self.last?, before?);
        let seconds = now.duration_since(then).as_secs_f64();
        (seconds > 0.0).then(|| ticks.saturating_sub(earlier) as f64 / TICKS_PER_SECOND / seconds)
    }

    /// Forgets the last call.
    pub fn forget(&mut self) {
        self.last = None;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;
    use std::time::Duration;

    use super::*;

    #[test]
    fn idle_time_of_all_cpus_is_counted_since_the_last_call() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("proc")).unwrap();
        let write = |idle: u64, wait: u64| {
            let text = format!("cpu  9 8 7 {idle} {wait} 5 4 3 2 1\ncpu0 1 1 1 1 1 1\n");
            fs::write(root.path().join("proc/stat"), text).unwrap();
        };
        let mut meter = IdleMeter::at(root.path());
        let now = Instant::now();
        assert_eq!(meter.idle_cpus(now), None, "no file");
        write(1000, 10);
        assert_eq!(meter.idle_cpus(now), None, "the first");
        write(1020, 20);
        let later = now + Duration::from_millis(200);
        assert!((meter.idle_cpus(later).unwrap() - 1.5).abs() < 1e-9);
        write(0, 0);
        assert_eq!(meter.idle_cpus(later + Duration::from_secs(1)), Some(0.0));
        meter.forget();
        assert_eq!(meter.idle_cpus(later + Duration::from_secs(2)), None);
    }
}
