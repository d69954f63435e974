//! Probe of collectors: checks that they can be reached and take the token, without sending an
//! event.
//!
//! # What it guarantees
//! * Every body is empty, so that nothing can be indexed: a collector that takes the token answers
//!   `No data` (code 5).
//! * All endpoints are tried side by side; each step ends after the time that it is given.

use std::time::Duration;

use bytes::Bytes;
use inrush_codec::encode::NO_INDEX;
use inrush_event::Period;
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderValue};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use super::config::SplunkHecConfig;
use super::{answer, client};
use crate::http::{client as http_client, scheme, tls};
use crate::{ErrorReason, SinkError};

/// Indexes of which the collector is asked at each endpoint.
const INDEXES_MAX: usize = 8;

/// One endpoint of a destination.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EndpointProbe {
    /// Its address with the path for events.
    pub endpoint: String,
    /// The proxy's host, if it is reached through one.
    pub proxy: Option<String>,
    /// Result of the probe.
    pub reach: Reach,
}

/// Result of the probe of an endpoint: how far it was reached. Texts are for the operator and hold
/// no secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reach {
    /// The options cannot be used, such as a file with authorities that cannot be read.
    Unusable(String),
    /// The name has no address.
    NoName(String),
    /// Nothing answers at the address, or nobody in time.
    NoConnection(String),
    /// The TLS handshake failed.
    NoTls(String),
    /// Connected, and no HTTP answer came.
    NoAnswer(String),
    /// An HTTP server is there.
    Answered {
        /// Of `GET …/health`.
        health: ProbeAnswer,
        /// Of an empty `POST` with the token, and the index that was asked for, if any: the worst.
        token: ProbeAnswer,
        /// The index that was asked for in that one.
        index: Option<String>,
        /// The certificate that the collector showed, in DER.
        certificate: Option<Vec<u8>>,
    },
}

/// An answer in the collector's own words.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProbeAnswer {
    /// HTTP status.
    pub status: u16,
    /// HEC's `code`; `None` where the answer is not HEC's.
    pub code: Option<u32>,
    /// HEC's `text`, or the start of the body.
    pub text: String,
}

/// Tries every endpoint of these destinations; `indexes` are those that events are known to go
/// to. A step (name, health, token) takes at most `step`. One list of probes a destination.
///
/// # Errors
/// The system gives no event loop.
pub fn probe(
    destinations: &[(&SplunkHecConfig, Vec<String>)],
    step: Duration,
) -> std::io::Result<Vec<Vec<EndpointProbe>>> {
    let runtime = Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()?;
    let probes = runtime.block_on(all(destinations, step));
    end(runtime);
    Ok(probes)
}

/// A name that is being resolved cannot be broken off and must not hold up the end.
fn end(runtime: Runtime) {
    runtime.shutdown_background();
}

async fn all(
    destinations: &[(&SplunkHecConfig, Vec<String>)],
    step: Duration,
) -> Vec<Vec<EndpointProbe>> {
    let mut found: Vec<Vec<EndpointProbe>> = destinations.iter().map(|_| Vec::new()).collect();
    let mut running = JoinSet::new();
    for (place, (config, indexes)) in destinations.iter().enumerate() {
        match attempts(config, indexes, step) {
            Ok(attempts) => {
                for (nth, attempt) in attempts.into_iter().enumerate() {
                    running.spawn(async move { (place, nth, attempt.run().await) });
                }
            }
            Err(error) => found[place] = unusable(config, &error),
        }
    }
    let mut done = Vec::new();
    while let Some(Ok(one)) = running.join_next().await {
        done.push(one);
    }
    done.sort_by_key(|(place, nth, _)| (*place, *nth));
    for (place, _, probe) in done {
        found[place].push(probe);
    }
    found
}

fn unusable(config: &SplunkHecConfig, error: &SinkError) -> Vec<EndpointProbe> {
    let one = |endpoint: &String| EndpointProbe {
        endpoint: endpoint.clone(),
        proxy: None,
        reach: Reach::Unusable(error.to_string()),
    };
    config.endpoints.iter().map(one).collect()
}

/// One endpoint that is to be tried.
struct ProbeAttempt {
    url: Url,
    proxy: Option<Url>,
    http: reqwest::Client,
    authorization: HeaderValue,
    channel: Option<HeaderValue>,
    indexes: Vec<String>,
    step: Duration,
}

fn attempts(
    config: &SplunkHecConfig,
    indexes: &[String],
    step: Duration,
) -> Result<Vec<ProbeAttempt>, SinkError> {
    let unstartable = |error| SinkError::Unstartable(std::io::Error::other(error));
    let mut short = config.clone();
    short.request_timeout = Period(step);
    short.connect_timeout = Period(step);
    let ways = client::ways(&short)?;
    let tls = tls::client_config(&short.tls, &short.endpoints)?;
    let http = http_client::http(
        client::timeouts(&short),
        tls,
        http_client::proxy_of(ways.clone()),
    );
    let http = http.tls_info(true).build().map_err(unstartable)?;
    let authorization = client::authorization(&short)?;
    let channel = config.acknowledgements.then(client::new_channel);
    let channel = channel.transpose();
    let channel = channel.map_err(|error| SinkError::Unstartable(std::io::Error::other(error)))?;
    let one = |(url, proxy): (Url, Option<Url>)| ProbeAttempt {
        url,
        proxy,
        http: http.clone(),
        authorization: authorization.clone(),
        channel: channel.clone(),
        indexes: asked_for(config, indexes),
        step,
    };
    Ok(ways.into_iter().map(one).collect())
}

