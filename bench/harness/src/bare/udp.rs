//! recvmmsg and discard.

use std::io::IoSliceMut;
use std::net::{SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use nix::errno::Errno;
use nix::sys::socket::sockopt::{RcvBuf, RcvBufForce, UdpGroSegment};
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrIn, recvmmsg, setsockopt};

use super::{LoopCounters, answer, say};

/// Datagrams a call at most; the loop's slices live on the stack.
const BATCH: usize = 64;

/// How to run the bare UDP loop.
#[derive(Args, Debug)]
pub struct BareUdp {
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddrV4,
    /// Receive buffer, in bytes; past the kernel's limit where that is permitted.
    #[arg(long, default_value_t = 64 << 20)]
    rcvbuf: usize,
    /// Let the kernel join datagrams (UDP_GRO); they are told apart by this size, in bytes.
    #[arg(long)]
    gro_size: Option<usize>,
}

/// Runs until stdin ends.
pub fn run(args: &BareUdp) -> Result<()> {
    let tally = Arc::new(LoopCounters::default());
    let socket = UdpSocket::bind(args.listen).with_context(|| args.listen.to_string())?;
    setsockopt(&socket, RcvBufForce, &args.rcvbuf)
        .or_else(|_| setsockopt(&socket, RcvBuf, &args.rcvbuf))
        .context("SO_RCVBUF")?;
    if args.gro_size.is_some() {
        setsockopt(&socket, UdpGroSegment, &true).context("UDP_GRO")?;
    }
    say(&format!("ready {}", socket.local_addr()?.port()))?;
    let gro_size = args.gro_size;
    answer(&tally, move |tally| receive(&socket, gro_size, tally))
}

/// Blocks in the call itself (MSG_WAITFORONE): no epoll, and no call that finds nothing.
fn receive(socket: &UdpSocket, gro_size: Option<usize>, tally: &LoopCounters) -> Result<()> {
    // A joined datagram is up to 64 KiB; a single one of the load is far below 4 KiB.
    let slot = if gro_size.is_some() {
        64 << 10
    } else {
        4 << 10
    };
    let mut arena = vec![0_u8; slot * BATCH];
    let mut headers = MultiHeaders::<SockaddrIn>::preallocate(BATCH, None);
    loop {
        let mut slices = arena
            .chunks_exact_mut(slot)
            .map(|chunk| [IoSliceMut::new(chunk)]);
        let mut slices: [[IoSliceMut<'_>; 1]; BATCH] =
            std::array::from_fn(|_| slices.next().unwrap_or([IoSliceMut::new(&mut [])]));
        let flags = MsgFlags::MSG_WAITFORONE;
        let received = recvmmsg(
            socket.as_raw_fd(),
            &mut headers,
            slices.iter_mut(),
            flags,
            None,
        );
        match received {
            Ok(messages) => {
                let (mut events, mut bytes) = (0, 0);
                for message in messages {
                    events += gro_size.map_or(1, |size| message.bytes.div_ceil(size) as u64);
                    bytes += message.bytes as u64;
                }
                tally.add(events, bytes);
            }
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno).context("recvmmsg"),
        }
    }
}
