//! A RELP connection that sends: a window of unanswered messages, and exact account of answers.
//!
//! A message is *acknowledged* when `rsp … 200` has come for it, and only then. With
//! `--reconnect`, a connection that breaks is made again, and all that is not
//! answered goes first, in its order, under new numbers; the messages keep their `seq`. Without,
//! the lane ends, and what was not answered is not acknowledged.
//!
//! # The end
//! Answers are waited for within `--drain-timeout`. Then the session is closed.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write as _};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use inrush_codec::relp::{RelpCommand, RelpDecoder, RelpItem, TXNR_MAX};

use crate::answered::{AnsweredLane, LaneDialect, LaneSession, LaneWait};
use crate::clock::MessageClock;
use crate::drive::PushedCounts;
use crate::message::{TAPE_BYTES, Tape};
use crate::run::SenderTally;
use crate::stream::{CLOSE_MAX, read_to_end};

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

/// One sending connection.
pub(crate) type RelpLane<'a> = AnsweredLane<'a, RelpDialect>;

/// Session of RELP.
pub(crate) struct RelpDialect {
    window: usize,
    open: bool,
    txnr: u32,
    /// In the order of sending.
    pending: VecDeque<UnackedMessage>,
    /// Number of them that this session has sent.
    on_the_way: usize,
    /// Buffers of answered messages, to be used again.
    spare: Vec<Vec<u8>>,
    decoder: RelpDecoder,
}

impl RelpDialect {
    /// A session that has yet to be opened.
    pub(crate) fn new(plan: RelpPlan) -> Self {
        Self {
            window: plan.window,
            open: false,
            txnr: 0,
            pending: VecDeque::new(),
            on_the_way: 0,
            spare: Vec::new(),
            decoder: RelpDecoder::new(ANSWER_BYTES_MAX),
        }
    }

    fn next_txnr(&mut self) -> u32 {
        self.txnr = self.txnr % TXNR_MAX + 1;
        self.txnr
    }

    fn answered(&mut self, session: &mut LaneSession<'_>, txnr: u32, data: &[u8]) {
        let good = data.starts_with(b"200");
        if !self.open {
            self.open = good;
            if !good {
                session.failed = true;
                let words = String::from_utf8_lossy(data);
                session.faults.add("not_opened", words);
            }
            return;
        }
        // Answers come in order, or nearly so.
        let sent = self.pending.iter().take(self.on_the_way);
        let Some(at) = sent.into_iter().position(|one| one.txnr == txnr) else {
            session.faults.add("stray_answer", format!("to {txnr}"));
            return;
        };
        self.on_the_way -= 1;
        let Some(mut message) = self.pending.remove(at) else {
            return;
        };
        if good {
            session.tally.answered += 1;
            session.tally.acked.add(message.seq);
        } else {
            session.tally.refused += 1;
            let words = String::from_utf8_lossy(data);
            session.faults.add("refused_message", words);
        }
        message.body.clear();
        self.spare.push(message.body);
    }

    /// Puts messages into the empty `out`: first those of a lost session, then new ones; how many
    /// are new.
    fn fill(
        &mut self,
        session: &mut LaneSession<'_>,
        tape: &mut Tape,
        want: u64,
        clock: &mut MessageClock,
    ) -> u64 {
        while self.on_the_way < self.pending.len() && session.out.len() < TAPE_BYTES {
            let txnr = self.next_txnr();
            let message = &mut self.pending[self.on_the_way];
            message.txnr = txnr;
            frame(&mut session.out, txnr, "syslog", &message.body);
            self.on_the_way += 1;
            session.tally.resent += 1;
        }
        let room = self.window.saturating_sub(self.pending.len()) as u64;
        let want = want.min(session.quota - session.begun).min(room);
        if want == 0 || self.on_the_way < self.pending.len() {
            return 0;
        }
        clock.tick();
        let slots = tape.load(want, session.id, session.begun, clock);
        let messages = slots.len() as u64;
        for slot in slots {
            let txnr = self.next_txnr();
            let mut body = self.spare.pop().unwrap_or_default();
            body.extend_from_slice(tape.bytes(&(slot..slot + 1)));
            frame(&mut session.out, txnr, "syslog", &body);
            let seq = session.begun;
            self.pending.push_back(UnackedMessage { txnr, seq, body });
            session.begun += 1;
        }
        self.on_the_way = self.pending.len();
        tape.advance(messages as usize);
        messages
    }
}

