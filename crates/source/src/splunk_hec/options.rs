//! Options of an HTTP Event Collector. Their doc comments are the reference page, and the order of
//! fields is its order.
//!
//! # What it guarantees
//! * What `validate` lets pass can be started: tokens differ, and expressions and names are sound.
//!   Files of tokens and certificates are looked at by the start alone.
//!
//! # Limits
//! A token has `TOKEN_BYTES_MIN` characters at least. Defaults are Splunk's where it has any.

use std::any::Any;
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use inrush_event::{ByteSize, Period, Secret};
use inrush_ingest::enrichment::Enrichment;
use inrush_transport::config::{HttpListenAddrs, ListenAddr, StreamOptions, TlsServerOptions};
use regex::bytes::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cors::CorsOptions;
use super::running::RunningHec;
use crate::options::{OptionProblem, SourceOptions, check_product};
use crate::{Source, SourceServices, StartedSource};

/// An HTTP Event Collector (HEC), as Splunk's clients speak to it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SplunkHecSource {
    /// Address to listen on, or several: HTTPS if `tls` is given, else HTTP. `http://` or
    /// `https://` before one says which it is.
    pub listen: HttpListenAddrs,
    /// Certificate and key for HTTPS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsServerOptions>,
    /// Tokens by which clients may send.
    #[schemars(length(min = 1))]
    pub tokens: Vec<TokenOptions>,
    /// Connections.
    #[serde(default)]
    pub stream: StreamOptions,
    /// The index of events that neither the event, its request nor its token name one for.
    #[serde(default = "crate::options::index_default")]
    #[schemars(length(min = 1))]
    pub index: String,
    /// The sourcetype of events that neither the event, its request nor its token name one for.
    #[serde(default = "sourcetype_default")]
    #[schemars(length(min = 1))]
    pub sourcetype: String,
    /// Bytes of a request's body, decompressed; a longer one is answered 413.
    #[serde(default = "content_length_default")]
    pub max_content_length: ByteSize,
    /// Bytes of one event; a longer one is answered 400, code 6.
    #[serde(default = "event_bytes_default")]
    pub max_event_bytes: ByteSize,
    /// Times that a compressed body may grow; one that grows more is answered 400, code 6.
    #[serde(default = "ratio_default")]
    #[schemars(range(min = 1))]
    pub max_compression_ratio: u32,
    /// Time that a request waits for room in the queue before it is answered 503, code 9.
    #[serde(default = "busy_default")]
    pub busy_after: Period,
    /// Answer when there is no room.
    #[serde(default)]
    pub busy: BusyAnswer,
    /// Channels of acknowledgements at once, at most; a request of another one is busy.
    #[serde(default = "ack_channels_default")]
    pub max_ack_channels: NonZeroU32,
    /// Acknowledgements of all channels that no client has asked for, at most; further requests
    /// are busy.
    #[serde(default = "pending_acks_default")]
    pub max_pending_acks: NonZeroU32,
    /// Name of a cookie that tells clients their channel: a load balancer that only knows cookies
    /// keeps a channel at one instance by it. Default: no cookie.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel_cookie: Option<String>,
    /// Pages whose scripts may send from a browser. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cors: Option<CorsOptions>,
    /// Distance of an event's time from the time at which it was received, at most. The event is
    /// kept as it is, flagged `time_skewed` and counted. `0s`: it may be anything.
    #[serde(default = "time_skew_default")]
    pub max_time_skew: Period,
}

/// Answer to a request for which there is no room.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub enum BusyAnswer {
    /// 503 with code 9: every client sends again.
    #[default]
    #[serde(rename = "503")]
    ServiceUnavailable,
    /// 429 with code 26, as newer versions of Splunk.
    #[serde(rename = "429")]
    TooManyRequests,
}

/// A token, and what holds for the events that come with it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenOptions {
    /// The token, at least 8 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Secret>,
    /// In place of `token`: file with the token in its first line, below `data_dir` if it is not
    /// absolute. Where there is none it is made at the start, with a new token that is shown once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// Name in metrics and on the page. Default: its place, as in `tokens[0]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Switches it off: requests are answered 403, code 1.
    #[serde(default)]
    pub disabled: bool,
    /// The index of its events that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<String>,
    /// The indexes that its events may name; another is answered 400, code 7. Default: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<String>,
    /// The sourcetype of its events that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sourcetype: Option<String>,
    /// The source of its events that name none. Default: `http:` and the token's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The host of its events that name none.
    #[serde(default)]
    pub host: HostRule,
    /// Bytes of bodies a second, at most; requests beyond are answered 503, code 9. Default: no
    /// bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<ByteSize>,
    /// Gives requests an `ackId`, by which their client can ask whether their events are safe.
    /// They need a channel then.
    #[serde(default)]
    pub ack: AckRule,
    /// Lets the token stand in the query of a request (`?token=`).
    #[serde(default)]
    pub query_string_auth: bool,
    /// The raw endpoint.
    #[serde(default, skip_serializing_if = "RawOptions::is_default")]
    pub raw: RawOptions,
    /// Has packs recognise lines of the raw endpoint, as for syslog. Lines that none recognises
    /// have the names of the request or the token.
    #[serde(default)]
    pub packs: bool,
}

/// Options of the raw endpoint.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawOptions {
    /// Regular expression that the first line of an event matches: other lines belong to the event
    /// before. Default: each line is an event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multiline: Option<String>,
    /// The product whose lines come, as `vendor/product`: packs are told, where rules alone cannot
    /// tell. The token needs `packs: true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[^/]+/[^/]+$"), extend("examples" = ["cisco/esa"]))]
    pub product: Option<String>,
}

