//! Event under classification: its record, the values read out of it and the texts set for it.
//!
//! # What it guarantees
//! * A span points into the batch's arena or, past the arena's end, into the scratch bytes.
//! * A text of one part, or of adjacent parts, keeps its place, so that no bytes are copied.
//! * The last of several values with one name counts.
//!
//! # States
//! The scratch memory is cleared before each event and keeps its capacity. A `PropertyText` is
//! unset, a fixed text, or a text of this event alone.
//!
//! # Limits
//! An event has at most `VALUES_MAX` values; further values are dropped. A name is cut to
//! `NAME_BYTES_MAX` bytes as its value is added.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::io::Write;
use std::net::IpAddr;

use inrush_event::{Record, Span, header_span};

use regex::bytes::CaptureLocations;

use crate::mark::NameFingerprint;
use crate::needs::NeededNames;
use crate::pack::EventPart;
use crate::read::{EqualsSign, LazyPairs, TimeFormats};
use crate::template::{TemplateFilter, TemplatePiece, TextTemplate};
use inrush_multipattern::CaptureSlots;
use inrush_multipattern::same;

/// Values of one event; further ones are not kept, so that a hostile event costs no more.
pub(crate) const VALUES_MAX: usize = 4096;

/// Bytes of a value's name that are kept.
const NAME_BYTES_MAX: usize = 256;

/// Value that was read out of an event. All spans point into the batch's arena or, from its end on,
/// into the scratch bytes of the event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExtractedValue {
    pub(crate) name: Span,
    /// Tells most names apart: see [`NameFingerprint`].
    pub(crate) mark: NameFingerprint,
    pub(crate) text: Span,
    /// True if it counts among the event's values.
    pub(crate) keep: bool,
    /// True if the text is JSON that is no string.
    pub(crate) json: bool,
}

/// A text that was set.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum PropertyText<'p> {
    #[default]
    Unset,
    /// The same for every event of the class.
    Fixed(&'p str),
    /// This event's own.
    Own(Span),
}

impl PropertyText<'_> {
    pub(crate) fn is_set(&self) -> bool {
        !matches!(self, Self::Unset)
    }
}

/// Memory that is used again for each event.
#[derive(Default, Debug)]
pub(crate) struct Scratch {
    pub(crate) bytes: Vec<u8>,
    pub(crate) values: Vec<ExtractedValue>,
    /// The signs of [`LazyPairs`].
    pub(crate) equals: Vec<EqualsSign>,
    /// Room for the texts of fields.
    pub(crate) spans: Vec<Span>,
    /// Room for the values that count.
    pub(crate) kept: Vec<ExtractedValue>,
    /// Offsets of the groups of an expression.
    pub(crate) slots: CaptureSlots,
    /// Room for the groups of each expression that has no program.
    pub(crate) rooms: Vec<Option<CaptureLocations>>,
}

impl Scratch {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.values.clear();
    }
}

/// Origin of an event, as rules ask for it.
#[derive(Clone, Copy, Debug)]
pub struct EventOrigin<'a> {
    /// The sender's address.
    pub sender: Option<IpAddr>,
    /// The name of the listener.
    pub listener: &'a str,
    /// The vendor and product that the listener stands for.
    pub hint: Option<(&'a str, &'a str)>,
    /// The zone of times without one: that in which the record's time was read, if it had none.
    pub zone: &'a jiff::tz::TimeZone,
}

/// One event while it is classified.
pub(crate) struct Event<'a> {
    pub(crate) arena: &'a [u8],
    pub(crate) record: Record,
    pub(crate) sender: Option<IpAddr>,
    /// The same as a text, once that is asked for.
    pub(crate) sender_text: OnceCell<String>,
    pub(crate) listener: &'a str,
    /// The record behind its PRI and the blanks after it.
    pub(crate) text: Span,
    pub(crate) hint_vendor: PropertyText<'a>,
    pub(crate) hint_product: PropertyText<'a>,
    pub(crate) vendor: PropertyText<'a>,
    pub(crate) product: PropertyText<'a>,
    pub(crate) class: PropertyText<'a>,
    /// The names that the step at work is asked for; `None`: all.
    pub(crate) only: Option<&'a NeededNames>,
    /// The JSON object that is all that the event's values are.
    pub(crate) object: Span,
    /// Pairs that were not taken apart: they are looked through when one is asked for.
    pub(crate) pairs: Option<LazyPairs>,
    /// The time that a rule could not read last, and what it tried.
    pub(crate) unread: Option<(&'a TimeFormats, Span)>,
    /// The zone of times without one, if a rule set it.
    pub(crate) zone: Option<&'a jiff::tz::TimeZone>,
    /// The zone of the source.
    pub(crate) source_zone: &'a jiff::tz::TimeZone,
    pub(crate) scratch: &'a mut Scratch,
}

