//! TLS over real sockets: handshakes, client certificates, and certificates that change.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::io::{self, Read, Write};

use common::{Authority, Door, NO_CERTIFICATE};
use inrush_transport::config::ClientAuth;
use inrush_transport::tls::{HTTP_PROTOCOLS, Refresh, ServerTls, TlsProblem};
use rustls::version::{TLS12, TLS13};

#[test]
fn both_versions_carry_what_is_sent() {
    let (authority, door) = (Authority::new("ca"), Door::new());
    door.write_pair(&authority.issue("localhost"));
    let tls = ServerTls::load(&door.options()).unwrap();
    for version in [&TLS12, &TLS13] {
        let (client, server) = door.connect(&tls, authority.client(version, NO_CERTIFICATE));
        let mut client = client.unwrap();
        client.write_all(b"<13>hello\n").unwrap();
        client.conn.send_close_notify();
        client.flush().unwrap();
        let mut received = String::new();
        server.unwrap().read_to_string(&mut received).unwrap();
        assert_eq!(received, "<13>hello\n");
    }
}

/// A sender that closes with something unread resets the connection and loses its last events.
#[test]
fn a_sender_that_only_writes_is_sent_nothing_to_leave_unread() {
    let (authority, door) = (Authority::new("ca"), Door::new());
    door.write_pair(&authority.issue("localhost"));
    let tls = ServerTls::load(&door.options()).unwrap();
    let (client, server) = door.connect(&tls, authority.client(&TLS13, NO_CERTIFICATE));
    let (mut client, mut server) = (client.unwrap(), server.unwrap());
    client.write_all(b"<13>hello\n").unwrap();
    server.read_exact(&mut [0; 10]).unwrap();
    assert!(!server.conn.wants_write());
    client.sock.set_nonblocking(true).unwrap();
    assert_eq!(
        client.sock.peek(&mut [0]).unwrap_err().kind(),
        io::ErrorKind::WouldBlock
    );
}

#[test]
fn client_certificates_are_asked_for_as_configured() {
    let (authority, stranger, door) = (Authority::new("ca"), Authority::new("ca"), Door::new());
    door.write_pair(&authority.issue("localhost"));
    fs::write(door.path("clients.pem"), authority.pem()).unwrap();
    let (good, wrong) = (
        Some(authority.issue("sender")),
        Some(stranger.issue("sender")),
    );
    let old = Some(authority.issue_expired("sender"));
    for (auth, nobody_gets_in) in [(ClientAuth::Optional, true), (ClientAuth::Required, false)] {
        let mut options = door.options();
        options.client_ca_file = Some(door.path("clients.pem"));
        options.client_auth = Some(auth);
        let tls = ServerTls::load(&options).unwrap();
        for version in [&TLS12, &TLS13] {
            let gets_in = |own| door.connect(&tls, authority.client(version, own)).1.is_ok();
            assert!(gets_in(good.as_ref()), "{auth:?} {version:?}");
            assert!(!gets_in(wrong.as_ref()), "{auth:?} {version:?}");
            assert!(!gets_in(old.as_ref()), "{auth:?} {version:?}");
            assert_eq!(
                gets_in(NO_CERTIFICATE),
                nobody_gets_in,
                "{auth:?} {version:?}"
            );
        }
    }
}

#[test]
fn a_new_pair_is_for_new_sessions_and_the_old_ones_live() {
    let (before, after, door) = (
        Authority::new("before"),
        Authority::new("after"),
        Door::new(),
    );
    door.write_pair(&before.issue("localhost"));
    let tls = ServerTls::load(&door.options()).unwrap();
    let (client, server) = door.connect(&tls, before.client(&TLS13, NO_CERTIFICATE));
    let (mut client, mut server) = (client.unwrap(), server.unwrap());
    assert!(matches!(tls.refresh(), Refresh::Unchanged));

    let expires_before = tls.not_after();
    door.write_pair(&after.issue_until("localhost", 2099));
    let Refresh::Reloaded { not_after } = tls.refresh() else {
        panic!("not seen")
    };
    assert_eq!(not_after, tls.not_after());
    assert!(not_after > expires_before);
    assert!(matches!(tls.refresh(), Refresh::Unchanged));

    client.write_all(b"old").unwrap();
    server.read_exact(&mut [0; 3]).unwrap();
    assert!(
        door.connect(&tls, after.client(&TLS13, NO_CERTIFICATE))
            .0
            .is_ok()
    );
    assert!(
        door.connect(&tls, before.client(&TLS13, NO_CERTIFICATE))
            .0
            .is_err()
    );
}

#[test]
fn a_bad_pair_leaves_the_last_good_one_and_is_told_once() {
    let (authority, door) = (Authority::new("ca"), Door::new());
    let first = authority.issue("localhost");
    door.write_pair(&first);
    let tls = ServerTls::load(&door.options()).unwrap();
    let second = authority.issue("localhost");
    for broken in [
        "",
        "-----BEGIN CERTIFICATE-----\n",
        &first.key_pem,
        &second.cert_pem,
    ] {
        fs::write(door.path("cert.pem"), broken).unwrap();
        assert!(matches!(tls.refresh(), Refresh::Kept(_)), "{broken}");
        assert!(matches!(tls.refresh(), Refresh::Unchanged), "{broken}");
        assert!(
            door.connect(&tls, authority.client(&TLS13, NO_CERTIFICATE))
                .0
                .is_ok()
        );
    }
    fs::remove_file(door.path("key.pem")).unwrap();
    assert!(matches!(tls.refresh(), Refresh::Kept(_)));
    fs::write(door.path("key.pem"), &second.key_pem).unwrap();
    assert!(matches!(tls.refresh(), Refresh::Reloaded { .. }));
}

