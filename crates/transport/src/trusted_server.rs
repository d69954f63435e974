//! Trust in the authorities of a file, and in the certificates of that file themselves.
//!
//! A self-signed certificate as `openssl req -x509` makes it says that it is an authority, and
//! webpki takes no authority for a server's own certificate. Whoever names exactly this
//! certificate trusts it, so it is taken as curl and OpenSSL do: when it is the one of the file,
//! bit for bit, is valid now, and names the server. The signatures of the handshake are checked as
//! for any other.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{VerifierBuilderError, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
};

/// Trusts servers whose certificate an authority vouches for, or that show a pinned one.
#[derive(Debug)]
pub struct TrustedServer {
    inner: Arc<WebPkiServerVerifier>,
    /// The certificates of the file.
    pinned: Vec<CertificateDer<'static>>,
}

impl TrustedServer {
    /// Trusts these authorities, and `pinned` themselves.
    ///
    /// # Errors
    /// There is no authority at all.
    pub fn new(
        roots: RootCertStore,
        pinned: Vec<CertificateDer<'static>>,
        provider: Arc<CryptoProvider>,
    ) -> Result<Arc<Self>, VerifierBuilderError> {
        let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        let inner = inner.build()?;
        Ok(Arc::new(Self { inner, pinned }))
    }
}

/// True if a certificate was refused for its place in a chain alone. Its dates were looked at
/// before: webpki reads them first.
pub(crate) fn is_about_the_chain(error: &Error) -> bool {
    match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => true,
        Error::InvalidCertificate(CertificateError::Other(OtherError(inner))) => matches!(
            inner.downcast_ref::<webpki::Error>(),
            Some(webpki::Error::CaUsedAsEndEntity)
        ),
        _ => false,
    }
}

impl ServerCertVerifier for TrustedServer {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.inner.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        let is_pinned = || self.pinned.iter().any(|one| one == end_entity);
        match verified {
            Err(error) if is_about_the_chain(&error) && is_pinned() => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
