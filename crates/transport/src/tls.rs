//! TLS of listeners (RFC 5425): certificates loaded, checked, and loaded again when they change.
//!
//! # What it guarantees
//! * A configuration is used only after its key was found to belong to its certificate and its
//!   authorities to be certificates. A change that fails this leaves the last good one in use.
//! * A session keeps the certificate that it began with; the next one gets the newest.
//! * TLS 1.2 and 1.3, with ring. A client's certificate is checked for its signature and dates, and
//!   for its names ([`crate::peers`]) and against revocation lists where that is configured.
//! * Changed lists are for the next handshake; no session is resumed across a change.
//!
//! # Limits
//! A file is at most [`FILE_BYTES_MAX`], one with revocation lists [`CRL_BYTES_MAX`], and must be a
//! regular one.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{InconsistentKeys, RootCertStore, ServerConfig};
use webpki::OwnedCertRevocationList;
use x509_cert::Certificate;
use x509_cert::crl::CertificateList;
use x509_cert::der::Decode;
use x509_cert::time::Time;

use crate::config::{ClientAuth, TlsServerOptions};
use crate::peers::{PeerAllowlist, PermittedClients};

/// Bytes read of a certificate file at most: every authority that browsers trust takes a quarter.
pub const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Bytes read of a file with revocation lists at most: 200,000 revoked certificates.
pub const CRL_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Error of the TLS options: the option, the file, and what is wrong with it.
#[derive(Debug, thiserror::Error)]
#[error("{option} {}: {problem}", path.display())]
pub struct TlsError {
    /// The option at fault.
    pub option: &'static str,
    /// The file it names.
    pub path: PathBuf,
    /// Problem of the file.
    pub problem: TlsProblem,
}

/// Problem of a file, and its remedy.
#[derive(Debug, thiserror::Error)]
pub enum TlsProblem {
    /// The system would not give it to us.
    #[error("cannot be read: {source}{}", remedy(source))]
    Unreadable {
        /// Error of the system.
        source: io::Error,
    },
    /// A directory, a pipe, a device.
    #[error("is not a regular file")]
    NotAFile,
    /// More bytes than these.
    #[error("is larger than {} MiB, so it is not what it should be", .0 >> 20)]
    TooLarge(u64),
    /// No revocation list in it.
    #[error("holds no revocation list: it must be DER or have a part `BEGIN X509 CRL`")]
    NoRevocationList,
    /// Binary, as it begins.
    #[error(
        "is DER, not PEM; convert it with `openssl x509 -inform der` or `openssl pkey -inform der`"
    )]
    Der,
    /// Damaged PEM.
    #[error("is damaged: {0}")]
    Pem(pem::Error),
    /// No certificate in it.
    #[error("holds no certificate: it must have a part `BEGIN CERTIFICATE`")]
    NoCertificate,
    /// No key in it.
    #[error("holds no private key: it must have a part `BEGIN PRIVATE KEY`")]
    NoKey,
    /// A key under a pass phrase.
    #[error("is encrypted; decrypt it with `openssl pkey -in FILE -out NEWFILE`")]
    EncryptedKey,
    /// A certificate that does not parse, or a kind of key that is not known.
    #[error("is not usable: {0}")]
    Unusable(String),
    /// The key of another certificate.
    #[error(
        "is not the key of the first certificate in {}; the server's own certificate comes first",
        .0.display()
    )]
    KeyMismatch(PathBuf),
    /// Client certificates are asked for and nothing says which are good.
    #[error("client_auth asks for client certificates: name who signs them in client_ca_file")]
    NoAuthority,
    /// Revocation lists without an authority whose certificates they could revoke.
    #[error("is of no use without client_ca_file, which names the authorities of clients")]
    NoUse,
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "; let the user that inrush runs as read it",
        io::ErrorKind::NotFound => "; check the path, a relative one starts where inrush does",
        _ => "",
    }
}

/// HTTP/2, as clients ask for it (RFC 9113 section 3.2).
pub(crate) const HTTP2: &[u8] = b"h2";

