//! Aligned text for people; control characters of a record never reach the terminal.

use std::fmt::Write as _;
use std::io::{self, Write};

use inrush_event::{facility_name, severity_name};
use inrush_inspect::explain::collector::EventValue;
use inrush_inspect::explain::log::EventLines;
use inrush_inspect::explain::pod_policy::{PodName, PodPolicy};
use inrush_inspect::explain::{RULE, RecordExplanation, reason, rfc3339};

/// Characters of the column of names.
const NAME_CHARS: usize = 11;

struct ExplainPage<'a, W> {
    out: &'a mut W,
    colour: bool,
}

impl<W: Write> ExplainPage<'_, W> {
    /// One line, the name in its column; a line without a name goes on with the one before.
    fn line(&mut self, name: &str, value: &str, note: &str) -> io::Result<()> {
        let (dim, reset) = if self.colour {
            ("\x1b[2m", "\x1b[0m")
        } else {
            ("", "")
        };
        write!(self.out, "  {dim}{name:NAME_CHARS$}{reset} {value}")?;
        if !note.is_empty() {
            let gap = if value.is_empty() { "" } else { "  " };
            write!(self.out, "{gap}{dim}{note}{reset}")?;
        }
        writeln!(self.out)
    }
}

/// Writes `explained` as a paragraph.
pub(super) fn write(
    explained: &RecordExplanation,
    colour: bool,
    out: &mut impl Write,
) -> io::Result<()> {
    let record = &explained.record;
    let (bold, reset) = if colour {
        ("\x1b[1m", "\x1b[0m")
    } else {
        ("", "")
    };
    if explained.number > 1 {
        writeln!(out)?;
    }
    let (kind, number) = match explained.event_number() {
        Some(number) => ("event", number),
        None if explained.lines.is_some() => ("event", explained.number),
        None => ("record", explained.number),
    };
    let of = match &explained.lines {
        Some(lines) => lines_of(lines),
        None => record.format.name().to_owned(),
    };
    writeln!(out, "{bold}{kind} {number}: {of}{reset}")?;
    let mut page = ExplainPage { out, colour };
    match &explained.values {
        Some(values) => decoded(explained, values, &mut page)?,
        None => header(explained, &mut page)?,
    }
    anomalies(explained, &mut page)?;
    decision(explained, &mut page)?;
    if let Some(rule) = &explained.filtered {
        return page.line("hec", "nothing is sent", &format!("`{rule}` filters it"));
    }
    if explained.hec.is_empty() {
        page.line("hec", "nothing is sent yet", "it waits for the other parts")?;
    }
    for (at, hec) in explained.envelopes.iter().enumerate() {
        let mine = at + 1 == explained.envelopes.len() && !explained.hec.is_empty();
        let note = if mine {
            ""
        } else {
            "of parts that came before"
        };
        page.line("hec", &printable(hec), note)?;
    }
    Ok(())
}

/// Values of an event of a collector, and the places that they come from.
fn decoded(
    explained: &RecordExplanation,
    values: &[EventValue],
    page: &mut ExplainPage<'_, impl Write>,
) -> io::Result<()> {
    for value in values {
        let from = printable(value.from.as_bytes());
        page.line(value.name, &printable(&value.value), &from)?;
    }
    let received = rfc3339(explained.record.received);
    page.line("received", received.as_deref().unwrap_or("-"), "")?;
    if let Some(lines) = &explained.lines {
        return log_event(explained, lines, page);
    }
    if let Some(event) = explained.event() {
        page.line("event", &printable(event), "")?;
    }
    if let Some(fields) = explained.indexed_fields() {
        page.line("fields", &printable(fields), "")?;
    }
    Ok(())
}

/// Lines that an event of a log came of.
fn lines_of(lines: &EventLines) -> String {
    let stream = match lines.stream.as_str() {
        "" => String::new(),
        stream => format!(", {stream}"),
    };
    match lines.pieces {
        0 | 1 => format!("line {}{stream}", lines.first),
        n => format!(
            "{n} pieces in lines {} to {}{stream}",
            lines.first, lines.last
        ),
    }
}

/// Text and fields of an event of a log.
fn log_event(
    explained: &RecordExplanation,
    lines: &EventLines,
    page: &mut ExplainPage<'_, impl Write>,
) -> io::Result<()> {
    if let Some(fault) = lines.fault {
        page.line("form", fault, "taken as it is")?;
    }
    let text = explained.batch.get(explained.record.message);
    page.line("text", &printable(text), "")?;
    let mut heading = "fields";
    for (name, value) in explained.class_fields() {
        let field = format!("{name}={value}");
        page.line(heading, &printable(field.as_bytes()), "")?;
        heading = "";
    }
    Ok(())
}

