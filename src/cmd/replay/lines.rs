//! Records from lines of JSON: as a `file` destination writes them, as `inrush search --json`
//! prints them, or as `inrush queue quarantine cat` does, with the record in `event`.

use std::io::BufRead;
use std::net::IpAddr;
use std::ops::ControlFlow;

use base64::Engine;
use inrush_event::{Timestamp, limits};
use inrush_inspect::replay::{EventMetadata, StoredRecord, framing, protocol};
use serde_json::Value;

/// A record, or what is wrong with a line.
pub(super) type RecordLine<'a> = Result<StoredRecord<'a>, String>;

/// Bytes of a line at most: 16 for each byte of the longest message, as `\u0000` in `raw` and again
/// in `message`, with the other fields beside them.
const LINE_BYTES_MAX: u64 = limits::MESSAGE_BYTES_MAX as u64 * 16 + 64 * 1024;

/// Reads lines to the end of the input, or until `take` has enough.
pub(super) fn each(
    mut input: impl BufRead,
    take: &mut dyn FnMut(RecordLine<'_>) -> anyhow::Result<ControlFlow<()>>,
) -> anyhow::Result<()> {
    let mut text = Vec::new();
    for number in 1.. {
        text.clear();
        let mut limited = std::io::Read::take(&mut input, LINE_BYTES_MAX);
        limited.read_until(b'\n', &mut text)?;
        if text.is_empty() {
            break;
        }
        if text.len() as u64 == LINE_BYTES_MAX && text.last() != Some(&b'\n') {
            input.skip_until(b'\n')?;
            let long = format!("line {number}: longer than a record can be");
            if take(Err(long))?.is_break() {
                break;
            }
            continue;
        }
        if text.trim_ascii().is_empty() {
            continue;
        }
        let taken = match serde_json::from_slice::<Value>(&text) {
            Ok(line) => one(&line, number, take)?,
            Err(_) => take(Err(format!(
                "line {number}: not JSON; `inrush explain` reads raw records"
            )))?,
        };
        if taken.is_break() {
            break;
        }
    }
    Ok(())
}

/// The bytes that base64 stands for, if it is that.
pub(super) fn decoded(text: &str) -> Option<Vec<u8>> {
    let engine = base64::engine::general_purpose::STANDARD;
    engine.decode(text).ok()
}

fn one(
    line: &Value,
    number: u64,
    take: &mut dyn FnMut(RecordLine<'_>) -> anyhow::Result<ControlFlow<()>>,
) -> anyhow::Result<ControlFlow<()>> {
    // Of an entry of quarantine.
    let event = if line["event"].is_object() {
        &line["event"]
    } else {
        line
    };
    let anomalies: Vec<&str> = match event["anomalies"].as_array() {
        Some(names) => names.iter().filter_map(Value::as_str).collect(),
        None => Vec::new(),
    };
    // What searches print has it in `fields`; other programs may have put one of their own there.
    let searched = &event["fields"]["raw_base64"];
    let searched = searched
        .as_str()
        .filter(|_| anomalies.contains(&"not_utf8"));
    let decoded = line["raw_base64"].as_str().or(searched).and_then(decoded);
    let raw = decoded
        .as_deref()
        .or(event["raw"].as_str().map(str::as_bytes));
    let Some(raw) = raw else {
        return take(Err(format!("line {number}: no text in `raw`")));
    };
    let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
    let received = time(event, "received").unwrap_or_else(Timestamp::now);
    // Searches print what has no column of its own under `fields`.
    let client = event["tls_client"].as_str();
    let client = client.or(event["fields"]["tls_client"].as_str());
    // What searches print has no `format`, and they know of no class.
    let searched = event["format"].is_null();
    take(Ok(StoredRecord {
        raw,
        framing: framing(&anomalies.join(",")),
        source: event["source"].as_str().unwrap_or_default(),
        sender: event["sender"]
            .as_str()
            .and_then(|text| text.parse::<IpAddr>().ok()),
        protocol: event["protocol"].as_str().and_then(protocol),
        client: client.map(Into::into),
        local_port: None,
        received,
        was: EventMetadata {
            time: time(event, "time").unwrap_or(received),
            host: text("host"),
            index: text("index"),
            sourcetype: text("sourcetype"),
            source: None,
            vendor: text("vendor"),
            product: text("product"),
            class: (!searched).then(|| text("class")),
        },
        number,
    }))
}

/// RFC 3339 under the name itself, or nanoseconds as text under the name with `_ns`.
fn time(event: &Value, name: &str) -> Option<Timestamp> {
    if let Some(ns) = event[format!("{name}_ns")].as_str() {
        return ns.parse().ok().map(Timestamp);
    }
    let time: jiff::Timestamp = event[name].as_str()?.parse().ok()?;
    i64::try_from(time.as_nanosecond()).ok().map(Timestamp)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn three_kinds_of_lines_are_understood_and_others_are_named() {
        let input = "{\"raw\":\"a\",\"time\":\"2024-05-06T07:08:09.5Z\",\"format\":\"rfc3164\",\
            \"class\":\"c\",\"sender\":\"10.0.0.5\",\"anomalies\":[\"oversize\",\"no_pri\"]}\n\
            {\"raw\":\"b\",\"time_ns\":\"5\",\"received_ns\":\"7\",\"vendor\":\"v\"}\n\
            {\"id\":3,\"raw_base64\":\"/2M=\",\"event\":{\"raw\":\"\u{fffd}c\",\"source\":\"s\"}}\n\
            \nno JSON\n{\"message\":\"x\"}\n{\"raw\":\"last\"}\n\
            {\"raw\":\"\u{fffd}d\",\"anomalies\":[\"not_utf8\"],\
            \"fields\":{\"raw_base64\":\"/2M=\"}}\n\
            {\"raw\":\"e\",\"fields\":{\"raw_base64\":\"/2M=\"}}";
        let (mut found, mut wrong) = (Vec::new(), Vec::new());
        each(input.as_bytes(), &mut |line| {
            match line {
                Ok(one) => {
                    let sender = one.sender.map(|ip| ip.to_string());
                    let was = (one.was.time.0, one.was.class.clone(), sender);
                    found.push((one.raw.to_vec(), one.number, was));
                }
                Err(what) => wrong.push(what),
            }
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
        let sender = Some("10.0.0.5".to_owned());
        let first = (1_714_979_289_500_000_000, Some("c".to_owned()), sender);
        assert_eq!(found[0], (b"a".to_vec(), 1, first));
        assert_eq!(found[1], (b"b".to_vec(), 2, (5, None, None)));
        assert_eq!((&found[2].0[..], found[2].1), (&b"\xffc"[..], 3));
        assert_eq!(found[3].0, b"last");
        assert_eq!(
            (&found[4].0[..], &found[5].0[..]),
            (&b"\xffc"[..], &b"e"[..])
        );
        assert_eq!(wrong.len(), 2);
        assert!(wrong[0].starts_with("line 5: not JSON"), "{wrong:?}");
        assert!(wrong[1].starts_with("line 6: no text"), "{wrong:?}");
    }
}
