//! Report of a replay in the end: for people, or as one JSON document.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};

use serde_json::{Value, json};

use super::tally::{ChangeKey, Changed};
use super::{ReplayJob, ReplayResult};

/// Changes and rules that people are shown; `--json` has them all.
const SHOWN_MAX: usize = 20;

/// Characters of a cell of the table.
const CELL_CHARS: usize = 44;

/// Characters of a record that people are shown.
const RAW_CHARS: usize = 110;

/// Prints what was done.
pub(super) fn print(job: &ReplayJob<'_>, done: &ReplayResult) -> anyhow::Result<()> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    if job.args.json {
        serde_json::to_writer(&mut out, &document(job, done))?;
        writeln!(out)?;
    } else {
        changes(done, &mut out)?;
        totals(done, &mut out)?;
        sent(done, &mut out)?;
        if !job.args.send && done.tally.read > 0 {
            writeln!(out, "nothing was sent: --send does it")?;
        }
    }
    out.flush()?;
    for what in &done.missing {
        eprintln!("inrush: {}", printable(what));
    }
    if done.interrupted {
        eprintln!("inrush: ended by a signal before everything was done");
    }
    Ok(())
}

/// A text for a terminal, in one line.
fn printable(text: &str) -> String {
    let plain = |c: char| match c {
        c if inrush_event::is_unprintable(c) => '\u{fffd}',
        c => c,
    };
    text.chars().map(plain).collect()
}

fn cut(text: &str, chars: usize) -> String {
    let text = printable(text);
    match text.chars().count() > chars {
        true => text.chars().take(chars - 1).chain(['…']).collect(),
        false => text,
    }
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "-" } else { text }
}

/// `then → now`, or one of them where they are the same or nothing is known of then.
fn pair((was, now): &(Option<String>, String)) -> String {
    match was {
        Some(was) if was != now => format!("{} → {}", or_none(was), or_none(now)),
        _ => or_none(now).to_owned(),
    }
}

const HEADINGS: [&str; 7] = [
    "EVENTS",
    "INDEX",
    "SOURCETYPE",
    "SOURCE",
    "CLASS",
    "ALSO",
    "BY",
];

fn cells(change: &ChangeKey, changed: &Changed) -> [String; 7] {
    let also = match (change.host, change.time) {
        (true, true) => "host, time",
        (true, false) => "host",
        (false, true) => "time",
        (false, false) => "-",
    };
    [
        changed.events.to_string(),
        pair(&change.index),
        pair(&change.sourcetype),
        pair(&change.source),
        pair(&change.class),
        also.to_owned(),
        or_none(&change.rules).to_owned(),
    ]
    .map(|cell| cut(&cell, CELL_CHARS))
}

fn changes(done: &ReplayResult, out: &mut impl Write) -> std::io::Result<()> {
    let changes = done.tally.changes();
    let shown: Vec<_> = changes.iter().take(SHOWN_MAX).collect();
    if shown.is_empty() {
        return Ok(());
    }
    let rows: Vec<_> = shown
        .iter()
        .map(|(change, some)| cells(change, some))
        .collect();
    let width = |at: usize| {
        let cells = rows.iter().map(|row| row[at].chars().count());
        cells.chain([HEADINGS[at].len()]).max().unwrap_or(0)
    };
    let widths: [usize; 7] = std::array::from_fn(width);
    let mut line = |cells: [&str; 7]| {
        let mut text = String::new();
        for (at, (cell, width)) in cells.into_iter().zip(widths).enumerate() {
            text += &match at {
                0 => format!("{cell:>width$}  "),
                _ => format!("{cell:width$}  "),
            };
        }
        writeln!(out, "{}", text.trim_end())
    };
    line(HEADINGS)?;
    let mut samples = Vec::new();
    for (row, (change, changed)) in rows.iter().zip(&shown) {
        line(std::array::from_fn(|at| row[at].as_str()))?;
        samples.push((change, &changed.samples));
    }
    if changes.len() > SHOWN_MAX {
        let more = changes.len() - SHOWN_MAX;
        writeln!(out, "and {more} other kinds of change; --json has them all")?;
    }
    writeln!(out)?;
    for (number, (change, samples)) in samples.into_iter().enumerate() {
        let Some(sample) = samples.first() else {
            continue;
        };
        let (raw, number) = (cut(&sample.raw, RAW_CHARS), number + 1);
        writeln!(out, "e.g. {number}: {raw}")?;
        if change.host {
            let (was, now) = (
                cut(&sample.host_was, CELL_CHARS),
                cut(&sample.host, CELL_CHARS),
            );
            writeln!(out, "       host {} → {}", or_none(&was), or_none(&now))?;
        }
        if change.time {
            let text = |time: &Option<String>| time.clone().unwrap_or_else(|| "-".to_owned());
            writeln!(
                out,
                "       time {} → {}",
                text(&sample.time_was),
                text(&sample.time)
            )?;
        }
    }
    writeln!(out)
}

