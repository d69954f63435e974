//! Path template of the `file` destination: parsed once, rendered for each event.
//!
//! # What it guarantees
//! * A value stays within one name: plain ASCII, no slash, no dot at its start, never empty.
//! * A value that is too long is cut. A name or path that is too long is none: `render` says false.
//! * Dates are those of the reception, in UTC.
//! * A template has no name `..`, ends in fixed text, and never in one of `OWN_ENDS`.
//! * `PathForm::Other` replaces every value that senders choose, so they cannot add paths.
//!
//! # Limits
//! `VALUE_BYTES_MAX` bounds a value, `NAME_BYTES_MAX` a name, `PATH_BYTES_MAX` a path.

use std::io::Write;

use inrush_event::{Batch, Record, Timestamp, facility_name, severity_name};

/// Bytes of one value in a path: file systems allow 255 in a name, and a rotated file's name is
/// up to 30 longer.
const VALUE_BYTES_MAX: usize = 200;

/// Bytes of one rendered name, several values and fixed text together.
const NAME_BYTES_MAX: usize = 220;

/// Bytes of a rendered path, well under Linux's PATH_MAX of 4096.
const PATH_BYTES_MAX: usize = 3800;

/// Ends of names that the sink itself gives to rotated files.
const OWN_ENDS: [&str; 3] = [".gz", ".zst", ".tmp"];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PathField {
    Index,
    Sourcetype,
    Source,
    Host,
    App,
    Sender,
    Protocol,
    TlsClient,
    Facility,
    Severity,
    Year,
    Month,
    Day,
    Hour,
}

impl PathField {
    fn is_date(self) -> bool {
        matches!(self, Self::Year | Self::Month | Self::Day | Self::Hour)
    }

    /// True if its values are as many as senders like; the configuration and the clock bound the
    /// others.
    fn is_chosen(self) -> bool {
        !self.is_date() && !matches!(self, Self::Source | Self::Protocol)
    }
}

const FIELDS: [(&str, PathField); 14] = [
    ("index", PathField::Index),
    ("sourcetype", PathField::Sourcetype),
    ("source", PathField::Source),
    ("host", PathField::Host),
    ("app", PathField::App),
    ("sender", PathField::Sender),
    ("protocol", PathField::Protocol),
    ("tls_client", PathField::TlsClient),
    ("facility", PathField::Facility),
    ("severity", PathField::Severity),
    ("year", PathField::Year),
    ("month", PathField::Month),
    ("day", PathField::Day),
    ("hour", PathField::Hour),
];

#[derive(Clone, PartialEq, Eq, Debug)]
enum PathPart {
    Text(String),
    Value(PathField),
}

/// The word for the values of senders beyond the limit of paths.
const OTHER: &str = "other";

/// The form of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PathForm {
    /// As the event says.
    Own,
    /// Without its date: the same for all files of one sender.
    Undated,
    /// With `other` for each value that a sender can choose.
    Other,
}

/// A parsed path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct PathTemplate {
    parts: Vec<PathPart>,
    /// The date last rendered: all events of a batch have the same.
    received: Timestamp,
    date: Date,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Date {
    year: i16,
    month: i8,
    day: i8,
    hour: i8,
}

impl PathTemplate {
    /// Reads a path; the error is for the operator.
    pub(super) fn parse(path: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = path;
        while let Some(open) = rest.find('{') {
            let close = rest[open..].find('}').ok_or("a `{` without its `}`")? + open;
            push_text(&mut parts, &rest[..open])?;
            parts.push(PathPart::Value(field(&rest[open + 1..close])?));
            rest = &rest[close + 1..];
        }
        push_text(&mut parts, rest)?;
        let last_name = rest.rsplit('/').next().unwrap_or_default();
        if last_name.is_empty() {
            return Err("must end in fixed text such as `.log`".into());
        }
        if let Some(end) = OWN_ENDS.iter().find(|end| last_name.ends_with(*end)) {
            return Err(format!("must not end in `{end}`, which rotated files do"));
        }
        if path.split('/').any(|name| name == "..") {
            return Err("must not contain `..`".into());
        }
        Ok(Self {
            parts,
            received: Timestamp::NONE,
            date: Date::default(),
        })
    }

    /// True if senders can choose how many paths there are.
    pub(super) fn is_open(&self) -> bool {
        self.first_chosen().is_some()
    }

    /// Inodes that one more path takes at most: its file, and the folders that events name.
    pub(super) fn inodes(&self) -> u64 {
        let first = self.first_chosen().unwrap_or(self.parts.len());
        let below = self.parts[first..].iter();
        let slashes = below.filter_map(|part| match part {
            PathPart::Text(text) => Some(text.matches('/').count() as u64),
            PathPart::Value(_) => None,
        });
        1 + slashes.sum::<u64>()
    }

