//! A client of an HTTP Event Collector over HTTP/2: streams of one connection, by `h2`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::client::{self, ResponseFuture, SendRequest};
use h2::{Reason, SendStream};
use http::Request;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

use crate::{DEADLINE, HecReply};

/// A connection to a collector, over TLS, that the handshake has chosen HTTP/2 for.
pub struct Http2Client {
    runtime: Runtime,
    requests: SendRequest<Bytes>,
    connection: JoinHandle<Result<(), h2::Error>>,
    token: String,
}

/// A stream whose request has begun.
pub struct Http2Stream {
    response: ResponseFuture,
    body: SendStream<Bytes>,
}

/// A request: its target, as [`crate::HecClient::ask`] has it, its fields and its body.
pub type Http2Request<'a> = (&'a str, &'a [(&'a str, &'a str)], Bytes);

impl Http2Client {
    /// Connects, offering HTTP/2 before HTTP/1.1; requests carry the token.
    pub fn connect(to: SocketAddr, config: &ClientConfig, token: &str) -> Self {
        let mut config = config.clone();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let (requests, connection) = runtime.block_on(within(async {
            let socket = TcpStream::connect(to).await.unwrap();
            socket.set_nodelay(true).unwrap();
            let name = ServerName::try_from("localhost").unwrap();
            let connector = TlsConnector::from(Arc::new(config));
            let stream = connector.connect(name, socket).await.unwrap();
            let chosen = stream.get_ref().1.alpn_protocol();
            assert_eq!(chosen, Some(&b"h2"[..]), "the protocol chosen");
            client::handshake(stream).await.unwrap()
        }));
        let connection = runtime.spawn(connection);
        Self {
            runtime,
            requests,
            connection,
            token: token.to_owned(),
        }
    }

    /// Begins a request whose body is to come.
    pub fn open(&mut self, target: &str, fields: &[(&str, &str)]) -> Http2Stream {
        self.begin(target, fields, false).unwrap()
    }

    fn begin(
        &mut self,
        target: &str,
        fields: &[(&str, &str)],
        empty: bool,
    ) -> Result<Http2Stream, h2::Error> {
        let (method, path) = target.split_once(' ').unwrap_or(("POST", target));
        let path = match path.starts_with('/') {
            true => path.to_owned(),
            false => format!("/services/collector/{path}"),
        };
        let mut request = Request::builder()
            .method(method)
            .uri(format!("https://localhost{path}"));
        if !self.token.is_empty() {
            request = request.header("authorization", format!("Splunk {}", self.token));
        }
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let request = request.body(()).unwrap();
        let requests = &mut self.requests;
        self.runtime.block_on(within(async {
            let mut requests = requests.clone().ready().await?;
            let (response, body) = requests.send_request(request, empty)?;
            Ok(Http2Stream { response, body })
        }))
    }

    /// Sends bytes of a body, and waits until the window has taken them.
    pub fn send(&self, stream: &mut Http2Stream, bytes: &[u8], last: bool) {
        let bytes = Bytes::copy_from_slice(bytes);
        let sent = send_body(&mut stream.body, bytes, last);
        self.runtime.block_on(within(sent)).unwrap();
    }

    /// Resets a stream.
    pub fn reset(&self, stream: &mut Http2Stream) {
        stream.body.send_reset(Reason::CANCEL);
    }

    /// The answer to a request.
    pub fn answer(&self, stream: Http2Stream) -> HecReply {
        let answer = read_reply(stream.response);
        self.runtime.block_on(within(answer)).unwrap()
    }

    /// Sends a request and reads its answer.
    pub fn ask(&mut self, target: &str, fields: &[(&str, &str)], body: &[u8]) -> HecReply {
        let mut stream = self.begin(target, fields, body.is_empty()).unwrap();
        if !body.is_empty() {
            self.send(&mut stream, body, true);
        }
        self.answer(stream)
    }

    /// [`Self::ask`] of the event endpoint.
    pub fn event(&mut self, body: &str) -> HecReply {
        self.ask("event", &[], body.as_bytes())
    }

    /// Sends requests at once, each on a stream of its own; their answers, in the same order.
    pub fn all(&mut self, requests: &[Http2Request<'_>]) -> Vec<HecReply> {
        let streams: Vec<Http2Stream> = requests
            .iter()
            .map(|(target, fields, _)| self.begin(target, fields, false).unwrap())
            .collect();
        let asks: Vec<_> = streams
            .into_iter()
            .zip(requests)
            .map(|(mut stream, (_, _, body))| {
                let body = body.clone();
                self.runtime.spawn(within(async move {
                    send_body(&mut stream.body, body, true).await?;
                    read_reply(stream.response).await
                }))
            })
            .collect();
        let joined = asks
            .into_iter()
            .map(|ask| self.runtime.block_on(ask).unwrap());
        joined.map(Result::unwrap).collect()
    }

    /// Waits for the end of the connection: the reason that the other side gave.
    pub fn ended(self) -> Option<Reason> {
        let Self {
            runtime,
            requests,
            connection,
            ..
        } = self;
        drop(requests);
        let ended = runtime.block_on(within(connection)).unwrap();
        ended.err().and_then(|error| error.reason())
    }
}

/// Waits no longer than a test does.
async fn within<T>(what: impl Future<Output = T>) -> T {
    let most: Duration = DEADLINE;
    tokio::time::timeout(most, what).await.unwrap()
}

async fn send_body(
    body: &mut SendStream<Bytes>,
    mut bytes: Bytes,
    last: bool,
) -> Result<(), h2::Error> {
    while !bytes.is_empty() {
        body.reserve_capacity(bytes.len());
        let granted = std::future::poll_fn(|context| body.poll_capacity(context)).await;
        let Some(granted) = granted.transpose()? else {
            // It was answered already, and reset.
            return Ok(());
        };
        let piece = bytes.split_to(granted.min(bytes.len()));
        body.send_data(piece, last && bytes.is_empty())?;
    }
    Ok(())
}

async fn read_reply(response: ResponseFuture) -> Result<HecReply, h2::Error> {
    let (head, mut body) = response.await?.into_parts();
    let mut bytes = Vec::new();
    while let Some(piece) = body.data().await {
        let piece = piece?;
        body.flow_control().release_capacity(piece.len())?;
        bytes.extend_from_slice(&piece);
    }
    let fields = head.headers.iter();
    let line = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        format!("{name}: {}\r\n", String::from_utf8_lossy(value.as_bytes()))
    };
    Ok(HecReply {
        status: head.status.as_u16(),
        head: fields.map(line).collect(),
        body: String::from_utf8_lossy(&bytes).into_owned(),
    })
}
