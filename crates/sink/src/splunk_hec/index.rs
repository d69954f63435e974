//! Events whose index the collector does not take: the others of that index share their fate
//! without a request each, and are sent to another index where the configuration names one.
//!
//! No answer of HEC lists the indexes of a token: events are what it can be asked with. So an index
//! that is not taken is asked for again after [`AGAIN_AFTER`], with the next event that wants it.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use inrush_codec::encode::HecEncoder;
use inrush_event::{Delivery, RefuseReason};

use super::answer::AnswerDetail;
use super::config::UnknownIndex;
use super::context::SentRequest;
use super::deliver::HecWorker;
use crate::http::endpoint::EndpointFailure;
use crate::{ErrorReason, backoff};

/// Time for which an index that is not taken is not asked for; one created since is used then.
const AGAIN_AFTER: Duration = Duration::from_secs(60);

/// Time until an index is asked for again whose events wait for it.
const HOLD_RETRY: Duration = Duration::from_secs(5);

/// Indexes of which that is remembered.
const UNKNOWN_MAX: usize = 1024;

/// Index for the events of wrong indexes, with its encoder.
pub(super) struct IndexFallback {
    index: String,
    encoder: HecEncoder,
}

impl IndexFallback {
    pub(super) fn new(index: String, encoder: HecEncoder) -> Self {
        Self { index, encoder }
    }
}

/// Findings about the indexes of one body.
#[derive(Default)]
pub(super) struct Indexes {
    /// The ones that are not taken, in the collector's words.
    wrong: Vec<(String, AnswerDetail, SentRequest)>,
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

/// Indexes that were not taken, as all workers of a destination know them.
#[derive(Default)]
pub(super) struct RejectedIndexes(Mutex<HashMap<String, IndexRefusal>>);

/// The answer about an index.
struct IndexRefusal {
    words: AnswerDetail,
    sent: SentRequest,
    /// Moment from which it is asked for again.
    again: Instant,
}

impl RejectedIndexes {
    /// Those that are not asked for now.
    fn all(&self, now: Instant) -> Vec<(String, AnswerDetail, SentRequest)> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = known.iter().filter(|(_, refusal)| now < refusal.again);
        now.map(|(index, one)| (index.clone(), one.words.clone(), one.sent))
            .collect()
    }

    /// Has all be asked for again with the next events: nothing is taken, so that no request is
    /// spared, and whether one is there again decides over everything.
    pub(super) fn ask_again(&self, now: Instant) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.values_mut().for_each(|refusal| refusal.again = now);
    }

    /// Takes note of one, and says whether it is the first time.
    fn learn(&self, index: &str, words: &AnswerDetail, sent: SentRequest, now: Instant) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= UNKNOWN_MAX && !known.contains_key(index) {
            known.retain(|_, refusal| now < refusal.again);
        }
        if known.len() >= UNKNOWN_MAX && !known.contains_key(index) {
            return false;
        }
        let refusal = IndexRefusal {
            words: words.clone(),
            sent,
            again: now + AGAIN_AFTER,
        };
        known.insert(index.to_owned(), refusal).is_none()
    }
}

impl HecWorker<'_> {
    /// Begins a body with what is known of indexes.
    pub(super) fn recall_indexes(&mut self) {
        self.indexes.clear();
        if !self.indexes.rerouting {
            self.indexes.wrong = self.shared.unknown.all(Instant::now());
        }
    }

    /// Has events of an index that is not taken wait, and all behind them, if that is the policy.
    fn holds_index(
        &mut self,
        range: &Range<usize>,
        words: &AnswerDetail,
        sent: &SentRequest,
    ) -> bool {
        let detours = self.detour.is_some() && !self.indexes.rerouting;
        if detours || self.shared.unknown_index != UnknownIndex::Hold {
            return false;
        }
        let index = self.index_of(range);
        let text = format!(
            "index `{index}` is not taken, and all waits for it (`unknown_index: hold`): create it \
             or allow it to the token; {}",
            words.text
        );
        self.push(range.clone());
        self.shared
            .failed_by(sent, EndpointFailure::Lasting, ErrorReason::Http400, &text);
        // Others may be taken meanwhile, after which the endpoint is asked at once.
        backoff::wait(self.feed, HOLD_RETRY);
        true
    }

    /// Index of the first event of a range.
    fn index_of(&self, range: &Range<usize>) -> String {
        match self.detour.as_ref().filter(|_| self.indexes.rerouting) {
            Some(detour) => detour.index.clone(),
            None => {
                let run = self.body.runs(range).next();
                run.map(|run| run.index.into_owned()).unwrap_or_default()
            }
        }
    }

    /// The collector does not take the index of the event at `bad`, or that of the one behind it
    /// if it counts otherwise than Splunk. Nothing from `bad` to `end` was taken.
    pub(super) fn blame_index(
        &mut self,
        bad: usize,
        end: usize,
        words: AnswerDetail,
        sent: &SentRequest,
    ) {
        if self.holds_index(&(bad..end), &words, sent) {
            return;
        }
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
    pub(super) fn divert(&mut self, range: Range<usize>, words: AnswerDetail, sent: &SentRequest) {
        if self.holds_index(&range, &words, sent) {
            return;
        }
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
            let told = AnswerDetail {
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
            if !self.indexes.rerouting {
                self.learn_index(&index, &words, sent);
            }
            self.indexes.wrong.push((index, words, *sent));
        }
    }

    /// Remembers an index that is not taken, and names it the first time.
    fn learn_index(&self, index: &str, words: &AnswerDetail, sent: &SentRequest) {
        let unknown = &self.shared.unknown;
        if !unknown.learn(index, words, *sent, Instant::now()) {
            return;
        }
        let destination = self.shared.status.name();
        let goes_to = match &self.detour {
            Some(detour) => format!("its events go to `{}`", detour.index),
            None => "its events go to quarantine".to_owned(),
        };
        tracing::warn!(
            destination,
            index,
            answer = %words.text,
            "the collector does not take this index: {goes_to}; create it or allow it to the token"
        );
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

    /// True if all the events go to the same index: then none of them can be taken.
    pub(super) fn has_one_index(&self, range: &Range<usize>) -> bool {
        let mut indexes = self.body.runs(range).map(|run| run.index);
        let first = indexes.next();
        self.indexes.rerouting || indexes.all(|index| Some(index) == first)
    }
}
