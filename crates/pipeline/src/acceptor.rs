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
use inrush_transport::stream::{Connection, EndReason, Opening};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use slab::Slab;

use crate::places::{Bound, Full, Place, Places};
use crate::source::{Settings, Source};
use crate::stream::WorkerHandle;

const WAKE: Token = Token(usize::MAX);

/// With no file descriptors left, accepting is tried again after this long.
const RETRY: Duration = Duration::from_millis(100);

/// Waiting connections that are closed at a time when no descriptor is left.
const CLOSED_PER_TURN: usize = 64;

/// Connections taken of one listener before the next one has its turn.
const ACCEPTS_PER_TURN: usize = 256;

enum Order {
    Listen(Box<Door>),
    /// Close the listener of that configured address.
    Close(ListenAddr, Sender<()>),
    Stop,
}

/// A listener and what its connections need.
pub(crate) struct Door {
    /// The address as configured.
    pub(crate) configured: ListenAddr,
    pub(crate) listener: TcpListener,
    pub(crate) source: Arc<Source>,
}

/// The running acceptor.
pub(crate) struct Acceptor {
    orders: Sender<Order>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Acceptor {
    pub(crate) fn start(workers: Vec<WorkerHandle>, places: Arc<Places>) -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKE)?;
        let (orders, inbox) = mpsc::channel();
        let worker = Worker {
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

    pub(crate) fn listen(&self, door: Door) {
        self.order(Order::Listen(Box::new(door)));
    }

    /// Returns when the address is free.
    pub(crate) fn close(&self, configured: ListenAddr) {
        let (closed, done) = mpsc::channel();
        self.order(Order::Close(configured, closed));
        // An error means that the thread, and with it the listener, is gone.
        let _ = done.recv();
    }

    /// Closes all listeners and waits for the thread.
    pub(crate) fn stop(mut self) {
        self.order(Order::Stop);
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

    fn order(&self, order: Order) {
        if self.orders.send(order).is_ok()
            && let Err(error) = self.waker.wake()
        {
            tracing::error!(%error, "cannot wake the acceptor");
        }
    }
}

struct Worker {
    poll: Poll,
    inbox: Receiver<Order>,
    workers: Vec<WorkerHandle>,
    doors: Slab<Door>,
    places: Arc<Places>,
    /// A descriptor that makes room for a connection to be taken and closed when there is no other.
    spare: Option<File>,
    stopping: bool,
}

/// A descriptor to be given up.
fn spare() -> Option<File> {
    File::open("/dev/null").ok()
}

impl Worker {
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
                Order::Listen(door) => self.listen(*door),
                Order::Close(configured, closed) => {
                    self.doors.retain(|_, door| door.configured != configured);
                    // Nobody waiting is no error.
                    let _ = closed.send(());
                }
                Order::Stop => self.stopping = true,
            }
        }
    }

    fn listen(&mut self, door: Door) {
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
    fn accept(&mut self, door: &Door) -> Option<Duration> {
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
    fn close_waiting(&mut self, door: &Door) {
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

    fn welcome(&self, door: &Door, socket: TcpStream, peer: SocketAddr) {
        let (_, settings) = door.source.settings();
        let source = &door.source;
        source.connections_accepted.add(1);
        let ip = peer.ip().to_canonical();
        let proxy = settings.stream.proxy_header(ip);
        let place = match self.place(source, &settings, proxy, (&socket, ip)) {
            Ok(place) => place,
            Err(refusal) => return source.turn_away(ip, refusal, String::new()),
        };
        let protocol = door.configured.protocol;
        let tls = settings.tls.as_ref().filter(|_| protocol.is_tls());
        let opening = Opening {
            protocol,
            tls: tls.cloned(),
            proxy,
            deadline: Instant::now() + settings.stream.handshake_timeout.0,
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
        source: &Source,
        settings: &Settings,
        proxy: ProxyHeader,
        (socket, ip): (&TcpStream, IpAddr),
    ) -> Result<Place, Refusal> {
        if proxy == ProxyHeader::Closed {
            return Err(Refusal::UntrustedProxy);
        }
        if source.connections.get() >= settings.stream.max_connections.get() as u64 {
            return Err(Refusal::TooMany);
        }
        let descriptor = u64::try_from(socket.as_raw_fd()).unwrap_or(u64::MAX);
        // Whoever is behind a proxy is known only after its header.
        let bound = match proxy {
            ProxyHeader::Required => Bound::NONE,
            _ => settings.bound(),
        };
        self.places
            .take(descriptor, source.number(), ip, bound)
            .map_err(|full| match full {
                Full::Address => Refusal::OfAddress,
                Full::Descriptors => Refusal::NoDescriptors,
            })
    }
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    const EMFILE: i32 = 24;
    const ENFILE: i32 = 23;
    matches!(error.raw_os_error(), Some(EMFILE | ENFILE))
}
