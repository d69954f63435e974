//! How much of the machine nobody uses.

use std::path::Path;
use std::time::Instant;

use crate::files::Files;
use crate::text::idle_ticks;

/// Ticks in a second in `/proc/stat`: USER_HZ is 100 on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;

/// Watches the idle time of all CPUs together, in steps of 10 ms.
pub struct IdleMeter {
    files: Files,
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
            files: Files::at(root),
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
