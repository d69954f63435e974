//! A HEC collector that answers as the test scripts it, and remembers each request.
//!
//! An answer comes from the script while it has one, then from [`Hec::otherwise`], then from the
//! rule, and is success without any. One thread answers all requests and remembers them in the
//! order of their answers, so the number that a rule gets is the place in [`Hec::requests`].

use std::collections::VecDeque;
use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tokio::sync::watch;

use crate::acks::Acks;
use crate::balancer::{Balancer, Sticky};
use crate::reply::Reply;
use crate::wait::eventually;

/// One request, taken apart.
#[derive(Clone, Debug)]
pub struct HecRequest {
    /// Path without the query.
    pub path: String,
    /// All headers.
    pub headers: HeaderMap,
    /// `Authorization`; empty if it is missing.
    pub authorization: String,
    /// True for a compressed body.
    pub gzip: bool,
    /// The other end of the connection.
    pub peer: SocketAddr,
    /// Bytes of the body as it was sent.
    pub body_bytes: usize,
    /// The body as it was before compression.
    pub text: String,
    /// The objects of the body.
    pub events: Vec<Value>,
    /// Status of the answer; 0 without one.
    pub status: u16,
    /// Number of events that were indexed, from the first one on.
    pub indexed: usize,
}

/// The answer to the request of this number, from 0, with these events.
type Rule = Arc<dyn Fn(usize, &[Value]) -> Reply + Send + Sync>;

#[derive(Default)]
struct Shared {
    script: Mutex<VecDeque<Reply>>,
    /// The answer behind the script.
    otherwise: Mutex<Option<Reply>>,
    rule: Mutex<Option<Rule>>,
    requests: Mutex<Vec<HecRequest>>,
    /// Without it the token has no acknowledgement.
    acks: Mutex<Option<Acks>>,
    /// Answer to questions for acknowledgements, in place of HEC's.
    ack_page: Mutex<Option<(u16, String)>>,
    balancer: Mutex<Option<Balancer>>,
    /// Delay of each answer.
    latency: Mutex<Duration>,
    /// Requests that were not answered yet: now, and the most at once.
    waiting: Mutex<(usize, usize)>,
}

impl Shared {
    fn reply(&self, number: usize, events: &[Value]) -> Reply {
        let scripted = self.script.lock().unwrap().pop_front();
        if let Some(reply) = scripted.or_else(|| self.otherwise.lock().unwrap().clone()) {
            return reply;
        }
        // The lock is let go first: a rule that panics fails its request, not the whole test.
        let rule = self.rule.lock().unwrap().clone();
        rule.map_or(Reply::Success, |rule| rule(number, events))
    }

    /// Answers a question for acknowledgements.
    fn confirmations(&self, backend: usize, channel: &str, question: &[u8]) -> Response {
        if let Some((status, page)) = self.ack_page.lock().unwrap().clone() {
            return (StatusCode::from_u16(status).unwrap(), page).into_response();
        }
        let mut acks = self.acks.lock().unwrap();
        let answer = acks.as_mut().unwrap().answer(backend, channel, question);
        answer.to_string().into_response()
    }
}

