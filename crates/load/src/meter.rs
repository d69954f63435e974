//! The process meter: what a process costs, read from outside.
//!
//! CPU time comes from the process's CPU clock, which counts nanoseconds and keeps the time of
//! threads that have ended; the split into user and system time, in steps of 10 ms, from
//! `/proc/PID/stat`; memory and threads from `/proc/PID/status`. A process that ended and whose
//! number was given to another is noticed by its start time.

use std::time::{Duration, Instant};

use nix::time::ClockId;
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::error::LoadError;

/// Nanoseconds of one tick in `/proc/PID/stat`: USER_HZ is 100 on every architecture that the
/// kernel offers us.
const TICK_NS: u64 = 10_000_000;

/// Interval at which a process is polled until it has become idle.
const IDLE_STEP: Duration = Duration::from_millis(100);

/// Steps in a row that a process must be idle for.
const IDLE_STEPS: u32 = 3;

/// CPU time in one step below which a process counts as idle: 2 %.
const IDLE_CPU_NS: u64 = IDLE_STEP.as_nanos() as u64 / 50;

/// Resources that a process has used, and those that it holds now.
#[derive(Clone, Copy, Default, Debug)]
pub struct ProcessReading {
    /// CPU time since its start, in nanoseconds.
    pub cpu_ns: u64,
    /// Of that in user mode, in steps of 10 ms.
    pub user_ns: u64,
    /// Of that in the kernel, in steps of 10 ms.
    pub system_ns: u64,
    /// Resident memory in KiB.
    pub rss_kib: u64,
    /// Threads.
    pub threads: u64,
}

/// Reads one process.
#[derive(Debug)]
pub struct ProcessMeter {
    pid: i32,
    name: String,
    cpu: ClockId,
    started_ticks: u64,
}

impl ProcessMeter {
    /// A meter for a running process.
    ///
    /// # Errors
    /// [`LoadError::Process`] if there is none of that number.
    pub fn open(pid: i32) -> Result<Self, LoadError> {
        let stat = read_stat(pid)?;
        let cpu = ClockId::pid_cpu_clock_id(Pid::from_raw(pid))
            .map_err(|error| failed(pid, error.desc()))?;
        Ok(Self {
            pid,
            name: stat.name,
            cpu,
            started_ticks: stat.started_ticks,
        })
    }

    /// The process's number.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// The name that the kernel has for it, at most 15 characters.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads it now.
    ///
    /// # Errors
    /// [`LoadError::Process`] once it has ended.
    pub fn read(&self) -> Result<ProcessReading, LoadError> {
        let stat = read_stat(self.pid)?;
        if stat.started_ticks != self.started_ticks {
            return Err(failed(
                self.pid,
                "it ended, and its number was given to another",
            ));
        }
        let cpu = self
            .cpu
            .now()
            .map_err(|error| failed(self.pid, error.desc()))?;
        let (rss_kib, threads) = read_status(self.pid)?;
        Ok(ProcessReading {
            cpu_ns: cpu.tv_sec() as u64 * 1_000_000_000 + cpu.tv_nsec() as u64,
            user_ns: stat.user_ticks * TICK_NS,
            system_ns: stat.system_ticks * TICK_NS,
            rss_kib,
            threads,
        })
    }

    /// Waits until the process is idle (under 2 % of one CPU for 300 ms), for `most` at most;
    /// whether it is.
    ///
    /// # Errors
    /// [`LoadError::Process`] once it has ended.
    pub fn wait_idle(&self, most: Duration) -> Result<bool, LoadError> {
        let deadline = Instant::now() + most;
        let (mut before, mut steps) = (self.read()?.cpu_ns, 0);
        while steps < IDLE_STEPS {
            if Instant::now() >= deadline {
                return Ok(false);
            }
            std::thread::sleep(IDLE_STEP);
            let now = self.read()?.cpu_ns;
            steps = if now - before < IDLE_CPU_NS {
                steps + 1
            } else {
                0
            };
            before = now;
        }
        Ok(true)
    }
}

fn failed(pid: i32, what: &str) -> LoadError {
    LoadError::Process {
        pid,
        what: what.to_owned(),
    }
}

