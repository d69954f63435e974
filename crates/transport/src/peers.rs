//! The names in client certificates, and the clients that may connect (RFC 5425, section 5).
//!
//! # What it guarantees
//! * A name is one that an authority has vouched for, or the fingerprint of the certificate: it is
//!   read only after the certificate was verified.
//! * DNS names of `subjectAltName` count; the common name only where there are none (section 5.2).
//!
//! # Limits
//! A name is compared whole and kept with at most 255 bytes.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use inrush_event::text_option;
use ring::digest;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, SignatureScheme,
};
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

use crate::refusal::NotPermitted;
use crate::tls::Validity;
use crate::trusted_server::is_about_the_chain;

/// Bytes of a name that is kept: the longest DNS name (RFC 1035, section 2.3.4).
const NAME_BYTES_MAX: usize = 255;

/// Names of a certificate that a refusal repeats.
const NAMES_SHOWN: usize = 4;

const SHA256_BYTES: usize = 32;

/// A client that may connect: what its certificate has to say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PermittedPeer {
    /// A DNS name or common name, in lower case.
    Name(String),
    /// Names with one label before this part of theirs, which begins with a dot.
    Wildcard(String),
    /// An address in `subjectAltName`.
    Ip(IpAddr),
    /// The SHA-256 of the certificate.
    Sha256([u8; SHA256_BYTES]),
}

/// The reason why a text names no client.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PermittedPeerError {
    /// No hexadecimal digits of the right number.
    #[error(
        "`{0}` is no fingerprint; it is SHA256: and 64 hexadecimal digits, as `openssl x509 \
         -noout -fingerprint -sha256` prints them"
    )]
    Fingerprint(String),
    /// Another hash.
    #[error("`{0}` is a fingerprint by SHA-1, which can be forged; give the one by SHA-256")]
    Sha1(String),
    /// A star that is not the first label.
    #[error("`{0}`: a wildcard stands for the first label alone, as in *.example.com")]
    Wildcard(String),
    /// Nothing.
    #[error("a name is missing; write for example relay.example.com")]
    Empty,
}

impl FromStr for PermittedPeer {
    type Err = PermittedPeerError;

    fn from_str(text: &str) -> Result<Self, PermittedPeerError> {
        let text = text.trim();
        let lower = text.to_ascii_lowercase();
        if lower.is_empty() {
            return Err(PermittedPeerError::Empty);
        }
        if lower.starts_with("sha1:") || lower.starts_with("sha-1:") {
            return Err(PermittedPeerError::Sha1(text.to_owned()));
        }
        let digits = lower.strip_prefix("sha256:");
        if let Some(digits) = digits.or_else(|| lower.strip_prefix("sha-256:")) {
            let bytes = hexadecimal(digits);
            let wrong = || PermittedPeerError::Fingerprint(text.to_owned());
            return bytes.map(Self::Sha256).ok_or_else(wrong);
        }
        if let Ok(ip) = lower.parse::<IpAddr>() {
            return Ok(Self::Ip(ip.to_canonical()));
        }
        let (before, suffix) = match lower.strip_prefix('*') {
            Some(suffix) => ("*", suffix),
            None => ("", lower.as_str()),
        };
        let is_domain = suffix.len() > 1 && suffix.starts_with('.');
        match before {
            _ if suffix.contains('*') => Err(PermittedPeerError::Wildcard(text.to_owned())),
            "*" if !is_domain => Err(PermittedPeerError::Wildcard(text.to_owned())),
            "*" => Ok(Self::Wildcard(suffix.to_owned())),
            _ => Ok(Self::Name(lower)),
        }
    }
}

impl fmt::Display for PermittedPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Wildcard(suffix) => write!(f, "*{suffix}"),
            Self::Ip(ip) => write!(f, "{ip}"),
            Self::Sha256(hash) => f.write_str(&fingerprint(hash)),
        }
    }
}

text_option!(PermittedPeer "permitted-peer" [
    "relay.example.com",
    "*.example.com",
    "SHA256:E3:B0:…"
]);

/// Bytes of hexadecimal digits, with or without colons between them.
fn hexadecimal(digits: &str) -> Option<[u8; SHA256_BYTES]> {
    let digits: Vec<u8> = digits.bytes().filter(|byte| *byte != b':').collect();
    let mut bytes = [0; SHA256_BYTES];
    if digits.len() != 2 * SHA256_BYTES {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let value = digit(pair[0])? << 4 | digit(pair[1])?;
        *byte = u8::try_from(value).ok()?;
    }
    Some(bytes)
}