/// Writes the policy of a container, with the annotation that decided each key.
pub(super) fn policy(
    pod: Option<&PodName>,
    policy: Option<&PodPolicy>,
    colour: bool,
    out: &mut impl Write,
) -> io::Result<()> {
    let (Some(pod), Some(policy)) = (pod, policy) else {
        return Ok(());
    };
    let PodName { namespace, name } = pod;
    writeln!(
        out,
        "pod {namespace}/{name}, container {}",
        policy.container
    )?;
    let mut page = ExplainPage { out, colour };
    let lines = policy.lines();
    let width = lines.iter().map(|line| line.key.len()).max().unwrap_or(0);
    for line in &lines {
        let key = format!("{:width$}", printable(line.key.as_bytes()));
        let from = printable(line.from.as_bytes());
        page.line(&key, &printable(line.value.as_bytes()), &from)?;
    }
    for problem in policy.problems() {
        page.line("ignored", &printable(problem.as_bytes()), "")?;
    }
    if lines.is_empty() && policy.problems().is_empty() {
        page.line("policy", "no annotation decides anything", "")?;
    }
    writeln!(page.out)
}

/// Header of a record.
fn header(explained: &RecordExplanation, page: &mut ExplainPage<'_, impl Write>) -> io::Result<()> {
    let record = &explained.record;
    let number = |n: Option<u8>| n.map_or(String::new(), |n| format!("({n})"));
    let facility = record.facility();
    page.line(
        "facility",
        facility.map_or("-", facility_name),
        &number(facility),
    )?;
    let severity = record.severity();
    page.line(
        "severity",
        severity.map_or("-", severity_name),
        &number(severity),
    )?;
    times(explained, page)?;
    for (name, bytes) in explained.fields() {
        let value = bytes.map_or("-".to_owned(), printable);
        page.line(name, &value, "")?;
    }
    Ok(())
}

/// Writes what waited at the end of the input for parts that did not come.
pub(super) fn rest(waited: &[Vec<u8>], out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\nthe input ended; these waited for further parts")?;
    let colour = false;
    let mut page = ExplainPage { out, colour };
    for hec in waited {
        page.line("hec", &printable(hec), "")?;
    }
    Ok(())
}

fn times(explained: &RecordExplanation, page: &mut ExplainPage<'_, impl Write>) -> io::Result<()> {
    let record = &explained.record;
    let time = rfc3339(record.event_time).unwrap_or_else(|| "-".to_owned());
    let notes = explained.time_notes();
    page.line("time", &time, notes.first().map_or("", String::as_str))?;
    for note in notes.iter().skip(1) {
        page.line("", &" ".repeat(time.chars().count()), note)?;
    }
    page.line(
        "received",
        rfc3339(record.received).as_deref().unwrap_or("-"),
        "",
    )
}

fn anomalies(
    explained: &RecordExplanation,
    page: &mut ExplainPage<'_, impl Write>,
) -> io::Result<()> {
    let width = explained
        .anomalies()
        .map(|(name, _)| name.len())
        .max()
        .unwrap_or(0);
    let mut heading = "anomalies";
    for (name, meaning) in explained.anomalies() {
        page.line(heading, &format!("{name:width$}"), meaning)?;
        heading = "";
    }
    if heading.is_empty() {
        Ok(())
    } else {
        page.line(heading, "none", "")
    }
}

fn decision(
    explained: &RecordExplanation,
    page: &mut ExplainPage<'_, impl Write>,
) -> io::Result<()> {
    let names = explained.batch.names(&explained.record);
    let class = explained.class();
    page.line(
        "class",
        class.as_deref().unwrap_or("none"),
        &explained.why(),
    )?;
    for transform in &explained.transforms {
        page.line("transform", transform, "changed it")?;
    }
    if let Some(destinations) = &explained.destinations {
        page.line("goes to", &destinations.join(", "), "by a route")?;
    }
    let mut heading = "asked";
    for one in explained.considered.iter().flatten() {
        let what = format!("{} ({})", one.rule, one.stage);
        let note = reason(&one.outcome).unwrap_or_else(|| "taken".to_owned());
        page.line(heading, &what, &note)?;
        heading = "";
    }
    if explained.values.is_none() {
        let note = if class.is_none() { RULE } else { "" };
        page.line("index", &printable(names.index), note)?;
        page.line("sourcetype", &printable(names.sourcetype), note)?;
    }
    let Some(peer) = explained.peer() else {
        return Ok(());
    };
    let sender = format!(
        "{} over {} to port {}",
        peer.ip,
        peer.protocol.name(),
        peer.local_port
    );
    let note = if explained.stand_in {
        "assumed: the input does not say"
    } else {
        ""
    };
    page.line("sender", &sender, note)?;
    match &peer.client {
        Some(client) => {
            let note = "the name in its certificate";
            page.line("tls_client", &printable(client.as_bytes()), note)
        }
        None => Ok(()),
    }
}

/// Text fit for a terminal: what is not UTF-8 as U+FFFD, control characters as `\n` or `\u{1b}`.
fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if inrush_event::is_unprintable(c) {
            let _ = write!(out, "{}", c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_sees_no_control_characters() {
        assert_eq!(
            printable(b"a\x1b[31m\n\xff\xc2\x9b"),
            "a\\u{1b}[31m\\n\u{fffd}\\u{9b}"
        );
        assert_eq!(printable("\u{202e}é".as_bytes()), "\\u{202e}é");
    }
}
