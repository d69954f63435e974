//! Choice of compressed requests where they pay, found by sending some of both kinds.
//!
//! A slow link makes a request of many bytes last, and a busy core the compression of a body. So
//! the time of both together is compared, for each byte before compression, and a core that is
//! wanted elsewhere weighs more.
//!
//! # What it guarantees
//! * Bodies are plain until compressed ones have shown to be faster, and again once they are not.
//! * A trial takes [`TRIAL_BODIES`] bodies, and at most one of 10 s; fewer while nothing changes.
//!
//! # States
//! Measuring the encoding in use, then sending some bodies of the other one, then comparing.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bodies of the encoding in use that are measured before a trial, and that a trial has.
const TRIAL_BODIES: usize = 8;

/// Bodies below this size tell of round trips alone.
const MEASURED_BYTES_MIN: usize = 16 * 1024;

/// Pause between two trials; it doubles while their result is the same.
const PAUSE: Duration = Duration::from_secs(10);
const PAUSE_MAX: Duration = Duration::from_mins(5);

/// A trial whose bodies are not answered by then is given up.
const TRIAL_MAX: Duration = Duration::from_mins(1);

/// Times that plain bodies must take as long as compressed ones.
const GAIN: f64 = 1.25;
/// The same once bodies are compressed: a choice does not waver.
const GAIN_KEPT: f64 = 1.1;
/// The same where compression has to wait for a core.
const GAIN_CONTENDED: f64 = 2.0;

/// Times that compression takes as long as its CPU time where it waits for a core.
const CONTENDED: f64 = 1.25;

/// Time that a body took.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct BodyTimes {
    /// Bytes before compression.
    pub(crate) bytes: usize,
    /// True if it was compressed.
    pub(crate) gzip: bool,
    /// Time that compression took.
    pub(crate) packing: Duration,
    /// CPU time of that.
    pub(crate) packing_cpu: Duration,
    /// Time from the start of the request to the end of its answer.
    pub(crate) exchange: Duration,
}

impl BodyTimes {
    /// Nanoseconds for each byte before compression.
    fn cost(&self) -> f64 {
        (self.packing + self.exchange).as_nanos() as f64 / self.bytes.max(1) as f64
    }

    /// True if compression waited for a core.
    fn contended(&self) -> bool {
        self.packing.as_secs_f64() > CONTENDED * self.packing_cpu.as_secs_f64()
    }
}

/// The last times of bodies of one encoding.
#[derive(Default)]
struct MeasuredBodies {
    times: Vec<BodyTimes>,
    next: usize,
}

impl MeasuredBodies {
    fn add(&mut self, times: BodyTimes) {
        match self.times.len() < TRIAL_BODIES {
            true => self.times.push(times),
            false => self.times[self.next] = times,
        }
        self.next = (self.next + 1) % TRIAL_BODIES;
    }

    fn is_full(&self) -> bool {
        self.times.len() == TRIAL_BODIES
    }

    /// Median of the costs.
    fn cost(&self) -> f64 {
        let mut costs: Vec<f64> = self.times.iter().map(BodyTimes::cost).collect();
        costs.sort_by(f64::total_cmp);
        costs.get(costs.len() / 2).copied().unwrap_or_default()
    }

    /// True if compression waited for a core more often than not.
    fn contended(&self) -> bool {
        let waited = self.times.iter().filter(|times| times.contended()).count();
        2 * waited > self.times.len()
    }
}

/// Bodies of the encoding that is not in use.
struct CompressionTrial {
    begun: Instant,
    /// Bodies that are still to be sent.
    left: usize,
    measured: MeasuredBodies,
}

/// Choice of the encoding of bodies.
struct CompressionChoice {
    gzip: bool,
    measured: MeasuredBodies,
    trial: Option<CompressionTrial>,
    /// End of the pause before the next trial; `None`: it begins once enough is measured.
    due: Option<Instant>,
    pause: Duration,
}

/// A change of the encoding, with the costs of plain and of compressed bodies.
#[derive(Clone, Copy, PartialEq, Debug)]
struct ChangedChoice {
    gzip: bool,
    plain: f64,
    packed: f64,
}

impl CompressionChoice {
    const fn new() -> Self {
        Self {
            gzip: false,
            measured: MeasuredBodies {
                times: Vec::new(),
                next: 0,
            },
            trial: None,
            due: None,
            pause: PAUSE,
        }
    }

