//! Records from stdin, cut as a source cuts them; memory is bounded by the longest record kept.

use std::fmt;
use std::io::{BufRead, Read};
use std::net::IpAddr;

use inrush_codec::{Frame, FrameDecoder, SyslogOptions};
use inrush_event::{Anomalies, Timestamp};
use inrush_inspect::explain::RawRecord;
use serde_json::Value;

/// A record, or why a line of the input is none.
pub(super) type InputRecord<'a> = Result<RawRecord<'a>, InputFault>;

/// A line of answers and the record in it, or why it has none.
pub(super) type AnswerRecord<'a> = Result<(&'a Value, RawRecord<'a>), InputFault>;

/// A taker of objects, with the numbers of their lines.
type ObjectVisitor<'a> = dyn FnMut(u64, Result<&Value, InputFault>) -> anyhow::Result<()> + 'a;

/// A line of the input that holds no record.
pub(super) struct InputFault {
    line: u64,
    what: &'static str,
}

impl fmt::Display for InputFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

/// Bytes asked of stdin at once.
const READ_BYTES: usize = 64 * 1024;

/// Bytes of a JSON line for each byte of a message: `\u0000` for one byte, in `raw` and again in
/// `message`, and the other fields beside them.
const JSON_BYTES_PER_BYTE: usize = 16;

/// Cuts a stream as the source's connections are cut.
pub(super) fn raw(
    mut input: impl Read,
    options: &SyslogOptions,
    show: &mut dyn FnMut(InputRecord<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut decoder = FrameDecoder::new(options.framing, options.message_bytes_max());
    let mut buffer = Vec::new();
    let mut frames: Vec<Frame> = Vec::new();
    loop {
        let kept = buffer.len();
        buffer.resize(kept + READ_BYTES, 0);
        let n = match input.read(&mut buffer[kept..]) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => 0,
            other => {
                let n = other?;
                if n == 0 {
                    buffer.truncate(kept);
                    break;
                }
                n
            }
        };
        buffer.truncate(kept + n);
        let keep = decoder.decode(&buffer, 0, |frame| frames.push(frame));
        show_all(&buffer, &mut frames, show)?;
        buffer.drain(..keep);
    }
    decoder.finish(&buffer, 0, |frame| frames.push(frame));
    // The last line of a text often has no end; that says nothing of the sender's framing.
    if let Some(last) = frames.last_mut() {
        last.anomalies = without(last.anomalies, Anomalies::UNTERMINATED);
    }
    show_all(&buffer, &mut frames, show)
}

fn without(set: Anomalies, one: Anomalies) -> Anomalies {
    Anomalies::from_bits(set.bits() & !one.bits())
}

fn show_all(
    buffer: &[u8],
    frames: &mut Vec<Frame>,
    show: &mut dyn FnMut(InputRecord<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    for frame in frames.drain(..) {
        let bytes = frame.span.of(buffer);
        show(Ok(RawRecord {
            bytes,
            framing: frame.anomalies,
            sender: None,
            listener: None,
            received: None,
        }))?;
    }
    Ok(())
}

/// Takes `raw`, and `sender` and `received` where they are given, out of lines of JSON.
pub(super) fn json(
    input: impl BufRead,
    message_bytes_max: usize,
    show: &mut dyn FnMut(InputRecord<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let what = "no text in `raw`; give JSON lines as the file destination writes them";
    objects(input, message_bytes_max, &mut |line, object| {
        show(object.and_then(|object| {
            let raw = object["raw"].as_str().ok_or(InputFault { line, what })?;
            let listener = object["listener"].as_str();
            Ok(arrival(raw, object, listener, message_bytes_max))
        }))
    })
}

/// Takes `message`, and what else says how it came, out of lines of answers.
pub(super) fn answers(
    input: impl BufRead,
    message_bytes_max: usize,
    show: &mut dyn FnMut(AnswerRecord<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let what = "no text in `message`, or no list in `answers`";
    objects(input, message_bytes_max, &mut |line, object| {
        let port = object
            .as_ref()
            .ok()
            .and_then(|object| object["port"].as_u64());
        let port = port.map(|port| format!("tcp:{port}"));
        show(object.and_then(|object| {
            let message = object["message"].as_str();
            let message = message.filter(|_| object["answers"].is_array());
            let message = message.ok_or(InputFault { line, what })?;
            let listener = object["listener"].as_str().or(port.as_deref());
            let arrival = arrival(message, object, listener, message_bytes_max);
            Ok((object, arrival))
        }))
    })
}

/// Objects, one a line.
fn objects(
    mut input: impl BufRead,
    message_bytes_max: usize,
    take: &mut ObjectVisitor<'_>,
) -> anyhow::Result<()> {
    let most = (message_bytes_max * JSON_BYTES_PER_BYTE) as u64 + 64 * 1024;
    let mut text = Vec::new();
    for line in 1.. {
        text.clear();
        input.by_ref().take(most).read_until(b'\n', &mut text)?;
        if text.is_empty() {
            break;
        }
        if text.last() != Some(&b'\n') && text.len() as u64 == most {
            input.skip_until(b'\n')?;
            let what = "longer than a record can be; is it JSON lines?";
            take(line, Err(InputFault { line, what }))?;
            continue;
        }
        if text.trim_ascii().is_empty() {
            continue;
        }
        let object = serde_json::from_slice::<Value>(&text);
        let what = "not JSON; use --input raw for raw records";
        take(line, object.as_ref().map_err(|_| InputFault { line, what }))?;
    }
    Ok(())
}

fn arrival<'a>(
    raw: &'a str,
    object: &Value,
    listener: Option<&'a str>,
    message_bytes_max: usize,
) -> RawRecord<'a> {
    let raw = uncounted(raw.as_bytes());
    let mut framing = Anomalies::NONE;
    if raw.len() > message_bytes_max {
        framing.insert(Anomalies::OVERSIZE);
    }
    RawRecord {
        bytes: &raw[..raw.len().min(message_bytes_max)],
        framing,
        listener,
        sender: ["sender", "peer"]
            .iter()
            .find_map(|key| address(object[key].as_str()?)),
        received: object["received"]
            .as_str()
            .and_then(timestamp)
            .or_else(|| epoch(&object["received_at"])),
    }
}

/// An address, with or without a port behind it.
fn address(text: &str) -> Option<IpAddr> {
    let with_port = || text.parse::<std::net::SocketAddr>().map(|addr| addr.ip());
    text.parse().or_else(|_| with_port()).ok()
}

/// Epoch seconds with a fraction, a number or a text.
fn epoch(value: &Value) -> Option<Timestamp> {
    let text = match value {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        _ => return None,
    };
    let (seconds, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let seconds: i64 = seconds.parse().ok()?;
    let nanos: i64 = format!("{fraction:0<9.9}").parse().ok()?;
    Some(Timestamp(
        seconds.checked_mul(1_000_000_000)?.checked_add(nanos)?,
    ))
}

/// The record without the octet count that it may bring (RFC 6587 section 3.4.1).
fn uncounted(raw: &[u8]) -> &[u8] {
    let counted = || {
        let blank = raw.iter().take(6).position(|byte| *byte == b' ')?;
        let count: usize = std::str::from_utf8(&raw[..blank]).ok()?.parse().ok()?;
        let rest = &raw[blank + 1..];
        (rest.len() == count && rest.first() == Some(&b'<')).then_some(rest)
    };
    counted().unwrap_or(raw)
}

fn timestamp(text: &str) -> Option<Timestamp> {
    let time: jiff::Timestamp = text.parse().ok()?;
    i64::try_from(time.as_nanosecond()).ok().map(Timestamp)
}
