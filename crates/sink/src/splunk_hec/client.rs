//! One request to one endpoint over a kept connection.
//!
//! A worker has its connections (`link`) to itself: a request is driven by the thread that encoded
//! its body, whose cache still holds it, and no wake-up lies between. The body is lent to the
//! connection, not copied.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper_util::client::legacy::connect::HttpInfo;
use reqwest::header::{
    AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, COOKIE, HeaderName, HeaderValue,
    RETRY_AFTER, SET_COOKIE,
};
use reqwest::{Proxy, Url};
use tokio::sync::watch;

use super::config::{SplunkHecConfig, endpoint_url};
use super::link::{Limits, Line, Link};
use super::{proxy, speech, tls};
use crate::{ErrorReason, Problem, SinkError};

/// Splunk takes a client without a User-Agent for one that cannot keep a connection.
const USER_AGENT: &str = concat!("inrush/", env!("CARGO_PKG_VERSION"));

/// Bytes of an answer that are read; HEC's have about 100.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Time for which an idle connection is kept: Splunk closes idle ones after 12 s when it is busy.
const IDLE: Duration = Duration::from_secs(10);

/// Upper bound of the timeout of a question for acknowledgements: the connection carries no events
/// meanwhile.
const ASK_TIMEOUT_MAX: Duration = Duration::from_secs(5);

/// Time for which the result of a trial of the other protocol is remembered.
const TRY_AGAIN: Duration = Duration::from_secs(60);

/// Answer to a request, as it came over HTTP.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) content_type: Option<String>,
    /// Each `Set-Cookie`.
    pub(super) cookies: Vec<String>,
    /// Our end of the connection.
    pub(super) via: Option<SocketAddr>,
    /// Reason for which the body has no end, if it has none.
    pub(super) broken: Option<String>,
    /// The certificate that the other side showed, in DER, where the client was made to keep it.
    pub(super) certificate: Option<Vec<u8>>,
    pub(super) retry_after: Option<String>,
    pub(super) body: Vec<u8>,
}

/// Error of a request without an answer.
pub(super) struct SendError {
    pub(super) reason: ErrorReason,
    pub(super) text: String,
}

/// Names the channel on which acknowledgements are given.
pub(super) const CHANNEL: &str = "x-splunk-request-channel";

/// Collector that requests go to.
struct Endpoint {
    url: Url,
    /// With acknowledgements: where they are asked for.
    acks: Option<Url>,
    /// It is reached through a proxy.
    proxied: bool,
    /// Time and result of the last trial whether the other protocol is spoken.
    tried: Mutex<Option<(Instant, Option<&'static str>)>>,
}

/// Makes one more client.
type NewHttp = dyn Fn() -> io::Result<reqwest::Client> + Send + Sync;

/// Client of a destination: endpoints, token and limits that all requests have in common.
pub(super) struct Client {
    endpoints: Vec<Endpoint>,
    authorization: HeaderValue,
    /// Set once: requests under way are broken off.
    stop: watch::Sender<bool>,
    /// The same for questions for acknowledgements, which go on a little longer.
    stop_acks: watch::Sender<bool>,
    ask_timeout: Duration,
    limits: Limits,
    new_http: Box<NewHttp>,
}

impl Client {
    /// Reads certificates and the proxy environment.
    pub(super) fn new(config: &SplunkHecConfig) -> Result<Self, SinkError> {
        let proxies = ways(config)?;
        let one = |(url, proxy): &(Url, Option<Url>)| Endpoint {
            url: url.clone(),
            acks: config.acknowledgements.then(|| beside(url, "ack")),
            proxied: proxy.is_some(),
            tried: Mutex::default(),
        };
        let endpoints = proxies.iter().map(one).collect();
        let authorization = authorization(config)?;
        let (tls, proxy) = (tls::client_config(config)?, proxy_of(proxies));
        let (stop, _) = watch::channel(false);
        let (stop_acks, _) = watch::channel(false);
        let options = config.clone();
        let new_http = move || {
            let http = http(&options, tls.clone(), proxy.clone()).build();
            http.map_err(io::Error::other)
        };
        Ok(Self {
            endpoints,
            authorization,
            stop,
            stop_acks,
            ask_timeout: ASK_TIMEOUT_MAX.min(config.request_timeout.0),
            limits: Limits::new(config),
            new_http: Box::new(new_http),
        })
    }

    /// The connections of one more worker.
    ///
    /// # Errors
    /// The kernel gives no descriptors for them.
    pub(super) fn line(&self) -> io::Result<Line> {
        Line::new(self.endpoints.len(), self.limits)
    }

    /// A client that has no connection yet.
    ///
    /// # Errors
    /// The system does not give what one needs.
    pub(super) fn http(&self) -> io::Result<reqwest::Client> {
        (self.new_http)()
    }

    /// A channel that nobody else has; `None` without acknowledgements.
    ///
    /// # Errors
    /// None that is known of.
    pub(super) fn channel(&self) -> io::Result<Option<HeaderValue>> {
        let wanted = self.endpoints.iter().any(|one| one.acks.is_some());
        let channel = wanted.then(new_channel).transpose();
        channel.map_err(io::Error::other)
    }

