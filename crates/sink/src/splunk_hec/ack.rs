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

/// Requests that may wait for their confirmation, over all endpoints: enough for 500 MB/s of
/// bodies of 1 MB at two seconds each. Workers wait when there are more.
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

    /// Asks until nothing waits and nothing will be added, or the process stops; then puts back
    /// what still waits.
    pub(super) fn run(&self, client: &Client, line: &Line, feed: &dyn Feed) {
        let mut ask_at = Instant::now() + POLL;
        while !feed.stopping() && !self.is_done() {
            if Instant::now() < ask_at {
                self.pause();
                continue;
            }
            self.ask_all(client, line, feed);
            self.expire(feed);
            ask_at = Instant::now() + POLL;
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
        state.closed && state.total() == 0
    }

    fn pause(&self) {
        let waited = self.changed.wait_timeout(self.state(), IDLE_WAIT);
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
