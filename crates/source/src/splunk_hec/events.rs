//! Events of a body: objects with envelopes, or lines.
//!
//! # What it guarantees
//! * Objects before the first one at fault are taken, it and those behind it are not.
//! * The value of `event` and of `fields` is kept as it was written.

use inrush_codec::Frame;
use inrush_codec::hec::{
    BodySplitter, BodyStep, Envelope, EnvelopeFault, EnvelopeText, EnvelopeTime, EventValue,
    HecAnswer,
};
use inrush_event::{Anomalies, Format, Span, TimeTally, Timestamp};
use inrush_ingest::batch_writer::FrameIntake;
use inrush_ingest::batch_writer::decoded::{AppendedPart, DecodedEvent, DecodedNames};

use super::lines::LineReader;
use super::request::{BodyFormat, EventDefaults, EventUpload};
use super::tokens::HecToken;

/// An answer, and the number of the object at fault.
pub(super) type EventFault = (HecAnswer, Option<u64>);

/// Takes the events of a body.
pub(super) enum EventReader {
    /// Objects.
    Objects(BodySplitter),
    /// Lines.
    Lines(Box<LineReader>),
}

/// Result of a step through the bytes of a body.
pub(super) struct EventStep {
    /// Offset of the first byte that must be shown again.
    pub(super) keep: usize,
    /// Events taken.
    pub(super) events: u64,
    /// Bytes of their texts.
    pub(super) bytes: u64,
    /// Times from each event to its receipt, where it has a time.
    pub(super) lags: TimeTally,
    /// Fault that ends the request.
    pub(super) fault: Option<EventFault>,
}

impl EventReader {
    pub(super) fn new(format: BodyFormat, event_bytes_max: usize) -> Self {
        match format {
            BodyFormat::Event => Self::Objects(BodySplitter::default()),
            BodyFormat::Raw => Self::Lines(Box::new(LineReader::new(event_bytes_max))),
        }
    }

    /// Takes the events that end in `arena`, from `start` on. With `last` the body ends there.
    pub(super) fn take(
        &mut self,
        (arena, start, last): (&[u8], usize, bool),
        upload: &EventUpload,
        event_bytes_max: usize,
        frames: &mut FrameIntake<'_>,
    ) -> EventStep {
        let mut taker = EventTaker {
            arena,
            upload,
            frames,
            events: 0,
            bytes: 0,
            lags: TimeTally::default(),
        };
        let (keep, fault) = match self {
            Self::Objects(splitter) => {
                match taker.objects(splitter, start, last, event_bytes_max) {
                    Ok(keep) => (keep, None),
                    Err(fault) => (arena.len(), Some(fault)),
                }
            }
            Self::Lines(lines) => {
                let first_line = upload.token.first_line.as_ref();
                let shown = (arena, start, last);
                let keep = lines.take(shown, first_line, event_bytes_max, |frame| {
                    taker.line(frame);
                });
                (keep, None)
            }
        };
        EventStep {
            keep,
            events: taker.events,
            bytes: taker.bytes,
            lags: taker.lags,
            fault,
        }
    }

    /// Bytes that were cut off lines that are too long.
    pub(super) fn cut_bytes(&self) -> u64 {
        match self {
            Self::Objects(_) => 0,
            Self::Lines(lines) => lines.cut_bytes(),
        }
    }
}

struct EventTaker<'t, 'f> {
    arena: &'t [u8],
    upload: &'t EventUpload,
    frames: &'t mut FrameIntake<'f>,
    events: u64,
    bytes: u64,
    lags: TimeTally,
}

impl EventTaker<'_, '_> {
    fn objects(
        &mut self,
        splitter: &mut BodySplitter,
        start: usize,
        last: bool,
        event_bytes_max: usize,
    ) -> Result<usize, EventFault> {
        let mut at = start;
        loop {
            match splitter.step(self.arena, at, last) {
                BodyStep::Object { envelope, end } => {
                    let number = splitter.count() - 1;
                    if envelope.object.len() > event_bytes_max {
                        return Err((HecAnswer::InvalidFormat, Some(number)));
                    }
                    // Splunk names the object behind the one with a wrong index.
                    self.object(&envelope)
                        .map_err(|answer| (answer, Some(number + 1)))?;
                    at = end;
                }
                BodyStep::More { keep } if self.arena.len() - keep > event_bytes_max => {
                    return Err((HecAnswer::InvalidFormat, Some(splitter.count())));
                }
                BodyStep::More { keep } => return Ok(keep),
                BodyStep::End => return Ok(self.arena.len()),
                BodyStep::Fault(fault) => {
                    return Err((answer_of(fault), Some(splitter.count())));
                }
            }
        }
    }

