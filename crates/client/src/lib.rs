//! Client of the admin API of a running process, for the commands that ask it.
//!
//! # What it guarantees
//! * The token goes to the address that was given and to no other: redirects are not followed, and
//!   proxies meant for the outer world are passed by.
//! * Every answer has a status; whoever asks says what that means.
//!
//! # Limits
//! [`ClientTimeouts`] bound a connection and an answer; [`Answer::text`] bounds its bytes.
#![forbid(unsafe_code)]

mod tls_layer;

use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{Connector, TcpConnector};
use ureq::{Agent, Body};

use tls_layer::TlsLayer;

/// The variable of the environment that holds a token, where the API asks for one.
pub const TOKEN_VARIABLE: &str = "INRUSH_TOKEN";

/// Process to ask, and how to get in.
#[derive(Clone, Default)]
pub struct AdminTarget {
    /// `http://HOST:PORT` or `https://HOST:PORT`; `HOST:PORT` is the former.
    pub url: String,
    /// One of its `admin.tokens`.
    pub token: Option<String>,
    /// Verifies the certificate of the process in place of the system's authorities.
    pub verifier: Option<Arc<dyn ServerCertVerifier>>,
}

/// Time-outs of a client.
#[derive(Clone, Copy, Debug)]
pub struct ClientTimeouts {
    /// To connect.
    pub connect: Duration,
    /// Until an answer begins.
    pub answer: Duration,
    /// From the connection to the end of the answer; `None`: an answer may go on.
    pub all: Option<Duration>,
}

/// Reason why there is no client, or no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address makes no sense: wrong usage.
    #[error("`{0}` is not an address of the admin API; write for example http://127.0.0.1:8686")]
    Address(String),
    /// The token can be none: wrong usage.
    #[error("the token holds spaces or signs that no token has; look at {TOKEN_VARIABLE}")]
    Token,
    /// There is no TLS, no connection, or no answer.
    #[error("{0}")]
    Connection(String),
}

/// One process that is asked again and again.
pub struct AdminClient {
    base: String,
    /// Value of the header that shows the token.
    bearer: Option<String>,
    agent: Agent,
}

impl AdminClient {
    /// A client for the process at `target`. Nothing is asked yet.
    ///
    /// # Errors
    /// [`ClientError::Address`] and [`ClientError::Token`]; [`ClientError::Connection`] if there is
    /// no TLS.
    pub fn new(target: &AdminTarget, timeouts: ClientTimeouts) -> Result<Self, ClientError> {
        let token = target.token.as_deref().map(str::trim);
        let token = token.filter(|token| !token.is_empty());
        let fits = |token: &str| token.bytes().all(|b| b.is_ascii_graphic());
        if !token.is_none_or(fits) {
            return Err(ClientError::Token);
        }
        let base = base(&target.url)?;
        let mut config = Agent::config_builder()
            .proxy(None)
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_connect(Some(timeouts.connect))
            .timeout_recv_response(Some(timeouts.answer))
            .timeout_global(timeouts.all);
        let verifier = target.verifier.clone();
        let verifier = verifier.filter(|_| base.starts_with("https://"));
        if base.starts_with("https://") && verifier.is_none() {
            config = config.tls_config(tls());
        }
        let agent = match verifier {
            None => config.build().into(),
            Some(verifier) => {
                let layer = TlsLayer::new(verifier)
                    .map_err(|error| ClientError::Connection(error.to_string()))?;
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
    pub fn base(&self) -> &str {
        &self.base
    }

    /// True if it shows a token.
    pub fn has_token(&self) -> bool {
        self.bearer.is_some()
    }

    /// Asks for a page below `/api/v1/`.
    ///
    /// # Errors
    /// [`ClientError::Connection`]: no answer came.
    pub fn get(&self, path: &str, query: &[(&str, String)]) -> Result<Answer, ClientError> {
        let mut request = self.agent.get(self.url(path));
        for (name, value) in query {
            request = request.query(*name, value);
        }
        if let Some(bearer) = &self.bearer {
            request = request.header("authorization", bearer);
        }
        request.call().map(Answer).map_err(failed)
    }

    /// Has something changed by a page below `/api/v1/`.
    ///
    /// # Errors
    /// [`ClientError::Connection`]: no answer came.
    pub fn post(&self, path: &str, query: &[(&str, String)]) -> Result<Answer, ClientError> {
        let mut request = self.agent.post(self.url(path));
        for (name, value) in query {
            request = request.query(*name, value);
        }
        if let Some(bearer) = &self.bearer {
            request = request.header("authorization", bearer);
        }
        request.send_empty().map(Answer).map_err(failed)
    }

    fn url(&self, path: &str) -> String {
        format!("{}/api/v1/{path}", self.base)
    }
}

/// Answer of the admin API.
pub struct Answer(ureq::http::Response<Body>);

impl Answer {
    /// HTTP status.
    pub fn status(&self) -> u16 {
        self.0.status().as_u16()
    }

    /// The body, of so many bytes at most.
    ///
    /// # Errors
    /// It breaks off, is larger, or is not UTF-8.
    pub fn text(&mut self, bytes_max: u64) -> Result<String, ClientError> {
        let body = self.0.body_mut().with_config().limit(bytes_max);
        let text = body.read_to_string();
        text.map_err(|error| ClientError::Connection(format!("the answer broke off: {error}")))
    }

    /// The body as a stream.
    pub fn into_reader(self) -> impl Read {
        let body = self.0.into_body().into_with_config();
        body.limit(u64::MAX).reader()
    }
}

fn failed(error: ureq::Error) -> ClientError {
    ClientError::Connection(error.to_string())
}

/// Token for the admin API: [`TOKEN_VARIABLE`], or else the configured one.
pub fn token(configured: Option<&str>) -> Option<String> {
    let given = std::env::var(TOKEN_VARIABLE).ok();
    let given = given.filter(|token| !token.trim().is_empty());
    let token = given.or_else(|| configured.map(str::to_owned))?;
    Some(token.trim().to_owned())
}

/// Address at which a listener is reached from this machine.
pub fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        });
    }
    address
}

/// The address without what stands behind its path, with its scheme.
fn base(address: &str) -> Result<String, ClientError> {
    let bad = || ClientError::Address(address.to_owned());
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
