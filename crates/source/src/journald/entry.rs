//! Fields of an entry, and the event that they make.
//!
//! # What it guarantees
//! * Of fields that come again the first one counts; those that are kept have all their values.
//! * What is cut off a part of the event or a kept field is counted, and the event is flagged.
//! * Only journald itself can report messages that it suppressed: the report has a field that no
//!   sender can set (`_TRANSPORT`).
//!
//! # Limits
//! A message has `value_bytes_max`, all kept values together [`KEPT_BYTES_MAX`], a name
//! [`SHORT_BYTES_MAX`]. Other fields are passed over.

use std::collections::HashMap;
use std::sync::Arc;

use inrush_codec::encode::json_escape;
use inrush_event::{Anomalies, Format, Origin, Record, Span, Timestamp};

use super::options::JournaldSource;

/// Bytes of all values of an entry's kept fields, at most.
const KEPT_BYTES_MAX: usize = 64 * 1024;

/// Bytes of a host, a program, a unit and the like, at most: names of units have 255.
const SHORT_BYTES_MAX: usize = 1024;

/// Units that are remembered, at most.
const ORIGINS_MAX: usize = 4096;

/// `MESSAGE_ID` of what journald says when it drops messages of a service that writes too many
/// (`SD_MESSAGE_JOURNAL_DROPPED`).
const SUPPRESSED_ID: &[u8] = b"a596d6fe7bfa4994828e72309e95d61e";

/// Facility of an entry with a severity that names none: user (RFC 3164 section 4.3.3).
const FACILITY_ASSUMED: u8 = 1;

/// Fields that make the event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum EntryPart {
    Message,
    Cursor,
    Realtime,
    SourceRealtime,
    Priority,
    Facility,
    Identifier,
    Command,
    Pid,
    SyslogPid,
    Host,
    Unit,
    Transport,
    MessageId,
    Dropped,
}

impl EntryPart {
    const COUNT: usize = 15;

    fn of(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"MESSAGE" => Self::Message,
            b"__CURSOR" => Self::Cursor,
            b"__REALTIME_TIMESTAMP" => Self::Realtime,
            b"_SOURCE_REALTIME_TIMESTAMP" => Self::SourceRealtime,
            b"PRIORITY" => Self::Priority,
            b"SYSLOG_FACILITY" => Self::Facility,
            b"SYSLOG_IDENTIFIER" => Self::Identifier,
            b"_COMM" => Self::Command,
            b"_PID" => Self::Pid,
            b"SYSLOG_PID" => Self::SyslogPid,
            b"_HOSTNAME" => Self::Host,
            b"_SYSTEMD_UNIT" => Self::Unit,
            b"_TRANSPORT" => Self::Transport,
            b"MESSAGE_ID" => Self::MessageId,
            b"N_DROPPED" => Self::Dropped,
            _ => return None,
        })
    }
}

/// A field that is kept as an indexed field: its values as JSON texts, with commas between them.
struct KeptField {
    name: String,
    values: Vec<u8>,
    count: u32,
}

/// Field whose value is being passed over.
#[derive(Clone, Copy, Default)]
struct LastField {
    wanted: bool,
}

/// An entry while its fields come.
pub(super) struct EntryBuilder {
    parts: [Vec<u8>; EntryPart::COUNT],
    kept: Vec<KeptField>,
    kept_bytes: usize,
    last: LastField,
    host: Option<String>,
    /// Bytes that no event has.
    cut_bytes: u64,
    origins: HashMap<Box<[u8]>, Origin>,
    /// Bytes of the event: its text, and behind it what its other parts are made of.
    bytes: Vec<u8>,
}

/// Places of an event's parts in its bytes.
#[derive(Clone, Copy, Default)]
pub(super) struct EntryLayout {
    message: Span,
    host: Span,
    app: Span,
    pid: Span,
    fields: Span,
    time: Timestamp,
    pri: u8,
    anomalies: Anomalies,
}

impl EntryBuilder {
    /// A builder of the options' events.
    pub(super) fn new(options: &JournaldSource) -> Self {
        let field = |name: &String| KeptField {
            name: name.clone(),
            values: Vec::new(),
            count: 0,
        };
        Self {
            parts: Default::default(),
            kept: options.fields.iter().map(field).collect(),
            kept_bytes: 0,
            last: LastField::default(),
            host: options.host.clone(),
            cut_bytes: 0,
            origins: HashMap::new(),
            bytes: Vec::new(),
        }
    }

