//! A receiver that throws everything away, to measure the generator alone.
//!
//! `discard ADDRESS` accepts TCP connections and reads UDP datagrams on that address until it is
//! killed; it writes one line with its address when it is ready. One thread a connection, 1 MiB
//! reads; 64 datagrams a system call, with receive bursts left to the kernel.
#![forbid(unsafe_code)]

use std::io::{IoSliceMut, Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsRawFd;

use nix::sys::socket::{MsgFlags, MultiHeaders, recvmmsg, setsockopt, sockopt};

const READ_BYTES: usize = 1024 * 1024;
const DATAGRAMS: usize = 64;

fn main() -> std::io::Result<()> {
    let address = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let listener = TcpListener::bind(&address)?;
    let udp = UdpSocket::bind(listener.local_addr()?)?;
    writeln!(std::io::stdout(), "{}", listener.local_addr()?)?;
    std::thread::spawn(move || discard_datagrams(&udp));
    for socket in listener.incoming() {
        let mut socket = socket?;
        std::thread::spawn(move || {
            let mut buffer = vec![0; READ_BYTES];
            while socket.read(&mut buffer).is_ok_and(|length| length > 0) {}
        });
    }
    Ok(())
}

fn discard_datagrams(socket: &UdpSocket) {
    // Best effort: without the right to force it, what the kernel allows.
    let _ = setsockopt(socket, sockopt::RcvBufForce, &(64 * 1024 * 1024));
    let _ = setsockopt(socket, sockopt::UdpGroSegment, &true);
    let mut buffers = vec![vec![0; 65_536]; DATAGRAMS];
    loop {
        let mut headers = MultiHeaders::<()>::preallocate(DATAGRAMS, None);
        let mut slices: Vec<_> = buffers.iter_mut().map(|b| [IoSliceMut::new(b)]).collect();
        let flags = MsgFlags::MSG_WAITFORONE;
        if recvmmsg(
            socket.as_raw_fd(),
            &mut headers,
            slices.iter_mut(),
            flags,
            None,
        )
        .is_err()
        {
            return;
        }
    }
}
