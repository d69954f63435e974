//! A DNS server on loopback that knows what the test told it of addresses.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// What it says of an address.
#[derive(Clone, Debug)]
pub enum DnsReply {
    /// A name, as labels in text.
    Name(String),
    /// There is none.
    NoName,
    /// Nothing at all.
    Silence,
}

#[derive(Default)]
struct Shared {
    zone: Mutex<HashMap<String, DnsReply>>,
    asked: Mutex<Vec<String>>,
    /// Whether answers wait.
    held: Mutex<bool>,
    let_go: Condvar,
}

/// A running server; it ends with the process of the tests.
pub struct Dns {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Dns {
    /// Starts one that is silent about every address.
    pub fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        let own = Arc::clone(&shared);
        thread::spawn(move || serve(&socket, &own));
        Self { address, shared }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Has it say so of an address from now on.
    pub fn say(&self, ip: &str, reply: DnsReply) {
        let ip: IpAddr = ip.parse().unwrap();
        self.shared.zone.lock().unwrap().insert(reversed(ip), reply);
    }

    /// Has answers wait, or go.
    pub fn hold(&self, held: bool) {
        *self.shared.held.lock().unwrap() = held;
        self.shared.let_go.notify_all();
    }

    /// How often it was asked for an address.
    pub fn asked(&self, ip: &str) -> usize {
        let name = reversed(ip.parse().unwrap());
        let asked = self.shared.asked.lock().unwrap();
        asked.iter().filter(|one| **one == name).count()
    }
}

fn serve(socket: &UdpSocket, shared: &Shared) {
    let mut bytes = [0; 1500];
    while let Ok((n, peer)) = socket.recv_from(&mut bytes) {
        let question = &bytes[..n];
        let name = asked(question);
        shared.asked.lock().unwrap().push(name.clone());
        let held = shared.held.lock().unwrap();
        drop(shared.let_go.wait_while(held, |held| *held).unwrap());
        let said = shared.zone.lock().unwrap().get(&name).cloned();
        if let Some(answer) = answer(question, &said.unwrap_or(DnsReply::Silence)) {
            socket.send_to(&answer, peer).unwrap();
        }
    }
}

/// The name in a question.
fn asked(question: &[u8]) -> String {
    let (mut labels, mut at) = (Vec::new(), 12);
    while question[at] != 0 {
        let end = at + 1 + usize::from(question[at]);
        labels.push(String::from_utf8_lossy(&question[at + 1..end]).into_owned());
        at = end;
    }
    labels.join(".")
}

fn answer(question: &[u8], said: &DnsReply) -> Option<Vec<u8>> {
    let mut out = question.to_vec();
    // A response, recursion available.
    (out[2], out[3]) = (0x81, 0x80);
    match said {
        DnsReply::Silence => return None,
        DnsReply::NoName => out[3] |= 3,
        DnsReply::Name(name) => {
            out[7] = 1;
            // The name of the question, PTR, IN, an hour.
            out.extend([0xc0, 12, 0, 12, 0, 1, 0, 0, 0x0e, 0x10]);
            let mut data = Vec::new();
            for label in name.split('.') {
                data.push(label.len() as u8);
                data.extend(label.bytes());
            }
            data.push(0);
            out.extend((data.len() as u16).to_be_bytes());
            out.extend(data);
        }
    }
    Some(out)
}

fn reversed(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(ip) => {
            let digits: String = ip
                .octets()
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            let digits: Vec<String> = digits.chars().rev().map(String::from).collect();
            format!("{}.ip6.arpa", digits.join("."))
        }
    }
}
