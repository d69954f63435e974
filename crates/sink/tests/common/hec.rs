//! A collector whose answers are scripted, and which indexes as Splunk does.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, mpsc};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// What the collector answers.
#[derive(Clone)]
pub enum Reply {
    /// 200, everything indexed.
    Success,
    /// 200 with this body, everything indexed.
    Rubbish(&'static str),
    /// 400 with this code and number, as Splunk gives them: the events before the bad one are
    /// indexed, which is the named one, or the one before it for a wrong index (code 7).
    Named(u64, u64),
    /// 400 with this code and number, and so many events indexed.
    Partly(u64, Option<u64>, usize),
    /// This status and body, nothing indexed.
    Status(u16, &'static str),
    /// This status with `Retry-After`.
    Later(u16, &'static str),
    /// No answer.
    Hang,
}

/// A request as it was seen.
#[derive(Clone)]
pub struct Seen {
    pub peer: SocketAddr,
    pub path: String,
    pub headers: HeaderMap,
    pub body_bytes: usize,
    pub events: Vec<String>,
}

type Rule = Box<dyn Fn(usize, &[Value]) -> Reply + Send + Sync>;

/// Whether the request of this `ackId` is indexed by now.
type Confirm = Box<dyn Fn(u64) -> bool + Send + Sync>;

struct Collector {
    rule: Rule,
    /// Without it the token has no acknowledgement.
    confirm: Option<Confirm>,
    /// By channel: the next `ackId`.
    next_acks: Mutex<HashMap<String, u64>>,
    seen: Mutex<Vec<Seen>>,
    indexed: Mutex<Vec<Value>>,
}

pub struct HecServer {
    pub address: SocketAddr,
    collector: Arc<Collector>,
}

impl HecServer {
    /// Starts a collector; the rule gets the number of the request, from 0, and its events.
    pub fn start(rule: impl Fn(usize, &[Value]) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap(), rule)
    }

    pub fn start_at(
        address: SocketAddr,
        rule: impl Fn(usize, &[Value]) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::serve(address, Box::new(rule), None)
    }

    /// A collector that acknowledges; `confirm` says whether the request of an `ackId` is indexed.
    pub fn start_acking(
        rule: impl Fn(usize, &[Value]) -> Reply + Send + Sync + 'static,
        confirm: impl Fn(u64) -> bool + Send + Sync + 'static,
    ) -> Self {
        let address = "127.0.0.1:0".parse().unwrap();
        Self::serve(address, Box::new(rule), Some(Box::new(confirm)))
    }

    fn serve(address: SocketAddr, rule: Rule, confirm: Option<Confirm>) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, indexed) = (Mutex::default(), Mutex::default());
        let collector = Arc::new(Collector {
            rule,
            confirm,
            next_acks: Mutex::default(),
            seen,
            indexed,
        });
        let app = Router::new()
            .fallback(answer)
            .with_state(Arc::clone(&collector));
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.unwrap().block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                let app = app.into_make_service_with_connect_info::<SocketAddr>();
                axum::serve(listener, app).await.unwrap();
            });
        });
        Self { address, collector }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.collector.seen.lock().unwrap().clone()
    }

    /// The envelopes that were indexed, in order.
    pub fn indexed(&self) -> Vec<Value> {
        self.collector.indexed.lock().unwrap().clone()
    }

    /// Their texts, sorted: workers do not keep order between them.
    pub fn texts(&self) -> Vec<String> {
        let mut texts: Vec<String> = self.indexed().iter().map(text).collect();
        texts.sort();
        texts
    }
}

fn text(envelope: &Value) -> String {
    envelope["event"].as_str().unwrap().to_owned()
}

