//! Groups: parts of events that wait for the others.
//!
//! # What it guarantees
//! * Every part that was taken comes out in exactly one event, whatever comes, in any order.
//! * No part waits longer than its rule says, if [`MultilineAssembler::expire`] is called when
//!   [`MultilineAssembler::due`] says so.
//! * What waits is bounded in groups and bytes, in one worker and over all of them. Who comes when
//!   there is no room has the groups that waited longest come out as they are.
//! * A part costs no more than a few look-ups, however many wait.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use inrush_classify::group::{GroupPart, GroupRule as Rule};
use inrush_event::{Anomalies, BatchBuilder, Record};

use super::detached::{BatchEvent, DetachedEvent};

/// Bytes of one group: longer ones come out in pieces. Four messages of the default length.
const GROUP_BYTES_MAX: usize = 256 * 1024;

/// Groups that wait in one worker of one source.
const GROUPS_MAX: usize = 10_000;

/// Bytes that wait in one worker of one source.
const BYTES_MAX: usize = 16 * 1024 * 1024;

/// Bytes that wait in all workers of the process.
const ROOM_BYTES: usize = 64 * 1024 * 1024;

/// Bytes of memory that a group takes beside its texts, and that a part takes.
const GROUP_OVERHEAD: usize = 1024;
const PART_OVERHEAD: usize = 96;

/// Memory for what waits, shared by all workers.
#[derive(Debug)]
pub struct MemoryBudget {
    free: AtomicUsize,
}

impl MemoryBudget {
    /// As much as there is by default.
    pub fn new() -> Arc<Self> {
        Self::of(ROOM_BYTES)
    }

    fn of(bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            free: AtomicUsize::new(bytes),
        })
    }

    fn take(&self, bytes: usize) -> bool {
        let less = |free: usize| free.checked_sub(bytes);
        self.free.fetch_update(Relaxed, Relaxed, less).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.free.fetch_add(bytes, Relaxed);
    }
}

/// Fate of a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PartOutcome {
    /// It is not to wait.
    Not,
    /// It waits.
    Waits,
    /// Its group has come out.
    Done,
}

/// Position of a part among the others: by its number, those without one last, as they came.
type PartOrder = (bool, u64, u64);

/// One group.
struct PartialEvent {
    rule: Arc<Rule>,
    /// The part that the event is made of, and where that stands.
    base: DetachedEvent,
    base_order: PartOrder,
    texts: BTreeMap<PartOrder, Box<[u8]>>,
    /// Parts, also those whose text was there already.
    parts: u64,
    /// The largest number of parts that one of them said there were.
    wanted: Option<u64>,
    /// Bytes that it counts for.
    bytes: usize,
    due: ExpiryKey,
}

/// Time at which a group has waited long enough; the number makes it unique.
type ExpiryKey = (Instant, u64);

/// A group that waits no more.
pub struct AssembledEvent {
    group: PartialEvent,
    complete: bool,
}

impl AssembledEvent {
    /// The name of the rule that put it together.
    pub fn rule(&self) -> &str {
        &self.group.rule.rule
    }

    /// Parts that it is made of.
    pub fn parts(&self) -> u64 {
        self.group.parts
    }

    /// Puts the event into a batch.
    pub fn put(self, builder: &mut BatchBuilder) -> Record {
        let mut joined = Vec::new();
        for (at, text) in self.group.texts.values().enumerate() {
            if at > 0 {
                joined.extend_from_slice(self.group.rule.join.as_bytes());
            }
            joined.extend_from_slice(text);
        }
        let mut record = self.group.base.put(&joined, builder);
        if !self.complete {
            record.anomalies.insert(Anomalies::GROUP_INCOMPLETE);
        }
        builder.records_mut().push(record);
        record
    }
}

/// Bounds of what may wait in one worker of one source.
#[derive(Clone, Copy)]
struct AssemblerLimits {
    groups: usize,
    bytes: usize,
    group_bytes: usize,
}

