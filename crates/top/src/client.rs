//! Asks the admin API for a snapshot.

use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring;
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{Connector, TcpConnector};

use crate::link::TlsLayer;
use crate::snapshot::Snapshot;

/// Timeout of an answer. Gathering takes a millisecond; a reload can hold it up.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Bytes of an answer that are read: thousands of sources and destinations.
const ANSWER_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The process to ask, and how to get in.
#[derive(Default)]
pub struct Target {
    /// `http://HOST:PORT` or `https://HOST:PORT`; `HOST:PORT` is the former.
    pub url: String,
    /// One of its `admin.tokens`.
    pub token: Option<String>,
    /// Verifies the certificate of the process in place of the system's authorities.
    pub verifier: Option<Arc<dyn ServerCertVerifier>>,
}

/// Reason why there is nothing to show.
#[derive(Debug, thiserror::Error)]
pub enum TopError {
    /// The address makes no sense: wrong usage.
    #[error("`{0}` is not an address of the admin API; write for example http://127.0.0.1:8686")]
    Address(String),
    /// The token can be none: wrong usage.
    #[error("the token holds spaces or signs that no token has; look at INRUSH_TOKEN")]
    Token,
    /// The process does not answer, or not as Inrush does.
    #[error("{url}: {what}")]
    Answer {
        /// Address that was asked.
        url: String,
        /// The failure, and what to do about it.
        what: String,
    },
    /// The terminal cannot be used.
    #[error("the terminal cannot be used: {0}; `inrush top --once` needs none")]
    Terminal(#[from] std::io::Error),
}

/// One process that is asked again and again.
pub(crate) struct Client {
    base: String,
    /// The value of the header that shows the token.
    bearer: Option<String>,
    agent: Agent,
}

impl Client {
    /// A client for the process at `target`.
    ///
    /// # Errors
    /// [`TopError::Address`] and [`TopError::Token`]; [`TopError::Answer`] if there is no TLS.
    pub(crate) fn new(target: &Target) -> Result<Self, TopError> {
        let token = target.token.as_deref().map(str::trim);
        let token = token.filter(|token| !token.is_empty());
        let fits = |token: &str| token.bytes().all(|b| b.is_ascii_graphic());
        if !token.is_none_or(fits) {
            return Err(TopError::Token);
        }
        let base = base(&target.url)?;
        let mut config = Agent::config_builder()
            // A proxy meant for the outer world is in the way.
            .proxy(None)
            .http_status_as_error(false)
            // The token is for this address and no other.
            .max_redirects(0)
            .timeout_global(Some(ANSWER_MAX));
        let verifier = target.verifier.clone();
        let verifier = verifier.filter(|_| base.starts_with("https://"));
        if base.starts_with("https://") && verifier.is_none() {
            config = config.tls_config(tls());
        }
        let agent = match verifier {
            None => config.build().into(),
            Some(verifier) => {
                let layer = TlsLayer::new(verifier).map_err(|error| TopError::Answer {
                    url: base.clone(),
                    what: error.to_string(),
                })?;
                let link = ().chain(TcpConnector::default()).chain(layer);
                Agent::with_parts(config.build(), link, DefaultResolver::default())
            }
        };
        Ok(Self {
            base,
            bearer: token.map(|token| format!("Bearer {token}")),
            agent,
        })
    }

    /// Scheme and address that are asked, for people.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// A snapshot, as it was sent.
    pub(crate) fn text(&self) -> Result<String, TopError> {
        self.ask().map_err(|what| TopError::Answer {
            url: self.base.clone(),
            what,
        })
    }

    /// A snapshot, read.
    pub(crate) fn snapshot(&self) -> Result<Snapshot, TopError> {
        let text = self.text()?;
        serde_json::from_str(&text).map_err(|error| TopError::Answer {
            url: self.base.clone(),
            what: format!("the answer is not the one of an inrush of this version: {error}"),
        })
    }

    fn ask(&self) -> Result<String, String> {
        let url = format!("{}/api/v1/flow", self.base);
        let mut question = self.agent.get(&url);
        if let Some(bearer) = &self.bearer {
            question = question.header("authorization", bearer);
        }
        let answer = question.call();
        let mut answer = answer.map_err(|error| format!("{error}; is inrush running there?"))?;
        let status = answer.status().as_u16();
        match status {
            200 => {}
            401 => {
                let token = match self.bearer {
                    None => "it asks for a token",
                    Some(_) => "it does not take this token",
                };
                return Err(format!(
                    "{token}: put one of its `admin.tokens` into INRUSH_TOKEN"
                ));
            }
            403 => {
                return Err("refused (403): ask for its address, not for a name of it".to_owned());
            }
            404 => {
                return Err("there is no /api/v1/flow: an older inrush, or none".to_owned());
            }
            _ => return Err(format!("status {status}")),
        }
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        body.read_to_string()
            .map_err(|error| format!("the answer broke off: {error}"))
    }
}

/// The address without what stands behind its path, with its scheme.
fn base(address: &str) -> Result<String, TopError> {
    let bad = || TopError::Address(address.to_owned());
    let (scheme, rest) = match address.strip_prefix("https://") {
        Some(rest) => ("https", rest),
        None => ("http", address.strip_prefix("http://").unwrap_or(address)),
    };
    let rest = rest.trim_end_matches('/');
    let odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '?' | '#' | '@');
    if rest.is_empty() || rest.contains("://") || rest.contains(odd) {
        return Err(bad());
    }
    let base = format!("{scheme}://{rest}");
    let uri: ureq::http::Uri = base.parse().map_err(|_| bad())?;
    let is_whole = |authority: &ureq::http::uri::Authority| {
        let has_port = authority.as_str().len() > authority.host().len();
        !authority.host().is_empty() && (!has_port || authority.port_u16().is_some())
    };
    uri.authority()
        .filter(|one| is_whole(one))
        .ok_or_else(bad)?;
    Ok(base)
}

/// Trusts the authorities that this system trusts.
fn tls() -> TlsConfig {
    let system = rustls_native_certs::load_native_certs().certs;
    let read = system
        .iter()
        .map(|der| Certificate::from_der(der).to_owned());
    let trusted: Vec<Certificate<'static>> = read.collect();
    TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&trusted))
        .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
        .build()
}
