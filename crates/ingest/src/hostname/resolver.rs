//! The thread that asks DNS.
//!
//! One thread, up to [`IN_FLIGHT_MAX`] lookups, each try over a UDP socket of its own: the kernel
//! chooses its port and takes answers from the server alone, which with the number of the question
//! is what a forger has to guess. A server that does not answer in time is followed by the next
//! one. There is no TCP: a name that does not fit into a datagram is none that we take.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use mio::net::UdpSocket;
use mio::{Events, Interest, Poll, Token, Waker};
use slab::Slab;

use super::dns_message::{self, ANSWER_BYTES_MAX, DnsAnswer};
use super::reverse::DnsCache;
use crate::options::ReverseDnsOptions;

const WAKE: Token = Token(usize::MAX);

/// Lookups at once. A resolver near by answers in milliseconds; one that does not bounds what
/// spoofed senders can make us send to 32 datagrams a second with the default timeout.
const IN_FLIGHT_MAX: usize = 64;

/// Times that each server is asked for an address.
const TRIES: usize = 2;

/// Datagrams that do not answer the question, before the try is given up.
const DATAGRAMS_MAX: usize = 16;

/// Servers that are asked, at most, of those that the system has.
const SYSTEM_SERVERS_MAX: usize = 3;

/// The file that names the system's servers.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Bytes of that file that are read.
const RESOLV_CONF_BYTES_MAX: u64 = 64 * 1024;

/// It is read again after this long, if something is looked up.
const RESOLV_CONF_EVERY: Duration = Duration::from_secs(30);

/// Starts the thread; it ends when the other side of `inbox` does and it is woken.
///
/// # Errors
/// The kernel has no thread or descriptor left.
pub(super) fn start(
    options: &ReverseDnsOptions,
    inbox: Receiver<IpAddr>,
    answers: Arc<DnsCache>,
) -> io::Result<Waker> {
    let poll = Poll::new()?;
    let waker = Waker::new(poll.registry(), WAKE)?;
    let resolver = Resolver {
        poll,
        inbox,
        answers,
        lookups: Slab::new(),
        servers: NameServers::new(options),
        keep_fqdn: options.keep_fqdn,
        timeout: options.timeout.0,
    };
    thread::Builder::new()
        .name("resolver".to_owned())
        .spawn(move || resolver.run())?;
    Ok(waker)
}

/// The servers to ask.
struct NameServers {
    list: Vec<SocketAddr>,
    /// Time at which the system's were last read; `None` before that, and if they are given.
    read_at: Option<Instant>,
    given: bool,
}

impl NameServers {
    fn new(options: &ReverseDnsOptions) -> Self {
        let list: Vec<SocketAddr> = options.servers.iter().map(|server| server.0).collect();
        Self {
            given: !list.is_empty(),
            list,
            read_at: None,
        }
    }

    /// Those of now.
    fn of(&mut self, now: Instant) -> &[SocketAddr] {
        let old = self
            .read_at
            .is_none_or(|at| now.duration_since(at) >= RESOLV_CONF_EVERY);
        if !self.given && old {
            self.list = system_servers(Path::new(RESOLV_CONF));
            if self.list.is_empty() {
                let remedy = "give hosts.reverse_dns.servers";
                tracing::warn!("{RESOLV_CONF} names no DNS server; {remedy}");
            }
            self.read_at = Some(now);
        }
        &self.list
    }
}

/// The `nameserver` lines of a file.
fn system_servers(path: &Path) -> Vec<SocketAddr> {
    let text = inrush_files::read_to_string(path, RESOLV_CONF_BYTES_MAX).unwrap_or_default();
    let server = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let address = words
            .next()
            .filter(|word| *word == "nameserver")
            .and(words.next())?;
        let server: Option<crate::options::DnsServer> = address.parse().ok();
        server.map(|server| server.0)
    };
    text.lines()
        .filter_map(server)
        .take(SYSTEM_SERVERS_MAX)
        .collect()
}

/// One address that is being asked for.
struct DnsLookup {
    ip: IpAddr,
    /// The number of the question, another one each time.
    id: u16,
    socket: UdpSocket,
    /// The try that this is, from 0.
    number: usize,
    deadline: Instant,
}

struct Resolver {
    poll: Poll,
    inbox: Receiver<IpAddr>,
    answers: Arc<DnsCache>,
    lookups: Slab<DnsLookup>,
    servers: NameServers,
    keep_fqdn: bool,
    timeout: Duration,
}

