//! A sending connection whose messages are answered: what lanes of RELP and HEC have in common.
//!
//! # What it guarantees
//! * A [`LaneSession`] is read, written, made again and accounted for in one place. A
//!   [`LaneDialect`] says what is written and what an answer means; it never touches the socket.
//! * A broken connection is made again after [`PAUSE`] with `--reconnect`; without, the lane ends.
//! * Messages count as sent when the kernel has taken every byte of them. They count as
//!   acknowledged as the dialect says, and each only once.
//!
//! # The end
//! Answers are waited for within `--drain-timeout` (`drive::settle`). A lane that still misses some
//! then has failed, with the fault that the dialect names.

use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use nix::poll::PollFlags;

use crate::acked::AnswerTally;
use crate::clock::MessageClock;
use crate::dial::Dialer;
use crate::drive::{PushedCounts, SendLane};
use crate::fault::Faults;
use crate::message::Tape;
use crate::run::SenderTally;
use crate::stream::StreamLink;

/// Pause after a loss, or a failed attempt, before the next attempt.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);

/// Bytes of answers read at once.
const READ_BYTES: usize = 16 * 1024;

/// Event that a lane waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LaneWait {
    Nothing,
    /// Room in the kernel, or answers if they come first.
    Room,
    Answers,
    /// The time of the next attempt.
    Until(Instant),
}

/// State of a lane that does not depend on its protocol.
pub(crate) struct LaneSession<'a> {
    dialer: &'a Dialer,
    /// True if it connects again after a loss.
    reconnect: bool,
    link: Option<StreamLink>,
    pub(crate) id: u64,
    pub(crate) quota: u64,
    pub(crate) begun: u64,
    /// Messages of which the kernel has taken every byte.
    pub(crate) written: u64,
    bytes: u64,
    /// Bytes to be written, and how many of them the link has taken.
    pub(crate) out: Vec<u8>,
    pub(crate) taken: usize,
    /// Bytes received and not yet understood.
    pub(crate) input: Vec<u8>,
    pub(crate) wait: LaneWait,
    pub(crate) failed: bool,
    pub(crate) tally: AnswerTally,
    pub(crate) faults: Faults,
}

