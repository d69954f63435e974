//! What must hold for any answer of a collector, shared by the property test and the fuzzer.

use std::time::Duration;

use super::answer::{Action, RawAnswer, confirmed, judge};
use super::cookie::Jar;

/// The statuses that are judged in different ways, and some beside them.
const STATUSES: [u16; 18] = [
    200, 201, 202, 204, 206, 299, 302, 400, 401, 403, 404, 405, 408, 413, 429, 500, 503, 999,
];

/// Judges the input as an answer: its first byte chooses the status, its second one the number of
/// events and whether the body broke off; up to a line feed it is `Retry-After`, then the body.
pub(super) fn check(input: &[u8]) {
    let [status, events, rest @ ..] = input else {
        return;
    };
    let status = STATUSES[usize::from(*status) % STATUSES.len()];
    let broken = (events & 0x80 != 0).then_some("reset");
    let events = usize::from(events & 0x7f) + 1;
    let cut = rest.iter().position(|b| *b == b'\n');
    let (header, body) = match cut {
        Some(at) => (&rest[..at], &rest[at + 1..]),
        None => (&b""[..], rest),
    };
    let header = std::str::from_utf8(header).ok();
    let heard = RawAnswer {
        status,
        retry_after: header,
        content_type: header,
        body,
        broken,
    };
    check_action(judge(heard, events, &[]).0, &heard, events);
    check_acks(body);
    check_cookies(header.unwrap_or_default(), body);
}

/// Nothing but HEC's own success takes events, and no event is meant that was not sent.
fn check_action(action: Action, heard: &RawAnswer<'_>, events: usize) {
    match action {
        Action::Taken => {
            assert!((200..300).contains(&heard.status));
            if heard.status == 200 && heard.body.is_empty() {
                // A receiver that says nothing, which a page's type would contradict.
                let kind = heard.content_type.unwrap_or_default();
                assert!(!kind.to_ascii_lowercase().contains("html") && heard.broken.is_none());
                return;
            }
            let json: serde_json::Value = serde_json::from_slice(heard.body).expect("JSON");
            assert!(json["text"].is_string(), "{json}");
            assert!([0, 24, 25].contains(&json["code"].as_u64().expect("a code")));
        }
        Action::Event(at) | Action::Index(at) => assert!(at < events && heard.status == 400),
        Action::Search { suspect, .. } => {
            assert!(suspect.is_none_or(|at| at < events) && heard.status == 400);
        }
        Action::Retry { after, .. } => {
            assert!(after.is_none_or(|wait| wait <= Duration::from_secs(300)));
        }
        Action::Halve => assert_eq!(heard.status, 413),
        Action::Hold(_) => {}
    }
}

/// An id is confirmed only by the word `true` behind it.
fn check_acks(body: &[u8]) {
    let json: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    for id in confirmed(body).unwrap_or_default() {
        let acks = json["acks"].as_object().expect("an object");
        let said = |(key, is): (&String, &serde_json::Value)| key.parse() == Ok(id) && is == true;
        assert!(acks.iter().any(said), "{id}");
    }
}

/// A cookie never breaks out of its header.
fn check_cookies(first: &str, second: &[u8]) {
    let mut jar = Jar::default();
    jar.set(first);
    String::from_utf8_lossy(second)
        .lines()
        .for_each(|line| jar.set(line));
    let header = jar.header("/services/collector/ack").unwrap_or_default();
    assert!(
        header.bytes().all(|b| (b' '..=b'~').contains(&b)),
        "{header:?}"
    );
    assert!(header.len() <= 16 * 4100, "{}", header.len());
}
