//! A client of an HTTP Event Collector: requests on one connection, as bytes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

use crate::DEADLINE;

/// Answer of a collector.
#[derive(Clone, Debug)]
pub struct HecReply {
    /// Status of HTTP.
    pub status: u16,
    /// Status line and fields.
    pub head: String,
    /// Body.
    pub body: String,
}

impl HecReply {
    /// The code in the body; `None` if there is none.
    pub fn code(&self) -> Option<u64> {
        self.json()["code"].as_u64()
    }

    /// The body, `null` if it is no JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// Status and code.
    pub fn brief(&self) -> (u16, Option<u64>) {
        (self.status, self.code())
    }
}

/// A connection to a collector.
pub struct HecClient<S: Read + Write = TcpStream> {
    stream: S,
    token: String,
    read: Vec<u8>,
}

impl HecClient {
    /// Connects; requests carry the token.
    pub fn connect(to: SocketAddr, token: &str) -> Self {
        let stream = TcpStream::connect(to).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self::over(stream, token)
    }

    /// Its socket.
    pub fn socket(&self) -> &TcpStream {
        &self.stream
    }
}

impl<S: Read + Write> HecClient<S> {
    /// Speaks over a stream.
    pub fn over(stream: S, token: &str) -> Self {
        Self {
            stream,
            token: token.to_owned(),
            read: Vec::new(),
        }
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.stream.write_all(bytes.as_ref()).unwrap();
        self
    }

    /// The bytes of a request with these fields, each with its line end.
    pub fn request(&self, target: &str, fields: &str, body: &[u8]) -> Vec<u8> {
        let (method, path) = target.split_once(' ').unwrap_or(("POST", target));
        let path = match path.starts_with('/') {
            true => path.to_owned(),
            false => format!("/services/collector/{path}"),
        };
        let token = match self.token.is_empty() || fields.contains("Authorization") {
            true => String::new(),
            false => format!("Authorization: Splunk {}\r\n", self.token),
        };
        let length = match fields.contains("Transfer-Encoding") {
            true => String::new(),
            false => format!("Content-Length: {}\r\n", body.len()),
        };
        let mut bytes =
            format!("{method} {path} HTTP/1.1\r\nHost: collector\r\n{token}{fields}{length}\r\n")
                .into_bytes();
        bytes.extend_from_slice(body);
        bytes
    }

    /// Sends a request and reads its answer. `target` is `event`, `raw?host=x` or
    /// `GET /services/collector/health`.
    pub fn ask(&mut self, target: &str, fields: &str, body: impl AsRef<[u8]>) -> HecReply {
        let bytes = self.request(target, fields, body.as_ref());
        self.send(bytes).answer()
    }

    /// [`Self::ask`] of the event endpoint.
    pub fn event(&mut self, body: impl AsRef<[u8]>) -> HecReply {
        self.ask("event", "", body)
    }

    /// The next answer, except for `100 Continue`.
    pub fn answer(&mut self) -> HecReply {
        loop {
            let reply = self.any_answer();
            if reply.status != 100 {
                return reply;
            }
        }
    }

    /// The next answer.
    pub fn any_answer(&mut self) -> HecReply {
        loop {
            if let Some(reply) = self.take() {
                return reply;
            }
            let mut bytes = [0; 4096];
            let count = self.stream.read(&mut bytes).unwrap();
            assert!(count > 0, "closed: {}", String::from_utf8_lossy(&self.read));
            self.read.extend_from_slice(&bytes[..count]);
        }
    }

    fn take(&mut self) -> Option<HecReply> {
        let end = self.read.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&self.read[..end]).into_owned();
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("content-length")
                .then(|| value.parse::<usize>().unwrap())
        });
        let length = length.unwrap_or(0);
        let body = self.read.get(end + 4..end + 4 + length)?;
        let reply = HecReply {
            status: head[9..12].parse().unwrap(),
            body: String::from_utf8_lossy(body).into_owned(),
            head,
        };
        self.read.drain(..end + 4 + length);
        Some(reply)
    }

    /// True if the peer closes, whatever it says before.
    pub fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).is_ok()
    }
}

/// Compressed by gzip.
pub fn gzip(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes.as_ref()).unwrap();
    encoder.finish().unwrap()
}