/// Protocols within TLS that a listener has, the best first (ALPN, RFC 7301).
pub type AlpnProtocols = &'static [&'static [u8]];

/// Those of a listener that knows its protocol: whatever clients ask for, they get it.
pub const ONE_PROTOCOL: AlpnProtocols = &[];

/// Those of a listener of HTTP. Who asks for none of them is turned away; who asks for nothing
/// gets HTTP/1.
pub const HTTP_PROTOCOLS: AlpnProtocols = &[HTTP2, b"http/1.1", b"http/1.0"];

/// The TLS of one listener.
#[derive(Debug)]
pub struct ServerTls {
    options: TlsServerOptions,
    protocols: AlpnProtocols,
    /// Fingerprint of the files at the last attempt, good or bad. Held all through a refresh, so
    /// that of two the one that read last also swaps last.
    attempted: Mutex<u64>,
    permitted: PeerAllowlist,
    /// Held only to clone or to swap, never while a file is read.
    current: RwLock<LoadedTls>,
}

#[derive(Clone, Debug)]
struct LoadedTls {
    config: Arc<ServerConfig>,
    not_after: i64,
    /// The dates of the lists of revoked certificates.
    lists: Vec<RevocationList>,
}

/// Result of a check of the files.
#[derive(Debug)]
pub enum Refresh {
    /// They are as they were at the last look.
    Unchanged,
    /// They changed, and new sessions use them.
    Reloaded {
        /// Seconds since 1970: when the new certificate expires.
        not_after: i64,
    },
    /// They changed for the worse: the last good ones stay in use. Said once a change.
    Kept(TlsError),
}

impl ServerTls {
    /// Loads and checks what `options` name.
    ///
    /// # Errors
    /// A file cannot be read, is not what it should be, or does not belong to the other.
    pub fn load(options: &TlsServerOptions) -> Result<Self, TlsError> {
        Self::load_for(options, ONE_PROTOCOL)
    }

    /// [`Self::load`] for a listener with these protocols.
    ///
    /// # Errors
    /// As there.
    pub fn load_for(
        options: &TlsServerOptions,
        protocols: AlpnProtocols,
    ) -> Result<Self, TlsError> {
        let files = TlsFiles::read(options);
        let fingerprint = files.fingerprint();
        let loaded = build(options, files, protocols)?;
        loaded.warn_of_dates(options);
        Ok(Self {
            options: options.clone(),
            protocols,
            permitted: PeerAllowlist::new(options.permitted_peers.as_ref()),
            attempted: Mutex::new(fingerprint),
            current: RwLock::new(loaded),
        })
    }

    /// Configuration for the next session.
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(
            &self
                .current
                .read()
                .unwrap_or_else(PoisonError::into_inner)
                .config,
        )
    }

    /// The name of a session's client, whose certificate was verified.
    pub(crate) fn client(&self, certificate: &CertificateDer<'_>) -> Option<Arc<str>> {
        self.permitted.name(certificate).map(Into::into)
    }

    /// Seconds since 1970: when the certificate in use expires.
    pub fn not_after(&self) -> i64 {
        self.current
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .not_after
    }

    /// Looks whether the files changed and, if they are good, uses them from the next session on.
    /// To be called every few seconds, from a thread that may wait for a disk.
    ///
    /// It reads them each time, a few KiB: their times and sizes say nothing of a second change
    /// within the clock tick of the file system, nor of a symbolic link moved further up.
    pub fn refresh(&self) -> Refresh {
        let mut attempted = self
            .attempted
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let files = TlsFiles::read(&self.options);
        let fingerprint = files.fingerprint();
        if std::mem::replace(&mut *attempted, fingerprint) == fingerprint {
            return Refresh::Unchanged;
        }
        match build(&self.options, files, self.protocols) {
            Ok(loaded) => {
                loaded.warn_of_dates(&self.options);
                let not_after = loaded.not_after;
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = loaded;
                Refresh::Reloaded { not_after }
            }
            Err(error) => Refresh::Kept(error),
        }
    }
}

