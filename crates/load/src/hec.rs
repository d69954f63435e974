//! A connection that sends to an HTTP Event Collector: one request at a time, and exact account of
//! answers.
//!
//! # What it guarantees
//! * A message is *answered* when its request was answered 200, whatever the code. A request that
//!   is answered 429 or 5xx is sent again after [`PAUSE`].
//! * Without `--ack`, a message is *acknowledged* when it is answered. With `--ack`, the lane has a
//!   channel, and a message is acknowledged when a poll gives `true` for its `ackId`.
//! * A poll follows each answer, and then one every [`POLL_STEP`] while numbers are false.
//!
//! # Limits
//! [`UNACKNOWLEDGED_MAX`] answered requests wait for their acknowledgement; then the lane sends no
//! more. A number that stays false is never sent again: it is reported. A collector gives `true`
//! once only, so the numbers of a poll whose answer is lost with the connection stay false.

use std::io::{self, ErrorKind, Write as _};
use std::time::{Duration, Instant};

use libdeflater::{CompressionLvl, Compressor};
use serde_json::Value;

use crate::answered::{AnsweredLane, LaneDialect, LaneSession, LaneWait, PAUSE};
use crate::clock::MessageClock;
use crate::drive::PushedCounts;
use crate::message::Tape;

/// A request that is not full is sent after so long, as collectors do.
const LINGER: Duration = Duration::from_secs(1);

/// Pause between two polls for the same numbers.
const POLL_STEP: Duration = Duration::from_millis(50);

/// Answered requests of a lane that are not acknowledged, at most.
const UNACKNOWLEDGED_MAX: usize = 1000;

/// Fields of an answer at most.
const FIELDS_MAX: usize = 64;

/// Bytes of an answer at most: far more than a poll for [`UNACKNOWLEDGED_MAX`] numbers has.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// Behaviour of the lanes of a run.
#[derive(Clone, Debug)]
pub(crate) struct HecPlan {
    /// Token that requests carry.
    pub(crate) token: String,
    /// Messages of a request.
    pub(crate) per_request: u64,
    /// True if bodies are compressed.
    pub(crate) gzip: bool,
    /// True if messages go to the raw endpoint, a line each.
    pub(crate) raw: bool,
    /// True if acknowledgements are polled for.
    pub(crate) ack: bool,
    /// True if a lane connects again after a loss.
    pub(crate) reconnect: bool,
    /// Longest wait for the last answers.
    pub(crate) drain: Duration,
}

impl HecPlan {
    /// The head of requests to `path`, up to the number of bytes of the body.
    fn head(&self, path: &str, authority: &str, more: &str) -> Vec<u8> {
        format!(
            "POST /services/collector/{path} HTTP/1.1\r\nHost: {authority}\r\n\
             Authorization: Splunk {}\r\nUser-Agent: inrush-load\r\n{more}Content-Length: ",
            self.token
        )
        .into_bytes()
    }
}

/// One sending connection.
pub(crate) type HecLane<'a> = AnsweredLane<'a, HecDialect<'a>>;

/// Request that is being sent or waits for its answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HecExchange {
    Nothing,
    Events,
    Poll,
}

/// An answered request: the number of its acknowledgement, first message, messages.
struct UnacknowledgedRequest {
    id: u64,
    first: u64,
    count: u64,
}

/// Requests of one lane.
pub(crate) struct HecDialect<'a> {
    plan: &'a HecPlan,
    events_head: Vec<u8>,
    poll_head: Vec<u8>,
    gzip: Option<Compressor>,
    /// Body of the next request, its messages, and since when the first waits.
    body: Vec<u8>,
    /// Body of the last request, compressed.
    packed: Vec<u8>,
    gathered: u64,
    since: Instant,
    /// Content of the session's `out`; for events, their first message and their number.
    exchange: HecExchange,
    first: u64,
    count: u64,
    /// Time at which its first byte was written, if any was.
    begun: Option<Instant>,
    unacknowledged: Vec<UnacknowledgedRequest>,
    /// True if a request was answered since the last poll, which was at `polled`.
    poll_due: bool,
    polled: Instant,
}

