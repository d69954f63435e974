//! `inrush queue quarantine`: what destinations refused, and what is to become of it.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use inrush_codec::encode::JsonLines;
use inrush_event::limits;
use inrush_pipeline::DataDirLock;
use inrush_pipeline::quarantine::{FOLDER, QuarantineQuery, drop_entries, push_entry};
use inrush_queue::{QuarantineFilter, QuarantineLog, QuarantineReader};
use serde_json::{Value, json};

use super::args::{
    QuarantineChange, QuarantineCommand, QueueLocation, RefusalSelection, RefusedCatArgs,
};
use super::client;
use crate::cmd::UsageError;

/// Runs a subcommand.
pub(super) fn run(place: &QueueLocation, command: &QuarantineCommand) -> anyhow::Result<ExitCode> {
    match command {
        QuarantineCommand::Ls(which) => ls(place, which),
        QuarantineCommand::Cat(which) => cat(place, which),
        QuarantineCommand::Replay(change) => replay(place, change),
        QuarantineCommand::Drop(change) => drop_chosen(place, change),
    }
}

fn filter(query: &QuarantineQuery) -> anyhow::Result<QuarantineFilter> {
    Ok(query.filter().map_err(UsageError)?)
}

/// The entries in the files; `None` if nothing was ever refused.
fn entries(data_dir: &Path, filter: &QuarantineFilter) -> anyhow::Result<Option<QuarantineReader>> {
    let log = super::inspect(data_dir, FOLDER)?;
    Ok(log.map(|log| log.entries(filter)))
}

fn complain(entries: Option<&QuarantineReader>) -> ExitCode {
    let bad = entries.map_or(&[][..], QuarantineReader::bad);
    if bad.is_empty() {
        return ExitCode::SUCCESS;
    }
    let bytes: u64 = bad.iter().map(|bad| bad.bytes.end - bad.bytes.start).sum();
    eprintln!("inrush: {bytes} bytes of quarantine could not be read");
    ExitCode::FAILURE
}

fn ls(place: &QueueLocation, which: &RefusalSelection) -> anyhow::Result<ExitCode> {
    let mut entries = entries(&place.data_dir()?, &filter(&which.query(false))?)?;
    let mut groups: BTreeMap<(String, String, u32), RefusalGroup> = BTreeMap::new();
    for entry in entries.iter_mut().flatten() {
        let key = (entry.destination, entry.note.reason, entry.note.code);
        let group = groups.entry(key).or_insert_with(|| RefusalGroup {
            events: 0,
            first: entry.number,
            last: entry.number,
            refused_ns: entry.note.at.0,
            text: String::new(),
        });
        group.events += 1;
        group.last = entry.number;
        group.refused_ns = group.refused_ns.max(entry.note.at.0);
        group.text = entry.note.text;
    }
    let mut out = std::io::stdout().lock();
    if !place.json {
        writeln!(
            out,
            "DESTINATION          REASON          CODE      EVENTS        IDS       LAST REFUSED          \
             LAST WORDS"
        )?;
    }
    for ((destination, reason, code), group) in &groups {
        if place.json {
            let line = json!({
                "destination": destination, "reason": reason, "code": code,
                "events": group.events, "first_id": group.first, "last_id": group.last,
                "last_refused_ns": group.refused_ns, "last_text": group.text,
            });
            writeln!(out, "{line}")?;
            continue;
        }
        let ids = format!("{}-{}", group.first, group.last);
        let at = super::date(group.refused_ns / 1_000_000_000);
        let (events, text) = (group.events, printable(&group.text));
        writeln!(
            out,
            "{destination:<20} {reason:<15} {code:>4} {events:>11} {ids:>15}  {at}  {text}"
        )?;
    }
    out.flush()?;
    Ok(complain(entries.as_ref()))
}

/// Entries that have destination, reason and code in common.
struct RefusalGroup {
    events: u64,
    first: u64,
    last: u64,
    refused_ns: i64,
    text: String,
}

