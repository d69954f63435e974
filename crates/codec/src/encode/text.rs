//! An event's text, as the template of its class says.

use inrush_event::{Batch, EventText, ExtraKey, Format, Record, header_span};

use super::epoch::{push_bsd, push_ip};
use super::escape::set_broken;
use super::{json_escape, push_rfc3339_ms};

/// Form in which the text was put; JSON of its own needs no quotes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TextForm {
    Text,
    Json,
}

/// Appends the event's text, escaped; never nothing: an event without any text is its raw record.
pub(super) fn push(batch: &Batch, record: &Record, out: &mut Vec<u8>) -> TextForm {
    let start = out.len();
    let kind = batch
        .class(record)
        .map_or(EventText::ByFormat, |class| class.text);
    if kind == EventText::Own {
        let extra = batch.extra(record);
        if let Some(json) = extra.get(ExtraKey::Json) {
            // The quote before it was put already.
            out.pop();
            // Texts in it that nothing asked for were passed over, whatever bytes they have.
            if std::str::from_utf8(batch.get(record.raw)).is_ok() {
                out.extend_from_slice(json);
            } else {
                set_broken();
                out.extend_from_slice(String::from_utf8_lossy(json).as_bytes());
            }
            return TextForm::Json;
        }
        json_escape(extra.get(ExtraKey::Event).unwrap_or_default(), out);
    } else {
        fixed(kind, batch, record, out);
    }
    if out.len() == start {
        json_escape(batch.get(record.raw), out);
    }
    TextForm::Text
}

fn fixed(kind: EventText, batch: &Batch, record: &Record, out: &mut Vec<u8>) {
    let message = batch.get(record.message);
    match (kind, record.format) {
        (EventText::ByFormat, Format::Unparsed) if batch.class(record).is_none() => {}
        (EventText::Compact5424, _) | (EventText::ByFormat, Format::Rfc5424) => {
            compact_5424(batch, record, out);
        }
        (EventText::ByFormat | EventText::HeaderMessage, _) => tagged(batch, record, out),
        (EventText::Message | EventText::Own, _) => json_escape(message, out),
        (EventText::MessageTrimmed, _) => json_escape(message.trim_ascii(), out),
        (EventText::HeaderSdataMessage, _) => {
            header(batch, record, out);
            for span in [record.msg_id, record.sdata] {
                json_escape(batch.get(span), out);
                out.push(b' ');
            }
            json_escape(message, out);
        }
        (EventText::Standard, _) => {
            push_bsd(batch.time(record), out);
            out.push(b' ');
            let start = out.len();
            host(batch, record, out);
            // As in the envelope.
            out[start..].make_ascii_lowercase();
            out.push(b' ');
            tagged(batch, record, out);
        }
        (EventText::Everything, _) => {
            push_rfc3339_ms(batch.time(record), out);
            out.push(b' ');
            host(batch, record, out);
            out.push(b' ');
            tagged(batch, record, out);
        }
        (EventText::ProgramMessage, _) => {
            rebuilt(batch, record, out);
            json_escape(message, out);
        }
        (EventText::ProgramNoPidMessage, _) => {
            if !record.app.is_empty() {
                json_escape(batch.get(record.app), out);
                out.extend_from_slice(b": ");
            }
            json_escape(message, out);
        }
        (EventText::Fallback, _) => fallback(batch, record, out),
        (EventText::FallbackRaw, _) => {
            line("RAWMSG", batch.get(record.raw), out);
            fallback(batch, record, out);
        }
    }
}

/// Appends the host, or the sender's address where none was sent.
pub(super) fn host(batch: &Batch, record: &Record, out: &mut Vec<u8>) {
    match (record.host.is_empty(), batch.peer(record)) {
        (true, Some(peer)) => push_ip(peer.ip, out),
        _ => json_escape(batch.get(record.host), out),
    }
}

/// `program[pid]: message`, the bytes as they were received where they still stand together.
fn tagged(batch: &Batch, record: &Record, out: &mut Vec<u8>) {
    let arena = batch.bytes();
    if record.message.is_empty() && !record.app.is_empty() && record.app.end() <= record.raw.end() {
        let rest = arena.get(record.app.start()..record.raw.end());
        return json_escape(rest.unwrap_or_default(), out);
    }
    match header_span(arena, record.app, record.proc_id, record.message) {
        Some(header) => {
            let whole = arena.get(header.start()..record.message.end());
            json_escape(whole.unwrap_or_default(), out);
        }
        None => {
            rebuilt(batch, record, out);
            json_escape(batch.get(record.message), out);
        }
    }
}

fn header(batch: &Batch, record: &Record, out: &mut Vec<u8>) {
    match header_span(batch.bytes(), record.app, record.proc_id, record.message) {
        Some(header) => json_escape(batch.get(header), out),
        None => rebuilt(batch, record, out),
    }
}

/// `program[pid]: ` put together anew.
fn rebuilt(batch: &Batch, record: &Record, out: &mut Vec<u8>) {
    if record.app.is_empty() {
        return;
    }
    json_escape(batch.get(record.app), out);
    if !record.proc_id.is_empty() {
        out.push(b'[');
        json_escape(batch.get(record.proc_id), out);
        out.push(b']');
    }
    out.extend_from_slice(b": ");
}

fn compact_5424(batch: &Batch, record: &Record, out: &mut Vec<u8>) {
    out.extend_from_slice(b"- -");
    for span in [record.app, record.proc_id, record.msg_id, record.sdata] {
        if span.is_empty() {
            out.extend_from_slice(b" -");
        } else {
            out.push(b' ');
            json_escape(batch.get(span), out);
        }
    }
    json_escape(batch.get(record.message), out);
}

/// PRI of a message that has none (RFC 3164 section 4.3.3): user, notice.
const PRI_DEFAULT: u8 = 13;

/// The parts of the header by name, a line each.
fn fallback(batch: &Batch, record: &Record, out: &mut Vec<u8>) {
    let pri = match record.pri {
        Record::PRI_NONE => PRI_DEFAULT,
        pri => pri,
    };
    line("PRI", pri.to_string().as_bytes(), out);
    let header = header_span(batch.bytes(), record.app, record.proc_id, record.message);
    let header = header.map_or(&b""[..], |header| batch.get(header));
    line("LEGACY_MSGHDR", header, out);
    line("PROGRAM", batch.get(record.app), out);
    line("PID", batch.get(record.proc_id), out);
    line("MESSAGE", batch.get(record.message), out);
}

/// `NAME=value` and the end of a line, unless there is no value.
fn line(name: &str, value: &[u8], out: &mut Vec<u8>) {
    if !value.is_empty() {
        out.extend_from_slice(name.as_bytes());
        out.push(b'=');
        json_escape(value, out);
        out.extend_from_slice(b"\\n");
    }
}
