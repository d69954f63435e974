//! The wall clock, held against a clock that cannot be set: one wrong time must not make
//! everything that is kept look old.
//!
//! # What it guarantees
//! * [`ClockJudgement::oldest`] is the time that ages are counted by. It never runs ahead of the
//!   steady clock by more than [`CLOCK_TOLERANCE`] a day, until a jump is confirmed.
//! * A jump is confirmed when the wall clock went on from it for [`CLOCK_CONFIRM`]; one that lies
//!   between two runs of the process, in which nobody watched, for [`CLOCK_CONFIRM_START`].
//! * [`ClockJudgement::newest`] is the time that what comes in is stamped by: with a clock that
//!   fell behind, what is new must not look old once the clock is right again.
//! * What a clock that was behind has stamped is known for as long as the spans are, in which it
//!   was ([`WallClock::mended`]): it may have waited in a queue until the clock was set right.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::Timestamp;

/// Largest deviation of the wall clock from the steady one in a day that is not doubted. NTP steps
/// and drifting clocks stay below.
pub const CLOCK_TOLERANCE: Duration = Duration::from_secs(60 * 60);

/// Time that the wall clock must go on from a jump before the jump is believed.
pub const CLOCK_CONFIRM: Duration = Duration::from_secs(24 * 60 * 60);

/// The same, where the jump may be the time that the process did not run.
pub const CLOCK_CONFIRM_START: Duration = Duration::from_secs(60 * 60);

/// Between two looks at how far the clocks are apart, from which on the tolerance counts anew.
const REBASE: Duration = Duration::from_secs(24 * 60 * 60);

/// Time since the host started, sleep included, by a clock that nobody sets: `/proc/uptime`
/// (proc(5)), or the monotonic clock where there is none.
pub fn steady() -> Duration {
    static BEGAN: OnceLock<Option<Instant>> = OnceLock::new();
    let began = BEGAN.get_or_init(|| uptime().is_none().then(Instant::now));
    match began {
        Some(began) => began.elapsed(),
        None => uptime().unwrap_or_default(),
    }
}

fn uptime() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/uptime").ok()?;
    let seconds = text.split(' ').next()?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// A wall clock that has left the steady one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ClockJump {
    /// The wall clock when it was first seen there, in nanoseconds since 1970.
    wall_ns: i64,
    /// The steady clock then.
    steady: Duration,
    confirm: Duration,
}

/// Judgement of the wall clock: the times to count by, and by how much it is off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockJudgement {
    /// The time that ages are counted by.
    pub oldest: Timestamp,
    /// The time that what comes in is stamped by.
    pub newest: Timestamp,
    /// Nanoseconds by which the wall clock is ahead of what is believed; negative if it is behind.
    pub off_ns: i64,
    /// Time until the wall clock is believed, if it is doubted.
    pub believed_in: Option<Duration>,
}

/// A span of wrong times: a wall clock that was behind has shown them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockLag {
    /// The first, in nanoseconds since 1970.
    pub from_ns: i64,
    /// The last, in the same way.
    pub to_ns: i64,
    /// Nanoseconds by which it was behind.
    pub by_ns: i64,
}

impl ClockLag {
    /// True if the wall clock has shown this time in it, or about.
    pub fn has(&self, time_ns: i64) -> bool {
        let tolerance = CLOCK_TOLERANCE.as_nanos() as i64;
        let from = self.from_ns.saturating_sub(tolerance);
        (from..=self.to_ns.saturating_add(tolerance)).contains(&time_ns)
    }
}

/// Spans that are remembered: a clock that jumps more often shows that nothing can be known.
const SPANS_KEPT: usize = 8;

/// A wall clock under watch. Whoever has it asks it every few seconds.
#[derive(Clone, Debug)]
pub struct WallClock {
    /// A wall time that was believed, in nanoseconds since 1970, and the steady clock then.
    base: (i64, Duration),
    doubted: Option<ClockJump>,
    /// The newest last.
    behind: Vec<ClockLag>,
}

impl WallClock {
    /// A clock that reads `wall` now. `known` is a time that was believed by an earlier process, as
    /// far as there is one, and whether that process doubted its wall clock.
    pub fn new(known: Option<(Timestamp, bool)>, wall: Timestamp, steady: Duration) -> Self {
        let believed = known.map_or(wall, |(time, _)| time);
        let mut clock = Self {
            base: (believed.0, steady),
            doubted: None,
            behind: Vec::new(),
        };
        let doubtful = known.is_some_and(|(_, doubted)| doubted);
        let confirm = if doubtful {
            CLOCK_CONFIRM
        } else {
            CLOCK_CONFIRM_START
        };
        clock.look(wall, steady, confirm);
        clock
    }

    /// Judges the wall clock now.
    pub fn judge(&mut self, wall: Timestamp, steady: Duration) -> ClockJudgement {
        self.look(wall, steady, CLOCK_CONFIRM)
    }

    /// Adds the spans that an earlier process knew.
    pub fn remember(&mut self, behind: Vec<ClockLag>) {
        let own = std::mem::replace(&mut self.behind, behind);
        own.into_iter().for_each(|span| self.add_span(span));
    }

