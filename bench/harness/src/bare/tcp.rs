//! epoll, read, newline scan, discard: the loop against which every limit in µs is scaled.

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use super::{LoopCounters, answer, say};

/// epoll's token for the listener; connections are numbered from 0.
const LISTENER: u64 = u64::MAX;

/// Options of the bare TCP loop.
#[derive(Args, Debug)]
pub struct BareTcp {
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Size of the one read buffer, in bytes.
    #[arg(long, default_value_t = 1 << 20)]
    buffer: usize,
}

/// Runs until stdin ends.
pub fn run(args: &BareTcp) -> Result<()> {
    let tally = Arc::new(LoopCounters::default());
    let listener = TcpListener::bind(args.listen).with_context(|| args.listen.to_string())?;
    listener.set_nonblocking(true)?;
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    epoll.add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER))?;
    say(&format!("ready {}", listener.local_addr()?.port()))?;
    let buffer = args.buffer;
    answer(&tally, move |tally| {
        receive(&epoll, &listener, buffer, tally)
    })
}

/// Level-triggered, one read a readiness: no extra call that only finds the socket empty.
fn receive(
    epoll: &Epoll,
    listener: &TcpListener,
    buffer: usize,
    tally: &LoopCounters,
) -> Result<()> {
    let mut connections: Vec<Option<TcpStream>> = Vec::new();
    let mut buffer = vec![0_u8; buffer];
    let mut events = [EpollEvent::empty(); 64];
    loop {
        let ready = match epoll.wait(&mut events, EpollTimeout::NONE) {
            Ok(ready) => ready,
            Err(nix::errno::Errno::EINTR) => continue,
            Err(errno) => return Err(errno).context("epoll_wait"),
        };
        for event in &events[..ready] {
            if event.data() == LISTENER {
                accept(epoll, listener, &mut connections)?;
                continue;
            }
            let slot = &mut connections[event.data() as usize];
            if slot
                .as_mut()
                .is_some_and(|stream| !read_once(stream, &mut buffer, tally))
            {
                *slot = None;
            }
        }
    }
}

fn accept(
    epoll: &Epoll,
    listener: &TcpListener,
    connections: &mut Vec<Option<TcpStream>>,
) -> Result<()> {
    match listener.accept() {
        Ok((stream, _)) => {
            stream.set_nonblocking(true)?;
            let token = connections.len() as u64;
            epoll.add(stream.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN, token))?;
            connections.push(Some(stream));
            Ok(())
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
        Err(error) => Err(error).context("accept"),
    }
}

/// Reads once; true if the connection lives on.
fn read_once(stream: &mut TcpStream, buffer: &mut [u8], tally: &LoopCounters) -> bool {
    match stream.read(buffer) {
        Ok(0) => false,
        Ok(length) => {
            tally.add(count_lines(&buffer[..length]), length as u64);
            true
        }
        Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
    }
}

/// One search a line, as a receiver that uses each line must do it; counting newlines in bulk
/// would be cheaper and would find none of them.
fn count_lines(mut bytes: &[u8]) -> u64 {
    let mut lines = 0;
    while let Some(end) = memchr::memchr(b'\n', bytes) {
        bytes = &bytes[end + 1..];
        lines += 1;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::count_lines;

    #[test]
    fn a_line_counts_when_its_newline_is_there() {
        assert_eq!(count_lines(b""), 0);
        assert_eq!(count_lines(b"half"), 0);
        assert_eq!(count_lines(b"one\ntwo\nhalf"), 2);
        assert_eq!(count_lines(b"\n\n"), 2);
    }
}
