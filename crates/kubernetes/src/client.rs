//! Requests to the API over HTTP/1.1, each on the thread that asks.
//!
//! # What it guarantees
//! * A token goes to the configured server alone: no redirect is followed, no proxy is used.
//! * No read waits longer than its bound, and [`ApiTransport::stop`] ends all of them at once.
//! * After a failure certificates are read anew, see [`crate::kubeconfig`].
//!
//! # Limits
//! [`CONNECT_TIMEOUT`], [`ANSWER_TIMEOUT`] and the bounds of a read below. Lists may come packed
//! with gzip; the API server packs those of more than 128 KiB.

use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flate2::read::GzDecoder;
use rustls::crypto::ring;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use ureq::Agent;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};

use crate::kubeconfig::{ClusterAccess, ClusterAccessError, PemSource};

/// Time for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time until an answer begins: a list of a busy server takes its time.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest silence within a list.
const LIST_SILENCE: Duration = Duration::from_secs(30);
/// Longest silence within a watch. The API server sends a bookmark a minute; two that are missing
/// are a connection that is dead.
const WATCH_SILENCE: Duration = Duration::from_secs(150);
/// Bytes of an exchange's answer that are read: a Lease has some 500.
const EXCHANGE_BYTES_MAX: u64 = 256 << 10;
/// Longest pause that a server can ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// Purpose of a request, which decides how long it may be silent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RequestPurpose {
    /// A page of a list.
    List,
    /// A watch.
    Watch,
}

/// Request to the API.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ApiRequest {
    /// Path and query.
    pub(crate) path: String,
    /// Value of `Accept`.
    pub(crate) accept: &'static str,
    pub(crate) purpose: RequestPurpose,
}

/// Method of an exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ApiMethod {
    /// Reads an object.
    Get,
    /// Creates an object.
    Post,
    /// Replaces an object.
    Put,
}

/// Request for one object, with its whole answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ApiExchange {
    pub(crate) method: ApiMethod,
    /// Path and query.
    pub(crate) path: String,
    /// The object as JSON; not sent with [`ApiMethod::Get`].
    pub(crate) body: Vec<u8>,
    /// Longest time for all of it, connection and answer.
    pub(crate) wait: Duration,
}

/// Answer of the API, from its head on.
pub(crate) struct ApiAnswer {
    /// Status of HTTP.
    pub(crate) status: u16,
    /// Pause that the server asks for.
    pub(crate) retry_after: Option<Duration>,
    /// The body, which waits for what is to come.
    pub(crate) body: Box<dyn Read + Send>,
}

/// Reason for which there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiFailure {
    /// Credentials or authorities cannot be used.
    #[error(transparent)]
    Access(#[from] ClusterAccessError),
    /// A certificate or a key is none.
    #[error("{0}")]
    Certificate(String),
    /// No connection, or no answer.
    #[error("{0}")]
    Connection(String),
}

/// The way to the API: the network, or a model of it in tests.
pub(crate) trait ApiTransport: Send + Sync {
    /// Sends a request, and waits for the head of the answer.
    fn get(&self, request: &ApiRequest) -> Result<ApiAnswer, ApiFailure>;

    /// Drops connections and certificates after a failure.
    fn renew(&self);

    /// Ends all requests, those that wait and those to come.
    fn stop(&self);
}

/// Requests over the network.
pub(crate) struct HttpTransport {
    access: ClusterAccess,
    state: Mutex<AgentState>,
}

#[derive(Default)]
struct AgentState {
    agent: Option<Agent>,
    stopped: bool,
}

impl HttpTransport {
    /// Requests with this access. Nothing is asked yet.
    pub(crate) fn new(access: ClusterAccess) -> Self {
        Self {
            access,
            state: Mutex::default(),
        }
    }

    fn agent(&self) -> Result<Agent, ApiFailure> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.stopped {
            return Err(ApiFailure::Connection("stopped".into()));
        }
        if let Some(agent) = &state.agent {
            return Ok(agent.clone());
        }
        let agent = agent_for(&self.access)?;
        state.agent = Some(agent.clone());
        Ok(agent)
    }
}

impl HttpTransport {
    /// Sends a request for one object, and reads its answer: status of HTTP and body, which is cut
    /// at [`EXCHANGE_BYTES_MAX`].
    ///
    /// # Errors
    /// No connection, or no answer in time. The next exchange opens a new connection.
    pub(crate) fn exchange(&self, exchange: &ApiExchange) -> Result<(u16, Vec<u8>), ApiFailure> {
        let result = self.exchange_once(exchange);
        if result.is_err() {
            self.renew();
        }
        result
    }

