//! Authorities, certificates, and a listener to try them on.
#![allow(dead_code, reason = "no test uses all of them")]

use std::io;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use inrush_event::Protocol;
use inrush_transport::config::{ProxyHeader, TlsServerOptions};
use inrush_transport::stream::{AcceptOptions, Connection};
use inrush_transport::tls::ServerTls;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConnection, StreamOwned};
use rustls::{SupportedProtocolVersion, crypto};
use tempfile::TempDir;

pub(crate) const NO_CERTIFICATE: Option<&Pair> = None;

/// Bounds how long a broken handshake hangs a test; nothing depends on its length.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A certificate and its key.
pub(crate) struct Pair {
    pub(crate) cert_pem: String,
    pub(crate) cert_der: Vec<u8>,
    pub(crate) key_pem: String,
}

/// Who signs certificates.
pub(crate) struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = params(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            pem,
            issuer: Issuer::new(params, key),
        }
    }

    pub(crate) fn pem(&self) -> String {
        self.pem.clone()
    }

    pub(crate) fn issue(&self, name: &str) -> Pair {
        self.issue_until(name, 2098)
    }

    pub(crate) fn issue_expired(&self, name: &str) -> Pair {
        self.issue_until(name, 2001)
    }

    /// Valid until the first of January of `year`.
    pub(crate) fn issue_until(&self, name: &str, year: i32) -> Pair {
        let key = KeyPair::generate().unwrap();
        let mut params = params(name);
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(year, 1, 1);
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        Pair {
            cert_pem: cert.pem(),
            cert_der: cert.der().to_vec(),
            key_pem: key.serialize_pem(),
        }
    }

    /// A client that trusts this authority, with a certificate of its own if given.
    pub(crate) fn client(
        &self,
        version: &'static SupportedProtocolVersion,
        own: Option<&Pair>,
    ) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap())
            .unwrap();
        let provider = Arc::new(crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots);
        match own {
            None => builder.with_no_client_auth(),
            Some(pair) => builder
                .with_client_auth_cert(
                    vec![pair.cert_der.clone().into()],
                    PrivateKeyDer::from_pem_slice(pair.key_pem.as_bytes()).unwrap(),
                )
                .unwrap(),
        }
    }
}

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// A listener, and a folder for its certificates.
pub(crate) struct Door {
    folder: TempDir,
    listener: TcpListener,
}

type Client = StreamOwned<ClientConnection, TcpStream>;
type Server = StreamOwned<ServerConnection, TcpStream>;

impl Door {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Self {
            folder: tempfile::tempdir().unwrap(),
            listener,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write_pair(&self, pair: &Pair) {
        std::fs::write(self.path("cert.pem"), &pair.cert_pem).unwrap();
        std::fs::write(self.path("key.pem"), &pair.key_pem).unwrap();
    }

    pub(crate) fn options(&self) -> TlsServerOptions {
        TlsServerOptions {
            cert_file: self.path("cert.pem"),
            key_file: self.path("key.pem"),
            client_ca_file: None,
            crl_files: Vec::new(),
            permitted_peers: None,
            client_auth: None,
        }
    }

    /// A client that has not said anything yet.
    pub(crate) fn client(&self, client: ClientConfig) -> Client {
        let stream = TcpStream::connect(self.listener.local_addr().unwrap()).unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let client = ClientConnection::new(Arc::new(client), name).unwrap();
        StreamOwned::new(client, stream)
    }

    /// The next connection, before its handshake.
    pub(crate) fn accept(&self, tls: &Arc<ServerTls>) -> Connection {
        let (socket, peer) = self.listener.accept().unwrap();
        socket.set_nonblocking(true).unwrap();
        let opening = AcceptOptions {
            protocol: Protocol::Tls,
            tls: Some(Arc::clone(tls)),
            proxy: ProxyHeader::Forbidden,
            deadline: Instant::now() + PATIENCE,
        };
        Connection::new(mio::net::TcpStream::from_std(socket), peer, opening).unwrap()
    }

    /// One handshake, and how it ended on either side.
    pub(crate) fn connect(
        &self,
        tls: &ServerTls,
        client: ClientConfig,
    ) -> (io::Result<Client>, io::Result<Server>) {
        let stream = TcpStream::connect(self.listener.local_addr().unwrap()).unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let client = ClientConnection::new(Arc::new(client), name).unwrap();
        let accepted = self.listener.accept().unwrap().0;
        let server = ServerConnection::new(tls.config()).unwrap();
        std::thread::scope(|scope| {
            let server = scope.spawn(|| shake(StreamOwned::new(server, accepted)));
            (
                shake(StreamOwned::new(client, stream)),
                server.join().unwrap(),
            )
        })
    }
}

/// Drives the handshake to its end on one side.
fn shake<C, D>(mut stream: StreamOwned<C, TcpStream>) -> io::Result<StreamOwned<C, TcpStream>>
where
    C: std::ops::DerefMut<Target = rustls::ConnectionCommon<D>>,
    D: rustls::SideData,
{
    stream.sock.set_read_timeout(Some(PATIENCE))?;
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock)?;
    }
    Ok(stream)
}
