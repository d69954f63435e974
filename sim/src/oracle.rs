//! Oracle of what must be, may be and must not be: told of everything that goes in and comes out,
//! it says what is wrong.
//!
//! # The rules
//! * Nothing comes out that did not go in, and what comes out is what went in, field by field.
//! * What was acknowledged, and what the running process has accepted, reaches every destination
//!   that had a cursor then, or is counted as dropped there where the run allows drops.
//! * An event reaches a destination again only where its first delivery cannot have been recorded:
//!   the sink said no after taking it or died, the process ended before the settling was written,
//!   or the power was cut before the cursor was synced.
//! * A destination gets batches in the order of the log, but for what was put back.
//! * A request to the collector is a batch that is owed once it is answered, and settled once it is
//!   acknowledged as delivered.
//! * Positions of streams: `streams.rs`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use inrush_queue::Durability;

use crate::streams::StreamOracle;

/// A step of the run; the oracle's clock.
pub(crate) type SimStep = u64;

/// `Ok`, or a violation in words.
pub(crate) type OracleVerdict = Result<(), String>;

/// Fate of a batch in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BatchDurability {
    /// A source tried; the log did not take it.
    Offered,
    /// The running process has it.
    Accepted,
    /// Acknowledged: it outlives what the mode says.
    Durable,
    /// A crash may have taken it, or it is a request of which a part may be taken.
    Unsure,
    /// It was there at a start, as the position of a stream says, and nobody knows whether a power
    /// cut leaves it.
    Found,
    /// A crash has taken it, as the positions of its streams say: it is read again.
    Gone,
}

/// A batch as its source sees it.
pub(crate) struct SourceBatch {
    events: Range<u32>,
    /// Position behind it.
    end: u64,
    source: &'static str,
    pub(crate) keep: BatchDurability,
}

/// Fate of one event at one destination.
#[derive(Clone, Copy, Default)]
struct EventFate {
    owed: bool,
    received: bool,
    /// It may come once more although it was received.
    may_repeat: bool,
    /// Step at which it got its fate.
    settled: Option<SimStep>,
}

/// One destination, by name.
#[derive(Default)]
pub(crate) struct DestinationModel {
    /// True if it is configured.
    pub attached: bool,
    /// True if it has left the configuration: what came then may not have been kept for it.
    was_away: bool,
    slots: Vec<EventFate>,
    /// Step at which its cursor was last written.
    recorded: Option<SimStep>,
    /// Positions that this process handed out.
    seen: BTreeSet<u64>,
    /// Drops that earlier processes counted, and the running one.
    dropped_before: u64,
    dropped_now: u64,
    repeats: u64,
    /// True if its policy may drop what was accepted.
    drops: bool,
}

/// End of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CrashKind {
    /// Killed: the page cache stays.
    Killed,
    /// Without power.
    PowerCut,
}

/// All that is known.
pub(crate) struct Oracle {
    durability: Durability,
    /// By number of the batch.
    pub(crate) batches: Vec<SourceBatch>,
    /// Batch of each event.
    batch_of: Vec<u32>,
    /// Accepted and not yet durable: number and position behind it.
    waiting: VecDeque<(usize, u64)>,
    pub destinations: BTreeMap<String, DestinationModel>,
    /// True if bits flip: then a cursor may be lost, and what was on disk too, if it is counted.
    pub unsound_reads: bool,
    pub(crate) streams: StreamOracle,
}

impl DestinationModel {
    fn slot(&mut self, event: u32) -> &mut EventFate {
        let index = event as usize;
        if self.slots.len() <= index {
            self.slots.resize(index + 1, EventFate::default());
        }
        &mut self.slots[index]
    }

    /// Takes note of when its cursor was last written: with what that step settled.
    pub(crate) fn recorded(&mut self, step: Option<SimStep>) {
        self.recorded = step;
    }

    /// Events that were received twice or more, as allowed.
    pub(crate) fn repeats(&self) -> u64 {
        self.repeats
    }

    /// Events that the running process has counted as dropped here.
    pub(crate) fn dropped_now(&self) -> u64 {
        self.dropped_now
    }

    /// Events that were counted as dropped here, by all processes.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped_before + self.dropped_now
    }

    fn process_ended(&mut self, recorded: Option<SimStep>) {
        self.dropped_before += std::mem::take(&mut self.dropped_now);
        self.seen.clear();
        for slot in &mut self.slots {
            let safe = matches!((slot.settled, recorded), (Some(at), Some(to)) if at <= to);
            slot.may_repeat |= slot.received && !safe;
        }
    }
}

impl Oracle {
    /// Knows nothing yet.
    pub(crate) fn new(durability: Durability) -> Self {
        Self {
            durability,
            batches: Vec::new(),
            batch_of: Vec::new(),
            waiting: VecDeque::new(),
            destinations: BTreeMap::new(),
            unsound_reads: false,
            streams: StreamOracle::default(),
        }
    }