    fn object(&mut self, envelope: &Envelope) -> Result<(), HecAnswer> {
        let (arena, token) = (self.arena, &self.upload.token);
        let defaults = &self.upload.defaults;
        let index = text(arena, envelope.index);
        if !index.is_empty() && !token.allows(&index) {
            return Err(HecAnswer::IncorrectIndex);
        }
        let (sourcetype, source) = (
            text(arena, envelope.sourcetype),
            text(arena, envelope.source),
        );
        let names = DecodedNames {
            index: or(&index, &defaults.index),
            sourcetype: or(&sourcetype, &defaults.sourcetype),
            source: or(&source, &defaults.source),
            recognised: false,
            product: None,
        };
        let (value, span) = match envelope.event {
            EventValue::Text(text) => (
                Span::new(text.span.start() - 1, text.span.end() + 1),
                text.span,
            ),
            EventValue::Json(span) => (span, span),
            // A metric: its fields are all that it has.
            EventValue::Absent => (Span::EMPTY, envelope.fields),
        };
        let found = match (envelope.time, envelope.event) {
            (EnvelopeTime::Absent, EventValue::Text(text))
                if defaults.extracts_time && !text.escaped =>
            {
                self.frames.time_in(text.span)
            }
            _ => Timestamp::NONE,
        };
        let (mut bytes, lags) = (0, &mut self.lags);
        self.frames.take_decoded(span, names, |mut event| {
            event.record.format = Format::Hec;
            event.record.msg_id = value;
            event.record.sdata = envelope.fields;
            if let EventValue::Text(text) = envelope.event
                && text.escaped
            {
                event.append(AppendedPart::Text, |out| text.push(arena, out));
            }
            let default = defaults.time.unwrap_or(found);
            time(envelope, default, &mut event);
            host(arena, envelope, defaults, &mut event);
            if std::str::from_utf8(envelope.object.of(arena)).is_err() {
                event.record.anomalies.insert(Anomalies::NOT_UTF8);
            }
            bytes = u64::from(event.record.raw.len);
            lags.note_receipt(event.record);
        });
        self.events += 1;
        self.bytes += bytes;
        Ok(())
    }

    fn line(&mut self, frame: Frame) {
        let EventUpload {
            token, defaults, ..
        } = self.upload;
        let names = names_of(token, defaults);
        let lags = &mut self.lags;
        self.events += 1;
        self.bytes += u64::from(frame.span.len);
        self.frames.take_named(frame, names, |mut event| {
            if let Some(at) = defaults.time {
                event.record.event_time = at;
                lags.note_receipt(event.record);
            }
            if !defaults.host.is_empty() {
                event.append(AppendedPart::Host, |out| {
                    out.extend_from_slice(&defaults.host)
                });
            }
        });
    }
}

fn names_of<'n>(token: &'n HecToken, defaults: &'n EventDefaults) -> DecodedNames<'n> {
    DecodedNames {
        index: &defaults.index,
        sourcetype: &defaults.sourcetype,
        source: &defaults.source,
        recognised: token.packs,
        product: token.product(),
    }
}

fn answer_of(fault: EnvelopeFault) -> HecAnswer {
    match fault {
        EnvelopeFault::Format => HecAnswer::InvalidFormat,
        EnvelopeFault::EventRequired => HecAnswer::EventRequired,
        EnvelopeFault::EventBlank => HecAnswer::EventBlank,
        EnvelopeFault::Fields => HecAnswer::InvalidFields,
    }
}

fn or<'t>(one: &'t [u8], other: &'t [u8]) -> &'t [u8] {
    match one.is_empty() {
        true => other,
        false => one,
    }
}

/// The text of a string in an envelope.
fn text(arena: &[u8], text: EnvelopeText) -> std::borrow::Cow<'_, [u8]> {
    match text.escaped {
        false => text.span.of(arena).into(),
        true => {
            let mut unescaped = Vec::new();
            text.push(arena, &mut unescaped);
            unescaped.into()
        }
    }
}

/// The time of the object, or of its request; one out of reach leaves the time of receipt.
fn time(envelope: &Envelope, default: Timestamp, event: &mut DecodedEvent<'_>) {
    match envelope.time {
        EnvelopeTime::At(at) => {
            event.record.event_time = at;
            event.record.proc_id = envelope.time_text;
        }
        EnvelopeTime::Far => event.record.anomalies.insert(Anomalies::TIME_SKEWED),
        EnvelopeTime::Absent => event.record.event_time = default,
    }
}

fn host(arena: &[u8], envelope: &Envelope, defaults: &EventDefaults, event: &mut DecodedEvent<'_>) {
    let host = envelope.host;
    if host.span.is_empty() {
        if !defaults.host.is_empty() {
            event.append(AppendedPart::Host, |out| {
                out.extend_from_slice(&defaults.host)
            });
        }
    } else if host.escaped {
        event.append(AppendedPart::Host, |out| host.push(arena, out));
    } else {
        event.record.host = host.span;
    }
}