impl LaneSession<'_> {
    /// Writes `out`, as far as the kernel takes it; the bytes, and true if all of it is with the
    /// kernel.
    pub(crate) fn write(&mut self) -> io::Result<(u64, bool)> {
        let Some(link) = &mut self.link else {
            return Ok((0, false));
        };
        let mut total = 0;
        while self.taken < self.out.len() || !link.flushed() {
            match link.send(&[], &self.out[self.taken..]) {
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
        Ok((total, self.taken == self.out.len() && link.flushed()))
    }

    /// Ends the link; the next push makes another.
    pub(crate) fn hang_up(&mut self) {
        self.link = None;
        self.input.clear();
    }

    /// The link, taken out of the session.
    pub(crate) fn take_link(&mut self) -> Option<StreamLink> {
        self.link.take()
    }

    fn fail(&mut self, error: &io::Error) {
        self.failed = true;
        let (id, acked) = (self.id, self.tally.acked.count());
        let hint = format!("connection {id} ended after {acked} messages were answered");
        self.faults.io(error, &hint);
    }
}

/// Dialect of a session: requests and their answers.
pub(crate) trait LaneDialect {
    /// The link is new: nothing of the last one holds any more.
    fn begin(&mut self, session: &mut LaneSession<'_>);
    /// The link is lost, and will be made again.
    fn lost(&mut self, session: &mut LaneSession<'_>);
    /// Understands `session.input` as far as it goes; an error ends the link.
    fn take_answers(&mut self, session: &mut LaneSession<'_>) -> io::Result<()>;
    /// Sends up to `want` messages.
    fn turn(
        &mut self,
        session: &mut LaneSession<'_>,
        tape: &mut Tape,
        want: u64,
        clock: &mut MessageClock,
    ) -> io::Result<PushedCounts>;
    /// True if nothing can be done before an answer comes.
    fn idle(&self, session: &LaneSession<'_>) -> bool;
    /// Fault of a lane that misses answers, in a word and in a sentence; `None` if it misses none.
    fn unanswered(&self) -> Option<(&'static str, &'static str)>;
}

/// One sending connection.
pub(crate) struct AnsweredLane<'a, D> {
    pub(crate) session: LaneSession<'a>,
    pub(crate) dialect: D,
}

impl<'a, D: LaneDialect> AnsweredLane<'a, D> {
    /// Sends up to `quota` messages over an established link.
    pub(crate) fn new(
        dialer: &'a Dialer,
        dialect: D,
        reconnect: bool,
        link: StreamLink,
        (id, quota): (u64, u64),
    ) -> Self {
        let session = LaneSession {
            dialer,
            reconnect,
            link: Some(link),
            id,
            quota,
            begun: 0,
            written: 0,
            bytes: 0,
            out: Vec::new(),
            taken: 0,
            input: Vec::new(),
            wait: LaneWait::Nothing,
            failed: false,
            tally: AnswerTally::default(),
            faults: Faults::default(),
        };
        let mut lane = Self { session, dialect };
        lane.dialect.begin(&mut lane.session);
        lane
    }

    fn lost(&mut self, error: &io::Error) {
        self.session.hang_up();
        if self.session.reconnect {
            self.session.wait = LaneWait::Until(Instant::now() + PAUSE);
            self.dialect.lost(&mut self.session);
        } else {
            self.session.fail(error);
        }
    }

    fn redial(&mut self) {
        match self.session.dialer.stream() {
            Ok(link) => {
                self.session.tally.reconnects += 1;
                self.session.link = Some(link);
                self.session.wait = LaneWait::Nothing;
                self.dialect.begin(&mut self.session);
            }
            Err(_) => self.session.wait = LaneWait::Until(Instant::now() + PAUSE),
        }
    }

    /// Reads and takes in what has come.
    fn receive(&mut self) -> io::Result<()> {
        let session = &mut self.session;
        while let Some(link) = &mut session.link {
            let kept = session.input.len();
            session.input.resize(kept + READ_BYTES, 0);
            let read = link.receive(&mut session.input[kept..]);
            let n = *read.as_ref().unwrap_or(&0);
            session.input.truncate(kept + n);
            match read {
                Ok(0) => return Err(ErrorKind::BrokenPipe.into()),
                Ok(_) => self.dialect.take_answers(session)?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn turn(
        &mut self,
        tape: &mut Tape,
        want: u64,
        clock: &mut MessageClock,
    ) -> io::Result<PushedCounts> {
        self.receive()?;
        self.dialect.turn(&mut self.session, tape, want, clock)
    }

    /// The account.
    pub(crate) fn into_tally(mut self) -> SenderTally {
        if !self.session.failed
            && let Some((kind, words)) = self.dialect.unanswered()
        {
            self.session.failed = true;
            self.session.faults.add(kind, words);
        }
        let session = self.session;
        SenderTally {
            id: session.id,
            sent: session.written,
            attempted: session.begun,
            bytes: session.bytes,
            failed: session.failed,
            faults: session.faults,
            answers: Some(session.tally),
        }
    }
}

impl<D: LaneDialect> SendLane for AnsweredLane<'_, D> {
    fn quota(&self) -> u64 {
        self.session.quota
    }

    fn open(&self) -> bool {
        !self.session.failed && self.session.begun < self.session.quota
    }

    fn blocked(&self) -> bool {
        match self.session.wait {
            LaneWait::Nothing => false,
            LaneWait::Room => true,
            LaneWait::Answers => self.dialect.idle(&self.session),
            LaneWait::Until(at) => Instant::now() < at,
        }
    }

    fn unblock(&mut self) {
        if !matches!(self.session.wait, LaneWait::Until(_)) {
            self.session.wait = LaneWait::Nothing;
        }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.session.link.as_ref().map(StreamLink::fd)
    }

    fn interest(&self) -> PollFlags {
        match self.session.wait {
            LaneWait::Room => PollFlags::POLLIN | PollFlags::POLLOUT,
            _ => PollFlags::POLLIN,
        }
    }

    fn push(&mut self, tape: &mut Tape, want: u64, clock: &mut MessageClock) -> PushedCounts {
        if self.session.link.is_none() {
            self.redial();
        }
        if self.session.link.is_none() || self.session.failed {
            return PushedCounts::default();
        }
        if let LaneWait::Until(at) = self.session.wait
            && Instant::now() >= at
        {
            self.session.wait = LaneWait::Nothing;
        }
        self.turn(tape, want, clock).unwrap_or_else(|error| {
            self.lost(&error);
            PushedCounts::default()
        })
    }

    fn unfinished(&self) -> bool {
        !self.session.failed && self.dialect.unanswered().is_some()
    }

    fn begin_no_more(&mut self) {
        self.session.quota = self.session.begun;
    }
}
