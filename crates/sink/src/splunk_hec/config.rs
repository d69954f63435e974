//! Options of the `splunk_hec` destination: defaults, checks, and the address of an endpoint.
//!
//! # What it guarantees
//! * An unknown option is an error, and a secret is never written out again.
//! * `SplunkHecConfig::problems` names all wrong options at once, and opens no file or connection.
//! * The doc comment of an option is its description in the schema.
//! * An endpoint without a path gets `EVENT_PATH`; one with a user or password is refused.
//!
//! # Limits
//! A body has 1 KiB to `BODY_BYTES_MAX`. `workers: auto` means 1 to `MOST` requests in flight, as
//! many as fit into the memory with `BUFFERS` bodies each.

use std::num::NonZeroU32;
use std::time::Duration;

use inrush_codec::encode::IndexedField;
use inrush_event::{AutoCount, ByteSize, DestinationQueue, Period, Secret};
use reqwest::Url;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SinkProblem;
use crate::http::pace::MOST;
use crate::http::{GzipLevel, HttpCompression, HttpTlsOptions};

/// Path at which Splunk takes events.
const EVENT_PATH: &str = "/services/collector/event";

/// Bytes: Splunk Cloud refuses bodies above something between 5.2 and 6 MB.
const BODY_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Options of the `splunk_hec` destination.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SplunkHecConfig {
    /// Addresses of the collectors, for example `https://idx1:8088`. Events go to all of them in
    /// turn, and around those that fail. `/services/collector/event` is added to an address
    /// without a path.
    pub endpoints: Vec<String>,
    /// The HEC token.
    pub token: Secret,
    /// How request bodies are compressed.
    #[serde(default)]
    pub compression: HttpCompression,
    /// Level of gzip, from 1, the fastest, to 12, the smallest.
    #[serde(default)]
    pub gzip_level: GzipLevel,
    /// When a request is sent.
    #[serde(default)]
    pub batch: BodyConfig,
    /// Requests in flight at once, each with a thread and a connection of its own; fewer while the
    /// collector is busy. `auto` finds how many are worth it, up to 128 or as many as there is
    /// memory for, by what is taken with more and with fewer: few for a collector nearby, many for
    /// a distant one.
    #[serde(default)]
    pub workers: AutoCount,
    /// From the start of a request to the end of its answer. One that takes longer is sent again.
    #[serde(default = "request_timeout")]
    pub request_timeout: Period,
    /// To open a connection, TLS included.
    #[serde(default = "connect_timeout")]
    pub connect_timeout: Period,
    /// How long a connection is used at most; it ends after half of it to all of it, between two
    /// requests. So a load balancer, and a name with new addresses, can spread connections anew.
    /// `0s` for as long as it works.
    #[serde(default = "connection_max_age")]
    pub connection_max_age: Period,
    /// Requests with events that a connection carries at most, likewise. `1` for a connection each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_max_requests: Option<NonZeroU32>,
    /// Answers that count as success beside `{"text":"Success","code":0}`, for receivers that are
    /// not Splunk's: whole bodies of a 2xx, or their beginning and `*`. `""` is an empty body.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("examples" = [["OK"]]))]
    pub success_bodies: Vec<String>,
    /// The index of every event, in place of its own. `none` sends them without an index, so that
    /// the one of the token counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub index: Option<String>,
    /// Whether an event counts as delivered only when the collector has confirmed that it is
    /// indexed. The token needs indexer acknowledgement; a load balancer must keep a connection at
    /// one indexer, or its cookie.
    #[serde(default)]
    pub acknowledgements: bool,
    /// With `acknowledgements`: what is not confirmed after this time is sent again.
    #[serde(default = "ack_timeout")]
    pub ack_timeout: Period,
    /// Whether every event gets a name of its own as the indexed field `inrush_id`: the log's, the
    /// number of the process that accepted it, and the event's own number. It stays the same when
    /// the event is sent again, so that duplicates can be found by it.
    #[serde(default)]
    pub event_id: bool,
    /// Where events go whose index the collector does not know or does not allow. They keep the
    /// name of that index as the indexed field `inrush_index`. Without this option, or where this
    /// index is not known either, `unknown_index` says what becomes of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reroute_index: Option<String>,
    /// Fate of events whose index the collector does not know or does not allow, and that
    /// no `reroute_index` takes.
    #[serde(default, skip_serializing_if = "UnknownIndex::is_default")]
    pub unknown_index: UnknownIndex,
    /// TLS towards `https` endpoints.
    #[serde(default)]
    pub tls: HttpTlsOptions,
    /// The HTTP proxy, `http://[user:password@]host:port`. Without it, the environment's
    /// `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` count; empty means none at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Secret>,
    /// `source` of every event. Without it, `inrush:` and the name of the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Indexed fields sent with every event, under the names that SC4S gave them.
    #[serde(default = "indexed_fields")]
    pub indexed_fields: Vec<IndexedField>,
    /// The limits of this destination's backlog in the queue.
    #[serde(default, skip_serializing_if = "DestinationQueue::is_default")]
    pub queue: DestinationQueue,
    /// Requests that there is memory for, once that is known.
    #[serde(skip)]
    #[schemars(skip)]
    requests_max: Option<u32>,
}