    /// The spans in which the wall clock was behind, as far as they are remembered.
    pub fn spans(&self) -> &[ClockLag] {
        &self.behind
    }

    /// The believed time of receipt of something that the wall clock has stamped so.
    pub fn mended(&self, received: Timestamp) -> Timestamp {
        let span = self.behind.iter().rev().find(|span| span.has(received.0));
        span.map_or(received, |span| {
            Timestamp(received.0.saturating_add(span.by_ns))
        })
    }

    fn note_behind(&mut self, wall_ns: i64, by_ns: i64) {
        self.add_span(ClockLag {
            from_ns: wall_ns,
            to_ns: wall_ns,
            by_ns,
        });
    }

    /// Adds to a span, or a span: each start sees the one again in which it happens.
    fn add_span(&mut self, span: ClockLag) {
        let is_same = |known: &&mut ClockLag| {
            (known.has(span.from_ns) || known.has(span.to_ns)) && is_near(known.by_ns, span.by_ns)
        };
        match self.behind.iter_mut().rev().find(is_same) {
            Some(known) => {
                known.from_ns = known.from_ns.min(span.from_ns);
                known.to_ns = known.to_ns.max(span.to_ns);
            }
            None => self.behind.push(span),
        }
        let more = self.behind.len().saturating_sub(SPANS_KEPT);
        self.behind.drain(..more);
    }

    /// True if the wall clock is doubted.
    pub fn is_doubted(&self) -> bool {
        self.doubted.is_some()
    }

    fn look(&mut self, wall: Timestamp, steady: Duration, confirm: Duration) -> ClockJudgement {
        let expected = after(self.base, steady);
        if is_near(wall.0, expected) {
            self.doubted = None;
            if steady.saturating_sub(self.base.1) >= REBASE {
                self.base = (wall.0, steady);
            }
            return ClockJudgement::believed(wall);
        }
        let goes_on = |doubted: &ClockJump| is_near(wall.0, after(doubted.since(), steady));
        let doubted = *self
            .doubted
            .get_or_insert_with(|| ClockJump::new(wall, steady, confirm));
        if !goes_on(&doubted) {
            self.doubted = Some(ClockJump::new(wall, steady, confirm));
        }
        let left = self.doubted.map_or(Duration::ZERO, |doubted| {
            let lasted = steady.saturating_sub(doubted.steady);
            doubted.confirm.saturating_sub(lasted)
        });
        if left.is_zero() {
            self.doubted = None;
            // It was right all the time, and what was believed was not.
            if wall.0 < expected {
                self.behind.retain(|span| !span.has(wall.0));
            }
            self.base = (wall.0, steady);
            return ClockJudgement::believed(wall);
        }
        if wall.0 < expected {
            self.note_behind(wall.0, expected - wall.0);
        }
        ClockJudgement {
            oldest: Timestamp(wall.0.min(expected)),
            newest: Timestamp(wall.0.max(expected)),
            off_ns: wall.0.saturating_sub(expected),
            believed_in: Some(left),
        }
    }
}

impl ClockJump {
    fn new(wall: Timestamp, steady: Duration, confirm: Duration) -> Self {
        Self {
            wall_ns: wall.0,
            steady,
            confirm,
        }
    }

    fn since(&self) -> (i64, Duration) {
        (self.wall_ns, self.steady)
    }
}

impl ClockJudgement {
    /// The time that is believed, whatever the wall clock says.
    pub fn expected(&self) -> Timestamp {
        match self.off_ns < 0 {
            true => self.newest,
            false => self.oldest,
        }
    }

    fn believed(wall: Timestamp) -> Self {
        Self {
            oldest: wall,
            newest: wall,
            off_ns: 0,
            believed_in: None,
        }
    }
}

/// The time at `steady`, going on from a time and the steady clock then.
fn after((time, then): (i64, Duration), steady: Duration) -> i64 {
    let passed = steady.saturating_sub(then).as_nanos();
    time.saturating_add(i64::try_from(passed).unwrap_or(i64::MAX))
}

