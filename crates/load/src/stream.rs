//! A connection that sends: large non-blocking writes, and exact counts wherever a write stops.
//!
//! The kernel may take any part of a write. Whole messages are counted; of the one that was cut
//! only the rest is kept (the lane's tail) and goes first next time; the messages after it were
//! not used and are patched anew. A message is *certainly written* when all its bytes were taken
//! by the kernel; under TLS, when no record is waiting in the library either.
//!
//! # The end
//! Tails are sent within [`FLUSH_MAX`], so that no stream ends inside a message. Then the sending
//! side is shut down, and what the peer still sends is read and dropped until it closes too, for
//! at most [`CLOSE_MAX`] over all connections: closing with unread bytes would make the kernel
//! reset the connection, and the receiver could lose what it has not read yet.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use crate::clock::MessageClock;
use crate::drive::{PushedCounts, SendLane, settle};
use crate::fault::Faults;
use crate::message::Tape;
use crate::run::SenderTally;
use crate::tls::TlsLink;

/// Time in which cut messages may be finished.
const FLUSH_MAX: Duration = Duration::from_secs(5);

/// Longest wait for peers to close after us.
pub(crate) const CLOSE_MAX: Duration = Duration::from_secs(2);

/// Byte stream of one connection.
pub(crate) enum StreamLink {
    /// TCP.
    Plain(TcpStream),
    /// TLS over TCP.
    Tls(Box<TlsLink>),
}

impl StreamLink {
    pub(crate) fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(tls) => tls.socket(),
        }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket().as_fd()
    }

    /// Reads what has come; 0 at the end of the stream.
    pub(crate) fn receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(into),
            Self::Tls(tls) => tls.receive(into),
        }
    }

    /// The socket alone, to be held open; the peer sees no difference.
    pub(crate) fn into_socket(self) -> TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(tls) => tls.into_socket(),
        }
    }

    /// Writes the start of `first` then `second`; the bytes taken, and whether there is no room
    /// for more.
    pub(crate) fn send(&mut self, first: &[u8], second: &[u8]) -> io::Result<(usize, bool)> {
        match self {
            Self::Plain(socket) => {
                let taken = if first.is_empty() {
                    socket.write(second)?
                } else {
                    socket.write_vectored(&[IoSlice::new(first), IoSlice::new(second)])?
                };
                Ok((taken, taken < first.len() + second.len()))
            }
            Self::Tls(tls) => tls.send(first, second),
        }
    }

    /// True if the kernel has taken all that [`StreamLink::send`] took.
    pub(crate) fn flushed(&self) -> bool {
        match self {
            Self::Plain(_) => true,
            Self::Tls(tls) => tls.flushed(),
        }
    }
}

/// One sending connection.
pub(crate) struct StreamLane {
    link: StreamLink,
    id: u64,
    /// Messages begun.
    begun: u64,
    quota: u64,
    /// Messages of which the link has taken every byte.
    taken: u64,
    /// Messages of which the kernel has taken every byte.
    written: u64,
    bytes: u64,
    tail: Vec<u8>,
    blocked: bool,
    failed: bool,
    faults: Faults,
}

impl StreamLane {
    /// Sends up to `quota` messages over an established, non-blocking link.
    pub(crate) fn new(link: StreamLink, id: u64, quota: u64) -> Self {
        Self {
            link,
            id,
            begun: 0,
            quota,
            taken: 0,
            written: 0,
            bytes: 0,
            tail: Vec::new(),
            blocked: false,
            failed: false,
            faults: Faults::default(),
        }
    }

    fn account(&mut self, tape: &mut Tape, slots: &std::ops::Range<usize>, taken: usize) -> u64 {
        self.bytes += taken as u64;
        let of_tail = taken.min(self.tail.len());
        self.tail.drain(..of_tail);
        if !self.tail.is_empty() {
            return 0;
        }
        let (whole, cut) = tape.split(slots, taken - of_tail);
        let used = whole + usize::from(!cut.is_empty());
        self.tail.extend_from_slice(cut);
        self.taken += whole as u64 + u64::from(of_tail > 0);
        self.begun += used as u64;
        tape.advance(used);
        used as u64
    }