impl LoadedTls {
    /// A certificate out of date is used all the same: some senders do not look, and to turn all
    /// away would lose the events of those that do not.
    fn warn_of_dates(&self, options: &TlsServerOptions) {
        let now = now_s();
        if self.not_after < now {
            tracing::warn!(
                file = %options.cert_file.display(),
                "the certificate has expired: senders that check it will not connect"
            );
        }
        for list in self.lists.iter().filter(|list| list.next_update < now) {
            tracing::warn!(
                issuer = list.issuer,
                "a revocation list has expired: clients of this authority are turned away"
            );
        }
    }
}

/// Seconds since 1970, now.
fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    })
}

/// The contents of the files, or why they are not to be had.
struct TlsFiles {
    cert: Result<Vec<u8>, TlsError>,
    key: Result<Vec<u8>, TlsError>,
    client_ca: Option<Result<Vec<u8>, TlsError>>,
    lists: Vec<Result<Vec<u8>, TlsError>>,
}

impl TlsFiles {
    fn read(options: &TlsServerOptions) -> Self {
        let asks = options.client_auth() != ClientAuth::None;
        let client_ca = options.client_ca_file.as_deref();
        let lists = options.crl_files.iter().filter(|_| asks);
        Self {
            cert: read("cert_file", &options.cert_file, FILE_BYTES_MAX),
            key: read("key_file", &options.key_file, FILE_BYTES_MAX),
            client_ca: client_ca
                .filter(|_| asks)
                .map(|path| read("client_ca_file", path, FILE_BYTES_MAX)),
            lists: lists
                .map(|path| read("crl_files", path, CRL_BYTES_MAX))
                .collect(),
        }
    }

    /// Tells contents apart, and one reason for having none from another; nothing of the key can
    /// be had from it.
    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let own = [Some(&self.cert), Some(&self.key), self.client_ca.as_ref()];
        for file in own.into_iter().chain(self.lists.iter().map(Some)) {
            file.map(|f| f.as_ref().map_err(ToString::to_string))
                .hash(&mut hasher);
        }
        hasher.finish()
    }
}

fn read(option: &'static str, path: &Path, bytes_max: u64) -> Result<Vec<u8>, TlsError> {
    let fail = |problem| TlsError {
        option,
        path: path.to_owned(),
        problem,
    };
    inrush_files::read(path, bytes_max).map_err(|source| {
        fail(match source.kind() {
            io::ErrorKind::InvalidInput => TlsProblem::NotAFile,
            io::ErrorKind::FileTooLarge => TlsProblem::TooLarge(bytes_max),
            _ => TlsProblem::Unreadable { source },
        })
    })
}

fn build(
    options: &TlsServerOptions,
    files: TlsFiles,
    protocols: AlpnProtocols,
) -> Result<LoadedTls, TlsError> {
    let at_cert = |problem| TlsError {
        option: "cert_file",
        path: options.cert_file.clone(),
        problem,
    };
    let at_key = |problem| TlsError {
        option: "key_file",
        path: options.key_file.clone(),
        problem,
    };
    let chain = certificates(&files.cert?).map_err(at_cert)?;
    let not_after = expiry(&chain).map_err(at_cert)?;
    let key = private_key(&files.key?).map_err(at_key)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let (lists, encoded) = revocation_lists(options, files.lists)?;
    let verifier = verifier(options, files.client_ca, encoded, &provider)?;
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| at_cert(TlsProblem::Unusable(e.to_string())))?;
    let builder = match verifier {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder
        .with_single_cert(chain, key)
        .map_err(|error| match error {
            rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                at_key(TlsProblem::KeyMismatch(options.cert_file.clone()))
            }
            rustls::Error::InvalidCertificate(why) => {
                at_cert(TlsProblem::Unusable(why.to_string()))
            }
            other => at_key(TlsProblem::Unusable(other.to_string())),
        })?;
    // A syslog sender only writes. Tickets it has not read when it closes turn its close into a
    // reset, which throws away what it wrote last; so TLS 1.3 is not resumed. TLS 1.2 is: it
    // carries its ticket within the handshake.
    config.send_tls13_tickets = 0;
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Ok(LoadedTls {
        config: Arc::new(config),
        not_after,
        lists,
    })
}

