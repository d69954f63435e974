//! Status of a sink: counters, health and last error. The sink writes it, the admin side reads it.
//!
//! # What it guarantees
//! * The log names a change of health once, and a lasting overflow every ten minutes.
//! * A delivery that succeeds hides neither a failing quarantine nor failing acknowledgements.
//! * The lock is held for a moment only, never during I/O.
//!
//! # States
//! A sink starts healthy. `failed` or `holds` begins an outage, `succeeded` ends it, and `noted`
//! changes no health. Quarantine and acknowledgements have outages of their own.
//!
//! # Limits
//! `ERROR_TEXT_CHARS` of an error are kept. `REROUTED_INDEXES_MAX` indexes are counted by name.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use inrush_event::{Counter, Histogram, HistogramSnapshot, Timestamp};

use crate::ErrorReason;

/// Characters of an error's text that are kept: a server may answer with a whole page.
const ERROR_TEXT_CHARS: usize = 300;

/// Indexes whose rerouted events are counted by name; those of further ones count as `other`.
const REROUTED_INDEXES_MAX: usize = 100;

/// Attempts over which the moving average of an attempt's duration is taken.
const AVERAGED_OVER: i64 = 8;

/// The last attempt that failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LastError {
    /// Reason, from the closed list.
    pub reason: ErrorReason,
    /// Text of the error, cut to a few hundred characters.
    pub text: String,
    /// Time of the failure.
    pub at: Timestamp,
}

/// The reason why a path is one too many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OverflowCause {
    /// Senders had `max_paths` paths made.
    Paths,
    /// The file system has only its reserve of inodes left.
    Inodes,
}

/// Events that go to the overflow file of a destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overflow {
    /// The reason of the last one.
    pub cause: OverflowCause,
    /// Since when, without a pause of ten minutes.
    pub since: Timestamp,
    last: Timestamp,
    /// The time at which the log said it.
    said: Timestamp,
}

/// Without an event for so long, an overflow is over; it is said so often. In nanoseconds.
const OVERFLOW_LASTS_NS: i64 = 600_000_000_000;

/// A sink's counters and its state. Shared by `Arc`.
#[derive(Debug)]
pub struct SinkStatus {
    name: String,
    kind: &'static str,
    requests: Counter,
    bytes_sent: Counter,
    errors: [Counter; ErrorReason::ALL.len()],
    /// Events in an overflow file.
    overflowed: Counter,
    /// Moving average of what an answered attempt takes, in nanoseconds; 0 before the first.
    request_ns: Counter,
    /// Times of all answered attempts.
    request_times: Histogram,
    /// Requests that may be in flight; 0 for a sink that has none.
    concurrency: AtomicU32,
    /// Taken once a batch or request, never held across I/O.
    state: Mutex<HealthState>,
}

#[derive(Debug)]
struct HealthState {
    healthy: bool,
    since: Timestamp,
    last_success: Timestamp,
    rerouted: BTreeMap<String, u64>,
    last_error: Option<LastError>,
    /// Error while refused events cannot be quarantined; `None` once they can again. It outlasts
    /// deliveries that go well: those are other events.
    quarantine_error: Option<LastError>,
    /// Error while acknowledgements cannot be requested; `None` once they can again. Events sent
    /// meanwhile may be taken all the same.
    ack_error: Option<LastError>,
    overflow: Option<Overflow>,
}

impl HealthState {
    /// Error that lasts although deliveries go well.
    fn lasting(&self) -> Option<&LastError> {
        self.quarantine_error.as_ref().or(self.ack_error.as_ref())
    }
}

