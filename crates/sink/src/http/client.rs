//! One request to one endpoint over a kept connection.
//!
//! A worker has its connections (`link`) to itself: a request is driven by the thread that encoded
//! its body, whose cache still holds it, and no wake-up lies between. The body is lent to the
//! connection, not copied.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper_util::client::legacy::connect::HttpInfo;
use inrush_transport::trusted_server;
use reqwest::header::{
    CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, HeaderValue,
    RETRY_AFTER, SET_COOKIE,
};
use reqwest::{Proxy, Url};
use tokio::sync::watch;

use super::connection::{ConnectionLimits, HttpConnection, WorkerConnections};
use super::scheme;
use crate::ErrorReason;

/// Splunk takes a client without a User-Agent for one that cannot keep a connection.
const USER_AGENT: &str = concat!("inrush/", env!("CARGO_PKG_VERSION"));

/// Bytes of an answer that are read; HEC's have about 100.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Time for which an idle connection is kept: Splunk closes idle ones after 12 s when it is busy.
const IDLE: Duration = Duration::from_secs(10);

/// Time for which the result of a trial of the other protocol is remembered.
const TRY_AGAIN: Duration = Duration::from_secs(60);

/// Answer to a request, as it came over HTTP.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_type: Option<String>,
    /// Each `Set-Cookie`.
    pub(crate) cookies: Vec<String>,
    /// Our end of the connection.
    pub(crate) via: Option<SocketAddr>,
    /// Reason for which the body has no end, if it has none.
    pub(crate) broken: Option<String>,
    /// The certificate that the other side showed, in DER, where the client was made to keep it.
    pub(crate) certificate: Option<Vec<u8>>,
    pub(crate) retry_after: Option<String>,
    pub(crate) body: Vec<u8>,
}

/// Error of a request without an answer.
pub(crate) struct SendError {
    pub(crate) reason: ErrorReason,
    pub(crate) text: String,
}

/// Endpoint that requests go to.
struct HttpEndpoint {
    url: Url,
    /// It is reached through a proxy.
    proxied: bool,
    /// Time and result of the last trial whether the other protocol is spoken.
    tried: Mutex<Option<(Instant, Option<&'static str>)>>,
}

/// Makes one more client.
type NewHttp = dyn Fn() -> io::Result<reqwest::Client> + Send + Sync;

/// What all requests of a destination have in common.
pub(crate) struct HttpClientOptions {
    /// Each endpoint, and the proxy that it is reached through.
    pub(crate) ways: Vec<(Url, Option<Url>)>,
    /// TLS towards `https` endpoints.
    pub(crate) tls: rustls::ClientConfig,
    /// Time-outs of requests and connections.
    pub(crate) timeouts: HttpTimeouts,
    /// Age at which a connection is renewed; zero for never.
    pub(crate) connection_max_age: Duration,
    /// Requests that a connection carries, at most.
    pub(crate) connection_max_requests: Option<NonZeroU32>,
}

/// Time-outs of requests and connections.
#[derive(Clone, Copy)]
pub(crate) struct HttpTimeouts {
    /// From the start of a request to the end of its answer.
    pub(crate) request: Duration,
    /// To open a connection, TLS included.
    pub(crate) connect: Duration,
}

/// Client of a destination: endpoints and limits that all requests have in common.
pub(crate) struct HttpClient {
    endpoints: Vec<HttpEndpoint>,
    /// Set once: requests under way are broken off.
    stop: watch::Sender<bool>,
    limits: ConnectionLimits,
    new_http: Box<NewHttp>,
}

impl HttpClient {
    /// A client without a connection.
    pub(crate) fn new(options: HttpClientOptions) -> Self {
        let one = |(url, proxy): &(Url, Option<Url>)| HttpEndpoint {
            url: url.clone(),
            proxied: proxy.is_some(),
            tried: Mutex::default(),
        };
        let endpoints = options.ways.iter().map(one).collect();
        let (tls, proxy, timeouts) = (options.tls, proxy_of(options.ways), options.timeouts);
        let new_http = move || {
            let http = http(timeouts, tls.clone(), proxy.clone()).build();
            http.map_err(io::Error::other)
        };
        Self {
            endpoints,
            stop: watch::channel(false).0,
            limits: ConnectionLimits::new(
                options.connection_max_age,
                options.connection_max_requests,
            ),
            new_http: Box::new(new_http),
        }
    }

