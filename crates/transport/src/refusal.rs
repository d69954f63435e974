//! Reasons to turn a connection away: a closed list, each in words for an operator with a remedy.

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible};

use crate::stream::EndReason;

macro_rules! refusals {
    ($($variant:ident $reason:ident $words:literal $remedy:literal;)*) => {
        /// Reason for which a connection was turned away.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
        pub enum Refusal { $(#[doc = $words] $variant,)* }

        impl Refusal {
            /// Every one, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The reason that it is counted under.
            pub const fn reason(self) -> EndReason {
                match self { $(Self::$variant => EndReason::$reason,)* }
            }

            /// For the operator, without a full stop.
            pub const fn words(self) -> &'static str {
                match self { $(Self::$variant => $words,)* }
            }

            /// Remedy, in whole sentences.
            pub const fn remedy(self) -> &'static str {
                match self { $(Self::$variant => $remedy,)* }
            }
        }
    };
}

refusals! {
    TooMany TooMany "the listener has reached `stream.max_connections`"
        "Raise `stream.max_connections`, or find out why senders open so many.";
    OfAddress OfAddress "the address has reached its limit of connections"
        "If it stands for many senders (a relay, NAT), raise `stream.max_connections_per_address`, or `0` for no bound. Behind a load balancer, turn `stream.proxy_protocol` on at both ends.";
    NoDescriptors NoDescriptors "the descriptors for connections are used up"
        "Raise the limit of open files (`LimitNOFILE=` in the unit, `ulimit -n`, `--ulimit nofile=` of a container), or find out why senders open so many connections.";
    NoProxyHeader BadProxyHeader "no PROXY header, which `proxy_protocol: required` asks for"
        "Send through the proxy, or turn the PROXY protocol on in the proxy.";
    BrokenProxyHeader BadProxyHeader "a broken PROXY header"
        "Look at the proxy: it must send version 1 or 2 of the PROXY protocol.";
    UntrustedProxy UntrustedProxy "not one of `trusted_proxies`"
        "If it is a proxy of yours, add its address to `stream.trusted_proxies`.";
    Slow HandshakeTimeout "the PROXY header, handshake or `open` took too long"
        "Look at the sender and the network; raise `stream.handshake_timeout` for a slow one.";
    PlainOnTls Tls "plain text on a TLS port"
        "Turn TLS on in the sender, or have it send to a `tcp://` port.";
    HttpOnTls Tls "HTTP on a TLS port"
        "Look who asks: a health check or a browser at the wrong port. Syslog is not HTTP.";
    ProxyOnTls Tls "a PROXY header that nobody asked for"
        "Set `stream.proxy_protocol: required` here, or turn it off in the proxy.";
    NoTls Tls "bytes that are no TLS"
        "Look at the sender: it must speak TLS from the first byte.";
    OldVersion Tls "no TLS version in common: at least 1.2 is needed"
        "Have the sender use TLS 1.2 or 1.3.";
    NoCipher Tls "no cipher suite in common"
        "Have the sender offer AES-GCM or ChaCha20 with ECDHE.";
    NoGroup Tls "no key exchange group in common"
        "Have the sender offer X25519, P-256 or P-384.";
    NoScheme Tls "no signature scheme in common"
        "Have the sender offer what the certificate of this listener is signed with: ECDSA or RSA with SHA-256 or better.";
    NoCertificate Tls "no client certificate"
        "Give the sender a certificate of an authority in `client_ca_file`, or set `client_auth: optional`.";
    UnknownAuthority Tls "a client certificate of an unknown authority"
        "Add the authority to `client_ca_file`, or give the sender a certificate of one that is in it.";
    Expired Tls "a client certificate that has expired"
        "Give the sender a new certificate; if it is good, look at the clock of this host.";
    NotYetValid Tls "a client certificate that is not valid yet"
        "Look at the clocks of this host and of the authority.";
    Revoked Tls "a client certificate that is revoked"
        "Give the sender a new certificate if it may still send.";
    UnknownRevocation Tls "a client certificate whose authority has no list in `crl_files`"
        "Add the list of every authority of the chain to `crl_files`.";
    OldRevocation Tls "a client certificate whose authority's list in `crl_files` has expired"
        "Put the authority's newest list in its place; it is read without a restart.";
    WrongPurpose Tls "a certificate that is not for clients"
        "Issue it with `clientAuth` among the extended key usages.";
    NotPermitted Tls "a client certificate that is not among `permitted_peers`"
        "If it may send, add its name to `tls.permitted_peers`.";
    OfAuthority Tls "an authority's or self-signed certificate in place of a client's"
        "Have an authority in `client_ca_file` sign a certificate for the sender.";
    BadCertificate Tls "a client certificate that cannot be used"
        "Look at the sender's certificate and chain with `openssl x509 -text`.";
    ByPeer Tls "the sender does not accept this listener's certificate"
        "Compare `cert_file` with what the sender trusts: authority, intermediates, name, dates.";
    Cut Tls "the sender left within the TLS handshake"
        "Look at the sender's own log: most often it does not accept this listener's certificate.";
    Broken Tls "broken TLS"
        "Look at the sender and at devices in between that touch TLS.";
    TlsOnPlain TlsOnPlain "TLS on a plain port"
        "Have the sender use the `tls://` or `relps://` port, or turn TLS off in it.";
    Http HttpOnSyslog "HTTP on a syslog port"
        "Look who asks: a health check or a browser at the wrong port. Syslog is not HTTP.";
    RelpFrame RelpFrame "bytes that are no RELP"
        "Have the sender use RELP, or send to a `tcp://` port.";
    RelpProtocol RelpProtocol "a RELP frame that has no place in its session"
        "Look at the sender: it must begin a session with `open`.";
}

