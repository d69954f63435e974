//! One HTTP request, blocking, on a connection of its own.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::DEADLINE;

/// An answer of the admin API.
#[derive(Debug)]
pub struct HttpAnswer {
    pub status: u16,
    pub body: String,
}

impl HttpAnswer {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }
}

/// Asks and reads to the end.
pub fn http(address: SocketAddr, method: &str, path: &str) -> HttpAnswer {
    http_with(address, method, path, b"")
}

/// [`http()`] with a body.
pub fn http_with(address: SocketAddr, method: &str, path: &str, body: &[u8]) -> HttpAnswer {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-length: {length}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text
        .split_once("\r\n\r\n")
        .unwrap_or_else(|| panic!("no head: {text}"));
    HttpAnswer {
        status: head[9..12].parse().unwrap(),
        body: body.to_owned(),
    }
}