fn totals(done: &ReplayResult, out: &mut impl Write) -> std::io::Result<()> {
    let tally = &done.tally;
    writeln!(out, "{:<12}{:>12}", "read", tally.read)?;
    writeln!(out, "{:<12}{:>12}", "the same", tally.same)?;
    writeln!(out, "{:<12}{:>12}", "changed", tally.changed)?;
    let by = counted(&tally.filtered);
    writeln!(out, "{:<12}{:>12}{by}", "filtered", tally.filtered_sum())?;
    let recognised: u64 = tally.rules.values().sum();
    writeln!(
        out,
        "{:<12}{:>12}{}",
        "recognised",
        recognised,
        counted(&tally.rules)
    )?;
    let strangers: u64 = done.strangers.values().sum();
    if strangers > 0 {
        let (names, stand_in) = (counted(&done.strangers), &done.stand_in);
        writeln!(
            out,
            "{strangers} came to a source that is not configured:{names}; read as those of \
             `{stand_in}` (--source)"
        )?;
    }
    Ok(())
}

/// `  by a 5, b 3`, the most frequent first.
fn counted(counts: &BTreeMap<String, u64>) -> String {
    let mut most: Vec<_> = counts.iter().collect();
    most.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let shown = most.iter().take(SHOWN_MAX);
    let shown = shown.map(|(name, count)| format!("{} {count}", cut(name, CELL_CHARS)));
    let text = shown.collect::<Vec<_>>().join(", ");
    match most.len() {
        0 => String::new(),
        n if n > SHOWN_MAX => format!("  {text}, …"),
        _ => format!("  {text}"),
    }
}

fn sent(done: &ReplayResult, out: &mut impl Write) -> std::io::Result<()> {
    if done.left_out > 0 {
        let n = done.left_out;
        writeln!(
            out,
            "{n} come out as they were and were not sent (--changed)"
        )?;
    }
    if done.unsent > 0 {
        writeln!(out, "{} were read and not sent any more", done.unsent)?;
    }
    for sent in &done.sent {
        for (name, one) in &sent.ledger.destinations {
            let refused: u64 = one.quarantined.values().sum();
            let rest: u64 = one.dropped.values().sum::<u64>() + one.pending;
            writeln!(
                out,
                "{name}: sent {}, delivered {}, refused {refused}, not delivered {rest}",
                one.accepted, one.delivered
            )?;
        }
        for one in &sent.refused {
            writeln!(
                out,
                "{} refused {}: {} (code {}): {}",
                one.destination,
                one.events,
                one.reason,
                one.code,
                cut(&one.text, RAW_CHARS)
            )?;
        }
    }
    for (name, events) in &done.not_configured {
        writeln!(
            out,
            "{name}: not configured, its {events} refused events stay"
        )?;
    }
    if done.settled > 0 {
        writeln!(out, "{} left quarantine", done.settled)?;
    }
    if done.left_behind > 0 {
        let why = done.left_behind_because.as_deref().unwrap_or_default();
        let (n, why) = (done.left_behind, printable(why));
        writeln!(out, "{n} were delivered but lie in quarantine still: {why}")?;
        writeln!(
            out,
            "do not send them again: `inrush queue quarantine drop` deletes them"
        )?;
    }
    Ok(())
}

fn document(job: &ReplayJob<'_>, done: &ReplayResult) -> Value {
    let tally = &done.tally;
    let pair = |(was, now): &(Option<String>, String)| json!([was, now]);
    let change = |(change, changed): &(&ChangeKey, &Changed)| {
        json!({
            "events": changed.events, "index": pair(&change.index),
            "sourcetype": pair(&change.sourcetype), "source": pair(&change.source),
            "class": pair(&change.class), "host_changed": change.host,
            "time_changed": change.time, "rules": change.rules, "samples": changed.samples,
        })
    };
    let changes: Vec<Value> = tally.changes().iter().map(change).collect();
    let mut destinations = serde_json::Map::new();
    for sent in &done.sent {
        for (name, one) in &sent.ledger.destinations {
            let rest: u64 = one.dropped.values().sum::<u64>() + one.pending;
            let words = sent.refused.iter().map(|r| {
                json!({ "reason": r.reason, "code": r.code, "text": r.text, "events": r.events })
            });
            let row = json!({
                "sent": one.accepted, "delivered": one.delivered,
                "refused": one.quarantined.values().sum::<u64>(), "not_delivered": rest,
                "refusals": words.collect::<Vec<_>>(),
            });
            destinations.insert(name.clone(), row);
        }
    }
    json!({
        "sent": job.args.send, "from": job.args.from, "read": tally.read, "same": tally.same,
        "changed": tally.changed, "filtered": tally.filtered, "rules": tally.rules,
        "changes": changes, "other_changes": tally.others, "unchanged_left_out": done.left_out, "unsent": done.unsent,
        "unknown_sources": done.strangers, "destinations": destinations,
        "left_quarantine": done.settled, "left_behind": done.left_behind,
        "left_behind_because": done.left_behind_because,
        "not_configured": done.not_configured, "missing": done.missing,
        "interrupted": done.interrupted,
    })
}
