//! Indexer acknowledgement: events whose request was taken wait here until the collector says that
//! they are indexed, and only then count as delivered.
//!
//! An `ackId` means something only on the channel and the server that gave it. So each connection
//! has a channel of its own, and is asked itself, with the cookies that came over it: behind a load
//! balancer the question goes where the events went, whether that follows connections or cookies.
//! A connection that is given up stays until nothing waits for it. What is not confirmed within
//! `ack_timeout` is sent again, and may be indexed twice: Splunk says `true` once only, and forgets
//! all at a restart.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use inrush_event::{Fate, Feed};

use super::answer::confirmed;
use super::client::HecClient;
use crate::http::client::Answer;
use crate::http::connection::HttpConnection;
use crate::{ErrorReason, IDLE_WAIT, SinkStatus};

/// Interval of the questions for acknowledgements. Splunk confirms about 1.2 seconds after it took
/// a request.
const POLL: Duration = Duration::from_secs(1);

/// The same interval where workers may soon have to wait for room; and once the process stops, or
/// the destination changes: what is confirmed now need not be sent again.
const POLL_SOON: Duration = Duration::from_millis(200);

/// Requests that may wait for their confirmation, over all endpoints: enough for 700 MB/s of
/// bodies of 1 MB at 1.4 seconds each. Workers wait when there are more.
const WAITING_MAX: usize = 1000;

/// Connections that are kept for their acknowledgements, those of workers included, before none is
/// given up because of its age.
const LANES_MAX: usize = 200;

/// Ids in one question.
const IDS_MAX: usize = 1000;

/// The events of a request: position of the batch, and which of its records.
pub(super) type RequestEvents = Vec<(u64, Range<u32>)>;

/// Requests that were taken and are not confirmed.
pub(super) struct Acks {
    state: Mutex<AckState>,
    changed: Condvar,
    timeout: Duration,
    status: Arc<SinkStatus>,
}

struct AckState {
    lanes: Vec<ChannelAcks>,
    /// Nothing will be added any more.
    closed: bool,
    /// Nothing more is waited for.
    given_up: bool,
}

/// Requests of one connection that wait for their confirmation.
struct ChannelAcks {
    link: Arc<HttpConnection>,
    /// By `ackId`.
    waiting: BTreeMap<u64, UnackedRequest>,
    asked_at: Instant,
    /// The last question had no answer of HEC.
    failing: bool,
}

struct UnackedRequest {
    events: RequestEvents,
    since: Instant,
}

impl AckState {
    fn total(&self) -> usize {
        self.lanes.iter().map(|lane| lane.waiting.len()).sum()
    }

    fn lane(&mut self, link: &Arc<HttpConnection>) -> Option<&mut ChannelAcks> {
        self.lanes
            .iter_mut()
            .find(|lane| Arc::ptr_eq(&lane.link, link))
    }

    fn poll(&self, stopping: bool) -> Duration {
        let filling = self.total() >= WAITING_MAX / 2;
        match stopping || self.closed || filling {
            true => POLL_SOON,
            false => POLL,
        }
    }
}

