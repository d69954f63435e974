//! A connection that sends to an HTTP Event Collector: one request at a time, and exact account of
//! answers.
//!
//! A message is *acknowledged* when its request was answered 200, whatever the code. One that is
//! answered 429 or 5xx is sent again after [`RESEND`]. With `--reconnect`, a connection that breaks
//! is made again and the request sent again; without, the lane ends.
//!
//! # The end
//! Answers are waited for within `--drain-timeout`.

use std::io::{self, ErrorKind, Write as _};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use nix::poll::PollFlags;

use crate::acked::AnswerTally;
use crate::clock::MessageClock;
use crate::dial::Dialer;
use crate::drive::{PushedCounts, SendLane, poll_writable};
use crate::fault::Faults;
use crate::message::Tape;
use crate::run::SenderTally;
use crate::stream::StreamLink;

/// Pause before a request is sent again, or a connection made again.
const RESEND: Duration = Duration::from_millis(50);

/// A request that is not full is sent after so long, as collectors do.
const LINGER: Duration = Duration::from_secs(1);

/// Bytes of answers read at once.
const READ_BYTES: usize = 16 * 1024;

/// Fields of an answer at most.
const FIELDS_MAX: usize = 64;

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
    /// True if a lane connects again after a loss.
    pub(crate) reconnect: bool,
    /// Longest wait for the last answers.
    pub(crate) drain: Duration,
}

impl HecPlan {
    /// The head of requests, up to the number of bytes of the body.
    fn head(&self, authority: &str) -> Vec<u8> {
        let path = match self.raw {
            true => "raw",
            false => "event",
        };
        let coding = match self.gzip {
            true => "Content-Encoding: gzip\r\n",
            false => "",
        };
        format!(
            "POST /services/collector/{path} HTTP/1.1\r\nHost: {authority}\r\n\
             Authorization: Splunk {}\r\nUser-Agent: inrush-load\r\n{coding}Content-Length: ",
            self.token
        )
        .into_bytes()
    }
}

/// Event that a lane waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LaneWait {
    Nothing,
    /// Room in the kernel.
    Room,
    /// The answer.
    Answer,
    /// The time to send again.
    Again(Instant),
}

/// One sending connection.
pub(crate) struct HecLane<'a> {
    dialer: &'a Dialer,
    plan: &'a HecPlan,
    link: Option<StreamLink>,
    head: Vec<u8>,
    id: u64,
    quota: u64,
    begun: u64,
    /// Messages of which the kernel has taken every byte.
    written: u64,
    bytes: u64,
    /// Body of the next request, its messages, and since when the first waits.
    body: Vec<u8>,
    gathered: u64,
    since: Instant,
    /// The request on its way: bytes, first message, messages.
    request: Vec<u8>,
    first: u64,
    count: u64,
    taken: usize,
    input: Vec<u8>,
    wait: LaneWait,
    failed: bool,
    tally: AnswerTally,
    faults: Faults,
}

impl<'a> HecLane<'a> {
    /// Sends up to `quota` messages over an established link.
    pub(crate) fn new(
        dialer: &'a Dialer,
        plan: &'a HecPlan,
        link: StreamLink,
        id: u64,
        quota: u64,
    ) -> Self {
        Self {
            head: plan.head(&dialer.authority()),
            dialer,
            plan,
            link: Some(link),
            id,
            quota,
            begun: 0,
            written: 0,
            bytes: 0,
            body: Vec::new(),
            gathered: 0,
            since: Instant::now(),
            request: Vec::new(),
            first: 0,
            count: 0,
            taken: 0,
            input: Vec::new(),
            wait: LaneWait::Nothing,
            failed: false,
            tally: AnswerTally::default(),
            faults: Faults::default(),
        }
    }

    fn fail(&mut self, error: &io::Error) {
        self.failed = true;
        let (id, acked) = (self.id, self.tally.acked.count());
        let hint = format!("connection {id} ended after {acked} messages were answered");
        self.faults.io(error, &hint);
    }

    fn lost(&mut self, error: &io::Error) {
        self.link = None;
        self.input.clear();
        match self.plan.reconnect {
            true => self.send_again(),
            false => self.fail(error),
        }
    }

    /// Has the request sent from its start, after a moment.
    fn send_again(&mut self) {
        self.wait = LaneWait::Again(Instant::now() + RESEND);
        self.taken = 0;
        self.tally.resent += self.count;
    }

