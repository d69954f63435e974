//! Collector in place of Splunk while the rate is measured: takes every event and forgets it.
//!
//! Its threads are named [`THREAD`], so that their CPU time is not taken for the pipeline's. They
//! end with the connections, which the pipeline closes when it stops.

use std::borrow::Cow;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use anyhow::Context;
use inrush_harness::sink::{HecHandler, RequestHead, SUCCESS, serve_on_threads};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// The name of its threads.
pub(super) const THREAD: &str = "doctor-sink";

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
            http: serve_on_threads(named, |stream| Ok((stream, StubHandler)))?,
            https: serve_on_threads(named, move |stream| {
                let connection =
                    ServerConnection::new(Arc::clone(&tls)).map_err(io::Error::other)?;
                Ok((StreamOwned::new(connection, stream), StubHandler))
            })?,
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

fn named() -> thread::Builder {
    thread::Builder::new().name(THREAD.to_owned())
}

/// Handler that looks at nothing but questions for acknowledgements.
struct StubHandler;

/// A request whose body is still to come.
enum StubRequest {
    Events { wants_ack: bool },
    AckQuestion(Vec<u8>),
}

impl HecHandler for StubHandler {
    type Body = StubRequest;

    fn begin(&mut self, head: &RequestHead<'_>) -> Option<StubRequest> {
        Some(match head.line.contains("/ack") {
            true => StubRequest::AckQuestion(Vec::new()),
            false => StubRequest::Events {
                wants_ack: head.has_channel,
            },
        })
    }

    fn take(&mut self, request: &mut StubRequest, bytes: &[u8]) -> Option<()> {
        if let StubRequest::AckQuestion(question) = request {
            question.extend_from_slice(bytes);
        }
        Some(())
    }

    fn finish(&mut self, request: StubRequest) -> Option<Cow<'static, str>> {
        static NEXT_ACK: AtomicU64 = AtomicU64::new(0);
        Some(match request {
            StubRequest::AckQuestion(question) => acknowledged(&question).into(),
            StubRequest::Events { wants_ack: false } => SUCCESS.into(),
            StubRequest::Events { wants_ack: true } => {
                let ack = NEXT_ACK.fetch_add(1, Relaxed);
                format!(r#"{{"text":"Success","code":0,"ackId":{ack}}}"#).into()
            }
        })
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
    use std::io::{Read, Write};
    use std::net::TcpStream;

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
