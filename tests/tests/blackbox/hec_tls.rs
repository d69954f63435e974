//! Splunk HEC out over TLS: certificates as `openssl req -x509` makes them, and `http` for `https`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;

use inrush_tests::*;
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use rustls::crypto::ring;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use rustls_pki_types::PrivateKeyDer;

use crate::hec::{send, to_hec};

/// A certificate that says that it is an authority, for this name; its file is `NAME.pem`, its
/// key's `NAME.key.pem`.
pub(crate) fn self_signed(dir: &Path, name: &str) -> Arc<ServerConfig> {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = params.self_signed(&key).unwrap();
    std::fs::write(dir.join(format!("{name}.pem")), certificate.pem()).unwrap();
    std::fs::write(dir.join(format!("{name}.key.pem")), key.serialize_pem()).unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key);
    Arc::new(config.unwrap())
}

/// A collector that takes everything, until the test ends.
fn collector(config: Arc<ServerConfig>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming().map_while(Result::ok) {
            let config = Arc::clone(&config);
            std::thread::spawn(move || serve(socket, config));
        }
    });
    address
}

/// Answers one request after the other; `None` when the other side has gone.
fn serve(socket: TcpStream, config: Arc<ServerConfig>) -> Option<()> {
    let session = ServerConnection::new(config).ok()?;
    let mut stream = StreamOwned::new(session, socket);
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).ok()?;
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).ok()?.to_ascii_lowercase();
        let length = head.split("content-length: ").nth(1)?;
        let length = length.split("\r\n").next()?.parse().ok()?;
        std::io::copy(&mut (&mut stream).take(length), &mut std::io::sink()).ok()?;
        let body = r#"{"text":"Success","code":0}"#;
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(answer.as_bytes()).ok()?;
        stream.flush().ok()?;
    }
}

fn last_error(inrush: &Inrush) -> String {
    eventually("an error", || {
        let said = inrush.destination()["last_error"].clone();
        said.is_string().then(|| said.to_string()).or_else(|| {
            let text = said["text"].as_str()?;
            Some(text.to_owned())
        })
    })
}

#[test]
fn a_self_signed_certificate_is_trusted_by_itself_for_its_name_alone() {
    let dir = tempfile::tempdir().unwrap();
    let [right, wrong, other] = ["127.0.0.1", "elsewhere.test", "localhost"]
        .map(|name| (name, self_signed(dir.path(), name)));
    let ca = |name: &str| dir.path().join(format!("{name}.pem")).display().to_string();
    let start = |config: &Arc<ServerConfig>, file: &str| {
        let url = format!("https://{}", collector(Arc::clone(config)));
        let tls = format!("tls: {{ ca_file: \"{}\" }}", ca(file));
        let inrush = Inrush::start(&to_hec(&[url], &tls));
        send(&inrush, 0..10);
        inrush
    };
    start(&right.1, right.0).conserved(10);
    // It names another server; and it is not the one of the file.
    for (config, file, said) in [
        (&wrong.1, wrong.0, "not valid for name"),
        (&right.1, other.0, "give `tls.ca_file`"),
    ] {
        let inrush = start(config, file);
        let error = last_error(&inrush);
        assert!(error.contains(said), "{error}");
        assert_eq!(inrush.ledger().destinations["splunk"].delivered, 0);
    }
}

#[test]
fn http_for_https_and_the_reverse_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let tls = collector(self_signed(dir.path(), "127.0.0.1"));
    let plain = Hec::start();
    for (url, said) in [
        (
            format!("http://{tls}"),
            "TLS is spoken here: write https://",
        ),
        (
            format!("https://{}", plain.address()),
            "plain HTTP is spoken here: write http://",
        ),
    ] {
        let inrush = Inrush::start(&to_hec(&[url], "proxy: \"\""));
        send(&inrush, 0..10);
        let error = last_error(&inrush);
        assert!(error.contains(said), "{error}");
    }
}