impl Acks {
    /// Nothing waits.
    pub(super) fn new(timeout: Duration, status: Arc<SinkStatus>) -> Self {
        Self {
            state: Mutex::new(AckState {
                lanes: Vec::new(),
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

    /// True if connections may be given up although events wait: there is room for more lanes.
    pub(super) fn has_lanes(&self) -> bool {
        self.state().lanes.len() < LANES_MAX
    }

    /// An answer of the link gave this id. Where that number already waits, another server has
    /// given it, or this one has begun to count anew: the earlier one cannot be told apart any
    /// more, and is sent again. Whoever got the answer has the link's turn.
    pub(super) fn supersede(&self, link: &Arc<HttpConnection>, id: u64, feed: &dyn Feed) -> bool {
        let earlier = self
            .state()
            .lane(link)
            .and_then(|lane| lane.waiting.remove(&id));
        let found = earlier.is_some();
        if let Some(earlier) = earlier {
            let text = "an ackId was given twice; the earlier events are sent again";
            self.status.noted(ErrorReason::AckFailed, text);
            put_back(earlier, feed);
        }
        found
    }

    /// Has events wait for the confirmation of `id`.
    pub(super) fn add(&self, link: &Arc<HttpConnection>, id: u64, events: RequestEvents) {
        let since = Instant::now();
        let mut state = self.state();
        if state.lane(link).is_none() {
            state.lanes.push(ChannelAcks {
                link: Arc::clone(link),
                waiting: BTreeMap::new(),
                asked_at: since,
                failing: false,
            });
        }
        let waiting = state.lane(link).map(|lane| &mut lane.waiting);
        if let Some(waiting) = waiting {
            let entry = waiting.entry(id).or_insert(UnackedRequest {
                events: Vec::new(),
                since,
            });
            entry.events.extend(events);
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
    pub(super) fn run(&self, client: &HecClient, feed: &dyn Feed) {
        while !self.is_done() {
            let links: Vec<_> = self
                .state()
                .lanes
                .iter()
                .map(|l| Arc::clone(&l.link))
                .collect();
            for link in links {
                // While it carries events, its worker asks before the next ones.
                let asked = match link.try_turn() {
                    Some(_turn) => self.ask_if_due(client, &link, feed),
                    None => Some(()),
                };
                if asked.is_none() {
                    break;
                }
            }
            self.expire(feed);
            self.pause(IDLE_WAIT);
        }
        let lanes = std::mem::take(&mut self.state().lanes);
        for waiting in lanes.into_iter().flat_map(|l| l.waiting.into_values()) {
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

    /// Asks over a link, whose turn the caller has, if it is time; `None` if the process stops.
    pub(super) fn ask_if_due(
        &self,
        client: &HecClient,
        link: &Arc<HttpConnection>,
        feed: &dyn Feed,
    ) -> Option<()> {
        let ids: Vec<u64> = {
            let mut state = self.state();
            let poll = state.poll(feed.stopping());
            let lane = state.lane(link).filter(|l| l.asked_at.elapsed() >= poll);
            let Some(lane) = lane else { return Some(()) };
            lane.asked_at = Instant::now();
            lane.waiting.keys().copied().collect()
        };
        for ids in ids.chunks(IDS_MAX) {
            let answer = client.ask_acks(link, ids)?;
            if let Ok(answer) = &answer {
                link.note(answer);
            }
            match answer.map(|answer| (confirmed_by(&answer), answer)) {
                Ok((Some(ids), _)) => self.confirm(link, &ids, feed),
                Ok((None, answer)) => {
                    let text = unanswered(client.name(link.endpoint), &answer);
                    let reason = match answer.status {
                        200..=299 => ErrorReason::BadAnswer,
                        _ => ErrorReason::AckFailed,
                    };
                    self.failed(link, reason, &text);
                    break;
                }
                Err(error) => {
                    self.failed(link, error.reason, &error.text);
                    break;
                }
            }
        }
        Some(())
    }

    fn failed(&self, link: &Arc<HttpConnection>, reason: ErrorReason, text: &str) {
        if let Some(lane) = self.state().lane(link) {
            lane.failing = true;
        }
        self.status.acks_failed(reason, text);
    }

    fn confirm(&self, link: &Arc<HttpConnection>, ids: &[u64], feed: &dyn Feed) {
        let mut done = Vec::new();
        if let Some(lane) = self.state().lane(link) {
            lane.failing = false;
            done.extend(ids.iter().filter_map(|id| lane.waiting.remove(id)));
        }
        for (position, events) in done.into_iter().flat_map(|waiting| waiting.events) {
            feed.settle(position, events, Fate::Delivered);
        }
        self.tidy(true);
    }

    fn expire(&self, feed: &dyn Feed) {
        let mut late = Vec::new();
        for lane in &mut self.state().lanes {
            let is_late =
                |_: &u64, waiting: &mut UnackedRequest| waiting.since.elapsed() > self.timeout;
            late.extend(lane.waiting.extract_if(.., is_late).map(|(_, w)| w));
        }
        if late.is_empty() {
            return;
        }
        for waiting in late {
            let text = "not acknowledged in time; sent again, and perhaps indexed twice";
            self.status.noted(ErrorReason::AckFailed, text);
            put_back(waiting, feed);
        }
        self.tidy(false);
    }

    /// Forgets lanes that nothing waits on. An alarm ends when a question was `answered` and none
    /// is without an answer.
    fn tidy(&self, answered: bool) {
        let mut state = self.state();
        state.lanes.retain(|lane| !lane.waiting.is_empty());
        let works = answered && !state.lanes.iter().any(|lane| lane.failing);
        drop(state);
        if works {
            self.status.acks_work();
        }
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, AckState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn confirmed_by(answer: &Answer) -> Option<Vec<u64>> {
    confirmed(&answer.body).filter(|_| answer.status == 200)
}

/// An answer to a question that is none, in words.
fn unanswered(name: &str, answer: &Answer) -> String {
    let kind = answer.content_type.as_deref().unwrap_or("no content type");
    let words = String::from_utf8_lossy(&answer.body);
    let words: String = words.chars().take(100).collect();
    let status = answer.status;
    format!("{name}: asked for acknowledgements: {status} ({kind}): {words}")
}

fn put_back(waiting: UnackedRequest, feed: &dyn Feed) {
    for (position, events) in waiting.events {
        feed.settle(position, events, Fate::RetryAfter(Duration::ZERO));
    }
}
