//! Connections that end with an answer: a peer that is still sending gets it all the same.

use inrush_tests::*;

use crate::hec_server::{TOKEN, client, collector};

/// More than fits between two sockets.
const LONG: usize = 32 << 20;

#[test]
fn a_client_of_hec_that_is_still_sending_reads_why_it_is_refused() {
    let inrush = Inrush::start(&collector("", "max_content_length: 1MiB"));
    let body = vec![b'x'; LONG];
    let wrong = "Authorization: Splunk wrong-token\r\nExpect: 100-continue\r\n";
    for (fields, status) in [
        ("", 413),
        ("Content-Length: 5\r\n", 400),
        (wrong, 403),
        ("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", 400),
    ] {
        let mut hec = client(&inrush);
        let bytes = hec.request("event", fields, &body);
        let reply = hec.send(bytes).answer();
        assert_eq!(reply.status, status, "{fields}");
        assert!(reply.head.contains("Connection: close"), "{}", reply.head);
        assert!(hec.is_closed());
    }
    inrush.connection_errors("bad_http_request", 2);
}

#[test]
fn a_sender_of_relp_that_is_still_sending_reads_that_its_session_ends() {
    let source = "sources:\n  relp: { type: syslog, listen: [\"relp://127.0.0.1:0\"] }\n";
    let inrush = Inrush::start(&format!(
        "{source}destinations:\n  null0: {{ type: blackhole }}\n"
    ));
    let mut relp = Relp::open(inrush.address("relp"));
    relp.send(relp_frame(9, "nonsense", ""))
        .send(vec![b'x'; LONG]);
    let last = std::iter::from_fn(|| relp.answer()).last();
    assert!(last.is_some_and(|last| last.command == "serverclose"));
    inrush.connection_errors("bad_relp_frame", 1);
}

#[test]
fn a_peer_that_never_stops_is_closed_all_the_same() {
    let inrush = Inrush::start(&collector("", "max_content_length: 1MiB"));
    let mut hec = HecClient::connect(inrush.address("http"), TOKEN);
    let head = hec.request("event", "Content-Length: 99999999999\r\n", b"");
    hec.send(head);
    let piece = vec![b'x'; 1 << 20];
    let sent =
        (0..1000).take_while(|_| std::io::Write::write_all(&mut hec.socket(), &piece).is_ok());
    assert!((64..1000).contains(&sent.count()));
}