/// Buffers that a request takes, each as long as its body may be: one grows to the double.
const BUFFERS: u64 = 2;

fn request_timeout() -> Period {
    Period(Duration::from_secs(30))
}

fn connect_timeout() -> Period {
    Period(Duration::from_secs(5))
}

fn connection_max_age() -> Period {
    Period(Duration::from_secs(60))
}

fn ack_timeout() -> Period {
    Period(Duration::from_secs(300))
}

fn indexed_fields() -> Vec<IndexedField> {
    IndexedField::ALL.to_vec()
}

/// Fate of events whose index the collector does not take.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnknownIndex {
    /// They go to quarantine, whence `inrush replay` sends them again; all others go on. The index
    /// is asked for again with one request a minute.
    #[default]
    Quarantine,
    /// They wait in the queue, and all events behind them, until the index is there.
    Hold,
}

impl UnknownIndex {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// When a request is sent: at the first of these.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BodyConfig {
    /// Size of the body before compression, at most 4MiB. A larger single event is sent alone.
    pub max_bytes: ByteSize,
    /// Events in the body.
    pub max_events: u32,
    /// Time since its first event was taken.
    pub timeout: Period,
}

impl Default for BodyConfig {
    fn default() -> Self {
        Self {
            max_bytes: ByteSize(1_000_000),
            max_events: 5000,
            timeout: Period(Duration::from_millis(45)),
        }
    }
}

impl SplunkHecConfig {
    /// Requests that may ever be in flight at once.
    pub(super) fn workers_max(&self) -> u32 {
        match self.workers {
            AutoCount::Count(n) => n.get().into(),
            AutoCount::Auto => MOST.min(self.requests_max.unwrap_or(MOST)),
        }
    }

    /// Takes note of the memory, in bytes, that requests may take together where nobody says how
    /// many there shall be: `workers: auto`.
    pub fn fit_memory(&mut self, bytes: u64) {
        let each = self.batch.max_bytes.0.max(1) * BUFFERS;
        let requests = u32::try_from(bytes / each).unwrap_or(MOST);
        self.requests_max = Some(requests.clamp(1, MOST));
    }

    /// The options with these endpoints and token and all defaults.
    pub fn new(endpoints: Vec<String>, token: Secret) -> Self {
        Self {
            endpoints,
            token,
            compression: HttpCompression::default(),
            gzip_level: GzipLevel::default(),
            batch: BodyConfig::default(),
            workers: AutoCount::Auto,
            request_timeout: request_timeout(),
            connect_timeout: connect_timeout(),
            connection_max_age: connection_max_age(),
            connection_max_requests: None,
            success_bodies: Vec::new(),
            index: None,
            acknowledgements: false,
            ack_timeout: ack_timeout(),
            event_id: false,
            reroute_index: None,
            unknown_index: UnknownIndex::default(),
            tls: HttpTlsOptions::default(),
            proxy: None,
            source: None,
            indexed_fields: indexed_fields(),
            queue: DestinationQueue::default(),
            requests_max: None,
        }
    }