impl<'a> HecDialect<'a> {
    /// Requests to the collector at `authority`.
    pub(crate) fn new(plan: &'a HecPlan, authority: &str) -> Self {
        let path = match plan.raw {
            true => "raw",
            false => "event",
        };
        let coding = match plan.gzip {
            true => "Content-Encoding: gzip\r\n",
            false => "",
        };
        let channel = match plan.ack {
            true => format!("X-Splunk-Request-Channel: {}\r\n", channel()),
            false => String::new(),
        };
        // The least that compresses: the library's own fastest is 0.
        let level = CompressionLvl::new(1).unwrap_or_default();
        Self {
            plan,
            events_head: plan.head(path, authority, &format!("{coding}{channel}")),
            poll_head: plan.head("ack", authority, &channel),
            gzip: plan.gzip.then(|| Compressor::new(level)),
            body: Vec::new(),
            packed: Vec::new(),
            gathered: 0,
            since: Instant::now(),
            exchange: HecExchange::Nothing,
            first: 0,
            count: 0,
            begun: None,
            unacknowledged: Vec::new(),
            poll_due: false,
            polled: Instant::now(),
        }
    }

    /// True if no message can be gathered before a request is sent.
    fn full(&self, session: &LaneSession<'_>) -> bool {
        self.gathered == self.plan.per_request || session.begun == session.quota
    }

    /// Gathers messages for the next request; how many.
    fn gather(
        &mut self,
        session: &mut LaneSession<'_>,
        tape: &mut Tape,
        want: u64,
        clock: &mut MessageClock,
    ) -> u64 {
        let room = self.plan.per_request - self.gathered;
        let want = want.min(session.quota - session.begun).min(room);
        if want == 0 {
            return 0;
        }
        if self.gathered == 0 {
            self.since = Instant::now();
        }
        clock.tick();
        let slots = tape.load(want, session.id, session.begun, clock);
        let messages = slots.len() as u64;
        for slot in slots {
            let message = tape.bytes(&(slot..slot + 1));
            if self.plan.raw {
                self.body.extend_from_slice(message);
                self.body.push(b'\n');
            } else {
                self.body.extend_from_slice(b"{\"event\":\"");
                push_escaped(message, &mut self.body);
                self.body.extend_from_slice(b"\"}");
            }
        }
        tape.advance(messages as usize);
        session.begun += messages;
        self.gathered += messages;
        messages
    }

    /// Makes the next request, if one is due.
    fn next(&mut self, session: &mut LaneSession<'_>) -> io::Result<()> {
        if self.exchange != HecExchange::Nothing {
            return Ok(());
        }
        if !self.unacknowledged.is_empty() && (self.poll_due || self.polled.elapsed() >= POLL_STEP)
        {
            return self.poll(session);
        }
        let due = self.full(session) || self.since.elapsed() >= LINGER;
        if self.gathered > 0 && due && self.unacknowledged.len() < UNACKNOWLEDGED_MAX {
            return self.send_gathered(session);
        }
        // Nothing can be done before the next poll.
        if !self.unacknowledged.is_empty() && self.full(session) {
            session.wait = LaneWait::Until(self.polled + POLL_STEP);
        }
        Ok(())
    }

    fn send_gathered(&mut self, session: &mut LaneSession<'_>) -> io::Result<()> {
        let body = match &mut self.gzip {
            None => &self.body[..],
            Some(gzip) => {
                let bound = gzip.gzip_compress_bound(self.body.len());
                self.packed.resize(bound, 0);
                let packed = gzip.gzip_compress(&self.body, &mut self.packed);
                let length = packed.map_err(io::Error::other)?;
                &self.packed[..length]
            }
        };
        put_request(session, &self.events_head, body)?;
        self.exchange = HecExchange::Events;
        (self.first, self.count) = (session.begun - self.gathered, self.gathered);
        self.gathered = 0;
        self.body.clear();
        Ok(())
    }

