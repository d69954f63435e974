//! The workers: fill a body, send it, settle its events by what the answer means.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use inrush_codec::encode::{HecEncoder, HecOptions};
use inrush_event::{Fate, Feed, RefuseReason};

use super::ack::Acks;
use super::answer::{Action, Words, is_busy, judge};
use super::client::{Client, Line};
use super::config::SplunkHecConfig;
use super::desk::Desks;
use super::encode::Body;
use super::endpoint::{Endpoints, Failure, Pick};
use super::gate::Gate;
use super::index::{Detour, Indexes};
use super::pack::Packer;
use crate::quarantine::{Quarantine, Refusal, Refused, Refuser};
use crate::{ErrorReason, IDLE_WAIT, Sink, SinkError, SinkStatus, backoff};

/// How long requests under way may still be answered once the process stops.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// How long acknowledgements are still asked for then. Splunk confirms after little more than a
/// second.
const ACK_GRACE: Duration = Duration::from_secs(3);

/// How often it is looked whether the process stops.
const STOP_POLL: Duration = Duration::from_millis(200);

/// Events that a stranger's 400 (one without HEC's code) may send to quarantine between two
/// requests that were taken. Beyond that it is the address that is wrong, not the events.
const STRANGER_REFUSALS_MAX: u32 = 100;

/// Failures in a row after which a body is taken apart, if others were taken meanwhile: something
/// in it offends the collector or what stands before it.
const STUBBORN_FAILURES: u32 = 5;

/// When a single event that alone fails is tried again, while others show whether the address is
/// right.
const STRANGER_RETRY: Duration = Duration::from_secs(5);

/// Bad events in one body after which the rest is sent in smaller pieces: else a body of nothing
/// but bad events would be sent as often as it has events.
const BAD_EVENTS_FREE: u32 = 8;

/// What follows from an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// It decides over the events.
    Final,
    /// The same is sent again.
    Again,
    /// The events go back to the feed, so that others get their turn.
    PutBack,
}

/// The sink that speaks HEC.
pub struct SplunkHec {
    config: SplunkHecConfig,
    shared: Shared,
    /// Of the first worker.
    first_line: Line,
    ack_line: Option<Line>,
}

/// What the workers share.
pub(super) struct Shared {
    client: Client,
    desks: Desks,
    /// Taken for a moment before and after each request.
    endpoints: Mutex<Endpoints>,
    /// See [`STRANGER_REFUSALS_MAX`]; nothing is believed before something was taken.
    stranger_refusals_left: AtomicU32,
    /// Requests that were taken.
    taken: AtomicU64,
    gate: Gate,
    acks: Option<Acks>,
    refuser: Refuser,
    pub(super) status: Arc<SinkStatus>,
}

impl SplunkHec {
    pub(crate) fn new(
        name: &str,
        config: &SplunkHecConfig,
        quarantine: Arc<dyn Quarantine>,
        status: Arc<SinkStatus>,
    ) -> Result<Self, SinkError> {
        let probe = config.request_timeout.0 + config.connect_timeout.0;
        let destination = name.to_owned();
        let refuser = Refuser {
            destination,
            quarantine,
            status: Arc::clone(&status),
        };
        let acks = || {
            let endpoints = config.endpoints.len();
            Acks::new(endpoints, config.ack_timeout.0, Arc::clone(&status))
        };
        let client = Client::new(config)?;
        let acks_wanted = config.acknowledgements;
        let ack_line = acks_wanted.then(|| client.ack_line()).transpose();
        let ack_line = ack_line.map_err(SinkError::Unstartable)?;
        // The first one, so that it is known now whether there can be any.
        let first_line = client.line().map_err(SinkError::Unstartable)?;
        let shared = Shared {
            client,
            desks: Desks::new(config),
            endpoints: Mutex::new(Endpoints::new(config.endpoints.len(), probe)),
            stranger_refusals_left: AtomicU32::new(0),
            taken: AtomicU64::new(0),
            gate: Gate::new(config.workers, Arc::clone(&status)),
            acks: config.acknowledgements.then(acks),
            refuser,
            status,
        };
        Ok(Self {
            config: config.clone(),
            shared,
            first_line,
            ack_line,
        })
    }
}

