//! TLS towards a collector, read and tried out before anything is sent.

use std::path::Path;
use std::sync::Arc;

use inrush_files::limits::CERTIFICATES_BYTES_MAX;
use inrush_transport::any_server::AnyServer;
use inrush_transport::trusted_server::TrustedServer;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use super::options::HttpTlsOptions;
use crate::SinkError;

/// Reads the files that the options name, and the system's authorities where an endpoint is
/// `https`.
pub(crate) fn client_config(
    options: &HttpTlsOptions,
    endpoints: &[String],
) -> Result<ClientConfig, SinkError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| SinkError::Unstartable(std::io::Error::other(error)))?;
    let is_https = |endpoint: &String| endpoint.starts_with("https");
    let builder = if !options.verify {
        builder
            .dangerous()
            .with_custom_certificate_verifier(AnyServer::new(provider))
    } else if endpoints.iter().any(is_https) {
        let (roots, pinned) = trusted(options)?;
        match TrustedServer::new(roots, pinned, provider) {
            Ok(verifier) => builder
                .dangerous()
                .with_custom_certificate_verifier(verifier),
            // A system that trusts nobody: every handshake says so.
            Err(_) => builder.with_root_certificates(RootCertStore::empty()),
        }
    } else {
        builder.with_root_certificates(RootCertStore::empty())
    };
    let (Some(cert), Some(key)) = (&options.cert_file, &options.key_file) else {
        return Ok(builder.with_no_client_auth());
    };
    let bad = |what: String| SinkError::BadCertificate {
        path: key.clone(),
        what,
    };
    let chain = certificates(cert)?;
    let der = PrivateKeyDer::from_pem_slice(&read(key)?)
        .map_err(|error| bad(format!("holds no key: {error}")))?;
    // A key that does not fit would otherwise be found out in the first handshake.
    builder
        .with_client_auth_cert(chain, der)
        .map_err(|error| bad(format!("does not fit {}: {error}", cert.display())))
}

/// The authorities to trust, and the certificates that are trusted themselves.
fn trusted(
    options: &HttpTlsOptions,
) -> Result<(RootCertStore, Vec<CertificateDer<'static>>), SinkError> {
    let (found, pinned) = match &options.ca_file {
        Some(path) => {
            let found = certificates(path)?;
            (found.clone(), found)
        }
        None => (rustls_native_certs::load_native_certs().certs, Vec::new()),
    };
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found);
    Ok((roots, pinned))
}

fn read(path: &Path) -> Result<Vec<u8>, SinkError> {
    inrush_files::read(path, CERTIFICATES_BYTES_MAX).map_err(|cause| SinkError::Unreadable {
        path: path.to_owned(),
        cause,
    })
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, SinkError> {
    let pem = read(path)?;
    let found: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .filter_map(Result::ok)
        .collect();
    if found.is_empty() {
        return Err(SinkError::BadCertificate {
            path: path.to_owned(),
            what: "holds no certificate in PEM form".into(),
        });
    }
    Ok(found)
}