fn verifier(
    options: &TlsServerOptions,
    client_ca: Option<Result<Vec<u8>, TlsError>>,
    lists: Vec<CertificateRevocationListDer<'static>>,
    provider: &Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsError> {
    let at = |option, path: Option<&PathBuf>, problem| TlsError {
        option,
        path: path.cloned().unwrap_or_default(),
        problem,
    };
    let (auth, ca) = (options.client_auth(), options.client_ca_file.as_ref());
    let authorities = match (auth, client_ca) {
        (ClientAuth::None, _) => return Ok(None),
        (_, None) if !options.names_fingerprints() => {
            return Err(at("client_ca_file", ca, TlsProblem::NoAuthority));
        }
        (_, None) if !options.crl_files.is_empty() => {
            let first = options.crl_files.first();
            return Err(at("crl_files", first, TlsProblem::NoUse));
        }
        (_, None) => None,
        (_, Some(read)) => {
            let verifier = authorities(&read?, lists, auth, provider);
            Some(verifier.map_err(|problem| at("client_ca_file", ca, problem))?)
        }
    };
    Ok(match (&options.permitted_peers, authorities) {
        (Some(peers), authorities) => {
            let optional = auth == ClientAuth::Optional;
            let algorithms = provider.signature_verification_algorithms;
            Some(PermittedClients::new(
                authorities,
                peers,
                optional,
                algorithms,
            ))
        }
        (None, authorities) => authorities,
    })
}

/// Verifies clients by the authorities of a PEM file and by revocation lists, if there are any.
fn authorities(
    text: &[u8],
    lists: Vec<CertificateRevocationListDer<'static>>,
    auth: ClientAuth,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsProblem> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(text)? {
        roots
            .add(certificate)
            .map_err(|e| TlsProblem::Unusable(e.to_string()))?;
    }
    let builder =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    let builder = match auth {
        ClientAuth::Optional => builder.allow_unauthenticated(),
        ClientAuth::Required | ClientAuth::None => builder,
    };
    builder
        .with_crls(lists)
        .enforce_revocation_expiration()
        .build()
        .map_err(|e| TlsProblem::Unusable(e.to_string()))
}

/// The authority of a list of revoked certificates, and its dates.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RevocationList {
    /// The authority, as in RFC 4514.
    pub issuer: String,
    /// Seconds since 1970: when it was made.
    pub this_update: i64,
    /// Seconds since 1970: when it expires.
    pub next_update: i64,
}

type ParsedCrls = (
    Vec<RevocationList>,
    Vec<CertificateRevocationListDer<'static>>,
);

fn revocation_lists(
    options: &TlsServerOptions,
    files: Vec<Result<Vec<u8>, TlsError>>,
) -> Result<ParsedCrls, TlsError> {
    let (mut lists, mut encoded) = (Vec::new(), Vec::new());
    for (path, file) in options.crl_files.iter().zip(files) {
        let fail = |problem| TlsError {
            option: "crl_files",
            path: path.clone(),
            problem,
        };
        for der in encoded_lists(&file?).map_err(fail)? {
            lists.push(list(&der).map_err(fail)?);
            encoded.push(der);
        }
    }
    Ok((lists, encoded))
}

/// All revocation lists of a file in PEM, or the one in DER.
fn encoded_lists(text: &[u8]) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsProblem> {
    if is_der(text) {
        return Ok(vec![text.to_vec().into()]);
    }
    let found: Vec<_> = CertificateRevocationListDer::pem_slice_iter(text)
        .collect::<Result<_, _>>()
        .map_err(TlsProblem::Pem)?;
    match found.is_empty() {
        false => Ok(found),
        true => Err(TlsProblem::NoRevocationList),
    }
}

