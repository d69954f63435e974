//! One host of the demo: its socket, its address, and how it writes a message.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp, Zoned, tz::TimeZone};
use socket2::{Domain, Socket, Type};

use super::products::{DemoHost, DemoProduct, Habit, SyslogHeader, WireFraming};
use super::template::MessageTemplate;

/// Bytes that wait for a receiver that does not read. Then the host says nothing until it does.
const WAITING_BYTES_MAX: usize = 256 * 1024;

/// Connect timeout.
const CONNECT_MAX: Duration = Duration::from_secs(2);

enum DemoSocket {
    Udp(UdpSocket),
    Tcp(TcpStream),
    /// The connection broke, and is made again.
    Broken,
}

/// A host with its product's templates.
pub(super) struct DemoSender {
    product: &'static DemoProduct,
    pub(super) host: &'static DemoHost,
    /// With the weight of each.
    templates: Vec<(u32, u8, MessageTemplate)>,
    weights: u32,
    to: SocketAddr,
    from: Option<Ipv4Addr>,
    door: DemoSocket,
    zone: TimeZone,
    /// Bytes of messages for TCP that the kernel has not taken yet.
    waiting: Vec<u8>,
    /// End offset of each of them there.
    ends: VecDeque<usize>,
    text: String,
    numbered: u64,
    /// Messages of which the kernel took every byte.
    pub(super) sent: u64,
    /// Bytes that it took, framing included.
    pub(super) bytes: u64,
}

/// Fate of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SendFate {
    /// It is with the kernel, or waits to be handed to it.
    Out,
    /// There was no room, or no connection.
    Unsaid,
}

impl DemoSender {
    /// Host `number` of the demo, with an address of its own where it sends to the loopback net.
    ///
    /// # Errors
    /// What the kernel says. Over UDP it says nothing of a receiver that is not there.
    pub(super) fn open(
        product: &'static DemoProduct,
        host: &'static DemoHost,
        number: u8,
        to: SocketAddr,
    ) -> io::Result<Self> {
        let read = |line: &super::products::WeightedText| {
            Some((
                line.weight,
                line.severity,
                MessageTemplate::read(line.text)?,
            ))
        };
        let templates: Vec<_> = product.lines.iter().filter_map(read).collect();
        let local = matches!(to.ip(), IpAddr::V4(ip) if ip.is_loopback());
        let mut sender = Self {
            product,
            host,
            weights: templates.iter().map(|(weight, ..)| weight).sum(),
            templates,
            to,
            from: local.then(|| Ipv4Addr::new(127, 0, 1, number)),
            door: DemoSocket::Broken,
            zone: TimeZone::system(),
            waiting: Vec::new(),
            ends: VecDeque::new(),
            text: String::new(),
            numbered: 0,
            sent: 0,
            bytes: 0,
        };
        sender.connect()?;
        Ok(sender)
    }

    /// Makes its connection if it has none.
    pub(super) fn connect(&mut self) -> io::Result<()> {
        if !matches!(self.door, DemoSocket::Broken) {
            return Ok(());
        }
        let kind = match self.product.wire {
            WireFraming::Udp => Type::DGRAM,
            WireFraming::Lines | WireFraming::Octets => Type::STREAM,
        };
        let socket = Socket::new(Domain::for_address(self.to), kind, None)?;
        if let Some(from) = self.from {
            socket.bind(&SocketAddr::from((from, 0)).into())?;
        }
        self.door = match self.product.wire {
            WireFraming::Udp => {
                socket.connect(&self.to.into())?;
                DemoSocket::Udp(socket.into())
            }
            WireFraming::Lines | WireFraming::Octets => {
                socket.connect_timeout(&self.to.into(), CONNECT_MAX)?;
                socket.set_nonblocking(true)?;
                DemoSocket::Tcp(socket.into())
            }
        };
        // The rest of what was begun on a connection that broke is no message on this one.
        self.waiting.clear();
        self.ends.clear();
        Ok(())
    }

    /// True if its connection broke.
    pub(super) fn is_broken(&self) -> bool {
        matches!(self.door, DemoSocket::Broken)
    }