/// The record behind its PRI and the blanks after it.
fn text_of(arena: &[u8], record: &Record) -> Span {
    let bytes = record.raw.of(arena);
    let mut at = 0;
    if record.pri != Record::PRI_NONE && bytes.first() == Some(&b'<') {
        at = bytes
            .iter()
            .take(6)
            .position(|byte| *byte == b'>')
            .map_or(0, |n| n + 1);
    }
    at += bytes[at..].iter().take_while(|byte| **byte == b' ').count();
    Span::new(record.raw.start() + at, record.raw.end())
}

impl<'a> Event<'a> {
    /// An event of which no rule has said anything; `hint`: vendor and product of its source.
    #[inline]
    pub(crate) fn new(
        arena: &'a [u8],
        record: &Record,
        origin: EventOrigin<'a>,
        hint: Option<(&'a str, &'a str)>,
        scratch: &'a mut Scratch,
    ) -> Self {
        let unset = PropertyText::Unset;
        let fixed = |text| PropertyText::Fixed(text);
        Self {
            arena,
            record: *record,
            sender: origin.sender,
            sender_text: OnceCell::new(),
            listener: origin.listener,
            text: text_of(arena, record),
            hint_vendor: hint.map_or(unset, |(vendor, _)| fixed(vendor)),
            hint_product: hint.map_or(unset, |(_, product)| fixed(product)),
            vendor: unset,
            product: unset,
            class: unset,
            only: None,
            object: Span::EMPTY,
            pairs: None,
            unread: None,
            zone: None,
            source_zone: origin.zone,
            scratch,
        }
    }

    /// The bytes of a span, wherever it lies.
    #[inline]
    pub(crate) fn bytes(&self, span: Span) -> &[u8] {
        match (span.start()).checked_sub(self.arena.len()) {
            None => span.of(self.arena),
            Some(at) => {
                let end = at + span.len();
                self.scratch.bytes.get(at..end).unwrap_or_default()
            }
        }
    }

    /// Offset at which the next byte is written.
    pub(crate) fn here(&self) -> usize {
        self.arena.len() + self.scratch.bytes.len()
    }

    /// Keeps a text for this event.
    pub(crate) fn keep(&mut self, text: &[u8]) -> Span {
        let start = self.here();
        self.scratch.bytes.extend_from_slice(text);
        Span::new(start, self.here())
    }

    fn slot(&self, slot: PropertyText<'a>) -> &[u8] {
        match slot {
            PropertyText::Unset => b"",
            PropertyText::Fixed(text) => text.as_bytes(),
            PropertyText::Own(span) => self.bytes(span),
        }
    }

    /// The bytes of a part; empty where it is absent.
    #[inline]
    pub(crate) fn part(&self, part: &EventPart) -> &[u8] {
        let record = &self.record;
        let span = match part {
            EventPart::Message => record.message,
            EventPart::Text => self.text,
            EventPart::Host => record.host,
            EventPart::Program => record.app,
            EventPart::Pid => record.proc_id,
            EventPart::MsgId => record.msg_id,
            EventPart::Sdata => record.sdata,
            _ => return self.rare_part(part),
        };
        self.bytes(span)
    }