struct ProcStat {
    name: String,
    user_ticks: u64,
    system_ticks: u64,
    started_ticks: u64,
}

fn read_stat(pid: i32) -> Result<ProcStat, LoadError> {
    let text = std::fs::read(format!("/proc/{pid}/stat"))
        .map_err(|_| failed(pid, "no such process; check the number with `pidof`"))?;
    parse_stat(&String::from_utf8_lossy(&text)).ok_or_else(|| failed(pid, "unreadable stat"))
}

/// Fields by their numbers in proc(5); the name may hold spaces and brackets.
fn parse_stat(text: &str) -> Option<ProcStat> {
    let (head, rest) = text.rsplit_once(')')?;
    let name = head.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse().ok();
    Some(ProcStat {
        name,
        user_ticks: number(14)?,
        system_ticks: number(15)?,
        started_ticks: number(22)?,
    })
}

/// Resident KiB and threads; a process that is ending has no memory any more.
fn read_status(pid: i32) -> Result<(u64, u64), LoadError> {
    let text = std::fs::read(format!("/proc/{pid}/status"))
        .map_err(|_| failed(pid, "it ended while it was measured"))?;
    let text = String::from_utf8_lossy(&text);
    let number = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_ascii_whitespace().next()?.parse().ok()
    };
    Ok((
        number("VmRSS:").unwrap_or(0),
        number("Threads:").unwrap_or(0),
    ))
}

/// One second of a process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProcessSample {
    /// Seconds since the first message.
    pub t: f64,
    /// Messages sent in this time.
    pub events: u64,
    /// CPU time for each of them in microseconds; absent if there were none.
    pub cpu_us_per_event: Option<f64>,
    /// CPU seconds used in this time.
    pub cpu_seconds: f64,
    /// Of that in user mode, in steps of 10 ms.
    pub user_seconds: f64,
    /// Of that in the kernel, in steps of 10 ms.
    pub system_seconds: f64,
    /// Resident memory at its end, in KiB.
    pub rss_kib: u64,
    /// Threads at its end.
    pub threads: u64,
}

/// A process over the whole run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProcessReport {
    /// Its number.
    pub pid: i32,
    /// Its name.
    pub name: String,
    /// CPU seconds from the first message until it had settled.
    pub cpu_seconds: f64,
    /// Of that in user mode, in steps of 10 ms.
    pub user_seconds: f64,
    /// Of that in the kernel, in steps of 10 ms.
    pub system_seconds: f64,
    /// CPU time for each message sent, in microseconds; absent if none was.
    pub cpu_us_per_event: Option<f64>,
    /// The most resident memory seen, in KiB.
    pub rss_kib_max: u64,
    /// Resident memory at the end, in KiB.
    pub rss_kib_last: u64,
    /// The most threads seen.
    pub threads_max: u64,
    /// True if it had finished its work when measuring ended; if not, raise `--drain-timeout`.
    pub settled: bool,
    /// Reason for which measuring ended early, if it did.
    pub ended: Option<String>,
    /// Second by second.
    pub samples: Vec<ProcessSample>,
}

/// A meter over a run, with its samples.
#[derive(Debug)]
pub(crate) struct Metering {
    meter: ProcessMeter,
    first: ProcessReading,
    last: ProcessReading,
    last_events: u64,
    samples: Vec<ProcessSample>,
    ended: Option<String>,
}

impl Metering {
    pub(crate) fn start(pid: i32) -> Result<Self, LoadError> {
        let meter = ProcessMeter::open(pid)?;
        let first = meter.read()?;
        let (samples, ended) = (Vec::new(), None);
        Ok(Self {
            meter,
            first,
            last: first,
            last_events: 0,
            samples,
            ended,
        })
    }

    /// Takes a sample at `t` seconds, when `events` messages have been sent in all.
    pub(crate) fn sample(&mut self, t: f64, events: u64) {
        match self.meter.read() {
            Ok(now) => self.push(t, events, now),
            Err(error) => {
                self.ended.get_or_insert_with(|| error.to_string());
            }
        }
    }

