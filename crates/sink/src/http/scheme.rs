//! Detection of the other protocol at an address: `http` for `https` and the other way round are
//! the commonest mistakes with HEC, and TLS libraries have no words for them.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use inrush_transport::any_server::AnyServer;
use reqwest::Url;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::ErrorReason;

/// Time that the trial may take.
const TRIAL: Duration = Duration::from_secs(2);

/// Of a plain request, which asks for nothing.
const PLAIN: &[u8] = b"HEAD / HTTP/1.0\r\n\r\n";

/// TLS records of a handshake and of an alert (RFC 8446 section 5.1).
const RECORDS: [u8; 2] = [22, 21];

/// True if a request to this address may have failed in this way because of it.
pub(crate) fn may_be_other(url: &Url, reason: ErrorReason) -> bool {
    use ErrorReason::{BadAnswer, ConnectFailed, Io, Tls};
    match url.scheme() {
        "https" => matches!(reason, Tls | Io | ConnectFailed),
        _ => matches!(reason, BadAnswer | Io),
    }
}

/// Advice on the scheme to write instead, if the other protocol is spoken.
pub(crate) async fn other(url: Url) -> Option<&'static str> {
    let https = url.scheme() == "https";
    let trial = async {
        match https {
            true => answer(&url, PLAIN).await,
            false => answer(&url, &client_hello()?).await,
        }
    };
    let first = tokio::time::timeout(TRIAL, trial).await.ok()?.ok()?;
    match https {
        true => first
            .starts_with(b"HTTP/")
            .then_some("plain HTTP is spoken here: write http:// in place of https://"),
        false => (RECORDS.contains(first.first()?) && first.get(1) == Some(&3))
            .then_some("TLS is spoken here: write https:// in place of http://"),
    }
}

/// The first bytes that come back.
async fn answer(url: &Url, said: &[u8]) -> io::Result<Vec<u8>> {
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = url.port_or_known_default().unwrap_or(0);
    let mut socket = TcpStream::connect((host, port)).await?;
    socket.write_all(said).await?;
    let mut first = Vec::new();
    while first.len() < PLAIN.len().min(5) {
        if socket.read_buf(&mut first).await? == 0 {
            break;
        }
    }
    Ok(first)
}

/// The first message of a TLS client.
fn client_hello() -> io::Result<Vec<u8>> {
    let provider = Arc::new(ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(AnyServer::new(provider))
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
    let client = rustls::ClientConnection::new(Arc::new(config), name);
    let mut bytes = Vec::new();
    let mut client = client.map_err(io::Error::other)?;
    client.write_tls(&mut bytes)?;
    Ok(bytes)
}
