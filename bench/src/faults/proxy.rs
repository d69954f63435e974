//! A proxy before an S3 service that loses answers, cuts requests, says 503, and carries requests
//! out when nobody waits for them any more.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use inrush_harness::child::wait;

use super::plan::{AnswerPlan, BucketAnswer, FaultyRequest};

/// Time for which a connection to the service may be silent.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// The answer to a refused request.
const BUSY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/xml\r\n\
    Content-Length: 45\r\n\r\n<Error><Code>ServiceUnavailable</Code></Error>";

#[derive(Default)]
struct ProxyState {
    answers: Option<AnswerPlan>,
    /// Requests so far that the plan is about.
    counted: u32,
    done: BTreeMap<String, u64>,
}

/// The proxy; its threads live as long as this process.
pub(super) struct Proxy {
    state: Arc<Mutex<ProxyState>>,
    port: u16,
}

/// A request or an answer, as it came.
struct HttpMessage {
    head: Vec<u8>,
    body: Vec<u8>,
}

fn lock(state: &Mutex<ProxyState>) -> MutexGuard<'_, ProxyState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Proxy {
    pub(super) fn start(service: u16) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("the proxy")?;
        let port = listener.local_addr()?.port();
        let state = Arc::new(Mutex::new(ProxyState::default()));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let state = Arc::clone(&shared);
                thread::spawn(move || serve(stream, service, &state));
            }
        });
        Ok(Self { state, port })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn set(&self, answers: Option<AnswerPlan>) {
        let mut state = lock(&self.state);
        state.answers = answers;
        state.counted = 0;
    }

    /// Counts of what was done so far, by name; it begins anew.
    pub(super) fn done(&self) -> Vec<(String, u64)> {
        std::mem::take(&mut lock(&self.state).done)
            .into_iter()
            .collect()
    }
}

/// The answer that a request is to get.
fn decide(state: &Mutex<ProxyState>, line: &str) -> BucketAnswer {
    let mut state = lock(state);
    let Some(answers) = state.answers.clone() else {
        return BucketAnswer::Whole;
    };
    if !answers.target.is(line) {
        return BucketAnswer::Whole;
    }
    state.counted += 1;
    if !answers.hits(state.counted) {
        return BucketAnswer::Whole;
    }
    let name = format!("{:?} {:?}", answers.target, answers.answer);
    *state.done.entry(name).or_default() += 1;
    answers.answer
}

impl FaultyRequest {
    /// True if a request with this first line is meant.
    fn is(self, line: &str) -> bool {
        let put = line.starts_with("PUT ");
        match self {
            Self::Any => true,
            Self::Commit => put && line.contains(".commit"),
            Self::File => put && line.contains(".parquet"),
            Self::Put => put,
            Self::Get => line.starts_with("GET ") && !line.contains("list-type"),
            Self::List => line.contains("list-type"),
            Self::Delete => line.starts_with("DELETE ") || line.starts_with("POST "),
        }
    }
}

fn serve(stream: TcpStream, service: u16, state: &Mutex<ProxyState>) {
    let Ok(mut out) = stream.try_clone() else {
        return;
    };
    let _ = out.set_nodelay(true);
    let mut input = BufReader::new(stream);
    while let Some(request) = read(&mut input, false) {
        let line = String::from_utf8_lossy(&request.head);
        let line = line.lines().next().unwrap_or_default().to_owned();
        let head_only = line.starts_with("HEAD ");
        let answer = decide(state, &line);
        let ask = || forward(service, &request, head_only);
        let told = match answer {
            BucketAnswer::Whole => ask().map(|answer| answer.bytes()),
            BucketAnswer::Slow => {
                wait(Duration::from_millis(300));
                ask().map(|answer| answer.bytes())
            }
            BucketAnswer::Busy => Some(BUSY.to_vec()),
            BucketAnswer::DoneAndBusy => ask().map(|_| BUSY.to_vec()),
            BucketAnswer::Cut => None,
            BucketAnswer::Lost => {
                ask();
                None
            }
            BucketAnswer::Late => {
                drop(out.shutdown(std::net::Shutdown::Both));
                wait(Duration::from_millis(700));
                ask();
                None
            }
            BucketAnswer::Half => ask().map(|answer| {
                let bytes = answer.bytes();
                bytes[..bytes.len() / 2].to_vec()
            }),
        };
        let Some(bytes) = told else { break };
        if out.write_all(&bytes).is_err() || answer == BucketAnswer::Half {
            break;
        }
    }
    // The other half is the same socket.
    let _ = out.shutdown(std::net::Shutdown::Both);
}

impl HttpMessage {
    fn bytes(self) -> Vec<u8> {
        let mut bytes = self.head;
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

/// Has the service carry out a request; its answer.
fn forward(service: u16, request: &HttpMessage, head_only: bool) -> Option<HttpMessage> {
    let mut stream = TcpStream::connect(("127.0.0.1", service)).ok()?;
    stream.set_nodelay(true).ok()?;
    stream.set_read_timeout(Some(SILENCE_MAX)).ok()?;
    stream.write_all(&request.head).ok()?;
    stream.write_all(&request.body).ok()?;
    read(&mut BufReader::new(stream), head_only)
}

/// Reads a request or an answer, its body as it is encoded; nothing if it is not whole.
fn read(input: &mut impl BufRead, head_only: bool) -> Option<HttpMessage> {
    let (mut head, mut length, mut chunked) = (Vec::new(), 0, false);
    loop {
        let from = head.len();
        if input.read_until(b'\n', &mut head).ok()? == 0 {
            return None;
        }
        let line = String::from_utf8_lossy(&head[from..])
            .trim()
            .to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        chunked |= line.starts_with("transfer-encoding:") && line.contains("chunked");
    }
    let mut body = Vec::new();
    if head_only {
        return Some(HttpMessage { head, body });
    }
    if chunked {
        read_chunks(input, &mut body)?;
    } else {
        body = vec![0; length];
        input.read_exact(&mut body).ok()?;
    }
    Some(HttpMessage { head, body })
}

fn read_chunks(input: &mut impl BufRead, body: &mut Vec<u8>) -> Option<()> {
    loop {
        let from = body.len();
        input.read_until(b'\n', body).ok()?;
        let size = String::from_utf8_lossy(&body[from..]).trim().to_owned();
        let size = usize::from_str_radix(size.split(';').next()?, 16).ok()?;
        let from = body.len();
        body.resize(from + size + 2, 0);
        input.read_exact(&mut body[from..]).ok()?;
        if size == 0 {
            return Some(());
        }
    }
}