impl Sink for SplunkHec {
    fn run(self: Box<Self>, feed: Arc<dyn Feed>) {
        let Self {
            config,
            shared,
            first_line,
            ack_line,
        } = *self;
        let (shared, feed) = (&shared, &*feed);
        std::thread::scope(|scope| {
            let (alive, workers_left) = channel::<()>();
            let (asking, asker_left) = channel::<()>();
            if let (Some(acks), Some(line)) = (&shared.acks, ack_line) {
                scope.spawn(move || {
                    acks.run(&shared.client, &line, feed);
                    drop(asking);
                });
            } else {
                drop(asking);
            }
            let (config, workers_max, mut workers) = (&config, config.workers_max(), 0);
            let mut line = Some(first_line);
            // More are started once there is work for them.
            let mut start_more = Some(move || {
                while workers < workers_max.min(shared.gate.workers()) {
                    let Some(line) = line.take().or_else(|| shared.line()) else {
                        workers = workers_max;
                        return;
                    };
                    let mut worker = Worker::new(config, line, shared, feed);
                    let (alive, number) = (alive.clone(), workers);
                    scope.spawn(move || {
                        worker.run(number);
                        // Nobody waits for it any more if this fails.
                        let _ = alive.send(());
                    });
                    workers += 1;
                }
            });
            let mut stopping_since = None;
            let mut await_end = |left: Receiver<()>, grace: Duration, break_off: &dyn Fn()| {
                // The channel closes when the last thread ends.
                let mut heard = Err(RecvTimeoutError::Timeout);
                while heard != Err(RecvTimeoutError::Disconnected) {
                    // When one ends, all do.
                    match &mut start_more {
                        Some(start_more) if heard.is_err() && !feed.stopping() => start_more(),
                        _ => start_more = None,
                    }
                    heard = left.recv_timeout(STOP_POLL);
                    let since = feed
                        .stopping()
                        .then(|| *stopping_since.get_or_insert_with(Instant::now));
                    if since.is_some_and(|since| since.elapsed() > grace) {
                        break_off();
                    }
                }
            };
            await_end(workers_left, STOP_GRACE, &|| shared.client.shut_down());
            if let Some(acks) = &shared.acks {
                acks.close();
                await_end(asker_left, ACK_GRACE, &|| {
                    acks.give_up();
                    shared.client.shut_down_acks();
                });
            }
        });
        shared.desks.clear(feed);
    }
}

/// Our host name, for `sc4s_container`.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() {
        "inrush".into()
    } else {
        name.trim().into()
    }
}

impl SplunkHecConfig {
    /// What an envelope says beside its event, on this host.
    pub fn envelope(&self) -> HecOptions {
        HecOptions {
            source: self.source.clone(),
            index: None,
            container: host_name(),
            indexed_fields: self.indexed_fields.clone(),
        }
    }
}

pub(super) struct Worker<'a> {
    pub(super) shared: &'a Shared,
    feed: &'a dyn Feed,
    line: Line,
    packer: Packer,
    pub(super) body: Body,
    /// Ranges of the body that are still to be sent, the first one last.
    todo: Vec<Range<usize>>,
    /// The body was taken apart because it alone failed.
    searching: bool,
    /// There is no other worker.
    alone: bool,
    /// Ranges of the body that were sent, and how often.
    sent: Vec<(Range<usize>, u32)>,
    /// What was refused of the body; it waits for the disk once.
    refused: Vec<Refused>,
    /// Bad events that the collector named in this body.
    bad_events: u32,
    /// Events of the body that are sent at once.
    piece: usize,
    pub(super) indexes: Indexes,
    pub(super) detour: Option<Detour>,
}

