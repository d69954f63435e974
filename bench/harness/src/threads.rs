//! Shares of a core that the threads of a process take: whether one is the limit while others idle.

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::measure::ScenarioCheck;
use crate::meter::parse_process_cpu;

/// Per cent of a core from which on a thread is the limit.
const BUSY_PCT: f64 = 90.0;

/// Per cent of a core below which a thread could have taken a part of another's work.
const IDLE_PCT: f64 = 50.0;

/// First part of the names of threads that take work from clients.
const WORKER: &str = "stream-";

/// Threads of a process, looked at again and again.
pub struct ThreadWatch {
    pid: u32,
    since: Instant,
    /// CPU time of each thread so far, by its number; its name.
    cpu_us: BTreeMap<u32, (String, f64)>,
}

/// The busiest thread of a span, and the worker that did least in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThreadShares {
    pub busiest: String,
    pub busiest_pct: f64,
    pub idlest_pct: f64,
}

impl ThreadWatch {
    /// Begins the first span.
    pub fn start(pid: u32) -> Result<Self> {
        Ok(Self {
            pid,
            since: Instant::now(),
            cpu_us: cpu_us(pid)?,
        })
    }

    /// Ends a span and begins the next.
    pub fn look(&mut self) -> Result<ThreadShares> {
        let now = cpu_us(self.pid)?;
        let span_us = self.since.elapsed().as_secs_f64() * 1e6;
        let shares = shares(&self.cpu_us, &now, span_us);
        (self.since, self.cpu_us) = (Instant::now(), now);
        Ok(shares)
    }
}

/// Shares of those that were there at both ends of a span.
fn shares(
    before: &BTreeMap<u32, (String, f64)>,
    now: &BTreeMap<u32, (String, f64)>,
    span_us: f64,
) -> ThreadShares {
    let mut found = ThreadShares {
        idlest_pct: 100.0,
        ..ThreadShares::default()
    };
    for (thread, (name, cpu_us)) in now {
        let Some((_, earlier_us)) = before.get(thread) else {
            continue;
        };
        let pct = 100.0 * (cpu_us - earlier_us) / span_us;
        if pct > found.busiest_pct {
            (found.busiest, found.busiest_pct) = (name.clone(), pct);
        }
        if name.starts_with(WORKER) {
            found.idlest_pct = found.idlest_pct.min(pct);
        }
    }
    found
}

/// Check that in no span a thread was the limit while a worker idled.
pub fn none_alone(spans: &[ThreadShares]) -> ScenarioCheck {
    let alone = |span: &&ThreadShares| span.busiest_pct > BUSY_PCT && span.idlest_pct < IDLE_PCT;
    let bad = spans.iter().filter(alone).count();
    let most = spans
        .iter()
        .max_by(|a, b| a.busiest_pct.total_cmp(&b.busiest_pct));
    let found = most.map_or("nothing was seen".to_owned(), |most| {
        format!(
            "{bad} of {} spans; at most {:.0} % ({})",
            spans.len(),
            most.busiest_pct,
            most.busiest
        )
    });
    ScenarioCheck::new(
        "no thread over 90 % of a core while a worker idles",
        found,
        bad == 0 && !spans.is_empty(),
    )
}

fn cpu_us(pid: u32) -> Result<BTreeMap<u32, (String, f64)>> {
    let threads = fs::read_dir(format!("/proc/{pid}/task"))
        .with_context(|| format!("process {pid} has ended"))?;
    let read = |entry: std::io::Result<fs::DirEntry>| {
        // A thread may have ended since the folder was read.
        let text = fs::read_to_string(entry.ok()?.path().join("stat")).ok()?;
        let (number, rest) = text.split_once(" (")?;
        let name = rest.rsplit_once(')')?.0.to_owned();
        let cpu_us = parse_process_cpu(&text)?.total_us();
        Some((number.parse().ok()?, (name, cpu_us)))
    };
    Ok(threads.filter_map(read).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn threads(figures: [(&str, f64); 3]) -> BTreeMap<u32, (String, f64)> {
        let named = |(name, us): (&str, f64)| (name.to_owned(), us);
        (0..).zip(figures.map(named)).collect()
    }

    #[test]
    fn one_thread_alone_is_found_and_two_that_share_are_not() {
        let before = threads([("stream-0", 10.0), ("stream-1", 10.0), ("queue", 0.0)]);
        let one = threads([("stream-0", 105.0), ("stream-1", 12.0), ("queue", 5.0)]);
        let both = threads([("stream-0", 105.0), ("stream-1", 90.0), ("queue", 5.0)]);
        let (one, both) = (shares(&before, &one, 100.0), shares(&before, &both, 100.0));
        assert_eq!((one.busiest.as_str(), one.busiest_pct), ("stream-0", 95.0));
        assert!(!none_alone(&[both.clone(), one]).passed);
        assert!(none_alone(&[both]).passed && !none_alone(&[]).passed);
    }

    #[test]
    fn the_threads_of_this_very_process_are_seen() {
        let mut watch = ThreadWatch::start(std::process::id()).unwrap();
        assert!(!watch.cpu_us.is_empty());
        assert!(watch.look().unwrap().busiest_pct >= 0.0);
    }
}