fn list(der: &[u8]) -> Result<RevocationList, TlsProblem> {
    let unusable = |why: &dyn std::fmt::Display| TlsProblem::Unusable(why.to_string());
    // What the verifier would refuse later, without the name of the file.
    OwnedCertRevocationList::from_der(der).map_err(|error| unusable(&error))?;
    let list = <CertificateList>::from_der(der).map_err(|error| unusable(&error))?;
    let next = list.tbs_cert_list.next_update;
    let next = next.ok_or_else(|| unusable(&"it does not say until when it is good"))?;
    Ok(RevocationList {
        issuer: list.tbs_cert_list.issuer.to_string(),
        this_update: seconds(list.tbs_cert_list.this_update),
        next_update: seconds(next),
    })
}

/// The revocation lists of a file, at least one, in the file's order.
///
/// # Errors
/// The file cannot be read or holds something else.
pub fn lists(path: &Path) -> Result<Vec<RevocationList>, TlsError> {
    let text = read("crl_files", path, CRL_BYTES_MAX)?;
    let found = encoded_lists(&text).and_then(|all| all.iter().map(|der| list(der)).collect());
    found.map_err(|problem| TlsError {
        option: "crl_files",
        path: path.to_owned(),
        problem,
    })
}

fn seconds(time: Time) -> i64 {
    i64::try_from(time.to_unix_duration().as_secs()).unwrap_or(i64::MAX)
}

/// All certificates of a PEM file, at least one.
fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsProblem> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(text)
        .collect::<Result<_, _>>()
        .map_err(TlsProblem::Pem)?;
    match found.is_empty() {
        false => Ok(found),
        true if is_der(text) => Err(TlsProblem::Der),
        true => Err(TlsProblem::NoCertificate),
    }
}

/// The first private key of a PEM file.
fn private_key(text: &[u8]) -> Result<PrivateKeyDer<'static>, TlsProblem> {
    // PKCS#8 says so in its label, the older formats in a header below it.
    let says = |mark: &[u8]| text.windows(mark.len()).any(|w| w == mark);
    if says(b"BEGIN ENCRYPTED PRIVATE KEY") || says(b"Proc-Type: 4,ENCRYPTED") {
        return Err(TlsProblem::EncryptedKey);
    }
    PrivateKeyDer::from_pem_slice(text).map_err(|error| match error {
        pem::Error::NoItemsFound if is_der(text) => TlsProblem::Der,
        pem::Error::NoItemsFound => TlsProblem::NoKey,
        error => TlsProblem::Pem(error),
    })
}

/// True if it begins as a DER sequence with a length of two bytes, as keys and certificates do.
fn is_der(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x30, 0x82])
}

/// Seconds since 1970: when the first certificate of the chain expires. The others may well be
/// older: chains carry cross-signatures that no one needs any more.
fn expiry(chain: &[CertificateDer<'_>]) -> Result<i64, TlsProblem> {
    let first = chain.first().ok_or(TlsProblem::NoCertificate)?;
    Ok(Validity::of(first)?.not_after)
}

/// From when to when a certificate is good, and whose it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Validity {
    /// Its subject, as in RFC 4514.
    pub subject: String,
    /// Seconds since 1970: from when on it is good.
    pub not_before: i64,
    /// Seconds since 1970: when it expires.
    pub not_after: i64,
}

impl Validity {
    /// Of one certificate in DER.
    ///
    /// # Errors
    /// It is no certificate.
    pub fn of(der: &[u8]) -> Result<Self, TlsProblem> {
        let certificate =
            Certificate::from_der(der).map_err(|e| TlsProblem::Unusable(e.to_string()))?;
        let all = certificate.tbs_certificate();
        Ok(Self {
            subject: all.subject().to_string(),
            not_before: seconds(all.validity().not_before),
            not_after: seconds(all.validity().not_after),
        })
    }
}

/// The certificates of the PEM file that `option` names, at least one, in the file's order.
///
/// # Errors
/// The file cannot be read or holds something else.
pub fn validities(option: &'static str, path: &Path) -> Result<Vec<Validity>, TlsError> {
    let text = read(option, path, FILE_BYTES_MAX)?;
    let found = certificates(&text).and_then(|all| all.iter().map(|c| Validity::of(c)).collect());
    found.map_err(|problem| TlsError {
        option,
        path: path.to_owned(),
        problem,
    })
}
