//! Explanation: all that is known of one record, and the sentences that say why.

use inrush_classify::{RuleOutcome, RuleTrace};
use inrush_event::{Anomalies, Batch, Format, Peer, Period, Record, Span};
use inrush_ingest::timezone;
use inrush_ingest::transform::UNROUTED;
use inrush_tail::preview::EventLines;

use super::collector::EventValue;
use super::json;

/// A record that was read, and what would be sent of it.
pub struct RecordExplanation {
    /// From 1, in the order of asking.
    pub number: u64,
    /// The record alone in its batch.
    pub batch: Batch,
    /// The record as it was read.
    pub record: Record,
    /// True if the arrival named no sender, so that its address is our own stand-in.
    pub stand_in: bool,
    /// The HEC envelope; empty if the record is filtered, or waits for others.
    pub hec: Vec<u8>,
    /// All envelopes that came of it: those of groups whose time was up come first.
    pub envelopes: Vec<Vec<u8>>,
    /// The rule by which it is a part of an event, and what became of it.
    pub part: Option<(String, PartFate)>,
    /// The rule that filters the record.
    pub filtered: Option<String>,
    /// The transforms that changed it.
    pub transforms: Vec<String>,
    /// Destinations that routes send it to; `None` without routes: every destination.
    pub destinations: Option<Vec<String>>,
    /// The rules that were asked, in order; `None` if packs are off.
    pub considered: Option<Vec<RuleTrace>>,
    /// True if no rule recognised it, so that the fallback decided.
    pub fell: bool,
    /// Values of an event of a collector or of a log, and the places that they come from; `None`
    /// for a record.
    pub values: Option<Vec<EventValue>>,
    /// Lines of a log that it came of; `None` for what comes from no log.
    pub lines: Option<EventLines>,
    pub(super) timezone: String,
    pub(super) time_skew_max: Period,
}

/// Fate of a part of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PartFate {
    /// It was looked at alone: nothing is put together.
    Alone,
    /// It waits for the others.
    Held,
    /// An event came of it and of the others.
    Joined,
}

impl PartFate {
    /// The word in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Held => "held",
            Self::Joined => "joined",
        }
    }
}

