//! Steps that take an event apart.

mod csv;
mod extended;
mod header;
mod json;
mod kv;
mod sdata;
pub(crate) mod time;
mod xml;

use inrush_event::Span;
use regex::bytes::Regex;

use crate::PackError;
use crate::event::Event;
use crate::pack::Part;
use crate::pattern;
use crate::template::Text;

pub use csv::Csv;
pub use kv::Kv;
pub use time::{Formats, closest_year};

/// A step.
#[derive(Clone, Debug)]
pub struct Step {
    /// What it does.
    pub action: Action,
    /// What it reads.
    pub input: Part,
    /// Whether the rule holds without it.
    pub optional: bool,
    /// Whether its values count among the event's.
    pub keep: bool,
}

/// What a step does.
#[derive(Clone, Debug)]
pub enum Action {
    /// Named groups become values or parts of the record.
    Regex(Groups),
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
        /// What is read.
        text: Text,
        /// The formats, tried in order.
        formats: Formats,
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
pub struct Groups {
    regex: Regex,
    groups: Vec<(usize, Part)>,
    locations: regex::bytes::CaptureLocations,
}

impl Groups {
    /// Compiles an expression.
    ///
    /// # Errors
    /// It is none, or is too large.
    pub fn new(expression: &str) -> Result<Self, PackError> {
        let regex = pattern::compile(expression, false)?;
        let named = regex.capture_names().enumerate();
        let groups = named
            .filter_map(|(index, name)| Some((index, Part::named(name?))))
            .collect();
        let locations = regex.capture_locations();
        Ok(Self {
            regex,
            groups,
            locations,
        })
    }
}

impl Step {
    /// Takes the event apart; `false`: it could not.
    pub(crate) fn apply(&self, event: &mut Event<'_>) -> bool {
        let (bytes, span) = event.input(&self.input);
        let within = |from: usize, to: usize| Span::new(span.start() + from, span.start() + to);
        match &self.action {
            Action::Regex(groups) => {
                let mut locations = groups.locations.clone();
                if groups.regex.captures_read(&mut locations, &bytes).is_none() {
                    return false;
                }
                for (index, part) in &groups.groups {
                    let Some((from, to)) = locations.get(*index) else {
                        continue;
                    };
                    match part {
                        Part::Value(name) => {
                            event.add(name.as_bytes(), within(from, to), self.keep, false);
                        }
                        part => event.set_part(part, within(from, to)),
                    }
                }
                true
            }
            Action::Kv(kv) => kv.read(&bytes, span, self.keep, event),
            Action::Csv(csv) => csv.read(&bytes, span, self.keep, event),
            Action::Json => json::read(&bytes, self.keep, event),
            Action::Xml => xml::read(&bytes, self.keep, event),
            Action::Cef => extended::cef(&bytes, span, self.keep, event),
            Action::Leef => extended::leef(&bytes, span, self.keep, event),
            Action::Sdata => sdata::read(&bytes, span, self.keep, event),
            Action::Time {
                text,
                formats,
                zone,
            } => {
                let span = event.eval(text);
                let zone = zone.as_ref().or(event.zone).unwrap_or(event.source_zone);
                let Some(time) = formats.read(event.bytes(span), zone, event.record.received)
                else {
                    return false;
                };
                time.stamp(&mut event.record);
                true
            }
            Action::Tag => {
                header::tag(&bytes, span, event);
                true
            }
            Action::Header => header::whole(&bytes, span, event),
            Action::Trim => {
                let end = bytes.trim_ascii_end().len();
                let from = end - bytes[..end].trim_ascii_start().len();
                event.set_part(&self.input, within(from, end));
                true
            }
        }
    }
}
