//! The batch that is being filled, and what goes with it until it is handed on.

use std::sync::Arc;
use std::time::Instant;

use inrush_event::{Anomalies, BatchBuilder, Counter, Record, Span, Timestamp, instant_now};

use super::decoded::AppendedTexts;
use super::tally::BatchTally;
use crate::transform::BatchRouting;

/// An event of which nothing is known yet but its bytes: what becomes of it is found out later.
#[derive(Clone, Copy)]
pub(super) struct FramedEvent {
    pub(super) span: Span,
    pub(super) received: Timestamp,
    /// Index of [`BatchBuilder::peer`].
    pub(super) peer: u32,
    pub(super) anomalies: Anomalies,
}

/// An event that its source has decoded, and that is studied later.
pub(super) struct UnstudiedEvent {
    pub(super) record: Record,
    /// True if its header is to be read: packs are asked about it.
    pub(super) parses: bool,
}

/// Events that their source filtered: they never came into a batch.
#[derive(Default)]
pub(super) struct UnwantedEvents {
    pub(super) events: u64,
    pub(super) bytes: u64,
    pub(super) by_rule: Vec<(Arc<Counter>, u64)>,
}

impl UnwantedEvents {
    /// Adds one.
    pub(super) fn add(&mut self, bytes: usize, rule: &Arc<Counter>) {
        self.events += 1;
        self.bytes += bytes as u64;
        let mut known = self.by_rule.iter_mut();
        match known.find(|(known, _)| Arc::ptr_eq(known, rule)) {
            Some((_, events)) => *events += 1,
            None => self.by_rule.push((Arc::clone(rule), 1)),
        }
    }
}

/// A batch that is not frozen.
pub struct OpenBatch {
    pub(super) builder: BatchBuilder,
    /// Time since which its first event may have waited.
    pub(super) since: Instant,
    pub(super) tally: BatchTally,
    /// Events that a rule took out, and their bytes, not yet posted.
    pub(super) filtered: (u64, u64),
    /// By which rules; known at the end.
    pub(super) by_rule: Vec<(Arc<Counter>, u64)>,
    /// Events that their source filtered before they came into the batch, not yet posted.
    pub(super) unwanted: UnwantedEvents,
    /// Parts of events that began to wait, and their bytes, not yet posted.
    pub(super) held: (u64, u64),
    /// Destinations of its events; known at the end, `None`: all.
    pub(super) routing: Option<BatchRouting>,
    /// Events that are not in the builder's rows yet, or were and are not studied as a whole.
    pub(super) rows: Vec<FramedEvent>,
    /// The same of events that their source has decoded. A source has frames or these.
    pub(super) decoded: Vec<UnstudiedEvent>,
    /// Texts of its last events that are to be put behind what was read.
    pub(super) texts: AppendedTexts,
    /// Number of `rows` or `decoded` that were studied.
    pub(super) studied: usize,
    /// Bytes of the arena that were read; what comes after them was added by the study.
    read: usize,
}

impl OpenBatch {
    /// An empty one.
    pub(super) fn new(builder: BatchBuilder) -> Self {
        Self {
            builder,
            since: instant_now(),
            tally: BatchTally::default(),
            filtered: (0, 0),
            by_rule: Vec::new(),
            unwanted: UnwantedEvents::default(),
            held: (0, 0),
            routing: None,
            rows: Vec::new(),
            decoded: Vec::new(),
            texts: AppendedTexts::default(),
            studied: 0,
            read: 0,
        }
    }

    /// Events in it.
    pub(super) fn len(&self) -> usize {
        self.unstudied().max(self.builder.len())
    }

    /// Events that are to be studied, or were, later than they were taken in.
    pub(super) fn unstudied(&self) -> usize {
        self.rows.len() + self.decoded.len()
    }

    /// True if there is no event in it.
    pub(super) fn is_empty(&self) -> bool {
        self.builder.is_empty() && self.unstudied() == 0
    }

    /// Puts the texts of its last events into the arena.
    pub(super) fn settle_texts(&mut self) {
        self.texts.settle(&mut self.builder, &mut self.decoded);
    }

    /// It is studied from now on, and grows no more.
    pub(super) fn begin_study(&mut self) {
        self.read = self.builder.filled();
    }

    /// Forgets what was found out: its events are as they were read.
    pub(super) fn forget_study(&mut self) {
        self.builder.records_mut().clear();
        self.builder.truncate(self.read);
        self.tally.forget_anomalies();
        self.tally.bytes += self.filtered.1;
        self.filtered = (0, 0);
        self.studied = 0;
    }
}
