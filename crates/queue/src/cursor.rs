//! One destination's place in the log.
//!
//! Events are counted over the life of the log, so a place is a number of an event, and what is
//! missing between two batches is known to the event. Batches also have positions, which count
//! batches; they order and name what is in memory.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use inrush_event::{Batch, DestinationCounters, DropReason, Fate};

use crate::cursor_file::CursorPosition;
use crate::mutant::{Mutant, is_on};
use crate::ranges::{subtract, total};
use crate::reader::OldBatch;
use crate::settled::Settled;

/// Ranges in a place: so many of what is in hand, and so many behind it. What is more is drawn
/// together: then some events come twice after a crash, and their segments are kept for longer.
const IN_HAND_MAX: usize = 510;
const AHEAD_MAX: usize = 500;

/// A batch that was handed out and is not settled whole.
struct InFlightBatch {
    batch: Arc<Batch>,
    first_event: u64,
    epoch: u32,
    /// The unsettled ranges.
    left: Vec<Range<u32>>,
    /// True if it was given up to make room while it was in flight: it is not in the log any more,
    /// and counts as what its answer says.
    given_up: bool,
}

impl InFlightBatch {
    /// The numbers of a range of its events.
    fn numbers(&self, range: &Range<u32>) -> Range<u64> {
        self.first_event + u64::from(range.start)..self.first_event + u64::from(range.end)
    }
}

pub(crate) struct Cursor {
    pub(crate) counters: Arc<DestinationCounters>,
    /// True if a sink reads it.
    pub(crate) attached: bool,
    /// Position of the next batch to hand out for the first time, or below it.
    pub(crate) next: u64,
    /// Number of the first event that was never handed out. Only the log's end moves it past
    /// events, or a batch that begins behind it: then what lies between is lost.
    pub(crate) next_event: u64,
    /// Events at and behind `next_event` that have their fate: an earlier process settled them,
    /// they are for others, or they were turned away.
    settled_before: Settled,
    out: BTreeMap<u64, InFlightBatch>,
    /// Ranges that were put back, and when they are due.
    retry: VecDeque<(Instant, u64, Range<u32>)>,
    /// True if its place has changed since it was last written down.
    pub(crate) moved: bool,
    /// Numbers that a crash took before they were durable.
    not_durable: Vec<Range<u64>>,
}

/// Events that are not in the log any more and have no fate, by the reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct LossCounts {
    not_durable: u64,
    corrupt: u64,
}

/// The delivery that a cursor has to hand out next.
pub(crate) enum NextDelivery {
    /// A range that was put back.
    Again(OldBatch, Range<u32>),
    /// Whatever follows at this position.
    Next(u64),
}

impl Cursor {
    /// A cursor in front of the event `next_event` and the position `next`.
    pub(crate) fn new(counters: Arc<DestinationCounters>, next: u64, next_event: u64) -> Self {
        Self {
            counters,
            attached: true,
            next,
            next_event,
            settled_before: Settled::default(),
            out: BTreeMap::new(),
            retry: VecDeque::new(),
            moved: true,
            not_durable: Vec::new(),
        }
    }

    /// The cursor that an earlier process left, in a log that ends before event `end`. Its batches
    /// are looked for from the log's front on; what the log does not hold any more is found to be
    /// lost then, to a crash before it was durable if it is `not_durable`.
    pub(crate) fn restored(
        counters: Arc<DestinationCounters>,
        place: &CursorPosition,
        end: u64,
        not_durable: &[Range<u64>],
    ) -> Self {
        let floor = place.floor().min(end);
        let mut cursor = Self::new(counters, 0, floor);
        let mut settled: Vec<Range<u64>> = std::iter::once(floor..place.next_event).collect();
        for range in &place.unsettled {
            subtract(&mut settled, range);
        }
        settled.retain(|range| range.start < range.end);
        cursor.settled_before = settled.into_iter().collect();
        cursor.attached = false;
        cursor.not_durable = not_durable.to_vec();
        cursor
    }

    /// Its place, to be written down.
    pub(crate) fn place(&self) -> CursorPosition {
        let mut unsettled = self.in_hand();
        // What is settled ahead of us stays settled; the gaps between are open.
        let mut next_event = self.next_event;
        for (index, range) in self.settled_before.iter().enumerate() {
            if range.end <= next_event {
                continue;
            }
            if index < AHEAD_MAX {
                let gap = next_event..range.start.max(next_event);
                unsettled.extend(Some(gap).filter(|gap| gap.start < gap.end));
                next_event = range.end;
            } else {
                // It says less than it could.
                break;
            }
        }
        CursorPosition {
            next_event: next_event + u64::from(is_on(Mutant::CursorOffByOne)),
            unsettled,
        }
    }

