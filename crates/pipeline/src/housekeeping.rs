//! Once a second: the kernel's drops, certificates, what makes no progress, and a line in the log
//! when something was lost. Once a minute: the names of senders, and guesses of their zones.

use std::collections::HashMap;
use std::io;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use inrush_config::memory_limit;
use inrush_event::LedgerSnapshot;
use inrush_transport::heap;

use crate::topology::{self, Topology};

const TICK: Duration = Duration::from_secs(1);

/// The loss line comes at most this often, and only when something was lost since the last one.
const LOSS_LINE: Duration = Duration::from_secs(10);

/// A loss that goes on is said after twice the time each time, up to this.
const LOSS_LINE_MAX: Duration = Duration::from_secs(3600);

/// Names of senders and guesses of zones are written down this often, if there are new ones.
const KEEP: Duration = Duration::from_secs(60);

/// Interval at which the memory that the allocator holds free is looked at. Both looking and giving
/// back take its locks for a moment.
const GIVE_BACK: Duration = Duration::from_secs(5);

/// Bytes: the least that is worth giving back, or this part of the memory limit.
const FREE_BYTES: u64 = 16 * 1024 * 1024;
const FREE_PART: u64 = 32;

/// The running watch.
pub(crate) struct HousekeepingThread {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl HousekeepingThread {
    pub(crate) fn start(shared: Arc<Topology>) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("watch".to_owned())
            .spawn(move || {
                let mut losses = LoggedLosses::default();
                let mut kept_at = Instant::now();
                let mut trimmed_at = Instant::now();
                while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                    tick(&shared, &mut losses);
                    keep(&shared, &mut kept_at);
                    give_back(&mut trimmed_at);
                }
            })?;
        Ok(Self { stop, thread })
    }

    pub(crate) fn stop(self) {
        // If the thread is gone already, there is nobody to tell.
        let _ = self.stop.send(());
        if self.thread.join().is_err() {
            tracing::error!("the watch ended by a fault");
        }
    }
}

fn tick(shared: &Topology, losses: &mut LoggedLosses) {
    for source in shared.live_sources() {
        source.tick();
    }
    topology::lock(&shared.leaving).retain(|source| {
        source.tick();
        !source.ended()
    });
    shared.services.context.near.trim();
    let ledger = shared.ledger_now();
    shared
        .progress
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .note(&ledger);
    for observer in &*topology::lock(&shared.observers) {
        if let Some(observer) = observer.upgrade() {
            observer.tick(&ledger);
        }
    }
    if let Some(line) = losses.line(&ledger, Instant::now()) {
        tracing::warn!("{line}");
    }
    if let Some(imbalance) = ledger.imbalance() {
        tracing::error!("the ledger does not balance, which is a fault of Inrush: {imbalance}");
    }
}

fn keep(shared: &Topology, kept_at: &mut Instant) {
    if kept_at.elapsed() >= KEEP {
        *kept_at = Instant::now();
        shared.keep_learnt(false);
    }
}

/// Gives memory back to the system that the allocator holds free, if that is much.
fn give_back(trimmed_at: &mut Instant) {
    if trimmed_at.elapsed() >= GIVE_BACK {
        *trimmed_at = Instant::now();
        let part = memory_limit().map_or(u64::MAX, |limit| limit.bytes / FREE_PART);
        if heap::free_bytes() >= part.min(FREE_BYTES) {
            heap::trim();
        }
    }
}

/// Losses as the log last had them, and the time of that line.
#[derive(Default)]
struct LoggedLosses {
    said: HashMap<String, LoggedLoss>,
    said_at: Option<Instant>,
}

/// A loss as the log last had it.
struct LoggedLoss {
    total: u64,
    at: Option<Instant>,
    /// Time until it may be in a line again: what goes on for hours is not said every ten seconds.
    wait: Duration,
}

impl Default for LoggedLoss {
    fn default() -> Self {
        Self {
            total: 0,
            at: None,
            wait: LOSS_LINE,
        }
    }
}

impl LoggedLoss {
    /// Events lost since it was last in a line, if there are any and that is long enough ago.
    fn news(&mut self, total: u64, now: Instant) -> Option<u64> {
        let more = total.checked_sub(self.total).filter(|more| *more > 0)?;
        let ago = self.at.map(|at| now.saturating_duration_since(at));
        if ago.is_some_and(|ago| ago < self.wait) {
            return None;
        }
        let goes_on = ago.is_some_and(|ago| ago < 2 * self.wait);
        self.wait = match goes_on {
            true => (2 * self.wait).min(LOSS_LINE_MAX),
            false => LOSS_LINE,
        };
        (self.total, self.at) = (total, Some(now));
        Some(more)
    }
}

