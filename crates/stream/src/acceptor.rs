//! The acceptor: one thread that takes new connections of all listeners and gives each to the
//! stream worker that has the fewest.

use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use inrush_transport::config::{ListenAddr, ProxyHeader};
use inrush_transport::refusal::Refusal;
use inrush_transport::stream::{AcceptOptions, Connection, EndReason};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use slab::Slab;

use super::source::{StreamSettings, StreamSource};
use super::worker::WorkerHandle;
use crate::connection_limit::{AddressLimit, ConnectionLimiter, ConnectionPermit, LimitReached};

const WAKE: Token = Token(usize::MAX);

/// With no file descriptors left, accepting is tried again after this long.
const RETRY: Duration = Duration::from_millis(100);

/// Waiting connections that are closed at a time when no descriptor is left.
const CLOSED_PER_TURN: usize = 64;

/// Connections taken of one listener before the next one has its turn.
const ACCEPTS_PER_TURN: usize = 256;

enum AcceptorCommand {
    Listen(Box<StreamListener>),
    /// Close the listener of that configured address.
    Close(ListenAddr, Sender<()>),
    Stop,
}

/// A listener and what its connections need.
pub(crate) struct StreamListener {
    /// The address as configured.
    pub configured: ListenAddr,
    pub listener: TcpListener,
    pub source: Arc<StreamSource>,
}

/// The running acceptor.
pub(crate) struct Acceptor {
    orders: Sender<AcceptorCommand>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Acceptor {
    pub(crate) fn start(
        workers: Vec<WorkerHandle>,
        places: Arc<ConnectionLimiter>,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKE)?;
        let (orders, inbox) = mpsc::channel();
        let worker = AcceptLoop {
            poll,
            inbox,
            workers,
            doors: Slab::new(),
            places,
            spare: spare(),
            stopping: false,
        };
        let thread = thread::Builder::new()
            .name("acceptor".to_owned())
            .spawn(move || worker.run())?;
        Ok(Self {
            orders,
            waker,
            thread: Some(thread),
        })
    }

    pub(crate) fn listen(&self, door: StreamListener) {
        self.order(AcceptorCommand::Listen(Box::new(door)));
    }

    /// Returns when the address is free.
    pub(crate) fn close(&self, configured: ListenAddr) {
        let (closed, done) = mpsc::channel();
        self.order(AcceptorCommand::Close(configured, closed));
        // An error means that the thread, and with it the listener, is gone.
        let _ = done.recv();
    }

    /// Closes all listeners and waits for the thread.
    pub(crate) fn stop(mut self) {
        self.order(AcceptorCommand::Stop);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the acceptor ended by a fault");
        }
    }

    /// True if the acceptor's thread has ended.
    pub(crate) fn ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn order(&self, order: AcceptorCommand) {
        if self.orders.send(order).is_ok()
            && let Err(error) = self.waker.wake()
        {
            tracing::error!(%error, "cannot wake the acceptor");
        }
    }
}

struct AcceptLoop {
    poll: Poll,
    inbox: Receiver<AcceptorCommand>,
    workers: Vec<WorkerHandle>,
    doors: Slab<StreamListener>,
    places: Arc<ConnectionLimiter>,
    /// A descriptor that makes room for a connection to be taken and closed when there is no other.
    spare: Option<File>,
    stopping: bool,
}

/// A descriptor to be given up.
fn spare() -> Option<File> {
    File::open("/dev/null").ok()
}

impl AcceptLoop {
    fn run(mut self) {
        let mut events = Events::with_capacity(64);
        let mut timeout = None;
        while !self.stopping {
            if let Err(error) = self.poll.poll(&mut events, timeout)
                && error.kind() != io::ErrorKind::Interrupted
            {
                tracing::error!(%error, "waiting for connections failed");
                thread::sleep(RETRY);
            }
            self.obey();
            // Readiness is an edge, and a listener may have been left half emptied: try all.
            let doors = std::mem::take(&mut self.doors);
            let waits = doors.iter().filter_map(|(_, door)| self.accept(door));
            timeout = waits.min();
            self.doors = doors;
        }
    }

