//! Indexer acknowledgement: events whose request was taken wait here until the collector says that
//! they are indexed, and only then count as delivered.
//!
//! Each endpoint has a channel of its own, made up at the start; an `ackId` means something only
//! on the channel and the server that gave it, so it is asked about at the same endpoint. Where
//! that is a load balancer, it must be sticky. What is not confirmed within `ack_timeout` is sent
//! again, and may be indexed twice: Splunk says `true` once only, and forgets all at a restart.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use inrush_event::{Fate, Feed};

use super::answer::confirmed;
use super::client::{Client, Line};
use crate::{ErrorReason, IDLE_WAIT, SinkStatus};

/// How often it is asked. Splunk confirms about 1.2 seconds after it took a request.
const POLL: Duration = Duration::from_secs(1);

/// How often it is asked where workers may soon have to wait for room; and once the process stops,
/// or the destination changes: what is confirmed now need not be sent again.
const POLL_SOON: Duration = Duration::from_millis(200);

/// Requests that may wait for their confirmation, over all endpoints: enough for 700 MB/s of
/// bodies of 1 MB at 1.4 seconds each. Workers wait when there are more.
const WAITING_MAX: usize = 1000;

/// Ids in one question.
const IDS_MAX: usize = 1000;

/// The events of a request: position of the batch, and which of its records.
pub(super) type Events = Vec<(u64, Range<u32>)>;

/// What was taken and is not confirmed.
pub(super) struct Acks {
    state: Mutex<State>,
    changed: Condvar,
    timeout: Duration,
    status: Arc<SinkStatus>,
}

struct State {
    /// By endpoint and `ackId`.
    waiting: Vec<BTreeMap<u64, Waiting>>,
    /// Nothing will be added any more.
    closed: bool,
    /// Nothing more is waited for.
    given_up: bool,
}

struct Waiting {
    events: Events,
    since: Instant,
}

impl State {
    fn total(&self) -> usize {
        self.waiting.iter().map(BTreeMap::len).sum()
    }
}

impl Acks {
    /// Nothing waits, for this many endpoints.
    pub(super) fn new(endpoints: usize, timeout: Duration, status: Arc<SinkStatus>) -> Self {
        let waiting = std::iter::repeat_with(BTreeMap::new)
            .take(endpoints)
            .collect();
        Self {
            state: Mutex::new(State {
                waiting,
                closed: false,
                given_up: false,
            }),
            changed: Condvar::new(),
            timeout,
            status,
        }
    }

    /// Waits until a further request may wait; `None` if the process stops.
    pub(super) fn await_room(&self, feed: &dyn Feed) -> Option<()> {
        let mut state = self.state();
        while state.total() >= WAITING_MAX {
            if feed.stopping() {
                return None;
            }
            let waited = self.changed.wait_timeout(state, IDLE_WAIT);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Some(())
    }

    /// Has events wait for the confirmation of `id`. Where that number already waits, the server
    /// has begun to count anew and will never confirm the earlier one.
    pub(super) fn add(&self, endpoint: usize, id: u64, events: Events, feed: &dyn Feed) {
        let since = Instant::now();
        let earlier = self.state().waiting[endpoint].insert(id, Waiting { events, since });
        if let Some(earlier) = earlier {
            put_back(earlier, feed);
        }
    }

    /// The workers have ended.
    pub(super) fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }

    /// Nothing more is waited for: what is not confirmed now is put back.
    pub(super) fn give_up(&self) {
        self.state().given_up = true;
        self.changed.notify_all();
    }

    /// Asks until nothing waits and nothing will be added, or it is given up; then puts back what
    /// still waits.
    pub(super) fn run(&self, client: &Client, line: &Line, feed: &dyn Feed) {
        let mut asked_at = Instant::now();
        while !self.is_done() {
            let ends = feed.stopping() || self.state().closed;
            let filling = self.state().total() >= WAITING_MAX / 2;
            let poll = if ends || filling { POLL_SOON } else { POLL };
            let Some(left) = poll.checked_sub(asked_at.elapsed()) else {
                self.ask_all(client, line, feed);
                self.expire(feed);
                asked_at = Instant::now();
                continue;
            };
            self.pause(left.min(IDLE_WAIT));
        }
        let left: Vec<_> = self
            .state()
            .waiting
            .iter_mut()
            .map(std::mem::take)
            .collect();
        for waiting in left.into_iter().flat_map(BTreeMap::into_values) {
            put_back(waiting, feed);
        }
    }

    fn is_done(&self) -> bool {
        let state = self.state();
        state.given_up || state.closed && state.total() == 0
    }

    fn pause(&self, wait: Duration) {
        let waited = self.changed.wait_timeout(self.state(), wait);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn ask_all(&self, client: &Client, line: &Line, feed: &dyn Feed) {
        let endpoints = self.state().waiting.len();
        for endpoint in 0..endpoints {
            let ids: Vec<u64> = self.state().waiting[endpoint].keys().copied().collect();
            for ids in ids.chunks(IDS_MAX) {
                match client.ask_acks(line, endpoint, ids) {
                    None => return,
                    Some(Err(error)) => {
                        self.status.noted(error.reason, &error.text);
                        break;
                    }
                    Some(Ok(answer)) if answer.status == 200 => {
                        self.confirm(endpoint, &confirmed(&answer.body), feed);
                    }
                    Some(Ok(answer)) => {
                        let name = client.name(endpoint);
                        let text = format!("{name}: asked for acknowledgements: {}", answer.status);
                        self.status.noted(ErrorReason::AckFailed, &text);
                        break;
                    }
                }
            }
        }
    }

    fn confirm(&self, endpoint: usize, ids: &[u64], feed: &dyn Feed) {
        for id in ids {
            let waiting = self.state().waiting[endpoint].remove(id);
            for (position, events) in waiting.into_iter().flat_map(|w| w.events) {
                feed.settle(position, events, Fate::Delivered);
            }
        }
        self.changed.notify_all();
    }

    fn expire(&self, feed: &dyn Feed) {
        let mut late = Vec::new();
        for waiting in &mut self.state().waiting {
            let is_late = |_: &u64, waiting: &mut Waiting| waiting.since.elapsed() > self.timeout;
            late.extend(waiting.extract_if(.., is_late).map(|(_, waiting)| waiting));
        }
        for waiting in late {
            let text = "not acknowledged in time; sent again, and perhaps indexed twice";
            self.status.noted(ErrorReason::AckFailed, text);
            put_back(waiting, feed);
        }
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn put_back(waiting: Waiting, feed: &dyn Feed) {
    for (position, events) in waiting.events {
        feed.settle(position, events, Fate::RetryAfter(Duration::ZERO));
    }
}
