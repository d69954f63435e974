//! Dialling: resolve, connect, PROXY header, and the idle connections.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::args::LoadTarget;
use crate::error::{LoadError, connect_hint};
use crate::fault::Faults;

/// Connect timeout of one address.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// Descriptors for everything but connections: standard streams, files, resolver.
const DESCRIPTORS_SPARE: u64 = 64;

/// The addresses of a target, in the resolver's order; never empty.
///
/// # Errors
/// [`LoadError::Resolve`].
pub(crate) fn resolve(target: &LoadTarget) -> Result<Vec<SocketAddr>, LoadError> {
    let fail = |source| LoadError::Resolve {
        host: target.host.clone(),
        source,
    };
    let found: Vec<_> = (target.host.as_str(), target.port)
        .to_socket_addrs()
        .map_err(fail)?
        .collect();
    if found.is_empty() {
        return Err(fail(io::Error::new(
            ErrorKind::NotFound,
            "it has no address",
        )));
    }
    Ok(found)
}

/// Connects to the first address that answers, and sends the PROXY header if one is asked for.
///
/// # Errors
/// [`LoadError::Connect`] with what the last address said.
pub(crate) fn connect(
    addresses: &[SocketAddr],
    proxy_version: Option<u8>,
) -> Result<TcpStream, LoadError> {
    let mut last = None;
    for address in addresses {
        match dial(*address, proxy_version) {
            Ok(socket) => return Ok(socket),
            Err(source) => last = Some((address, source)),
        }
    }
    let (target, source) = match last {
        Some((address, source)) => (format!("tcp://{address}"), source),
        None => ("nowhere".to_owned(), ErrorKind::NotFound.into()),
    };
    Err(LoadError::Connect {
        target,
        hint: connect_hint(&source),
        source,
    })
}

fn dial(address: SocketAddr, proxy_version: Option<u8>) -> io::Result<TcpStream> {
    let mut socket = TcpStream::connect_timeout(&address, CONNECT_MAX)?;
    // Paced messages must not wait for each other.
    socket.set_nodelay(true)?;
    if let Some(version) = proxy_version {
        let header = proxy_header(version, socket.local_addr()?, socket.peer_addr()?);
        socket.write_all(&header)?;
    }
    Ok(socket)
}

/// A PROXY protocol header that names our own two addresses.
fn proxy_header(version: u8, from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    if version == 1 {
        let family = if from.is_ipv4() { "TCP4" } else { "TCP6" };
        let (from_ip, to_ip) = (from.ip(), to.ip());
        return format!(
            "PROXY {family} {from_ip} {to_ip} {} {}\r\n",
            from.port(),
            to.port()
        )
        .into_bytes();
    }
    let octets = |ip| match ip {
        IpAddr::V4(four) => four.octets().to_vec(),
        IpAddr::V6(six) => six.octets().to_vec(),
    };
    let addresses = [
        octets(from.ip()),
        octets(to.ip()),
        from.port().to_be_bytes().to_vec(),
        to.port().to_be_bytes().to_vec(),
    ]
    .concat();
    let family_stream = if from.is_ipv4() { 0x11 } else { 0x21 };
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21".to_vec();
    header.push(family_stream);
    header.extend((addresses.len() as u16).to_be_bytes());
    header.extend(addresses);
    header
}

/// Raises the soft limit of open files, as far as the hard one allows, to hold `connections`.
pub(crate) fn raise_descriptor_limit(connections: u64) {
    let want = connections.saturating_add(DESCRIPTORS_SPARE);
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < want
    {
        // If it is refused the connection that finds no descriptor says so, with the remedy.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, want.min(hard), hard);
    }
}

/// Counts the idle connections that the peer closed while they were held.
pub(crate) fn closed_while_idle(held: &[TcpStream], faults: &mut Faults) {
    for _ in held.iter().filter(|socket| is_closed(socket)) {
        faults.add("idle_closed", "the receiver closed idle connections");
    }
}

/// True if the peer of a non-blocking socket has closed; what it sent before (session tickets of
/// TLS) is dropped.
fn is_closed(mut socket: &TcpStream) -> bool {
    let mut scratch = [0; 4096];
    loop {
        match socket.read(&mut scratch) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn proxy_headers_are_as_the_specification_shows_them() {
        let (from, to) = (
            "10.0.0.1:56324".parse().unwrap(),
            "10.0.0.2:443".parse().unwrap(),
        );
        assert_eq!(
            proxy_header(1, from, to),
            b"PROXY TCP4 10.0.0.1 10.0.0.2 56324 443\r\n"
        );
        let two = proxy_header(2, from, to);
        assert_eq!(two[..16], *b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c");
        assert_eq!(
            two[16..],
            [10, 0, 0, 1, 10, 0, 0, 2, 0xdc, 0x04, 0x01, 0xbb]
        );
        let six = proxy_header(2, "[::1]:1".parse().unwrap(), "[::1]:2".parse().unwrap());
        assert_eq!((six[13], six.len()), (0x21, 16 + 36));
    }

    #[test]
    fn a_refused_connection_says_what_to_do() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let words = connect(&[address], None).unwrap_err().to_string();
        assert!(
            words.contains(&address.to_string()) && words.contains("ss -ltn"),
            "{words}"
        );
    }
}