/// The collector, on a thread of its own that ends with it.
pub struct Hec {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Hec {
    /// A collector on a port that the kernel chooses.
    pub fn start() -> Self {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    /// A collector on this address, which may have been refusing connections until now.
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

    /// A collector of this rule, as [`answer_with`](Self::answer_with) has it.
    pub fn answering(rule: impl Fn(usize, &[Value]) -> Reply + Send + Sync + 'static) -> Self {
        let hec = Self::start();
        hec.answer_with(rule);
        hec
    }

    /// The address that it listens at.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL for `endpoints:`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The next answers, in order.
    pub fn script(&self, replies: impl IntoIterator<Item = Reply>) {
        self.shared.script.lock().unwrap().extend(replies);
    }

    /// The answer once the script is used up; `None` leaves it to the rule again.
    pub fn otherwise(&self, reply: Option<Reply>) {
        *self.shared.otherwise.lock().unwrap() = reply;
    }

    /// The answer from now on, by the number of the request, from 0, and its events.
    pub fn answer_with(&self, rule: impl Fn(usize, &[Value]) -> Reply + Send + Sync + 'static) {
        *self.shared.rule.lock().unwrap() = Some(Arc::new(rule));
    }

    /// Judges every event from now on: the code and text to refuse it with.
    pub fn rule(
        &self,
        bad: impl Fn(&Value) -> Option<(u32, &'static str)> + Send + Sync + 'static,
    ) {
        self.answer_with(move |_, events| Reply::judge(events, &bad));
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<HecRequest> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// Number of requests so far of which this holds.
    pub fn count(&self, which: impl Fn(&HecRequest) -> bool) -> usize {
        let requests = self.shared.requests.lock().unwrap();
        requests.iter().filter(|request| which(request)).count()
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
        let requests = self.shared.requests.lock().unwrap();
        let indexed = |request: &HecRequest| request.events[..request.indexed].to_vec();
        requests.iter().flat_map(indexed).collect()
    }

    /// Texts of the events that were indexed, sorted: workers do not keep order between them.
    pub fn texts(&self) -> Vec<String> {
        let text = |event: &Value| event["event"].as_str().unwrap().to_owned();
        let mut texts: Vec<String> = self.taken().iter().map(text).collect();
        texts.sort();
        texts
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
        self.acknowledge_if(|_| false);
    }

    /// Gives the token acknowledgement; `confirm` decides on the request of each `ackId`.
    pub fn acknowledge_if(&self, confirm: impl Fn(u64) -> bool + Send + Sync + 'static) {
        *self.shared.acks.lock().unwrap() = Some(Acks::new(confirm));
    }

    /// Confirms everything from the `n`th further question on; 1 is the next one.
    pub fn confirm_after(&self, n: u64) {
        let mut acks = self.shared.acks.lock().unwrap();
        acks.as_mut().unwrap().confirm_after(n);
    }

    /// Answers questions for acknowledgements with this status and body, until `None`.
    pub fn answer_acks_with(&self, page: Option<(u16, &str)>) {
        let page = page.map(|(status, body)| (status, body.to_owned()));
        *self.shared.ack_page.lock().unwrap() = page;
    }

    /// Number of questions for acknowledgements so far.
    pub fn asked(&self) -> u64 {
        self.shared.acks.lock().unwrap().as_ref().unwrap().asked()
    }

    /// Becomes two servers behind a load balancer; each counts its own `ackId`s.
    pub fn balance(&self, sticky: Sticky) {
        *self.shared.balancer.lock().unwrap() = Some(Balancer::new(sticky));
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

fn header(headers: &HeaderMap, name: &str) -> String {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.unwrap_or("").to_owned()
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let cookie = header(&headers, "cookie");
    let lead = |balancer: &mut Balancer| balancer.lead(peer, &cookie);
    let led = shared.balancer.lock().unwrap().as_mut().map(lead);
    let (backend, cookie) = led.unwrap_or_default();
    let path = uri.path().to_owned();
    let mut response = if path.contains("/health") {
        // A health probe says nothing about events: it does not use up the script.
        r#"{"text":"HEC is healthy","code":17}"#.into_response()
    } else if path.ends_with("/ack") {
        let channel = header(&headers, "x-splunk-request-channel");
        shared.confirmations(backend, &channel, &body)
    } else {
        let request = HecRequest {
            path,
            authorization: header(&headers, "authorization"),
            gzip: header(&headers, "content-encoding") == "gzip",
            headers,
            peer,
            body_bytes: body.len(),
            text: String::new(),
            events: Vec::new(),
            status: 0,
            indexed: 0,
        };
        take(shared, backend, method, request, &body).await
    };
    if let Some(cookie) = cookie {
        let headers = response.headers_mut();
        headers.insert("set-cookie", cookie.parse().unwrap());
    }
    response
}

/// Answers a request that is to carry events, and remembers it.
async fn take(
    shared: Arc<Shared>,
    backend: usize,
    method: Method,
    mut request: HecRequest,
    body: &[u8],
) -> Response {
    let _waiting = Waiting::begin(&shared);
    let latency = *shared.latency.lock().unwrap();
    if !latency.is_zero() {
        tokio::time::sleep(latency).await;
    }
    request.text = plain(body, request.gzip);
    request.events = objects(&request.text);
    let number = shared.requests.lock().unwrap().len();
    let reply = match method {
        Method::POST => shared.reply(number, &request.events),
        _ => Reply::status(405, ""),
    };
    request.status = reply.http_status();
    request.indexed = reply.indexed(request.events.len());
    let ack = (reply.takes_ack() && request.indexed > 0).then(|| {
        let channel = header(&request.headers, "x-splunk-request-channel");
        let mut acks = shared.acks.lock().unwrap();
        acks.as_mut().map(|acks| acks.give(backend, &channel))
    });
    shared.requests.lock().unwrap().push(request);
    reply.respond(ack.flatten()).await
}

fn plain(body: &[u8], gzip: bool) -> String {
    if !gzip {
        return String::from_utf8(body.to_vec()).unwrap();
    }
    let mut plain = String::new();
    flate2::read::GzDecoder::new(body)
        .read_to_string(&mut plain)
        .unwrap();
    plain
}

fn objects(text: &str) -> Vec<Value> {
    let stream = serde_json::Deserializer::from_str(text).into_iter();
    stream.map(|object| object.unwrap()).collect()
}