    fn exchange_once(&self, exchange: &ApiExchange) -> Result<(u16, Vec<u8>), ApiFailure> {
        let agent = self.agent()?;
        let url = format!("{}{}", self.access.server, exchange.path);
        let token = self.access.read_token()?;
        let token = token.map(|token| format!("Bearer {}", token.expose()));
        let wait = Some(exchange.wait);
        let answer = match exchange.method {
            ApiMethod::Get => {
                let mut call = agent.get(url).header("accept", "application/json");
                if let Some(token) = token {
                    call = call.header("authorization", token);
                }
                call.config().timeout_global(wait).build().call()
            }
            ApiMethod::Post | ApiMethod::Put => {
                let call = match exchange.method {
                    ApiMethod::Post => agent.post(url),
                    ApiMethod::Get | ApiMethod::Put => agent.put(url),
                };
                let mut call = call
                    .header("accept", "application/json")
                    .header("content-type", "application/json");
                if let Some(token) = token {
                    call = call.header("authorization", token);
                }
                let call = call.config().timeout_global(wait).build();
                call.send(&exchange.body[..])
            }
        };
        let failed = |error: ureq::Error| ApiFailure::Connection(error.to_string());
        let answer = answer.map_err(failed)?;
        let status = answer.status().as_u16();
        let mut body = Vec::new();
        let mut reader = answer.into_body().into_reader().take(EXCHANGE_BYTES_MAX);
        reader
            .read_to_end(&mut body)
            .map_err(|error| ApiFailure::Connection(error.to_string()))?;
        Ok((status, body))
    }
}

impl ApiTransport for HttpTransport {
    fn get(&self, request: &ApiRequest) -> Result<ApiAnswer, ApiFailure> {
        let agent = self.agent()?;
        let is_list = request.purpose == RequestPurpose::List;
        let silence = match request.purpose {
            RequestPurpose::List => LIST_SILENCE,
            RequestPurpose::Watch => WATCH_SILENCE,
        };
        let mut call = agent.get(format!("{}{}", self.access.server, request.path));
        call = call.header("accept", request.accept);
        if is_list {
            call = call.header("accept-encoding", "gzip");
        }
        if let Some(token) = self.access.read_token()? {
            call = call.header("authorization", format!("Bearer {}", token.expose()));
        }
        let call = call.config().timeout_per_read(Some(silence)).build();
        let answer = call.call();
        let answer = answer.map_err(|error| ApiFailure::Connection(error.to_string()))?;
        let header = |name: &str| {
            answer
                .headers()
                .get(name)
                .and_then(|value| value.to_str().ok())
        };
        let is_packed = header("content-encoding").is_some_and(|coding| coding.contains("gzip"));
        let seconds = header("retry-after").and_then(|seconds| seconds.trim().parse().ok());
        let retry_after = seconds.map(|seconds| Duration::from_secs(seconds).min(RETRY_AFTER_MAX));
        let status = answer.status().as_u16();
        let body = answer
            .into_body()
            .into_with_config()
            .limit(u64::MAX)
            .reader();
        Ok(ApiAnswer {
            status,
            retry_after,
            body: match is_packed {
                true => Box::new(GzDecoder::new(body)),
                false => Box::new(body),
            },
        })
    }

    fn renew(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.agent = None;
    }

    fn stop(&self) {
        let agent = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.stopped = true;
            state.agent.take()
        };
        if let Some(agent) = agent {
            agent.shutdown();
        }
    }
}

/// The agent of an access, with its files as they are now.
fn agent_for(access: &ClusterAccess) -> Result<Agent, ApiFailure> {
    let config = Agent::config_builder()
        .proxy(None)
        .http_status_as_error(false)
        .max_redirects(0)
        .user_agent(concat!("inrush/", env!("CARGO_PKG_VERSION")))
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .timeout_resolve(Some(CONNECT_TIMEOUT))
        .timeout_recv_response(Some(ANSWER_TIMEOUT))
        .timeout_per_write(Some(CONNECT_TIMEOUT));
    let config = match access.server.starts_with("https://") {
        true => config.tls_config(tls_config(access)?),
        false => config,
    };
    Ok(config.build().into())
}

fn tls_config(access: &ClusterAccess) -> Result<TlsConfig, ApiFailure> {
    let authorities: Vec<CertificateDer<'static>> = match &access.authorities {
        Some(source) => certificates(source)?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    let identity = access.identity.as_ref();
    let identity = identity.map(|identity| client_cert(&identity.certificates, &identity.key));
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&owned(&authorities)))
        .disable_verification(access.trusts_any)
        .client_cert(identity.transpose()?)
        .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
        .build())
}

fn certificates(source: &PemSource) -> Result<Vec<CertificateDer<'static>>, ApiFailure> {
    let pem = source.read()?;
    let found = CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok);
    let found: Vec<_> = found.collect();
    let none = || ApiFailure::Certificate(format!("{source:?} has no certificate in PEM form"));
    (!found.is_empty()).then_some(found).ok_or_else(none)
}

fn owned(certificates: &[CertificateDer<'static>]) -> Vec<Certificate<'static>> {
    let owned = certificates.iter();
    owned
        .map(|der| Certificate::from_der(der).to_owned())
        .collect()
}

fn client_cert(chain: &PemSource, key: &PemSource) -> Result<ClientCert, ApiFailure> {
    let chain = certificates(chain)?;
    let pem = key.read()?;
    let none = || ApiFailure::Certificate(format!("{key:?} has no key in PEM form"));
    let der = PrivateKeyDer::from_pem_slice(&pem).map_err(|_| none())?;
    // A key that does not fit its certificate is a panic of ureq's.
    let fits = rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            let builder = builder.with_root_certificates(rustls::RootCertStore::empty());
            builder.with_client_auth_cert(chain.clone(), der)
        });
    fits.map_err(|error| ApiFailure::Certificate(format!("{key:?} does not fit: {error}")))?;
    let key = PrivateKey::from_pem(&pem).map_err(|_| none())?;
    Ok(ClientCert::new_with_certs(&owned(&chain), key))
}
