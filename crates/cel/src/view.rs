//! An event as the variables of an expression.

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::IpAddr;

use cel::common::types::{CelDouble, CelInt, CelString};
use cel::common::value::{CowVal, Val};
use cel::context::VariableResolver;
use inrush_event::{
    ClassInfo, EventNames, Extra, ExtraKey, Format, Record, SourceInfo, Span, Timestamp,
};

/// Variables that expressions can ask an event for, each with what it is.
pub const VARIABLES: &[(&str, &str)] = &[
    ("index", "where it is kept: text"),
    ("sourcetype", "text"),
    ("source", "text, if packs set one"),
    ("vendor", "who makes the product, if it was recognised"),
    ("product", "the product, if it was recognised"),
    ("class", "the kind of event, if it was recognised"),
    ("rule", "the rules that recognised it, joined by `|`"),
    ("listener", "the name of the source in the configuration"),
    ("sender", "the sender's address: text"),
    (
        "tls_client",
        "the name in the client's certificate, which was verified; empty without one",
    ),
    ("host", "text"),
    ("program", "the program, or APP-NAME: text"),
    ("pid", "the process, or PROCID: text"),
    ("msgid", "MSGID: text"),
    ("message", "the text behind the header"),
    ("raw", "the whole record as it came: text"),
    ("facility", "0 to 23; 1 (user) for a record without a PRI"),
    (
        "severity",
        "0 (emergency) to 7 (debug); 5 (notice) for a record without a PRI",
    ),
    ("format", "rfc3164, cisco, rfc5424 or unparsed"),
    ("time", "when it happened, in seconds since 1970"),
    ("received", "when it came, in seconds since 1970"),
    ("size", "bytes of the record"),
    ("fields", "indexed fields: a map of texts"),
    ("sdata", "structured data: a map of texts, by `ID.NAME`"),
];

/// Those that all events of a class share.
pub(crate) const OF_CLASS: [&str; 8] = [
    "index",
    "sourcetype",
    "source",
    "vendor",
    "product",
    "class",
    "rule",
    "listener",
];

/// One event.
pub struct EventView<'a> {
    /// The bytes that its spans lie in.
    pub arena: &'a [u8],
    /// The event.
    pub record: &'a Record,
    /// Its names: index, sourcetype, source, vendor, product and class.
    pub names: EventNames<'a>,
    /// Class that it was recognised as, if any.
    pub class: Option<&'a ClassInfo>,
    /// Source in the configuration by which it came in.
    pub source: &'a SourceInfo,
    /// The sender's address, if known.
    pub sender: Option<IpAddr>,
    /// The name in its certificate.
    pub client: Option<&'a str>,
}

/// RFC 3164 section 4.3.3: what has no PRI is user.notice.
const PRI_NONE: u8 = 13;

fn text(bytes: &[u8]) -> CelString<'_> {
    // Looking for chunks of UTF-8 takes ten times as long as looking whether all of it is.
    let text = std::str::from_utf8(bytes).map(Cow::Borrowed);
    CelString::from(text.unwrap_or_else(|_| String::from_utf8_lossy(bytes)))
}

fn seconds(time: Timestamp) -> CelDouble {
    CelDouble::from(time.0 as f64 / 1e9)
}

