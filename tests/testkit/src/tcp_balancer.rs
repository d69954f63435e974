//! A load balancer for TCP: connections go to servers in turn, as long as their health is good.
//!
//! A server is down when it does not answer `GET /services/collector/health` with 200 in time. Then
//! its connections are ended, and new ones go to the others.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Longest wait for a connection to a server, and for its health.
const ANSWER_MAX: Duration = Duration::from_millis(500);

/// Pause between two looks at the health of a server.
const CHECK_STEP: Duration = Duration::from_millis(50);

const HEALTH: &[u8] = b"GET /services/collector/health HTTP/1.1\r\nHost: balancer\r\n\
Connection: close\r\n\r\n";

/// A server behind it.
struct Server {
    address: SocketAddr,
    up: AtomicBool,
    /// Both ends of each of its connections, by number.
    connections: Mutex<HashMap<usize, [TcpStream; 2]>>,
}

impl Server {
    fn is_healthy(&self) -> bool {
        let ask = || {
            let mut stream = TcpStream::connect_timeout(&self.address, ANSWER_MAX)?;
            stream.set_read_timeout(Some(ANSWER_MAX))?;
            stream.write_all(HEALTH)?;
            let mut status = [0; 12];
            stream.read_exact(&mut status).map(|()| status)
        };
        ask().is_ok_and(|status: [u8; 12]| status.ends_with(b" 200"))
    }

    fn check(&self) {
        let healthy = self.is_healthy();
        self.up.store(healthy, SeqCst);
        if !healthy {
            self.hang_up();
        }
    }

    fn hang_up(&self) {
        for stream in self.connections.lock().unwrap().values().flatten() {
            // One that the peer has closed needs no end.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

struct Shared {
    servers: Vec<Server>,
    /// Connections so far.
    begun: AtomicUsize,
    stopped: AtomicBool,
}

/// A running balancer.
pub struct TcpBalancer {
    address: SocketAddr,
    shared: Arc<Shared>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl TcpBalancer {
    /// Balances over these servers, which count as up until they were asked.
    pub fn start(servers: &[SocketAddr]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = |address: &SocketAddr| Server {
            address: *address,
            up: AtomicBool::new(true),
            connections: Mutex::default(),
        };
        let shared = Arc::new(Shared {
            servers: servers.iter().map(server).collect(),
            begun: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
        });
        let own = Arc::clone(&shared);
        let mut threads = vec![thread::spawn(move || accept(&own, &listener))];
        for place in 0..servers.len() {
            let own = Arc::clone(&shared);
            threads.push(thread::spawn(move || {
                while !own.stopped.load(SeqCst) {
                    own.servers[place].check();
                    thread::sleep(CHECK_STEP);
                }
            }));
        }
        Self {
            address,
            shared,
            threads,
        }
    }

    /// The address that it listens at.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// True if this server, from 0, gets new connections.
    pub fn is_up(&self, server: usize) -> bool {
        self.shared.servers[server].up.load(SeqCst)
    }
}

impl Drop for TcpBalancer {
    fn drop(&mut self) {
        self.shared.stopped.store(true, SeqCst);
        // The thread that accepts sees the end with the next connection.
        drop(TcpStream::connect(self.address));
        for thread in self.threads.drain(..) {
            assert!(thread.join().is_ok() || thread::panicking());
        }
        self.shared.servers.iter().for_each(Server::hang_up);
    }
}

fn accept(shared: &Arc<Shared>, listener: &TcpListener) {
    for client in listener.incoming().map_while(Result::ok) {
        if shared.stopped.load(SeqCst) {
            return;
        }
        let own = Arc::clone(shared);
        thread::spawn(move || {
            // A client without a server is hung up on, as by any balancer.
            let _ = relay(&own, client);
        });
    }
}

/// Connects to the next server that is up and answers; its turn is the connection's number.
fn next(servers: &[Server], number: usize) -> Option<(&Server, TcpStream)> {
    let in_turn = (0..servers.len()).map(|n| &servers[(number + n) % servers.len()]);
    let mut up = in_turn.filter(|server| server.up.load(SeqCst));
    up.find_map(|server| {
        let stream = TcpStream::connect_timeout(&server.address, ANSWER_MAX);
        Some((server, stream.ok()?))
    })
}

fn relay(shared: &Shared, client: TcpStream) -> Option<()> {
    let number = shared.begun.fetch_add(1, SeqCst);
    let (server, upstream) = next(&shared.servers, number)?;
    let twin = |stream: &TcpStream| {
        stream.set_nodelay(true)?;
        stream.try_clone()
    };
    let ends = [twin(&client).ok()?, twin(&upstream).ok()?];
    server.connections.lock().unwrap().insert(number, ends);
    // It may have gone down, and hung up on all, before this one was among them.
    if !server.up.load(SeqCst) {
        server.hang_up();
    }
    thread::scope(|scope| {
        scope.spawn(|| pass(&client, &upstream));
        pass(&upstream, &client);
    });
    server.connections.lock().unwrap().remove(&number);
    Some(())
}

/// Passes bytes on until either side ends.
fn pass(mut from: &TcpStream, mut to: &TcpStream) {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        match from.read(&mut bytes) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) | Ok(0) => break,
            Ok(length) => {
                if to.write_all(&bytes[..length]).is_err() {
                    // Nobody reads any more: the other direction ends too.
                    let _ = from.shutdown(Shutdown::Both);
                    break;
                }
            }
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