    /// Sends a body and reads the answer; `None` if the process stops first.
    pub(super) fn post(
        &self,
        link: &Link,
        body: Bytes,
        encoding: Option<&'static str>,
    ) -> Option<Result<Answer, SendError>> {
        let endpoint = &self.endpoints[link.endpoint];
        let mut request = self.request(link, &endpoint.url).body(body);
        if let Some(encoding) = encoding {
            request = request.header(CONTENT_ENCODING, HeaderValue::from_static(encoding));
        }
        // Whoever asks for acknowledgements later needs the connection.
        if link.count() && link.channel.is_none() {
            request = request.header(CONNECTION, HeaderValue::from_static("close"));
        }
        let answer = link.wheel.run(&self.stop, ask(request))?;
        match answer {
            Ok(answer) => Some(Ok(answer)),
            Err(error) => {
                let hint = self.hint(link, &error)?;
                Some(Err(send_error(&endpoint.url, error, hint)))
            }
        }
    }

    /// Asks which of these are acknowledged; `None` if the process stops first, or without
    /// acknowledgements.
    pub(super) fn ask_acks(&self, link: &Link, ids: &[u64]) -> Option<Result<Answer, SendError>> {
        let url = self.endpoints[link.endpoint].acks.as_ref()?;
        let body = serde_json::json!({ "acks": ids }).to_string();
        let request = self.request(link, url).body(body).timeout(self.ask_timeout);
        let answer = link.wheel.run(&self.stop_acks, ask(request))?;
        Some(answer.map_err(|error| send_error(url, error, None)))
    }

    /// Remedy, in words, if the other protocol is spoken at the address of a request that failed;
    /// `None` if the process stops first.
    #[allow(clippy::option_option, reason = "a stop is not an answer")]
    fn hint(&self, link: &Link, error: &reqwest::Error) -> Option<Option<&'static str>> {
        let endpoint = &self.endpoints[link.endpoint];
        if endpoint.proxied || !speech::may_be_other(&endpoint.url, reason(error)) {
            return Some(None);
        }
        let lock = || {
            endpoint
                .tried
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        let known = *lock();
        if let Some((at, hint)) = known.filter(|(at, _)| at.elapsed() < TRY_AGAIN) {
            let _ = at;
            return Some(hint);
        }
        let hint = link
            .wheel
            .run(&self.stop, speech::other(endpoint.url.clone()))?;
        *lock() = Some((Instant::now(), hint));
        Some(hint)
    }

    fn request(&self, link: &Link, url: &Url) -> reqwest::RequestBuilder {
        let mut request = link
            .http
            .post(url.clone())
            .header(AUTHORIZATION, self.authorization.clone())
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(channel) = &link.channel {
            request = request.header(CHANNEL, channel.clone());
        }
        match link.cookie(url.path()) {
            Some(cookie) => request.header(COOKIE, cookie),
            None => request,
        }
    }

    /// Name of an endpoint in messages.
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

/// Proxy rule of all requests, if any endpoint has a proxy; it is asked for every request.
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
        // As most clients write them: not all on the way read `cookie` as `Cookie`.
        .http1_title_case_headers()
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
    let text = |name: HeaderName| {
        let value = response.headers().get(name)?;
        Some(value.to_str().ok()?.to_owned())
    };
    let (retry_after, content_type) = (text(RETRY_AFTER), text(CONTENT_TYPE));
    let cookies = response.headers().get_all(SET_COOKIE).iter();
    let cookies = cookies.filter_map(|v| Some(v.to_str().ok()?.to_owned()));
    let cookies = cookies.collect();
    let info = response.extensions().get::<HttpInfo>();
    let via = info.map(HttpInfo::local_addr);
    let (mut body, mut broken) = (Vec::new(), None);
    // A status that says no is an answer even where its body breaks off.
    loop {
        match response.chunk().await {
            Ok(Some(part)) => {
                let room = ANSWER_BYTES_MAX - body.len();
                body.extend_from_slice(&part[..part.len().min(room)]);
                if body.len() == ANSWER_BYTES_MAX {
                    break;
                }
            }
            Ok(None) => break,
            Err(error) => {
                broken = Some(words(&error.without_url()).join(": "));
                break;
            }
        }
    }
    Ok(Answer {
        status,
        content_type,
        cookies,
        via,
        broken,
        certificate,
        retry_after,
        body,
    })
}

fn send_error(url: &Url, error: reqwest::Error, hint: Option<&str>) -> SendError {
    // Its address may hold the proxy's password; ours is the endpoint's.
    let error = error.without_url();
    let words = words(&error).join(": ");
    let text = match hint {
        Some(hint) => format!("{url}: {hint} ({words})"),
        None => format!("{url}: {words}"),
    };
    SendError {
        reason: reason(&error),
        text,
    }
}

/// Messages of an error's causes, from the outside in, without the layers that only say that
/// something went wrong: the text stands in an alarm, where the first words count.
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

/// Causes of an error, from the outside in.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(cause(error), |&error| cause(error))
}

/// Cause that an error is wrapped around. An I/O error passes over the one that it wraps itself.
fn cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    let wrapped = error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref);
    wrapped.map_or_else(|| error.source(), |inner| Some(inner))
}

/// Reason that an error counts as.
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

/// True if a connection broke that had been there.
fn is_breach(cause: &(dyn Error + 'static)) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    let io = cause.downcast_ref::<io::Error>().map(io::Error::kind);
    matches!(
        io,
        Some(BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
    )
}
