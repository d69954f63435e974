//! UDP: `sendmmsg` in batches of up to 64, each datagram optionally a burst of `--gso` messages
//! that the kernel cuts itself (UDP_SEGMENT).
//!
//! Sockets are connected, so the kernel tells us when nothing listens. A message counts as sent
//! only if the kernel took it; one that it did not take is sent again under the same number.

use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, MultiHeaders, sendmmsg};
use socket2::{Domain, Protocol, Socket, Type};

use crate::clock::MessageClock;
use crate::drive::{PushedCounts, SendLane};
use crate::error::{LoadError, connect_hint};
use crate::fault::Faults;
use crate::message::Tape;
use crate::run::SenderTally;

/// System datagrams in one `sendmmsg`.
pub(crate) const BATCH: usize = 64;

/// Bytes of one burst: what fits in a UDP payload, with room for headers.
pub(crate) const BURST_BYTES_MAX: usize = 65_000;

/// Messages in one burst; the limit of kernels before 6.10.
pub(crate) const SEGMENTS_MAX: u64 = 64;

/// Bytes of the largest payload of one datagram over IPv4.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 65_507;

/// Bytes asked for as send buffer; the kernel gives what `net.core.wmem_max` allows.
const SEND_BUFFER_BYTES: usize = 4 * 1024 * 1024;

/// Pause when the network device has no room: it drains at its own speed and wakes nobody.
const NO_BUFFERS_PAUSE: Duration = Duration::from_micros(100);

/// Errors in a row, without a message taken between, after which a socket is given up.
const ERRORS_IN_A_ROW_MAX: u32 = 1000;

/// One connected UDP socket.
pub(crate) struct UdpLane {
    socket: UdpSocket,
    id: u64,
    sent: u64,
    quota: u64,
    bytes: u64,
    /// Messages in one burst; 1 without UDP_SEGMENT.
    segments: usize,
    segment_bytes: u16,
    headers: MultiHeaders<()>,
    faults: Faults,
    errors_in_a_row: u32,
    failed: bool,
}

/// Opens one socket to `target`, on a source port of its own.
///
/// # Errors
/// [`LoadError::Connect`] when the kernel refuses to.
pub(crate) fn open(target: SocketAddr) -> Result<UdpSocket, LoadError> {
    let make = || -> io::Result<UdpSocket> {
        let socket = Socket::new(
            Domain::for_address(target),
            Type::DGRAM,
            Some(Protocol::UDP),
        )?;
        // Best effort: a smaller buffer only means more waiting in the kernel.
        let _ = socket.set_send_buffer_size(SEND_BUFFER_BYTES);
        let any: SocketAddr = match target {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        socket.bind(&any.into())?;
        socket.connect(&target.into())?;
        Ok(socket.into())
    };
    make().map_err(|source| LoadError::Connect {
        target: format!("udp://{target}"),
        hint: connect_hint(&source),
        source,
    })
}

impl UdpLane {
    /// Sends up to `quota` messages of `segment_bytes` each in bursts of `segments` (1: none).
    pub(crate) fn new(
        socket: UdpSocket,
        id: u64,
        quota: u64,
        segments: usize,
        segment_bytes: usize,
    ) -> Self {
        let space = (segments > 1).then(|| nix::cmsg_space!(u16));
        Self {
            socket,
            id,
            sent: 0,
            quota,
            bytes: 0,
            segments,
            segment_bytes: segment_bytes as u16,
            headers: MultiHeaders::preallocate(BATCH, space),
            faults: Faults::default(),
            errors_in_a_row: 0,
            failed: false,
        }
    }

    /// Looks for a last answer of the peer's kernel and gives the account.
    pub(crate) fn finish(mut self) -> SenderTally {
        if let Ok(Some(error)) = self.socket.take_error() {
            self.faults.io(&error, REFUSED_HINT);
        }
        SenderTally {
            id: self.id,
            sent: self.sent,
            attempted: self.sent,
            bytes: self.bytes,
            failed: self.failed,
            faults: self.faults,
            answers: None,
        }
    }

    fn fault(&mut self, errno: Errno) {
        let error = io::Error::from(errno);
        let hint = match errno {
            Errno::EINTR => return,
            Errno::ECONNREFUSED => REFUSED_HINT,
            Errno::ENOBUFS | Errno::EAGAIN => {
                std::thread::sleep(NO_BUFFERS_PAUSE);
                "the network device is full: lower --rate"
            }
            Errno::EMSGSIZE => "larger than the path takes: lower --size or --gso",
            Errno::EINVAL | Errno::EIO if self.segments > 1 => {
                "this path does not take UDP_SEGMENT bursts: lower --size, or leave out --gso"
            }
            _ => "",
        };
        self.faults.io(&error, hint);
        self.errors_in_a_row += 1;
        let passing = matches!(errno, Errno::ECONNREFUSED | Errno::ENOBUFS | Errno::EAGAIN);
        self.failed = !passing || self.errors_in_a_row > ERRORS_IN_A_ROW_MAX;
    }
}

const REFUSED_HINT: &str =
    "nothing listens on that UDP port: start the receiver, or check with `ss -lun`";

impl SendLane for UdpLane {
    fn quota(&self) -> u64 {
        self.quota
    }

    fn open(&self) -> bool {
        !self.failed && self.sent < self.quota
    }

    fn blocked(&self) -> bool {
        false
    }

    fn unblock(&mut self) {}

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn push(&mut self, tape: &mut Tape, want: u64, clock: &mut MessageClock) -> PushedCounts {
        let most = (BATCH * self.segments) as u64;
        clock.tick();
        let slots = tape.load(
            want.min(self.quota - self.sent).min(most),
            self.id,
            self.sent,
            clock,
        );
        let segments = self.segments;
        let bursts = slots.len().div_ceil(segments);
        let burst = |i: usize| {
            let first = slots.start + i * segments;
            first.min(slots.end)..(first + segments).min(slots.end)
        };
        let vectors: [[IoSlice<'_>; 1]; BATCH] =
            std::array::from_fn(|i| [IoSlice::new(tape.bytes(&burst(i)))]);
        let segment = [ControlMessage::UdpGsoSegments(&self.segment_bytes)];
        let control = if segments > 1 { &segment[..] } else { &[] };
        let taken = sendmmsg(
            self.socket.as_raw_fd(),
            &mut self.headers,
            &vectors[..bursts],
            [None; BATCH],
            control,
            MsgFlags::empty(),
        )
        .map(Iterator::count);
        match taken {
            Ok(taken) => {
                let used = (taken * segments).min(slots.len());
                let bytes = tape.bytes(&(slots.start..slots.start + used)).len() as u64;
                tape.advance(used);
                self.sent += used as u64;
                self.bytes += bytes;
                self.errors_in_a_row = 0;
                PushedCounts {
                    messages: used as u64,
                    bytes,
                }
            }
            Err(errno) => {
                self.fault(errno);
                PushedCounts::default()
            }
        }
    }
}
