//! RFC 5425: certificates of both sides, and their rotation.

use std::fs;
use std::io::{Read, Write};

use inrush_tests::*;
use rustls_pki_types::CertificateDer;

use crate::to_file;

const FILES: &str = "cert_file: \"{dir}/server.pem\", key_file: \"{dir}/server.key\"";

fn start(tls: &str) -> (Inrush, Pki) {
    let dir = tempfile::tempdir().unwrap();
    let pki = Pki::new(dir.path());
    pki.issue("server");
    let yaml = to_file("tls://127.0.0.1:0", &format!("tls: {{ {FILES}{tls} }}"));
    (
        Inrush::with(
            &yaml,
            Options {
                dir: Some(dir),
                ..Options::default()
            },
        ),
        pki,
    )
}

fn send(stream: &mut TlsStream, n: usize) {
    writeln!(stream, "{}", numbered(n)).unwrap();
    stream.flush().unwrap();
}

/// Whether the server hangs up on us. Under TLS 1.3 a refused client learns of it only by reading.
fn refused(inrush: &Inrush, config: &std::sync::Arc<rustls::ClientConfig>) -> bool {
    match tls_connect(inrush.address("tls"), config) {
        Err(_) => true,
        Ok(mut stream) => {
            let _ = writeln!(stream, "{}", numbered(999)).and_then(|()| stream.flush());
            !matches!(stream.read(&mut [0; 1]), Ok(1..))
        }
    }
}

fn served(inrush: &Inrush, pki: &Pki) -> CertificateDer<'static> {
    let stream = tls_connect(inrush.address("tls"), &pki.client(None)).unwrap();
    stream.conn.peer_certificates().unwrap()[0]
        .clone()
        .into_owned()
}

#[test]
fn a_client_certificate_can_be_required() {
    let (inrush, pki) = start(", client_ca_file: \"{dir}/ca.pem\"");
    pki.issue("client");
    let mut good = tls_connect(inrush.address("tls"), &pki.client(Some("client"))).unwrap();
    send(&mut good, 1);
    inrush.conserved(1);

    assert!(
        refused(&inrush, &pki.client(None)),
        "a client without a certificate"
    );
    let elsewhere = tempfile::tempdir().unwrap();
    let stranger = Pki::new(elsewhere.path());
    stranger.issue("client");
    fs::copy(pki.path("ca.pem"), stranger.path("ca.pem")).unwrap();
    assert!(
        refused(&inrush, &stranger.client(Some("client"))),
        "another authority's client"
    );
    inrush.connection_errors("tls", 2);
    send(&mut good, 2);
    inrush.conserved(2);
}

#[test]
fn a_client_certificate_can_be_optional() {
    let (inrush, pki) = start(", client_ca_file: \"{dir}/ca.pem\", client_auth: optional");
    pki.issue("client");
    let connect = |name| tls_connect(inrush.address("tls"), &pki.client(name)).unwrap();
    send(&mut connect(None), 1);
    send(&mut connect(Some("client")), 2);
    inrush.conserved(2);
}

#[test]
fn a_new_certificate_is_served_without_closing_old_sessions() {
    let (inrush, pki) = start("");
    let first = served(&inrush, &pki);
    let mut old = tls_connect(inrush.address("tls"), &pki.client(None)).unwrap();
    send(&mut old, 1);
    let second = pki.issue("server");
    assert_ne!(first, second);
    eventually("the new certificate", || {
        (served(&inrush, &pki) == second).then_some(())
    });
    send(&mut old, 2);
    inrush.conserved(2);
}

#[test]
fn a_broken_pair_leaves_the_last_good_one_in_use() {
    let (inrush, pki) = start("");
    let first = served(&inrush, &pki);
    let failed = || {
        let page = inrush.http("GET", "/metrics").body;
        let line = page.lines().find(|line| {
            line.starts_with("inrush_tls_certificate_reloads_total")
                && line.contains("result=\"failed\"")
        })?;
        line.rsplit(' ').next()?.parse::<f64>().ok()
    };
    let before = failed().unwrap_or(0.0);
    fs::write(pki.path("server.pem"), "not a certificate").unwrap();
    eventually("the failed reload to be counted", || {
        (failed()? > before).then_some(())
    });
    assert_eq!(served(&inrush, &pki), first);
    let second = pki.issue("server");
    eventually("the repaired pair", || {
        (served(&inrush, &pki) == second).then_some(())
    });
}

#[test]
fn the_end_of_the_certificate_is_shown() {
    let (inrush, _pki) = start("");
    let not_after = inrush.source()["certificate_not_after"].as_i64().unwrap();
    // rcgen's default: the year 4096.
    assert!(not_after > 60_000_000_000, "{not_after}");
}

#[test]
fn plain_text_on_the_tls_port_is_counted_and_closed() {
    let (inrush, _pki) = start("");
    let mut plain = Tcp::connect(inrush.address("tls"));
    plain.send("<13>no TLS here\n");
    inrush.connection_errors("tls", 1);
    assert_eq!(inrush.ledger().sources["syslog"].received, 0);
}

#[test]
fn events_before_a_close_notify_all_arrive() {
    let (inrush, pki) = start("");
    let mut stream = tls_connect(inrush.address("tls"), &pki.client(None)).unwrap();
    for n in 0..2000 {
        writeln!(stream, "{}", numbered(n)).unwrap();
    }
    stream.conn.send_close_notify();
    stream.flush().unwrap();
    drop(stream);
    let ids: Vec<_> = (0..2000).map(|n| format!("ID{n}")).collect();
    assert_eq!(field(&inrush.collected(2000), "msg_id"), ids);
}
