//! Envelope: one object of a body, its keys and what is wrong with them.

use inrush_event::{Span, Timestamp};

use crate::json::{self, JsonStop, RawText};

/// Text of a string in an envelope.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EnvelopeText {
    /// Bytes between its quotes; empty if the key is absent or the text is.
    pub span: Span,
    /// True if it has escapes, so that the bytes are not the text yet ([`EnvelopeText::push`]).
    pub escaped: bool,
}

impl EnvelopeText {
    fn of(raw: RawText) -> Self {
        Self {
            span: Span::new(raw.start, raw.end),
            escaped: raw.escaped(),
        }
    }

    /// Appends the text, its escapes resolved. Half of a surrogate pair stays as it was written.
    pub fn push(self, arena: &[u8], out: &mut Vec<u8>) {
        json::unescape(self.span.of(arena), out);
    }
}

/// Value of the key `event`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EventValue {
    /// There is none: a metric.
    #[default]
    Absent,
    /// A string.
    Text(EnvelopeText),
    /// An object, array, number, `true`, `false` or `null`, as it was written.
    Json(Span),
}

/// Value of the key `time`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EnvelopeTime {
    /// There is none.
    #[default]
    Absent,
    /// Seconds since 1970.
    At(Timestamp),
    /// A time that 64 bits of nanoseconds do not reach (before 1677, after 2262).
    Far,
}

/// One object of a body. Spans are offsets into the caller's arena.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Envelope {
    /// The object, its braces included.
    pub object: Span,
    /// Time of the event.
    pub time: EnvelopeTime,
    /// The value of `time` as it was written, without quotes.
    pub time_text: Span,
    /// Host.
    pub host: EnvelopeText,
    /// Source.
    pub source: EnvelopeText,
    /// Sourcetype.
    pub sourcetype: EnvelopeText,
    /// Index.
    pub index: EnvelopeText,
    /// The event.
    pub event: EventValue,
    /// Indexed fields as they were written, with braces; empty if there are none.
    pub fields: Span,
}

/// Fault of an object; nothing of the body is taken from it on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EnvelopeFault {
    /// It is no JSON object, a value has the wrong type, or it is nested deeper than 127 levels.
    Format,
    /// It has no `event`, and is no metric.
    EventRequired,
    /// Its `event` is an empty string.
    EventBlank,
    /// `fields` holds what is no string, number, `true`, `false` or list of these, or `time` has an
    /// exponent.
    Fields,
}

/// Reason why no envelope is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EnvelopeStop {
    /// The bytes end before it.
    Incomplete,
    /// It is none.
    Fault(EnvelopeFault),
}

impl From<JsonStop> for EnvelopeStop {
    fn from(stop: JsonStop) -> Self {
        match stop {
            JsonStop::Incomplete => Self::Incomplete,
            JsonStop::Invalid => Self::Fault(EnvelopeFault::Format),
        }
    }
}

const FORMAT: EnvelopeStop = EnvelopeStop::Fault(EnvelopeFault::Format);

/// The envelope whose brace stands at `at`. Where a key comes twice the last one counts, as in most
/// JSON parsers.
pub(super) fn envelope(bytes: &[u8], at: usize) -> Result<Envelope, EnvelopeStop> {
    let mut found = Envelope::default();
    // What is wrong with a value is told once the object is known to be JSON.
    let mut fault = None;
    let mut metric = false;
    let mut key_at = json::skip_space(bytes, at + 1);
    let mut first = true;
    let end = loop {
        match bytes.get(key_at).ok_or(EnvelopeStop::Incomplete)? {
            b'}' if first => break key_at + 1,
            _ => {}
        }
        first = false;
        let key = json::text(bytes, key_at)?;
        let value = json::value_of(bytes, key)?;
        let text = match bytes.get(value) {
            Some(b'"') => Some(json::text(bytes, value)?),
            _ => None,
        };
        let end = match text {
            Some(text) => text.end + 1,
            None => json::skip_value(bytes, value)?,
        };
        let read = match key.resolved(bytes).as_ref() {
            b"event" => {
                found.event = match text {
                    Some(text) => EventValue::Text(EnvelopeText::of(text)),
                    None => EventValue::Json(Span::new(value, end)),
                };
                Ok(())
            }
            b"time" => time(bytes, Span::new(value, end)).map(|(time, text)| {
                found.time = time;
                found.time_text = text;
            }),
            b"host" => name(bytes, value, text).map(|text| found.host = text),
            b"source" => name(bytes, value, text).map(|text| found.source = text),
            b"sourcetype" => name(bytes, value, text).map(|text| found.sourcetype = text),
            b"index" => name(bytes, value, text).map(|text| found.index = text),
            b"fields" => fields(bytes, value).map(|is_metric| {
                metric = is_metric;
                found.fields = Span::new(value, end);
            }),
            _ => Ok(()),
        };
        if let Err(wrong) = read {
            fault.get_or_insert(wrong);
        }
        let after = json::skip_space(bytes, end);
        match bytes.get(after).ok_or(EnvelopeStop::Incomplete)? {
            b',' => key_at = json::skip_space(bytes, after + 1),
            b'}' => break after + 1,
            _ => return Err(FORMAT),
        }
    };
    found.object = Span::new(at, end);
    if let Some(fault) = fault {
        return Err(EnvelopeStop::Fault(fault));
    }
    match found.event {
        EventValue::Absent if !metric => Err(EnvelopeStop::Fault(EnvelopeFault::EventRequired)),
        EventValue::Text(text) if text.span.is_empty() => {
            Err(EnvelopeStop::Fault(EnvelopeFault::EventBlank))
        }
        _ => Ok(found),
    }
}