/// As `openssl x509 -fingerprint` prints it.
fn fingerprint(hash: &[u8]) -> String {
    let bytes: Vec<String> = hash.iter().map(|byte| format!("{byte:02X}")).collect();
    format!("SHA256:{}", bytes.join(":"))
}

/// The names in a certificate.
struct CertificateNames {
    dns: Vec<String>,
    ips: Vec<IpAddr>,
    common: Option<String>,
    sha256: [u8; SHA256_BYTES],
}

impl CertificateNames {
    fn of(der: &[u8]) -> Option<Self> {
        let certificate = Certificate::from_der(der).ok()?;
        let all = certificate.tbs_certificate();
        let (mut dns, mut ips) = (Vec::new(), Vec::new());
        let alternative = all.get_extension::<SubjectAltName>().ok()?;
        for name in alternative.into_iter().flat_map(|(_, names)| names.0) {
            match name {
                GeneralName::DnsName(name) => dns.push(name.as_str().to_owned()),
                GeneralName::IpAddress(bytes) => ips.extend(ip(bytes.as_bytes())),
                _ => {}
            }
        }
        let common = all.subject().common_name().ok().flatten();
        let hash = digest::digest(&digest::SHA256, der);
        Some(Self {
            dns,
            ips,
            common: common
                .map(|name| name.value().to_string())
                .filter(|name| !name.is_empty()),
            sha256: hash.as_ref().try_into().ok()?,
        })
    }

    /// Those that are compared with names: DNS names, or the common name where there are none.
    fn texts(&self) -> impl Iterator<Item = &str> {
        let common = self.common.as_deref().filter(|_| self.dns.is_empty());
        self.dns.iter().map(String::as_str).chain(common)
    }

    /// The name that the client is called by.
    fn first(&self) -> String {
        let text = self.texts().find(|name| !name.is_empty()).map(cut);
        let ip = || self.ips.first().map(IpAddr::to_string);
        text.or_else(ip)
            .unwrap_or_else(|| fingerprint(&self.sha256))
    }

    /// The name by which `peer` is meant; `None` if another client is meant.
    fn meant_by(&self, peer: &PermittedPeer) -> Option<String> {
        let found =
            |is_meant: &dyn Fn(&str) -> bool| self.texts().find(|name| is_meant(name)).map(cut);
        match peer {
            PermittedPeer::Name(wanted) => found(&|name| is_same(name, wanted)),
            PermittedPeer::Wildcard(suffix) => found(&|name| is_below(name, suffix)),
            PermittedPeer::Ip(ip) => self.ips.contains(ip).then(|| ip.to_string()),
            PermittedPeer::Sha256(hash) => (self.sha256 == *hash).then(|| self.first()),
        }
    }

    /// All of them, for the operator who has to permit one.
    fn shown(&self) -> String {
        let ips = self.ips.iter().map(IpAddr::to_string);
        let all: Vec<String> = self.texts().map(cut).chain(ips).collect();
        match all.len() {
            0 => fingerprint(&self.sha256),
            _ => all[..all.len().min(NAMES_SHOWN)].join(", "),
        }
    }
}

/// A name as it is kept and shown. It is compared whole: its first bytes may be another's name.
fn cut(name: &str) -> String {
    name[..name.floor_char_boundary(NAME_BYTES_MAX)].to_owned()
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    let v6 = || <[u8; 16]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| v6()).ok().map(|ip| ip.to_canonical())
}

/// True if a certificate's name is `wanted`. A certificate may itself be for all names with one
/// label more than a domain.
fn is_same(name: &str, wanted: &str) -> bool {
    let of_all = name
        .strip_prefix('*')
        .filter(|suffix| suffix.starts_with('.'));
    name.eq_ignore_ascii_case(wanted)
        || of_all.is_some_and(|suffix| is_below(wanted, &suffix.to_ascii_lowercase()))
}

/// True if a name is one label and then `suffix`, which begins with a dot.
fn is_below(name: &str, suffix: &str) -> bool {
    let Some((label, rest)) = name.split_once('.') else {
        return false;
    };
    !label.is_empty() && rest.eq_ignore_ascii_case(&suffix[1..])
}

