//! Steps that take an event apart.

mod csv;
mod extended;
mod header;
mod json;
mod kv;
mod sdata;
pub(crate) mod time;
mod xml;

use std::sync::Arc;

use inrush_event::Span;

use crate::PackError;
use crate::event::{Event, Scratch};
use crate::needs::NeededNames;
use crate::pack::EventPart;
use crate::template::TextTemplate;
use inrush_multipattern::Anchor;
use inrush_multipattern::CompiledRegex;

pub use csv::Csv;
pub(crate) use extended::{EqualsSign, LazyPairs};
pub use kv::Kv;
pub use time::{TimeFormats, closest_year};

/// A step.
#[derive(Clone, Debug)]
pub struct ReadStep {
    /// Action that it takes.
    pub action: StepAction,
    /// Part of the event that it reads.
    pub input: EventPart,
    /// True if the rule holds without it.
    pub optional: bool,
    /// True if its values count among the event's.
    pub keep: bool,
    /// The names that are asked for; `None`: all. Known once packs are compiled.
    pub(crate) only: Option<Arc<NeededNames>>,
    /// True if the object that it reads is all that the event's values are.
    pub(crate) whole: bool,
}

impl ReadStep {
    /// A step that keeps everything until packs are compiled.
    pub fn new(action: StepAction, input: EventPart, optional: bool, keep: bool) -> Self {
        Self {
            action,
            input,
            optional,
            keep,
            only: None,
            whole: false,
        }
    }

    /// True if it makes values that count.
    pub(crate) fn keeps(&self) -> bool {
        let makes = !matches!(
            self.action,
            StepAction::Time { .. }
                | StepAction::Tag
                | StepAction::Header
                | StepAction::Trim
                | StepAction::Remove(_)
        );
        makes && self.keep
    }
}

/// Action of a step.
#[derive(Clone, Debug)]
pub enum StepAction {
    /// Named groups become values or parts of the record.
    Regex(CaptureGroups),
    /// Every place where an expression fits is taken out of what is read.
    Remove(CaptureGroups),
    /// `key=value` pairs.
    Kv(Kv),
    /// Columns.
    Csv(Csv),
    /// A JSON object.
    Json,
    /// An XML document.
    Xml,
    /// Common Event Format.
    Cef,
    /// Log Event Extended Format.
    Leef,
    /// Parameters of structured data.
    Sdata,
    /// The event time.
    Time {
        /// Text that is read.
        text: TextTemplate,
        /// The formats, tried in order.
        formats: TimeFormats,
        /// The zone of a time without one.
        zone: Option<jiff::tz::TimeZone>,
    },
    /// `program[pid]: message`
    Tag,
    /// A whole RFC 3164 header.
    Header,
    /// Blanks at both ends go.
    Trim,
}

/// A regular expression and what its groups stand for.
#[derive(Clone, Debug)]
pub struct CaptureGroups {
    regex: Box<CompiledRegex>,
    groups: Vec<(usize, EventPart)>,
    /// Its number among all expressions with groups; given when packs are compiled.
    pub(crate) id: usize,
}

impl CaptureGroups {
    /// Anchor by which candidates can be found.
    pub(crate) fn anchor(&self) -> Option<Anchor<'_>> {
        self.regex.anchor()
    }

    /// Leaves out what a group stands for that is asked for by nothing.
    pub(crate) fn retain(&mut self, keep: impl Fn(&EventPart) -> bool) {
        self.groups.retain(|(_, part)| keep(part));
    }

    /// Compiles an expression.
    ///
    /// # Errors
    /// It is none, or is too large.
    pub fn new(expression: &str) -> Result<Self, PackError> {
        let regex = Box::new(CompiledRegex::new(expression, false)?);
        let named = regex.regex().capture_names().enumerate();
        let groups = named
            .filter_map(|(index, name)| Some((index, EventPart::named(name?))))
            .collect();
        Ok(Self {
            regex,
            groups,
            id: 0,
        })
    }
}

impl ReadStep {
    /// Takes the event apart; `false`: it could not.
    pub(crate) fn apply<'a>(&'a self, event: &mut Event<'a>) -> bool {
        let (bytes, span) = event.input(&self.input);
        event.only = self.only.as_deref();
        let within = |from: usize, to: usize| Span::new(span.start() + from, span.start() + to);
        match &self.action {
            StepAction::Regex(groups) => self.groups(groups, &bytes, span, event),
            StepAction::Remove(what) => remove(what, &bytes, &self.input, event),
            StepAction::Kv(kv) => kv.read(&bytes, span, self.keep, event),
            StepAction::Csv(csv) => csv.read(&bytes, span, self.keep, event),
            StepAction::Json => {
                let read = json::read(&bytes, span, self.keep, event);
                if let Some(object) = read
                    && self.whole
                {
                    event.object = object;
                }
                read.is_some()
            }
            StepAction::Xml => xml::read(&bytes, self.keep, event),
            StepAction::Cef => extended::cef(&bytes, span, self.keep, event),
            StepAction::Leef => extended::leef(&bytes, span, self.keep, event),
            StepAction::Sdata => sdata::read(&bytes, span, self.keep, event),
            StepAction::Time {
                text,
                formats,
                zone,
            } => {
                let span = event.eval(text);
                let known = zone.as_ref().or(event.zone);
                let zone = known.unwrap_or(event.source_zone);
                let Some(time) = formats.read(event.bytes(span), zone, event.record.received)
                else {
                    let is_text = !event.bytes(span).trim_ascii().is_empty();
                    event.unread = is_text.then_some((formats, span));
                    return false;
                };
                time.stamp(&mut event.record, known.is_some());
                event.unread = None;
                true
            }
            StepAction::Tag => {
                header::tag(&bytes, span, event);
                true
            }
            StepAction::Header => header::whole(&bytes, span, event),
            StepAction::Trim => {
                let end = bytes.trim_ascii_end().len();
                let from = end - bytes[..end].trim_ascii_start().len();
                event.set_part(&self.input, within(from, end));
                true
            }
        }
    }

    /// Keeps what the groups of an expression find; `false` if it does not fit.
    fn groups<'a>(
        &'a self,
        groups: &'a CaptureGroups,
        bytes: &[u8],
        span: Span,
        event: &mut Event<'a>,
    ) -> bool {
        if groups.groups.is_empty() {
            return groups.regex.is_match(bytes);
        }
        let Scratch { slots, rooms, .. } = &mut *event.scratch;
        if !groups.regex.captures(bytes, slots, rooms, groups.id) {
            return false;
        }
        for (index, part) in &groups.groups {
            let slots = &event.scratch.slots;
            let Some((from, to)) = groups.regex.group(*index, slots, bytes) else {
                continue;
            };
            let found = Span::new(span.start() + from, span.start() + to);
            match part {
                // What nothing asks for was taken out before.
                EventPart::Value(_, name) => {
                    event.add_wanted(name.as_bytes(), found, self.keep, false)
                }
                part => event.set_part(part, found),
            }
        }
        true
    }
}

/// Takes out of a part every place where an expression fits; `false` if there is none.
fn remove<'a>(
    what: &'a CaptureGroups,
    bytes: &[u8],
    part: &'a EventPart,
    event: &mut Event<'a>,
) -> bool {
    let start = event.here();
    let mut from = 0;
    let mut found = false;
    for place in what.regex.regex().find_iter(bytes) {
        event.keep(&bytes[from..place.start()]);
        from = place.end();
        found = true;
    }
    if found {
        event.keep(&bytes[from..]);
        event.set_part(part, Span::new(start, event.here()));
    }
    found
}