/// A name: a string, or `null` for none.
fn name(bytes: &[u8], at: usize, text: Option<RawText>) -> Result<EnvelopeText, EnvelopeFault> {
    match text {
        Some(text) => Ok(EnvelopeText::of(text)),
        None if bytes[at] == b'n' => Ok(EnvelopeText::default()),
        None => Err(EnvelopeFault::Format),
    }
}

/// Seconds since 1970, a number or a string, with up to nine decimals that count.
fn time(bytes: &[u8], value: Span) -> Result<(EnvelopeTime, Span), EnvelopeFault> {
    let span = match bytes[value.start()] {
        b'"' => Span::new(value.start() + 1, value.end() - 1),
        b'-' | b'0'..=b'9' => value,
        _ => return Err(EnvelopeFault::Format),
    };
    Ok((epoch(span.of(bytes))?, span))
}

/// The time of a text `SECONDS[.DECIMALS]`.
pub fn epoch(text: &[u8]) -> Result<EnvelopeTime, EnvelopeFault> {
    let (negative, digits) = match text.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let dot = digits.iter().position(|byte| *byte == b'.');
    let (seconds, decimals) = digits.split_at(dot.unwrap_or(digits.len()));
    let decimals = decimals.get(1..).unwrap_or_default();
    let all_digits = |text: &[u8]| text.iter().all(u8::is_ascii_digit);
    if seconds.is_empty() || !all_digits(seconds) || !all_digits(decimals) {
        let exponent = digits.first().is_some_and(u8::is_ascii_digit)
            && digits.iter().any(|byte| matches!(byte, b'e' | b'E'));
        return Err(match exponent {
            true => EnvelopeFault::Fields,
            false => EnvelopeFault::Format,
        });
    }
    let number = |digits: &[u8]| {
        digits.iter().try_fold(0_i64, |sum, digit| {
            sum.checked_mul(10)?.checked_add(i64::from(digit - b'0'))
        })
    };
    let nanoseconds = (0..9).fold(0_i64, |sum, place| {
        let digit = decimals.get(place).map_or(0, |digit| digit - b'0');
        sum * 10 + i64::from(digit)
    });
    let sum = number(seconds)
        .and_then(|seconds| seconds.checked_mul(1_000_000_000))
        .and_then(|whole| whole.checked_add(nanoseconds));
    Ok(match sum {
        Some(sum) => EnvelopeTime::At(Timestamp(if negative { -sum } else { sum })),
        None => EnvelopeTime::Far,
    })
}

/// Looks through the fields at `at`, which are JSON; true if they are those of a metric.
fn fields(bytes: &[u8], at: usize) -> Result<bool, EnvelopeFault> {
    let mut metric = false;
    match bytes[at] {
        b'{' => {}
        b'n' => return Ok(false),
        _ => return Err(EnvelopeFault::Fields),
    }
    let whole = |stop: JsonStop| {
        debug_assert_eq!(stop, JsonStop::Invalid);
        EnvelopeFault::Format
    };
    let mut key_at = json::skip_space(bytes, at + 1);
    while bytes[key_at] != b'}' {
        let key = json::text(bytes, key_at).map_err(whole)?;
        let value = json::value_of(bytes, key).map_err(whole)?;
        metric |= key.resolved(bytes).starts_with(b"metric_name");
        match bytes[value] {
            b'[' if is_list(bytes, value) => {}
            b'{' | b'[' | b'n' => return Err(EnvelopeFault::Fields),
            _ => {}
        }
        let end = json::skip_value(bytes, value).map_err(whole)?;
        key_at = json::skip_space(bytes, end);
        if bytes[key_at] == b',' {
            key_at = json::skip_space(bytes, key_at + 1);
        }
    }
    Ok(metric)
}

/// True if the array at `at`, which is JSON, holds neither arrays nor objects nor `null`.
fn is_list(bytes: &[u8], at: usize) -> bool {
    let mut at = json::skip_space(bytes, at + 1);
    while bytes[at] != b']' {
        if matches!(bytes[at], b'{' | b'[' | b'n') {
            return false;
        }
        let Ok(end) = json::skip_value(bytes, at) else {
            return false;
        };
        at = json::skip_space(bytes, end);
        if bytes[at] == b',' {
            at = json::skip_space(bytes, at + 1);
        }
    }
    true
}