    /// The connections of one more worker.
    ///
    /// # Errors
    /// The kernel gives no descriptors for them.
    pub(crate) fn line(&self) -> io::Result<WorkerConnections> {
        WorkerConnections::new(self.endpoints.len(), self.limits)
    }

    /// A client that has no connection yet.
    ///
    /// # Errors
    /// The system does not give what one needs.
    pub(crate) fn http(&self) -> io::Result<reqwest::Client> {
        (self.new_http)()
    }

    /// Sends a body with these headers and reads the answer; `None` if the process stops first.
    pub(crate) fn post(
        &self,
        link: &HttpConnection,
        headers: HeaderMap,
        body: Bytes,
        encoding: Option<&'static str>,
    ) -> Option<Result<Answer, SendError>> {
        let endpoint = &self.endpoints[link.endpoint];
        let mut request = self.request(link, &endpoint.url, headers).body(body);
        if let Some(encoding) = encoding {
            request = request.header(CONTENT_ENCODING, HeaderValue::from_static(encoding));
        }
        // Whoever asks for the outcome later needs the connection.
        if link.count() && link.session.is_none() {
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

    /// Asks another service of an endpoint about earlier requests; `None` once `stop` is set.
    pub(crate) fn ask(
        &self,
        link: &HttpConnection,
        url: &Url,
        headers: HeaderMap,
        body: String,
        timeout: Duration,
        stop: &watch::Sender<bool>,
    ) -> Option<Result<Answer, SendError>> {
        let request = self.request(link, url, headers).body(body).timeout(timeout);
        let answer = link.wheel.run(stop, ask(request))?;
        Some(answer.map_err(|error| send_error(url, error, None)))
    }

    /// Remedy, in words, if the other protocol is spoken at the address of a request that failed;
    /// `None` if the process stops first.
    #[allow(clippy::option_option, reason = "a stop is not an answer")]
    fn hint(&self, link: &HttpConnection, error: &reqwest::Error) -> Option<Option<&'static str>> {
        let endpoint = &self.endpoints[link.endpoint];
        if endpoint.proxied || !scheme::may_be_other(&endpoint.url, reason(error)) {
            return Some(None);
        }
        let lock = || {
            endpoint
                .tried
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        let known = *lock();
        if let Some((_, hint)) = known.filter(|(at, _)| at.elapsed() < TRY_AGAIN) {
            return Some(hint);
        }
        let hint = link
            .wheel
            .run(&self.stop, scheme::other(endpoint.url.clone()))?;
        *lock() = Some((Instant::now(), hint));
        Some(hint)
    }

    fn request(
        &self,
        link: &HttpConnection,
        url: &Url,
        headers: HeaderMap,
    ) -> reqwest::RequestBuilder {
        let request = link.http.post(url.clone()).headers(headers);
        match link.cookie(url.path()) {
            Some(cookie) => request.header(COOKIE, cookie),
            None => request,
        }
    }

    /// Name of an endpoint in messages.
    pub(crate) fn name(&self, index: usize) -> &str {
        self.endpoints[index].url.as_str()
    }

    /// Breaks off every request with events.
    pub(crate) fn shut_down(&self) {
        self.stop.send_replace(true);
    }
}

/// Proxy rule of all requests, if any endpoint has a proxy; it is asked for every request.
pub(crate) fn proxy_of(proxies: Vec<(Url, Option<Url>)>) -> Option<Proxy> {
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

/// A client with these time-outs.
pub(crate) fn http(
    timeouts: HttpTimeouts,
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
        .timeout(timeouts.request)
        .connect_timeout(timeouts.connect)
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(1)
        .tls_backend_preconfigured(tls)
}

/// Sends a request, and reads the answer with as much of its body as counts.
pub(crate) async fn ask(request: reqwest::RequestBuilder) -> Result<Answer, reqwest::Error> {
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
pub(crate) fn words(error: &reqwest::Error) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for cause in causes(error) {
        let said = cause.to_string();
        if let Some(plain) = cause.downcast_ref().and_then(trusted_server::words) {
            // In place of what the layers above say of it.
            words.retain(|above| !above.ends_with(&said));
            words.push(plain.to_owned());
            break;
        }
        // Some say the same as what they wrap.
        let twice = words.last().is_some_and(|last| last.ends_with(&said));
        if !twice && !said.starts_with("client error (") {
            words.push(said);
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
pub(crate) fn reason(error: &reqwest::Error) -> ErrorReason {
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