impl SinkStatus {
    /// The status of a sink that has not done anything yet, which counts as healthy.
    pub(crate) fn new(name: &str, kind: &'static str) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            requests: Counter::default(),
            bytes_sent: Counter::default(),
            errors: Default::default(),
            overflowed: Counter::default(),
            request_ns: Counter::default(),
            request_times: Histogram::default(),
            concurrency: AtomicU32::new(0),
            state: Mutex::new(HealthState {
                healthy: true,
                since: Timestamp::now(),
                last_success: Timestamp::NONE,
                rerouted: BTreeMap::new(),
                last_error: None,
                quarantine_error: None,
                ack_error: None,
                overflow: None,
            }),
        }
    }

    /// The destination's name in the configuration.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The destination's type in the configuration.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// Attempts: HTTP requests, or batches written.
    pub fn requests(&self) -> u64 {
        self.requests.get()
    }

    /// Bytes that the destination has taken, as they were encoded (and compressed).
    pub fn bytes_sent(&self) -> u64 {
        self.bytes_sent.get()
    }

    /// Moving average of the time of a request or a write, in which the last eight count for two
    /// thirds; `None` before the first.
    pub fn request_time(&self) -> Option<Duration> {
        Some(self.request_ns.get())
            .filter(|ns| *ns > 0)
            .map(Duration::from_nanos)
    }

    /// Times of all requests or writes: from the moment at which one was sent until its answer.
    pub fn request_times(&self) -> HistogramSnapshot {
        self.request_times.snapshot()
    }

    /// A request was answered, or a write done, after this time. Two workers that say so at once
    /// may cost one of the two its weight.
    pub(crate) fn timed(&self, took: Duration) {
        let took = i64::try_from(took.as_nanos()).unwrap_or(i64::MAX).max(1);
        self.request_times.observe(took);
        let before = self.request_ns.get() as i64;
        let now = match before {
            0 => took,
            _ => before + (took - before) / AVERAGED_OVER,
        };
        self.request_ns.set(now.max(1) as u64);
    }

    /// Requests that may be in flight at once just now; `None` for a sink without requests.
    pub fn concurrency(&self) -> Option<u32> {
        Some(self.concurrency.load(Relaxed)).filter(|n| *n > 0)
    }

    pub(crate) fn set_concurrency(&self, requests: u32) {
        self.concurrency.store(requests, Relaxed);
    }

    /// Failed attempts for this reason.
    pub fn errors(&self, reason: ErrorReason) -> u64 {
        self.errors[reason as usize].get()
    }

    /// True if the last attempt succeeded or none was made yet, and refused events can be
    /// quarantined and acknowledgements requested.
    pub fn healthy(&self) -> bool {
        let state = self.state();
        state.healthy && state.lasting().is_none()
    }

    /// Since when it is healthy, or is not.
    pub fn since(&self) -> Timestamp {
        let state = self.state();
        match state.lasting() {
            Some(error) if state.healthy => error.at,
            _ => state.since,
        }
    }

    /// Time of the last successful attempt; [`Timestamp::NONE`] if there was none.
    pub fn last_success(&self) -> Timestamp {
        self.state().last_success
    }

    /// The last attempt that failed.
    pub fn last_error(&self) -> Option<LastError> {
        let state = self.state();
        let lasting = state.lasting().filter(|_| state.healthy);
        lasting.or(state.last_error.as_ref()).cloned()
    }

    /// Events that were sent to another index, by the one that they were meant for.
    pub fn rerouted(&self) -> BTreeMap<String, u64> {
        self.state().rerouted.clone()
    }

    pub(crate) fn reroutes(&self, index: &str, events: usize) {
        let rerouted = &mut self.state().rerouted;
        let full = rerouted.len() >= REROUTED_INDEXES_MAX && !rerouted.contains_key(index);
        let name = if full { "other" } else { index };
        *rerouted.entry(name.to_owned()).or_default() += events as u64;
    }

    /// Events that were written to the overflow file, since their own path was one too many.
    pub fn overflow_events(&self) -> u64 {
        self.overflowed.get()
    }

    /// The overflow that lasts, if one does.
    pub fn overflow(&self) -> Option<Overflow> {
        let lasts =
            |one: &Overflow| Timestamp::now().0.saturating_sub(one.last.0) < OVERFLOW_LASTS_NS;
        self.state().overflow.filter(lasts)
    }

    pub(crate) fn overflowed(&self, events: u64) {
        self.overflowed.add(events);
    }

    /// A path was one too many.
    pub(crate) fn overflows(&self, cause: OverflowCause, now: Timestamp) {
        let mut state = self.state();
        let ago = |at: Timestamp| now.0.saturating_sub(at.0);
        let lasting = state
            .overflow
            .filter(|one| ago(one.last) < OVERFLOW_LASTS_NS);
        let since = lasting.map_or(now, |one| one.since);
        let said = lasting.map(|one| one.said);
        let said = said.filter(|at| ago(*at) < OVERFLOW_LASTS_NS);
        state.overflow = Some(Overflow {
            cause,
            since,
            last: now,
            said: said.unwrap_or(now),
        });
        drop(state);
        if said.is_some() {
            return;
        }
        let destination = self.name();
        match cause {
            OverflowCause::Paths => tracing::warn!(
                destination,
                "senders have named as many paths as `max_paths` allows; events of further ones \
                 go to the path with `other` in it; see who sends made-up names, or raise it"
            ),
            OverflowCause::Inodes => tracing::warn!(
                destination,
                "the file system has few inodes left (`df -i`); events that need a new file go \
                 to the path with `other` in it; delete old files"
            ),
        }
    }

    pub(crate) fn attempted(&self) {
        self.requests.add(1);
    }

    pub(crate) fn succeeded(&self, bytes: usize) {
        self.bytes_sent.add(bytes as u64);
        let now = Timestamp::now();
        let mut state = self.state();
        state.last_success = now;
        if !state.healthy {
            state.healthy = true;
            state.since = now;
            drop(state);
            tracing::info!(destination = self.name, "destination works again");
        }
    }

    /// Counts an error and remembers it without calling the sink unhealthy: the work goes on.
    pub(crate) fn noted(&self, reason: ErrorReason, text: &str) {
        self.errors[reason as usize].add(1);
        self.state().last_error = Some(last_error(reason, text));
    }

    /// Refused events could not be put into quarantine and are held.
    pub(crate) fn quarantine_failed(&self, text: &str) {
        self.noted(ErrorReason::QuarantineFailed, text);
        let mut state = self.state();
        if state.quarantine_error.is_none() {
            state.quarantine_error = Some(last_error(ErrorReason::QuarantineFailed, text));
            drop(state);
            tracing::warn!(destination = self.name, text, "refused events are held");
        }
    }

    /// Refused events were put into quarantine.
    pub(crate) fn quarantine_works(&self) {
        if self.state().quarantine_error.take().is_some() {
            tracing::info!(destination = self.name, "quarantine takes events again");
        }
    }

    /// Acknowledgements could not be asked for.
    pub(crate) fn acks_failed(&self, reason: ErrorReason, text: &str) {
        self.noted(reason, text);
        let mut state = self.state();
        if state.ack_error.is_none() {
            state.ack_error = Some(last_error(reason, text));
            drop(state);
            let (destination, reason) = (self.name(), reason.name());
            tracing::warn!(destination, reason, text, "no acknowledgements");
        }
    }

    /// Acknowledgements were asked for, and answered.
    pub(crate) fn acks_work(&self) {
        if self.state().ack_error.take().is_some() {
            tracing::info!(destination = self.name, "acknowledgements work again");
        }
    }

    /// A failed attempt that holds events.
    pub(crate) fn failed(&self, reason: ErrorReason, text: &str) {
        self.errors[reason as usize].add(1);
        self.holds(reason, text);
    }

    /// Events are held because of errors that were counted one by one.
    pub(crate) fn holds(&self, reason: ErrorReason, text: &str) {
        let mut state = self.state();
        state.last_error = Some(last_error(reason, text));
        if state.healthy {
            state.healthy = false;
            state.since = Timestamp::now();
            drop(state);
            let reason = reason.name();
            tracing::warn!(
                destination = self.name,
                reason,
                text,
                "destination holds its events"
            );
        }
    }

    fn state(&self) -> MutexGuard<'_, HealthState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn last_error(reason: ErrorReason, text: &str) -> LastError {
    LastError {
        reason,
        text: text.chars().take(ERROR_TEXT_CHARS).collect(),
        at: Timestamp::now(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_follows_the_last_attempt_and_remembers_since_when() {
        let status = SinkStatus::new("tape", "file");
        assert!(status.healthy());
        let born = status.since();
        status.failed(ErrorReason::DiskFull, &"x".repeat(5000));
        assert!(!status.healthy());
        assert!(status.since() >= born);
        let down = status.since();
        status.failed(ErrorReason::Io, "again");
        assert_eq!(
            status.since(),
            down,
            "the second failure is the same outage"
        );
        assert_eq!(status.last_error().map(|e| e.reason), Some(ErrorReason::Io));
        status.succeeded(10);
        assert!(status.healthy());
        assert_eq!(status.errors(ErrorReason::DiskFull), 1);
        assert_eq!(status.bytes_sent(), 10);
        assert!(status.last_success().is_some());
    }

    #[test]
    fn a_quarantine_that_fails_is_an_outage_until_it_works() {
        let status = SinkStatus::new("splunk", "splunk_hec");
        status.quarantine_failed("full");
        status.succeeded(10);
        status.noted(ErrorReason::Http400, "another");
        assert!(
            !status.healthy(),
            "other events that are taken do not mend it"
        );
        let said = status.last_error().map(|error| error.reason);
        assert_eq!(said, Some(ErrorReason::QuarantineFailed));
        status.quarantine_works();
        assert!(status.healthy());
        assert_eq!(status.errors(ErrorReason::QuarantineFailed), 1);
    }

    #[test]
    fn the_request_time_follows_what_requests_take() {
        let status = SinkStatus::new("splunk", "splunk_hec");
        assert_eq!(status.request_time(), None);
        status.timed(Duration::from_millis(80));
        assert_eq!(status.request_time(), Some(Duration::from_millis(80)));
        status.timed(Duration::from_millis(160));
        assert_eq!(status.request_time(), Some(Duration::from_millis(90)));
        (0..100).for_each(|_| status.timed(Duration::from_millis(1)));
        assert_eq!(status.request_time().map(|t| t.as_millis()), Some(1));
        status.timed(Duration::ZERO);
        assert!(status.request_time().is_some(), "not none again");
    }

    #[test]
    fn a_long_error_text_is_cut() {
        let status = SinkStatus::new("tape", "file");
        status.noted(ErrorReason::BadAnswer, &"é".repeat(5000));
        let text = status.last_error().map(|e| e.text).unwrap_or_default();
        assert_eq!(text.chars().count(), ERROR_TEXT_CHARS);
        assert!(status.healthy(), "a note is not an outage");
    }
}
