//! A RELP sender that shows every frame it gets.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::DEADLINE;

/// A frame of the receiver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rsp {
    pub txnr: u32,
    pub command: String,
    pub data: String,
}

impl Rsp {
    /// Whether it says that the message is taken.
    pub fn is_ok(&self) -> bool {
        self.command == "rsp" && self.data == "200 OK"
    }
}

/// One frame as it goes over the wire.
pub fn relp_frame(txnr: u32, command: &str, data: &str) -> String {
    match data.len() {
        0 => format!("{txnr} {command} 0\n"),
        n => format!("{txnr} {command} {n} {data}\n"),
    }
}

/// A connection; over TCP by [`Relp::connect`], over anything else by [`Relp::over`].
pub struct Relp<S: Read + Write = TcpStream> {
    stream: BufReader<S>,
    next: u32,
}

impl Relp {
    /// Connects, and says nothing yet.
    pub fn connect(to: SocketAddr) -> Self {
        let stream = TcpStream::connect(to).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        Self::over(stream)
    }

    /// Connects and opens a session.
    pub fn open(to: SocketAddr) -> Self {
        let mut relp = Self::connect(to);
        relp.offer();
        relp
    }

    pub fn socket(&self) -> &TcpStream {
        self.stream.get_ref()
    }
}

impl<S: Read + Write> Relp<S> {
    pub fn over(stream: S) -> Self {
        let stream = BufReader::new(stream);
        Self { stream, next: 1 }
    }

    /// Opens the session and checks the answer.
    pub fn offer(&mut self) {
        let txnr = self.command(
            "open",
            "relp_version=0\nrelp_software=tests,1\ncommands=syslog",
        );
        let rsp = self.answer().expect("an answer to open");
        assert_eq!((rsp.txnr, rsp.command.as_str()), (txnr, "rsp"), "{rsp:?}");
        assert!(rsp.data.starts_with("200 OK\nrelp_version=0\n"), "{rsp:?}");
        assert!(rsp.data.contains("\ncommands=syslog"), "{rsp:?}");
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.stream.get_mut().write_all(bytes.as_ref()).unwrap();
        self.stream.get_mut().flush().unwrap();
        self
    }

    /// Sends a frame under the next number, which it gives.
    pub fn command(&mut self, command: &str, data: &str) -> u32 {
        let txnr = self.next;
        self.next += 1;
        self.send(relp_frame(txnr, command, data));
        txnr
    }

    pub fn syslog(&mut self, message: &str) -> u32 {
        self.command("syslog", message)
    }

    /// The next frame; `None` once the other side has closed.
    pub fn answer(&mut self) -> Option<Rsp> {
        let mut head = Vec::new();
        let mut word = |stream: &mut BufReader<S>| {
            head.clear();
            loop {
                let mut byte = [0];
                match stream.read(&mut byte) {
                    Ok(0) => return None,
                    Ok(_) if byte[0] == b' ' || byte[0] == b'\n' => break,
                    Ok(_) => head.push(byte[0]),
                    Err(e) if e.kind() == ErrorKind::ConnectionReset => return None,
                    Err(e) => panic!("{e}"),
                }
            }
            Some(String::from_utf8(head.clone()).unwrap())
        };
        let txnr = word(&mut self.stream)?.parse().unwrap();
        let command = word(&mut self.stream)?;
        let length: usize = word(&mut self.stream)?.parse().unwrap();
        let mut data = vec![0; length];
        if length > 0 {
            self.stream.read_exact(&mut data).unwrap();
            let mut end = Vec::new();
            self.stream.read_until(b'\n', &mut end).unwrap();
            assert_eq!(end, b"\n");
        }
        let data = String::from_utf8(data).unwrap();
        Some(Rsp {
            txnr,
            command,
            data,
        })
    }

    /// Reads this many answers, which must say 200 and have these numbers in this order.
    pub fn acked(&mut self, numbers: impl IntoIterator<Item = u32>) {
        for txnr in numbers {
            let rsp = self
                .answer()
                .unwrap_or_else(|| panic!("no answer to {txnr}"));
            assert!(rsp.is_ok() && rsp.txnr == txnr, "{txnr}: {rsp:?}");
        }
    }

    /// Everything until the other side closes.
    pub fn rest(&mut self) -> Vec<Rsp> {
        std::iter::from_fn(|| self.answer()).collect()
    }
}
