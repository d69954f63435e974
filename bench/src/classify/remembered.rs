//! Nothing that comes of a message depends on what a classifier remembers of those before: plans of
//! programs, and ways through the packs.

use std::sync::Arc;

use inrush_classify::CompiledPacks;

use super::begins::{OutcomeReader, messages, packs};

/// Broken messages.
const BROKEN: usize = 10_000;

#[test]
fn what_is_remembered_changes_nothing() {
    let packs = packs();
    let messages = messages(&packs, BROKEN);
    let packs = Arc::new(CompiledPacks::compile(packs, Default::default()).0);
    let mut old = OutcomeReader::of(&packs);
    for message in &messages {
        let wanted = OutcomeReader::of(&packs).read(message);
        for _ in 0..2 {
            let text = String::from_utf8_lossy(message);
            assert_eq!(old.read(message), wanted, "{text}");
        }
    }
}