async fn answer(
    State(collector): State<Arc<Collector>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if method != Method::POST {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let channel = headers.get("x-splunk-request-channel");
    let channel = channel.map_or("", |c| c.to_str().unwrap()).to_owned();
    if uri.path().ends_with("/ack") {
        return confirmations(&collector, &channel, &body);
    }
    let body_bytes = body.len();
    let plain = match headers.get("content-encoding").map(|v| v.as_bytes()) {
        Some(b"gzip") => {
            let mut plain = Vec::new();
            flate2::read::GzDecoder::new(&body[..])
                .read_to_end(&mut plain)
                .unwrap();
            plain
        }
        _ => body.to_vec(),
    };
    let events: Vec<Value> = serde_json::Deserializer::from_slice(&plain)
        .into_iter::<Value>()
        .map(|event| event.unwrap())
        .collect();
    let number = {
        let mut seen = collector.seen.lock().unwrap();
        let (path, events) = (uri.path().to_owned(), events.iter().map(text).collect());
        seen.push(Seen {
            peer,
            path,
            headers,
            body_bytes,
            events,
        });
        seen.len() - 1
    };
    let reply = (collector.rule)(number, &events);
    let indexed = match reply {
        Reply::Success | Reply::Rubbish(_) => events.len(),
        Reply::Named(6 | 12 | 13 | 15, bad) => events.len().min(bad as usize),
        Reply::Named(7, behind) => behind as usize - 1,
        Reply::Partly(_, _, indexed) => indexed,
        _ => 0,
    };
    collector
        .indexed
        .lock()
        .unwrap()
        .extend_from_slice(&events[..indexed]);
    let ack = collector.confirm.as_ref().map(|_| {
        let mut next = collector.next_acks.lock().unwrap();
        let id = next.entry(channel).or_default();
        *id += 1;
        *id - 1
    });
    respond(reply, ack).await
}

/// Answers a question for acknowledgements, as Splunk does: ids of another channel are false.
fn confirmations(collector: &Collector, channel: &str, body: &[u8]) -> Response {
    let asked: Value = serde_json::from_slice(body).unwrap();
    let given = collector.next_acks.lock().unwrap().get(channel).copied();
    let confirm = collector.confirm.as_ref().unwrap();
    let mut acks = serde_json::Map::new();
    for id in asked["acks"].as_array().unwrap() {
        let id = id.as_u64().unwrap();
        let known = given.is_some_and(|next| id < next);
        acks.insert(id.to_string(), (known && confirm(id)).into());
    }
    json!({ "acks": acks }).to_string().into_response()
}

async fn respond(reply: Reply, ack: Option<u64>) -> Response {
    let status = |status: u16| StatusCode::from_u16(status).unwrap();
    match reply {
        Reply::Success => {
            let mut body = json!({ "text": "Success", "code": 0 });
            add_ack(&mut body, ack);
            body.to_string().into_response()
        }
        Reply::Rubbish(body) => body.into_response(),
        Reply::Named(code, number) => {
            let mut body = json!({ "text": "no", "code": code, "invalid-event-number": number });
            add_ack(&mut body, ack.filter(|_| number > 0));
            (status(400), body.to_string()).into_response()
        }
        Reply::Partly(code, number, _) => {
            let mut body = json!({ "text": "no", "code": code });
            if let Some(number) = number {
                body["invalid-event-number"] = number.into();
            }
            (status(400), body.to_string()).into_response()
        }
        Reply::Status(code, body) => (status(code), body).into_response(),
        Reply::Later(code, after) => (status(code), [("retry-after", after)], "").into_response(),
        Reply::Hang => std::future::pending().await,
    }
}

fn add_ack(body: &mut Value, ack: Option<u64>) {
    if let Some(id) = ack {
        body["ackId"] = id.into();
    }
}

/// Reads one request off a stream; its head, once the whole body was read.
pub fn read_request(stream: &mut impl Read) -> Option<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.to_ascii_lowercase();
    let length = length
        .split("content-length: ")
        .nth(1)
        .and_then(|l| l.split('\r').next());
    let mut body = vec![0; length.map_or(0, |l| l.parse().unwrap())];
    stream.read_exact(&mut body).ok()?;
    Some(head)
}

/// A server that answers its connections' first requests with these bytes, one each, and closes
/// them; afterwards it takes everything.
pub fn raw_server(answers: Vec<&'static [u8]>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut answers = answers.into_iter();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            if read_request(&mut stream).is_some() {
                let _ = stream.write_all(answers.next().unwrap_or(SUCCESS));
            }
        }
    });
    address
}

/// A server that takes one request a connection, promises to keep it, and closes it when it is
/// told to; then it says that it has.
pub fn closing_server() -> (SocketAddr, mpsc::Sender<()>, mpsc::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (close, asked) = mpsc::channel();
    let (closed, told) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            if read_request(&mut stream).is_some() {
                stream.write_all(SUCCESS_AND_STAY).unwrap();
                let _ = asked.recv();
                drop(stream);
                let _ = closed.send(());
            }
        }
    });
    (address, close, told)
}

const SUCCESS_AND_STAY: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Length: 27\r\n\r\n{\"text\":\"Success\",\"code\":0}";

pub const SUCCESS: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 27\r\nConnection: close\r\n\r\n\
{\"text\":\"Success\",\"code\":0}";

/// A proxy that knows CONNECT; says which targets it was asked for.
pub fn connect_proxy() -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let targets: Arc<Mutex<Vec<String>>> = Arc::default();
    let asked = Arc::clone(&targets);
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            let head = read_request(&mut client).unwrap();
            let target = head.split(' ').nth(1).unwrap().to_owned();
            let mut server = TcpStream::connect(&target).unwrap();
            asked.lock().unwrap().push(target);
            client
                .write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
                .unwrap();
            let (mut up, mut down) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut up, &mut server));
            std::thread::spawn(move || std::io::copy(&mut down, &mut client));
        }
    });
    (address, targets)
}