    pub(crate) fn problems(&self) -> Vec<SinkProblem> {
        let mut problems = Vec::new();
        let mut unless = |ok: bool, key: &str, message: &str| {
            if !ok {
                problems.push(SinkProblem::new(key, message));
            }
        };
        let token = self.token.expose();
        unless(
            !self.endpoints.is_empty(),
            "endpoints",
            "give at least one, such as https://idx1:8088",
        );
        unless(!token.is_empty(), "token", "is empty");
        unless(
            token.bytes().all(|b| b.is_ascii_graphic()),
            "token",
            "has a space or control character",
        );
        let body = &self.batch;
        unless(
            (1024..=BODY_BYTES_MAX).contains(&body.max_bytes.0),
            "batch.max_bytes",
            "must be from 1KiB to 4MiB",
        );
        unless(
            body.max_events > 0,
            "batch.max_events",
            "must be at least 1",
        );
        for (key, period) in [
            ("request_timeout", self.request_timeout),
            ("connect_timeout", self.connect_timeout),
            ("ack_timeout", self.ack_timeout),
        ] {
            unless(!period.0.is_zero(), key, "must be more than 0");
        }
        unless(
            self.reroute_index.as_deref() != Some(""),
            "reroute_index",
            "is empty",
        );
        unless(
            self.index.as_deref() != Some(""),
            "index",
            "is empty; write `none` to send events without an index",
        );
        let pair = self.tls.cert_file.is_some() == self.tls.key_file.is_some();
        unless(
            pair,
            "tls.cert_file",
            "needs `key_file`, and the other way round",
        );
        for (index, endpoint) in self.endpoints.iter().enumerate() {
            if let Err(message) = endpoint_url(endpoint) {
                problems.push(SinkProblem::new(format!("endpoints[{index}]"), message));
            }
        }
        if let Some(Err(message)) = self
            .proxy
            .as_ref()
            .map(|p| crate::http::proxy::parse(p.expose()))
        {
            problems.push(SinkProblem::new("proxy", message));
        }
        problems
    }
}

/// An endpoint with its path; the error is for the operator.
pub(super) fn endpoint_url(text: &str) -> Result<Url, String> {
    let mut url = Url::parse(text).map_err(|e| format!("`{text}` is no URL: {e}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("`{text}` must begin with https:// or http://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not contain a user or password; the token goes into `token`".into());
    }
    if url.path() == "/" {
        url.set_path(EVENT_PATH);
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_event_path_is_added_where_none_is_given() {
        for (text, url) in [
            (
                "https://idx1:8088",
                "https://idx1:8088/services/collector/event",
            ),
            (
                "https://idx1:8088/",
                "https://idx1:8088/services/collector/event",
            ),
            ("http://[::1]:8088/x/y?z=1", "http://[::1]:8088/x/y?z=1"),
        ] {
            assert_eq!(endpoint_url(text).unwrap().as_str(), url);
        }
        for bad in [
            "",
            "idx1:8088",
            "ftp://idx1",
            "https://",
            "https://u:p@idx1:8088",
        ] {
            assert!(endpoint_url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn requests_of_auto_follow_the_memory_that_there_is() {
        let mut config = SplunkHecConfig::new(vec![], Secret::new("t"));
        let mut requests = |mib: u64| {
            config.fit_memory(mib << 20);
            config.workers_max()
        };
        assert_eq!([0, 4, 24, 1024].map(&mut requests), [1, 2, 12, MOST]);
        config.workers = AutoCount::of(7);
        assert_eq!(config.workers_max(), 7);
    }

    #[test]
    fn what_cannot_work_is_named() {
        let good = SplunkHecConfig::new(vec!["https://idx1:8088".into()], Secret::new("t"));
        assert_eq!(good.problems(), []);
        let bad = SplunkHecConfig {
            endpoints: vec!["https://ok".into(), "nope".into()],
            token: Secret::new("a b"),
            batch: BodyConfig {
                max_bytes: ByteSize(5_000_000),
                max_events: 0,
                ..BodyConfig::default()
            },
            tls: HttpTlsOptions {
                cert_file: Some("c.pem".into()),
                ..HttpTlsOptions::default()
            },
            proxy: Some(Secret::new("ftp://x")),
            ..good
        };
        let keys: Vec<String> = bad.problems().into_iter().map(|p| p.key).collect();
        assert_eq!(
            keys,
            [
                "token",
                "batch.max_bytes",
                "batch.max_events",
                "tls.cert_file",
                "endpoints[1]",
                "proxy"
            ]
        );
    }

    #[test]
    fn secrets_are_not_serialised_and_unknown_keys_are_refused() {
        let config = SplunkHecConfig {
            proxy: Some(Secret::new("http://u:hunter2@proxy")),
            ..SplunkHecConfig::new(vec!["https://idx1".into()], Secret::new("hunter2"))
        };
        assert!(!serde_json::to_string(&config).unwrap().contains("hunter2"));
        let typo = r#"{"endpoints":[],"token":"t","tls":{"ca_fiel":"x"}}"#;
        assert!(serde_json::from_str::<SplunkHecConfig>(typo).is_err());
    }
}