impl AssemblerLimits {
    const DEFAULT: Self = Self {
        groups: GROUPS_MAX,
        bytes: BYTES_MAX,
        group_bytes: GROUP_BYTES_MAX,
    };
}

/// The groups of one worker of one source.
pub struct MultilineAssembler {
    room: Arc<MemoryBudget>,
    waiting: HashMap<Arc<[u8]>, PartialEvent>,
    by_due: BTreeMap<ExpiryKey, Arc<[u8]>>,
    ready: VecDeque<AssembledEvent>,
    /// Bytes of what waits.
    bytes: usize,
    limits: AssemblerLimits,
    serial: u64,
}

impl MultilineAssembler {
    /// None yet, with a share in `room`.
    pub fn new(room: Arc<MemoryBudget>) -> Self {
        Self {
            room,
            waiting: HashMap::new(),
            by_due: BTreeMap::new(),
            ready: VecDeque::new(),
            bytes: 0,
            limits: AssemblerLimits::DEFAULT,
            serial: 0,
        }
    }

    /// Takes a part in.
    pub fn add(
        &mut self,
        rule: &Arc<Rule>,
        part: &GroupPart<'_>,
        from: &BatchEvent<'_>,
        now: Instant,
    ) -> PartOutcome {
        let base = DetachedEvent::new(from, &rule.event, part);
        let mut key = rule.rule.as_bytes().to_vec();
        key.push(0);
        key.extend_from_slice(part.by);
        self.serial += 1;
        let order = match part.order {
            Some(number) => (false, number, 0),
            None => (true, 0, self.serial),
        };
        if let Some(group) = self.waiting.get_mut(key.as_slice()) {
            let open = group.is_open();
            match group.texts.get(&order) {
                // Sent twice: it is in the event already.
                Some(text) if **text == *part.text => {
                    group.parts += 1;
                    return PartOutcome::Waits;
                }
                // The number of an event that comes after.
                Some(_) => self.end(&key, open),
                None if group.bytes + group.growth(part, &base, order)
                    <= self.limits.group_bytes => {}
                None => self.end(&key, false),
            }
        }
        let key: Arc<[u8]> = key.into();
        let known = self.waiting.get(&key);
        let more = match known {
            Some(group) => group.growth(part, &base, order),
            None => part.text.len() + base.bytes() + 2 * key.len() + GROUP_OVERHEAD,
        };
        let groups = usize::from(known.is_none());
        let fits = self.make_room(more, groups, &key);
        let counted = if fits { more } else { 0 };
        self.bytes += counted;
        match self.waiting.get_mut(&key) {
            Some(group) => group.add(part, base, order, counted),
            None => {
                let due = (now + rule.wait, self.serial);
                self.by_due.insert(due, Arc::clone(&key));
                let group = PartialEvent::new(rule, part, base, order, counted, due);
                self.waiting.insert(Arc::clone(&key), group);
            }
        }
        let complete = self
            .waiting
            .get(&key)
            .is_some_and(PartialEvent::is_complete);
        if complete || !fits {
            self.end(&key, complete);
            return PartOutcome::Done;
        }
        PartOutcome::Waits
    }

    /// Has the groups that waited longest come out until there is room for so many more groups and
    /// bytes; whether there is. The group of `key` stays: room is made for it.
    fn make_room(&mut self, bytes: usize, groups: usize, key: &Arc<[u8]>) -> bool {
        loop {
            let few = self.waiting.len() + groups <= self.limits.groups;
            if few && self.bytes + bytes <= self.limits.bytes && self.room.take(bytes) {
                return true;
            }
            let mut oldest = self.by_due.values();
            let Some(oldest) = oldest.find(|other| *other != key).cloned() else {
                return false;
            };
            self.end(&oldest, false);
        }
    }

    /// Has a group come out.
    fn end(&mut self, key: &[u8], complete: bool) {
        if let Some(group) = self.waiting.remove(key) {
            self.by_due.remove(&group.due);
            self.bytes -= group.bytes;
            self.room.give_back(group.bytes);
            self.ready.push_back(AssembledEvent { group, complete });
        }
    }