impl LaneDialect for RelpDialect {
    fn begin(&mut self, session: &mut LaneSession<'_>) {
        self.open = false;
        self.on_the_way = 0;
        self.decoder = RelpDecoder::new(ANSWER_BYTES_MAX);
        self.txnr = 0;
        session.out.clear();
        session.taken = 0;
        let txnr = self.next_txnr();
        frame(&mut session.out, txnr, "open", OFFERS.as_bytes());
    }

    /// Unanswered messages go first in the next session, as `fill` sees by itself.
    fn lost(&mut self, _: &mut LaneSession<'_>) {}

    fn take_answers(&mut self, session: &mut LaneSession<'_>) -> io::Result<()> {
        let input = std::mem::take(&mut session.input);
        let mut decoder = std::mem::replace(&mut self.decoder, RelpDecoder::new(0));
        let outcome = decoder.decode(&input, 0, |item| {
            if let RelpItem::Frame {
                txnr,
                command: RelpCommand::Rsp,
                data,
            } = item
            {
                self.answered(session, txnr, data.of(&input));
            }
            ControlFlow::Continue(())
        });
        self.decoder = decoder;
        let broken = |error| {
            let words = format!("the receiver does not speak RELP: {error:?}");
            io::Error::new(ErrorKind::InvalidInput, words)
        };
        let keep = outcome.map_err(broken)?;
        session.input = input;
        session.input.drain(..keep);
        Ok(())
    }

    fn turn(
        &mut self,
        session: &mut LaneSession<'_>,
        tape: &mut Tape,
        want: u64,
        clock: &mut MessageClock,
    ) -> io::Result<PushedCounts> {
        let mut messages = 0;
        if session.out.is_empty() && self.open && !session.failed {
            messages = self.fill(session, tape, want, clock);
        }
        let (bytes, whole) = session.write()?;
        if whole {
            session.out.clear();
            session.taken = 0;
            if self.on_the_way == self.pending.len() {
                session.written = session.begun;
            }
        }
        // Nothing to write, and what there would be waits for an answer: to open, or to make room.
        let full = !self.open || self.pending.len() >= self.window;
        let full = full || session.begun == session.quota;
        if session.wait == LaneWait::Nothing && session.out.is_empty() && full {
            session.wait = LaneWait::Answers;
        }
        Ok(PushedCounts { messages, bytes })
    }

    fn idle(&self, _: &LaneSession<'_>) -> bool {
        true
    }

    fn unanswered(&self) -> Option<(&'static str, &'static str)> {
        (!self.pending.is_empty()).then_some(("unanswered", "the receiver did not answer in time"))
    }
}

/// Says goodbye and waits for the peer to close.
fn close(lane: &mut RelpLane<'_>, deadline: Instant) {
    let Some(mut link) = lane.session.take_link() else {
        return;
    };
    let mut last = Vec::new();
    let txnr = lane.dialect.next_txnr();
    frame(&mut last, txnr, "close", b"");
    // All is answered or given up: an error here changes nothing.
    let _ = link.send(&[], &last);
    let _ = read_to_end(link.socket(), deadline);
}

/// Closes all sessions.
pub(crate) fn finish(mut lanes: Vec<RelpLane<'_>>) -> Vec<SenderTally> {
    let deadline = Instant::now() + CLOSE_MAX;
    lanes.iter_mut().for_each(|lane| close(lane, deadline));
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