    fn rare_part(&self, part: &EventPart) -> &[u8] {
        let slot = match part {
            EventPart::Vendor => self.vendor,
            EventPart::Product => self.product,
            EventPart::Class => self.class,
            EventPart::HintVendor => self.hint_vendor,
            EventPart::HintProduct => self.hint_product,
            EventPart::Listener => PropertyText::Fixed(self.listener),
            EventPart::Sender => {
                return self
                    .sender_text
                    .get_or_init(|| self.sender.map_or_else(String::new, |ip| ip.to_string()))
                    .as_bytes();
            }
            other => return self.bytes(self.span(other)),
        };
        self.slot(slot)
    }

    /// Span of a part of the record, or of a value; empty for what has no place.
    pub(crate) fn span(&self, part: &EventPart) -> Span {
        let record = &self.record;
        match part {
            EventPart::Program => record.app,
            EventPart::Pid => record.proc_id,
            EventPart::MsgId => record.msg_id,
            EventPart::Host => record.host,
            EventPart::Message => record.message,
            EventPart::Sdata => record.sdata,
            EventPart::Text => self.text,
            EventPart::Raw => record.raw,
            EventPart::Header => {
                header_span(self.arena, record.app, record.proc_id, record.message)
                    .unwrap_or_default()
            }
            EventPart::Value(mark, name) => self.value(*mark, name.as_bytes()),
            _ => Span::EMPTY,
        }
    }

    /// Span of the value of that name; the last one counts. Empty if there is none.
    #[inline(never)]
    fn value(&self, mark: NameFingerprint, name: &[u8]) -> Span {
        let is_it =
            |value: &&ExtractedValue| value.mark == mark && same(self.bytes(value.name), name);
        let found = self.scratch.values.iter().rev().find(is_it);
        match (found, &self.pairs) {
            (Some(value), _) => value.text,
            (None, Some(pairs)) => pairs.find(name, self.bytes(pairs.span), &self.scratch.equals),
            (None, None) => Span::EMPTY,
        }
    }

    /// Puts pairs back that were read before others.
    #[cold]
    pub(crate) fn set_pairs(&mut self, pairs: Option<LazyPairs>) {
        self.pairs = pairs;
        if let Some(pairs) = pairs {
            let mut equals = std::mem::take(&mut self.scratch.equals);
            pairs.find_signs(self.bytes(pairs.span), &mut equals);
            self.scratch.equals = equals;
        }
    }

    /// True if a value of that name would be kept.
    pub(crate) fn wants(&self, name: &[u8]) -> bool {
        self.only.is_none_or(|only| only.contains(name))
    }

    /// Adds a value; beyond the most that are kept it is lost.
    pub(crate) fn add(&mut self, name: &[u8], text: Span, keep: bool, json: bool) {
        if self.wants(name) {
            self.add_wanted(name, text, keep, json);
        }
    }

    /// Adds a value whose name is known to be asked for.
    pub(crate) fn add_wanted(&mut self, name: &[u8], text: Span, keep: bool, json: bool) {
        if self.scratch.values.len() < VALUES_MAX {
            let name = &name[..name.len().min(NAME_BYTES_MAX)];
            let value = ExtractedValue {
                name: self.keep(name),
                mark: NameFingerprint::of(name),
                text,
                keep,
                json,
            };
            self.scratch.values.push(value);
        }
    }

    /// Adds a value whose name lies where `at` says, and stays there; whether it is asked for.
    pub(crate) fn add_there(&mut self, name: &[u8], at: usize, text: Span, keep: bool) -> bool {
        let wanted = self.scratch.values.len() < VALUES_MAX && self.wants(name);
        if wanted {
            let name = &name[..name.len().min(NAME_BYTES_MAX)];
            let value = ExtractedValue {
                name: Span::new(at, at + name.len()),
                mark: NameFingerprint::of(name),
                text,
                keep,
                json: false,
            };
            self.scratch.values.push(value);
        }
        wanted
    }

    /// Input of a step: a slice of the arena, or a copy of what lies in the scratch bytes, which
    /// the step will write to.
    pub(crate) fn input(&mut self, part: &EventPart) -> (Cow<'a, [u8]>, Span) {
        let mut span = self.span(part);
        if span.is_empty() {
            // What has no place of its own is given one.
            let text = self.part(part).to_vec();
            span = self.keep(&text);
        }
        match span.start().checked_sub(self.arena.len()) {
            None => (Cow::Borrowed(span.of(self.arena)), span),
            Some(_) => (Cow::Owned(self.bytes(span).to_vec()), span),
        }
    }