    /// True if a body of so many bytes is to be compressed.
    fn choose(&mut self, bytes: usize, now: Instant) -> bool {
        if bytes < MEASURED_BYTES_MIN {
            return self.gzip;
        }
        let late = |trial: &CompressionTrial| now.duration_since(trial.begun) > TRIAL_MAX;
        if self.trial.as_ref().is_some_and(late) {
            self.trial = None;
            self.put_off(now);
        }
        if self.due.is_some_and(|due| now >= due) {
            // The link may be another one since.
            (self.due, self.measured) = (None, MeasuredBodies::default());
        }
        if self.trial.is_none() && self.due.is_none() && self.measured.is_full() {
            self.trial = Some(CompressionTrial {
                begun: now,
                left: TRIAL_BODIES,
                measured: MeasuredBodies::default(),
            });
        }
        match &mut self.trial {
            Some(trial) if trial.left > 0 => {
                trial.left -= 1;
                !self.gzip
            }
            _ => self.gzip,
        }
    }

    /// Notes the time of a body that was taken; the change that it brings.
    fn note(&mut self, times: BodyTimes, now: Instant) -> Option<ChangedChoice> {
        if times.bytes < MEASURED_BYTES_MIN {
            return None;
        }
        if times.gzip == self.gzip {
            self.measured.add(times);
            return None;
        }
        let trial = self.trial.as_mut()?;
        trial.measured.add(times);
        if !trial.measured.is_full() {
            return None;
        }
        let tried = self.trial.take()?.measured;
        let (plain, packed) = match self.gzip {
            true => (&tried, &self.measured),
            false => (&self.measured, &tried),
        };
        let gain = match (packed.contended(), self.gzip) {
            (true, _) => GAIN_CONTENDED,
            (false, true) => GAIN_KEPT,
            (false, false) => GAIN,
        };
        let (plain, packed) = (plain.cost(), packed.cost());
        let gzip = plain >= gain * packed;
        if gzip == self.gzip {
            self.put_off(now);
            return None;
        }
        (self.gzip, self.measured, self.pause) = (gzip, tried, PAUSE);
        self.due = Some(now + PAUSE);
        Some(ChangedChoice {
            gzip,
            plain,
            packed,
        })
    }

    /// The next trial is later than the last one was.
    fn put_off(&mut self, now: Instant) {
        self.due = Some(now + self.pause);
        self.pause = PAUSE_MAX.min(2 * self.pause);
    }
}

/// Choice of a destination's encoding, of all its workers.
pub(crate) struct AutoCompression {
    destination: String,
    choice: Mutex<CompressionChoice>,
}

impl AutoCompression {
    /// Of a destination of that name.
    pub(crate) fn new(destination: &str) -> Self {
        Self {
            destination: destination.to_owned(),
            choice: Mutex::new(CompressionChoice::new()),
        }
    }

    /// True if a body of so many bytes is to be compressed.
    pub(crate) fn choose(&self, bytes: usize) -> bool {
        let mut choice = self.choice.lock().unwrap_or_else(PoisonError::into_inner);
        choice.choose(bytes, Instant::now())
    }