    /// A source has a new batch of `events` events; returns its number and theirs.
    pub(crate) fn offer(&mut self, source: &'static str, events: u32) -> (usize, Range<u32>) {
        let (batch, first) = (self.batches.len(), self.batch_of.len() as u32);
        self.batches.push(SourceBatch {
            events: first..first + events,
            end: 0,
            source,
            keep: BatchDurability::Offered,
        });
        let end = self.batch_of.len() + events as usize;
        self.batch_of.resize(end, batch as u32);
        (batch, first..first + events)
    }

    /// The log took the batch; `end` is the position behind it.
    pub(crate) fn accepted(&mut self, batch: usize, end: u64) {
        let fact = &mut self.batches[batch];
        fact.keep = BatchDurability::Accepted;
        fact.end = end;
        for destination in self.destinations.values_mut().filter(|d| d.attached) {
            for event in fact.events.clone() {
                destination.slot(event).owed = true;
            }
        }
        self.waiting.push_back((batch, end));
    }

    /// A client has sent something of a request, of whose events any may be taken from now on.
    pub(crate) fn sent(&mut self, batch: usize) {
        let fact = &mut self.batches[batch];
        fact.keep = BatchDurability::Unsure;
        for destination in self.destinations.values_mut().filter(|d| d.attached) {
            for event in fact.events.clone() {
                destination.slot(event).owed = true;
            }
        }
    }

    /// A client was told that the events of its request are durable.
    pub(crate) fn answered(&mut self, batch: usize) {
        self.batches[batch].keep = BatchDurability::Durable;
    }

    /// A client was told that the events of its request are safe: with `delivered`, that every
    /// destination has settled them.
    pub(crate) fn acknowledged(&mut self, batch: usize, delivered: bool) -> OracleVerdict {
        let fact = &self.batches[batch];
        let destinations = self.destinations.iter().filter(|(_, d)| d.attached);
        for (name, destination) in destinations.filter(|(_, d)| delivered && !d.drops) {
            let is_pending = |event: &u32| {
                let slot = destination.slots.get(*event as usize);
                slot.is_none_or(|slot| slot.owed && !slot.received && slot.settled.is_none())
            };
            let lost = self.unsound_reads || fact.keep == BatchDurability::Unsure;
            if let Some(event) = fact.events.clone().find(is_pending).filter(|_| !lost) {
                return Err(format!(
                    "event {event} is acknowledged and pending at {name}"
                ));
            }
        }
        Ok(())
    }

    /// The log says that everything below `end` is as durable as its mode promises.
    pub(crate) fn durable(&mut self, end: u64) {
        while let Some((batch, _)) = self.waiting.pop_front_if(|(_, behind)| *behind <= end) {
            self.batches[batch].keep = BatchDurability::Durable;
        }
    }

    /// Accepted batches that are not durable.
    pub(crate) fn not_durable(&self) -> usize {
        self.waiting.len()
    }

    /// Events that a crash may have taken.
    fn unsure(&self) -> u64 {
        let unsure = self
            .batches
            .iter()
            .filter(|fact| matches!(fact.keep, BatchDurability::Unsure | BatchDurability::Gone));
        unsure.map(|fact| fact.events.len() as u64).sum()
    }

    /// The running process has counted so many events as dropped at a destination.
    pub(crate) fn count_dropped(&mut self, name: &str, events: u64) -> OracleVerdict {
        let (unsure, unsound_reads) = (self.unsure(), self.unsound_reads);
        let Some(destination) = self.destinations.get_mut(name) else {
            return Ok(());
        };
        let may_drop = destination.drops || unsound_reads;
        destination.dropped_now = events;
        match events > unsure && !may_drop && !destination.was_away {
            true => Err(format!(
                "{name} dropped {events} events, of which {unsure} may be lost"
            )),
            false => Ok(()),
        }
    }

    /// A destination enters the configuration, or changes in it.
    pub(crate) fn attach(&mut self, name: &str, drops: bool) {
        let destination = self.destinations.entry(name.to_owned()).or_default();
        destination.attached = true;
        destination.drops |= drops;
    }

    /// A destination leaves it; nothing is owed to it any more, and what it had is forgotten.
    pub(crate) fn detach(&mut self, name: &str) {
        let Some(destination) = self.destinations.get_mut(name) else {
            return;
        };
        destination.attached = false;
        destination.was_away = true;
        destination.seen.clear();
        for slot in &mut destination.slots {
            slot.owed = false;
            slot.may_repeat = true;
        }
    }

    /// A sink was handed `events` of the batch at `position`.
    pub(crate) fn handed_out(&mut self, name: &str, position: u64) -> OracleVerdict {
        let Some(destination) = self.destinations.get_mut(name) else {
            return Err(format!("{name} was never attached"));
        };
        let newest = destination.seen.last().copied();
        let new = destination.seen.insert(position);
        match newest {
            Some(newest) if new && position < newest => {
                Err(format!("{name} got position {position} after {newest}"))
            }
            _ => Ok(()),
        }
    }