    /// Puts a part of the record in another place.
    pub(crate) fn set_part(&mut self, part: &EventPart, span: Span) {
        match part {
            EventPart::Program => self.record.app = span,
            EventPart::Pid => self.record.proc_id = span,
            EventPart::MsgId => self.record.msg_id = span,
            EventPart::Host => self.record.host = span,
            EventPart::Message => self.record.message = span,
            EventPart::Sdata => self.record.sdata = span,
            EventPart::Value(_, name) => {
                self.add(name.as_bytes(), span, false, false);
            }
            _ => {}
        }
    }

    /// The text for this event. One that is nothing but a part stays where that lies.
    pub(crate) fn eval(&mut self, text: &TextTemplate) -> Span {
        if let Some(part) = text.as_part() {
            let span = self.span(part);
            if !span.is_empty() {
                return span;
            }
        }
        let pieces = match text {
            TextTemplate::Fixed(text) => return self.keep(text.as_bytes()),
            TextTemplate::Pieces(pieces) => pieces,
        };
        if let Some(span) = self.together(pieces) {
            return span;
        }
        let start = self.here();
        self.write(pieces);
        Span::new(start, self.here())
    }

    /// Span of the pieces if they are parts that stand one behind the other, as `program[pid]: `
    /// and the message do: nothing need be copied then.
    fn together(&self, pieces: &[TemplatePiece]) -> Option<Span> {
        let mut all: Option<Span> = None;
        for piece in pieces {
            let TemplatePiece::Part {
                part,
                filters,
                default,
            } = piece
            else {
                return None;
            };
            let span = self.span(part);
            match (all, span.is_empty()) {
                _ if !filters.is_empty() || part.is_set_apart() => return None,
                (_, true) if default.is_empty() => {}
                (_, true) => return None,
                (None, false) => all = Some(span),
                // What was kept for the event lies elsewhere, though its spans follow the arena's.
                (Some(before), false)
                    if before.end() == span.start() && span.start() != self.arena.len() =>
                {
                    all = Some(Span::new(before.start(), span.end()));
                }
                _ => return None,
            }
        }
        all
    }

    fn write(&mut self, pieces: &[TemplatePiece]) {
        for piece in pieces {
            match piece {
                TemplatePiece::Literal(text) => {
                    self.scratch.bytes.extend_from_slice(text.as_bytes())
                }
                TemplatePiece::Part {
                    part,
                    filters,
                    default,
                } => {
                    let start = self.scratch.bytes.len();
                    self.write_part(part);
                    for filter in filters {
                        apply(*filter, &mut self.scratch.bytes, start);
                    }
                    if self.scratch.bytes.len() == start {
                        self.write(default);
                    }
                }
            }
        }
    }

    fn write_part(&mut self, part: &EventPart) {
        let slot = match part {
            EventPart::Vendor => self.vendor,
            EventPart::Product => self.product,
            EventPart::Class => self.class,
            EventPart::HintVendor => self.hint_vendor,
            EventPart::HintProduct => self.hint_product,
            EventPart::Listener => PropertyText::Fixed(self.listener),
            EventPart::Sender => {
                if let Some(ip) = self.sender {
                    // Writing an address into a Vec cannot fail.
                    let _ = write!(self.scratch.bytes, "{ip}");
                }
                return;
            }
            other => PropertyText::Own(self.span(other)),
        };
        match slot {
            PropertyText::Unset => {}
            PropertyText::Fixed(text) => self.scratch.bytes.extend_from_slice(text.as_bytes()),
            PropertyText::Own(span) => self.copy(span),
        }
    }

    /// Appends the bytes of a span to the scratch bytes.
    pub(crate) fn copy(&mut self, span: Span) {
        match span.start().checked_sub(self.arena.len()) {
            None => self.scratch.bytes.extend_from_slice(span.of(self.arena)),
            Some(at) => {
                let end = (at + span.len()).min(self.scratch.bytes.len());
                self.scratch.bytes.extend_from_within(at.min(end)..end);
            }
        }
    }
}

