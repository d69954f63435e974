//! Generations of a file: which lines each holds, and when nobody could read it any more.
//!
//! A generation is what stands in one inode between two truncations. The rotator knows when its
//! last plain name went or its bytes were cut off, so that a line that did not arrive has a cause.

use std::ops::Range;
use std::time::{Duration, Instant};

/// Age of a line at a truncation below which no reader can be blamed for not having read it.
pub(crate) const FRESH: Duration = Duration::from_millis(250);

/// Lines of both lanes.
pub(crate) type LaneRanges = [Range<u32>; 2];

/// Way in which a generation became unreadable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum GoneWay {
    /// Its last plain name was removed: who has it open can read on.
    Unlinked,
    /// Its bytes were cut off: nobody can read on.
    Truncated,
}

/// One generation.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogGeneration {
    /// Lines of which a part stands here.
    pub(crate) lines: LaneRanges,
    /// Bytes that were written.
    pub(crate) bytes: u64,
    /// Time at which it became unreadable, and how.
    pub(crate) gone: Option<(Instant, GoneWay)>,
    /// Lines that the rotation itself loses: written between a copy and the truncation.
    pub(crate) window: LaneRanges,
    /// Lines written less than [`FRESH`] before a truncation.
    pub(crate) fresh: LaneRanges,
    /// First lines after a truncation: to a reader they may be the end of a line whose begin it has
    /// and whose end was cut off.
    pub(crate) behind_cut: LaneRanges,
}

/// Cause of a loss.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum LossCause {
    /// The rotation itself loses it.
    Window,
    /// It was younger than [`FRESH`] when its file was truncated, or the first one behind that.
    Fresh,
    /// Its generation went while the collector was down.
    Down,
    /// Its generation went while the collector ran.
    Gone,
    /// Its generation is still there.
    Unread,
}

impl LogGeneration {
    /// Cause of the loss of a line that stands here; `down` tells the collector's state.
    fn cause(&self, lane: usize, number: u32, down: impl Fn(Instant) -> bool) -> LossCause {
        if self.window[lane].contains(&number) {
            return LossCause::Window;
        }
        if self.fresh[lane].contains(&number) || self.behind_cut[lane].contains(&number) {
            return LossCause::Fresh;
        }
        match self.gone {
            None => LossCause::Unread,
            Some((at, _)) if down(at) => LossCause::Down,
            Some(_) => LossCause::Gone,
        }
    }
}

/// Cause of the loss of a line: of all generations with a part of it the one that excuses most.
pub(crate) fn cause_of_loss(
    generations: &[LogGeneration],
    lane: usize,
    number: u32,
    down: impl Fn(Instant) -> bool,
) -> LossCause {
    let before = |one: &LogGeneration| one.lines[lane].end <= number;
    let from = generations.partition_point(before);
    let holding = generations[from..]
        .iter()
        .take_while(|one| one.lines[lane].start <= number);
    let causes = holding.map(|one| one.cause(lane, number, &down));
    causes.min().unwrap_or(LossCause::Unread)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: Range<u32>, gone: Option<(Instant, GoneWay)>) -> LogGeneration {
        LogGeneration {
            lines: [lines, 0..0],
            gone,
            ..LogGeneration::default()
        }
    }

    #[test]
    fn a_loss_has_the_cause_of_its_generation() {
        let now = Instant::now();
        let later = now + FRESH;
        let mut cut = of(30..40, Some((now, GoneWay::Truncated)));
        (cut.window[0], cut.fresh[0], cut.behind_cut[0]) = (38..40, 35..38, 31..32);
        let all = [
            of(0..10, Some((now, GoneWay::Unlinked))),
            of(10..20, Some((later, GoneWay::Unlinked))),
            of(20..30, None),
            cut,
        ];
        let cause = |number| cause_of_loss(&all, 0, number, |at| at == later);
        assert_eq!(cause(9), LossCause::Gone);
        assert_eq!(cause(10), LossCause::Down);
        assert_eq!(cause(25), LossCause::Unread);
        assert_eq!((cause(30), cause(36)), (LossCause::Gone, LossCause::Fresh));
        assert_eq!(cause(31), LossCause::Fresh);
        assert_eq!(cause(39), LossCause::Window);
    }

    #[test]
    fn a_line_in_two_generations_is_excused_by_either() {
        let now = Instant::now();
        let all = [
            of(0..10, Some((now, GoneWay::Unlinked))),
            of(9..10, None),
            of(9..20, None),
        ];
        assert_eq!(cause_of_loss(&all, 0, 9, |_| true), LossCause::Down);
        assert_eq!(cause_of_loss(&all, 0, 10, |_| true), LossCause::Unread);
    }
}