impl LoggedLosses {
    /// One line with what was lost since each loss was last said; `None` if there is no news, or if
    /// the last line is too recent.
    fn line(&mut self, ledger: &LedgerSnapshot, now: Instant) -> Option<String> {
        if self
            .said_at
            .is_some_and(|at| now.duration_since(at) < LOSS_LINE)
        {
            return None;
        }
        let mut parts = Vec::new();
        for (what, total) in lost(ledger) {
            let said = self.said.entry(what.clone()).or_default();
            if let Some(more) = said.news(total, now) {
                parts.push(format!("{what} +{more} (total {total})"));
            }
        }
        if parts.is_empty() {
            return None;
        }
        self.said_at = Some(now);
        Some(format!("events lost or put aside: {}", parts.join(", ")))
    }
}

/// Every place where an event can be lost or put aside, with its count.
fn lost(ledger: &LedgerSnapshot) -> Vec<(String, u64)> {
    let mut all = Vec::new();
    for (name, row) in &ledger.sources {
        all.push((format!("{name}: dropped by the kernel"), row.kernel_dropped));
        for (reason, n) in &row.lost_upstream {
            all.push((format!("{name}: lost before it was read ({reason})"), *n));
        }
        for (reason, n) in &row.rejected {
            all.push((format!("{name}: rejected ({reason})"), *n));
        }
        for (reason, n) in &row.cut_bytes {
            all.push((format!("{name}: bytes cut ({reason})"), *n));
        }
    }
    for (name, row) in &ledger.destinations {
        for (reason, n) in &row.quarantined {
            all.push((format!("{name}: quarantined ({reason})"), *n));
        }
        for (reason, n) in &row.dropped {
            all.push((format!("{name}: dropped ({reason})"), *n));
        }
        let room = row.deleted_for_room();
        all.push((format!("{name}: deleted for room on the disk"), room));
        let unreadable = row.stored.as_ref().map_or(0, |stored| stored.unreadable);
        all.push((format!("{name}: in files that cannot be read"), unreadable));
    }
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use inrush_event::{Ledger, RejectReason};

    #[test]
    fn losses_are_said_once_and_not_too_often() {
        let ledger = Ledger::new();
        let source = ledger.source("syslog");
        let mut losses = LoggedLosses::default();
        let start = Instant::now();
        assert_eq!(
            losses.line(&ledger.snapshot(), start),
            None,
            "nothing was lost"
        );
        source.kernel_dropped.add(3);
        let line = losses.line(&ledger.snapshot(), start).unwrap();
        assert!(
            line.contains("syslog: dropped by the kernel +3 (total 3)"),
            "{line}"
        );
        source.kernel_dropped.add(2);
        assert_eq!(
            losses.line(&ledger.snapshot(), start + TICK),
            None,
            "too soon"
        );
        let line = losses.line(&ledger.snapshot(), start + LOSS_LINE).unwrap();
        assert!(line.contains("+2 (total 5)"), "{line}");
        assert_eq!(losses.line(&ledger.snapshot(), start + 3 * LOSS_LINE), None);
    }

    #[test]
    fn a_loss_that_goes_on_is_said_less_and_less_and_a_new_one_at_once() {
        let ledger = Ledger::new();
        let source = ledger.source("syslog");
        let mut losses = LoggedLosses::default();
        let start = Instant::now();
        let mut lines = Vec::new();
        for second in 0..7200 {
            source.kernel_dropped.add(1);
            if second == 5000 {
                source.rejected(RejectReason::ALL[0]).add(1);
            }
            let now = start + second * TICK;
            lines.extend(
                losses
                    .line(&ledger.snapshot(), now)
                    .map(|line| (second, line)),
            );
        }
        let old = lines
            .iter()
            .filter(|(_, line)| line.contains("dropped by the kernel"));
        assert_eq!(old.count(), 10, "{lines:?}");
        let new = lines.iter().find(|(_, line)| line.contains("rejected"));
        assert_eq!(new.map(|(second, _)| *second), Some(5000));
    }
}