    fn obey(&mut self) {
        while let Ok(order) = self.inbox.try_recv() {
            match order {
                AcceptorCommand::Listen(door) => self.listen(*door),
                AcceptorCommand::Close(configured, closed) => {
                    self.doors.retain(|_, door| door.configured != configured);
                    // Nobody waiting is no error.
                    let _ = closed.send(());
                }
                AcceptorCommand::Stop => self.stopping = true,
            }
        }
    }

    fn listen(&mut self, door: StreamListener) {
        let key = self.doors.insert(door);
        let listener = &mut self.doors[key].listener;
        let interest = Interest::READABLE;
        if let Err(error) = self
            .poll
            .registry()
            .register(listener, Token(key), interest)
        {
            tracing::error!(%error, "cannot watch a listener");
            self.doors.remove(key);
        }
    }

    /// Takes what waits at a door; says when to come back if something is left.
    fn accept(&mut self, door: &StreamListener) -> Option<Duration> {
        for _ in 0..ACCEPTS_PER_TURN {
            match door.listener.accept() {
                Ok((socket, peer)) => self.welcome(door, socket, peer),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return None,
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {}
                    _ if is_out_of_descriptors(&error) => {
                        self.close_waiting(door);
                        return Some(RETRY);
                    }
                    // Out of memory: the connection waits in the backlog.
                    _ => return Some(RETRY),
                },
            }
        }
        Some(Duration::ZERO)
    }

    /// Closes connections that wait while no descriptor is left at all, not even of the reserve:
    /// their senders learn of it, and the listener's readiness does not call us for ever.
    fn close_waiting(&mut self, door: &StreamListener) {
        for _ in 0..CLOSED_PER_TURN {
            self.spare = None;
            let accepted = door.listener.accept();
            let taken = accepted.map(|(socket, peer)| {
                drop(socket);
                peer
            });
            self.spare = spare();
            let Ok(peer) = taken else {
                return;
            };
            door.source.connections_accepted.add(1);
            let ip = peer.ip().to_canonical();
            door.source
                .turn_away(ip, Refusal::NoDescriptors, String::new());
        }
    }

    fn welcome(&self, door: &StreamListener, socket: TcpStream, peer: SocketAddr) {
        let settings = door.source.settings();
        let source = &door.source;
        source.connections_accepted.add(1);
        let ip = peer.ip().to_canonical();
        let proxy = settings.options.proxy_header(ip);
        let place = match self.place(source, &settings, proxy, (&socket, ip)) {
            Ok(place) => place,
            Err(refusal) => return source.turn_away(ip, refusal, String::new()),
        };
        let protocol = door.configured.protocol;
        let tls = settings.tls.as_ref().filter(|_| protocol.is_tls());
        let opening = AcceptOptions {
            protocol,
            tls: tls.cloned(),
            proxy,
            deadline: Instant::now() + settings.options.handshake_timeout.0,
        };
        let least = self.workers.iter().min_by_key(|worker| worker.load());
        match (Connection::new(socket, peer, opening), least) {
            (Ok(connection), Some(worker)) => worker.give(source, connection, place),
            _ => source.end(EndReason::Reset),
        }
    }

    /// A place for a new connection, or why there is none.
    fn place(
        &self,
        source: &StreamSource,
        settings: &StreamSettings,
        proxy: ProxyHeader,
        (socket, ip): (&TcpStream, IpAddr),
    ) -> Result<ConnectionPermit, Refusal> {
        if proxy == ProxyHeader::Closed {
            return Err(Refusal::UntrustedProxy);
        }
        if source.connections.get() >= settings.options.max_connections.get() as u64 {
            return Err(Refusal::TooMany);
        }
        let descriptor = u64::try_from(socket.as_raw_fd()).unwrap_or(u64::MAX);
        // Whoever is behind a proxy is known only after its header.
        let bound = match proxy {
            ProxyHeader::Required => AddressLimit::NONE,
            _ => settings.bound(),
        };
        self.places
            .take(descriptor, source.number(), ip, bound)
            .map_err(|full| match full {
                LimitReached::Address => Refusal::OfAddress,
                LimitReached::Descriptors => Refusal::NoDescriptors,
            })
    }
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    const EMFILE: i32 = 24;
    const ENFILE: i32 = 23;
    matches!(error.raw_os_error(), Some(EMFILE | ENFILE))
}