    /// The events in hand that are not settled, in not too many ranges. Those of what was given up
    /// too: if the process ends before their answer, the next one finds that they are gone, and
    /// counts them.
    fn in_hand(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for out in self.out.values() {
            ranges.extend(out.left.iter().map(|range| out.numbers(range)));
        }
        if let Some(last) = ranges.last().map(|last| last.end)
            && ranges.len() > IN_HAND_MAX
        {
            ranges.truncate(IN_HAND_MAX);
            ranges[IN_HAND_MAX - 1].end = last;
        }
        ranges
    }

    /// Number of the oldest event in the log that is not settled.
    pub(crate) fn floor(&self) -> u64 {
        let oldest = self.out.values().filter(|out| !out.given_up);
        let oldest = oldest.filter_map(|out| Some(out.numbers(out.left.first()?).start));
        oldest.min().unwrap_or(self.next_event)
    }

    /// True if any of these events is to be kept in the log: it is not settled, or a place that is
    /// written down could not say that it is.
    pub(crate) fn keeps(&self, events: &Range<u64>) -> bool {
        let piece = (events.clone(), 0);
        self.kept(std::iter::once(piece)).next().is_some()
    }

    /// The pieces of the log with events that are to be kept, of pieces in ascending order.
    /// [`Self::keeps`] for many: what is in hand is looked at once.
    pub(crate) fn kept(
        &self,
        pieces: impl Iterator<Item = (Range<u64>, u64)>,
    ) -> impl Iterator<Item = (Range<u64>, u64)> {
        let out = self.out.values().filter(|out| !out.given_up);
        let in_hand = out.flat_map(|out| out.left.iter().map(|range| out.numbers(range)));
        let mut in_hand = in_hand.peekable();
        let all_from = self.keeps_from().unwrap_or(u64::MAX);
        pieces.filter(move |(events, _)| {
            if events.is_empty() {
                return false;
            }
            while in_hand.next_if(|range| range.end <= events.start).is_some() {}
            events.end > all_from
                || in_hand.peek().is_some_and(|range| range.start < events.end)
                || !self.is_settled_ahead(events)
        })
    }

    /// True if none of these events is to be kept that were never handed out.
    fn is_settled_ahead(&self, events: &Range<u64>) -> bool {
        let ahead = events.start.max(self.next_event)..events.end;
        self.settled_before.covers(&ahead, AHEAD_MAX)
    }

    /// The event from which on it keeps everything, if there is one known.
    pub(crate) fn keeps_from(&self) -> Option<u64> {
        self.settled_before
            .iter()
            .next()
            .is_none()
            .then_some(self.next_event)
    }

    /// True if it is to be handed out any of these events, which are in memory.
    pub(crate) fn awaits(&self, events: &Range<u64>) -> bool {
        let ahead = events.start.max(self.next_event)..events.end;
        !self.settled_before.covers(&ahead, usize::MAX)
    }

    /// Events without a fate, in a log that ends before event `end`.
    pub(crate) fn pending(&self, end: u64) -> u64 {
        let out: u64 = self.out.values().map(|out| total(&out.left)).sum();
        out + end.saturating_sub(self.next_event) - self.settled_before.behind(self.next_event)
    }

    /// Picks the next delivery at `now`. What was put back goes first: it is older.
    pub(crate) fn pick(&mut self, now: Instant) -> NextDelivery {
        while let Some(index) = self.retry.iter().position(|(due, ..)| *due <= now) {
            let Some((_, position, events)) = self.retry.remove(index) else {
                break;
            };
            if let Some(out) = self.out.get(&position) {
                let old = OldBatch {
                    position,
                    first_event: out.first_event,
                    epoch: out.epoch,
                    batch: Arc::clone(&out.batch),
                };
                return NextDelivery::Again(old, events);
            }
        }
        NextDelivery::Next(self.next)
    }

