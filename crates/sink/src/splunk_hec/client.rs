//! One request to one endpoint over a kept connection.
//!
//! A worker has a runtime, a client and so its connections to itself: a request is driven by the
//! thread that encoded its body, whose cache still holds it, and no lock or wake-up lies between.
//! The body is lent to the connection, not copied.

use std::error::Error;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use reqwest::{Proxy, Url};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use super::config::{SplunkHecConfig, endpoint_url};
use super::{proxy, tls};
use crate::{ErrorReason, Problem, SinkError};

/// Splunk takes a client without a User-Agent for one that cannot keep a connection.
const USER_AGENT: &str = concat!("inrush/", env!("CARGO_PKG_VERSION"));

/// Bytes of an answer that are read; HEC's have about 100.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// How long an idle connection is kept: Splunk closes idle ones after 12 s when it is busy.
const IDLE: Duration = Duration::from_secs(10);

/// What came back.
pub(super) struct Answer {
    pub(super) status: u16,
    /// The certificate that the other side showed, in DER, where the client was made to keep it.
    pub(super) certificate: Option<Vec<u8>>,
    pub(super) retry_after: Option<String>,
    pub(super) body: Vec<u8>,
}

/// Why nothing came back.
pub(super) struct SendError {
    pub(super) reason: ErrorReason,
    pub(super) text: String,
}

/// Names the channel on which acknowledgements are given.
pub(super) const CHANNEL: &str = "x-splunk-request-channel";

/// Where requests go.
struct Endpoint {
    url: Url,
    /// With acknowledgements: the channel, and where they are asked for.
    acks: Option<(HeaderValue, Url)>,
}

/// Makes connections that are broken off when told so.
type NewLine = dyn Fn(&watch::Sender<bool>) -> io::Result<Line> + Send + Sync;

/// What all requests have in common.
pub(super) struct Client {
    endpoints: Vec<Endpoint>,
    authorization: HeaderValue,
    /// Set once: requests under way are broken off.
    stop: watch::Sender<bool>,
    /// The same for questions for acknowledgements, which go on a little longer.
    stop_acks: watch::Sender<bool>,
    new_line: Box<NewLine>,
}

/// A worker's connections.
pub(super) struct Line {
    http: reqwest::Client,
    stop: watch::Receiver<bool>,
    /// `None` only while it is being dropped.
    runtime: Option<Runtime>,
}

impl Client {
    /// Reads certificates and the proxy environment.
    pub(super) fn new(config: &SplunkHecConfig) -> Result<Self, SinkError> {
        let proxies = ways(config)?;
        let mut endpoints = Vec::new();
        for (url, _) in &proxies {
            let channel = config.acknowledgements.then(new_channel).transpose();
            let channel = channel.map_err(|e| SinkError::Unstartable(io::Error::other(e)))?;
            let acks = channel.map(|channel| (channel, beside(url, "ack")));
            let url = url.clone();
            endpoints.push(Endpoint { url, acks });
        }
        let authorization = authorization(config)?;
        let (tls, proxy) = (tls::client_config(config)?, proxy_of(proxies));
        let (stop, _) = watch::channel(false);
        let (stop_acks, _) = watch::channel(false);
        let options = config.clone();
        let new_line = move |stop: &watch::Sender<bool>| {
            let config = &options;
            {
                let http = http(config, tls.clone(), proxy.clone()).build();
                Line::new(http.map_err(io::Error::other)?, stop.subscribe())
            }
        };
        Ok(Self {
            endpoints,
            authorization,
            stop,
            stop_acks,
            new_line: Box::new(new_line),
        })
    }

    /// The connections of one more worker.
    ///
    /// # Errors
    /// The kernel gives no descriptors for them.
    pub(super) fn line(&self) -> io::Result<Line> {
        (self.new_line)(&self.stop)
    }

    /// The connections over which acknowledgements are asked for.
    ///
    /// # Errors
    /// The kernel gives no descriptors for them.
    pub(super) fn ack_line(&self) -> io::Result<Line> {
        (self.new_line)(&self.stop_acks)
    }

    /// Sends a body and reads the answer; `None` if the process stops first.
    pub(super) fn post(
        &self,
        line: &Line,
        index: usize,
        body: Bytes,
        encoding: Option<&'static str>,
    ) -> Option<Result<Answer, SendError>> {
        let url = &self.endpoints[index].url;
        let mut request = self.request(line, index, url).body(body);
        if let Some(encoding) = encoding {
            request = request.header(CONTENT_ENCODING, HeaderValue::from_static(encoding));
        }
        let answer = line.run(ask(request))?;
        Some(answer.map_err(|error| send_error(url, error)))
    }

