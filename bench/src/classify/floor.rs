//! Costs that no recognition can do without: the least that an event costs, whatever the engine.

use std::hint::black_box;
use std::io::Write as _;
use std::time::Instant;

use aho_corasick::packed::Searcher;
use anyhow::{Context, Result};
use inrush_classify::Pack;
use inrush_classify::pack::{Branch, EventPart, RuleCondition};
use inrush_codec::{SyslogParser, Zone};
use inrush_event::{Anomalies, Record};

use super::{MessageArena, RECEIVED};

/// Texts up to which Teddy is at its fastest. The packs look for some 140 that long in messages.
const TEXTS: usize = 32;

/// Bytes of such a text, at least: shorter ones are found too often.
const TEXT_LEAST: usize = 4;

/// Texts that rules look for anywhere in a message.
pub(super) fn texts(packs: &[Pack]) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    let rules = packs.iter().flat_map(|pack| &pack.rules);
    rules.for_each(|rule| of_branch(&rule.branch, &mut out));
    out.sort_unstable();
    out.dedup();
    // From all letters alike.
    let step = (out.len() / TEXTS).max(1);
    out.into_iter().step_by(step).take(TEXTS).collect()
}

fn of_branch(branch: &Branch, out: &mut Vec<Vec<u8>>) {
    of_condition(&branch.when, out);
    branch.cases.iter().for_each(|case| of_branch(case, out));
}

fn of_condition(when: &RuleCondition, out: &mut Vec<Vec<u8>>) {
    match when {
        RuleCondition::All(list) | RuleCondition::Any(list) => {
            list.iter().for_each(|one| of_condition(one, out))
        }
        RuleCondition::Part(test) if matches!(test.part, EventPart::Message | EventPart::Text) => {
            let inner = test.written.strip_prefix('*');
            let inner = inner.and_then(|text| text.strip_suffix('*'));
            let plain = inner.filter(|text| !text.contains(['*', '\\']));
            out.extend(
                plain
                    .filter(|text| text.len() >= TEXT_LEAST)
                    .map(|text| text.as_bytes().to_vec()),
            );
        }
        _ => {}
    }
}

/// Writes a line for each of them.
pub(super) fn write(messages: &MessageArena, texts: &[Vec<u8>], passes: usize) -> Result<()> {
    let searcher = Searcher::new(texts).context("no vector instructions here")?;
    let mut parser = SyslogParser::new(Zone::utc());
    let mut header = |bytes: &[u8], number: usize| {
        let span = messages.spans[number];
        let mut record = Record::unparsed(span, RECEIVED, 0, Anomalies::NONE);
        parser.parse(&messages.arena, &mut record);
        bytes.len() + record.message.len()
    };
    let mut touch = |bytes: &[u8], _: usize| memchr::memchr(0xff, bytes).unwrap_or(0);
    let mut search = |bytes: &[u8], _: usize| searcher.find_iter(bytes).count();
    line(messages, passes, "reading headers", &mut header)?;
    line(messages, passes, "looking for one byte", &mut touch)?;
    let what = format!("looking for {} texts, once", texts.len());
    line(messages, passes, &what, &mut search)
}

/// Does that with each message so many times, in the mixed order, and says what it took.
fn line(
    messages: &MessageArena,
    passes: usize,
    what: &str,
    act: &mut dyn FnMut(&[u8], usize) -> usize,
) -> Result<()> {
    let begin = Instant::now();
    for _ in 0..passes {
        for (number, span) in messages.spans.iter().enumerate() {
            black_box(act(span.of(&messages.arena), number));
        }
    }
    let events = (messages.spans.len() * passes).max(1);
    let ns = begin.elapsed().as_nanos() as f64 / events as f64;
    let line = serde_json::json!({ "what": what, "ns_per_event": (ns * 10.0).round() / 10.0 });
    writeln!(std::io::stdout(), "{line}")?;
    Ok(())
}
