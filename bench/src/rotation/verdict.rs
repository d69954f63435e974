//! Comparison of what was written with what arrived.

use std::ops::Range;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::account::{ArrivalAccount, ArrivalCounts};
use super::generation::{GoneWay, LossCause, cause_of_loss};
use super::log::{LANES, NumberedLog};

/// Losses that are told one by one.
const TOLD_MAX: usize = 20;

/// Lines that did not arrive, by cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LostLines {
    /// Lost by the rotation itself.
    pub(crate) window: u64,
    /// Younger than a quarter of a second when their file was truncated.
    pub(crate) fresh: u64,
    /// Their file went while the collector was down.
    pub(crate) down: u64,
    /// Their file went while the collector ran.
    pub(crate) gone: u64,
    /// Their file is still there.
    pub(crate) unread: u64,
    /// Bytes in files of those whose file was removed, by which a collector counts them.
    pub(crate) removed_bytes: u64,
    /// Gaps in the lines of a writer whose file went while the collector was down: of the line at
    /// each of their ends a part may have come.
    #[serde(default)]
    pub(crate) gaps: u64,
    /// The first ones that nothing excuses.
    pub(crate) told: Vec<String>,
}

/// The outcome, in lines where nothing else is said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RotationVerdict {
    pub(crate) written: u64,
    pub(crate) arrived: ArrivalCounts,
    pub(crate) lost: LostLines,
    /// Arrivals of what nobody wrote.
    pub(crate) unwritten: u64,
}

impl LostLines {
    /// Lines that the collector could have had.
    pub(crate) fn unexcused(&self) -> u64 {
        self.gone + self.unread
    }

    fn add(&mut self, log: &NumberedLog, lane: usize, number: u32, cause: LossCause) {
        let count = match cause {
            LossCause::Window => &mut self.window,
            LossCause::Fresh => &mut self.fresh,
            LossCause::Down => &mut self.down,
            LossCause::Gone => &mut self.gone,
            LossCause::Unread => &mut self.unread,
        };
        *count += 1;
        if matches!(cause, LossCause::Down | LossCause::Gone) && was_removed(log, lane, number) {
            self.removed_bytes += log.bytes_of(lane, number);
        }
        let unexcused = matches!(cause, LossCause::Gone | LossCause::Unread);
        if unexcused && self.told.len() < TOLD_MAX {
            let file = log.path().display();
            self.told
                .push(format!("{file}: lane {lane} line {number}: {cause:?}"));
        }
    }
}

/// True if the generation of a line was removed rather than truncated.
fn was_removed(log: &NumberedLog, lane: usize, number: u32) -> bool {
    let mut all = log.generations().iter();
    let one = all.find(|one| one.lines[lane].contains(&number));
    one.is_some_and(|one| matches!(one.gone, Some((_, GoneWay::Unlinked))))
}

impl RotationVerdict {
    /// Judges; the collector was not to be blamed within `downs`.
    pub(crate) fn of<'a>(
        logs: impl Iterator<Item = &'a NumberedLog>,
        account: &ArrivalAccount,
        downs: &[Range<Instant>],
    ) -> Self {
        let mut verdict = Self {
            arrived: account.counts(),
            ..Self::default()
        };
        let down = |at| downs.iter().any(|span| span.contains(&at));
        for (index, log) in (0_u32..).zip(logs) {
            for (lane, written) in log.written().into_iter().enumerate() {
                let writer = index * LANES + lane as u32;
                verdict.written += u64::from(written);
                verdict.unwritten += account.beyond(writer, written);
                let mut gap = None;
                for number in (0..written).filter(|number| !account.has(writer, *number)) {
                    let cause = cause_of_loss(log.generations(), lane, number, down);
                    verdict.lost.add(log, lane, number, cause);
                    if cause == LossCause::Down {
                        verdict.lost.gaps += u64::from(gap != Some(number));
                        gap = Some(number + 1);
                    }
                }
            }
        }
        verdict
    }
}
