//! A certificate authority for one test, and a TLS client.

use std::fs;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer,
    KeyIdMethod, KeyPair, RevokedCertParams, SerialNumber,
};
use rustls::crypto::ring;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};

use crate::DEADLINE;

/// Midnight UTC, so many days from today.
macro_rules! day {
    ($days:expr) => {{
        let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC);
        let date = today.checked_add(jiff::Span::new().days($days)).unwrap();
        let (month, day) = (date.month() as u8, date.day() as u8);
        rcgen::date_time_ymd(date.year().into(), month, day)
    }};
}

/// A TLS connection.
pub type TlsStream = StreamOwned<ClientConnection, TcpStream>;

/// An authority that signs certificates for `localhost` and `127.0.0.1` into one folder.
pub struct Pki {
    dir: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Pki {
    /// A new authority; its certificate is `ca.pem` in `dir`.
    pub fn new(dir: &Path) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, "inrush tests");
        fs::write(dir.join("ca.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        Self {
            dir: dir.to_owned(),
            issuer: Issuer::new(params, key),
        }
    }

    /// The path of a file in the folder.
    pub fn path(&self, file: &str) -> PathBuf {
        self.dir.join(file)
    }

    /// Signs a certificate for `name` into `name.pem` and `name.key`, over what is there; both
    /// files are moved into place whole.
    pub fn issue(&self, name: &str) -> CertificateDer<'static> {
        self.issue_with(name, |_| {})
    }

    /// [`Self::issue`] for these days from today on, counted from midnight UTC.
    pub fn issue_for(&self, name: &str, days: Range<i64>) {
        self.issue_with(name, |params| {
            params.not_before = day!(days.start);
            params.not_after = day!(days.end);
        });
    }

    /// [`Self::issue`] for a client with these DNS names in `subjectAltName`, and `name` as its
    /// common name.
    pub fn issue_to(&self, name: &str, dns: &[&str], serial: u64) -> CertificateDer<'static> {
        self.issue_with(name, |params| {
            let names: Vec<String> = dns.iter().map(|name| (*name).to_owned()).collect();
            params.subject_alt_names = CertificateParams::new(names).unwrap().subject_alt_names;
            params.serial_number = Some(SerialNumber::from(serial));
        })
    }

    /// Writes `crl.pem`, the list of revoked certificates with these serial numbers, which is good
    /// for these days from today on.
    pub fn revoke(&self, serials: &[u64], days: Range<i64>) {
        let revoked = |serial: &u64| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: day!(days.start),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: day!(days.start),
            next_update: day!(days.end),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&self.issuer).unwrap();
        let new = self.path("crl.pem.new");
        fs::write(&new, list.pem().unwrap()).unwrap();
        fs::rename(new, self.path("crl.pem")).unwrap();
    }

    fn issue_with(
        &self,
        name: &str,
        change: impl FnOnce(&mut CertificateParams),
    ) -> CertificateDer<'static> {
        let key = KeyPair::generate().unwrap();
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        change(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        for (extension, text) in [("key", key.serialize_pem()), ("pem", certificate.pem())] {
            let new = self.path(&format!("{name}.{extension}.new"));
            fs::write(&new, text).unwrap();
            fs::rename(new, self.path(&format!("{name}.{extension}"))).unwrap();
        }
        certificate.der().clone()
    }

    /// A server configuration that shows the certificate `name`.
    pub fn server(&self, name: &str) -> Arc<ServerConfig> {
        let cert = CertificateDer::from_pem_file(self.path(&format!("{name}.pem"))).unwrap();
        let key = PrivateKeyDer::from_pem_file(self.path(&format!("{name}.key"))).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert], key);
        Arc::new(config.unwrap())
    }

    /// A client configuration that trusts this authority and shows the certificate `name`.
    pub fn client(&self, name: Option<&str>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(self.path("ca.pem")).unwrap())
            .unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        Arc::new(match name {
            None => builder.with_no_client_auth(),
            Some(name) => {
                let cert = CertificateDer::from_pem_file(self.path(&format!("{name}.pem")));
                let key = PrivateKeyDer::from_pem_file(self.path(&format!("{name}.key")));
                builder
                    .with_client_auth_cert(vec![cert.unwrap()], key.unwrap())
                    .unwrap()
            }
        })
    }
}

/// Connects and completes the handshake, as far as the client sees it.
///
/// # Errors
/// The handshake failed.
pub fn tls_connect(to: SocketAddr, config: &Arc<ClientConfig>) -> io::Result<TlsStream> {
    let socket = TcpStream::connect(to)?;
    socket.set_read_timeout(Some(DEADLINE))?;
    let name = ServerName::try_from("localhost").unwrap();
    let client = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
    let mut stream = StreamOwned::new(client, socket);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock)?;
    }
    stream.flush()?;
    Ok(stream)
}
