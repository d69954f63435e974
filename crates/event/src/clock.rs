//! The wall clock, held against a clock that cannot be set: one wrong time must not make
//! everything that is kept look old.
//!
//! # What it guarantees
//! * [`Judged::oldest`] is the time that ages are counted by. It never runs ahead of the steady
//!   clock by more than [`CLOCK_TOLERANCE`] a day, until a jump is confirmed.
//! * A jump is confirmed when the wall clock went on from it for [`CLOCK_CONFIRM`]; one that lies
//!   between two runs of the process, in which nobody watched, for [`CLOCK_CONFIRM_START`].
//! * [`Judged::newest`] is the time that what comes in is stamped by: with a clock that fell
//!   behind, what is new must not look old once the clock is right again.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::Timestamp;

/// How far the wall clock may leave the steady one in a day, without being doubted. NTP steps and
/// drifting clocks stay below.
pub const CLOCK_TOLERANCE: Duration = Duration::from_secs(60 * 60);

/// How long the wall clock must go on from a jump before the jump is believed.
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
struct Doubted {
    /// The wall clock when it was first seen there, in nanoseconds since 1970.
    wall_ns: i64,
    /// The steady clock then.
    steady: Duration,
    confirm: Duration,
}

/// What is thought of the time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Judged {
    /// The time that ages are counted by.
    pub oldest: Timestamp,
    /// The time that what comes in is stamped by.
    pub newest: Timestamp,
    /// Nanoseconds by which the wall clock is ahead of what is believed; negative if it is behind.
    pub off_ns: i64,
    /// How long until the wall clock is believed, if it is doubted.
    pub believed_in: Option<Duration>,
}

/// A wall clock under watch. Whoever has it asks it every few seconds.
#[derive(Clone, Debug)]
pub struct Clock {
    /// A wall time that was believed, in nanoseconds since 1970, and the steady clock then.
    base: (i64, Duration),
    doubted: Option<Doubted>,
}

impl Clock {
    /// A clock that reads `wall` now. `known` is a time that was believed by an earlier process, as
    /// far as there is one, and whether that process doubted its wall clock.
    pub fn new(known: Option<(Timestamp, bool)>, wall: Timestamp, steady: Duration) -> Self {
        let believed = known.map_or(wall, |(time, _)| time);
        let mut clock = Self {
            base: (believed.0, steady),
            doubted: None,
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

    /// What is thought of the wall clock now.
    pub fn judge(&mut self, wall: Timestamp, steady: Duration) -> Judged {
        self.look(wall, steady, CLOCK_CONFIRM)
    }

    /// Whether the wall clock is doubted.
    pub fn is_doubted(&self) -> bool {
        self.doubted.is_some()
    }

    fn look(&mut self, wall: Timestamp, steady: Duration, confirm: Duration) -> Judged {
        let expected = after(self.base, steady);
        if is_near(wall.0, expected) {
            self.doubted = None;
            if steady.saturating_sub(self.base.1) >= REBASE {
                self.base = (wall.0, steady);
            }
            return Judged::believed(wall);
        }
        let goes_on = |doubted: &Doubted| is_near(wall.0, after(doubted.since(), steady));
        let doubted = *self
            .doubted
            .get_or_insert_with(|| Doubted::new(wall, steady, confirm));
        if !goes_on(&doubted) {
            self.doubted = Some(Doubted::new(wall, steady, confirm));
        }
        let left = self.doubted.map_or(Duration::ZERO, |doubted| {
            let lasted = steady.saturating_sub(doubted.steady);
            doubted.confirm.saturating_sub(lasted)
        });
        if left.is_zero() {
            self.doubted = None;
            self.base = (wall.0, steady);
            return Judged::believed(wall);
        }
        Judged {
            oldest: Timestamp(wall.0.min(expected)),
            newest: Timestamp(wall.0.max(expected)),
            off_ns: wall.0.saturating_sub(expected),
            believed_in: Some(left),
        }
    }
}

impl Doubted {
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

impl Judged {
    fn believed(wall: Timestamp) -> Self {
        Self {
            oldest: wall,
            newest: wall,
            off_ns: 0,
            believed_in: None,
        }
    }

    /// When something was received, by the believed time: a wall clock that is behind has stamped
    /// what came since it fell back with times that are too old.
    pub fn mended(&self, received: Timestamp) -> Timestamp {
        let behind = 0.max(-self.off_ns);
        let wall = self
            .oldest
            .0
            .saturating_add(CLOCK_TOLERANCE.as_nanos() as i64);
        if behind > 0 && received.0 <= wall {
            return Timestamp(received.0.saturating_add(behind));
        }
        received
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
            let mut clock = Clock::new(None, at(NOW), Duration::ZERO);
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
        let mut clock = Clock::new(None, at(NOW), Duration::ZERO);
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
        let mut clock = Clock::new(None, at(NOW), Duration::ZERO);
        for hours in 1..2000 {
            let steady = Duration::from_secs(3600 * hours);
            let judged = clock.judge(at(NOW + hours as i64 * DAY), steady);
            let most = NOW + (steady + CLOCK_TOLERANCE).as_nanos() as i64;
            assert!(judged.oldest.0 <= most, "{hours}");
        }
    }

    #[test]
    fn a_clock_that_creeps_gains_an_hour_a_day_at_most() {
        let mut clock = Clock::new(None, at(NOW), Duration::ZERO);
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
        let mut clock = Clock::new(Some((at(NOW), false)), later, MINUTE);
        let judged = clock.judge(later, MINUTE);
        assert_eq!(judged.believed_in, Some(CLOCK_CONFIRM_START));
        assert_eq!(judged.oldest, at(NOW));
        let mut clock = Clock::new(Some((at(NOW), true)), later, MINUTE);
        assert_eq!(clock.judge(later, MINUTE).believed_in, Some(CLOCK_CONFIRM));
    }

    #[test]
    fn what_a_clock_behind_has_stamped_is_mended() {
        let mut clock = Clock::new(None, at(NOW), Duration::ZERO);
        let judged = clock.judge(at(NOW - 400 * DAY), Duration::ZERO);
        assert_eq!(judged.mended(at(NOW - 400 * DAY)), at(NOW));
        assert_eq!(
            judged.mended(at(NOW - DAY)),
            at(NOW - DAY),
            "from before the jump"
        );
        let judged = clock.judge(at(NOW), Duration::ZERO);
        assert_eq!(judged.mended(at(NOW - 400 * DAY)), at(NOW - 400 * DAY));
    }

    #[test]
    fn the_steady_clock_goes_on() {
        let before = steady();
        assert!(before > Duration::ZERO || uptime().is_none());
        assert!(steady() >= before);
    }
}