    /// Asks which of these are acknowledged; `None` if the process stops first, or without
    /// acknowledgements.
    pub(super) fn ask_acks(
        &self,
        line: &Line,
        index: usize,
        ids: &[u64],
    ) -> Option<Result<Answer, SendError>> {
        let (_, url) = self.endpoints[index].acks.as_ref()?;
        let body = serde_json::json!({ "acks": ids }).to_string();
        let answer = line.run(ask(self.request(line, index, url).body(body)))?;
        Some(answer.map_err(|error| send_error(url, error)))
    }

    fn request(&self, line: &Line, index: usize, url: &Url) -> reqwest::RequestBuilder {
        let request = line
            .http
            .post(url.clone())
            .header(AUTHORIZATION, self.authorization.clone())
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        match &self.endpoints[index].acks {
            Some((channel, _)) => request.header(CHANNEL, channel.clone()),
            None => request,
        }
    }

    /// How an endpoint is called in messages.
    pub(super) fn name(&self, index: usize) -> &str {
        self.endpoints[index].url.as_str()
    }

    /// Breaks off every request with events.
    pub(super) fn shut_down(&self) {
        self.stop.send_replace(true);
    }

    /// Breaks off a question for acknowledgements.
    pub(super) fn shut_down_acks(&self) {
        self.stop_acks.send_replace(true);
    }
}

impl Line {
    fn new(http: reqwest::Client, stop: watch::Receiver<bool>) -> io::Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            // For names that have to be resolved; one request at a time needs one.
            .max_blocking_threads(1)
            .build()?;
        Ok(Self {
            http,
            stop,
            runtime: Some(runtime),
        })
    }

    /// The outcome, or `None` if the process stops first.
    fn run<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut stop = self.stop.clone();
        self.runtime.as_ref()?.block_on(async {
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => None,
                done = work => Some(done),
            }
        })
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // A name that is being resolved cannot be broken off and must not hold up the end.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Every endpoint, and the proxy that it is reached through.
pub(super) fn ways(config: &SplunkHecConfig) -> Result<Vec<(Url, Option<Url>)>, SinkError> {
    let one = |text: &String| {
        let url = endpoint_url(text).map_err(|message| bad("endpoints", message))?;
        let proxy = match &config.proxy {
            Some(text) => proxy::parse(text.expose()).map_err(|m| bad("proxy", m))?,
            None => proxy::from_environment(&url, |name| std::env::var(name).ok()),
        };
        Ok((url, proxy))
    };
    config.endpoints.iter().map(one).collect()
}

/// The header with the token, which is not shown where headers are.
pub(super) fn authorization(config: &SplunkHecConfig) -> Result<HeaderValue, SinkError> {
    let token = format!("Splunk {}", config.token.expose());
    let mut authorization = HeaderValue::from_str(&token)
        .map_err(|_| bad("token", "has a character that HTTP does not allow".into()))?;
    authorization.set_sensitive(true);
    Ok(authorization)
}

fn bad(key: &str, message: String) -> SinkError {
    SinkError::Config(Problem::new(key, message))
}

/// A GUID that nobody else has: Splunk takes nothing else for a channel.
pub(super) fn new_channel() -> Result<HeaderValue, reqwest::header::InvalidHeaderValue> {
    let (a, b) = (fastrand::u64(..), fastrand::u64(..));
    // Version 4, variant 1 (RFC 9562 section 5.4).
    let (b_high, b_low) = (0x8000 | (b >> 48) & 0x3fff, b & 0xffff_ffff_ffff);
    let (a_high, a_mid, a_low) = (a >> 32, (a >> 16) & 0xffff, 0x4000 | a & 0x0fff);
    let text = format!("{a_high:08x}-{a_mid:04x}-{a_low:04x}-{b_high:04x}-{b_low:012x}");
    HeaderValue::from_str(&text)
}

/// Another service of an endpoint, such as `ack`: beside the path for events.
pub(super) fn beside(endpoint: &Url, service: &str) -> Url {
    let path = endpoint.path();
    let base = match path.find("/services/collector") {
        Some(at) => &path[..at],
        None => "",
    };
    let mut url = endpoint.clone();
    url.set_path(&format!("{base}/services/collector/{service}"));
    url
}

