//! `--since` and `--until`.

use inrush_event::Timestamp;
use inrush_query::when;

use crate::cmd::UsageError;

/// Times in nanoseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReplayRange {
    /// The earliest.
    pub(super) from_ns: i64,
    /// The time before which all lie; [`i64::MAX`] for no bound.
    pub(super) to_ns: i64,
}

impl ReplayRange {
    /// From what was typed.
    ///
    /// # Errors
    /// It is no time.
    pub(super) fn new(since: &str, until: Option<&str>) -> Result<Self, UsageError> {
        let now = Timestamp::now().0;
        let time = |text: &str| {
            let message = || UsageError(format!("{text:?} is no time: {}", when::TIMES));
            when::time(text, now).ok_or_else(message)
        };
        Ok(Self {
            from_ns: if since == "all" {
                i64::MIN
            } else {
                time(since)?
            },
            to_ns: until.map_or(Ok(i64::MAX), time)?,
        })
    }

    pub(super) fn has(&self, ns: i64) -> bool {
        self.from_ns <= ns && (ns < self.to_ns || self.to_ns == i64::MAX)
    }
}
