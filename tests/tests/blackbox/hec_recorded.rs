//! Recorded requests of HEC clients that others wrote, sent again byte by byte: every event once,
//! with the names, time and fields of its request. `INRUSH_RECORD=1 make test-peers` records them.

use inrush_tests::*;

/// Sends each connection's bytes at once, and asserts that every request is answered with success.
fn replay(name: &str) {
    let files = recorded_files(name);
    assert!(!files.is_empty(), "no recording of {name}");
    let connections: Vec<_> = files
        .iter()
        .map(|file| std::fs::read(file).unwrap())
        .collect();
    let inrush = Inrush::start(&hec_peer_config(""));
    for bytes in &connections {
        let mut hec = HecClient::connect(inrush.address("http"), "");
        hec.send(bytes);
        for request in RecordedRequest::all_of(bytes) {
            let reply = hec.answer();
            assert_eq!(reply.status, 200, "{name}: {request:?}: {reply:?}");
        }
    }
    let texts = hec_peer_texts(name);
    assert_arrived(&inrush.collected(texts.len() as u64), &texts, &connections);
}

#[test]
fn recorded_requests_of_every_client_are_served() {
    for name in HEC_PEERS {
        replay(name);
    }
}

/// No client that we know sends the next request before it has the answer; some proxies do.
#[test]
fn requests_that_come_at_once_are_each_answered() {
    let inrush = Inrush::start(&hec_peer_config(""));
    for round in 0..20 {
        let mut hec = HecClient::connect(inrush.address("http"), HEC_TOKEN);
        let request = |n| {
            let event = format!(r#"{{"event":"round {round} request {n}"}}"#);
            hec.request("event", "", event.as_bytes())
        };
        let requests: Vec<u8> = (0..10).flat_map(request).collect();
        hec.send(requests);
        for _ in 0..10 {
            assert_eq!(hec.answer().brief(), (200, Some(0)));
        }
    }
    inrush.collected(200);
}