impl<'a> Worker<'a> {
    fn new(config: &SplunkHecConfig, line: Line, shared: &'a Shared, feed: &'a dyn Feed) -> Self {
        let batch = &config.batch;
        let (bytes_max, events_max) = (batch.max_bytes.0 as usize, batch.max_events as usize);
        let detour = config.reroute_index.as_ref().map(|index| {
            let envelope = HecOptions {
                index: Some(index.clone()),
                ..config.envelope()
            };
            Detour::new(index.clone(), HecEncoder::new(envelope))
        });
        Self {
            shared,
            feed,
            line,
            packer: Packer::new(config.compression),
            body: Body::new(bytes_max, events_max, config.event_id),
            todo: Vec::new(),
            searching: false,
            alone: config.workers_max() == 1,
            sent: Vec::new(),
            refused: Vec::new(),
            bad_events: 0,
            piece: usize::MAX,
            indexes: Indexes::default(),
            detour,
        }
    }

    /// Fills and sends bodies, as worker `number`, whenever that many are wanted.
    fn run(&mut self, number: u32) {
        let shared = self.shared;
        while shared.gate.await_turn(number, self.feed)
            && !self.feed.stopping()
            && shared.desks.fill(&mut self.body, self.feed)
        {
            self.deliver_body();
            self.reroute();
        }
        shared.gate.close();
    }

    /// Settles every event of the body but those that are to be rerouted.
    pub(super) fn deliver_body(&mut self) {
        self.todo.clear();
        self.sent.clear();
        self.todo.push(0..self.body.len());
        self.searching = false;
        self.bad_events = 0;
        self.piece = usize::MAX;
        self.indexes.clear();
        while let Some(range) = self.next_range() {
            let sent = self.send(&range);
            let receipt = sent
                .as_ref()
                .and_then(|(_, words, at)| Some((*at, words.ack?)));
            match sent.map(|(action, words, _)| (action, words)) {
                Some((Action::Event(index), words)) => {
                    let bad = range.start + index;
                    self.taken(range.start..bad, receipt);
                    self.refuse(bad..bad + 1, RefuseReason::InvalidEvent, words);
                    self.push(bad + 1..range.end);
                    self.bad_events += 1;
                    if self.bad_events > BAD_EVENTS_FREE {
                        self.piece = (range.len() / 2).max(1);
                    }
                }
                Some((Action::Index(index), words)) => {
                    let bad = range.start + index;
                    self.taken(range.start..bad, receipt);
                    self.blame_index(bad, range.end, words);
                }
                Some((Action::Halve, words)) if range.len() == 1 => {
                    self.refuse(range, RefuseReason::TooLarge, words);
                }
                Some((Action::Halve, _)) => self.push_around(range, None),
                Some((
                    Action::Search {
                        suspect,
                        wrong_index,
                        ..
                    },
                    words,
                )) => {
                    if wrong_index && self.has_one_index(&range) {
                        self.divert(range, words);
                    } else if range.len() == 1 {
                        self.refuse(range, RefuseReason::BadRequest, words);
                    } else {
                        self.push_around(range, suspect);
                    }
                }
                Some((Action::Hold(_) | Action::Retry { .. }, _)) => {
                    self.settle(range, Fate::RetryAfter(STRANGER_RETRY));
                }
                Some((Action::Taken { .. }, _)) => {
                    self.taken(range, receipt);
                    self.piece = self.piece.saturating_mul(2);
                }
                None => self.settle(range, Fate::RetryAfter(Duration::ZERO)),
            }
        }
        let refused = std::mem::take(&mut self.refused);
        self.shared.refuser.refuse(self.feed, refused);
    }

    /// What is sent next.
    fn next_range(&mut self) -> Option<Range<usize>> {
        loop {
            let range = self.todo.pop()?;
            let range = self.without_wrong_indexes(range);
            let end = range.start.saturating_add(self.piece).min(range.end);
            self.push(end..range.end);
            if range.start < end {
                return Some(range.start..end);
            }
        }
    }

    pub(super) fn push(&mut self, range: Range<usize>) {
        if !range.is_empty() {
            self.todo.push(range);
        }
    }

    /// Has a range sent again in parts: before, the suspect alone, and after; else in halves.
    fn push_around(&mut self, range: Range<usize>, suspect: Option<usize>) {
        let (from, to) = match suspect {
            Some(index) => (range.start + index, range.start + index + 1),
            None => (range.start + range.len() / 2, range.start + range.len() / 2),
        };
        self.push(to..range.end);
        self.push(from..to);
        self.push(range.start..from);
    }