impl Resolver {
    fn run(mut self) {
        let mut events = Events::with_capacity(IN_FLIGHT_MAX);
        while self.take_orders() {
            let next = self.lookups.iter().map(|(_, lookup)| lookup.deadline).min();
            let wait = next.map(|at| at.saturating_duration_since(Instant::now()));
            if let Err(error) = self.poll.poll(&mut events, wait)
                && error.kind() != io::ErrorKind::Interrupted
            {
                tracing::error!(%error, "the resolver cannot wait; senders are not looked up");
                return;
            }
            for event in &events {
                if event.token() != WAKE {
                    self.read(event.token().0);
                }
            }
            self.expire(Instant::now());
        }
    }

    /// Begins what there is room for; false once nobody asks any more.
    fn take_orders(&mut self) -> bool {
        while self.lookups.len() < IN_FLIGHT_MAX {
            match self.inbox.try_recv() {
                Ok(ip) => self.ask(ip, 0),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
        true
    }

    /// Asks from the try `number` on, until a question is on its way or nobody is left to ask.
    fn ask(&mut self, ip: IpAddr, number: usize) {
        let now = Instant::now();
        let servers = self.servers.of(now).to_vec();
        for number in number..servers.len() * TRIES {
            if self
                .send(ip, number, servers[number % servers.len()], now)
                .is_ok()
            {
                return;
            }
        }
        self.answers.settle(ip, DnsAnswer::Failed, now);
    }

    fn send(
        &mut self,
        ip: IpAddr,
        number: usize,
        server: SocketAddr,
        now: Instant,
    ) -> io::Result<()> {
        let id = getrandom::u32()? as u16;
        let question = dns_message::question(id, ip).ok_or(io::ErrorKind::InvalidInput)?;
        let own: IpAddr = match server {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let mut socket = UdpSocket::bind(SocketAddr::new(own, 0))?;
        socket.connect(server)?;
        let entry = self.lookups.vacant_entry();
        let registry = self.poll.registry();
        registry.register(&mut socket, Token(entry.key()), Interest::READABLE)?;
        socket.send(&question)?;
        entry.insert(DnsLookup {
            ip,
            id,
            socket,
            number,
            deadline: now + self.timeout,
        });
        Ok(())
    }

    /// Reads what came for a lookup, until it is its answer.
    fn read(&mut self, key: usize) {
        let mut bytes = [0; ANSWER_BYTES_MAX];
        for _ in 0..DATAGRAMS_MAX {
            // It may have ended earlier in this round.
            let Some(lookup) = self.lookups.get(key) else {
                return;
            };
            let said = match lookup.socket.recv(&mut bytes) {
                Ok(n) => dns_message::answer(&bytes[..n], lookup.id, lookup.ip, self.keep_fqdn),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The port is closed: nobody will answer.
                Err(_) => Some(DnsAnswer::Failed),
            };
            match said {
                None => {}
                Some(DnsAnswer::Failed) => return self.again(key),
                Some(said) => {
                    let lookup = self.lookups.remove(key);
                    return self.answers.settle(lookup.ip, said, Instant::now());
                }
            }
        }
        self.again(key);
    }

    /// Gives up the try, and begins the next.
    fn again(&mut self, key: usize) {
        let DnsLookup { ip, number, .. } = self.lookups.remove(key);
        self.ask(ip, number + 1);
    }

    fn expire(&mut self, now: Instant) {
        let late = |(key, lookup): (usize, &DnsLookup)| (lookup.deadline <= now).then_some(key);
        let late: Vec<usize> = self.lookups.iter().filter_map(late).collect();
        late.into_iter().for_each(|key| self.again(key));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_servers_of_the_system_are_its_nameserver_lines() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("resolv.conf");
        assert!(system_servers(&path).is_empty());
        let text = "# nameserver 192.0.2.1\nsearch example.com\n nameserver\t192.0.2.53 # here\n\
            nameserver ::1\nnameserver odd\nnameserver\nnameservers 192.0.2.2\n\
            nameserver 192.0.2.54\nnameserver 192.0.2.55\n";
        std::fs::write(&path, text).unwrap();
        let shown: Vec<String> = system_servers(&path)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(shown, ["192.0.2.53:53", "[::1]:53", "192.0.2.54:53"]);
    }
}