    fn poll(&mut self, session: &mut LaneSession<'_>) -> io::Result<()> {
        let ids: Vec<u64> = self.unacknowledged.iter().map(|one| one.id).collect();
        let body = serde_json::json!({ "acks": ids }).to_string();
        put_request(session, &self.poll_head, body.as_bytes())?;
        self.exchange = HecExchange::Poll;
        self.poll_due = false;
        self.polled = Instant::now();
        session.tally.polls += 1;
        Ok(())
    }

    fn answered(&mut self, session: &mut LaneSession<'_>, status: u16, body: &[u8]) {
        let said = || format!("{status} {}", String::from_utf8_lossy(body));
        let exchange = self.exchange;
        let busy = matches!(status, 429 | 500..);
        if let (HecExchange::Events, Some(begun)) = (exchange, self.begun.take()) {
            session.tally.note_request(begun.elapsed());
        }
        session.wait = LaneWait::Nothing;
        self.exchange = HecExchange::Nothing;
        match (exchange, status) {
            (HecExchange::Nothing, _) => session.faults.add("stray_answer", said()),
            (HecExchange::Events, 200) => {
                session.tally.answered += self.count;
                match self.plan.ack {
                    false => acknowledge(session, self.first, self.count),
                    true => self.owed(session, body),
                }
            }
            (HecExchange::Events, _) if busy => {
                session.tally.busy += 1;
                session.tally.resent += self.count;
                self.exchange = exchange;
                session.taken = 0;
                session.wait = LaneWait::Until(Instant::now() + PAUSE);
            }
            (HecExchange::Events, _) => {
                session.tally.refused += self.count;
                session.faults.add("refused_request", said());
            }
            (HecExchange::Poll, 200) => self.acknowledged(session, body),
            // The next poll asks for the same.
            (HecExchange::Poll, _) if busy => session.tally.busy += 1,
            (HecExchange::Poll, _) => {
                session.failed = true;
                session.faults.add("refused_poll", said());
            }
        }
    }

    /// Notes the `ackId` of a request that was answered 200.
    fn owed(&mut self, session: &mut LaneSession<'_>, body: &[u8]) {
        let answer: Value = serde_json::from_slice(body).unwrap_or_default();
        let Some(id) = answer.get("ackId").and_then(Value::as_u64) else {
            session.failed = true;
            let words = "the answer has no ackId: the token of the collector needs `ack`";
            session.faults.add("no_ack_id", words);
            return;
        };
        let (first, count) = (self.first, self.count);
        self.unacknowledged
            .push(UnacknowledgedRequest { id, first, count });
        self.poll_due = true;
    }

    /// Takes in the answer to a poll: `{"acks":{"0":true,"1":false}}`.
    fn acknowledged(&mut self, session: &mut LaneSession<'_>, body: &[u8]) {
        let answer: Value = serde_json::from_slice(body).unwrap_or_default();
        let Some(acks) = answer.get("acks").and_then(Value::as_object) else {
            let words = format!("no `acks` in {}", String::from_utf8_lossy(body));
            session.failed = true;
            session.faults.add("refused_poll", words);
            return;
        };
        self.unacknowledged.retain(|request| {
            let safe = acks.get(&request.id.to_string()) == Some(&Value::Bool(true));
            if safe {
                acknowledge(session, request.first, request.count);
            }
            !safe
        });
    }
}

