//! Events from the lines of files: those of any bytes, and of lines as containers write them.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "support/joins.rs"]
mod laws;

use proptest::collection::vec;
use proptest::prelude::*;

fn line() -> impl Strategy<Value = Vec<u8>> {
    let text = "[E ;\\ta-c]{0,30};?";
    let stream = prop::sample::select(&["stdout", "stderr"][..]);
    let container =
        (text, stream, any::<bool>(), any::<bool>()).prop_map(|(text, stream, whole, docker)| {
            match docker {
                true => {
                    let text = serde_json::to_string(&text).unwrap();
                    let end = if whole { "\\n\"" } else { "\"" };
                    let text = text.trim_end_matches('"');
                    let time = "\"time\":\"2026-11-28T09:00:00Z\"";
                    format!("{{\"log\":{text}{end},\"stream\":\"{stream}\",{time}}}\n")
                }
                false => {
                    let tag = if whole { "F" } else { "P" };
                    format!("2026-11-28T09:00:00Z {stream} {tag} {text}\n")
                }
            }
        });
    prop_oneof![
        6 => container.prop_map(String::into_bytes),
        2 => vec(any::<u8>(), 0..40),
        1 => Just(vec![b'x'; 300]),
        1 => Just(b"\n".to_vec()),
    ]
}

proptest! {
    #[test]
    fn events_do_not_depend_on_reads(
        options in any::<u8>(),
        lines in vec(line(), 0..30),
        pieces in vec(1..200_usize, 1..6),
    ) {
        laws::check(options, &lines.concat(), &pieces);
    }
}
