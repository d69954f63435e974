//! Delivery workers of the `splunk_hec` destination: fill a body, send it, settle its events.
//!
//! # What it guarantees
//! Each event is settled once, here or in `ack`; a stop puts unanswered ones back. A success
//! without the `ackId` that `acknowledgements` needs counts as delivery, and the status notes it.
//!
//! # Limits
//! `STUBBORN_FAILURES` and `BAD_EVENTS_FREE` are the thresholds for splitting a body,
//! `FRUITLESS_MAX` for holding it. `STOP_GRACE` and `ACK_GRACE` bound the waits of a stop.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use inrush_codec::encode::{HecEncoder, HecOptions};
use inrush_event::{Fate, Feed, RefuseReason};

use super::ack::Acks;
use super::answer::{Action, AnswerDetail, RawAnswer, is_busy, judge};
use super::brake::QuarantineBrake;
use super::client::HecClient;
use super::config::SplunkHecConfig;
use super::context::{
    HecContext, HoldReason, JudgedAnswer, Receipt, ResendDecision, STOP_POLL, SentRequest,
};
use super::desk::EncodeSlots;
use super::encode::RequestBody;
use super::index::{IndexFallback, Indexes, RejectedIndexes};
use crate::http::HttpCompression;
use crate::http::auto_compression::AutoCompression;
use crate::http::client::{Answer, SendError};
use crate::http::compression::{PackedBody, Packer};
use crate::http::connection::WorkerConnections;
use crate::http::endpoint::{EndpointFailure, Endpoints};
use crate::http::semaphore::RequestSemaphore;
use crate::quarantine::{EventRefusal, Quarantine, RefusedRecords, Refuser};
use crate::{ErrorReason, Sink, SinkError, SinkStatus};

/// Time in which requests under way may still be answered once the process stops.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// Time for which acknowledgements are still asked for then. Splunk confirms after little more than
/// a second.
const ACK_GRACE: Duration = Duration::from_secs(3);

/// Failures in a row after which a body is taken apart, if others were taken meanwhile: something
/// in it offends the collector or what stands before it.
const STUBBORN_FAILURES: u32 = 5;

/// Back-off of events that are not believed to be bad, and of a single event that alone fails:
/// others show meanwhile whether the address is right.
const HELD_RETRY: Duration = Duration::from_secs(5);

/// Answers about one body that may be of no use while everything is refused. What is tried of it is
/// drawn by lot, so that one good event among bad ones is found sooner or later.
const FRUITLESS_MAX: u32 = 100;

/// Bad events in one body after which the rest is sent in smaller pieces: else a body of nothing
/// but bad events would be sent as often as it has events.
const BAD_EVENTS_FREE: u32 = 8;

/// The sink that speaks HEC.
pub struct SplunkHec {
    config: SplunkHecConfig,
    shared: HecContext,
    /// Of the first worker.
    first_line: WorkerConnections,
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
        let acks = || Acks::new(config.ack_timeout.0, Arc::clone(&status));
        let client = HecClient::new(config)?;
        // The first one, so that it is known now whether there can be any.
        let mut first_line = client.line().map_err(SinkError::Unstartable)?;
        for endpoint in 0..config.endpoints.len() {
            let link = client.link(&mut first_line, endpoint, false);
            link.map_err(SinkError::Unstartable)?;
        }
        let shared = HecContext {
            client,
            desks: EncodeSlots::new(config),
            endpoints: Mutex::new(Endpoints::new(config.endpoints.len(), probe)),
            brake: QuarantineBrake::new(),
            unknown: RejectedIndexes::default(),
            unknown_index: config.unknown_index,
            success: config.success_bodies.clone(),
            taken: AtomicU64::new(0),
            gate: RequestSemaphore::new(config.workers, config.workers_max(), Arc::clone(&status)),
            acks: config.acknowledgements.then(acks),
            auto: (config.compression == HttpCompression::Auto).then(|| AutoCompression::new(name)),
            refuser,
            status,
        };
        Ok(Self {
            config: config.clone(),
            shared,
            first_line,
        })
    }
}