    fn first_chosen(&self) -> Option<usize> {
        let chosen = |part: &PathPart| matches!(part, PathPart::Value(field) if field.is_chosen());
        self.parts.iter().position(chosen)
    }

    /// The folder that all its paths lie in.
    pub(super) fn root(&self) -> &str {
        match self.parts.first() {
            Some(PathPart::Text(text)) => text.rsplit_once('/').map_or("", |(folder, _)| folder),
            _ => "",
        }
    }

    /// Renders the path of an event into `out`, which is cleared; false if it is too long.
    pub(super) fn render(
        &mut self,
        form: PathForm,
        batch: &Batch,
        record: &Record,
        out: &mut String,
    ) -> bool {
        if self.received != record.received {
            self.received = record.received;
            self.date = date(record.received);
        }
        out.clear();
        for part in &self.parts {
            match part {
                PathPart::Text(text) => out.push_str(text),
                PathPart::Value(field) if form == PathForm::Other && field.is_chosen() => {
                    out.push_str(OTHER);
                }
                PathPart::Value(field) if form == PathForm::Undated && field.is_date() => {}
                PathPart::Value(field) => push_value(*field, batch, record, self.date, out),
            }
        }
        out.len() <= PATH_BYTES_MAX && out.split('/').all(|name| name.len() <= NAME_BYTES_MAX)
    }
}

fn push_text(parts: &mut Vec<PathPart>, text: &str) -> Result<(), String> {
    if text.contains(['}', '\0']) {
        return Err("a `}` without its `{`, or a NUL".into());
    }
    if !text.is_empty() {
        parts.push(PathPart::Text(text.to_owned()));
    }
    Ok(())
}

fn field(name: &str) -> Result<PathField, String> {
    FIELDS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, field)| *field)
        .ok_or_else(|| {
            let known: Vec<&str> = FIELDS.iter().map(|(known, _)| *known).collect();
            format!("`{{{name}}}` is not known; there are {}", known.join(", "))
        })
}

fn date(received: Timestamp) -> Date {
    let at = jiff::Timestamp::from_nanosecond(i128::from(received.or(Timestamp(0)).0));
    let civil = jiff::tz::Offset::UTC.to_datetime(at.unwrap_or_default());
    Date {
        year: civil.year(),
        month: civil.month(),
        day: civil.day(),
        hour: civil.hour(),
    }
}

fn push_value(field: PathField, batch: &Batch, record: &Record, date: Date, out: &mut String) {
    let source = batch.source();
    match field {
        PathField::Index => push_name(batch.names(record).index, out),
        PathField::Sourcetype => push_name(batch.names(record).sourcetype, out),
        PathField::Source => push_name(source.name.as_bytes(), out),
        PathField::Host if record.host.is_empty() => push_sender(batch, record, out),
        PathField::Host => push_name(batch.get(record.host), out),
        PathField::App => push_name(batch.get(record.app), out),
        PathField::Sender => push_sender(batch, record, out),
        PathField::Protocol => {
            push_name(
                batch
                    .peer(record)
                    .map_or("", |p| p.protocol.name())
                    .as_bytes(),
                out,
            );
        }
        PathField::TlsClient => {
            let peer = batch.peer(record);
            let client = peer.and_then(|peer| peer.client.as_deref());
            push_name(client.unwrap_or_default().as_bytes(), out);
        }
        PathField::Facility => {
            push_name(record.facility().map_or("", facility_name).as_bytes(), out)
        }
        PathField::Severity => {
            push_name(record.severity().map_or("", severity_name).as_bytes(), out)
        }
        PathField::Year => push_digits(date.year, 4, out),
        PathField::Month => push_digits(date.month.into(), 2, out),
        PathField::Day => push_digits(date.day.into(), 2, out),
        PathField::Hour => push_digits(date.hour.into(), 2, out),
    }
}

fn push_sender(batch: &Batch, record: &Record, out: &mut String) {
    let mut text = [0u8; 64];
    let mut left = &mut text[..];
    // The longest address has 45 characters: this cannot fail.
    let _ = batch.peer(record).map(|peer| write!(left, "{}", peer.ip));
    let used = 64 - left.len();
    push_name(&text[..used], out);
}

fn push_digits(value: i16, width: usize, out: &mut String) {
    let text = format!("{value:0width$}");
    out.push_str(&text);
}

