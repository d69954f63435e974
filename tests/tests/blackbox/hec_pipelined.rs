//! HTTP Event Collector: requests that come before the answers to those in front of them.

use inrush_tests::*;

use crate::hec_server::{client, collector, texts};

/// The client of the second would wait for its body's sake until it loses patience.
#[test]
fn continue_comes_behind_the_answers_before_it() {
    let config = collector("", "") + "queue: { durability: fsync }\n";
    let inrush = Inrush::start(&config);
    let mut hec = client(&inrush);
    let first = hec.request("event", "", br#"{"event":"first"}"#);
    let body = br#"{"event":"second"}"#;
    let second = hec.request("event", "Expect: 100-continue\r\n", body);
    let head = &second[..second.len() - body.len()];
    hec.send([&first, head].concat());
    assert_eq!(hec.any_answer().status, 200);
    assert_eq!(hec.any_answer().status, 100);
    assert_eq!(hec.send(body).any_answer().status, 200);
    assert_eq!(texts(&inrush, 2), ["first", "second"]);
    // Who does not wait is not told.
    assert_eq!(hec.send(&second).any_answer().status, 200);
}

#[test]
fn many_small_requests_at_once_are_each_answered_in_turn() {
    let inrush = Inrush::start(&collector("", ""));
    let mut hec = client(&inrush);
    let requests = |hec: &HecClient| -> Vec<u8> {
        let one = |n: usize| {
            let event = format!(r#"{{"event":"e{n}"}}"#);
            let chunked = format!("{:x}\r\n{event}\r\n0\r\n\r\n", event.len());
            match n % 4 {
                0 => hec.request("event", "", event.as_bytes()),
                1 => hec.request(
                    "event",
                    "Transfer-Encoding: chunked\r\n",
                    chunked.as_bytes(),
                ),
                2 => hec.request("event", "Content-Encoding: gzip\r\n", &gzip(&event)),
                _ => hec.request("GET /services/collector/health", "", b""),
            }
        };
        (0..500).flat_map(one).collect()
    };
    let bytes = requests(&hec);
    for piece in [bytes.len(), 1009] {
        for piece in bytes.chunks(piece) {
            hec.send(piece);
        }
        let codes: Vec<_> = (0..500).map(|_| hec.answer().code()).collect();
        let wanted = (0..500).map(|n| Some(if n % 4 == 3 { 17 } else { 0 }));
        assert_eq!(codes, wanted.collect::<Vec<_>>());
    }
    let names = (0..500).filter(|n| n % 4 != 3).map(|n| format!("e{n}"));
    let names: Vec<String> = names.collect();
    assert_eq!(texts(&inrush, 750), [&names[..], &names[..]].concat());
}