/// The clients that may connect to a listener.
#[derive(Clone, Debug, Default)]
pub(crate) struct PeerAllowlist(Option<Arc<[PermittedPeer]>>);

impl PeerAllowlist {
    pub(crate) fn new(peers: Option<&Vec<PermittedPeer>>) -> Self {
        Self(peers.map(|peers| peers.as_slice().into()))
    }

    /// The name of the client of a verified certificate; `None` if it has none that counts.
    pub(crate) fn name(&self, der: &[u8]) -> Option<String> {
        let names = CertificateNames::of(der)?;
        match &self.0 {
            None => Some(names.first()),
            Some(peers) => peers.iter().find_map(|peer| names.meant_by(peer)),
        }
    }
}

/// Verifies clients by their authorities, and then by their names.
#[derive(Debug)]
pub(crate) struct PermittedClients {
    /// By authorities; `None` where there are none, and fingerprints alone count.
    authorities: Option<Arc<dyn ClientCertVerifier>>,
    peers: Arc<[PermittedPeer]>,
    /// True if a client without a certificate is let in.
    optional: bool,
    algorithms: WebPkiSupportedAlgorithms,
}

impl PermittedClients {
    pub(crate) fn new(
        authorities: Option<Arc<dyn ClientCertVerifier>>,
        peers: &[PermittedPeer],
        optional: bool,
        algorithms: WebPkiSupportedAlgorithms,
    ) -> Arc<Self> {
        Arc::new(Self {
            authorities,
            peers: peers.into(),
            optional,
            algorithms,
        })
    }

    fn is_pinned(&self, names: &CertificateNames) -> bool {
        let own = PermittedPeer::Sha256(names.sha256);
        self.peers.contains(&own)
    }

    fn has_fingerprints(&self) -> bool {
        let is_fingerprint = |peer: &PermittedPeer| matches!(peer, PermittedPeer::Sha256(_));
        self.peers.iter().any(is_fingerprint)
    }
}

/// True if a certificate was refused because no authority vouches for it. A bad signature is that
/// of another authority of the same name.
fn is_about_authorities(error: &Error) -> bool {
    let is_forged = matches!(
        error,
        Error::InvalidCertificate(CertificateError::BadSignature)
    );
    is_forged || is_about_the_chain(error)
}

/// True if a certificate that no authority vouches for is good now.
fn verify_dates(der: &[u8], now: UnixTime) -> Result<(), Error> {
    let bad = |_| Error::InvalidCertificate(CertificateError::BadEncoding);
    let validity = Validity::of(der).map_err(bad)?;
    let now_s = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    if now_s < validity.not_before {
        return Err(CertificateError::NotValidYet.into());
    }
    if now_s > validity.not_after {
        return Err(CertificateError::Expired.into());
    }
    Ok(())
}

