//! PROXY protocol: the sender behind a load balancer is named, and nobody else can claim to be it.

use std::io::{ErrorKind, Read};

use inrush_tests::*;

use crate::{TCP, to_file};

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

fn start() -> Inrush {
    Inrush::start(&to_file(
        TCP,
        "stream: { proxy_protocol: required, handshake_timeout: 1s }",
    ))
}

fn v2(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
    let mut header = SIGNATURE.to_vec();
    header.extend([0x20 | command, family]);
    header.extend((body.len() as u16).to_be_bytes());
    header.extend(body);
    header
}

fn sender_after(header: &[u8]) -> String {
    let inrush = start();
    Tcp::connect(inrush.address("tcp"))
        .send(header)
        .send(numbered(1) + "\n");
    let events = inrush.collected(1);
    assert_eq!(events[0]["msg_id"], "ID1");
    events[0]["sender"].as_str().unwrap().to_owned()
}

#[test]
fn version_1_names_the_sender() {
    assert_eq!(
        sender_after(b"PROXY TCP4 192.0.2.7 10.0.0.1 56324 514\r\n"),
        "192.0.2.7"
    );
    assert_eq!(
        sender_after(b"PROXY TCP6 2001:db8::7 2001:db8::1 56324 514\r\n"),
        "2001:db8::7"
    );
    assert_eq!(sender_after(b"PROXY UNKNOWN\r\n"), "127.0.0.1");
}

#[test]
fn version_2_names_the_sender() {
    let v4 = v2(1, 0x11, &[192, 0, 2, 9, 10, 0, 0, 1, 0xdc, 4, 2, 2]);
    assert_eq!(sender_after(&v4), "192.0.2.9");
    let mut addresses = [0; 36];
    addresses[..16].copy_from_slice(
        &"2001:db8::9"
            .parse::<std::net::Ipv6Addr>()
            .unwrap()
            .octets(),
    );
    assert_eq!(sender_after(&v2(1, 0x21, &addresses)), "2001:db8::9");
    assert_eq!(
        sender_after(&v2(0, 0, &[])),
        "127.0.0.1",
        "LOCAL: the proxy itself"
    );
}

#[test]
fn a_header_may_come_byte_by_byte() {
    let inrush = start();
    let mut tcp = Tcp::connect(inrush.address("tcp"));
    for byte in b"PROXY TCP4 192.0.2.7 10.0.0.1 56324 514\r\n" {
        tcp.send([*byte]);
    }
    tcp.send(numbered(1) + "\n");
    assert_eq!(inrush.collected(1)[0]["sender"], "192.0.2.7");
}

#[test]
fn a_connection_without_a_good_header_is_closed_and_counted() {
    let inrush = start();
    let bad: [&[u8]; 5] = [
        b"<13>1 - h a - - - no header\n",
        b"PROXY TCP4 not-an-address 10.0.0.1 1 2\r\n",
        b"PROXY TCP4 192.0.2.7 10.0.0.1 99999 514\r\n",
        &v2(1, 0x11, &[1, 2, 3]),
        &[b'P'; 4096],
    ];
    for (n, header) in bad.iter().enumerate() {
        let mut tcp = Tcp::connect(inrush.address("tcp"));
        tcp.send(header);
        assert!(tcp.is_closed_by_peer(), "{header:?}");
        inrush.connection_errors("bad_proxy_header", n as u64 + 1);
    }
    Tcp::connect(inrush.address("tcp")).send("PROXY ");
    assert_eq!(inrush.ledger().sources["syslog"].received, 0);
}

#[test]
fn a_header_that_never_comes_is_ended() {
    let inrush = start();
    let mut tcp = Tcp::connect(inrush.address("tcp"));
    tcp.send("PROXY TCP4 192.0.2.7");
    assert!(tcp.is_closed_by_peer());
    inrush.connection_errors("handshake_timeout", 1);
}

const HEADER: &str = "PROXY TCP4 192.0.2.7 10.0.0.1 56324 514\r\n";

