//! Counts of a journal source beside those of every source.

use inrush_event::{Counter, Metric, MetricsPage};

/// Reason why a child was started again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RestartReason {
    /// It ended with a status.
    Exited,
    /// A signal ended it: a crash, or someone killed it.
    Killed,
    /// It could not be started.
    Unstarted,
    /// It wrote something else than entries.
    Garbage,
    /// It wrote nothing for long, as an idle one and one that hangs do.
    Silent,
    /// The entry of its cursor is gone.
    CursorGone,
    /// So that files that were deleted since are released.
    Reopened,
    /// The options changed.
    Options,
}

impl RestartReason {
    const ALL: [Self; 8] = [
        Self::Exited,
        Self::Killed,
        Self::Unstarted,
        Self::Garbage,
        Self::Silent,
        Self::CursorGone,
        Self::Reopened,
        Self::Options,
    ];

    /// The label in metrics.
    const fn name(self) -> &'static str {
        match self {
            Self::Exited => "exited",
            Self::Killed => "killed",
            Self::Unstarted => "not_started",
            Self::Garbage => "garbage",
            Self::Silent => "silent",
            Self::CursorGone => "cursor_gone",
            Self::Reopened => "reopened",
            Self::Options => "options",
        }
    }

    /// True if something went wrong.
    pub(super) const fn is_fault(self) -> bool {
        matches!(
            self,
            Self::Exited | Self::Killed | Self::Unstarted | Self::Garbage
        )
    }
}

/// Counts of a journal source.
#[derive(Default)]
pub(super) struct JournalCounts {
    /// Places where entries are missing.
    pub(super) gaps: Counter,
    /// 1 while there is a child.
    pub(super) running: Counter,
    restarts: [Counter; RestartReason::ALL.len()],
}

impl JournalCounts {
    /// Counter of restarts for one reason.
    pub(super) fn restarts(&self, reason: RestartReason) -> &Counter {
        &self.restarts[reason as usize]
    }

    /// Adds the counts of the source `name`.
    pub(super) fn metrics(&self, name: &str, page: &mut MetricsPage) {
        let labels = || vec![("source", name)];
        page.add(Metric::JournalGaps, labels(), self.gaps.get() as f64);
        page.add(Metric::JournalRunning, labels(), self.running.get() as f64);
        for reason in RestartReason::ALL {
            let count = self.restarts(reason).get() as f64;
            let labels = vec![("source", name), ("reason", reason.name())];
            page.add(Metric::JournalRestarts, labels, count);
        }
    }
}