    fn redial(&mut self) {
        match self.dialer.stream() {
            Ok(link) => {
                self.tally.reconnects += 1;
                self.link = Some(link);
                self.wait = LaneWait::Nothing;
            }
            Err(_) => self.wait = LaneWait::Again(Instant::now() + RESEND),
        }
    }

    /// Gathers messages for the next request; how many.
    fn gather(&mut self, tape: &mut Tape, want: u64, clock: &mut MessageClock) -> u64 {
        let room = self.plan.per_request - self.gathered;
        let want = want.min(self.quota - self.begun).min(room);
        if want == 0 {
            return 0;
        }
        if self.gathered == 0 {
            self.since = Instant::now();
        }
        clock.tick();
        let slots = tape.load(want, self.id, self.begun, clock);
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
        self.begun += messages;
        self.gathered += messages;
        messages
    }

    /// Makes a request of what was gathered, if it is full or was gathered for long enough.
    fn begin(&mut self, at_once: bool) -> io::Result<()> {
        let full = self.gathered == self.plan.per_request || self.begun == self.quota;
        let due = at_once || full || self.since.elapsed() >= LINGER;
        if self.count > 0 || self.gathered == 0 || !due {
            return Ok(());
        }
        let packed;
        let body = match self.plan.gzip {
            false => &self.body,
            true => {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(&self.body)?;
                packed = encoder.finish()?;
                &packed
            }
        };
        self.request.clear();
        self.request.extend_from_slice(&self.head);
        write!(self.request, "{}\r\n\r\n", body.len())?;
        self.request.extend_from_slice(body);
        (self.first, self.count) = (self.begun - self.gathered, self.gathered);
        (self.gathered, self.taken) = (0, 0);
        self.body.clear();
        Ok(())
    }