    /// Forgets the entry.
    pub(super) fn clear(&mut self) {
        self.parts.iter_mut().for_each(Vec::clear);
        for field in &mut self.kept {
            field.values.clear();
            field.count = 0;
        }
        (self.kept_bytes, self.cut_bytes) = (0, 0);
        self.last = LastField::default();
    }

    /// Takes a field.
    pub(super) fn field(&mut self, name: &[u8], value: &[u8]) {
        self.last.wanted = false;
        if let Some(part) = EntryPart::of(name) {
            self.part(part, value);
        }
        let Some(field) = self.kept.iter_mut().find(|one| one.name.as_bytes() == name) else {
            return;
        };
        self.last.wanted = true;
        if self.kept_bytes + value.len() > KEPT_BYTES_MAX {
            self.cut_bytes += value.len() as u64;
            return;
        }
        self.kept_bytes += value.len();
        if field.count > 0 {
            field.values.push(b',');
        }
        field.count += 1;
        field.values.push(b'"');
        json_escape(value, &mut field.values);
        field.values.push(b'"');
    }

    fn part(&mut self, part: EntryPart, value: &[u8]) {
        let known = &mut self.parts[part as usize];
        if !known.is_empty() {
            return;
        }
        if part == EntryPart::Message {
            self.last.wanted = true;
            known.extend_from_slice(value);
        } else {
            let (short, more) = value.split_at(value.len().min(SHORT_BYTES_MAX));
            known.extend_from_slice(short);
            self.cut_bytes += more.len() as u64;
        }
    }

    /// Bytes of the last field's value that were not given.
    pub(super) fn rest(&mut self, bytes: u64) {
        if self.last.wanted {
            self.cut_bytes += bytes;
        }
    }

    /// Its cursor.
    pub(super) fn cursor(&self) -> &[u8] {
        self.get(EntryPart::Cursor)
    }

    /// Bytes of it that are in no event.
    pub(super) fn cut_bytes(&self) -> u64 {
        self.cut_bytes
    }

    /// Messages that journald says it has suppressed.
    pub(super) fn suppressed(&self) -> u64 {
        let said = self.get(EntryPart::MessageId) == SUPPRESSED_ID
            && self.get(EntryPart::Transport) == b"driver";
        match said {
            // A number of journald is an `int`.
            true => number(self.get(EntryPart::Dropped)).map_or(0, |n| n.min(i32::MAX as u64)),
            false => 0,
        }
    }

    fn get(&self, part: EntryPart) -> &[u8] {
        &self.parts[part as usize]
    }

    /// The first of two parts that is there.
    fn either(&self, first: EntryPart, second: EntryPart) -> &[u8] {
        match self.get(first) {
            [] => self.get(second),
            found => found,
        }
    }

    /// True if it has a text.
    pub(super) fn has_message(&self) -> bool {
        !self.get(EntryPart::Message).is_empty()
    }

    /// Its origin: unit or transport.
    pub(super) fn origin(&mut self) -> Origin {
        let name: &[u8] = match self.either(EntryPart::Unit, EntryPart::Transport) {
            [] => b"journal",
            name => name,
        };
        if let Some(known) = self.origins.get(name) {
            return known.clone();
        }
        let new = Origin::Unit(Arc::from(&*String::from_utf8_lossy(name)));
        let name: Box<[u8]> = name.into();
        if self.origins.len() >= ORIGINS_MAX {
            self.origins.clear();
        }
        self.origins.insert(name, new.clone());
        new
    }