/// What chooses the proxy of a request, if any endpoint has one; it is asked for every request.
pub(super) fn proxy_of(proxies: Vec<(Url, Option<Url>)>) -> Option<Proxy> {
    if proxies.iter().all(|(_, proxy)| proxy.is_none()) {
        return None;
    }
    Some(Proxy::custom(move |url| {
        let known = proxies
            .iter()
            .find(|(known, _)| known.origin() == url.origin());
        known.and_then(|(_, proxy)| proxy.clone())
    }))
}

/// A client with the options' timeouts.
pub(super) fn http(
    config: &SplunkHecConfig,
    tls: rustls::ClientConfig,
    proxy: Option<Proxy>,
) -> reqwest::ClientBuilder {
    let builder = match proxy {
        Some(proxy) => reqwest::Client::builder().proxy(proxy),
        None => reqwest::Client::builder().no_proxy(),
    };
    builder
        .user_agent(USER_AGENT)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .timeout(config.request_timeout.0)
        .connect_timeout(config.connect_timeout.0)
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(1)
        .tls_backend_preconfigured(tls)
}

pub(super) async fn ask(request: reqwest::RequestBuilder) -> Result<Answer, reqwest::Error> {
    // Nobody watched the kept connection since the last request. Two rounds: one to learn from
    // the kernel that it was closed, one for the connection to act on it; else the request would
    // be sent into it and its fate be unknown.
    tokio::task::yield_now().await;
    tokio::task::yield_now().await;
    let mut response = request.send().await?;
    let status = response.status().as_u16();
    let tls = response.extensions().get::<reqwest::tls::TlsInfo>();
    let certificate = tls
        .and_then(|tls| tls.peer_certificate())
        .map(<[u8]>::to_vec);
    let retry_after = response.headers().get(RETRY_AFTER);
    let retry_after = retry_after.and_then(|v| v.to_str().ok()).map(str::to_owned);
    let mut body = Vec::new();
    // The status line is the verdict: an answer whose body breaks off is still an answer.
    while let Ok(Some(part)) = response.chunk().await {
        let room = ANSWER_BYTES_MAX - body.len();
        body.extend_from_slice(&part[..part.len().min(room)]);
        if body.len() == ANSWER_BYTES_MAX {
            break;
        }
    }
    Ok(Answer {
        status,
        certificate,
        retry_after,
        body,
    })
}

fn send_error(url: &Url, error: reqwest::Error) -> SendError {
    // Its address may hold the proxy's password; ours is the endpoint's.
    let error = error.without_url();
    let mut text = format!("{url}: ");
    text.push_str(&words(&error).join(": "));
    SendError {
        reason: reason(&error),
        text,
    }
}

/// What went wrong, from the outside in, without the layers that only say that something did: the
/// text stands in an alarm, where the first words count.
pub(super) fn words(error: &reqwest::Error) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for cause in causes(error).map(ToString::to_string) {
        // Some say the same as what they wrap.
        let said = words.last().is_some_and(|last| last.ends_with(&cause));
        if !said && !cause.starts_with("client error (") {
            words.push(cause);
        }
    }
    if words.is_empty() {
        words.push(error.to_string());
    }
    words
}

/// What lies below an error, from the outside in.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(cause(error), |&error| cause(error))
}

/// What an error is wrapped around. An I/O error passes over the one that it wraps itself.
fn cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    let wrapped = error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref);
    wrapped.map_or_else(|| error.source(), |inner| Some(inner))
}

/// What kind of fault it is.
pub(super) fn reason(error: &reqwest::Error) -> ErrorReason {
    if error.is_timeout() {
        return ErrorReason::Timeout;
    }
    if causes(error).any(|cause| cause.is::<rustls::Error>()) {
        return ErrorReason::Tls;
    }
    if causes(error).any(is_no_http) {
        return ErrorReason::BadAnswer;
    }
    if error.is_connect() && !causes(error).any(is_breach) {
        return ErrorReason::ConnectFailed;
    }
    ErrorReason::Io
}

fn is_no_http(cause: &(dyn Error + 'static)) -> bool {
    let hyper = cause.downcast_ref::<hyper::Error>();
    hyper.is_some_and(|error| error.is_parse() || error.is_parse_too_large())
}

/// Whether a connection broke that had been there.
fn is_breach(cause: &(dyn Error + 'static)) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    let io = cause.downcast_ref::<io::Error>().map(io::Error::kind);
    matches!(
        io,
        Some(BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
    )
}
