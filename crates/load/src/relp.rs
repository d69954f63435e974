//! A RELP connection that sends: a window of unanswered messages, and exact account of answers.
//!
//! A message is *acknowledged* when `rsp … 200` has come for it, and only then. With
//! `--reconnect`, a connection that breaks is made again every [`REDIAL`], and all that is not
//! answered goes first, in its order, under new numbers; the messages keep their `seq`. Without,
//! the lane ends, and what was not answered is not acknowledged.
//!
//! # The end
//! Answers are waited for within `--drain-timeout`. Then the session is closed.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write as _};
use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use inrush_codec::relp::{RelpCommand, RelpDecoder, RelpItem, TXNR_MAX};
use nix::poll::PollFlags;

use crate::acked::AnswerTally;
use crate::clock::MessageClock;
use crate::dial::Dialer;
use crate::drive::{PushedCounts, SendLane, poll_writable};
use crate::fault::Faults;
use crate::message::{TAPE_BYTES, Tape};
use crate::run::SenderTally;
use crate::stream::{CLOSE_MAX, StreamLink, read_to_end};

/// Pause after a loss, or a failed attempt, before the next attempt to connect.
const REDIAL: Duration = Duration::from_millis(50);

/// Bytes of answers read at once.
const READ_BYTES: usize = 64 * 1024;

/// Bytes of an answer that are kept: more than the words of any refusal.
const ANSWER_BYTES_MAX: usize = 4096;

const OFFERS: &str = "relp_version=0\nrelp_software=inrush-load\ncommands=syslog";

/// Behaviour of the lanes of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RelpPlan {
    /// Messages on their way without an answer.
    pub(crate) window: usize,
    /// True if a lane connects again after a loss.
    pub(crate) reconnect: bool,
    /// Longest wait for the last answers.
    pub(crate) drain: Duration,
}

/// A message without an answer.
struct UnackedMessage {
    txnr: u32,
    seq: u64,
    body: Vec<u8>,
}

/// Event that a lane waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LaneWait {
    Nothing,
    /// The kernel, or answers if they come first.
    Room,
    Answers,
    /// The time to connect again.
    Redial(Instant),
}

/// One sending connection.
pub(crate) struct RelpLane<'a> {
    dialer: &'a Dialer,
    plan: RelpPlan,
    link: Option<StreamLink>,
    id: u64,
    quota: u64,
    begun: u64,
    /// Messages of which the kernel has taken every byte.
    written: u64,
    bytes: u64,
    open: bool,
    txnr: u32,
    /// In the order of sending.
    pending: VecDeque<UnackedMessage>,
    /// Number of them that this session has sent.
    on_the_way: usize,
    /// Buffers of answered messages, to be used again.
    spare: Vec<Vec<u8>>,
    out: Vec<u8>,
    out_taken: usize,
    decoder: RelpDecoder,
    input: Vec<u8>,
    wait: LaneWait,
    failed: bool,
    tally: AnswerTally,
    faults: Faults,
}

impl<'a> RelpLane<'a> {
    /// Sends up to `quota` messages over an established link.
    pub(crate) fn new(
        dialer: &'a Dialer,
        plan: RelpPlan,
        link: StreamLink,
        id: u64,
        quota: u64,
    ) -> Self {
        let mut lane = Self {
            dialer,
            plan,
            link: None,
            id,
            quota,
            begun: 0,
            written: 0,
            bytes: 0,
            open: false,
            txnr: 0,
            pending: VecDeque::new(),
            on_the_way: 0,
            spare: Vec::new(),
            out: Vec::new(),
            out_taken: 0,
            decoder: RelpDecoder::new(ANSWER_BYTES_MAX),
            input: Vec::new(),
            wait: LaneWait::Nothing,
            failed: false,
            tally: AnswerTally::default(),
            faults: Faults::default(),
        };
        lane.begin(link);
        lane
    }

    /// Starts a session on a new link.
    fn begin(&mut self, link: StreamLink) {
        self.link = Some(link);
        self.open = false;
        self.on_the_way = 0;
        self.out.clear();
        self.out_taken = 0;
        self.input.clear();
        self.decoder = RelpDecoder::new(ANSWER_BYTES_MAX);
        self.txnr = 0;
        self.wait = LaneWait::Nothing;
        let txnr = self.next_txnr();
        frame(&mut self.out, txnr, "open", OFFERS.as_bytes());
    }

