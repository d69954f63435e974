//! Events whose index the collector does not take: the others of that index in the body share their
//! fate without a request each, and are sent to another index where the configuration names one.
//!
//! Nothing is remembered from body to body, so that an index that is created meanwhile is used.

use std::ops::Range;

use inrush_codec::encode::HecEncoder;
use inrush_event::{Delivery, RefuseReason};

use super::answer::Words;
use super::deliver::{Sent, Worker};

/// Where the events of wrong indexes go.
pub(super) struct Detour {
    index: String,
    encoder: HecEncoder,
}

impl Detour {
    pub(super) fn new(index: String, encoder: HecEncoder) -> Self {
        Self { index, encoder }
    }
}

/// What is known of the indexes of one body.
#[derive(Default)]
pub(super) struct Indexes {
    /// The ones that are not taken, in the collector's words.
    wrong: Vec<(String, Words, Sent)>,
    /// Events that are to be sent to another index.
    moved: Vec<Delivery>,
    /// The body is of such events.
    rerouting: bool,
}

impl Indexes {
    /// Begins a body.
    pub(super) fn clear(&mut self) {
        self.wrong.clear();
    }
}

impl Worker<'_> {
    /// The collector does not take the index of the event at `bad`, or that of the one behind it
    /// if it counts otherwise than Splunk. Nothing from `bad` to `end` was taken.
    pub(super) fn blame_index(&mut self, bad: usize, end: usize, words: Words, sent: &Sent) {
        let alone = bad..bad + 1;
        let next = bad + 1..(bad + 2).min(end);
        self.push(bad + 1..end);
        if next.is_empty() || self.has_one_index(&(bad..next.end)) {
            self.divert(alone, words, sent);
        } else {
            self.push(alone);
        }
    }

    /// Sends events of one wrong index elsewhere, or refuses them.
    pub(super) fn divert(&mut self, range: Range<usize>, words: Words, sent: &Sent) {
        let Some(run) = self.body.runs(&range).next() else {
            return;
        };
        let index = run.index.into_owned();
        if self.detour.is_none() || self.indexes.rerouting {
            let detour = self.detour.as_ref().filter(|_| self.indexes.rerouting);
            let text = match detour {
                Some(detour) => format!(
                    "{} (index `{}`, rerouted from `{index}`)",
                    words.text, detour.index
                ),
                None => format!("{} (index `{index}`)", words.text),
            };
            let told = Words {
                text,
                ..words.clone()
            };
            self.refuse(range, RefuseReason::BadRequest, told, sent);
        } else {
            self.shared.status.reroutes(&index, range.len());
            let moved = self.body.parts(&range).map(|(part, events)| Delivery {
                position: part.position,
                batch: part.batch.clone(),
                events,
                origin: part.origin,
            });
            self.indexes.moved.extend(moved);
        }
        if !self.indexes.wrong.iter().any(|(wrong, ..)| *wrong == index) {
            self.indexes.wrong.push((index, words, *sent));
        }
    }

    /// Takes the events of wrong indexes out of a range; what stands before the first of them is
    /// left, the rest is to be looked at later.
    pub(super) fn without_wrong_indexes(&mut self, range: Range<usize>) -> Range<usize> {
        if self.indexes.wrong.is_empty() {
            return range;
        }
        let found = self.body.runs(&range).find_map(|run| {
            let mut wrong = self.indexes.wrong.iter();
            let (_, words, sent) = wrong.find(|(wrong, ..)| *wrong == run.index)?;
            Some((run.events, words.clone(), *sent))
        });
        let Some((span, words, sent)) = found else {
            return range;
        };
        self.push(span.end..range.end);
        let before = range.start..span.start;
        self.divert(span, words, &sent);
        before
    }

    /// Sends what was meant for wrong indexes to the other one.
    pub(super) fn reroute(&mut self) {
        let mut moved = std::mem::take(&mut self.indexes.moved);
        self.indexes.rerouting = true;
        while let Some(detour) = self.detour.as_mut().filter(|_| !moved.is_empty()) {
            let mut room = true;
            self.body.clear(true);
            moved.retain_mut(|delivery| {
                room = room && self.body.fill(&mut detour.encoder, delivery);
                !delivery.events.is_empty()
            });
            self.deliver_body();
        }
        self.indexes.rerouting = false;
    }

    /// Whether all the events go to the same index: then none of them can be taken.
    pub(super) fn has_one_index(&self, range: &Range<usize>) -> bool {
        let mut indexes = self.body.runs(range).map(|run| run.index);
        let first = indexes.next();
        self.indexes.rerouting || indexes.all(|index| Some(index) == first)
    }
}
