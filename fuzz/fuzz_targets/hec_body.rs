//! Bodies of an HTTP Event Collector: objects and faults are those of `serde_json`, whatever the
//! cuts between reads; the first byte chooses the pieces.
#![no_main]

use std::collections::HashMap;

use inrush_codec::hec::{BodySplitter, BodyStep, Envelope, EnvelopeFault};
use libfuzzer_sys::fuzz_target;
use serde::de::IgnoredAny;
use serde_json::Deserializer;

/// An object of any JSON: its numbers may be larger than a float.
type AnyObject = HashMap<String, IgnoredAny>;

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
            let parsed = serde_json::from_str::<AnyObject>(text);
            assert!(parsed.is_ok(), "{text}: {parsed:?}");
        }
    }
    // Of objects one after the other, it finds those of the reference, which takes nothing but
    // UTF-8 and whole characters, and no more. It may stop earlier: at a time that is none.
    let text = std::str::from_utf8(body).ok();
    let text = text.filter(|text| !text.contains("\\u") && !text.contains('['));
    if let Some(text) = text {
        let read = Deserializer::from_str(text).into_iter::<AnyObject>();
        let good = read.take_while(Result::is_ok).count();
        assert!(found.len() == good || fault.is_some() && found.len() < good);
    }
});