    fn next_txnr(&mut self) -> u32 {
        self.txnr = self.txnr % TXNR_MAX + 1;
        self.txnr
    }

    fn lost(&mut self, error: &io::Error) {
        self.link = None;
        if self.plan.reconnect {
            self.wait = LaneWait::Redial(Instant::now() + REDIAL);
        } else {
            self.fail(error);
        }
    }

    fn fail(&mut self, error: &io::Error) {
        self.failed = true;
        let (id, acked) = (self.id, self.tally.acked.count());
        let hint = format!("connection {id} ended after {acked} answers");
        self.faults.io(error, &hint);
    }

    fn redial(&mut self) {
        match self.dialer.stream() {
            Ok(link) => {
                self.tally.reconnects += 1;
                self.begin(link);
            }
            Err(_) => self.wait = LaneWait::Redial(Instant::now() + REDIAL),
        }
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
                Ok(_) => self.take_answers()?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn take_answers(&mut self) -> io::Result<()> {
        let input = std::mem::take(&mut self.input);
        let mut decoder = std::mem::replace(&mut self.decoder, RelpDecoder::new(0));
        let outcome = decoder.decode(&input, 0, |item| {
            if let RelpItem::Frame {
                txnr,
                command: RelpCommand::Rsp,
                data,
            } = item
            {
                self.answered(txnr, data.of(&input));
            }
            ControlFlow::Continue(())
        });
        self.decoder = decoder;
        let broken = |error| {
            let words = format!("the receiver does not speak RELP: {error:?}");
            io::Error::new(ErrorKind::InvalidInput, words)
        };
        let keep = outcome.map_err(broken)?;
        self.input = input;
        self.input.drain(..keep);
        Ok(())
    }

    fn answered(&mut self, txnr: u32, data: &[u8]) {
        let good = data.starts_with(b"200");
        if !self.open {
            self.open = good;
            if !good {
                self.failed = true;
                self.faults.add("not_opened", String::from_utf8_lossy(data));
            }
            return;
        }
        // Answers come in order, or nearly so.
        let sent = self.pending.iter().take(self.on_the_way);
        let Some(at) = sent.into_iter().position(|one| one.txnr == txnr) else {
            self.faults.add("stray_answer", format!("to {txnr}"));
            return;
        };
        self.on_the_way -= 1;
        let Some(mut message) = self.pending.remove(at) else {
            return;
        };
        if good {
            self.tally.acked.add(message.seq);
        } else {
            self.tally.refused += 1;
            let words = String::from_utf8_lossy(data);
            self.faults.add("refused_message", words);
        }
        message.body.clear();
        self.spare.push(message.body);
    }

    /// Puts messages into the empty `out`: first those of a lost session, then new ones; how many
    /// are new.
    fn fill(&mut self, tape: &mut Tape, want: u64, clock: &mut MessageClock) -> u64 {
        while self.on_the_way < self.pending.len() && self.out.len() < TAPE_BYTES {
            let txnr = self.next_txnr();
            let message = &mut self.pending[self.on_the_way];
            message.txnr = txnr;
            frame(&mut self.out, txnr, "syslog", &message.body);
            self.on_the_way += 1;
            self.tally.resent += 1;
        }
        let room = self.plan.window.saturating_sub(self.pending.len()) as u64;
        let want = want.min(self.quota - self.begun).min(room);
        if want == 0 || self.on_the_way < self.pending.len() {
            return 0;
        }
        clock.tick();
        let slots = tape.load(want, self.id, self.begun, clock);
        let messages = slots.len() as u64;
        for slot in slots {
            let txnr = self.next_txnr();
            let mut body = self.spare.pop().unwrap_or_default();
            body.extend_from_slice(tape.bytes(&(slot..slot + 1)));
            frame(&mut self.out, txnr, "syslog", &body);
            let seq = self.begun;
            self.pending.push_back(UnackedMessage { txnr, seq, body });
            self.begun += 1;
        }
        self.on_the_way = self.pending.len();
        tape.advance(messages as usize);
        messages
    }

    /// Writes `out`, as far as the kernel takes it.
    fn write(&mut self) -> io::Result<u64> {
        let Some(link) = &mut self.link else {
            return Ok(0);
        };
        let mut total = 0;
        while self.out_taken < self.out.len() || !link.flushed() {
            match link.send(&[], &self.out[self.out_taken..]) {
                Ok((taken, blocked)) => {
                    self.out_taken += taken;
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
        if self.out_taken == self.out.len() && link.flushed() {
            self.out.clear();
            self.out_taken = 0;
            if self.on_the_way == self.pending.len() {
                self.written = self.begun;
            }
        }
        Ok(total)
    }

    fn turn(
        &mut self,
        tape: &mut Tape,
        want: u64,
        clock: &mut MessageClock,
    ) -> io::Result<PushedCounts> {
        self.receive()?;
        let mut messages = 0;
        if self.out.is_empty() && self.open && !self.failed {
            messages = self.fill(tape, want, clock);
        }
        let bytes = self.write()?;
        // Nothing to write, and what there would be waits for an answer: to open, or to make room.
        let full = !self.open || self.pending.len() >= self.plan.window || self.begun == self.quota;
        if self.wait == LaneWait::Nothing && self.out.is_empty() && full {
            self.wait = LaneWait::Answers;
        }
        Ok(PushedCounts { messages, bytes })
    }

    /// True if answers are missing that may still come.
    fn unfinished(&self) -> bool {
        !self.failed && !self.pending.is_empty()
    }

    /// Says goodbye and waits for the peer to close.
    fn close(&mut self, deadline: Instant) {
        let Some(mut link) = self.link.take() else {
            return;
        };
        let mut last = Vec::new();
        let txnr = self.next_txnr();
        frame(&mut last, txnr, "close", b"");
        // All is answered or given up: an error here changes nothing.
        let _ = link.send(&[], &last);
        let _ = read_to_end(link.socket(), deadline);
    }

    fn into_tally(mut self) -> SenderTally {
        if !self.pending.is_empty() && !self.failed {
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

impl SendLane for RelpLane<'_> {
    fn quota(&self) -> u64 {
        self.quota
    }

    fn open(&self) -> bool {
        !self.failed && self.begun < self.quota
    }

    fn blocked(&self) -> bool {
        match self.wait {
            LaneWait::Nothing => false,
            LaneWait::Room | LaneWait::Answers => true,
            LaneWait::Redial(at) => Instant::now() < at,
        }
    }

    fn unblock(&mut self) {
        if !matches!(self.wait, LaneWait::Redial(_)) {
            self.wait = LaneWait::Nothing;
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
        self.turn(tape, want, clock).unwrap_or_else(|error| {
            self.lost(&error);
            PushedCounts::default()
        })
    }
}

/// Waits for the last answers, sending again what was lost; call it before the clock of the run
/// stops.
pub(crate) fn settle(lanes: &mut [RelpLane<'_>], tape: &mut Tape, clock: &mut MessageClock) {
    let Some(drain) = lanes.first().map(|lane| lane.plan.drain) else {
        return;
    };
    let deadline = Instant::now() + drain;
    while lanes.iter().any(RelpLane::unfinished) && Instant::now() < deadline {
        for lane in lanes.iter_mut().filter(|lane| lane.unfinished()) {
            if !lane.blocked() {
                lane.quota = lane.begun;
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

/// Closes all sessions.
pub(crate) fn finish(mut lanes: Vec<RelpLane<'_>>) -> Vec<SenderTally> {
    let deadline = Instant::now() + CLOSE_MAX;
    lanes.iter_mut().for_each(|lane| lane.close(deadline));
    lanes.into_iter().map(RelpLane::into_tally).collect()
}

fn frame(out: &mut Vec<u8>, txnr: u32, command: &str, data: &[u8]) {
    // Writing to a vector does not fail.
    let _ = write!(out, "{txnr} {command} {}", data.len());
    if !data.is_empty() {
        out.push(b' ');
        out.extend_from_slice(data);
    }
    out.push(b'\n');
}