/// A good certificate of a client that may not send, by the names in it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NotPermitted(pub(crate) String);

/// Bytes that begin what a client of TLS sends: a handshake record of any version.
pub(crate) fn begins_tls(bytes: &[u8]) -> bool {
    // Control characters that no syslog message, frame or RELP transaction number begins with.
    matches!(bytes, [0x16, 0x03, 0..=4, rest @ ..] if matches!(rest, [_, _, 1, ..] | []))
}

const METHODS: [&[u8]; 10] = [
    b"GET ",
    b"HEAD ",
    b"POST ",
    b"PUT ",
    b"DELETE ",
    b"OPTIONS ",
    b"PATCH ",
    b"CONNECT ",
    b"TRACE ",
    b"PRI ",
];

/// True if bytes begin as a request of HTTP does: the line of the request and, right behind it, a
/// header or the empty line. A log line of the same words has neither.
pub(crate) fn begins_http(bytes: &[u8]) -> bool {
    if !METHODS.iter().any(|method| bytes.starts_with(method)) {
        return false;
    }
    let Some(end) = bytes.windows(2).position(|two| two == b"\r\n") else {
        return false;
    };
    let (line, rest) = (&bytes[..end], &bytes[end + 2..]);
    let version = line.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
    let is_http = matches!(version, b"HTTP/1.0" | b"HTTP/1.1" | b"HTTP/2.0");
    is_http && (rest.starts_with(b"\r\n") || is_header(rest))
}

/// `name: `, as the second line of a request begins.
fn is_header(rest: &[u8]) -> bool {
    let name = rest.iter().position(|byte| *byte == b':').unwrap_or(0);
    let in_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    name > 0 && rest[..name].iter().all(in_name)
}

/// Reason for which TLS failed with a peer whose first bytes were `first`, and what is particular
/// about it.
pub(crate) fn of_tls(error: &Error, first: &[u8]) -> (Refusal, String) {
    let words = |refusal| (refusal, String::new());
    match error {
        Error::NoCertificatesPresented => words(Refusal::NoCertificate),
        Error::InvalidCertificate(error) => of_certificate(error),
        Error::AlertReceived(alert) => (Refusal::ByPeer, alert_words(*alert).to_owned()),
        Error::PeerIncompatible(why) => of_incompatible(why),
        Error::InvalidMessage(InvalidMessage::UnknownProtocolVersion)
            if first.first() == Some(&0x16) =>
        {
            words(Refusal::OldVersion)
        }
        _ if !matches!(first, [0x16, 3, ..]) && !first.is_empty() => words(of_plain(first)),
        other => (Refusal::Broken, other.to_string()),
    }
}

/// Refusal of a peer that sent something else in place of TLS.
fn of_plain(first: &[u8]) -> Refusal {
    let is_text = |byte: &u8| matches!(byte, b' '..=b'~' | b'\t' | b'\r' | b'\n');
    if first.starts_with(b"PROXY ") || first.starts_with(b"\r\n\r\n\0\r\nQUIT\n") {
        Refusal::ProxyOnTls
    } else if METHODS.iter().any(|method| first.starts_with(method)) {
        Refusal::HttpOnTls
    } else if first.iter().all(is_text) {
        Refusal::PlainOnTls
    } else {
        Refusal::NoTls
    }
}

fn of_incompatible(why: &PeerIncompatible) -> (Refusal, String) {
    let refusal = match why {
        // Who offers no cipher with ECDHE names no groups for it.
        PeerIncompatible::NoCipherSuitesInCommon
        | PeerIncompatible::NamedGroupsExtensionRequired
        | PeerIncompatible::EcPointsExtensionRequired => Refusal::NoCipher,
        PeerIncompatible::NoKxGroupsInCommon
        | PeerIncompatible::NoEcPointFormatsInCommon
        | PeerIncompatible::UncompressedEcPointsRequired => Refusal::NoGroup,
        PeerIncompatible::NoSignatureSchemesInCommon
        | PeerIncompatible::NoCertificateRequestSignatureSchemesInCommon => Refusal::NoScheme,
        // What TLS 1.0 and 1.1 do not have.
        PeerIncompatible::SignatureAlgorithmsExtensionRequired
        | PeerIncompatible::Tls12NotOffered
        | PeerIncompatible::Tls12NotOfferedOrEnabled
        | PeerIncompatible::SupportedVersionsExtensionRequired => Refusal::OldVersion,
        other => return (Refusal::Broken, format!("{other:?}")),
    };
    (refusal, String::new())
}