    /// Puts the event's bytes together: they and where its parts stand in them.
    pub(super) fn lay_out(&mut self) -> (&[u8], EntryLayout) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        let mut put = |text: &[u8]| {
            let start = bytes.len();
            bytes.extend_from_slice(text);
            Span::new(start, bytes.len())
        };
        let mut layout = EntryLayout {
            message: put(self.get(EntryPart::Message)),
            host: match &self.host {
                Some(host) => put(host.as_bytes()),
                None => put(self.get(EntryPart::Host)),
            },
            app: put(self.either(EntryPart::Identifier, EntryPart::Command)),
            pid: put(self.either(EntryPart::Pid, EntryPart::SyslogPid)),
            time: self.time(),
            pri: self.pri(),
            ..EntryLayout::default()
        };
        if std::str::from_utf8(self.get(EntryPart::Message)).is_err() {
            layout.anomalies.insert(Anomalies::NOT_UTF8);
        }
        if self.cut_bytes > 0 {
            layout.anomalies.insert(Anomalies::OVERSIZE);
        }
        let start = bytes.len();
        self.push_fields(&mut bytes);
        layout.fields = Span::new(start, bytes.len());
        self.bytes = bytes;
        (&self.bytes, layout)
    }

    /// Appends the kept fields as a JSON object; nothing if the entry has none of them.
    fn push_fields(&self, out: &mut Vec<u8>) {
        let start = out.len();
        for field in self.kept.iter().filter(|field| field.count > 0) {
            out.push(match out.len() == start {
                true => b'{',
                false => b',',
            });
            out.push(b'"');
            out.extend_from_slice(field.name.as_bytes());
            out.extend_from_slice(b"\":");
            match field.count {
                1 => out.extend_from_slice(&field.values),
                _ => {
                    out.push(b'[');
                    out.extend_from_slice(&field.values);
                    out.push(b']');
                }
            }
        }
        if out.len() > start {
            out.push(b'}');
        }
    }

    /// Time at which it was sent, or at which journald had it.
    fn time(&self) -> Timestamp {
        let of = |part| {
            let us = number(self.get(part))?;
            i64::try_from(us.checked_mul(1000)?).ok()
        };
        let time = of(EntryPart::SourceRealtime).or_else(|| of(EntryPart::Realtime));
        time.map_or(Timestamp::NONE, Timestamp)
    }

    fn pri(&self) -> u8 {
        let below = |part, bound| number(self.get(part)).filter(|n| *n < bound);
        let facility = below(EntryPart::Facility, 24).map_or(FACILITY_ASSUMED, |n| n as u8);
        match below(EntryPart::Priority, 8) {
            Some(severity) => facility << 3 | severity as u8,
            None => Record::PRI_NONE,
        }
    }
}

impl EntryLayout {
    /// Puts the parts into the record of the event, whose bytes begin at `start` in the arena.
    pub(super) fn fill(&self, start: usize, record: &mut Record) {
        let at = |span: Span| match span.is_empty() {
            true => Span::EMPTY,
            false => Span::new(start + span.start(), start + span.end()),
        };
        record.format = Format::Journal;
        record.raw = at(self.message);
        record.message = record.raw;
        record.host = at(self.host);
        record.app = at(self.app);
        record.proc_id = at(self.pid);
        record.sdata = at(self.fields);
        record.event_time = self.time;
        record.pri = self.pri;
        record.anomalies.insert(self.anomalies);
    }
}