impl EventView<'_> {
    fn part(&self, span: Span) -> &[u8] {
        span.of(self.arena)
    }

    fn pri(&self) -> u8 {
        match self.record.pri {
            Record::PRI_NONE => PRI_NONE,
            pri => pri,
        }
    }

    /// Indexed fields; those of the event itself go before those of its class.
    fn fields(&self) -> HashMap<String, String> {
        let of_class = self.class.map_or(&[][..], |class| &class.fields);
        let mut fields: HashMap<String, String> = of_class.iter().cloned().collect();
        if self.record.format.has_json_fields() {
            add_fields(self.part(self.record.sdata), &mut fields);
        }
        let extra = Extra::new(self.part(self.record.extra));
        if let Some(own) = extra.get(ExtraKey::Fields) {
            let object = [b"{", own.strip_prefix(b",").unwrap_or(own), b"}"].concat();
            add_fields(&object, &mut fields);
        }
        fields
    }

    /// A part of a syslog header; empty for an event that has none.
    fn header(&self, span: Span) -> &[u8] {
        match self.record.format {
            Format::Hec => b"",
            _ => self.part(span),
        }
    }

    /// Parameters of structured data (RFC 5424 section 6.3.3).
    fn sdata(&self) -> HashMap<String, String> {
        let sdata = match self.record.format.has_json_fields() {
            true => b"",
            false => self.part(self.record.sdata),
        };
        let text = String::from_utf8_lossy(sdata).into_owned();
        let mut out = HashMap::new();
        let mut id = String::new();
        let mut rest = text.as_str();
        while let Some(next) = rest.find(['[', '=']) {
            let (before, after) = rest.split_at(next);
            if let Some(after) = after.strip_prefix('[') {
                let end = after.find([' ', ']']).unwrap_or(after.len());
                id = after[..end].to_owned();
                rest = &after[end..];
                continue;
            }
            let name = before.trim().trim_start_matches(']').trim();
            let Some((value, after)) = after.strip_prefix("=\"").and_then(quoted) else {
                break;
            };
            out.insert(format!("{id}.{name}"), value);
            rest = after;
        }
        out
    }
}

/// Adds the fields of a JSON object.
fn add_fields(object: &[u8], fields: &mut HashMap<String, String>) {
    let own: Option<serde_json::Map<String, serde_json::Value>> =
        serde_json::from_slice(object).ok();
    for (name, value) in own.into_iter().flatten() {
        let value = match value {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        };
        fields.insert(name, value);
    }
}

/// The text up to the closing quote, without its escapes, and what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match chars.next() {
                Some((_, escaped @ ('"' | '\\' | ']'))) => value.push(escaped),
                Some((_, other)) => value.extend(['\\', other]),
                None => return None,
            },
            other => value.push(other),
        }
    }
    None
}

fn map<'v>(map: HashMap<String, String>) -> Option<CowVal<'v, 'v>> {
    let value = Box::<dyn Val>::try_from(cel::Value::from(map)).ok()?;
    Some(CowVal::Owned(value))
}

impl VariableResolver for EventView<'_> {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        let record = self.record;
        let bytes = match variable {
            "index" => self.names.index,
            "sourcetype" => self.names.sourcetype,
            "source" => self.names.source,
            "vendor" => self.names.vendor,
            "product" => self.names.product,
            "class" => self.names.class,
            "rule" => self.class.map_or(&b""[..], |class| class.rules.as_bytes()),
            "listener" => self.source.name.as_bytes(),
            "tls_client" => self.client.unwrap_or_default().as_bytes(),
            "host" => self.part(record.host),
            "program" => self.part(record.app),
            "pid" => self.header(record.proc_id),
            "msgid" => self.header(record.msg_id),
            "message" => self.part(record.message),
            "raw" => self.part(record.raw),
            "format" => record.format.name().as_bytes(),
            "sender" => {
                let sender = self.sender.map_or_else(String::new, |ip| ip.to_string());
                return Some(CowVal::owned(CelString::from(Cow::<str>::Owned(sender))));
            }
            "facility" => return Some(CowVal::owned(CelInt::from(i64::from(self.pri() / 8)))),
            "severity" => return Some(CowVal::owned(CelInt::from(i64::from(self.pri() % 8)))),
            "size" => return Some(CowVal::owned(CelInt::from(i64::from(record.raw.len)))),
            "received" => return Some(CowVal::owned(seconds(record.received))),
            "time" => {
                let received = self.class.is_some_and(|class| class.received_time);
                let time = if received {
                    record.received
                } else {
                    record.time()
                };
                return Some(CowVal::owned(seconds(time)));
            }
            "fields" => return map(self.fields()),
            "sdata" => return map(self.sdata()),
            _ => return None,
        };
        Some(CowVal::owned(text(bytes)))
    }
}
