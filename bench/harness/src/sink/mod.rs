//! A Splunk HEC endpoint that counts and forgets: what `hec` and `reload` deliver to.
//!
//! One thread, level-triggered epoll, a read buffer that stays in the cache. It says
//! `ready PORT` on stdout; `GET /count` answers [`SinkCounts`] as JSON; it ends with its stdin.
//! [`serve_on_threads`] gives the requests of others' connections, read as here, to a handler.

mod count;
mod http;
mod threads;

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use crate::bare::say;
use count::Counter;
use http::Exchange;

pub use count::{Latency, SinkCounts};
pub use http::{HecHandler, RequestHead, SUCCESS};
pub use threads::serve_on_threads;

/// epoll's token for the listener; connections are numbered from 0.
const LISTENER: u64 = u64::MAX;

/// Bytes a read; half of a small second-level cache, so that counting reads what is warm.
const READ_BYTES: usize = 256 << 10;

/// How to run the sink.
#[derive(Args, Debug)]
pub struct HecSink {
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Also note the sequence number of every event, to tell what is missing or came twice.
    #[arg(long)]
    verify: bool,
    /// Also note, of every 16th event, how long ago the generator sent it.
    #[arg(long)]
    latency: bool,
    /// Answer so many milliseconds after a request, as a collector far away.
    #[arg(long, value_name = "MS", default_value_t = 0)]
    delay: u64,
    /// Answer as one that takes so many events a second; 0 is one without a limit.
    #[arg(long, value_name = "EVENTS", default_value_t = 0)]
    rate: u64,
}

/// Times at which answers are given: after a delay, at a rate.
struct AnswerPacer {
    delay: Duration,
    /// Events a second; 0 is any number.
    rate: u64,
    /// Time at which what came so far counts as taken, at that rate.
    taken: Instant,
    /// Requests that came before.
    requests: u64,
    /// Events that came before.
    events: u64,
    /// Connections that wait for an answer, the first first.
    waiting: VecDeque<PendingAnswer>,
}

/// A connection that waits for the answer to so many events.
struct PendingAnswer {
    due: Instant,
    token: usize,
    events: u64,
}

impl AnswerPacer {
    fn new(args: &HecSink) -> Self {
        Self {
            delay: Duration::from_millis(args.delay),
            rate: args.rate,
            taken: Instant::now(),
            requests: 0,
            events: 0,
            waiting: VecDeque::new(),
        }
    }

    /// Number of events that have come, and the time of their answer if not at once.
    fn due(&mut self, counts: &SinkCounts, now: Instant) -> (u64, Option<Instant>) {
        let requests = counts.requests - std::mem::replace(&mut self.requests, counts.requests);
        let events = counts.events - std::mem::replace(&mut self.events, counts.events);
        if requests == 0 || (self.delay.is_zero() && self.rate == 0) {
            return (events, None);
        }
        if self.rate > 0 {
            let takes = Duration::from_secs_f64(events as f64 / self.rate as f64);
            self.taken = self.taken.max(now) + takes;
        }
        (events, Some(self.taken.max(now + self.delay)))
    }

    /// Time left until the first answer is due; none if none is.
    fn timeout(&self) -> EpollTimeout {
        let Some(first) = self.waiting.front() else {
            return EpollTimeout::NONE;
        };
        let left = first.due.saturating_duration_since(Instant::now());
        let millis = left.as_micros().div_ceil(1000);
        EpollTimeout::try_from(millis).unwrap_or(EpollTimeout::MAX)
    }
}

struct Connection {
    stream: TcpStream,
    exchange: Exchange<Counter>,
    /// Answers that the peer has not yet read.
    unsent: Vec<u8>,
}

struct Server {
    epoll: Epoll,
    listener: TcpListener,
    connections: Vec<Option<Connection>>,
    counter: Counter,
    pace: AnswerPacer,
    buffer: Vec<u8>,
}

/// Runs until stdin ends.
pub fn run(args: &HecSink) -> Result<()> {
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
        pace: AnswerPacer::new(args),
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
            let ready = match self.epoll.wait(&mut events, self.pace.timeout()) {
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
            self.answer_due();
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
                let exchange = Exchange::new();
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
                let (events, due) = match connection.unsent.is_empty() {
                    true => (0, None),
                    false => self.pace.due(&self.counter.counts(), Instant::now()),
                };
                match (understood, due) {
                    (None, _) => false,
                    (_, None) => {
                        self.counter.answer(events);
                        flush(connection)
                    }
                    (_, Some(due)) => {
                        let waiting = PendingAnswer { due, token, events };
                        self.pace.waiting.push_back(waiting);
                        true
                    }
                }
            }
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        };
        if !lives {
            self.connections[token] = None;
        }
    }

    /// Gives the answers whose time has come.
    fn answer_due(&mut self) {
        let now = Instant::now();
        while let Some(first) = self.pace.waiting.pop_front_if(|first| first.due <= now) {
            self.counter.answer(first.events);
            let connection = self.connections.get_mut(first.token);
            if let Some(place) = connection
                && !place.as_mut().is_some_and(flush)
            {
                *place = None;
            }
        }
    }
}

/// Sends the answers; true if the connection lives on. Answers are a hundred bytes: they always fit
/// the socket unless the peer stopped reading, and a peer that does that is not kept.
fn flush(connection: &mut Connection) -> bool {
    let sent = connection.stream.write_all(&connection.unsent).is_ok();
    connection.unsent.clear();
    sent
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(delay: u64, rate: u64) -> AnswerPacer {
        AnswerPacer::new(&HecSink {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            verify: false,
            latency: false,
            delay,
            rate,
        })
    }

    fn counts(requests: u64, events: u64) -> SinkCounts {
        SinkCounts {
            requests,
            events,
            ..SinkCounts::default()
        }
    }

    #[test]
    fn answers_wait_for_the_delay_and_for_the_rate() {
        let now = Instant::now();
        let ms = Duration::from_millis;
        assert_eq!(pace(0, 0).due(&counts(1, 100), now), (100, None));
        let mut far = pace(50, 0);
        assert_eq!(far.due(&counts(1, 100), now), (100, Some(now + ms(50))));
        assert_eq!(far.due(&counts(1, 100), now), (0, None), "nothing new");
        let mut slow = pace(0, 1000);
        let later = now + ms(5000);
        let due = slow.due(&counts(1, 100), later);
        assert_eq!(due, (100, Some(later + ms(100))));
        let due = slow.due(&counts(2, 300), later);
        assert_eq!(due, (200, Some(later + ms(300))));
    }
}
