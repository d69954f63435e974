//! A HEC server that answers what the test scripted and remembers what it was sent.

use std::collections::VecDeque;
use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
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

    fn success() -> Self {
        Self::code(200, 0, "Success")
    }
}

/// One request, taken apart.
#[derive(Clone, Debug)]
pub struct HecRequest {
    pub path: String,
    pub authorization: String,
    pub gzip: bool,
    /// The objects of the body.
    pub events: Vec<Value>,
    /// The status it was answered with; 0 if it was left hanging.
    pub status: u16,
}

#[derive(Default)]
struct Shared {
    script: Mutex<VecDeque<Reply>>,
    /// What is answered once the script is used up; success if `None`.
    otherwise: Mutex<Option<Reply>>,
    requests: Mutex<Vec<HecRequest>>,
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

    /// The events of the requests that were answered with 200, in order.
    pub fn taken(&self) -> Vec<Value> {
        let requests = self
            .requests()
            .into_iter()
            .filter(|request| request.status == 200);
        requests.flat_map(|request| request.events).collect()
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
        _ = axum::serve(listener, app) => {}
        _ = stopped.wait_for(|stop| *stop) => {}
    }
}

async fn answer(
    State(shared): State<Arc<Shared>>,
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
    let scripted = shared.script.lock().unwrap().pop_front();
    let otherwise = || shared.otherwise.lock().unwrap().clone();
    let reply = scripted.or_else(otherwise).unwrap_or_else(Reply::success);
    let status = match &reply {
        Reply::Status(status, _) => *status,
        Reply::Busy { .. } => 503,
        Reply::Hang => 0,
    };
    let events = objects(&body, gzip);
    let authorization = header("authorization");
    let request = HecRequest {
        path,
        authorization,
        gzip,
        events,
        status,
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