/// Bytes from anywhere as one harmless file name: never empty, never hidden, never `..`, without
/// slashes, spaces, control characters or anything that is not plain ASCII, at most 200 bytes.
fn push_name(value: &[u8], out: &mut String) {
    let value = &value[..value.len().min(VALUE_BYTES_MAX)];
    if value.is_empty() {
        return out.push('_');
    }
    for (index, byte) in value.iter().enumerate() {
        let harmless = byte.is_ascii_alphanumeric() || b"-_:@+=,%".contains(byte);
        let inner_dot = *byte == b'.' && index > 0 && value[index - 1] != b'.';
        out.push(if harmless || inner_dot {
            char::from(*byte)
        } else {
            '_'
        });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use inrush_event::{Anomalies, BatchPool, Peer, Protocol, SourceInfo, Span, limits};

    use super::*;

    fn rendered(template: &str, host: &[u8]) -> (String, bool) {
        rendered_as(PathForm::Own, template, host)
    }

    fn rendered_as(form: PathForm, template: &str, host: &[u8]) -> (String, bool) {
        let source = Arc::new(SourceInfo {
            name: "edge".into(),
            index: "netfw".into(),
            sourcetype: "cisco:asa".into(),
        });
        let mut builder = BatchPool::new().lend(&source, limits::MESSAGE_BYTES_DEFAULT);
        builder.extend(host);
        let ip = [10, 0, 0, 1].into();
        let sender = builder.peer(Peer {
            ip,
            local_port: 514,
            protocol: Protocol::Tcp,
            client: None,
        });
        let span = Span::new(0, host.len());
        let when = Timestamp(1_714_979_289_123_456_789);
        let mut record = Record::unparsed(span, when, sender, Anomalies::NONE);
        record.host = span;
        record.pri = 134;
        builder.parts().1.push(record);
        let batch = builder.freeze(0);
        let mut out = String::new();
        let fits = PathTemplate::parse(template)
            .unwrap()
            .render(form, &batch, &record, &mut out);
        (out, fits)
    }

    #[test]
    fn every_field_has_its_value() {
        let template = "/a/{index}/{sourcetype}/{source}/{host}/{app}/{sender}/{protocol}/\
                        {facility}.{severity}/{year}-{month}-{day}T{hour}.log";
        assert_eq!(
            rendered(template, b"fw1").0,
            "/a/netfw/cisco:asa/edge/fw1/_/10.0.0.1/tcp/local0.info/2024-05-06T07.log"
        );
        assert_eq!(rendered("/a/{host}.log", b"").0, "/a/10.0.0.1.log");
    }

    #[test]
    fn what_senders_choose_is_told_apart_from_the_rest() {
        let template = "/a/{source}/{host}/{app}-{year}/{severity}.{protocol}.{day}.log";
        let other = "/a/edge/other/other-2024/other.tcp.06.log";
        assert_eq!(rendered_as(PathForm::Other, template, b"fw1").0, other);
        let undated = "/a/edge/fw1/_-/info.tcp..log";
        assert_eq!(rendered_as(PathForm::Undated, template, b"fw1").0, undated);
        let parsed = PathTemplate::parse(template).unwrap();
        assert_eq!((parsed.inodes(), parsed.root()), (3, "/a"));
        let bounded = PathTemplate::parse("a/{source}/{year}.log").unwrap();
        assert!(parsed.is_open() && !bounded.is_open());
        assert_eq!((bounded.inodes(), bounded.root()), (1, "a"));
    }

    #[test]
    fn no_value_leads_out_of_the_folder() {
        for (host, name) in [
            (&b".."[..], "__"),
            (b".", "_"),
            (b"../../etc/passwd", "___.__etc_passwd"),
            (b"a..b", "a._b"),
            (b"/etc", "_etc"),
            (b"a\0b\nc d", "a_b_c_d"),
            (b"~root", "_root"),
            (b"\xff\xc3\xa9", "___"),
            (b".hidden", "_hidden"),
        ] {
            assert_eq!(rendered("/a/{host}.log", host).0, format!("/a/{name}.log"));
        }
    }

    #[test]
    fn a_long_value_is_cut_and_a_long_name_refused() {
        let (path, fits) = rendered("/a/{host}.log", &[b'x'; 5000]);
        assert_eq!(path.len(), "/a/.log".len() + VALUE_BYTES_MAX);
        assert!(fits);
        assert!(!rendered("/a/{host}{host}.log", &[b'x'; 5000]).1);
        let deep = format!("/a{}.log", "/{host}".repeat(20));
        assert!(!rendered(&deep, &[b'x'; 5000]).1);
    }

    #[test]
    fn a_template_that_cannot_work_is_refused() {
        for bad in [
            "",
            "/a/",
            "/a/{host}",
            "/a/{host",
            "/a/host}.log",
            "/a/{hots}.log",
            "/a/../b.log",
            "/a/{host}.gz",
            "/a\0b.log",
        ] {
            assert!(PathTemplate::parse(bad).is_err(), "{bad:?}");
        }
        let message = PathTemplate::parse("/a/{hots}.log").unwrap_err();
        assert!(
            message.contains("hots") && message.contains("host"),
            "{message}"
        );
    }
}