/// A decimal number.
fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn builder(fields: &[(&str, &[u8])]) -> EntryBuilder {
        let options = serde_json::json!({ "fields": ["PRIORITY", "X", "_PID"] });
        let options: JournaldSource = serde_json::from_value(options).unwrap();
        let mut builder = EntryBuilder::new(&options);
        for (name, value) in fields {
            builder.field(name.as_bytes(), value);
        }
        builder
    }

    fn record(builder: &mut EntryBuilder) -> (Vec<u8>, Record) {
        let (bytes, layout) = builder.lay_out();
        let arena = [b"before", bytes].concat();
        let mut record = Record::unparsed(Span::EMPTY, Timestamp(1), 0, Anomalies::NONE);
        layout.fill(6, &mut record);
        (arena, record)
    }

    #[test]
    fn fields_become_the_parts_of_an_event() {
        let mut builder = builder(&[
            ("__REALTIME_TIMESTAMP", b"1795856314206744"),
            ("PRIORITY", b"4"),
            ("SYSLOG_FACILITY", b"3"),
            ("_COMM", b"cat"),
            ("SYSLOG_IDENTIFIER", b"nginx"),
            ("MESSAGE", b"first\nsecond"),
            ("MESSAGE", b"not this"),
            ("X", b"a"),
            ("X", b"\"b\""),
            ("_PID", b"12"),
            ("SYSLOG_PID", b"13"),
            ("_HOSTNAME", b"web-3"),
            ("_SYSTEMD_UNIT", b"nginx.service"),
            ("_TRANSPORT", b"stdout"),
        ]);
        assert_eq!(builder.origin(), Origin::Unit("nginx.service".into()));
        let (arena, record) = record(&mut builder);
        let part = |span: Span| String::from_utf8_lossy(span.of(&arena)).into_owned();
        assert_eq!(part(record.message), "first\nsecond");
        assert_eq!(record.raw, record.message);
        let header = [record.host, record.app, record.proc_id].map(part);
        assert_eq!(header, ["web-3", "nginx", "12"]);
        let fields = r#"{"PRIORITY":"4","X":["a","\"b\""],"_PID":"12"}"#;
        assert_eq!(part(record.sdata), fields);
        assert_eq!(record.event_time, Timestamp(1_795_856_314_206_744_000));
        assert_eq!((record.pri, record.format), (28, Format::Journal));
        assert!(record.anomalies.is_empty());
    }

    #[test]
    fn what_is_missing_or_bad_is_absent() {
        let mut one = builder(&[
            ("__REALTIME_TIMESTAMP", b"5"),
            ("_SOURCE_REALTIME_TIMESTAMP", b"18446744073709551615"),
            ("PRIORITY", b"8"),
            ("MESSAGE", b"\xff"),
            ("_TRANSPORT", b"kernel"),
        ]);
        assert_eq!(one.origin(), Origin::Unit("kernel".into()));
        let (arena, record) = record(&mut one);
        assert_eq!(
            (record.event_time, record.pri),
            (Timestamp(5000), Record::PRI_NONE)
        );
        assert!(record.anomalies.contains(Anomalies::NOT_UTF8));
        assert_eq!(record.sdata.of(&arena), br#"{"PRIORITY":"8"}"#);
        assert!(record.host.is_empty() && record.app.is_empty());
        let mut none = builder(&[]);
        assert!(!none.has_message());
        assert_eq!(none.origin(), Origin::Unit("journal".into()));
    }

    #[test]
    fn the_time_of_the_sender_goes_before_that_of_journald() {
        let mut builder = builder(&[
            ("__REALTIME_TIMESTAMP", b"7"),
            ("_SOURCE_REALTIME_TIMESTAMP", b"6"),
        ]);
        assert_eq!(record(&mut builder).1.event_time, Timestamp(6000));
    }

    #[test]
    fn bytes_that_no_event_has_are_counted() {
        let long = vec![b'x'; KEPT_BYTES_MAX];
        let mut builder = builder(&[("MESSAGE", b"cut")]);
        builder.rest(10);
        builder.field(b"COREDUMP", b"passed over");
        builder.rest(1_000_000);
        builder.field(b"X", &long);
        builder.field(b"X", b"no room");
        assert_eq!(builder.cut_bytes(), 17);
        let (_, flagged) = record(&mut builder);
        assert!(flagged.anomalies.contains(Anomalies::OVERSIZE));
        builder.clear();
        builder.field(b"MESSAGE", b"next");
        let (arena, next) = record(&mut builder);
        assert_eq!(
            (next.message.of(&arena), builder.cut_bytes()),
            (&b"next"[..], 0)
        );
        assert!(next.anomalies.is_empty() && next.sdata.is_empty());
    }

    #[test]
    fn only_journald_can_say_that_messages_were_suppressed() {
        let said = |id: &[u8], transport: &[u8], dropped: &[u8]| {
            let fields: [(&str, &[u8]); 3] = [
                ("MESSAGE_ID", id),
                ("_TRANSPORT", transport),
                ("N_DROPPED", dropped),
            ];
            builder(&fields).suppressed()
        };
        assert_eq!(said(SUPPRESSED_ID, b"driver", b"1234"), 1234);
        assert_eq!(said(SUPPRESSED_ID, b"journal", b"1234"), 0);
        assert_eq!(said(b"other", b"driver", b"1234"), 0);
        assert_eq!(said(SUPPRESSED_ID, b"driver", b"-1"), 0);
        let huge = said(SUPPRESSED_ID, b"driver", b"18446744073709551615");
        assert_eq!(huge, i32::MAX as u64);
    }
}