/// The indexes that events go to; those that are sent without one need no question.
fn asked_for(config: &SplunkHecConfig, indexes: &[String]) -> Vec<String> {
    let indexes = config.index.as_slice().iter().chain(match config.index {
        Some(_) => &[],
        None => indexes,
    });
    let named = indexes.filter(|index| *index != NO_INDEX);
    named.take(INDEXES_MAX).cloned().collect()
}

impl ProbeAttempt {
    async fn run(self) -> EndpointProbe {
        let reach = match self.reach().await {
            Ok(reach) | Err(reach) => reach,
        };
        EndpointProbe {
            endpoint: self.url.to_string(),
            proxy: self
                .proxy
                .as_ref()
                .and_then(Url::host_str)
                .map(str::to_owned),
            reach,
        }
    }

    async fn reach(&self) -> Result<Reach, Reach> {
        self.resolve().await?;
        let health = self.http.get(client::beside(&self.url, "health"));
        let (health, certificate) = self.ask(health).await?;
        let (token, index) = self.token().await?;
        Ok(Reach::Answered {
            health,
            token,
            index,
            certificate,
        })
    }

    /// At which step it failed.
    async fn fault(&self, error: reqwest::Error) -> Reach {
        // Its address may hold the proxy's password.
        let error = error.without_url();
        let reason = http_client::reason(&error);
        let mut text = http_client::words(&error).join(": ");
        if self.proxy.is_none()
            && scheme::may_be_other(&self.url, reason)
            && let Some(hint) = scheme::other(self.url.clone()).await
        {
            text = format!("{hint} ({text})");
        }
        match reason {
            ErrorReason::Tls => Reach::NoTls(text),
            ErrorReason::ConnectFailed => Reach::NoConnection(text),
            ErrorReason::Timeout if error.is_connect() => Reach::NoConnection(text),
            _ => Reach::NoAnswer(text),
        }
    }

    /// Resolves the name of the next hop, which must have an address.
    async fn resolve(&self) -> Result<(), Reach> {
        let url = self.proxy.as_ref().unwrap_or(&self.url);
        let host = url.host_str().unwrap_or_default();
        // An IPv6 address has brackets in an URL.
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = url.port_or_known_default().unwrap_or(0);
        let look = tokio::net::lookup_host((host.to_owned(), port));
        let found = tokio::time::timeout(self.step, look).await;
        match found.map(|found| found.map(|mut addresses| addresses.next())) {
            Ok(Ok(Some(_))) => Ok(()),
            Ok(Ok(None)) => Err(Reach::NoName(format!("{host} has no address"))),
            Ok(Err(error)) => Err(Reach::NoName(format!("{host}: {error}"))),
            Err(_) => Err(Reach::NoName(format!("{host}: no answer of DNS in time"))),
        }
    }

    /// The first answer that is not as to a good token; of none, the last.
    async fn token(&self) -> Result<(ProbeAnswer, Option<String>), Reach> {
        let indexes = self.indexes.iter().map(|index| Some(index.clone()));
        let mut last = (ProbeAnswer::default(), None);
        for index in std::iter::once(None).chain(indexes) {
            let mut url = self.url.clone();
            if let Some(index) = &index {
                url.query_pairs_mut().append_pair("index", index);
            }
            let mut request = self.http.post(url).body(Bytes::new());
            request = request.header(AUTHORIZATION, self.authorization.clone());
            if let Some(channel) = &self.channel {
                request = request.header(client::CHANNEL, channel.clone());
            }
            let (said, _) = self.ask(request).await?;
            let good = matches!(said.code, Some(0 | 5));
            last = (said, index);
            if !good {
                break;
            }
        }
        Ok(last)
    }

    async fn ask(
        &self,
        request: reqwest::RequestBuilder,
    ) -> Result<(ProbeAnswer, Option<Vec<u8>>), Reach> {
        let answer = match http_client::ask(request).await {
            Ok(answer) => answer,
            Err(error) => return Err(self.fault(error).await),
        };
        let json: Option<serde_json::Value> = serde_json::from_slice(&answer.body).ok();
        let is_hec = |json: &&serde_json::Value| json.get("text").is_some_and(|t| t.is_string());
        let code = json.as_ref().filter(is_hec);
        let code = code.and_then(|json| json.get("code")?.as_u64());
        let words = answer::words(json.as_ref(), code, &answer.body);
        let said = ProbeAnswer {
            status: answer.status,
            code: code.and_then(|code| u32::try_from(code).ok()),
            text: words.text,
        };
        Ok((said, answer.certificate))
    }
}