    /// Writes the request, as far as the kernel takes it.
    fn write(&mut self) -> io::Result<u64> {
        let Some(link) = &mut self.link else {
            return Ok(0);
        };
        if self.count == 0 {
            return Ok(0);
        }
        let mut total = 0;
        while self.taken < self.request.len() || !link.flushed() {
            match link.send(&[], &self.request[self.taken..]) {
                Ok((taken, blocked)) => {
                    self.taken += taken;
                    total += taken as u64;
                    if blocked {
                        self.wait = LaneWait::Room;
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.wait = LaneWait::Room;
                    break;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.bytes += total;
        if self.taken == self.request.len() && link.flushed() {
            self.written = self.written.max(self.first + self.count);
            self.wait = LaneWait::Answer;
        }
        Ok(total)
    }

    /// Reads and takes in what has come.
    fn receive(&mut self) -> io::Result<()> {
        while let Some(link) = &mut self.link {
            let kept = self.input.len();
            self.input.resize(kept + READ_BYTES, 0);
            let read = link.receive(&mut self.input[kept..]);
            let n = *read.as_ref().unwrap_or(&0);
            self.input.truncate(kept + n);
            match read {
                Ok(0) => return Err(ErrorKind::BrokenPipe.into()),
                Ok(_) => self.take_answer()?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn take_answer(&mut self) -> io::Result<()> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut response = httparse::Response::new(&mut fields);
        let foreign = || io::Error::new(ErrorKind::InvalidInput, "the answer is no HTTP");
        let parsed = response.parse(&self.input).map_err(|_| foreign())?;
        let httparse::Status::Complete(head) = parsed else {
            return Ok(());
        };
        let status = response.code.unwrap_or_default();
        let field = |name: &str| {
            let mut fields = response.headers.iter();
            fields.find(|field| field.name.eq_ignore_ascii_case(name))
        };
        let length = field("content-length")
            .and_then(|field| str::from_utf8(field.value).ok()?.parse::<usize>().ok())
            .unwrap_or_default();
        let closes = field("connection").is_some_and(|field| field.value == b"close");
        if self.input.len() < head + length {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&self.input[head..head + length]).into_owned();
        self.input.drain(..head + length);
        self.answered(status, &text);
        if closes {
            self.link = None;
            self.redial();
        }
        Ok(())
    }

    fn answered(&mut self, status: u16, text: &str) {
        if self.count == 0 {
            self.faults.add("stray_answer", format!("{status} {text}"));
            return;
        }
        match status {
            200 => {
                let messages = self.first..self.first + self.count;
                messages.for_each(|seq| self.tally.acked.add(seq));
            }
            429 | 500.. => {
                self.tally.busy += 1;
                return self.send_again();
            }
            _ => {
                self.tally.refused += self.count;
                self.faults
                    .add("refused_request", format!("{status} {text}"));
            }
        }
        self.count = 0;
        self.wait = LaneWait::Nothing;
    }

    fn turn(
        &mut self,
        tape: &mut Tape,
        want: u64,
        clock: &mut MessageClock,
    ) -> io::Result<PushedCounts> {
        self.receive()?;
        if matches!(self.wait, LaneWait::Again(_)) {
            return Ok(PushedCounts::default());
        }
        let messages = self.gather(tape, want, clock);
        self.begin(false)?;
        let bytes = match self.wait {
            LaneWait::Nothing | LaneWait::Room => self.write()?,
            LaneWait::Answer | LaneWait::Again(_) => 0,
        };
        Ok(PushedCounts { messages, bytes })
    }

    /// True if answers are missing that may still come.
    fn unfinished(&self) -> bool {
        !self.failed && (self.count > 0 || self.gathered > 0)
    }

    fn into_tally(mut self) -> SenderTally {
        if self.unfinished() {
            self.failed = true;
            let words = "the receiver did not answer in time";
            self.faults.add("unanswered", words);
        }
        SenderTally {
            id: self.id,
            sent: self.written,
            attempted: self.begun,
            bytes: self.bytes,
            failed: self.failed,
            faults: self.faults,
            answers: Some(self.tally),
        }
    }
}

impl SendLane for HecLane<'_> {
    fn quota(&self) -> u64 {
        self.quota
    }

    fn open(&self) -> bool {
        !self.failed && self.begun < self.quota
    }

    fn blocked(&self) -> bool {
        match self.wait {
            LaneWait::Nothing => false,
            LaneWait::Room => true,
            // The next request can be gathered meanwhile.
            LaneWait::Answer => self.gathered == self.plan.per_request || self.begun == self.quota,
            LaneWait::Again(at) => Instant::now() < at,
        }
    }

    fn unblock(&mut self) {
        if self.wait == LaneWait::Room {
            self.wait = LaneWait::Nothing;
        }
        if self.wait == LaneWait::Answer
            && let Err(error) = self.receive()
        {
            self.lost(&error);
        }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.link.as_ref().map(StreamLink::fd)
    }

    fn interest(&self) -> PollFlags {
        match self.wait {
            LaneWait::Room => PollFlags::POLLIN | PollFlags::POLLOUT,
            _ => PollFlags::POLLIN,
        }
    }

    fn push(&mut self, tape: &mut Tape, want: u64, clock: &mut MessageClock) -> PushedCounts {
        if self.link.is_none() {
            self.redial();
        }
        if self.link.is_none() || self.failed {
            return PushedCounts::default();
        }
        if let LaneWait::Again(at) = self.wait
            && Instant::now() >= at
        {
            self.wait = LaneWait::Nothing;
        }
        self.turn(tape, want, clock).unwrap_or_else(|error| {
            self.lost(&error);
            PushedCounts::default()
        })
    }
}

/// Sends what was gathered, and waits for the last answers.
pub(crate) fn settle(lanes: &mut [HecLane<'_>], tape: &mut Tape, clock: &mut MessageClock) {
    let Some(drain) = lanes.first().map(|lane| lane.plan.drain) else {
        return;
    };
    let deadline = Instant::now() + drain;
    for lane in lanes.iter_mut() {
        lane.quota = lane.begun;
    }
    while lanes.iter().any(HecLane::unfinished) && Instant::now() < deadline {
        for lane in lanes.iter_mut().filter(|lane| lane.unfinished()) {
            if !lane.blocked() {
                lane.push(tape, 0, clock);
            }
        }
        if lanes
            .iter()
            .all(|lane| !lane.unfinished() || lane.blocked())
        {
            poll_writable(lanes, 20);
        }
    }
}

/// The account of all lanes.
pub(crate) fn finish(lanes: Vec<HecLane<'_>>) -> Vec<SenderTally> {
    lanes.into_iter().map(HecLane::into_tally).collect()
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
