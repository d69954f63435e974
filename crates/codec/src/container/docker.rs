//! One line of Docker's json-file driver: a JSON object.
//!
//! The form that the daemon writes without log-opts is read by comparing its fixed parts. All
//! others take a walk over keys and values, which reads every form of JSON.

use inrush_event::{Span, Timestamp};

use super::text::{LogStream, PieceText};
use crate::json::{self, JsonStop, RawText};
use crate::rfc3339::zoned_time;

/// One line of Docker's json-file driver. Spans count in the line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DockerLine {
    /// Time of the line; [`Timestamp::NONE`] if it is no date or out of range (1677 to 2262).
    pub time: Timestamp,
    /// Stream that the container wrote to.
    pub stream: LogStream,
    /// The text as it was written: without its quotes, and without the newline at its end.
    pub log: Span,
    /// True if `log` has escapes, so that its bytes are not the text yet.
    pub escaped: bool,
    /// True if the text ended in a newline. It goes on in the next line of the same stream if not.
    pub complete: bool,
    /// The object of labels, environment and tag as it was written, its braces included; empty if
    /// there is none.
    pub attrs: Span,
}

impl DockerLine {
    /// The text, in the line that was given.
    pub fn text(self, line: &[u8]) -> PieceText<'_> {
        match self.escaped {
            false => PieceText::Raw(self.log.of(line)),
            true => PieceText::Escaped(self.log.of(line)),
        }
    }
}

/// Reason why a line is none of Docker's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum DockerFault {
    /// The line ends before its object does.
    Cut,
    /// It is no JSON object, is nested deeper than 127 levels, or goes on behind its object.
    Format,
    /// There is no `log`, or it is no string.
    Log,
    /// `stream` is neither `stdout` nor `stderr`.
    Stream,
    /// `time` is no time of RFC 3339.
    Time,
    /// `attrs` is no object.
    Attrs,
}

impl DockerFault {
    /// A word for counters and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cut => "cut",
            Self::Format => "format",
            Self::Log => "log",
            Self::Stream => "stream",
            Self::Time => "time",
            Self::Attrs => "attrs",
        }
    }
}

impl From<JsonStop> for DockerFault {
    fn from(stop: JsonStop) -> Self {
        match stop {
            JsonStop::Incomplete => Self::Cut,
            JsonStop::Invalid => Self::Format,
        }
    }
}

/// Takes a line of Docker's json-file driver apart, with or without the LF at its end.
///
/// Keys may come in any order and be unknown. Where a key comes twice the last one counts, as in
/// the daemon's own reader. Bytes that are no UTF-8 stay as they are.
///
/// # Errors
/// What is wrong with the JSON, or else the first field that is not what it must be, in the order
/// `log`, `stream`, `time`, `attrs`.
#[inline]
pub fn parse_docker(line: &[u8]) -> Result<DockerLine, DockerFault> {
    match usual(line) {
        Some(found) => Ok(found),
        None => walk(line),
    }
}

/// Reads `{"log":"…","stream":"…","time":"…"}`.
#[inline]
fn usual(line: &[u8]) -> Option<DockerLine> {
    const LOG: &[u8] = b"{\"log\":";
    const STDOUT: &[u8] = b",\"stream\":\"stdout\",\"time\":\"";
    const STDERR: &[u8] = b",\"stream\":\"stderr\",\"time\":\"";
    if !line.starts_with(LOG) {
        return None;
    }
    let log = json::text(line, LOG.len()).ok()?;
    let rest = line.get(log.end + 1..)?;
    let (stream, rest) = match rest.strip_prefix(STDOUT) {
        Some(rest) => (LogStream::Stdout, rest),
        None => (LogStream::Stderr, rest.strip_prefix(STDERR)?),
    };
    let time = zoned_time(rest)?;
    let whole = matches!(rest.get(time.end..)?, b"\"}" | b"\"}\n");
    whole.then(|| line_of(line, log, stream, time.time, Span::EMPTY))
}

/// Values of the keys that are known, as they were written.
#[derive(Default)]
struct DockerValues {
    log: Option<RawText>,
    stream: Option<RawText>,
    time: Option<RawText>,
    /// The last value of `attrs`, of any kind.
    attrs: Span,
}

/// Reads an object of any order and with any white space.
#[cold]
fn walk(line: &[u8]) -> Result<DockerLine, DockerFault> {
    let values = values(line)?;
    let log = values.log.ok_or(DockerFault::Log)?;
    let stream = values.stream.map(|stream| stream.resolved(line));
    let stream = stream.and_then(|name| LogStream::of_name(&name));
    let stream = stream.ok_or(DockerFault::Stream)?;
    let time = values.time.map(|time| time.resolved(line));
    let time = time.and_then(|text| zoned_time(&text).filter(|time| time.end == text.len()));
    let time = time.ok_or(DockerFault::Time)?.time;
    let attrs = match values.attrs.of(line) {
        [] | b"null" => Span::EMPTY,
        [b'{', ..] => values.attrs,
        _ => return Err(DockerFault::Attrs),
    };
    Ok(line_of(line, log, stream, time, attrs))
}

fn values(line: &[u8]) -> Result<DockerValues, DockerFault> {
    let mut found = DockerValues::default();
    let open = json::skip_space(line, 0);
    match line.get(open) {
        Some(b'{') => {}
        Some(_) => return Err(DockerFault::Format),
        None => return Err(DockerFault::Cut),
    }
    let mut key_at = json::skip_space(line, open + 1);
    let mut end = key_at;
    if line.get(key_at) != Some(&b'}') {
        loop {
            let key = json::text(line, key_at)?;
            let value = json::value_of(line, key)?;
            let text = match line.get(value) {
                Some(b'"') => Some(json::text(line, value)?),
                _ => None,
            };
            let after = match text {
                Some(text) => text.end + 1,
                None => json::skip_value(line, value)?,
            };
            match key.resolved(line).as_ref() {
                b"log" => found.log = text,
                b"stream" => found.stream = text,
                b"time" => found.time = text,
                b"attrs" => found.attrs = Span::new(value, after),
                _ => {}
            }
            end = json::skip_space(line, after);
            match line.get(end) {
                Some(b',') => key_at = json::skip_space(line, end + 1),
                Some(b'}') => break,
                Some(_) => return Err(DockerFault::Format),
                None => return Err(DockerFault::Cut),
            }
        }
    }
    match json::skip_space(line, end + 1) == line.len() {
        true => Ok(found),
        false => Err(DockerFault::Format),
    }
}

/// The line, with the newline at the end of its text taken off.
#[inline]
fn line_of(
    line: &[u8],
    log: RawText,
    stream: LogStream,
    time: Timestamp,
    attrs: Span,
) -> DockerLine {
    let newline = newline_len(line.get(log.start..log.end).unwrap_or_default());
    let end = log.end - newline;
    DockerLine {
        time,
        stream,
        log: Span::new(log.start, end),
        escaped: log.escape < end,
        complete: newline > 0,
        attrs,
    }
}

/// Bytes of the escaped newline at the end of the inside of a JSON string; 0 if there is none.
#[inline]
fn newline_len(raw: &[u8]) -> usize {
    let rest = match raw {
        [rest @ .., b'\\', b'n'] => rest,
        [rest @ .., b'\\', b'u', b'0', b'0', b'0', b'a' | b'A'] => rest,
        _ => return 0,
    };
    // An escaped backslash before the letter is none.
    let backslashes = rest.iter().rev().take_while(|byte| **byte == b'\\');
    match backslashes.count() % 2 {
        0 => raw.len() - rest.len(),
        _ => 0,
    }
}