impl ClientCertVerifier for PermittedClients {
    fn client_auth_mandatory(&self) -> bool {
        !self.optional
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        match &self.authorities {
            // GnuTLS shows no certificate of an authority that is not among these.
            Some(authorities) if !self.has_fingerprints() => authorities.root_hint_subjects(),
            _ => &[],
        }
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let names = CertificateNames::of(end_entity).ok_or(CertificateError::BadEncoding)?;
        let verified = match &self.authorities {
            Some(all) => all.verify_client_cert(end_entity, intermediates, now),
            None => Err(CertificateError::UnknownIssuer.into()),
        };
        match verified {
            Ok(_) => {}
            Err(error) if is_about_authorities(&error) && self.is_pinned(&names) => {
                verify_dates(end_entity, now)?;
            }
            Err(error) if self.authorities.is_some() => return Err(error),
            Err(_) => return Err(not_permitted(&names)),
        }
        let is_meant = |peer| names.meant_by(peer).is_some();
        if !self.peers.iter().any(is_meant) {
            return Err(not_permitted(&names));
        }
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

fn not_permitted(names: &CertificateNames) -> Error {
    let why = NotPermitted(names.shown());
    CertificateError::Other(OtherError(Arc::new(why))).into()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const HASH: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn names(dns: &[&str], common: &str, ips: &[&str]) -> CertificateNames {
        CertificateNames {
            dns: dns.iter().map(|name| (*name).to_owned()).collect(),
            ips: ips.iter().map(|ip| ip.parse().unwrap()).collect(),
            common: Some(common.to_owned()),
            sha256: hexadecimal(HASH).unwrap(),
        }
    }

    fn peer(text: &str) -> PermittedPeer {
        text.parse().unwrap()
    }

    #[test]
    fn peers_are_read_and_written_alike() {
        for text in [
            "relay.example.com",
            "*.example.com",
            "10.0.0.7",
            "2001:db8::1",
        ] {
            assert_eq!(peer(text).to_string(), text);
        }
        assert_eq!(peer(" Relay.Example.COM "), peer("relay.example.com"));
        let written = peer(&format!("SHA256:{HASH}")).to_string();
        assert!(written.starts_with("SHA256:E3:B0:C4:42:"), "{written}");
        for same in [written, format!("sha-256:{}", HASH.to_uppercase())] {
            assert_eq!(peer(&same), peer(&format!("sha256:{HASH}")));
        }
    }

    #[test]
    fn what_names_no_client_says_why() {
        let long = format!("SHA256:{HASH}00");
        for (text, said) in [
            ("SHA256:abc", "64 hexadecimal digits"),
            (long.as_str(), "64 hexadecimal digits"),
            ("SHA1:E1:2D:53:2B", "give the one by SHA-256"),
            ("*", "the first label alone"),
            ("*.", "the first label alone"),
            ("*example.com", "the first label alone"),
            ("a.*.example.com", "the first label alone"),
            (" ", "a name is missing"),
        ] {
            let error = text.parse::<PermittedPeer>().unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn a_wildcard_is_one_label_and_names_are_compared_without_case() {
        let with = |dns: &str, wanted: &str| names(&[dns], "cn", &[]).meant_by(&peer(wanted));
        for (dns, wanted) in [
            ("Relay.Example.com", "relay.example.com"),
            ("relay.example.com", "*.example.com"),
            ("*.example.com", "relay.example.com"),
            ("*.example.com", "*.example.com"),
        ] {
            assert_eq!(with(dns, wanted).as_deref(), Some(dns), "{dns} {wanted}");
        }
        for (dns, wanted) in [
            ("example.com", "*.example.com"),
            (".example.com", "*.example.com"),
            ("a.b.example.com", "*.example.com"),
            ("relay.example.com.evil", "*.example.com"),
            ("relay.badexample.com", "*.example.com"),
            ("*.example.com", "a.b.example.com"),
            ("*.example.com", "example.com"),
            ("*", "relay.example.com"),
            ("*", "relay"),
        ] {
            assert_eq!(with(dns, wanted), None, "{dns} {wanted}");
        }
    }

    #[test]
    fn a_name_that_is_cut_where_it_is_kept_is_compared_whole() {
        let label = "a".repeat(NAME_BYTES_MAX - ".example.com".len());
        let mut params = rcgen::CertificateParams::default();
        let named = format!("{label}.example.com.evil");
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, named);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let forged = CertificateNames::of(certificate.der()).unwrap();
        assert_eq!(forged.meant_by(&peer("*.example.com")), None);
        assert_eq!(forged.first(), format!("{label}.example.com"));
    }

    #[test]
    fn the_common_name_counts_only_without_dns_names() {
        let both = names(&["relay.example.com"], "other.example.com", &["10.0.0.7"]);
        assert_eq!(both.meant_by(&peer("other.example.com")), None);
        assert_eq!(
            both.meant_by(&peer("10.0.0.7")).as_deref(),
            Some("10.0.0.7")
        );
        assert_eq!(both.first(), "relay.example.com");
        let alone = names(&[], "relay-7", &["10.0.0.7"]);
        assert_eq!(alone.meant_by(&peer("relay-7")).as_deref(), Some("relay-7"));
        assert_eq!(alone.first(), "relay-7");
        let hash = peer(&format!("SHA256:{HASH}"));
        assert_eq!(alone.meant_by(&hash).as_deref(), Some("relay-7"));
        let nameless = CertificateNames {
            common: None,
            ips: Vec::new(),
            ..alone
        };
        assert!(nameless.first().starts_with("SHA256:E3:B0"));
        assert_eq!(nameless.meant_by(&peer("relay-7")), None);
    }
}