fn is_near(one: i64, other: i64) -> bool {
    u128::from(one.abs_diff(other)) <= CLOCK_TOLERANCE.as_nanos()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400_000_000_000;
    const NOW: i64 = 1_790_000_000_000_000_000;
    const MINUTE: Duration = Duration::from_secs(60);

    fn at(ns: i64) -> Timestamp {
        Timestamp(ns)
    }

    #[test]
    fn a_jump_is_held_back_until_it_has_lasted() {
        for days in [60, 2, -1, -400] {
            let mut clock = WallClock::new(None, at(NOW), Duration::ZERO);
            assert_eq!(clock.judge(at(NOW), Duration::ZERO).believed_in, None);
            let mut steady = Duration::ZERO;
            while steady < CLOCK_CONFIRM {
                steady += MINUTE;
                let passed = steady.as_nanos() as i64;
                let judged = clock.judge(at(NOW + days * DAY + passed), steady);
                assert!(
                    judged.oldest.0 <= NOW + passed,
                    "{days} d: nothing grows old"
                );
                assert!(
                    judged.newest.0 >= NOW + passed,
                    "{days} d: what is new stays new"
                );
                assert!(judged.believed_in.is_some() && clock.is_doubted());
            }
            steady += MINUTE;
            let wall = at(NOW + days * DAY + steady.as_nanos() as i64);
            let judged = clock.judge(wall, steady);
            assert_eq!(
                (judged.oldest, judged.believed_in),
                (wall, None),
                "{days} d"
            );
        }
    }

    #[test]
    fn a_jump_that_is_set_right_leaves_nothing() {
        let mut clock = WallClock::new(None, at(NOW), Duration::ZERO);
        clock.judge(at(NOW + 60 * DAY), MINUTE);
        assert!(clock.is_doubted());
        let right = at(NOW + 2 * MINUTE.as_nanos() as i64);
        assert_eq!(clock.judge(right, 2 * MINUTE).oldest, right);
        assert!(!clock.is_doubted());
        // Another jump begins its own time.
        let judged = clock.judge(at(NOW + 30 * DAY), 3 * MINUTE);
        assert_eq!(judged.believed_in, Some(CLOCK_CONFIRM));
    }

    #[test]
    fn a_clock_that_jumps_again_and_again_is_never_believed() {
        let mut clock = WallClock::new(None, at(NOW), Duration::ZERO);
        for hours in 1..2000 {
            let steady = Duration::from_secs(3600 * hours);
            let judged = clock.judge(at(NOW + hours as i64 * DAY), steady);
            let most = NOW + (steady + CLOCK_TOLERANCE).as_nanos() as i64;
            assert!(judged.oldest.0 <= most, "{hours}");
        }
    }

    #[test]
    fn a_clock_that_creeps_gains_an_hour_a_day_at_most() {
        let mut clock = WallClock::new(None, at(NOW), Duration::ZERO);
        // It gains a minute in each.
        for minutes in 1..2880_u32 {
            let steady = MINUTE * minutes;
            let judged = clock.judge(at(NOW + 2 * steady.as_nanos() as i64), steady);
            let most = NOW + (steady + 3 * CLOCK_TOLERANCE).as_nanos() as i64;
            assert!(judged.oldest.0 <= most, "{minutes}");
        }
    }

    #[test]
    fn the_time_in_which_nobody_watched_is_believed_sooner() {
        let later = at(NOW + 3 * DAY);
        let mut clock = WallClock::new(Some((at(NOW), false)), later, MINUTE);
        let judged = clock.judge(later, MINUTE);
        assert_eq!(judged.believed_in, Some(CLOCK_CONFIRM_START));
        assert_eq!(judged.oldest, at(NOW));
        let mut clock = WallClock::new(Some((at(NOW), true)), later, MINUTE);
        assert_eq!(clock.judge(later, MINUTE).believed_in, Some(CLOCK_CONFIRM));
    }

    #[test]
    fn what_a_clock_behind_has_stamped_is_mended() {
        let mut clock = WallClock::new(None, at(NOW), Duration::ZERO);
        let wrong = at(NOW - 400 * DAY);
        clock.judge(wrong, Duration::ZERO);
        assert_eq!(clock.mended(wrong), at(NOW));
        assert_eq!(clock.judge(wrong, Duration::ZERO).expected(), at(NOW));
        let before = at(NOW - DAY);
        assert_eq!(clock.mended(before), before, "from before the jump");
        // It may have waited in the queue meanwhile, and be written by the next process.
        let right = at(NOW + MINUTE.as_nanos() as i64);
        assert_eq!(clock.judge(right, MINUTE).believed_in, None);
        assert_eq!(clock.mended(wrong), at(NOW));
        let mut next = WallClock::new(Some((right, false)), right, MINUTE);
        assert_eq!(next.mended(wrong), wrong);
        next.remember(clock.spans().to_vec());
        assert_eq!(next.mended(wrong), at(NOW));
        // Starts while it is behind add nothing to what is known.
        for _ in 0..20 {
            let mut next = WallClock::new(Some((right, true)), wrong, MINUTE);
            next.remember(clock.spans().to_vec());
            clock = next;
        }
        assert_eq!(clock.spans().len(), 1);
    }

    #[test]
    fn a_clock_that_turns_out_to_be_right_has_stamped_nothing_wrong() {
        let mut clock = WallClock::new(None, at(NOW), Duration::ZERO);
        let mut steady = Duration::ZERO;
        while steady <= CLOCK_CONFIRM {
            let wall = at(NOW - 60 * DAY + steady.as_nanos() as i64);
            clock.judge(wall, steady);
            steady += MINUTE;
        }
        assert!(!clock.is_doubted());
        let stamped = at(NOW - 60 * DAY);
        assert_eq!(clock.mended(stamped), stamped);
        for days in 1..100 {
            clock.judge(at(NOW - days * 100 * DAY), steady);
        }
        assert_eq!(clock.spans().len(), SPANS_KEPT);
    }

    #[test]
    fn the_steady_clock_goes_on() {
        let before = steady();
        assert!(before > Duration::ZERO || uptime().is_none());
        assert!(steady() >= before);
    }
}
