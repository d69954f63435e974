//! TLS over one TCP connection, non-blocking once the handshake is done.

use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use inrush_transport::any_server::AnyServer;
use inrush_transport::trusted_server::TrustedServer;
use rustls::crypto::ring;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};

use crate::args::{Args, LoadTarget};
use crate::error::LoadError;
use crate::message::TAPE_BYTES;

/// Timeout of a peer for one step of the handshake.
const HANDSHAKE_STEP_MAX: Duration = Duration::from_secs(10);

const HINT_TRUST: &str = "give the issuer's certificate with --ca, or --insecure on a test bench";
const HINT_PEER: &str = "check that the port speaks TLS, and whether it asks for --cert and --key";

/// Configuration and server name that all TLS connections of a run share.
pub(crate) struct TlsSetup {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl TlsSetup {
    /// Reads the certificates that `args` name.
    ///
    /// # Errors
    /// [`LoadError::File`] for what cannot be read, [`LoadError::Usage`] for a host that can be
    /// no name in a certificate, [`LoadError::Tls`] when the system trusts nobody.
    pub(crate) fn new(args: &Args) -> Result<Self, LoadError> {
        let name = ServerName::try_from(args.target.host.clone()).map_err(|_| {
            LoadError::Usage(format!("`{}` is not a server name", args.target.host))
        })?;
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(&args.target, &error, HINT_PEER))?;
        let builder = if args.insecure {
            builder
                .dangerous()
                .with_custom_certificate_verifier(AnyServer::new(provider))
        } else {
            let pinned = match &args.ca {
                Some(path) => certificates(path)?,
                None => Vec::new(),
            };
            let verifier = TrustedServer::new(roots(args)?, pinned, provider)
                .map_err(|error| failed(&args.target, &error, HINT_TRUST))?;
            builder
                .dangerous()
                .with_custom_certificate_verifier(verifier)
        };
        let config = match (&args.cert, &args.key) {
            (Some(cert), Some(key)) => {
                let key_der =
                    PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|e| bad_pem(key, &e))?;
                builder
                    .with_client_auth_cert(certificates(cert)?, key_der)
                    .map_err(|error| LoadError::File {
                        path: cert.clone(),
                        what: error.to_string(),
                    })?
            }
            _ => builder.with_no_client_auth(),
        };
        Ok(Self {
            config: Arc::new(config),
            name,
        })
    }

    /// Shakes hands over a connected blocking socket, and makes it non-blocking.
    ///
    /// # Errors
    /// [`LoadError::Tls`].
    pub(crate) fn link(
        &self,
        mut socket: TcpStream,
        target: &LoadTarget,
    ) -> Result<TlsLink, LoadError> {
        let mut session = ClientConnection::new(Arc::clone(&self.config), self.name.clone())
            .map_err(|error| failed(target, &error, HINT_PEER))?;
        session.set_buffer_limit(Some(TAPE_BYTES));
        let mut shake = || -> io::Result<()> {
            socket.set_read_timeout(Some(HANDSHAKE_STEP_MAX))?;
            while session.is_handshaking() {
                session.complete_io(&mut socket)?;
            }
            socket.set_read_timeout(None)?;
            socket.set_nonblocking(true)
        };
        shake().map_err(|error| {
            let trust = matches!(
                error
                    .get_ref()
                    .and_then(|inner| inner.downcast_ref::<rustls::Error>()),
                Some(rustls::Error::InvalidCertificate(_))
            );
            failed(target, &error, if trust { HINT_TRUST } else { HINT_PEER })
        })?;
        Ok(TlsLink { socket, session })
    }
}

fn failed(target: &LoadTarget, error: &dyn std::error::Error, hint: &'static str) -> LoadError {
    LoadError::Tls {
        target: target.authority(),
        what: error.to_string(),
        hint,
    }
}

fn bad_pem(path: &Path, error: &rustls_pki_types::pem::Error) -> LoadError {
    LoadError::File {
        path: path.to_owned(),
        what: error.to_string(),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, LoadError> {
    let read = inrush_files::read(path, inrush_files::limits::CERTIFICATES_BYTES_MAX);
    read.map_err(|error| LoadError::File {
        path: path.to_owned(),
        what: error.to_string(),
    })
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, LoadError> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(&read(path)?)
        .collect::<Result<_, _>>()
        .map_err(|error| bad_pem(path, &error))?;
    if found.is_empty() {
        return Err(LoadError::File {
            path: path.to_owned(),
            what: "holds no certificate in PEM form".to_owned(),
        });
    }
    Ok(found)
}

fn roots(args: &Args) -> Result<RootCertStore, LoadError> {
    let mut store = RootCertStore::empty();
    match &args.ca {
        Some(path) => {
            for certificate in certificates(path)? {
                store.add(certificate).map_err(|error| LoadError::File {
                    path: path.clone(),
                    what: error.to_string(),
                })?;
            }
        }
        None => {
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if store.is_empty() {
        let nobody = io::Error::other("this system trusts no certificate");
        return Err(failed(&args.target, &nobody, HINT_TRUST));
    }
    Ok(store)
}

/// An established session.
pub(crate) struct TlsLink {
    socket: TcpStream,
    session: ClientConnection,
}

impl TlsLink {
    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    pub(crate) fn into_socket(self) -> TcpStream {
        self.socket
    }

    /// Takes plain text as long as none waits encrypted; the bytes taken, and whether the kernel
    /// has no room for more.
    pub(crate) fn send(&mut self, first: &[u8], second: &[u8]) -> io::Result<(usize, bool)> {
        self.write_records()?;
        let pieces = [IoSlice::new(first), IoSlice::new(second)];
        let taken = self.session.writer().write_vectored(&pieces)?;
        match self.write_records() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            result => Ok((taken, result.is_err())),
        }
    }

    /// True if the kernel has taken every record.
    pub(crate) fn flushed(&self) -> bool {
        !self.session.wants_write()
    }

    /// Decrypts what has come; 0 at the end of the stream.
    pub(crate) fn receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The socket ended without close_notify: an end all the same.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                outcome => return outcome,
            }
            self.session.read_tls(&mut self.socket)?;
            self.session
                .process_new_packets()
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        }
    }

    /// Message of the peer as it hung up, if it did say something.
    pub(crate) fn alert(&mut self) -> Option<String> {
        self.session.read_tls(&mut self.socket).ok()?;
        self.session
            .process_new_packets()
            .err()
            .map(|error| format!("the peer said: {error}"))
    }

    /// Sends close_notify, as far as the kernel takes it at once.
    pub(crate) fn say_goodbye(&mut self) {
        self.session.send_close_notify();
        // The peer may be gone; then there is nobody to tell.
        let _ = self.write_records();
    }

    fn write_records(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            self.session.write_tls(&mut self.socket)?;
        }
        Ok(())
    }
}