fn of_certificate(error: &CertificateError) -> (Refusal, String) {
    let refusal = match error {
        // A bad signature is that of another authority of the same name.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            Refusal::UnknownAuthority
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => Refusal::Expired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            Refusal::NotYetValid
        }
        CertificateError::Revoked => Refusal::Revoked,
        CertificateError::UnknownRevocationStatus => Refusal::UnknownRevocation,
        CertificateError::ExpiredRevocationList
        | CertificateError::ExpiredRevocationListContext { .. } => Refusal::OldRevocation,
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            Refusal::WrongPurpose
        }
        CertificateError::Other(other) => match other.0.downcast_ref::<NotPermitted>() {
            Some(NotPermitted(name)) => return (Refusal::NotPermitted, name.clone()),
            // As webpki has it, without a word of its own.
            None if other.to_string().contains("CaUsedAsEndEntity") => Refusal::OfAuthority,
            None => return (Refusal::BadCertificate, other.to_string()),
        },
        other => return (Refusal::BadCertificate, other.to_string()),
    };
    (refusal, String::new())
}

/// Words for the alert that a sender leaves with.
fn alert_words(alert: AlertDescription) -> &'static str {
    match alert {
        AlertDescription::UnknownCA => "it does not know the authority (unknown_ca)",
        AlertDescription::CertificateExpired => "it says that it has expired (certificate_expired)",
        AlertDescription::BadCertificate => {
            "it says that it is bad, as for a wrong name (bad_certificate)"
        }
        AlertDescription::CertificateUnknown => "it gives no reason (certificate_unknown)",
        AlertDescription::CertificateRevoked => "it says that it is revoked (certificate_revoked)",
        AlertDescription::UnsupportedCertificate => "it cannot use it (unsupported_certificate)",
        AlertDescription::HandshakeFailure => "it finds nothing in common (handshake_failure)",
        AlertDescription::ProtocolVersion => "it wants another version (protocol_version)",
        AlertDescription::DecryptError => "it could not check the handshake (decrypt_error)",
        AlertDescription::InternalError => "it failed itself (internal_error)",
        _ => "it says so by an alert",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_client_hello_and_a_whole_request_are_told_from_events() {
        let hello = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
        assert!(begins_tls(&hello) && begins_tls(&hello[..3]));
        for other in [
            &[0x16][..],
            &[0x16, 3],
            &[0x16, 2, 1],
            &[0x16, 3, 9],
            &[0x16, 3, 1, 0, 5, 9],
        ] {
            assert!(!begins_tls(other), "{other:?}");
        }
        for request in [
            "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET /healthz HTTP/1.0\r\n\r\n",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            "OPTIONS * HTTP/1.1\r\nUser-Agent: probe",
        ] {
            assert!(begins_http(request.as_bytes()), "{request}");
        }
        for event in [
            "GET / HTTP/1.1\n",
            "GET / HTTP/1.1\r\n",
            "GET / HTTP/1.1\r\n<13>Oct 11 22:14:15 h a: x\r\n",
            "GET / HTTP/1.1\r\nGET /b HTTP/1.1\r\n",
            "GET it done\r\nNow: really\r\n",
            "<13>GET / HTTP/1.1\r\nHost: x\r\n",
        ] {
            assert!(!begins_http(event.as_bytes()), "{event}");
        }
    }

    #[test]
    fn what_comes_in_place_of_tls_is_named() {
        let broken = Error::InvalidMessage(InvalidMessage::InvalidContentType);
        for (first, refusal) in [
            (&b"<13>Oct 11 22:14:15 h a: x"[..], Refusal::PlainOnTls),
            (b"GET / HTTP/1.1\r\n", Refusal::HttpOnTls),
            (b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n", Refusal::ProxyOnTls),
            (&[0x80, 0x2e, 1, 3, 1], Refusal::NoTls),
            (&[0x16, 3, 1, 0, 5], Refusal::Broken),
        ] {
            assert_eq!(of_tls(&broken, first).0, refusal, "{first:?}");
        }
    }

    #[test]
    fn every_refusal_says_what_to_do_in_whole_sentences() {
        for refusal in Refusal::ALL {
            assert!(refusal.remedy().ends_with('.'), "{refusal:?}");
            assert!(!refusal.words().ends_with('.'), "{refusal:?}");
        }
    }
}