#[test]
fn new_authorities_are_for_new_sessions() {
    let (old, new, door) = (Authority::new("old"), Authority::new("new"), Door::new());
    door.write_pair(&old.issue("localhost"));
    fs::write(door.path("clients.pem"), old.pem()).unwrap();
    let mut options = door.options();
    options.client_ca_file = Some(door.path("clients.pem"));
    let tls = ServerTls::load(&options).unwrap();
    let sender = new.issue("sender");
    assert!(
        door.connect(&tls, old.client(&TLS13, Some(&sender)))
            .1
            .is_err()
    );
    fs::write(door.path("clients.pem"), old.pem() + &new.pem()).unwrap();
    assert!(matches!(tls.refresh(), Refresh::Reloaded { .. }));
    assert!(
        door.connect(&tls, old.client(&TLS13, Some(&sender)))
            .1
            .is_ok()
    );
}

#[test]
fn an_expired_certificate_loads_and_says_when() {
    let (authority, door) = (Authority::new("ca"), Door::new());
    door.write_pair(&authority.issue_expired("localhost"));
    // 2001-01-01T00:00:00Z
    assert_eq!(
        ServerTls::load(&door.options()).unwrap().not_after(),
        978_307_200
    );
}

#[test]
fn what_is_wrong_is_said_with_the_option_and_the_file() {
    let (authority, door) = (Authority::new("ca"), Door::new());
    let (pair, other) = (authority.issue("localhost"), authority.issue("localhost"));
    let legacy = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n";
    let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMAA=\n";
    let garbage = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
    for (name, content, option, said) in [
        (
            "cert.pem",
            pair.key_pem.as_bytes(),
            "cert_file",
            "holds no certificate",
        ),
        ("cert.pem", &pair.cert_der, "cert_file", "is DER, not PEM"),
        ("cert.pem", garbage.as_bytes(), "cert_file", "is not usable"),
        (
            "cert.pem",
            &pair.cert_pem.as_bytes()[..99],
            "cert_file",
            "is damaged",
        ),
        (
            "cert.pem",
            &[b' '; 1 << 21],
            "cert_file",
            "larger than 1 MiB",
        ),
        (
            "key.pem",
            pair.cert_pem.as_bytes(),
            "key_file",
            "holds no private key",
        ),
        ("key.pem", legacy.as_bytes(), "key_file", "is encrypted"),
        ("key.pem", encrypted.as_bytes(), "key_file", "is encrypted"),
        (
            "key.pem",
            other.key_pem.as_bytes(),
            "key_file",
            "is not the key of the first",
        ),
        ("clients.pem", b"", "client_ca_file", "holds no certificate"),
        (
            "clients.pem",
            garbage.as_bytes(),
            "client_ca_file",
            "is not usable",
        ),
    ] {
        door.write_pair(&pair);
        fs::write(door.path("clients.pem"), authority.pem()).unwrap();
        fs::write(door.path(name), content).unwrap();
        let mut options = door.options();
        options.client_ca_file = Some(door.path("clients.pem"));
        let error = ServerTls::load(&options).unwrap_err();
        assert_eq!((error.option, &error.path), (option, &door.path(name)));
        assert!(error.to_string().contains(said), "{error}");
    }
}

#[test]
fn what_is_no_file_is_not_waited_for() {
    let (authority, door) = (Authority::new("ca"), Door::new());
    door.write_pair(&authority.issue("localhost"));
    let mut options = door.options();
    options.client_auth = Some(ClientAuth::Required);
    let error = ServerTls::load(&options).unwrap_err();
    assert!(matches!(error.problem, TlsProblem::NoAuthority), "{error}");
    options = door.options();
    options.cert_file = door.path("absent.pem");
    let error = ServerTls::load(&options).unwrap_err();
    assert!(
        error.to_string().contains("absent.pem: cannot be read"),
        "{error}"
    );
    nix::unistd::mkfifo(&options.cert_file, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let error = ServerTls::load(&options).unwrap_err();
    assert!(matches!(error.problem, TlsProblem::NotAFile), "{error}");
}

#[test]
fn protocols_stay_when_the_certificate_changes() {
    let (authority, door) = (Authority::new("ca"), Door::new());
    door.write_pair(&authority.issue("localhost"));
    let (one, http) = (
        ServerTls::load(&door.options()).unwrap(),
        ServerTls::load_for(&door.options(), HTTP_PROTOCOLS).unwrap(),
    );
    assert!(one.config().alpn_protocols.is_empty());
    door.write_pair(&authority.issue("localhost"));
    assert!(matches!(http.refresh(), Refresh::Reloaded { .. }));
    assert_eq!(http.config().alpn_protocols, HTTP_PROTOCOLS);
}
