//! Requests of HEC: the token, the channel, and questions for acknowledgements.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use tokio::sync::watch;

use super::config::{SplunkHecConfig, endpoint_url};
use crate::http::client::{Answer, HttpClient, HttpClientOptions, HttpTimeouts, SendError};
use crate::http::connection::{HttpConnection, WorkerConnections};
use crate::http::{proxy, tls};
use crate::{SinkError, SinkProblem};

/// Upper bound of the timeout of a question for acknowledgements: the connection carries no events
/// meanwhile.
const ASK_TIMEOUT_MAX: Duration = Duration::from_secs(5);

/// Names the channel on which acknowledgements are given.
pub(super) const CHANNEL: &str = "x-splunk-request-channel";

/// Client of a collector.
pub(super) struct HecClient {
    http: HttpClient,
    /// With acknowledgements: where each endpoint is asked for them.
    acks: Option<Vec<Url>>,
    authorization: HeaderValue,
    /// Set once: questions for acknowledgements are broken off.
    stop_acks: watch::Sender<bool>,
    ask_timeout: Duration,
}

impl HecClient {
    /// Reads certificates and the proxy environment.
    pub(super) fn new(config: &SplunkHecConfig) -> Result<Self, SinkError> {
        let ways = ways(config)?;
        let acks = ways.iter().map(|(url, _)| beside(url, "ack")).collect();
        let http = HttpClient::new(HttpClientOptions {
            ways,
            tls: tls::client_config(&config.tls, &config.endpoints)?,
            timeouts: timeouts(config),
            connection_max_age: config.connection_max_age.0,
            connection_max_requests: config.connection_max_requests,
        });
        Ok(Self {
            http,
            acks: config.acknowledgements.then_some(acks),
            authorization: authorization(config)?,
            stop_acks: watch::channel(false).0,
            ask_timeout: ASK_TIMEOUT_MAX.min(config.request_timeout.0),
        })
    }

    /// The connections of one more worker.
    ///
    /// # Errors
    /// The kernel gives no descriptors for them.
    pub(super) fn line(&self) -> io::Result<WorkerConnections> {
        self.http.line()
    }

    /// The connection to an endpoint; another one than before where that is due and `renewable`.
    /// With acknowledgements it has a channel that nobody else has.
    ///
    /// # Errors
    /// The system gives none.
    pub(super) fn link(
        &self,
        line: &mut WorkerConnections,
        endpoint: usize,
        renewable: bool,
    ) -> io::Result<Arc<HttpConnection>> {
        line.link(&self.http, endpoint, renewable, || {
            let channel = self.acks.is_some().then(new_channel).transpose();
            channel.map_err(io::Error::other)
        })
    }

    /// Sends a body and reads the answer; `None` if the process stops first.
    pub(super) fn post(
        &self,
        link: &HttpConnection,
        body: Bytes,
        encoding: Option<&'static str>,
    ) -> Option<Result<Answer, SendError>> {
        self.http.post(link, self.headers(link), body, encoding)
    }

    /// Asks which of these are acknowledged; `None` if the process stops first, or without
    /// acknowledgements.
    pub(super) fn ask_acks(
        &self,
        link: &HttpConnection,
        ids: &[u64],
    ) -> Option<Result<Answer, SendError>> {
        let url = &self.acks.as_ref()?[link.endpoint];
        let body = serde_json::json!({ "acks": ids }).to_string();
        let (headers, stop) = (self.headers(link), &self.stop_acks);
        self.http
            .ask(link, url, headers, body, self.ask_timeout, stop)
    }

    fn headers(&self, link: &HttpConnection) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(3);
        headers.insert(AUTHORIZATION, self.authorization.clone());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(channel) = &link.session {
            headers.insert(CHANNEL, channel.clone());
        }
        headers
    }

    /// Name of an endpoint in messages.
    pub(super) fn name(&self, index: usize) -> &str {
        self.http.name(index)
    }

    /// Breaks off every request with events.
    pub(super) fn shut_down(&self) {
        self.http.shut_down();
    }

    /// Breaks off a question for acknowledgements.
    pub(super) fn shut_down_acks(&self) {
        self.stop_acks.send_replace(true);
    }
}

/// Time-outs by the options.
pub(super) fn timeouts(config: &SplunkHecConfig) -> HttpTimeouts {
    HttpTimeouts {
        request: config.request_timeout.0,
        connect: config.connect_timeout.0,
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
    SinkError::Config(SinkProblem::new(key, message))
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
