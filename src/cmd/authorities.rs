//! Whom a client of the admin API trusts.

use std::path::Path;
use std::sync::Arc;

use inrush_files::limits::CERTIFICATES_BYTES_MAX;
use inrush_transport::trusted_server::TrustedServer;
use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use super::UsageError;

/// Trusts the authorities of a PEM file, and its certificates themselves.
///
/// # Errors
/// [`UsageError`]: the file cannot be read, or has no certificate.
pub(crate) fn of_file(path: &Path) -> Result<Arc<TrustedServer>, UsageError> {
    let fail = |what: String| UsageError(format!("{}: {what}", path.display()));
    let pem = inrush_files::read(path, CERTIFICATES_BYTES_MAX);
    let pem = pem.map_err(|error| fail(error.to_string()))?;
    let found: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .filter_map(Result::ok)
        .collect();
    if found.is_empty() {
        return Err(fail("there is no certificate in it".to_owned()));
    }
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.clone());
    let provider = Arc::new(ring::default_provider());
    TrustedServer::new(roots, found, provider).map_err(|error| fail(error.to_string()))
}