    /// Sends the events until an answer says what to do about them, and which endpoint gave it;
    /// `None` if the process stops first.
    fn send(&mut self, range: &Range<usize>) -> Option<(Action, Words, usize)> {
        let (body, encoding) = self.packer.pack(self.body.slice(range));
        let (shared, mut failures) = (self.shared, 0);
        let taken_before = shared.taken.load(Relaxed);
        loop {
            if let Some(acks) = &shared.acks {
                acks.await_room(self.feed)?;
            }
            let place = shared.gate.enter(self.feed)?;
            let index = shared.pick(self.feed)?;
            let begun = Instant::now();
            shared.status.attempted();
            match self.sent.last_mut() {
                Some((last, times)) if last == range => *times += 1,
                _ => self.sent.push((range.clone(), 1)),
            }
            let answer = shared
                .client
                .post(&self.line, index, body.clone(), encoding)?;
            let last = place.last;
            drop(place);
            let answer = match answer {
                Err(error) => {
                    if error.reason == ErrorReason::Timeout {
                        shared.gate.busy(begun);
                    }
                    let wrong = (error.reason, error.text.as_str());
                    shared.failed(index, Failure::Passing, begun, wrong);
                    continue;
                }
                Ok(answer) => answer,
            };
            let after = answer.retry_after.as_deref();
            let judged = judge(answer.status, after, &answer.body, range.len());
            let busy = is_busy(answer.status, judged.1.code);
            if busy || answer.status == 503 {
                shared.gate.busy(begun);
            } else if matches!(judged.0, Action::Taken { .. }) {
                let bytes = self.body.slice(range).len();
                let wanted = last || self.body.is_half_full(range);
                shared.gate.taken(begun.elapsed(), bytes, wanted);
            }
            let sent = Sent {
                index,
                begun,
                status: answer.status,
                events: range.len(),
            };
            match shared.digest(&sent, &judged, body.len()) {
                Verdict::Final => return Some((judged.0, judged.1, index)),
                Verdict::PutBack => {
                    return Some((Action::Hold(ErrorReason::Http400), judged.1, index));
                }
                Verdict::Again if busy => {}
                Verdict::Again => {
                    failures += 1;
                    if self.is_stubborn(failures, taken_before) {
                        return Some((self.take_apart(range), judged.1, index));
                    }
                }
            }
        }
    }

    /// Whether it is the body that fails, not the endpoint. The parts of one that was taken apart
    /// have one chance each. A worker that is alone cannot know, and looks.
    fn is_stubborn(&self, failures: u32, taken_before: u64) -> bool {
        let others_taken = self.shared.taken.load(Relaxed) > taken_before;
        match self.searching {
            true => true,
            false => failures >= STUBBORN_FAILURES && (others_taken || self.alone),
        }
    }

    /// What to do with events that fail while others are taken. A single one is tried later.
    fn take_apart(&mut self, range: &Range<usize>) -> Action {
        self.searching = true;
        match range.len() {
            1 => Action::Hold(ErrorReason::Http5xx),
            _ => Action::Halve,
        }
    }

    /// Settles events that a collector took, or has them wait for its confirmation.
    fn taken(&self, range: Range<usize>, receipt: Option<(usize, u64)>) {
        if range.is_empty() {
            return;
        }
        match (&self.shared.acks, receipt) {
            (Some(acks), Some((endpoint, id))) => {
                let parts = self.body.parts(&range);
                let events = parts.map(|(part, events)| (part.position, events));
                acks.add(endpoint, id, events.collect(), self.feed);
            }
            (Some(_), None) => {
                let text = "no ackId: the token is not set up for acknowledgement";
                self.shared.status.noted(ErrorReason::AckFailed, text);
                self.settle(range, Fate::Delivered);
            }
            (None, _) => self.settle(range, Fate::Delivered),
        }
    }

    fn settle(&self, range: Range<usize>, fate: Fate) {
        for (part, events) in self.body.parts(&range) {
            self.feed.settle(part.position, events, fate.clone());
        }
    }