    /// Says one thing.
    ///
    /// # Errors
    /// What the kernel says. A connection is broken then.
    pub(super) fn say(&mut self, rng: &mut fastrand::Rng) -> io::Result<SendFate> {
        if self.is_broken() || self.waiting.len() > WAITING_BYTES_MAX {
            return Ok(SendFate::Unsaid);
        }
        self.write_message(rng);
        if let DemoSocket::Udp(socket) = &self.door {
            return match socket.send(self.text.as_bytes()) {
                Ok(bytes) => {
                    self.sent += 1;
                    self.bytes += bytes as u64;
                    Ok(SendFate::Out)
                }
                Err(error) => Err(error),
            };
        }
        match self.product.wire {
            WireFraming::Octets => {
                // Writing to a Vec cannot fail.
                let _ = write!(self.waiting, "{} {}", self.text.len(), self.text);
            }
            WireFraming::Lines | WireFraming::Udp => {
                self.waiting.extend_from_slice(self.text.as_bytes());
                self.waiting.push(b'\n');
            }
        }
        self.ends.push_back(self.waiting.len());
        Ok(SendFate::Out)
    }

    /// Hands the kernel what waits, as far as it takes it.
    ///
    /// # Errors
    /// The connection broke; what waited is lost with it.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let DemoSocket::Tcp(socket) = &mut self.door else {
            return Ok(());
        };
        let mut taken = 0;
        let result = loop {
            if taken == self.waiting.len() {
                break Ok(());
            }
            match socket.write(&self.waiting[taken..]) {
                Ok(n) => taken += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        if result.is_err() {
            self.door = DemoSocket::Broken;
        }
        self.waiting.drain(..taken);
        self.bytes += taken as u64;
        while self.ends.front().is_some_and(|end| *end <= taken) {
            self.ends.pop_front();
            self.sent += 1;
        }
        self.ends.iter_mut().for_each(|end| *end -= taken);
        result
    }

    /// True if everything that it said is with the kernel, or its connection broke.
    pub(super) fn is_done(&self) -> bool {
        self.is_broken() || self.waiting.is_empty()
    }

    fn write_message(&mut self, rng: &mut fastrand::Rng) {
        let mut pick = rng.u32(0..self.weights.max(1));
        let chosen = self.templates.iter().find(|(weight, ..)| {
            let here = pick < *weight;
            pick = pick.saturating_sub(*weight);
            here
        });
        let Some((_, severity, template)) = chosen else {
            return;
        };
        let ahead = match self.host.habit {
            Habit::ClockAhead(seconds) => SignedDuration::from_secs(seconds.into()),
            Habit::Steady | Habit::FallsSilent => SignedDuration::ZERO,
        };
        let now = (Timestamp::now() + ahead).to_zoned(self.zone.clone());
        let priority = self.product.facility * 8 + severity;
        self.numbered += 1;
        self.text.clear();
        header(
            self.product.header,
            priority,
            self.host.name,
            &now,
            self.numbered,
            &mut self.text,
        );
        template.write(self.host.name, &now, rng, &mut self.text);
    }
}

/// Writes what stands before the text.
fn header(
    kind: SyslogHeader,
    priority: u8,
    host: &str,
    now: &Zoned,
    number: u64,
    out: &mut String,
) {
    // Writing to a String cannot fail.
    let _ = match kind {
        SyslogHeader::Rfc3164(tag) => {
            let time = now.strftime("%b %e %H:%M:%S");
            write!(out, "<{priority}>{time} {host} {tag}")
        }
        SyslogHeader::Rfc5424 { app, msg_id } => {
            let time = now.strftime("%Y-%m-%dT%H:%M:%S%.6f%:z");
            write!(out, "<{priority}>1 {time} {host} {app} 4711 {msg_id} - ")
        }
        SyslogHeader::Priority => write!(out, "<{priority}>"),
        SyslogHeader::Numbered => {
            let time = now.strftime("%b %e %H:%M:%S%.3f");
            write!(out, "<{priority}>{number}: {host}: {time}: ")
        }
        SyslogHeader::Nothing => Ok(()),
    };
}
