//! The field of a run: all files, and the threads that write and rotate them.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use inrush_harness::child::{wait, wait_until};

use super::SecondSpan;
use super::log::{LogSettings, NumberedLog};
use super::rotator::{LogRotator, locked, prepare};
use super::scheme::RotationScheme;

/// Threads that write.
const WRITERS: usize = 2;

/// Interval between two turns of a writer.
const TURN: Duration = Duration::from_millis(5);

/// Interval between two looks of the rotator.
const LOOK: Duration = Duration::from_millis(5);

/// Seconds of lines that a writer owes at most; what is beyond is not written.
const OWED_SECONDS_MAX: f64 = 1.0;

/// Lines a second of each file, at each moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteRate {
    pub(crate) rate: u64,
    /// Lines a second in a burst; 0 is none.
    pub(crate) burst: u64,
    pub(crate) burst_for: Duration,
    pub(crate) burst_every: Duration,
}

impl WriteRate {
    /// The same at all times.
    pub(crate) fn even(rate: u64) -> Self {
        Self {
            rate,
            burst: 0,
            burst_for: Duration::ZERO,
            burst_every: Duration::ZERO,
        }
    }

    /// Lines a second, so long after the begin. A run begins before its first burst.
    fn at(&self, since: Duration) -> u64 {
        let every = self.burst_every.as_secs_f64();
        let quiet = every - self.burst_for.as_secs_f64();
        match self.burst > 0 && every > 0.0 && since.as_secs_f64() % every >= quiet {
            true => self.burst,
            false => self.rate,
        }
    }
}

/// Scheme and pace of the rotation of files.
#[derive(Clone, Debug)]
pub(crate) struct RotatePlan {
    pub(crate) scheme: RotationScheme,
    pub(crate) keep: usize,
    pub(crate) every: SecondSpan,
}

/// Files that are written and rotated until they are finished.
pub(crate) struct LogField {
    logs: Vec<Arc<Mutex<NumberedLog>>>,
    stop: Arc<AtomicBool>,
    rotations: Arc<AtomicU64>,
    threads: Vec<JoinHandle<Result<()>>>,
}

impl LogField {
    /// Creates files of these numbers below `folder`.
    pub(crate) fn create(
        folder: &Path,
        files: Range<u32>,
        scheme: RotationScheme,
        settings: LogSettings,
    ) -> Result<Self> {
        let create = |index| {
            let path = scheme.file(folder, index);
            prepare(scheme, &path)?;
            let log = NumberedLog::create(index, path, settings)?;
            Ok(Arc::new(Mutex::new(log)))
        };
        Ok(Self {
            logs: files.map(create).collect::<Result<_>>()?,
            stop: Arc::default(),
            rotations: Arc::default(),
            threads: Vec::new(),
        })
    }

    /// The files.
    pub(crate) fn logs(&self) -> &[Arc<Mutex<NumberedLog>>] {
        &self.logs
    }

    /// Rotations so far.
    pub(crate) fn rotations(&self) -> u64 {
        self.rotations.load(Relaxed)
    }

    /// Begins to write and to rotate.
    pub(crate) fn begin(&mut self, rate: WriteRate, plan: Option<RotatePlan>) {
        let share = self.logs.len().div_ceil(WRITERS).max(1);
        let shares: Vec<Vec<_>> = self.logs.chunks(share).map(<[_]>::to_vec).collect();
        for logs in shares {
            let stop = Arc::clone(&self.stop);
            self.threads
                .push(thread::spawn(move || write(&logs, rate, &stop)));
        }
        if let Some(plan) = plan {
            let (logs, stop) = (self.logs.clone(), Arc::clone(&self.stop));
            let rotations = Arc::clone(&self.rotations);
            self.threads.push(thread::spawn(move || {
                rotate(&logs, &plan, &stop, &rotations)
            }));
        }
    }

    /// Ends, with every line written to its end; how many there are.
    ///
    /// # Errors
    /// A thread has failed.
    pub(crate) fn finish(&mut self) -> Result<u64> {
        self.stop.store(true, Relaxed);
        for one in self.threads.drain(..) {
            one.join().map_err(|_| anyhow!("a thread has panicked"))??;
        }
        let mut lines = 0;
        for log in &self.logs {
            let mut log = locked(log);
            log.finish()?;
            lines += log.written().into_iter().map(u64::from).sum::<u64>();
        }
        Ok(lines)
    }

    /// True if a thread has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }
}

impl Drop for LogField {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
    }
}

/// Writes what is due into each file, again and again.
fn write(logs: &[Arc<Mutex<NumberedLog>>], rate: WriteRate, stop: &AtomicBool) -> Result<()> {
    let begun = Instant::now();
    let (mut last, mut owed) = (begun, 0.0);
    while !stop.load(Relaxed) {
        let now = Instant::now();
        let a_second = rate.at(now - begun) as f64;
        owed += now.duration_since(last).as_secs_f64() * a_second;
        owed = owed.min(OWED_SECONDS_MAX * a_second);
        last = now;
        let lines = owed.floor();
        owed -= lines;
        for log in logs {
            locked(log).write(lines as u64)?;
        }
        wait_until(now + TURN);
    }
    Ok(())
}

/// Rotates each file at its times.
fn rotate(
    logs: &[Arc<Mutex<NumberedLog>>],
    plan: &RotatePlan,
    stop: &AtomicBool,
    rotations: &AtomicU64,
) -> Result<()> {
    let mut chance = fastrand::Rng::with_seed(logs.len() as u64);
    let mut next = || Instant::now() + plan.every.pick(&mut chance);
    let mut all: Vec<(LogRotator, Instant)> = (0..logs.len() as u64)
        .map(|seed| (LogRotator::new(plan.scheme, plan.keep, seed), next()))
        .collect();
    while !stop.load(Relaxed) {
        for ((rotator, due), log) in all.iter_mut().zip(logs) {
            let now = Instant::now();
            let named = || locked(log).path().display().to_string();
            if rotator.reopen_at().is_some_and(|at| at <= now) {
                rotator.reopen(log).with_context(named)?;
            }
            if *due <= now {
                let rotated = rotator.rotate(log).with_context(named)?;
                rotations.fetch_add(u64::from(rotated), Relaxed);
                *due = next();
            }
        }
        wait(LOOK);
    }
    // A writer that is late opens its new file all the same: in no way does it go on for ever.
    for ((rotator, _), log) in all.iter_mut().zip(logs) {
        if rotator.reopen_at().is_some() {
            rotator.reopen(log)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_ends_each_period() {
        let rate = WriteRate {
            rate: 800,
            burst: 4000,
            burst_for: Duration::from_secs(20),
            burst_every: Duration::from_secs(60),
        };
        let at = |seconds| rate.at(Duration::from_secs(seconds));
        assert_eq!(
            [0, 39, 40, 59, 60, 100].map(at),
            [800, 800, 4000, 4000, 800, 4000]
        );
        let flat = WriteRate { burst: 0, ..rate };
        assert_eq!(flat.at(Duration::from_secs(50)), 800);
    }
}