#[inline(never)]
fn apply(filter: TemplateFilter, bytes: &mut Vec<u8>, start: usize) {
    match filter {
        TemplateFilter::Lower => bytes[start..].make_ascii_lowercase(),
        TemplateFilter::Upper => bytes[start..].make_ascii_uppercase(),
        TemplateFilter::Trim => {
            let end = bytes.trim_ascii_end().len().max(start);
            bytes.truncate(end);
            let blank = bytes[start..].len() - bytes[start..].trim_ascii_start().len();
            bytes.drain(start..start + blank);
        }
        TemplateFilter::Snake => {
            let blanks = bytes[start..].iter_mut().filter(|byte| **byte == b' ');
            blanks.for_each(|byte| *byte = b'_');
        }
        TemplateFilter::Crlf => {
            let text = bytes.split_off(start);
            let mut rest = text.as_slice();
            while let Some(found) = memchr::memmem::find(rest, br"\r\n") {
                bytes.extend_from_slice(&rest[..found]);
                bytes.extend_from_slice(b"\r\n");
                rest = &rest[found + 4..];
            }
            bytes.extend_from_slice(rest);
        }
        TemplateFilter::Quoted => quote_values(bytes, start),
        TemplateFilter::Basename => {
            let path = &bytes[start..];
            if path.first() == Some(&b'/')
                && let Some(slash) = memchr::memrchr(b'/', path)
            {
                bytes.drain(start..=start + slash);
            }
        }
    }
}

/// Puts quotes around the values that have none, in elements of structured data that begin at
/// `start`.
fn quote_values(bytes: &mut Vec<u8>, start: usize) {
    let end = bytes.len();
    let mut at = start;
    let mut quoted = false;
    while at < end {
        let rest = &bytes[at..end];
        let found = match quoted {
            true => memchr::memchr(b'"', rest),
            false => memchr::memchr2(b'=', b'"', rest),
        };
        let sign = found.map_or(end, |found| at + found);
        let next = end.min(sign + 1);
        bytes.extend_from_within(at..next);
        at = next;
        match bytes[start..end].get(sign - start) {
            Some(b'"') => quoted ^= sign == start || bytes[sign - 1] != b'\\',
            Some(_) if bytes[..end].get(at) != Some(&b'"') => {
                let rest = &bytes[at..end];
                let length = memchr::memchr2(b' ', b']', rest).unwrap_or(rest.len());
                bytes.push(b'"');
                bytes.extend_from_within(at..at + length);
                bytes.push(b'"');
                at += length;
            }
            _ => {}
        }
    }
    bytes.drain(start..end);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same, byte by byte.
    fn quoted_by_bytes(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let (mut quoted, mut bare) = (false, false);
        for (at, &byte) in text.iter().enumerate() {
            if bare && matches!(byte, b' ' | b']') {
                out.push(b'"');
                bare = false;
            }
            out.push(byte);
            let begins = !quoted && !bare && byte == b'=';
            match text.get(at + 1) {
                Some(b'"') if begins => {}
                _ if begins => {
                    out.push(b'"');
                    bare = true;
                }
                _ if byte == b'"' && !bare && text.get(at.wrapping_sub(1)) != Some(&b'\\') => {
                    quoted = !quoted;
                }
                _ => {}
            }
        }
        if bare {
            out.push(b'"');
        }
        out
    }

    proptest! {
        #[test]
        fn values_are_quoted_as_byte_by_byte(
            before in "[\\\\a]{0,2}",
            text in "[ab=\"\\\\ \\]]{0,40}",
        ) {
            let mut bytes = [before.as_bytes(), text.as_bytes()].concat();
            quote_values(&mut bytes, before.len());
            let (kept, quoted) = bytes.split_at(before.len());
            prop_assert_eq!(kept, before.as_bytes());
            let expected = quoted_by_bytes(text.as_bytes());
            prop_assert_eq!(quoted.escape_ascii().to_string(), expected.escape_ascii().to_string());
        }
    }
}
