//! Socket of a connection: the kernel's, or in a simulation one in memory.

use std::io::{self, Read, Write};
use std::net::Shutdown;

use mio::event::Source;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

#[cfg(feature = "simulation")]
use crate::virtual_socket::VirtualSocket;

/// Socket of a connection.
pub(crate) enum PeerSocket {
    Tcp(TcpStream),
    #[cfg(feature = "simulation")]
    Virtual(VirtualSocket),
}

impl PeerSocket {
    /// The first bytes, which stay unread.
    pub(crate) fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.peek(buffer),
            #[cfg(feature = "simulation")]
            Self::Virtual(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Says that we write no more.
    pub(crate) fn shut_down(&self) {
        match self {
            // That the peer is gone changes nothing.
            Self::Tcp(socket) => drop(socket.shutdown(Shutdown::Write)),
            #[cfg(feature = "simulation")]
            Self::Virtual(socket) => socket.shut_down(),
        }
    }
}

impl Read for PeerSocket {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.read(space),
            #[cfg(feature = "simulation")]
            Self::Virtual(socket) => socket.read(space),
        }
    }
}

impl Write for PeerSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.write(bytes),
            #[cfg(feature = "simulation")]
            Self::Virtual(socket) => socket.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.flush(),
            #[cfg(feature = "simulation")]
            Self::Virtual(socket) => socket.flush(),
        }
    }
}

impl Source for PeerSocket {
    fn register(
        &mut self,
        registry: &Registry,
        token: Token,
        interests: Interest,
    ) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.register(registry, token, interests),
            #[cfg(feature = "simulation")]
            Self::Virtual(_) => Ok(()),
        }
    }

    fn reregister(
        &mut self,
        registry: &Registry,
        token: Token,
        interests: Interest,
    ) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.reregister(registry, token, interests),
            #[cfg(feature = "simulation")]
            Self::Virtual(_) => Ok(()),
        }
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.deregister(registry),
            #[cfg(feature = "simulation")]
            Self::Virtual(_) => Ok(()),
        }
    }
}