    /// Notes the time of a body that was taken.
    pub(crate) fn note(&self, times: BodyTimes) {
        let changed = {
            let mut choice = self.choice.lock().unwrap_or_else(PoisonError::into_inner);
            choice.note(times, Instant::now())
        };
        let Some(changed) = changed else { return };
        // Nanoseconds a byte are milliseconds a megabyte.
        tracing::info!(
            destination = self.destination,
            plain_ms = format!("{:.1}", changed.plain),
            gzip_ms = format!("{:.1}", changed.packed),
            "requests are {} from now on, by the time of each megabyte",
            if changed.gzip { "compressed" } else { "plain" }
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1024 * 1024;

    /// A way to a collector: time of a body on the wire, of its compression, and of its CPU.
    #[derive(Clone, Copy)]
    struct Way {
        wire_ms: u64,
        packing_ms: u64,
        cpu_ms: u64,
    }

    impl Way {
        /// Bodies of 1 MiB that were compressed, of the next `bodies`, one after the other.
        fn send(self, choice: &mut CompressionChoice, now: &mut Instant, bodies: usize) -> usize {
            let mut packed = 0;
            for _ in 0..bodies {
                let gzip = choice.choose(MIB, *now);
                packed += usize::from(gzip);
                let ms = Duration::from_millis;
                let times = match gzip {
                    true => BodyTimes {
                        bytes: MIB,
                        gzip,
                        packing: ms(self.packing_ms),
                        packing_cpu: ms(self.cpu_ms),
                        exchange: ms(1 + self.wire_ms / 3),
                    },
                    false => BodyTimes {
                        bytes: MIB,
                        gzip,
                        exchange: ms(1 + self.wire_ms),
                        ..BodyTimes::default()
                    },
                };
                *now += times.packing + times.exchange;
                choice.note(times, *now);
            }
            packed
        }
    }

    const FAST_LINK: Way = Way {
        wire_ms: 1,
        packing_ms: 4,
        cpu_ms: 4,
    };
    const SLOW_LINK: Way = Way {
        wire_ms: 80,
        packing_ms: 4,
        cpu_ms: 4,
    };
    /// Compression waits for a core, and gains half of the time.
    const BUSY_CORE: Way = Way {
        wire_ms: 80,
        packing_ms: 20,
        cpu_ms: 10,
    };

    #[test]
    fn a_slow_link_has_bodies_compressed_and_a_fast_one_plain() {
        let (mut choice, mut now) = (CompressionChoice::new(), Instant::now());
        // What is measured, then a trial; it is found to be faster at its end.
        assert_eq!(
            SLOW_LINK.send(&mut choice, &mut now, 100),
            100 - TRIAL_BODIES
        );
        assert!(choice.gzip);
        let (mut choice, mut now) = (CompressionChoice::new(), Instant::now());
        assert_eq!(FAST_LINK.send(&mut choice, &mut now, 100), TRIAL_BODIES);
        assert!(!choice.gzip);
    }

    #[test]
    fn a_link_that_changes_changes_the_choice_in_time() {
        let (mut choice, mut now) = (CompressionChoice::new(), Instant::now());
        SLOW_LINK.send(&mut choice, &mut now, 100);
        now += PAUSE;
        FAST_LINK.send(&mut choice, &mut now, 100);
        assert!(!choice.gzip);
        now += PAUSE;
        SLOW_LINK.send(&mut choice, &mut now, 100);
        assert!(choice.gzip);
    }

    #[test]
    fn a_core_that_is_wanted_elsewhere_weighs_more() {
        let (mut choice, mut now) = (CompressionChoice::new(), Instant::now());
        BUSY_CORE.send(&mut choice, &mut now, 100);
        assert!(!choice.gzip);
        let idle = Way {
            cpu_ms: 20,
            ..BUSY_CORE
        };
        now += PAUSE;
        idle.send(&mut choice, &mut now, 100);
        assert!(choice.gzip);
    }

    #[test]
    fn trials_become_rare_while_nothing_changes() {
        let (mut choice, mut now) = (CompressionChoice::new(), Instant::now());
        let mut packed = 0;
        let begun = now;
        while now.duration_since(begun) < Duration::from_hours(1) {
            packed += FAST_LINK.send(&mut choice, &mut now, 1);
            now += Duration::from_millis(100);
        }
        // 10, 20, 40, 80, 160 s, and every five minutes then.
        assert!((10..=20).contains(&(packed / TRIAL_BODIES)), "{packed}");
    }

    #[test]
    fn a_trial_without_answers_ends() {
        let (mut choice, mut now) = (CompressionChoice::new(), Instant::now());
        SLOW_LINK.send(&mut choice, &mut now, TRIAL_BODIES);
        let lost = (0..2 * TRIAL_BODIES).filter(|_| choice.choose(MIB, now));
        assert_eq!(lost.count(), TRIAL_BODIES);
        now += TRIAL_MAX + Duration::from_secs(1);
        assert!(!choice.choose(MIB, now));
        now += PAUSE;
        SLOW_LINK.send(&mut choice, &mut now, 100);
        assert!(choice.gzip);
    }

    #[test]
    fn small_bodies_take_no_part() {
        let (mut choice, now) = (CompressionChoice::new(), Instant::now());
        for _ in 0..100 {
            assert!(!choice.choose(MEASURED_BYTES_MIN - 1, now));
            let times = BodyTimes {
                bytes: MEASURED_BYTES_MIN - 1,
                ..BodyTimes::default()
            };
            assert_eq!(choice.note(times, now), None);
        }
        assert!(choice.measured.times.is_empty());
    }
}
