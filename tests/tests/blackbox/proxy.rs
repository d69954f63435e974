//! PROXY protocol: the sender behind a load balancer is named, and nobody else can claim to be it.

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
