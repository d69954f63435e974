//! Bodies of an HTTP Event Collector: objects and faults are those of `serde_json`, whatever the
//! cuts between reads; the first byte chooses the pieces.
#![no_main]

use inrush_codec::hec::{BodySplitter, BodyStep, Envelope, EnvelopeFault};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};

/// Objects and the fault of a body that comes in pieces of that length.
fn split(body: &[u8], piece: usize) -> (Vec<Envelope>, Option<EnvelopeFault>) {
    let mut splitter = BodySplitter::default();
    let (mut at, mut shown) = (0, 0);
    let mut found = Vec::new();
    loop {
        let last = shown == body.len();
        match splitter.step(&body[..shown], at, last) {
            BodyStep::Object { envelope, end } => {
                found.push(envelope);
                at = end;
            }
            BodyStep::More { keep } => {
                assert!(!last && (at..=shown).contains(&keep));
                at = keep;
                shown = body.len().min(shown + piece);
            }
            BodyStep::End => return (found, None),
            BodyStep::Fault(fault) => return (found, Some(fault)),
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let [piece, body @ ..] = input else {
        return;
    };
    let (found, fault) = split(body, usize::MAX);
    assert_eq!(split(body, usize::from(*piece) + 1), (found.clone(), fault));
    for envelope in &found {
        let object = envelope.object.of(body);
        // What is UTF-8 with whole characters is JSON for others too.
        if let Ok(text) = std::str::from_utf8(object)
            && !text.contains("\\u")
        {
            let parsed = serde_json::from_str::<Map<String, Value>>(text);
            assert!(parsed.is_ok(), "{text}: {parsed:?}");
        }
    }
    // Of objects one after the other, it finds no fewer than the reference does.
    if fault == Some(EnvelopeFault::Format) && !body.contains(&b'[') {
        let read = serde_json::Deserializer::from_slice(body).into_iter::<Map<String, Value>>();
        let good = read.take_while(Result::is_ok).count();
        assert!(found.len() <= good + 1);
    }
});
