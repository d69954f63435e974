//! A Splunk HEC endpoint that counts and forgets: what `hec` and `reload` deliver to.
//!
//! One thread, level-triggered epoll, a read buffer that stays in the cache. It says
//! `ready PORT` on stdout; `GET /count` answers [`Counts`] as JSON; it ends with its stdin.

mod count;
mod http;

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::thread;

use anyhow::{Context, Result};
use clap::Args;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use count::Counter;
pub(crate) use count::{Counts, Latency};
use http::Exchange;

use crate::bare::say;

/// epoll's token for the listener; connections are numbered from 0.
const LISTENER: u64 = u64::MAX;

/// Bytes a read; half of a small second-level cache, so that counting reads what is warm.
const READ_BYTES: usize = 256 << 10;

/// How to run the sink.
#[derive(Args, Debug)]
pub(crate) struct HecSink {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Also note the sequence number of every event, to tell what is missing or came twice.
    #[arg(long)]
    verify: bool,
    /// Also note, of every 16th event, how long ago the generator sent it.
    #[arg(long)]
    latency: bool,
}

struct Connection {
    stream: TcpStream,
    exchange: Exchange,
    /// Answers that the peer has not yet read.
    unsent: Vec<u8>,
}

struct Server {
    epoll: Epoll,
    listener: TcpListener,
    connections: Vec<Option<Connection>>,
    counter: Counter,
    buffer: Vec<u8>,
}

/// Runs until stdin ends.
pub(crate) fn run(args: &HecSink) -> Result<()> {
    let listener = TcpListener::bind(args.listen).with_context(|| args.listen.to_string())?;
    listener.set_nonblocking(true)?;
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    epoll.add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER))?;
    say(&format!("ready {}", listener.local_addr()?.port()))?;
    let (connections, buffer) = (Vec::new(), vec![0; READ_BYTES]);
    let counter = Counter::new(args.verify, args.latency);
    let mut server = Server {
        epoll,
        listener,
        connections,
        counter,
        buffer,
    };
    thread::spawn(move || {
        if let Err(error) = server.serve() {
            eprintln!("hec-sink: {error:#}");
        }
    });
    io::copy(&mut io::stdin().lock(), &mut io::sink()).context("stdin")?;
    Ok(())
}

impl Server {
    fn serve(&mut self) -> Result<()> {
        let mut events = [EpollEvent::empty(); 64];
        loop {
            let ready = match self.epoll.wait(&mut events, EpollTimeout::NONE) {
                Ok(ready) => ready,
                Err(Errno::EINTR) => continue,
                Err(errno) => return Err(errno).context("epoll_wait"),
            };
            for event in &events[..ready] {
                match event.data() {
                    LISTENER => self.accept()?,
                    token => self.turn(token as usize),
                }
            }
        }
    }

    fn accept(&mut self) -> Result<()> {
        match self.listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                let token = self.connections.len() as u64;
                self.epoll
                    .add(stream.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN, token))?;
                let exchange = Exchange::default();
                self.connections.push(Some(Connection {
                    stream,
                    exchange,
                    unsent: Vec::new(),
                }));
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error).context("accept"),
        }
    }

    fn turn(&mut self, token: usize) {
        let Some(Some(connection)) = self.connections.get_mut(token) else {
            return;
        };
        let lives = match connection.stream.read(&mut self.buffer) {
            Ok(0) => false,
            Ok(length) => {
                let (data, counter) = (&self.buffer[..length], &mut self.counter);
                let understood = connection
                    .exchange
                    .feed(data, counter, &mut connection.unsent);
                understood.is_some() && flush(connection)
            }
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        };
        if !lives {
            self.connections[token] = None;
        }
    }
}

/// Whether the connection lives on. Answers are a hundred bytes: they always fit the socket
/// unless the peer stopped reading, and a peer that does that is not kept.
fn flush(connection: &mut Connection) -> bool {
    let sent = connection.stream.write_all(&connection.unsent).is_ok();
    connection.unsent.clear();
    sent
}
