//! A HEC server that answers what the test scripted and remembers what it was sent. What it says
//! about single events it does: like Splunk it indexes what stands before a bad one.

use std::collections::{HashMap, VecDeque};
use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::eventually;

/// One answer.
#[derive(Clone, Debug)]
pub enum Reply {
    /// This status and body.
    Status(u16, String),
    /// 503 with code 9 and `Retry-After: seconds`.
    Busy { retry_after_seconds: u64 },
    /// No answer, ever.
    Hang,
}

impl Reply {
    /// An answer as Splunk writes it.
    pub fn code(status: u16, code: u32, text: &str) -> Self {
        Self::Status(status, format!(r#"{{"text":"{text}","code":{code}}}"#))
    }

    /// How many of so many events it says are indexed.
    fn indexed(&self, events: usize) -> usize {
        let Self::Status(status, body) = self else {
            return 0;
        };
        let json: Value = serde_json::from_str(body).unwrap_or_default();
        let number = json["invalid-event-number"].as_u64().map(|n| n as usize);
        match (status, json["code"].as_u64(), number) {
            (200, Some(0 | 24 | 25), _) if json["text"].is_string() => events,
            (400, Some(6 | 12 | 13 | 15), Some(bad)) => bad.min(events),
            (400, Some(7), Some(behind)) => behind.saturating_sub(1).min(events),
            _ => 0,
        }
    }
}

impl Shared {
    /// Takes the events before the first bad one, as Splunk does.
    fn judge(&self, events: &[Value], channel: &str, backend: usize) -> (Reply, usize) {
        let rule = self.rule.lock().unwrap();
        let bad = |event| rule.as_ref().and_then(|rule| rule(event));
        let found = events
            .iter()
            .enumerate()
            .find_map(|(at, event)| Some((at, bad(event)?)));
        let (status, indexed, mut body) = match found {
            None => (200, events.len(), json!({ "text": "Success", "code": 0 })),
            Some((at, (code, text))) => {
                // For a wrong index it names the object behind the bad one.
                let number = at + usize::from(code == 7);
                let body = json!({ "text": text, "code": code, "invalid-event-number": number });
                (400, at, body)
            }
        };
        if let Some(acks) = self.acks.lock().unwrap().as_mut().filter(|_| indexed > 0) {
            let next = acks.next.entry((backend, channel.to_owned())).or_default();
            body["ackId"] = (*next).into();
            *next += 1;
        }
        (Reply::Status(status, body.to_string()), indexed)
    }

    /// Answers a question for acknowledgements: ids that were never given are false.
    fn confirmations(&self, channel: &str, body: &[u8], backend: usize) -> Response {
        if let Some((status, page)) = self.ack_page.lock().unwrap().clone() {
            return (StatusCode::from_u16(status).unwrap(), page).into_response();
        }
        let question: Value = serde_json::from_slice(body).unwrap();
        let mut acks = self.acks.lock().unwrap();
        let acks = acks.as_mut().unwrap();
        acks.asked += 1;
        let given = acks.next.get(&(backend, channel.to_owned()));
        let given = given.copied().unwrap_or(0);
        let confirmed = |id: &u64| *id < given && acks.asked >= acks.confirmed_from;
        let ids = question["acks"].as_array().unwrap();
        let answers: serde_json::Map<String, Value> = ids
            .iter()
            .filter_map(Value::as_u64)
            .map(|id| (id.to_string(), confirmed(&id).into()))
            .collect();
        json!({ "acks": answers }).to_string().into_response()
    }
}

/// One request, taken apart.
#[derive(Clone, Debug)]
pub struct HecRequest {
    pub path: String,
    pub authorization: String,
    pub gzip: bool,
    /// The other end of the connection.
    pub peer: SocketAddr,
    /// The objects of the body.
    pub events: Vec<Value>,
    /// The status it was answered with; 0 if it was left hanging.
    pub status: u16,
    /// How many of the events were indexed, from the first one on.
    pub indexed: usize,
}

/// How a load balancer keeps a client at one server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sticky {
    /// A connection stays where it was led.
    Connection,
    /// A cookie names the server; without it each request goes to the next one.
    Cookie,
}

/// Two servers behind one address.
struct Balancer {
    sticky: Sticky,
    turns: usize,
    connections: HashMap<SocketAddr, usize>,
}

impl Balancer {
    fn backend(&mut self, peer: SocketAddr, cookie: &str) -> usize {
        let turns = &mut self.turns;
        let next = || {
            *turns += 1;
            *turns % 2
        };
        let named = |one: &usize| cookie == format!("LB={one}");
        match self.sticky {
            Sticky::Connection => *self.connections.entry(peer).or_insert_with(next),
            Sticky::Cookie => (0..2).find(named).unwrap_or_else(next),
        }
    }
}

/// What is wrong with an event: the code and text to refuse it with.
type Rule = Box<dyn Fn(&Value) -> Option<(u32, &'static str)> + Send + Sync>;

/// Acknowledgement of requests, as Splunk does it for a token that has it.
#[derive(Default)]
struct Acks {
    /// By server and channel: the next `ackId`.
    next: HashMap<(usize, String), u64>,
    /// Questions answered so far.
    asked: u64,
    /// From which question on everything is confirmed.
    confirmed_from: u64,
}

#[derive(Default)]
struct Shared {
    script: Mutex<VecDeque<Reply>>,
    /// What is answered once the script is used up; success if `None`.
    otherwise: Mutex<Option<Reply>>,
    requests: Mutex<Vec<HecRequest>>,
    rule: Mutex<Option<Rule>>,
    /// Without it the token has no acknowledgement.
    acks: Mutex<Option<Acks>>,
    /// What questions for acknowledgements are answered with, in place of HEC's answer.
    ack_page: Mutex<Option<(u16, String)>>,
    balancer: Mutex<Option<Balancer>>,
    /// How long an answer takes.
    latency: Mutex<Duration>,
    /// Requests that were not answered yet: now, and the most at once.
    waiting: Mutex<(usize, usize)>,
}

/// The server, on a thread of its own.
pub struct Hec {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Hec {
    /// A server on a port that the kernel chooses.
    pub fn start() -> Self {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    /// A server on this address, which may have been refusing connections until now.
    pub fn start_at(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        let (stop, stopped) = watch::channel(false);
        let app = Router::new()
            .fallback(answer)
            .layer(axum::extract::DefaultBodyLimit::disable())
            .with_state(Arc::clone(&shared));
        let thread = std::thread::spawn(move || {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap()
                .block_on(serve(listener, app, stopped));
        });
        Self {
            address,
            shared,
            stop,
            thread: Some(thread),
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// For `endpoints:`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The next answers, in order; success after them.
    pub fn script(&self, replies: impl IntoIterator<Item = Reply>) {
        self.shared.script.lock().unwrap().extend(replies);
    }

    /// What is answered when the script is used up, until `None` makes it success again.
    pub fn otherwise(&self, reply: Option<Reply>) {
        *self.shared.otherwise.lock().unwrap() = reply;
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<HecRequest> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// Waits until there were `n` requests, and gives them.
    pub fn await_requests(&self, n: usize) -> Vec<HecRequest> {
        eventually(&format!("{n} HEC requests"), || {
            let requests = self.requests();
            (requests.len() >= n).then_some(requests)
        })
    }

    /// The events that were indexed, in order.
    pub fn taken(&self) -> Vec<Value> {
        let indexed = |request: HecRequest| request.events.into_iter().take(request.indexed);
        self.requests().into_iter().flat_map(indexed).collect()
    }

    /// Judges every event from now on, where the script says nothing.
    pub fn rule(
        &self,
        rule: impl Fn(&Value) -> Option<(u32, &'static str)> + Send + Sync + 'static,
    ) {
        *self.shared.rule.lock().unwrap() = Some(Box::new(rule));
    }

    /// Answers every request that carries events after this time, as a distant server does.
    pub fn answer_after(&self, latency: Duration) {
        *self.shared.latency.lock().unwrap() = latency;
    }

    /// The most requests with events that have waited for their answers at once.
    pub fn most_at_once(&self) -> usize {
        self.shared.waiting.lock().unwrap().1
    }

    /// Gives the token acknowledgement; nothing is confirmed.
    pub fn acknowledge(&self) {
        let acks = Acks {
            confirmed_from: u64::MAX,
            ..Acks::default()
        };
        *self.shared.acks.lock().unwrap() = Some(acks);
    }

    /// Confirms everything from the `n`th further question on; 1 is the next one.
    pub fn confirm_after(&self, n: u64) {
        let mut acks = self.shared.acks.lock().unwrap();
        let acks = acks.as_mut().unwrap();
        acks.confirmed_from = acks.asked + n;
    }

    /// Has questions for acknowledgements answered with this, until `None`.
    pub fn answer_acks_with(&self, page: Option<(u16, &str)>) {
        let page = page.map(|(status, body)| (status, body.to_owned()));
        *self.shared.ack_page.lock().unwrap() = page;
    }

    /// Becomes two servers behind a load balancer; each counts its own `ackId`s.
    pub fn balance(&self, sticky: Sticky) {
        let balancer = Balancer {
            sticky,
            turns: 0,
            connections: HashMap::new(),
        };
        *self.shared.balancer.lock().unwrap() = Some(balancer);
    }

    /// Questions for acknowledgements so far.
    pub fn asked(&self) -> u64 {
        self.shared.acks.lock().unwrap().as_ref().unwrap().asked
    }
}

impl Drop for Hec {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        let ended = self.thread.take().map(std::thread::JoinHandle::join);
        assert!(ended.is_none_or(|end| end.is_ok()) || std::thread::panicking());
    }
}

/// Serves until stopped; connections that hang are dropped with the runtime.
async fn serve(listener: TcpListener, app: Router, mut stopped: watch::Receiver<bool>) {
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    tokio::select! {
        _ = axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()) => {}
        _ = stopped.wait_for(|stop| *stop) => {}
    }
}

/// A request that waits for its answer.
struct Waiting(Arc<Shared>);

impl Waiting {
    fn begin(shared: &Arc<Shared>) -> Self {
        let mut waiting = shared.waiting.lock().unwrap();
        waiting.0 += 1;
        waiting.1 = waiting.1.max(waiting.0);
        Self(Arc::clone(shared))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.lock().unwrap().0 -= 1;
    }
}

async fn answer(
    shared: State<Arc<Shared>>,
    peer: ConnectInfo<SocketAddr>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let cookie = headers.get("cookie").and_then(|v| v.to_str().ok());
    let cookie = cookie.unwrap_or("").to_owned();
    let led = |balancer: &mut Balancer| (balancer.backend(peer.0, &cookie), balancer.sticky);
    let led = shared.balancer.lock().unwrap().as_mut().map(led);
    let backend = led.map_or(0, |(backend, _)| backend);
    let mut response = answer_as(backend, shared, peer, uri, headers, body).await;
    if let Some((backend, Sticky::Cookie)) = led {
        let cookie = format!("LB={backend}; Path=/");
        response
            .headers_mut()
            .insert("set-cookie", cookie.parse().unwrap());
    }
    response
}

async fn answer_as(
    backend: usize,
    State(shared): State<Arc<Shared>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let header = |name| {
        headers
            .get(name)
            .and_then(|v| v.to_str().ok())
            .unwrap_or("")
            .to_owned()
    };
    let gzip = header("content-encoding") == "gzip";
    let path = uri.path().to_owned();
    // A health probe says nothing about events: it is answered, and does not use up the script.
    if path.contains("/health") {
        return (StatusCode::OK, r#"{"text":"HEC is healthy","code":17}"#).into_response();
    }
    let channel = header("x-splunk-request-channel");
    if path.ends_with("/ack") {
        return shared.confirmations(&channel, &body, backend);
    }
    let _waiting = Waiting::begin(&shared);
    let latency = *shared.latency.lock().unwrap();
    if !latency.is_zero() {
        tokio::time::sleep(latency).await;
    }
    let events = objects(&body, gzip);
    let scripted = shared.script.lock().unwrap().pop_front();
    let scripted = scripted.or_else(|| shared.otherwise.lock().unwrap().clone());
    let (reply, indexed) = match scripted {
        Some(reply) => {
            let indexed = reply.indexed(events.len());
            (reply, indexed)
        }
        None => shared.judge(&events, &channel, backend),
    };
    let status = match &reply {
        Reply::Status(status, _) => *status,
        Reply::Busy { .. } => 503,
        Reply::Hang => 0,
    };
    let authorization = header("authorization");
    let request = HecRequest {
        path,
        authorization,
        gzip,
        peer,
        events,
        status,
        indexed,
    };
    shared.requests.lock().unwrap().push(request);
    match reply {
        Reply::Status(status, body) => {
            (StatusCode::from_u16(status).unwrap(), body).into_response()
        }
        Reply::Busy {
            retry_after_seconds,
        } => {
            let header = [("retry-after", retry_after_seconds.to_string())];
            let body = r#"{"text":"Server is busy","code":9}"#;
            (StatusCode::SERVICE_UNAVAILABLE, header, body).into_response()
        }
        Reply::Hang => std::future::pending().await,
    }
}

fn objects(body: &[u8], gzip: bool) -> Vec<Value> {
    let mut plain = Vec::new();
    if gzip {
        flate2::read::GzDecoder::new(body)
            .read_to_end(&mut plain)
            .unwrap();
    } else {
        plain.extend_from_slice(body);
    }
    let stream = serde_json::Deserializer::from_slice(&plain).into_iter();
    stream.map(|object| object.unwrap()).collect()
}
