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
    AlertDescription, CertificateError, DigitallySignedStruct, Error, OtherError, PeerIncompatible,
    RootCertStore, SignatureScheme,
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

/// Cause of a failed handshake with a server, with a remedy for the operator; `None` where the
/// library's own words will do.
pub fn words(error: &Error) -> Option<&'static str> {
    Some(match error {
        Error::InvalidCertificate(error) => certificate_words(error)?,
        Error::AlertReceived(AlertDescription::HandshakeFailure) => {
            "the server finds no cipher suite, curve or signature in common; a certificate with a \
             P-521 key or a SHA-1 signature is one cause: use ECDSA P-256, P-384 or RSA"
        }
        Error::AlertReceived(AlertDescription::CertificateRequired) => {
            "the server asks for a client certificate: set `tls.cert_file` and `tls.key_file`"
        }
        Error::AlertReceived(AlertDescription::UnknownCA) => {
            "the server does not know the authority of our client certificate"
        }
        Error::AlertReceived(
            AlertDescription::BadCertificate | AlertDescription::CertificateUnknown,
        ) => "the server does not accept our client certificate",
        Error::AlertReceived(AlertDescription::ProtocolVersion)
        | Error::PeerIncompatible(PeerIncompatible::ServerDoesNotSupportTls12Or13) => {
            "the server speaks no TLS 1.2 or 1.3: turn one of them on there"
        }
        _ => return None,
    })
}

fn certificate_words(error: &CertificateError) -> Option<&'static str> {
    Some(match error {
        CertificateError::UnknownIssuer => {
            "the server's certificate is of an authority that is not trusted here: give \
             `tls.ca_file` that authority's certificate, and have the server send its intermediates"
        }
        CertificateError::BadSignature => {
            "the signature of the server's certificate is wrong: `tls.ca_file` has another \
             authority of the same name"
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "the server's certificate is not for servers: issue it with `serverAuth`"
        }
        CertificateError::Other(OtherError(inner)) => {
            match inner.downcast_ref::<webpki::Error>()? {
                webpki::Error::UnsupportedCertVersion => {
                    "the server's certificate is of X.509 version 1, which has no names for hosts: \
                 make one of version 3 with a `subjectAltName`"
                }
                webpki::Error::CaUsedAsEndEntity => {
                    "the server shows an authority's certificate: give `tls.ca_file` this certificate \
                 itself, or have the authority sign one for the server"
                }
                _ => {
                    "the server's certificate cannot be used: look at it with `openssl x509 -text`"
                }
            }
        }
        _ => return None,
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_cause_of_its_own_has_words_without_names_of_the_library() {
        let other = |error: webpki::Error| {
            let inner = OtherError(Arc::new(error));
            Error::InvalidCertificate(CertificateError::Other(inner))
        };
        for (error, part) in [
            (CertificateError::UnknownIssuer.into(), "`tls.ca_file`"),
            (CertificateError::BadSignature.into(), "same name"),
            (CertificateError::InvalidPurpose.into(), "`serverAuth`"),
            (other(webpki::Error::UnsupportedCertVersion), "version 1"),
            (
                other(webpki::Error::CaUsedAsEndEntity),
                "authority's certificate",
            ),
            (other(webpki::Error::BadDer), "openssl"),
            (
                Error::AlertReceived(AlertDescription::HandshakeFailure),
                "P-521",
            ),
            (
                Error::AlertReceived(AlertDescription::CertificateRequired),
                "`tls.cert_file`",
            ),
            (
                Error::AlertReceived(AlertDescription::UnknownCA),
                "authority",
            ),
            (
                Error::AlertReceived(AlertDescription::ProtocolVersion),
                "TLS 1.2",
            ),
        ] {
            let said = words(&error).unwrap_or_default();
            assert!(said.contains(part), "{error:?}: {said}");
        }
        assert_eq!(words(&Error::DecryptError), None);
    }
}