impl RawOptions {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The rule for first lines, compiled.
    ///
    /// # Errors
    /// In words: it is no regular expression.
    pub(super) fn first_line(&self) -> Result<Option<Regex>, String> {
        let rule = self.multiline.as_deref().map(Regex::new).transpose();
        rule.map_err(|error| format!("`raw.multiline`: {error}"))
    }
}

/// Rule by which an `ackId` becomes true.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AckRule {
    /// Requests get none.
    #[default]
    Off,
    /// Once their events are durable here, which they are with the answer.
    Received,
    /// Once every destination has settled their events.
    Delivered,
}

/// Host of events that name none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HostRule {
    /// The address of the sender, or its name where `hosts` looks names up.
    #[default]
    Ip,
    /// The name that DNS has for the address of the sender, asked as `hosts.reverse_dns` says,
    /// which need not be enabled. No event waits: before an answer it is the address.
    Dns,
    /// The first address in `X-Forwarded-For`, where one of `stream.trusted_proxies` sends it.
    Proxied,
    /// The `Host` field of the request.
    Header,
}

/// Fewest characters of a token; Splunk's have 36.
const TOKEN_BYTES_MIN: usize = 8;

/// Checks that a text can be a token; in words what is wrong with it.
pub(super) fn check_token(text: &str) -> Result<(), String> {
    if text.len() < TOKEN_BYTES_MIN {
        return Err(format!("a token has at least {TOKEN_BYTES_MIN} characters"));
    }
    match text.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(()),
        false => Err("a token is ASCII without blanks".to_owned()),
    }
}

/// True if a cookie may have the name: a token of HTTP (RFC 6265 section 4.1.1).
fn is_cookie_name(name: &str) -> bool {
    let is_sign = |byte: u8| b"!#$%&'*+-.^_`|~".contains(&byte);
    let good = |byte: u8| byte.is_ascii_alphanumeric() || is_sign(byte);
    !name.is_empty() && name.bytes().all(good)
}

fn sourcetype_default() -> String {
    "httpevent".to_owned()
}

/// That of Splunk 10.4 (`max_content_length` in limits.conf).
fn content_length_default() -> ByteSize {
    ByteSize(800 * 1024 * 1024)
}

/// That of Splunk (`maxEventSize` in inputs.conf).
fn event_bytes_default() -> ByteSize {
    ByteSize(5 * 1024 * 1024)
}

/// Text of logs grows 3 to 30 times, that of one line again and again 1,000 times.
fn ratio_default() -> u32 {
    200
}

fn busy_default() -> Period {
    Period(Duration::from_secs(1))
}

/// A tenth of Splunk's (`max_number_of_ack_channel` in limits.conf).
fn ack_channels_default() -> NonZeroU32 {
    const { NonZeroU32::new(100_000).unwrap() }
}

/// About 50 MB of memory; Splunk has ten times as many
/// (`max_number_of_acked_requests_pending_query` in limits.conf).
fn pending_acks_default() -> NonZeroU32 {
    const { NonZeroU32::new(1_000_000).unwrap() }
}

fn time_skew_default() -> Period {
    Period(Duration::from_secs(24 * 60 * 60))
}

impl SourceOptions for SplunkHecSource {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn type_name(&self) -> &'static str {
        "splunk_hec"
    }

    fn index(&self) -> &str {
        &self.index
    }

    fn sourcetype(&self) -> &str {
        &self.sourcetype
    }

    fn listen(&self) -> Vec<ListenAddr> {
        self.listen.resolved(self.tls.is_some())
    }

    fn validate(&self) -> Result<(), OptionProblem> {
        if let Some(name) = &self.channel_cookie
            && !is_cookie_name(name)
        {
            let words = "it is no name of a cookie (RFC 6265)";
            return Err(OptionProblem::new("channel_cookie", words));
        }
        let mut seen = HashMap::new();
        for (at, token) in self.tokens.iter().enumerate() {
            let path = |key: &str| format!("tokens[{at}].{key}");
            let problem = |key: &str, words: String| Err(OptionProblem::new(path(key), words));
            let index = token.index.as_ref();
            let among = index.is_none_or(|index| token.indexes.contains(index));
            if !token.indexes.is_empty() && !among {
                return problem("index", "it is not among the token's `indexes`".to_owned());
            }
            if token.name.as_deref() == Some("") {
                return problem("name", "it is empty".to_owned());
            }
            if let Err(words) = token.raw.first_line() {
                return problem("raw.multiline", words);
            }
            let product = token.raw.product.as_deref();
            check_product(&path("raw.product"), product, token.packs, "cisco/esa")?;
            let secret = match (&token.token, &token.token_file) {
                (Some(secret), None) => secret.expose(),
                (None, Some(_)) => continue,
                _ => {
                    return problem("token", "give it, or `token_file` in its place".to_owned());
                }
            };
            if let Err(words) = check_token(secret) {
                return problem("token", words);
            }
            if let Some(other) = seen.insert(secret, at) {
                let words = format!("tokens[{other}] has the same; each must be another");
                return problem("token", words);
            }
        }
        Ok(())
    }

    fn tls(&self) -> Option<&TlsServerOptions> {
        self.tls.as_ref()
    }

    fn stream(&self) -> Option<&StreamOptions> {
        Some(&self.stream)
    }

    fn connections_max(&self) -> u64 {
        self.listen().len() as u64 * self.stream.max_connections.get() as u64
    }

    fn start(
        &self,
        name: &str,
        services: &Arc<SourceServices>,
        known: &Enrichment,
    ) -> Result<StartedSource, String> {
        let (source, problems) = RunningHec::start(name, self, services, known)?;
        let source: Arc<dyn Source> = source;
        Ok(StartedSource { source, problems })
    }
}