    pub(super) fn refuse(&mut self, range: Range<usize>, reason: RefuseReason, words: Words) {
        let sent_in = |(sent, times): &(Range<usize>, u32)| {
            let whole = sent.start <= range.start && range.end <= sent.end;
            whole.then_some(*times)
        };
        let attempts = self.sent.iter().filter_map(sent_in).sum();
        let refusal = Refusal {
            reason,
            code: words.code,
            text: words.text,
        };
        for (part, events) in self.body.parts(&range) {
            self.refused.push(Refused {
                position: part.position,
                batch: Arc::clone(&part.batch),
                events,
                refusal: refusal.clone(),
                attempts,
            });
        }
    }
}

/// A request that was answered.
struct Sent {
    /// Which endpoint.
    index: usize,
    begun: Instant,
    status: u16,
    events: usize,
}

impl Shared {
    /// The connections of one more worker, if there can be one.
    fn line(&self) -> Option<Line> {
        let failed = |error: &std::io::Error| {
            let destination = self.status.name();
            tracing::warn!(destination, %error, "there can be no more requests in flight");
        };
        self.client.line().inspect_err(failed).ok()
    }

    fn endpoints(&self) -> std::sync::MutexGuard<'_, Endpoints> {
        self.endpoints
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for an endpoint; `None` if the process stops.
    fn pick(&self, feed: &dyn Feed) -> Option<usize> {
        loop {
            let pick = self.endpoints().pick(Instant::now());
            match pick {
                _ if feed.stopping() => return None,
                Pick::Use(index) => return Some(index),
                // Another worker may find out sooner that an endpoint is back.
                Pick::Wait(pause) => backoff::wait(feed, pause.min(IDLE_WAIT)),
            }
        }
    }

    /// Takes note of what an answer says about its endpoint, and of `bytes` if they were taken.
    fn digest(&self, sent: &Sent, judged: &(Action, Words), bytes: usize) -> Verdict {
        let (action, words) = judged;
        self.status.timed(sent.begun.elapsed());
        let text = || {
            let (name, status) = (self.client.name(sent.index), sent.status);
            format!("{name}: {status}, code {}: {}", words.code, words.text)
        };
        match action {
            Action::Taken { rubbish } => {
                self.stranger_refusals_left
                    .store(STRANGER_REFUSALS_MAX, Relaxed);
                self.taken.fetch_add(1, Relaxed);
                self.status.succeeded(bytes);
                if *rubbish {
                    self.status.noted(ErrorReason::BadAnswer, &text());
                }
            }
            Action::Retry { reason, after } => {
                let failure = after.map_or(Failure::Passing, Failure::AskedToWait);
                self.failed(sent.index, failure, sent.begun, (*reason, &text()));
                return Verdict::Again;
            }
            Action::Hold(reason) => {
                self.failed(sent.index, Failure::Lasting, sent.begun, (*reason, &text()));
                return Verdict::Again;
            }
            Action::Search { vouched: false, .. }
                if sent.events == 1 && !self.believe_stranger() =>
            {
                let wrong = (ErrorReason::Http400, &*text());
                self.failed(sent.index, Failure::Lasting, sent.begun, wrong);
                return Verdict::PutBack;
            }
            Action::Halve => self.status.noted(ErrorReason::Http413, &text()),
            Action::Event(_) | Action::Index(_) | Action::Search { .. } => {
                self.status.noted(ErrorReason::Http400, &text());
            }
        }
        self.endpoints().succeeded(sent.index);
        Verdict::Final
    }

    fn believe_stranger(&self) -> bool {
        let take_one = |left: u32| left.checked_sub(1);
        self.stranger_refusals_left
            .fetch_update(Relaxed, Relaxed, take_one)
            .is_ok()
    }

    fn failed(&self, index: usize, failure: Failure, begun: Instant, wrong: (ErrorReason, &str)) {
        self.endpoints()
            .failed(index, failure, begun, Instant::now());
        self.gate.failed();
        self.status.failed(wrong.0, wrong.1);
    }
}