impl LaneDialect for HecDialect<'_> {
    fn begin(&mut self, session: &mut LaneSession<'_>) {
        session.taken = 0;
        self.begun = None;
        if self.exchange == HecExchange::Poll {
            self.exchange = HecExchange::Nothing;
        }
    }

    fn lost(&mut self, session: &mut LaneSession<'_>) {
        if self.exchange == HecExchange::Events {
            session.tally.resent += self.count;
        }
    }

    fn take_answers(&mut self, session: &mut LaneSession<'_>) -> io::Result<()> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut response = httparse::Response::new(&mut fields);
        let foreign = |words| io::Error::new(ErrorKind::InvalidInput, words);
        let parsed = response
            .parse(&session.input)
            .map_err(|_| foreign("the answer is no HTTP"))?;
        let long = session.input.len() > ANSWER_BYTES_MAX;
        let httparse::Status::Complete(head) = parsed else {
            return if long {
                Err(foreign("the head of an answer has no end"))
            } else {
                Ok(())
            };
        };
        let status = response.code.unwrap_or_default();
        let field = |name: &str| {
            let mut fields = response.headers.iter();
            fields.find(|field| field.name.eq_ignore_ascii_case(name))
        };
        let length = field("content-length")
            .and_then(|field| str::from_utf8(field.value).ok()?.parse::<usize>().ok())
            .unwrap_or_default();
        if length > ANSWER_BYTES_MAX {
            return Err(foreign("the answer is longer than any of a collector"));
        }
        let closes = field("connection").is_some_and(|field| {
            let mut words = field.value.split(|byte| *byte == b',');
            words.any(|word| word.trim_ascii().eq_ignore_ascii_case(b"close"))
        });
        if session.input.len() < head + length {
            return Ok(());
        }
        let body = session.input[head..head + length].to_vec();
        session.input.drain(..head + length);
        self.answered(session, status, &body);
        if closes {
            session.hang_up();
        }
        Ok(())
    }

    fn turn(
        &mut self,
        session: &mut LaneSession<'_>,
        tape: &mut Tape,
        want: u64,
        clock: &mut MessageClock,
    ) -> io::Result<PushedCounts> {
        if session.failed || matches!(session.wait, LaneWait::Until(_)) {
            return Ok(PushedCounts::default());
        }
        let messages = self.gather(session, tape, want, clock);
        self.next(session)?;
        let sends = matches!(session.wait, LaneWait::Nothing | LaneWait::Room);
        if self.exchange == HecExchange::Nothing || !sends {
            return Ok(PushedCounts { messages, bytes: 0 });
        }
        self.begun.get_or_insert_with(Instant::now);
        let (bytes, whole) = session.write()?;
        if whole {
            session.wait = LaneWait::Answers;
            if self.exchange == HecExchange::Events {
                session.written = session.written.max(self.first + self.count);
            }
        }
        Ok(PushedCounts { messages, bytes })
    }

    /// The next request can be gathered while an answer is awaited.
    fn idle(&self, session: &LaneSession<'_>) -> bool {
        self.full(session)
    }

    fn unanswered(&self) -> Option<(&'static str, &'static str)> {
        if self.exchange == HecExchange::Events || self.gathered > 0 {
            return Some(("unanswered", "the receiver did not answer in time"));
        }
        let waits = !self.unacknowledged.is_empty();
        waits.then_some((
            "unacknowledged",
            "the receiver did not acknowledge all requests in time",
        ))
    }
}

/// Puts a request into `out`.
fn put_request(session: &mut LaneSession<'_>, head: &[u8], body: &[u8]) -> io::Result<()> {
    session.out.clear();
    session.taken = 0;
    session.out.extend_from_slice(head);
    write!(session.out, "{}\r\n\r\n", body.len())?;
    session.out.extend_from_slice(body);
    Ok(())
}

fn acknowledge(session: &mut LaneSession<'_>, first: u64, count: u64) {
    (first..first + count).for_each(|seq| session.tally.acked.add(seq));
}

/// A GUID for the channel of a lane (RFC 9562 section 5.4, version 4).
fn channel() -> String {
    let random = fastrand::u128(..);
    let id = random & !(0xf << 76) & !(0b11 << 62) | 0x4 << 76 | 0b10 << 62;
    let digits = format!("{id:032x}");
    let part = |from: usize, to: usize| &digits[from..to];
    let (a, b, c) = (part(0, 8), part(8, 12), part(12, 16));
    let (d, e) = (part(16, 20), part(20, 32));
    format!("{a}-{b}-{c}-{d}-{e}")
}

/// Appends the text of a JSON string.
fn push_escaped(text: &[u8], out: &mut Vec<u8>) {
    let special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..=0x1f);
    let mut rest = text;
    while let Some(at) = rest.iter().position(special) {
        out.extend_from_slice(&rest[..at]);
        match rest[at] {
            quoted @ (b'"' | b'\\') => out.extend_from_slice(&[b'\\', quoted]),
            // Writing to a vector does not fail.
            control => drop(write!(out, "\\u{control:04x}")),
        }
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}