impl Sink for SplunkHec {
    fn run(self: Box<Self>, feed: Arc<dyn Feed>) {
        let Self {
            config,
            shared,
            first_line,
        } = *self;
        let (shared, feed) = (&shared, &*feed);
        std::thread::scope(|scope| {
            let (alive, workers_left) = channel::<()>();
            let (asking, asker_left) = channel::<()>();
            shared.ask_for_acks(scope, feed, asking);
            let (config, workers_max, mut workers) = (&config, config.workers_max(), 0);
            let mut line = Some(first_line);
            // More are started once there is work for them.
            let mut start_more = Some(move || {
                while workers < workers_max.min(shared.gate.workers()) {
                    let Some(line) = line.take().or_else(|| shared.line()) else {
                        workers = workers_max;
                        return;
                    };
                    let mut worker = HecWorker::new(config, line, shared, feed);
                    let (alive, number) = (alive.clone(), workers);
                    let name = shared.status.name();
                    let thread = std::thread::Builder::new().name(format!("to-{name}"));
                    let started = thread.spawn_scoped(scope, move || {
                        worker.run(number);
                        // Nobody waits for it any more if this fails.
                        let _ = alive.send(());
                    });
                    if let Err(error) = started {
                        return shared.no_thread(&error);
                    }
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
    /// Metadata of the envelope beside its event, on this host.
    pub fn envelope(&self) -> HecOptions {
        HecOptions {
            source: self.source.clone(),
            index: self.index.clone(),
            container: host_name(),
            indexed_fields: self.indexed_fields.clone(),
        }
    }
}

pub(super) struct HecWorker<'a> {
    pub(super) shared: &'a HecContext,
    pub(super) feed: &'a dyn Feed,
    line: WorkerConnections,
    packer: Packer<'a>,
    pub(super) body: RequestBody,
    /// Ranges of the body that are still to be sent, the first one last.
    todo: Vec<Range<usize>>,
    /// The body was taken apart because it alone failed.
    searching: bool,
    /// There is no other worker.
    alone: bool,
    /// Ranges of the body that were sent, and how often.
    sent: Vec<(Range<usize>, u32)>,
    /// Refused events of the body; they wait for the disk once.
    refused: Vec<RefusedRecords>,
    /// Bad events that the collector named in this body.
    bad_events: u32,
    /// Answers since something of the body was taken.
    fruitless: u32,
    /// Some of its events were refused, and not believed to be bad.
    held: Option<HoldReason>,
    /// Events of the body that are sent at once.
    piece: usize,
    pub(super) indexes: Indexes,
    pub(super) detour: Option<IndexFallback>,
}

impl<'a> HecWorker<'a> {
    fn new(
        config: &SplunkHecConfig,
        line: WorkerConnections,
        shared: &'a HecContext,
        feed: &'a dyn Feed,
    ) -> Self {
        let batch = &config.batch;
        let (bytes_max, events_max) = (batch.max_bytes.0 as usize, batch.max_events as usize);
        let detour = config.reroute_index.as_ref().map(|index| {
            let envelope = HecOptions {
                index: Some(index.clone()),
                ..config.envelope()
            };
            IndexFallback::new(index.clone(), HecEncoder::new(envelope))
        });
        Self {
            shared,
            feed,
            line,
            packer: Packer::new(config.compression, config.gzip_level, shared.auto.as_ref()),
            body: RequestBody::new(bytes_max, events_max, config),
            todo: Vec::new(),
            searching: false,
            alone: config.workers_max() == 1,
            sent: Vec::new(),
            refused: Vec::new(),
            bad_events: 0,
            fruitless: 0,
            held: None,
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
        self.fruitless = 0;
        self.held = None;
        self.piece = usize::MAX;
        self.recall_indexes();
        while let Some(range) = self.next_range() {
            match self.send(&range) {
                Some(outcome) => self.settle_by(range, outcome),
                None => self.settle(range, Fate::RetryAfter(Duration::ZERO)),
            }
            if self.held.is_some() && self.fruitless >= FRUITLESS_MAX {
                for range in std::mem::take(&mut self.todo) {
                    self.settle(range, Fate::RetryAfter(HELD_RETRY));
                }
            }
        }
        let refused = std::mem::take(&mut self.refused);
        self.shared.refuser.refuse(self.feed, refused);
        if let Some(held) = self.held.take() {
            self.shared.refuses_all(&held);
        }
    }

    /// Does with the events of a range what the answer says.
    fn settle_by(&mut self, range: Range<usize>, outcome: JudgedAnswer) {
        let JudgedAnswer {
            action,
            words,
            receipt,
            sent,
        } = outcome;
        self.fruitless += 1;
        match action {
            Action::Event(index) => {
                let bad = range.start + index;
                self.taken(range.start..bad, receipt);
                self.refuse(bad..bad + 1, RefuseReason::InvalidEvent, words, &sent);
                self.push_shuffled(bad + 1..range.end);
                self.bad_events += 1;
                if self.bad_events > BAD_EVENTS_FREE {
                    self.piece = (range.len() / 2).max(1);
                }
            }
            Action::Index(index) => {
                let bad = range.start + index;
                self.taken(range.start..bad, receipt);
                self.blame_index(bad, range.end, words, &sent);
            }
            Action::Halve if range.len() == 1 => {
                self.refuse(range, RefuseReason::TooLarge, words, &sent);
            }
            Action::Halve => self.push_around(range, None),
            Action::Search { wrong_index, .. } if wrong_index && self.has_one_index(&range) => {
                self.divert(range, words, &sent);
            }
            Action::Search { .. } if range.len() == 1 => {
                self.refuse(range, RefuseReason::BadRequest, words, &sent);
            }
            Action::Search { suspect, .. } => self.push_around(range, suspect),
            Action::Hold(_) | Action::Retry { .. } => {
                self.settle(range, Fate::RetryAfter(HELD_RETRY));
            }
            Action::Taken => {
                self.taken(range, receipt);
                self.piece = self.piece.saturating_mul(2);
            }
        }
    }

    /// Takes the range of events that is sent next.
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
        let mut parts = [to..range.end, from..to, range.start..from];
        if self.held.is_some() {
            fastrand::shuffle(&mut parts);
        }
        parts.into_iter().for_each(|part| self.push(part));
    }

    /// Has a range sent; from any of its events on first, while everything is refused.
    fn push_shuffled(&mut self, range: Range<usize>) {
        let middle = match self.held.is_some() && !range.is_empty() {
            true => fastrand::usize(range.clone()),
            false => range.start,
        };
        self.push(range.start..middle);
        self.push(middle..range.end);
    }

    /// Sends the events until an answer says what to do about them; `None` if the process stops
    /// first.
    fn send(&mut self, range: &Range<usize>) -> Option<JudgedAnswer> {
        let body = self.packer.pack(self.body.slice(range));
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
            let answer = self.attempt(index, &body, range.len())?;
            let last = place.last;
            drop(place);
            let (answer, (action, words), receipt) = match answer {
                Err(error) => {
                    if error.reason == ErrorReason::Timeout {
                        shared.gate.busy(begun);
                    }
                    let wrong = (error.reason, error.text.as_str());
                    shared.failed(index, EndpointFailure::Passing, begun, wrong);
                    self.line.renew(index);
                    continue;
                }
                Ok(answer) => answer,
            };
            let busy = is_busy(answer.status, words.code);
            if busy || answer.status == 503 {
                shared.gate.busy(begun);
            } else if action == Action::Taken {
                let bytes = self.body.slice(range).len();
                let wanted = last || self.body.is_half_full(range);
                self.packer.taken(&body, begun.elapsed());
                shared.gate.taken(begun.elapsed(), bytes, wanted);
            }
            let sent = SentRequest {
                index,
                begun,
                status: answer.status,
            };
            let mut outcome = JudgedAnswer {
                action,
                words,
                receipt,
                sent,
            };
            if shared.digest(&outcome, body.bytes.len()) == ResendDecision::Final {
                return Some(outcome);
            }
            self.line.renew(index);
            failures += u32::from(!busy);
            if !busy && self.is_stubborn(failures, taken_before) {
                outcome.action = self.take_apart(range);
                return Some(outcome);
            }
        }
    }

    /// Sends a body once; `None` if the process stops first.
    #[allow(clippy::type_complexity, reason = "its parts go different ways")]
    fn attempt(
        &mut self,
        endpoint: usize,
        body: &PackedBody,
        events: usize,
    ) -> Option<Result<(Answer, (Action, AnswerDetail), Receipt), SendError>> {
        let (shared, feed) = (self.shared, self.feed);
        let acks = shared.acks.as_ref();
        let renewable = acks.is_none_or(Acks::has_lanes);
        let link = match shared.client.link(&mut self.line, endpoint, renewable) {
            Ok(link) => link,
            Err(error) => {
                let (reason, text) = (ErrorReason::Io, format!("no connection: {error}"));
                return Some(Err(SendError { reason, text }));
            }
        };
        let _turn = link.take_turn();
        if let Some(acks) = acks {
            acks.ask_if_due(&shared.client, &link, feed)?;
        }
        let answer = match shared
            .client
            .post(&link, body.bytes.clone(), body.encoding)?
        {
            Ok(answer) => answer,
            Err(error) => return Some(Err(error)),
        };
        let moved = link.note(&answer);
        let heard = RawAnswer {
            status: answer.status,
            retry_after: answer.retry_after.as_deref(),
            content_type: answer.content_type.as_deref(),
            body: &answer.body,
            broken: answer.broken.as_deref(),
        };
        let judged = judge(heard, events, &shared.success);
        let receipt = match (acks, judged.1.ack) {
            (Some(acks), Some(id)) if acks.supersede(&link, id, feed) && moved => Receipt::Void,
            (Some(_), Some(id)) => Receipt::Id(Arc::clone(&link), id),
            _ => Receipt::None,
        };
        Some(Ok((answer, judged, receipt)))
    }

    /// True if it is the body that fails, not the endpoint. The parts of one that was taken apart
    /// have one chance each. A worker that is alone cannot know, and looks.
    fn is_stubborn(&self, failures: u32, taken_before: u64) -> bool {
        let others_taken = self.shared.taken.load(Relaxed) > taken_before;
        match self.searching {
            true => true,
            false => failures >= STUBBORN_FAILURES && (others_taken || self.alone),
        }
    }

    /// Action on events that fail while others are taken. A single one is tried later.
    fn take_apart(&mut self, range: &Range<usize>) -> Action {
        self.searching = true;
        match range.len() {
            1 => Action::Hold(ErrorReason::Http5xx),
            _ => Action::Halve,
        }
    }

    /// Settles events that a collector took, or has them wait for its confirmation.
    fn taken(&mut self, range: Range<usize>, receipt: Receipt) {
        if range.is_empty() {
            return;
        }
        self.fruitless = 0;
        self.held = None;
        self.shared.brake.taken();
        match (&self.shared.acks, receipt) {
            (Some(acks), Receipt::Id(link, id)) => {
                let parts = self.body.parts(&range);
                let events = parts.map(|(part, events)| (part.position, events));
                acks.add(&link, id, events.collect());
            }
            (Some(_), Receipt::Void) => self.settle(range, Fate::RetryAfter(Duration::ZERO)),
            (Some(_), Receipt::None) => {
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

    /// Refuses events as far as that is believed; the others are held.
    pub(super) fn refuse(
        &mut self,
        range: Range<usize>,
        reason: RefuseReason,
        words: AnswerDetail,
        sent: &SentRequest,
    ) {
        let vouched = words.hec && sent.status == 400;
        let believed = self.shared.brake.believe(range.len(), vouched);
        let range = match believed < range.len() {
            true => {
                let rest = range.start + believed..range.end;
                self.settle(rest, Fate::RetryAfter(HELD_RETRY));
                self.held = Some(self.shared.held(sent, &words));
                range.start..range.start + believed
            }
            false => range,
        };
        let sent_in = |(sent, times): &(Range<usize>, u32)| {
            let whole = sent.start <= range.start && range.end <= sent.end;
            whole.then_some(*times)
        };
        let attempts = self.sent.iter().filter_map(sent_in).sum();
        let refusal = EventRefusal {
            reason,
            code: words.code,
            text: words.text,
        };
        for (part, events) in self.body.parts(&range) {
            self.refused.push(RefusedRecords {
                position: part.position,
                batch: Arc::clone(&part.batch),
                events,
                refusal: refusal.clone(),
                attempts,
            });
        }
    }
}
