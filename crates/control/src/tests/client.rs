//! An HTTP client of a few lines: what it sends is exactly what the test wrote.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// An answer, taken apart.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: String,
}

impl Answer {
    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }

    /// The value of a header; the name in lower case.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

/// `GET path` as a plain client asks it.
pub(super) fn get(address: SocketAddr, path: &str) -> Answer {
    ask(address, "GET", path, "")
}

/// One request on a connection of its own; `headers` are whole lines.
pub(super) fn ask(address: SocketAddr, method: &str, path: &str, headers: &str) -> Answer {
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}\r\n"
    );
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    read_answer(stream)
}

/// `POST path` with a body.
pub(super) fn post(address: SocketAddr, path: &str, body: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    // The answer may come, and the connection go, before all of it was sent.
    let _ = stream.write_all(body);
    read_answer(stream)
}

/// Reads to the end of the connection.
pub(super) fn read_answer(mut stream: TcpStream) -> Answer {
    let mut text = Vec::new();
    // A reset after the answer (the server closed with unread bytes) does not spoil it.
    let _ = stream.read_to_end(&mut text);
    let text = String::from_utf8(text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.get(9..12).and_then(|s| s.parse().ok()).unwrap_or(0);
    Answer {
        status,
        head: head.to_owned(),
        body: body.to_owned(),
    }
}
