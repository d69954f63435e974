//! What a branch that is taken changes of an event.

use inrush_event::{Anomalies, Record, Timestamp, closest_instant};
use jiff::tz::TimeZone;

use super::ClassifierRun;
use crate::event::{Event, PropertyText};
use crate::pack::{BranchSettings, EventPart};
use crate::template::TextTemplate;

/// One change. All else that a [`BranchSettings`] says counts for the class only, which is made
/// once: of two events that meet a branch there were others in between, so that all of it must be
/// waited for.
#[derive(Clone, Debug)]
pub(crate) enum EventChange {
    Value(String, TextTemplate),
    Part(EventPart, TextTemplate),
    Hint(String, String),
    Zone(TimeZone),
    Vendor(TextTemplate),
    Product(TextTemplate),
    Class(TextTemplate),
}

impl EventChange {
    /// The changes that a set stands for, in order.
    pub(crate) fn all(set: &BranchSettings) -> Box<[Self]> {
        let values = set.values.iter().cloned();
        let parts = set.parts.iter().cloned();
        let mut all: Vec<Self> = values.map(|(name, text)| Self::Value(name, text)).collect();
        all.extend(parts.map(|(part, text)| Self::Part(part, text)));
        all.extend(set.hint.clone().map(|(v, p)| Self::Hint(v, p)));
        all.extend(set.zone.clone().map(Self::Zone));
        all.extend(set.vendor.clone().map(Self::Vendor));
        all.extend(set.product.clone().map(Self::Product));
        all.extend(set.class.clone().map(Self::Class));
        all.into()
    }
}

impl<'a> ClassifierRun<'_, 'a> {
    /// Makes the changes of a branch.
    pub(super) fn act(&mut self, acts: &'a [EventChange]) {
        for act in acts {
            match act {
                EventChange::Value(name, text) => {
                    let span = self.event.eval(text);
                    self.event.only = None;
                    self.event.add(name.as_bytes(), span, true, false);
                }
                EventChange::Part(part, text) => {
                    let span = self.event.eval(text);
                    self.event.set_part(part, span);
                }
                EventChange::Hint(vendor, product) if !self.hinted => {
                    self.hinted = true;
                    self.event.hint_vendor = PropertyText::Fixed(vendor);
                    self.event.hint_product = PropertyText::Fixed(product);
                }
                EventChange::Hint(..) => {}
                EventChange::Zone(zone) => {
                    rezone(&mut self.event, zone);
                    self.event.zone = Some(zone);
                }
                EventChange::Vendor(text) => self.event.vendor = slot(text, &mut self.event),
                EventChange::Product(text) => self.event.product = slot(text, &mut self.event),
                EventChange::Class(text) => self.event.class = slot(text, &mut self.event),
            }
        }
    }
}

/// The text as this event has it.
fn slot<'a>(text: &'a TextTemplate, event: &mut Event<'a>) -> PropertyText<'a> {
    match text {
        TextTemplate::Fixed(text) => PropertyText::Fixed(text),
        dynamic @ TextTemplate::Pieces(_) => PropertyText::Own(event.eval(dynamic)),
    }
}

/// Reads the header's time again as one of `zone`, if it named none. A zone that a rule knows
/// counts for more than one that was guessed, and the last rule for more than those before.
fn rezone(event: &mut Event<'_>, zone: &TimeZone) {
    let record = &mut event.record;
    let open = Anomalies::ZONE_ASSUMED.union(Anomalies::ZONE_GUESSED);
    if record.anomalies.bits() & open.bits() == 0 || !record.event_time.is_some() {
        return;
    }
    let gone = open.union(Anomalies::HOUR_ASSUMED);
    record.anomalies = Anomalies::from_bits(record.anomalies.bits() & !gone.bits());
    record.anomalies.insert(Anomalies::ZONE_ASSUMED);
    record.zone_minutes = Record::ZONE_NONE;
    let old = jiff::Timestamp::from_nanosecond(record.event_time.0.into());
    let received = record.received.or(Timestamp(0)).0;
    let received = jiff::Timestamp::from_nanosecond(received.into());
    let new = old.ok().zip(received.ok()).and_then(|(time, received)| {
        let civil = event.zone.unwrap_or(event.source_zone).to_datetime(time);
        closest_instant(zone, civil, received)
    });
    let Some((time, twice)) = new else { return };
    if let Ok(nanos) = i64::try_from(time.as_nanosecond()) {
        record.event_time = Timestamp(nanos);
    }
    if twice {
        record.anomalies.insert(Anomalies::HOUR_ASSUMED);
    }
}