    fn fail(&mut self, error: &io::Error) {
        self.failed = true;
        let alert = match &mut self.link {
            StreamLink::Plain(_) => None,
            StreamLink::Tls(tls) => tls.alert(),
        };
        let hint = alert.unwrap_or_else(|| {
            format!(
                "connection {} ended after {} messages",
                self.id, self.written
            )
        });
        self.faults.io(error, &hint);
    }

    /// Says goodbye and stops sending.
    fn close(&mut self) {
        if let StreamLink::Tls(tls) = &mut self.link {
            tls.say_goodbye();
        }
        // An error here means that the peer is gone, which the next read reports.
        let _ = self.link.socket().shutdown(Shutdown::Write);
    }

    /// Reads until the peer has closed or `deadline`; a reset is counted.
    fn drain(&mut self, deadline: Instant) {
        if let Err(error) = read_to_end(self.link.socket(), deadline) {
            self.faults
                .io(&error, "the receiver may not have read everything");
        }
    }

    fn into_tally(self) -> SenderTally {
        SenderTally {
            id: self.id,
            sent: self.written,
            attempted: self.begun,
            bytes: self.bytes,
            failed: self.failed,
            faults: self.faults,
            answers: None,
        }
    }
}

impl SendLane for StreamLane {
    fn quota(&self) -> u64 {
        self.quota
    }

    fn open(&self) -> bool {
        !self.failed && (self.begun < self.quota || self.unfinished())
    }

    fn blocked(&self) -> bool {
        self.blocked
    }

    fn unblock(&mut self) {
        self.blocked = false;
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.link.fd())
    }

    fn push(&mut self, tape: &mut Tape, want: u64, clock: &mut MessageClock) -> PushedCounts {
        let want = want.min(self.quota - self.begun);
        let slots = if want == 0 {
            0..0
        } else {
            clock.tick();
            tape.load(want, self.id, self.begun, clock)
        };
        match self.link.send(&self.tail, tape.bytes(&slots)) {
            Ok((taken, blocked)) => {
                self.blocked = blocked;
                let messages = self.account(tape, &slots, taken);
                if self.link.flushed() {
                    self.written = self.taken;
                }
                PushedCounts {
                    messages,
                    bytes: taken as u64,
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.blocked = true;
                PushedCounts::default()
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => PushedCounts::default(),
            Err(error) => {
                self.fail(&error);
                PushedCounts::default()
            }
        }
    }

    /// True if something begun is not yet with the kernel.
    fn unfinished(&self) -> bool {
        !self.failed && (!self.tail.is_empty() || !self.link.flushed())
    }
}

/// Finishes cut messages; call it before the clock of the run stops.
pub(crate) fn flush(lanes: &mut [StreamLane], tape: &mut Tape, clock: &mut MessageClock) {
    settle(lanes, tape, clock, FLUSH_MAX);
    for lane in lanes.iter_mut().filter(|lane| lane.unfinished()) {
        lane.failed = true;
        lane.faults
            .add("cut_short", "the receiver stopped reading inside a message");
    }
}

/// Closes all connections as the module head says.
pub(crate) fn finish(mut lanes: Vec<StreamLane>) -> Vec<SenderTally> {
    lanes
        .iter_mut()
        .filter(|lane| !lane.failed)
        .for_each(StreamLane::close);
    let deadline = Instant::now() + CLOSE_MAX;
    lanes
        .iter_mut()
        .filter(|lane| !lane.failed)
        .for_each(|lane| lane.drain(deadline));
    lanes.into_iter().map(StreamLane::into_tally).collect()
}

pub(crate) fn read_to_end(mut socket: &TcpStream, deadline: Instant) -> io::Result<()> {
    let mut scratch = [0; 4096];
    socket.set_nonblocking(false)?;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        socket.set_read_timeout(Some(left))?;
        match socket.read(&mut scratch) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Ok(());
            }
            Err(error) => return Err(error),
        }
    }
}