    /// Has all groups come out whose time is up. Those that do not say how many parts they have
    /// are complete then.
    pub fn expire(&mut self, now: Instant) {
        while let Some((due, key)) = self.by_due.first_key_value()
            && due.0 <= now
        {
            let key = Arc::clone(key);
            let open = self.waiting.get(&key).is_some_and(PartialEvent::is_open);
            self.end(&key, open);
        }
    }

    /// Has all groups come out.
    pub fn end_all(&mut self) {
        while let Some((_, key)) = self.by_due.first_key_value() {
            let key = Arc::clone(key);
            let open = self.waiting.get(&key).is_some_and(PartialEvent::is_open);
            self.end(&key, open);
        }
    }

    /// The next group that came out.
    pub fn pop(&mut self) -> Option<AssembledEvent> {
        self.ready.pop_front()
    }

    /// Number of the last part that was taken; parts are counted.
    pub fn last_part(&self) -> u64 {
        self.serial
    }

    /// Number of the first part of the oldest group that waits, or has come out and was not taken.
    pub fn first_part(&self) -> Option<u64> {
        let waiting = self.by_due.keys().map(|due| due.1);
        let ready = self.ready.iter().map(|ready| ready.group.due.1);
        waiting.chain(ready).min()
    }

    /// True if nothing waits, and nothing has come out.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.ready.is_empty()
    }

    /// True if a group has come out.
    pub fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Time at which the next group has waited long enough, if one waits.
    pub fn due(&self) -> Option<Instant> {
        self.by_due.first_key_value().map(|(due, _)| due.0)
    }
}

impl Drop for MultilineAssembler {
    fn drop(&mut self) {
        self.room.give_back(self.bytes);
    }
}

impl PartialEvent {
    fn new(
        rule: &Arc<Rule>,
        part: &GroupPart<'_>,
        base: DetachedEvent,
        order: PartOrder,
        bytes: usize,
        due: ExpiryKey,
    ) -> Self {
        let mut texts = BTreeMap::new();
        if !rule.is_last() {
            texts.insert(order, part.text.into());
        }
        Self {
            rule: Arc::clone(rule),
            base,
            base_order: order,
            texts,
            parts: 1,
            wanted: part.parts,
            bytes,
            due,
        }
    }

    /// Bytes that the group grows by with that part.
    fn growth(&self, part: &GroupPart<'_>, base: &DetachedEvent, order: PartOrder) -> usize {
        let base = match self.is_base(order) {
            true => base.bytes().saturating_sub(self.base.bytes()),
            false => 0,
        };
        let around = (part.before.len() + part.after.len()).saturating_sub(self.base.around());
        match self.rule.is_last() {
            true => base,
            false => base + around + part.text.len() + self.rule.join.len() + PART_OVERHEAD,
        }
    }

    fn add(&mut self, part: &GroupPart<'_>, base: DetachedEvent, order: PartOrder, bytes: usize) {
        self.parts += 1;
        self.bytes += bytes;
        self.wanted = self.wanted.max(part.parts);
        if self.is_base(order) {
            (self.base, self.base_order) = (base, order);
        } else {
            self.base.surround(base);
        }
        if !self.rule.is_last() {
            self.texts.insert(order, part.text.into());
        }
    }

    /// True if the event is made of a part that stands there rather than of the one so far.
    fn is_base(&self, order: PartOrder) -> bool {
        self.rule.is_last() || order < self.base_order
    }

    /// True if it has as many parts as one of them said there were.
    fn is_complete(&self) -> bool {
        let texts = self.texts.len() as u64;
        self.wanted.is_some_and(|wanted| texts >= wanted)
    }

    /// True if only time says that it has all its parts.
    fn is_open(&self) -> bool {
        self.rule.parts.is_none()
    }
}

#[cfg(test)]
#[path = "assembler_tests.rs"]
mod tests;