    fn push(&mut self, t: f64, events: u64, now: ProcessReading) {
        let in_events = events - self.last_events;
        let cpu_ns = now.cpu_ns.saturating_sub(self.last.cpu_ns);
        self.samples.push(ProcessSample {
            t,
            events: in_events,
            cpu_us_per_event: per_event_us(cpu_ns, in_events),
            cpu_seconds: seconds(cpu_ns),
            user_seconds: seconds(now.user_ns.saturating_sub(self.last.user_ns)),
            system_seconds: seconds(now.system_ns.saturating_sub(self.last.system_ns)),
            rss_kib: now.rss_kib,
            threads: now.threads,
        });
        (self.last, self.last_events) = (now, events);
    }

    /// Waits until the process is idle; whether it is.
    pub(crate) fn wait_idle(&mut self, most: Duration) -> bool {
        self.meter.wait_idle(most).unwrap_or_else(|error| {
            self.ended.get_or_insert_with(|| error.to_string());
            false
        })
    }

    /// The account, at `t` seconds after `events` messages.
    pub(crate) fn finish(mut self, t: f64, events: u64, settled: bool) -> ProcessReport {
        self.sample(t, events);
        let cpu_ns = self.last.cpu_ns.saturating_sub(self.first.cpu_ns);
        let most = |of: fn(&ProcessSample) -> u64| self.samples.iter().map(of).max().unwrap_or(0);
        ProcessReport {
            pid: self.meter.pid(),
            name: self.meter.name().to_owned(),
            cpu_seconds: seconds(cpu_ns),
            user_seconds: seconds(self.last.user_ns.saturating_sub(self.first.user_ns)),
            system_seconds: seconds(self.last.system_ns.saturating_sub(self.first.system_ns)),
            cpu_us_per_event: per_event_us(cpu_ns, events),
            rss_kib_max: most(|sample| sample.rss_kib).max(self.first.rss_kib),
            rss_kib_last: self.last.rss_kib,
            threads_max: most(|sample| sample.threads).max(self.first.threads),
            settled: settled && self.ended.is_none(),
            ended: self.ended,
            samples: self.samples,
        }
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn per_event_us(cpu_ns: u64, events: u64) -> Option<f64> {
    (events > 0).then(|| cpu_ns as f64 / 1e3 / events as f64)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn our_own_process_is_measured() {
        let meter = ProcessMeter::open(std::process::id() as i32).unwrap();
        let before = meter.read().unwrap();
        assert!(before.rss_kib > 0 && before.threads > 0 && !meter.name().is_empty());
        // Work until the clock has moved: no time is assumed.
        let mut sum = 0u64;
        let after = loop {
            sum = (0..100_000).fold(sum, |a, b| std::hint::black_box(a ^ b));
            let now = meter.read().unwrap();
            if now.cpu_ns > before.cpu_ns {
                break now;
            }
        };
        assert!(after.user_ns >= before.user_ns);
    }

    #[test]
    fn a_process_that_is_not_there_is_named() {
        let words = ProcessMeter::open(i32::MAX).unwrap_err().to_string();
        assert!(
            words.contains("2147483647") && words.contains("pidof"),
            "{words}"
        );
    }

    #[test]
    fn a_name_may_hold_anything() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194560 1 0 0 0 11 22 0 0 20 0 1 0 333 1 2";
        let stat = parse_stat(stat).unwrap();
        assert_eq!(stat.name, "a) b (c)");
        assert_eq!(
            (stat.user_ticks, stat.system_ticks, stat.started_ticks),
            (11, 22, 333)
        );
        assert!(parse_stat("7 (short) S 1").is_none());
    }

    #[test]
    fn totals_and_samples_divide_by_the_right_events() {
        let reading = |cpu_ns| ProcessReading {
            cpu_ns,
            rss_kib: 10,
            threads: 2,
            ..ProcessReading::default()
        };
        let mut metering = Metering::start(std::process::id() as i32).unwrap();
        (metering.first, metering.last) = (reading(0), reading(0));
        metering.push(1.0, 1000, reading(2_000_000));
        metering.push(2.0, 1000, reading(2_500_000));
        metering.push(3.0, 1500, reading(3_000_000));
        let costs: Vec<_> = metering
            .samples
            .iter()
            .map(|s| s.cpu_us_per_event)
            .collect();
        assert_eq!(costs, [Some(2.0), None, Some(1.0)]);
    }
}
