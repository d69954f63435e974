//! Collector in place of Splunk while the rate is measured: takes every event and forgets it.
//!
//! Its threads are named [`THREAD`], so that their CPU time is not taken for the pipeline's. They
//! end with the connections, which the pipeline closes when it stops.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use anyhow::Context;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// The name of its threads.
pub(super) const THREAD: &str = "doctor-sink";

/// Bytes a read; half of a small second-level cache.
const READ_BYTES: usize = 256 << 10;

/// Bytes of the longest head that is waited for, and of a question for acknowledgements.
const HEAD_BYTES_MAX: u64 = 64 << 10;

/// Addresses on which it listens, in plain HTTP and under TLS.
pub(super) struct StubCollector {
    pub(super) http: SocketAddr,
    pub(super) https: SocketAddr,
}

impl StubCollector {
    /// Listens on two free ports of 127.0.0.1 until the process ends.
    ///
    /// # Errors
    /// No port, no thread or no certificate can be had.
    pub(super) fn start() -> anyhow::Result<Self> {
        let tls = server_config()?;
        Ok(Self {
            http: listen(None)?,
            https: listen(Some(tls))?,
        })
    }
}

/// A certificate that nobody has to trust: the pipeline is told not to look at it.
fn server_config() -> anyhow::Result<Arc<ServerConfig>> {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["127.0.0.1".to_owned()]).context("no certificate")?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)?;
    Ok(Arc::new(config))
}

fn listen(tls: Option<Arc<ServerConfig>>) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let accept = move || {
        for stream in listener.incoming().flatten() {
            let tls = tls.clone();
            // Without a thread the connection is closed, and the pipeline tries again.
            let _ = named().spawn(move || {
                // An end that the pipeline made is not an error.
                let _ = answer(stream, tls);
            });
        }
    };
    named().spawn(accept)?;
    Ok(address)
}

fn named() -> thread::Builder {
    thread::Builder::new().name(THREAD.to_owned())
}

fn answer(stream: TcpStream, tls: Option<Arc<ServerConfig>>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    match tls {
        None => serve(BufReader::with_capacity(READ_BYTES, stream)),
        Some(config) => {
            let connection = ServerConnection::new(config).map_err(io::Error::other)?;
            let stream = StreamOwned::new(connection, stream);
            serve(BufReader::with_capacity(READ_BYTES, stream))
        }
    }
}

/// Fields of a request's head that are looked at.
#[derive(Default)]
struct CollectorHead {
    body_bytes: u64,
    asks_for_acks: bool,
    wants_ack: bool,
}

/// Answers requests until the peer has no more.
fn serve<S: Read + Write>(mut stream: BufReader<S>) -> io::Result<()> {
    static NEXT_ACK: AtomicU64 = AtomicU64::new(0);
    while let Some(head) = read_head(&mut stream)? {
        let mut body = Read::take(&mut stream, head.body_bytes);
        let said = if head.asks_for_acks {
            let mut question = Vec::new();
            body.take(HEAD_BYTES_MAX).read_to_end(&mut question)?;
            acknowledged(&question)
        } else {
            io::copy(&mut body, &mut io::sink())?;
            if head.wants_ack {
                let ack = NEXT_ACK.fetch_add(1, Relaxed);
                format!(r#"{{"text":"Success","code":0,"ackId":{ack}}}"#)
            } else {
                r#"{"text":"Success","code":0}"#.to_owned()
            }
        };
        let length = said.len();
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ";
        let answer = format!("{head}{length}\r\n\r\n{said}");
        let out = stream.get_mut();
        out.write_all(answer.as_bytes())?;
        out.flush()?;
    }
    Ok(())
}

/// The head of the next request; `None` if there is none.
fn read_head(stream: &mut impl BufRead) -> io::Result<Option<CollectorHead>> {
    let mut lines = stream.take(HEAD_BYTES_MAX);
    let mut line = String::new();
    if lines.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut head = CollectorHead {
        asks_for_acks: line.contains("/ack"),
        ..CollectorHead::default()
    };
    loop {
        line.clear();
        if lines.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let Some((name, value)) = line.split_once(':') else {
            return Ok(Some(head));
        };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => {
                let bytes = value.trim().parse();
                head.body_bytes = bytes.map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
            }
            "x-splunk-request-channel" => head.wants_ack = true,
            _ => {}
        }
    }
}

/// Yes to every id of `{"acks":[0,1]}`.
fn acknowledged(question: &[u8]) -> String {
    let question: serde_json::Value = serde_json::from_slice(question).unwrap_or_default();
    let ids = question["acks"].as_array().into_iter().flatten();
    let yes = |id: &serde_json::Value| (id.to_string(), serde_json::Value::Bool(true));
    let acks: serde_json::Map<_, _> = ids.map(yes).collect();
    serde_json::json!({ "acks": acks }).to_string()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn requests_one_behind_the_other_are_answered_and_acks_confirmed() {
        let collector = StubCollector::start().unwrap();
        let mut stream = TcpStream::connect(collector.http).unwrap();
        let post = |path: &str, extra: &str, body: &str| {
            let length = body.len();
            format!("POST {path} HTTP/1.1\r\n{extra}content-length: {length}\r\n\r\n{body}")
        };
        let event = "/services/collector/event";
        let channel = "X-Splunk-Request-Channel: c\r\n";
        let sent = [
            post(event, "", &"x".repeat(100_000)),
            post(event, channel, "{}"),
            post(
                "/services/collector/ack?channel=c",
                channel,
                r#"{"acks":[3,7]}"#,
            ),
        ];
        stream.write_all(sent.concat().as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answers = String::new();
        stream.read_to_string(&mut answers).unwrap();
        assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 3, "{answers}");
        assert_eq!(answers.matches(r#""ackId":"#).count(), 1, "{answers}");
        assert!(
            answers.ends_with(r#"{"acks":{"3":true,"7":true}}"#),
            "{answers}"
        );
    }

    #[test]
    fn what_is_no_request_ends_the_connection() {
        let collector = StubCollector::start().unwrap();
        let mut stream = TcpStream::connect(collector.http).unwrap();
        stream
            .write_all(b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n")
            .unwrap();
        assert_eq!(stream.read_to_end(&mut Vec::new()).unwrap_or(0), 0);
    }
}
