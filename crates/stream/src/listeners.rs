//! Open stream listeners of one source.

use std::io;
use std::sync::Arc;

use inrush_transport::config::{ListenAddr, StreamOptions};
use inrush_transport::listen;
use socket2::Socket;

use super::acceptor::StreamListener;
use super::runtime::StreamRuntime;
use super::source::StreamSource;

/// An open address: as it is configured, and as it is bound.
struct OpenListener {
    configured: ListenAddr,
    bound: ListenAddr,
}

/// Open stream listeners of one source.
#[derive(Default)]
pub struct OpenListeners(Vec<OpenListener>);

impl OpenListeners {
    /// Opens the addresses that are not open, with the socket that `inherited` has for one of them
    /// if there is one. Returns what could not be opened, in words.
    pub fn open(
        &mut self,
        addresses: &[ListenAddr],
        options: &StreamOptions,
        runtime: &StreamRuntime,
        source: &Arc<StreamSource>,
        mut inherited: impl FnMut(&ListenAddr) -> Option<Socket>,
    ) -> Vec<String> {
        let mut problems = Vec::new();
        for address in addresses {
            if self.0.iter().any(|one| one.configured == *address) {
                continue;
            }
            let passed = inherited(address);
            match listen_on(*address, options, runtime, source, passed) {
                Ok(bound) => self.0.push(OpenListener {
                    configured: *address,
                    bound,
                }),
                Err(problem) => problems.push(format!("source {}: {problem}", source.name())),
            }
        }
        problems
    }

    /// Closes the addresses that are not among these.
    pub fn keep(&mut self, addresses: &[ListenAddr], runtime: &StreamRuntime) {
        let gone = |one: &mut OpenListener| !addresses.contains(&one.configured);
        for one in self.0.extract_if(.., gone) {
            runtime.close(one.configured);
        }
    }

    /// The address that is bound for a configured one, if it is open.
    pub fn bound(&self, configured: &ListenAddr) -> Option<ListenAddr> {
        let found = self.0.iter().find(|one| one.configured == *configured);
        found.map(|one| one.bound)
    }
}

/// Listens on an address, which systemd may have opened already. Returns the one that is bound.
fn listen_on(
    address: ListenAddr,
    options: &StreamOptions,
    runtime: &StreamRuntime,
    source: &Arc<StreamSource>,
    passed: Option<Socket>,
) -> Result<ListenAddr, String> {
    let listener = match passed {
        Some(socket) => std::net::TcpListener::from(socket),
        None => listen::tcp_listener(address).map_err(|error| error.to_string())?,
    };
    let set_up = || -> io::Result<_> {
        listen::set_keepalive(&listener, options.keepalive.0)?;
        listener.local_addr()
    };
    let addr = set_up().map_err(|error| format!("{address}: {error}"))?;
    runtime.listen(StreamListener {
        configured: address,
        listener: mio::net::TcpListener::from_std(listener),
        source: Arc::clone(source),
    });
    Ok(ListenAddr {
        protocol: address.protocol,
        addr,
    })
}
