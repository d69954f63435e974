//! One request to one endpoint over a kept connection.

use std::io;
use std::path::Path;
use std::sync::Arc;

use libdeflater::{CompressionLvl, Compressor};
use rustls::crypto::ring;
use ureq::http::{HeaderValue, Uri, header};
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts};
use ureq::{Agent, Proxy};

use super::config::{HecCompression, HecTlsConfig, SplunkHecConfig, endpoint_uri};
use super::proxy;
use crate::{ErrorReason, Problem, SinkError};

/// Splunk takes a client without a User-Agent for one that cannot keep a connection.
const USER_AGENT: &str = concat!("inrush/", env!("CARGO_PKG_VERSION"));

/// Bytes written in one call. The body is copied through a buffer of this size: large enough that
/// calls cost nothing beside the bytes, small enough to stay in the second-level cache. Measured
/// for 800 B events, CPU of the whole sink: 64 KiB 0.67 µs, 256 KiB 0.55 µs, 1 MiB 0.58 µs.
const WRITE_BYTES: usize = 256 * 1024;

/// Bytes of an answer that are read; HEC's have about 100.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

/// Seconds that an idle connection is kept: Splunk closes idle ones after 12 when it is busy.
const IDLE_SECONDS: u64 = 10;

/// The fastest level that compresses.
const GZIP_LEVEL: i32 = 1;

/// What came back.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) retry_after: Option<String>,
    pub(super) body: Vec<u8>,
}

/// Why nothing came back.
pub(super) struct SendError {
    pub(super) reason: ErrorReason,
    pub(super) text: String,
}

/// An endpoint's address and its connections, shared by all workers.
pub(super) struct Endpoint {
    uri: Uri,
    agent: Agent,
}

/// What all requests have in common.
pub(super) struct Client {
    pub(super) endpoints: Vec<Endpoint>,
    authorization: HeaderValue,
}

impl Client {
    /// Reads certificates and the proxy environment.
    pub(super) fn new(config: &SplunkHecConfig) -> Result<Self, SinkError> {
        let tls = tls(&config.tls, config)?;
        let bad = |key: &str, message| SinkError::Config(Problem::new(key, message));
        let mut endpoints = Vec::new();
        for text in &config.endpoints {
            let uri = endpoint_uri(text).map_err(|message| bad("endpoints", message))?;
            let proxy = match &config.proxy {
                Some(text) => proxy::parse(text.expose()).map_err(|m| bad("proxy", m))?,
                None => proxy::from_environment(&uri, |name| std::env::var(name).ok()),
            };
            endpoints.push(Endpoint {
                uri,
                agent: agent(config, tls.clone(), proxy),
            });
        }
        let token = format!("Splunk {}", config.token.expose());
        let mut authorization = HeaderValue::from_str(&token)
            .map_err(|_| bad("token", "has a character that HTTP does not allow".into()))?;
        authorization.set_sensitive(true);
        Ok(Self {
            endpoints,
            authorization,
        })
    }