/// Connects from this address of loopback.
fn connect_from(from: [u8; 4], inrush: &Inrush, protocol: &str) -> Tcp {
    Tcp::connect_from(std::net::IpAddr::from(from), inrush.address(protocol))
}

#[test]
fn only_trusted_proxies_may_connect_where_a_header_is_required() {
    let options = "stream: { proxy_protocol: required, trusted_proxies: [127.0.0.8/29, \"::1\"] }";
    let inrush = Inrush::start(&to_file(TCP, options));
    connect_from([127, 0, 0, 9], &inrush, "tcp").send(HEADER.to_owned() + &numbered(1) + "\n");
    assert_eq!(inrush.collected(1)[0]["sender"], "192.0.2.7");
    let mut stranger = connect_from([127, 0, 0, 2], &inrush, "tcp");
    stranger.try_send(HEADER.to_owned() + &numbered(2) + "\n");
    assert!(stranger.is_closed_by_peer());
    inrush.connection_errors("untrusted_proxy", 1);
    let row = inrush.source()["refused"][0].clone();
    assert_eq!(
        (&row["address"], &row["count"]),
        (&"127.0.0.2".into(), &1.into())
    );
    assert_eq!(row["why"], "not one of `trusted_proxies`");
    inrush.conserved(1);

    // Who is trusted changes for the next connection.
    let all = options.replace("127.0.0.8/29", "127.0.0.0/8");
    inrush.rewrite(&to_file(TCP, &all));
    assert_eq!(inrush.reload().status, 200);
    connect_from([127, 0, 0, 2], &inrush, "tcp").send(HEADER.to_owned() + &numbered(2) + "\n");
    inrush.conserved(2);
}

#[test]
fn beside_trusted_proxies_senders_connect_directly_and_claim_no_other_address() {
    let dir = tempfile::tempdir().unwrap();
    let pki = Pki::new(dir.path());
    pki.issue("server");
    let options = "tls: { cert_file: \"{dir}/server.pem\", key_file: \"{dir}/server.key\" }\n\
                   stream: { proxy_protocol: trusted, trusted_proxies: [127.0.0.9] }";
    let listen = format!("{TCP}, tls://127.0.0.1:0, relp://127.0.0.1:0");
    let own = Options {
        dir: Some(dir),
        ..Options::default()
    };
    let inrush = Inrush::with(&to_file(&listen, options), own);
    connect_from([127, 0, 0, 9], &inrush, "tcp").send(HEADER.to_owned() + &numbered(1) + "\n");
    inrush.conserved(1);
    connect_from([127, 0, 0, 2], &inrush, "tcp").send(numbered(2) + "\n");
    inrush.conserved(2);
    let senders = sorted(field(&inrush.collected(2), "sender"));
    assert_eq!(senders, ["127.0.0.2", "192.0.2.7"]);

    let v2 = v2(1, 0x11, &[192, 0, 2, 9, 10, 0, 0, 1, 0xdc, 4, 2, 2]);
    let mut refused = 0;
    for protocol in ["tcp", "tls", "relp"] {
        for header in [HEADER.as_bytes(), &v2] {
            let mut tcp = connect_from([127, 0, 0, 2], &inrush, protocol);
            tcp.send([header, numbered(3).as_bytes(), b"\n"].concat());
            // TLS sends an alert first.
            let ended = tcp.0.read_to_end(&mut Vec::new());
            let waited = ended.is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
            assert!(!waited, "{protocol}");
            refused += 1;
            inrush.connection_errors("untrusted_proxy", refused);
        }
    }
    // A proxy that sends no header is none.
    let mut proxy = connect_from([127, 0, 0, 9], &inrush, "tcp");
    proxy.send(numbered(4) + "\n");
    assert!(proxy.is_closed_by_peer());
    inrush.connection_errors("bad_proxy_header", 1);
    assert_eq!(inrush.ledger().sources["syslog"].accepted, 2);
}