    /// A sink took an event, whatever it will answer.
    pub(crate) fn received(&mut self, name: &str, event: u32, source: &str) -> OracleVerdict {
        let Some(batch) = self.batch_of.get(event as usize) else {
            return Err(format!("event {event} was never offered"));
        };
        let fact = &self.batches[*batch as usize];
        if fact.keep == BatchDurability::Offered {
            return Err(format!("event {event} was delivered but not accepted"));
        }
        if fact.keep == BatchDurability::Gone {
            return Err(format!(
                "event {event} came out, and its stream is read again"
            ));
        }
        if fact.source != source {
            return Err(format!("event {event} came out as of source {source}"));
        }
        let Some(destination) = self.destinations.get_mut(name) else {
            return Err(format!("{name} was never attached"));
        };
        let slot = destination.slot(event);
        if slot.received && !slot.may_repeat {
            let settled = slot.settled;
            return Err(format!(
                "event {event} came again to {name}; settled at step {settled:?}"
            ));
        }
        let again = slot.received;
        (slot.received, slot.may_repeat) = (true, false);
        slot.settled = None;
        destination.repeats += u64::from(again);
        Ok(())
    }

    /// The event has its fate as far as the sink is concerned.
    pub(crate) fn settled(&mut self, name: &str, event: u32, step: SimStep) {
        if let Some(destination) = self.destinations.get_mut(name) {
            destination.slot(event).settled = Some(step);
        }
    }

    /// The sink answered in a way that has the event come again.
    pub(crate) fn will_repeat(&mut self, name: &str, event: u32) {
        if let Some(destination) = self.destinations.get_mut(name) {
            let slot = destination.slot(event);
            slot.may_repeat = slot.received;
        }
    }

    /// The process ended. `synced` tells from when the cursor of a destination is that a
    /// power cut leaves.
    pub(crate) fn process_ended(
        &mut self,
        end: CrashKind,
        synced: impl Fn(&str) -> Option<SimStep>,
    ) {
        for (batch, _) in self.waiting.drain(..) {
            self.batches[batch].keep = BatchDurability::Unsure;
        }
        let kept = match self.durability {
            Durability::Fsync => true,
            Durability::Os => end == CrashKind::Killed,
            Durability::Memory => false,
        };
        let durable = |fact: &&mut SourceBatch| fact.keep == BatchDurability::Durable;
        if !kept {
            let lost = self.batches.iter_mut().filter(durable);
            lost.for_each(|fact| fact.keep = BatchDurability::Unsure);
        }
        let found = |fact: &&mut SourceBatch| fact.keep == BatchDurability::Found;
        if end == CrashKind::PowerCut {
            let lost = self.batches.iter_mut().filter(found);
            lost.for_each(|fact| fact.keep = BatchDurability::Unsure);
        }
        for (name, destination) in &mut self.destinations {
            let recorded = match end {
                _ if self.unsound_reads => None,
                CrashKind::Killed => destination.recorded,
                CrashKind::PowerCut => synced(name),
            };
            destination.process_ended(recorded);
        }
    }

    /// A process has started, and found the log to end at this position. Where reads cannot be
    /// relied on the last frames may be unreadable, and then nothing tells that they were there.
    pub(crate) fn process_began(&mut self, end: u64) {
        if self.unsound_reads {
            let durable =
                |fact: &&mut SourceBatch| fact.keep == BatchDurability::Durable && fact.end > end;
            let cut = self.batches.iter_mut().filter(durable);
            cut.for_each(|fact| fact.keep = BatchDurability::Unsure);
        }
    }

    /// All that is owed has come.
    ///
    /// # Errors
    /// What is missing beyond what was counted as dropped.
    pub(crate) fn judge(&self) -> OracleVerdict {
        for (name, destination) in self.destinations.iter().filter(|(_, d)| d.attached) {
            let missing: Vec<u32> = self.missing(destination).collect();
            let dropped = destination.dropped();
            let may = match destination.drops || self.unsound_reads {
                true => dropped,
                false => 0,
            };
            if missing.len() as u64 > may {
                let number = missing.len();
                let some = &missing[..number.min(8)];
                return Err(format!(
                    "{name} misses {number} events ({some:?}) and counted {dropped} as dropped"
                ));
            }
        }
        Ok(())
    }

    fn missing<'a>(&'a self, destination: &'a DestinationModel) -> impl Iterator<Item = u32> + 'a {
        let must = |fact: &&SourceBatch| {
            matches!(
                fact.keep,
                BatchDurability::Accepted | BatchDurability::Durable | BatchDurability::Found
            )
        };
        let lacks = |event: &u32| {
            let slot = destination.slots.get(*event as usize);
            slot.is_some_and(|slot| slot.owed && !slot.received && slot.settled.is_none())
        };
        let events = self.batches.iter().filter(must);
        events.flat_map(|fact| fact.events.clone()).filter(lacks)
    }
}