    /// Sends a body and reads the answer.
    pub(super) fn post(
        &self,
        index: usize,
        body: &[u8],
        encoding: Option<&'static str>,
    ) -> Result<Answer, SendError> {
        let endpoint = &self.endpoints[index];
        let mut request = endpoint
            .agent
            .post(endpoint.uri.clone())
            .header(header::AUTHORIZATION, self.authorization.clone())
            .header(
                header::CONTENT_TYPE,
                HeaderValue::from_static("application/json"),
            );
        if let Some(encoding) = encoding {
            request = request.header(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
        }
        let failed = |error| send_error(&endpoint.uri, &error);
        let response = request.send(body).map_err(failed)?;
        let (parts, mut body) = response.into_parts();
        let retry_after = parts
            .headers
            .get(header::RETRY_AFTER)
            .and_then(|v| v.to_str().ok());
        // The status line is the verdict: an answer whose body breaks off is still an answer.
        let body = body
            .with_config()
            .limit(ANSWER_BYTES_MAX)
            .read_to_vec()
            .unwrap_or_default();
        let retry_after = retry_after.map(str::to_owned);
        Ok(Answer {
            status: parts.status.as_u16(),
            retry_after,
            body,
        })
    }

    /// How an endpoint is called in messages.
    pub(super) fn name(&self, index: usize) -> String {
        self.endpoints[index].uri.to_string()
    }

    /// Breaks off every request under way.
    pub(super) fn shut_down(&self) {
        for endpoint in &self.endpoints {
            endpoint.agent.clone().shutdown();
        }
    }
}

fn agent(config: &SplunkHecConfig, tls: ureq::tls::TlsConfig, proxy: Option<Proxy>) -> Agent {
    let connections = config.workers as usize;
    Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .user_agent(USER_AGENT)
        .output_buffer_size(WRITE_BYTES)
        .max_idle_connections(connections)
        .max_idle_connections_per_host(connections)
        .max_idle_age(std::time::Duration::from_secs(IDLE_SECONDS))
        .timeout_global(Some(config.request_timeout.0))
        .timeout_connect(Some(config.connect_timeout.0))
        .proxy(proxy)
        .tls_config(tls)
        .build()
        .new_agent()
}

fn tls(
    options: &HecTlsConfig,
    config: &SplunkHecConfig,
) -> Result<ureq::tls::TlsConfig, SinkError> {
    let mut builder = ureq::tls::TlsConfig::builder()
        .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
        .disable_verification(!options.verify);
    if config
        .endpoints
        .iter()
        .any(|endpoint| endpoint.starts_with("https"))
    {
        builder = builder.root_certs(RootCerts::Specific(Arc::new(roots(options)?)));
    } else {
        builder = builder.root_certs(RootCerts::Specific(Arc::default()));
    }
    if let (Some(cert), Some(key)) = (&options.cert_file, &options.key_file) {
        builder = builder.client_cert(Some(client_cert(cert, key)?));
    }
    Ok(builder.build())
}

fn roots(options: &HecTlsConfig) -> Result<Vec<Certificate<'static>>, SinkError> {
    match &options.ca_file {
        Some(path) => certificates(path),
        None => {
            let system = rustls_native_certs::load_native_certs().certs;
            Ok(system
                .iter()
                .map(|cert| Certificate::from_der(cert).to_owned())
                .collect())
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, SinkError> {
    std::fs::read(path).map_err(|cause| SinkError::Unreadable {
        path: path.to_owned(),
        cause,
    })
}

fn certificates(path: &Path) -> Result<Vec<Certificate<'static>>, SinkError> {
    let pem = read(path)?;
    let certificate = |item| match item {
        Ok(ureq::tls::PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    };
    let found: Vec<_> = ureq::tls::parse_pem(&pem).filter_map(certificate).collect();
    if found.is_empty() {
        let what = "holds no certificate in PEM form".into();
        return Err(SinkError::BadCertificate {
            path: path.to_owned(),
            what,
        });
    }
    Ok(found)
}

/// Our own certificate, tried out here: a key that does not fit would end the worker later.
fn client_cert(cert: &Path, key: &Path) -> Result<ClientCert, SinkError> {
    let chain = certificates(cert)?;
    let bad = |what: String| SinkError::BadCertificate {
        path: key.to_owned(),
        what,
    };
    let key = PrivateKey::from_pem(&read(key)?).map_err(|e| bad(format!("holds no key: {e}")))?;
    let provider = ring::default_provider();
    let der = rustls::pki_types::PrivateKeyDer::try_from(key.der().to_vec())
        .map_err(|e| bad(format!("holds no usable key: {e}")))?;
    let chain_der = chain.iter().map(|c| c.der().to_vec().into()).collect();
    rustls::sign::CertifiedKey::from_der(chain_der, der, &provider)
        .map_err(|e| bad(format!("does not fit {}: {e}", cert.display())))?;
    Ok(ClientCert::new_with_certs(&chain, key))
}

fn send_error(uri: &Uri, error: &ureq::Error) -> SendError {
    let reason = match error {
        ureq::Error::Timeout(_) => ErrorReason::Timeout,
        ureq::Error::HostNotFound
        | ureq::Error::ConnectionFailed
        | ureq::Error::ConnectProxyFailed(_) => ErrorReason::ConnectFailed,
        ureq::Error::Tls(_) | ureq::Error::Pem(_) | ureq::Error::Rustls(_) => ErrorReason::Tls,
        ureq::Error::Protocol(_) | ureq::Error::LargeResponseHeader(..) => ErrorReason::BadAnswer,
        ureq::Error::Io(error) => io_reason(error),
        _ => ErrorReason::Io,
    };
    SendError {
        reason,
        text: format!("{uri}: {error}"),
    }
}

fn io_reason(error: &io::Error) -> ErrorReason {
    use io::ErrorKind::{
        AddrNotAvailable, ConnectionRefused, HostUnreachable, NetworkUnreachable, TimedOut,
    };
    if error
        .get_ref()
        .is_some_and(|inner| inner.is::<rustls::Error>())
    {
        return ErrorReason::Tls;
    }
    match error.kind() {
        ConnectionRefused | HostUnreachable | NetworkUnreachable | AddrNotAvailable => {
            ErrorReason::ConnectFailed
        }
        TimedOut => ErrorReason::Timeout,
        _ => ErrorReason::Io,
    }
}

/// Compresses bodies where the configuration asks for it. One a worker.
pub(super) struct Packer {
    gzip: Option<(Compressor, Vec<u8>)>,
}

impl Packer {
    pub(super) fn new(compression: HecCompression) -> Self {
        let gzip = match compression {
            HecCompression::None => None,
            HecCompression::Gzip => {
                // The library's own "fastest" is level 0, which does not compress.
                let level = CompressionLvl::new(GZIP_LEVEL).unwrap_or_default();
                Some((Compressor::new(level), Vec::new()))
            }
        };
        Self { gzip }
    }

    /// The bytes to send, and their `Content-Encoding`.
    pub(super) fn pack<'a>(&'a mut self, body: &'a [u8]) -> (&'a [u8], Option<&'static str>) {
        let Some((compressor, packed)) = &mut self.gzip else {
            return (body, None);
        };
        packed.resize(compressor.gzip_compress_bound(body.len()), 0);
        // The room is what the library itself says is enough for any input.
        match compressor.gzip_compress(body, packed) {
            Ok(len) => (&packed[..len], Some("gzip")),
            Err(_) => (body, None),
        }
    }
}