/// A stranger's words, without what a terminal would obey.
fn printable(text: &str) -> String {
    text.chars()
        .map(|c| {
            if inrush_event::is_unprintable(c) {
                ' '
            } else {
                c
            }
        })
        .collect()
}

fn cat(place: &QueueLocation, args: &RefusedCatArgs) -> anyhow::Result<ExitCode> {
    let mut entries = entries(&place.data_dir()?, &filter(&args.which.query(false))?)?;
    let most = args.limit.unwrap_or(usize::MAX);
    let mut out = BufWriter::new(std::io::stdout().lock());
    let (mut encoder, mut line) = (JsonLines::new(), Vec::new());
    for entry in entries.iter_mut().flatten().take(most) {
        line.clear();
        push_entry(&entry, &mut encoder, &mut line);
        line.push(b'\n');
        out.write_all(&line)?;
    }
    out.flush()?;
    Ok(complain(entries.as_ref()))
}

/// Query of a change, checked to name events, so that nobody changes all by oversight.
fn chosen(change: &QuarantineChange) -> anyhow::Result<QuarantineQuery> {
    let query = change.which.query(change.all);
    if !query.is_chosen() {
        let text = "which events? --destination, --reason, --id or --since, or --all";
        return Err(UsageError(text.to_owned()).into());
    }
    filter(&query)?;
    Ok(query)
}

/// Asks the running process: where the command line or the configuration says.
fn ask(
    place: &QueueLocation,
    change: &QuarantineChange,
    path: &str,
    query: &QuarantineQuery,
) -> anyhow::Result<Value> {
    if let Some(admin) = change.admin {
        return client::post(admin, client::token(None).as_deref(), path, query);
    }
    let config = place.config.load()?;
    let token = client::token(Some(&config));
    client::post(config.admin.listen.0, token.as_deref(), path, query)
}

fn replay(place: &QueueLocation, change: &QuarantineChange) -> anyhow::Result<ExitCode> {
    let query = chosen(change)?;
    let report = ask(place, change, "replay", &query)?;
    let mut out = std::io::stdout().lock();
    let n = |key: &str| report[key].as_u64().unwrap_or_default();
    if place.json {
        writeln!(out, "{report}")?;
    } else {
        writeln!(out, "{} events are on their way again", n("replayed"))?;
        if n("not_configured") > 0 {
            let stay = n("not_configured");
            writeln!(
                out,
                "{stay} stay: their destination is not in the configuration"
            )?;
        }
        if n("left_behind") > 0 {
            let left = n("left_behind");
            writeln!(
                out,
                "{left} went out but lie here still: they may be sent twice"
            )?;
        }
    }
    out.flush()?;
    if let Some(why) = report["stopped"].as_str() {
        bail!("the replay ended early, the rest stays in quarantine: {why}");
    }
    Ok(ExitCode::SUCCESS)
}

fn drop_chosen(place: &QueueLocation, change: &QuarantineChange) -> anyhow::Result<ExitCode> {
    let query = chosen(change)?;
    let data_dir = place.data_dir()?;
    let dropped = match DataDirLock::take(&data_dir) {
        Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => {
            let answer = ask(place, change, "drop", &query)?;
            answer["dropped"].as_u64().unwrap_or_default()
        }
        Err(error) => bail!("data_dir {}: {error}", data_dir.display()),
        Ok(_owner) if !data_dir.join(FOLDER).is_dir() => 0,
        Ok(_owner) => {
            let bytes_max = inrush_event::ByteSize(limits::QUARANTINE_BYTES_DEFAULT);
            let log = QuarantineLog::new(&data_dir.join(FOLDER), bytes_max);
            drop_entries(&log, &filter(&query)?)?
        }
    };
    let mut out = std::io::stdout().lock();
    if place.json {
        writeln!(out, "{}", json!({ "dropped": dropped }))?;
    } else {
        writeln!(out, "{dropped} events deleted")?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