    /// Time at which the next range that was put back is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.retry.iter().map(|(due, ..)| *due).min()
    }

    /// Takes the next batch. Returns the range to hand out now (`None` if all of it was settled by
    /// an earlier process) and how many events before it are lost.
    pub(crate) fn hand_out(
        &mut self,
        old: &OldBatch,
        now: Instant,
    ) -> (Option<Range<u32>>, LossCounts) {
        let (position, first_event, batch) = (old.position, old.first_event, &old.batch);
        self.next = position + 1;
        let end_event = first_event + batch.len() as u64;
        if end_event <= self.next_event {
            return (None, LossCounts::default());
        }
        let lost = self.lose_to(first_event);
        let from = (self.next_event - first_event) as u32;
        let mut left: Vec<Range<u32>> = std::iter::once(from..batch.len() as u32).collect();
        for (_, range) in self.settled_before.within(first_event..end_event) {
            let start = range.start.clamp(first_event, end_event) - first_event;
            let end = range.end.clamp(first_event, end_event) - first_event;
            subtract(&mut left, &(start as u32..end as u32));
        }
        self.next_event = end_event;
        self.settled_before.pass(end_event);
        let Some(now_out) = left.first().cloned() else {
            self.moved = true;
            return (None, lost);
        };
        for later in &left[1..] {
            self.retry.push_back((now, position, later.clone()));
        }
        let out = InFlightBatch {
            batch: Arc::clone(batch),
            first_event,
            epoch: old.epoch,
            left,
            given_up: false,
        };
        self.out.insert(position, out);
        (Some(now_out), lost)
    }

    /// True if the batch is for this destination.
    pub(crate) fn is_meant(&self, batch: &Batch) -> bool {
        let name = &self.counters.name;
        let routed = batch.destinations();
        batch.only().is_none_or(|only| only == name)
            && routed.is_none_or(|names| names.contains(name))
    }

    /// Takes note that these events, the last of the log, are for other destinations, or were
    /// turned away.
    pub(crate) fn leave_to_others(&mut self, events: Range<u64>) {
        self.settled_before.push(events);
        self.moved = true;
    }

    /// Passes a batch in memory of which it awaits nothing; returns how many events before it are
    /// lost.
    pub(crate) fn pass(&mut self, position: u64, events: &Range<u64>) -> LossCounts {
        self.next = position + 1;
        self.lose_to(events.end)
    }

    /// Passes over a batch that is for another destination. Returns how many events before it are
    /// lost, and how many of its own still counted as pending here.
    pub(crate) fn pass_over(
        &mut self,
        position: u64,
        first_event: u64,
        batch: &Batch,
    ) -> (LossCounts, u64) {
        self.next = position + 1;
        let lost = self.lose_to(first_event);
        (lost, self.skip_to(first_event + batch.len() as u64))
    }

    /// Gives up events below `to` that were never handed out, for the log has them no more; returns
    /// those without a fate.
    pub(crate) fn lose_to(&mut self, to: u64) -> LossCounts {
        if to <= self.next_event {
            return LossCounts::default();
        }
        let gaps = self.not_durable.iter();
        let not_durable = gaps
            .map(|gap| self.unhanded(gap.start, gap.end.min(to)))
            .sum();
        let corrupt = self.skip_to(to) - not_durable;
        LossCounts {
            not_durable,
            corrupt,
        }
    }

    /// Gives up what was never handed out below event `to`; returns how many had no fate yet.
    pub(crate) fn skip_to(&mut self, to: u64) -> u64 {
        if to <= self.next_event {
            return 0;
        }
        let between = self.next_event..to;
        let settled = self.settled_before.overlap(&between);
        self.next_event = to;
        self.settled_before.pass(to);
        self.moved = true;
        between.end - between.start - settled
    }

    /// Puts a range back, to be handed out again after `delay`. One that was given up meanwhile
    /// is not: then it is `false`.
    pub(crate) fn put_back(
        &mut self,
        position: u64,
        events: Range<u32>,
        now: Instant,
        delay: Duration,
    ) -> bool {
        let out = self.out.get(&position);
        if out.is_some_and(|out| out.given_up) {
            return false;
        }
        if out.is_some() && !events.is_empty() {
            self.counters.retried.add(events.len() as u64);
            self.retry.push_back((now + delay, position, events));
        }
        true
    }

    /// Takes `events` off what is unsettled of the batch. Returns it, how many of them were (a
    /// range settled twice counts once), and whether nothing of the batch is left.
    pub(crate) fn settle(
        &mut self,
        position: u64,
        events: &Range<u32>,
    ) -> Option<(Arc<Batch>, u64, bool)> {
        let out = self.out.get_mut(&position)?;
        let settled = subtract(&mut out.left, events);
        let batch = Arc::clone(&out.batch);
        let done = out.left.is_empty();
        if done {
            self.out.remove(&position);
        }
        self.moved = true;
        Some((batch, settled, done))
    }

    /// Posts a fate that ends `n` events of `events`.
    pub(crate) fn post(&self, batch: &Batch, events: &Range<u32>, n: u64, fate: &Fate) {
        let counters = &self.counters;
        match fate {
            Fate::Delivered => {
                counters.delivered.add(n);
                counters.delivered_bytes.add(raw_bytes(batch, events));
            }
            Fate::Refused { reason, .. } => counters.quarantined(*reason).add(n),
            Fate::Dropped(reason) => counters.dropped(*reason).add(n),
            Fate::RetryAfter(_) => return,
        }
        counters.pending.sub(n);
    }

    /// Posts events that are not in the log any more.
    pub(crate) fn post_lost(&self, lost: LossCounts) {
        for (events, reason) in [
            (lost.not_durable, DropReason::NotDurable),
            (lost.corrupt, DropReason::Corrupt),
        ] {
            if events > 0 {
                self.post_dropped(events, reason);
            }
        }
    }

    /// Posts events that are gone.
    pub(crate) fn post_dropped(&self, n: u64, reason: DropReason) {
        self.counters.dropped(reason).add(n);
        self.counters.pending.sub(n);
    }

    /// Gives up what lies within these events, a whole number of batches, to make room. Returns
    /// how many events are dropped by that, and the positions of the batches of which nothing is
    /// left. What is in flight keeps its place until its answer is known.
    pub(crate) fn give_up(&mut self, events: &Range<u64>) -> (u64, Vec<u64>) {
        let mut dropped = self.skip_to_within(events);
        let mut done = Vec::new();
        let inside = |out: &InFlightBatch| {
            let end = out.first_event + out.batch.len() as u64;
            out.first_event >= events.start && end <= events.end
        };
        for (position, out) in self.out.iter_mut().filter(|(_, out)| inside(out)) {
            out.given_up = true;
            for (_, at, range) in &self.retry {
                if at == position {
                    dropped += subtract(&mut out.left, range);
                }
            }
            if is_on(Mutant::DropInFlight) {
                dropped += total(&std::mem::take(&mut out.left));
            }
            if out.left.is_empty() {
                done.push(*position);
            }
        }
        self.out.retain(|_, out| !out.left.is_empty());
        let in_log = |at: &u64| self.out.get(at).is_some_and(|out| !out.given_up);
        self.retry.retain(|(_, at, _)| in_log(at));
        self.moved = true;
        (dropped, done)
    }

    /// Gives up what was never handed out of `events`; returns how many had no fate yet. Events
    /// ahead of them stay.
    fn skip_to_within(&mut self, events: &Range<u64>) -> u64 {
        match events.start <= self.next_event {
            true => self.skip_to(events.end),
            // It is behind what is to be handed out: the log only gives up the oldest that it can.
            false => self.settled_before.fill(events),
        }
    }

    /// Gives up what was handed out of the batches from event `from` on; returns how many events
    /// had no fate yet. Their numbers count as settled then.
    pub(crate) fn give_up_out(&mut self, from: u64) -> u64 {
        let mut lost = 0;
        self.out.retain(|_, out| {
            let gone = out.first_event >= from;
            lost += if gone { total(&out.left) } else { 0 };
            !gone
        });
        self.moved = true;
        lost
    }

    /// Events from `from` up to `end` that were never handed out and have no fate.
    pub(crate) fn unhanded(&self, from: u64, end: u64) -> u64 {
        let first = self.next_event.max(from);
        let ahead = first..end.max(first);
        (ahead.end - ahead.start) - self.settled_before.overlap(&ahead)
    }

    /// Takes note that what was never handed out from `from` up to `end` has its fate.
    pub(crate) fn settle_unhanded(&mut self, from: u64, end: u64) {
        let first = self.next_event.max(from);
        if first < end {
            self.settled_before.fill(&(first..end));
        }
        self.moved = true;
    }

    /// Positions of the batches that it holds unsettled.
    pub(crate) fn held(&self) -> impl Iterator<Item = u64> {
        self.out.keys().copied()
    }

    /// Puts back all that a sink left unsettled when it ended. Returns how many events of what had
    /// been given up meanwhile are dropped by that, and the positions of their batches: their
    /// answer will not come.
    pub(crate) fn reclaim(&mut self, now: Instant) -> (u64, Vec<u64>) {
        self.attached = true;
        let gone = self.out.extract_if(.., |_, out| out.given_up);
        let gone: Vec<_> = gone.map(|(at, out)| (at, total(&out.left))).collect();
        self.retry = self
            .out
            .iter()
            .flat_map(|(at, out)| out.left.iter().map(|range| (now, *at, range.clone())))
            .collect();
        let dropped = gone.iter().map(|(_, events)| events).sum();
        (dropped, gone.into_iter().map(|(at, _)| at).collect())
    }

    /// Receive time of the oldest batch in hand.
    pub(crate) fn oldest_in_hand(&self) -> Option<i64> {
        let (_, out) = self.out.first_key_value()?;
        Some(out.batch.received().0)
    }
}

/// Bytes of the raw records of a range.
fn raw_bytes(batch: &Batch, events: &Range<u32>) -> u64 {
    if events.len() == batch.len() {
        return batch.raw_bytes();
    }
    let range = events.start as usize..events.end as usize;
    let records = batch.records().get(range).unwrap_or_default();
    records.iter().map(|record| u64::from(record.raw.len)).sum()
}
