//! Dialer of every connection of a run, at its start and again after a loss.

use std::net::SocketAddr;

use crate::args::{Args, LoadTarget};
use crate::error::LoadError;
use crate::plan::LoadPlan;
use crate::stream::StreamLink;
use crate::tcp;
use crate::tls::TlsSetup;

/// Makes connections to one target.
pub(crate) struct Dialer {
    target: LoadTarget,
    addresses: Vec<SocketAddr>,
    proxy_version: Option<u8>,
    tls: Option<TlsSetup>,
}

impl Dialer {
    /// Resolves the target and reads the certificates.
    ///
    /// # Errors
    /// [`LoadError::Resolve`], and those of [`TlsSetup::new`].
    pub(crate) fn new(args: &Args, plan: &LoadPlan) -> Result<Self, LoadError> {
        let tls = plan.transport.is_tls().then(|| TlsSetup::new(args));
        Ok(Self {
            target: args.target.clone(),
            addresses: tcp::resolve(&args.target)?,
            proxy_version: args.proxy_protocol,
            tls: tls.transpose()?,
        })
    }

    /// The first address, for datagrams.
    pub(crate) fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// `HOST:PORT` of the target.
    pub(crate) fn authority(&self) -> String {
        self.target.authority()
    }

    /// A connection, past its TLS handshake and non-blocking.
    ///
    /// # Errors
    /// [`LoadError::Connect`] and [`LoadError::Tls`].
    pub(crate) fn stream(&self) -> Result<StreamLink, LoadError> {
        let socket = tcp::connect(&self.addresses, self.proxy_version)?;
        if let Some(tls) = &self.tls {
            return Ok(StreamLink::Tls(Box::new(tls.link(socket, &self.target)?)));
        }
        socket
            .set_nonblocking(true)
            .map_err(|source| LoadError::Connect {
                target: self.target.authority(),
                source,
                hint: "the kernel refused to make the socket non-blocking",
            })?;
        Ok(StreamLink::Plain(socket))
    }
}