impl RecordExplanation {
    /// The fields that the parser found, by their names in output; an absent one is `None`.
    pub fn fields(&self) -> [(&'static str, Option<&[u8]>); 7] {
        let field = |span: Span| (!span.is_empty()).then(|| self.batch.get(span));
        let Record {
            host,
            app,
            proc_id,
            msg_id,
            sdata,
            message,
            raw,
            ..
        } = self.record;
        [
            ("host", field(host)),
            ("app", field(app)),
            ("proc_id", field(proc_id)),
            ("msg_id", field(msg_id)),
            ("sdata", field(sdata)),
            ("message", field(message)),
            ("raw", field(raw)),
        ]
    }

    /// Number of the event in its body, from 0, as answers count; `None` for a record.
    pub fn event_number(&self) -> Option<u64> {
        let is_decoded = self.values.is_some() && self.lines.is_none();
        is_decoded.then(|| self.number - 1)
    }

    /// Indexed fields that all events of its class have: those of a container.
    pub fn class_fields(&self) -> &[(String, String)] {
        let class = self.batch.class(&self.record);
        class.map_or(&[], |class| &class.fields)
    }

    /// The value of `event`, as it was written; `None` if the record is no object of a collector,
    /// or a metric without one.
    pub fn event(&self) -> Option<&[u8]> {
        let is_object = self.record.format == Format::Hec && !self.record.msg_id.is_empty();
        is_object.then(|| self.batch.get(self.record.msg_id))
    }

    /// The value of `fields`, as it was written; `None` if there are none.
    pub fn indexed_fields(&self) -> Option<&[u8]> {
        let has_fields = self.record.format == Format::Hec && !self.record.sdata.is_empty();
        has_fields.then(|| self.batch.get(self.record.sdata))
    }

    /// Spans, in bytes, of the parts of the header that lie in the record.
    pub fn spans(&self) -> Vec<(&'static str, Span)> {
        let record = &self.record;
        let parts = [
            ("host", record.host),
            ("app", record.app),
            ("proc_id", record.proc_id),
            ("msg_id", record.msg_id),
            ("sdata", record.sdata),
            ("message", record.message),
        ];
        let inside = |span: Span| !span.is_empty() && span.end() <= record.raw.end();
        parts
            .into_iter()
            .filter(|(_, span)| inside(*span))
            .collect()
    }

    /// The rules that decided, joined by `|`; empty if none did.
    pub fn rules(&self) -> &str {
        self.batch
            .class(&self.record)
            .map_or("", |class| &class.rules)
    }

    /// Vendor, product and class, as far as they are known, joined by `/`.
    pub fn class(&self) -> Option<String> {
        let names = self.batch.names(&self.record);
        let parts = [names.vendor, names.product, names.class];
        let known = parts.iter().filter(|part| !part.is_empty());
        let known: Vec<_> = known.map(|part| String::from_utf8_lossy(part)).collect();
        (!known.is_empty()).then(|| known.join("/"))
    }

    /// Reason of the decision on the record, in a sentence.
    pub fn why(&self) -> String {
        let mut why = match self.filtered.as_deref() {
            Some(UNROUTED) => "filtered: no route matches".to_owned(),
            Some(rule) => return format!("filtered by the rule `{rule}`"),
            None => self.recognised(),
        };
        if !self.transforms.is_empty() {
            why.push_str("; changed by ");
            why.push_str(&self.transforms.join(", then "));
        }
        why
    }

    fn recognised(&self) -> String {
        if !self.rules().is_empty() {
            let rules = self.rules().replace('|', ", then ");
            let fate = self.part.as_ref().map(|(rule, fate)| {
                let fate = match fate {
                    PartFate::Alone => "looked at alone",
                    PartFate::Held => "it waits for the others",
                    PartFate::Joined => "which is complete",
                };
                format!("; it is a part of an event by `{rule}`: {fate}")
            });
            let nearest = self.nearest().filter(|_| self.fell);
            let nearest = nearest.map(|(rule, why)| {
                format!(", as no other rule took it; the nearest was `{rule}`: {why}")
            });
            let more = fate.or(nearest).unwrap_or_default();
            return format!("recognised by {rules}{more}");
        }
        match self.nearest() {
            Some((rule, why)) => format!("no rule took it; the nearest was `{rule}`: {why}"),
            None if self.considered.is_none() => {
                "no rule is asked: `packs.enabled` is false".to_owned()
            }
            None if self.lines.is_some() => {
                "no rule is asked: that is for a source with `packs: true`".to_owned()
            }
            None if self.values.is_some() => {
                "no rule is asked: that is for lines of a token with `packs`".to_owned()
            }
            None => "no rule asks for anything in it".to_owned(),
        }
    }

    /// The rule that came nearest to recognising it, and what failed: one by program or structured
    /// data before one by the message, the last of those.
    pub fn nearest(&self) -> Option<(&str, String)> {
        let of = |stages: &[&str]| {
            let mut asked = self.considered.iter().flatten().rev();
            asked.find_map(|one| {
                let failed = stages
                    .contains(&one.stage)
                    .then(|| reason(&one.outcome))??;
                Some((one.rule.as_str(), failed))
            })
        };
        of(&["sdata", "program"])
            .or_else(|| of(&["message", "cef", "leef", "json", "cisco", "listener"]))
    }

    /// Derivation of the event time, in sentences.
    pub fn time_notes(&self) -> Vec<String> {
        let has = |anomaly| self.record.anomalies.contains(anomaly);
        if !self.record.event_time.is_some() {
            let stands_in = "the receive time stands in";
            let why = if has(Anomalies::BAD_TIME) {
                "what was sent is no date"
            } else {
                "none was sent"
            };
            return vec![format!("{why}; {stands_in}")];
        }
        let mut notes = Vec::new();
        if has(Anomalies::YEAR_ASSUMED) {
            notes
                .push("no year was sent: the one closest to the receive time was taken".to_owned());
        }
        let zone = timezone::offset(self.record.zone_minutes);
        if has(Anomalies::ZONE_GUESSED) {
            notes.push(format!(
                "no zone was sent: {zone}, that of earlier events of its sender, was taken"
            ));
        } else if has(Anomalies::ZONE_ASSUMED) {
            let zone = &self.timezone;
            let unless = match self.rules() {
                "" => "",
                _ => ", unless a rule set another",
            };
            notes.push(format!(
                "no zone was sent: the source's, {zone}, was taken{unless}"
            ));
        } else if self.record.zone_minutes != Record::ZONE_NONE {
            notes.push(format!("sent with the zone {zone}"));
        }
        if has(Anomalies::HOUR_ASSUMED) {
            let words = "the hour occurs twice: the time closest to the receive time, or in the \
                         order of the sender's events, was taken";
            notes.push(words.to_owned());
        }
        if has(Anomalies::TIME_SKEWED) {
            let most = self.time_skew_max;
            notes.push(format!(
                "more than {most} from the receive time (`max_time_skew`)"
            ));
        }
        if has(Anomalies::CLOCK_UNSYNCED) {
            notes.push("the device said that its clock is not synchronised".to_owned());
        }
        notes
    }

    /// Each anomaly with its sentence.
    pub fn anomalies(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let set = self.record.anomalies;
        let present = Anomalies::ALL.iter().filter(move |one| set.contains(**one));
        present.filter_map(|one| Some((one.names().next()?, one.describe())))
    }

    /// The peer that sent it.
    pub fn peer(&self) -> Option<&Peer> {
        self.batch.peer(&self.record)
    }

    /// All of it as one JSON object. The envelope under `hec` is the very text that would be sent.
    ///
    /// # Errors
    /// None that is known: what is written comes from text.
    pub fn to_json(&self) -> Result<Vec<u8>, serde_json::Error> {
        json::object(self)
    }
}

/// Reason that a rule was not taken, in words; `None` if it was.
pub fn reason(outcome: &RuleOutcome) -> Option<String> {
    match outcome {
        RuleOutcome::Taken => None,
        RuleOutcome::Condition(words) => Some(format!("it is not so that {words}")),
        RuleOutcome::Step(number) => Some(format!("step {} could not read it", number + 1)),
    }
}
