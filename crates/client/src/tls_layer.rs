//! TLS towards a process whose certificate somebody else verifies: ureq itself takes authorities
//! only.

use std::fmt;
use std::io::{Read, Write};
use std::sync::Arc;

use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use ureq::Error;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport, TransportAdapter,
};

/// Puts TLS over every connection.
#[derive(Debug)]
pub(crate) struct TlsLayer(Arc<ClientConfig>);

impl TlsLayer {
    /// With this verifier of the server's certificate.
    ///
    /// # Errors
    /// The versions of TLS are not to be had.
    pub(crate) fn new(verifier: Arc<dyn ServerCertVerifier>) -> Result<Self, rustls::Error> {
        let provider = Arc::new(ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        Ok(Self(Arc::new(config)))
    }
}

impl<In: Transport> Connector<In> for TlsLayer {
    type Out = TlsLink;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<TlsLink>, Error> {
        let Some(transport) = chained else {
            return Ok(None);
        };
        let host = details.uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|_| Error::Tls("a host that can be in no certificate"))?;
        let mut session = ClientConnection::new(Arc::clone(&self.0), name)?;
        let clock = Arc::clone(&details.current_time);
        let mut socket = TransportAdapter::new(transport.boxed(), clock);
        socket.set_timeout(details.timeout);
        session.complete_io(&mut socket)?;
        let config = details.config;
        Ok(Some(TlsLink {
            buffers: LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size()),
            stream: StreamOwned::new(session, socket),
        }))
    }
}

/// A connection under TLS.
pub(crate) struct TlsLink {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
}

impl fmt::Debug for TlsLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsLink").finish_non_exhaustive()
    }
}

impl Transport for TlsLink {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.get_mut().set_timeout(timeout);
        self.stream.write_all(&self.buffers.output()[..amount])?;
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.get_mut().set_timeout(timeout);
        let bytes = self.stream.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(bytes);
        Ok(bytes > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.get_mut().get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}
