//! Rule engine: a [`Classifier`] runs each event of one worker through the stages of the packs.
//!
//! # What it guarantees
//! * The first rule taken ends its stage, except in the stages `hint` and `after`.
//! * A rule that fails at a required step restores the record, value list and scratch bytes.
//! * A filtered event leaves the caller's record unchanged.
//!
//! # States
//! [`Classifier::classify`] replaces the previous event's results: tail, part, trace and `fell`.
//! Class numbers remain valid until [`Classifier::generation`] grows. After [`Classifier::trace`]
//! the engine bypasses its cached plans, so that the trace has every candidate.
//!
//! # Limits
//! Candidates of the stage `after` are cached for `AFTER_MAX` chains; a full cache is emptied.

mod act;
mod beginning;
mod undo;

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use inrush_event::{Anomalies, ClassInfo, Format, Record, Span};
use smallvec::SmallVec;

use crate::class::{ClassCache, IdentityHasher, hash};
use crate::compile::{CompiledPacks, StageRules};
use crate::event::{Event, EventOrigin, PropertyText, Scratch};
use crate::group::{GroupPart, GroupRule, PartSpans};
use crate::hints::HostProducts;
use crate::index::{CandidateSet, PartMask, RuleIndex};
use crate::pack::{Branch, EventPart, PatternTest, Rule, RuleCondition, RuleStage};
use crate::pattern::ByteMask;
use crate::plan::{Candidate, KnownFacts, OVER, PlanCache, ResidualCondition};
use crate::trace::{RuleOutcome, RuleTrace, describe};

pub(crate) use act::EventChange;

/// What becomes of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClassifierVerdict {
    /// It goes on, as that class; the number is that of [`Classifier::class`].
    Class(u32),
    /// It is a part of an event ([`Classifier::part`]); by itself it would be of that class.
    Part(u32),
    /// It is filtered by the rule of that number in [`Classifier::rule_name`].
    Dropped(u32),
}

/// Classifies events. It keeps memory between them, so each worker has its own.
#[derive(Debug)]
pub struct Classifier {
    packs: Arc<CompiledPacks>,
    classes: ClassCache,
    hints: Option<Arc<HostProducts>>,
    scratch: Scratch,
    work: ClassifierState,
    dropped: Vec<String>,
    /// What the last event says of the group that it is a part of.
    part: Option<PartSpans>,
    /// The first scratch byte that the last event needs.
    tail_from: usize,
    /// Whether no rule recognised the last event.
    fell: bool,
    /// What was considered for the last event, if that is wanted.
    trace: Option<Vec<RuleTrace>>,
}

/// Lists that are used again for each event.
#[derive(Debug, Default)]
struct ClassifierState {
    /// The branches that were taken, in order.
    chain: Vec<u32>,
    candidates: Vec<Candidate>,
    found: CandidateSet,
    plans: PlanCache,
    /// Rules of the last stage that are asked for events of a way through the packs with one
    /// program, by the hash of both.
    after: HashMap<u64, AfterStageEntry, BuildHasherDefault<IdentityHasher>>,
    /// The generation of the plans that they are of.
    after_of: u32,
}

/// The rules of the last stage that can hold for a way through the packs and a program, and its
/// class if none of them is taken.
#[derive(Debug)]
struct AfterStageEntry {
    chain: SmallVec<[u32; 8]>,
    plan: u32,
    /// `None`: not known yet.
    class: Option<u32>,
    rules: SmallVec<[Candidate; 4]>,
}

/// Ways through the packs whose last rules are remembered.
const AFTER_MAX: usize = 16_384;

/// Rules, found by a part of the event, that are put among the others one by one.
const INSERTED_MAX: usize = 4;

/// One event's way through the stages.
struct ClassifierRun<'r, 'a> {
    packs: &'a CompiledPacks,
    event: Event<'a>,
    work: &'r mut ClassifierState,
    trace: Option<&'r mut Vec<RuleTrace>>,
    recognised: bool,
    dropped: Option<&'a str>,
    /// The rule of the last stage whose groups it is a part of; the first one counts.
    group: Option<(u32, &'a GroupRule)>,
    /// Whether a rule said what the sender is: the first one counts.
    hinted: bool,
    /// Whether only the fallback knew it.
    fell: bool,
    /// What the program decides, and where that lay.
    plan: Option<(Span, Format, u32)>,
    /// A bit for each stage none of whose rules can hold for the program, but for a hint.
    closed: u32,
    /// The key of what is known of its way, if no rule of the last stage was taken, and the class.
    way: Option<(u64, Option<u32>)>,
}

impl Classifier {
    /// A classifier by these packs. With `hints`, what a host was recognised as counts for its
    /// other events.
    pub fn new(packs: Arc<CompiledPacks>, hints: Option<Arc<HostProducts>>) -> Self {
        Self {
            packs,
            classes: ClassCache::default(),
            hints,
            scratch: Scratch::default(),
            work: ClassifierState::default(),
            dropped: Vec::new(),
            part: None,
            tail_from: 0,
            fell: false,
            trace: None,
        }
    }

    /// Remembers from now on what was considered for each event.
    pub fn trace(&mut self) {
        self.trace = Some(Vec::new());
    }

    /// What was considered for the last event, in order.
    pub fn considered(&self) -> &[RuleTrace] {
        self.trace.as_deref().unwrap_or_default()
    }

    /// Whether no rule recognised the last event, so that the fallback decided.
    pub fn fell(&self) -> bool {
        self.fell
    }

    /// How often the numbers of classes began anew.
    pub fn generation(&self) -> u32 {
        self.classes.generation()
    }

    /// The class of a verdict.
    pub fn class(&self, number: u32) -> &Arc<ClassInfo> {
        self.classes.info(number)
    }

    /// The name of the rule that a verdict names.
    pub fn rule_name(&self, number: u32) -> &str {
        self.dropped.get(number as usize).map_or("", String::as_str)
    }

    /// What the last event says of the group that it is a part of, and how that group is put
    /// together. `arena` is the one that the event was classified in, with or without its tail.
    pub fn part<'c>(&'c self, arena: &'c [u8]) -> Option<(&'c Arc<GroupRule>, GroupPart<'c>)> {
        let part = self.part.as_ref()?;
        let rules = &self.packs.table(RuleStage::After).rules;
        let group = rules.get(part.rule as usize)?.group.as_ref()?;
        Some((group, part.resolve(arena, self.tail())))
    }

    /// The bytes to append to the arena if the record's [`Record::extra`] is not empty or any of
    /// its spans lies beyond the arena's end.
    pub fn tail(&self) -> &[u8] {
        &self.scratch.bytes[self.tail_from..]
    }

    /// Says what `record` is, whose raw bytes lie in `arena`. Its parts and its time are set anew
    /// where rules do so; spans may point behind the arena, at what [`Self::tail`] then holds and
    /// must be appended. `None` in place of that: nothing need be appended.
    pub fn classify(
        &mut self,
        arena: &[u8],
        record: &mut Record,
        place: EventOrigin<'_>,
    ) -> (ClassifierVerdict, bool) {
        self.begin(place.listener);
        let learnt = self.learnt(arena, record, place);
        let packs: &CompiledPacks = &self.packs;
        let hint = learnt.as_ref().map(|(v, p)| (v.as_str(), p.as_str()));
        let hint = place.hint.or(hint);
        let event = Event::new(arena, record, place, hint, &mut self.scratch);
        let mut run = ClassifierRun {
            packs,
            event,
            work: &mut self.work,
            trace: self.trace.as_mut(),
            recognised: false,
            dropped: None,
            group: None,
            hinted: false,
            fell: false,
            plan: None,
            closed: 0,
            way: None,
        };
        run.stages(place.hint.is_some());
        self.fell = run.fell;
        if let Some(rule) = run.dropped {
            return (
                ClassifierVerdict::Dropped(number_of(&mut self.dropped, rule)),
                false,
            );
        }
        if let Some(hints) = &self.hints {
            run.teach(hints);
        }
        let number = run.class(&mut self.classes);
        let event = &mut run.event;
        self.part = run
            .group
            .map(|(rule, group)| PartSpans::read(rule, group, event));
        let whole = self.part.is_some();
        let tail = self.classes.stamp(number, packs, event, whole);
        *record = event.record;
        self.tail_from = tail.unwrap_or_default();
        match whole {
            true => (ClassifierVerdict::Part(number), tail.is_some()),
            false => (ClassifierVerdict::Class(number), tail.is_some()),
        }
    }

    /// Forgets the last event; the next one comes from that listener.
    fn begin(&mut self, listener: &str) {
        self.scratch.clear();
        self.work.chain.clear();
        self.part = None;
        self.tail_from = 0;
        self.work.plans.begin(listener);
        if let Some(trace) = &mut self.trace {
            trace.clear();
        }
    }

    /// What the host is known as, if hosts are remembered and the listener does not say it.
    fn learnt(
        &self,
        arena: &[u8],
        record: &Record,
        place: EventOrigin<'_>,
    ) -> Option<(String, String)> {
        let hints = self.hints.as_ref().filter(|_| place.hint.is_none())?;
        hints.get(record.host.of(arena))
    }
}

/// The number of a rule that filters.
fn number_of(dropped: &mut Vec<String>, rule: &str) -> u32 {
    let known = dropped.iter().position(|name| name == rule);
    let number = known.unwrap_or_else(|| {
        dropped.push(rule.to_owned());
        dropped.len() - 1
    });
    number as u32
}

#[cold]
fn remember(trace: &mut Vec<RuleTrace>, rule: &Rule, stage: RuleStage, outcome: RuleOutcome) {
    trace.push(RuleTrace {
        rule: rule.name.clone(),
        stage: stage.name(),
        outcome,
    });
}

/// Puts rules that were found among candidates from `base` on, which are in order.
#[inline(never)]
fn merge(found: &[Candidate], candidates: &mut Vec<Candidate>, base: usize) {
    if found.len() > INSERTED_MAX {
        candidates.extend_from_slice(found);
        candidates[base..].sort_unstable();
        return;
    }
    for one in found {
        let before = candidates[base..].iter().rev();
        let after = before.take_while(|other| *other > one).count();
        candidates.insert(candidates.len() - after, *one);
    }
}

impl<'a> ClassifierRun<'_, 'a> {
    /// Has what the host was recognised as count for its other events.
    #[inline(never)]
    fn teach(&self, hints: &HostProducts) {
        let event = &self.event;
        let (vendor, product) = (
            event.part(&EventPart::Vendor),
            event.part(&EventPart::Product),
        );
        let host = event.bytes(event.record.host);
        if !self.fell && !host.is_empty() && !vendor.is_empty() && !product.is_empty() {
            hints.learn(host, vendor, product);
        }
    }

    fn stages(&mut self, own_listener: bool) {
        self.renew();
        let loose = Anomalies::NO_SDATA.union(Anomalies::BAD_SDATA);
        let loose = loose.union(Anomalies::LONG_FIELD).bits() & self.event.record.anomalies.bits();
        let strict = self.event.record.format == Format::Rfc5424 && loose == 0;
        let known = !strict && self.event.record.pri != Record::PRI_NONE && self.begins();
        if !strict && !known {
            if self.event.record.pri == Record::PRI_NONE {
                self.stage(RuleStage::Raw);
            } else if !self.is_plain() {
                self.stage(RuleStage::Header);
            }
            if self.event.record.format != Format::Unparsed && !self.has_plain_program() {
                self.stage(RuleStage::Repair);
            }
        }
        if !own_listener {
            self.stage(RuleStage::Hint);
        }
        if !self.recognised {
            self.main();
        }
        self.stage(RuleStage::Listener);
        if !self.recognised {
            self.fell = true;
            self.stage(RuleStage::Fallback);
        }
        self.after();
    }

    /// What the event's program decides; `None`: it is not remembered.
    #[inline]
    fn plan(&mut self) -> Option<u32> {
        match self.plan {
            Some((app, format, plan))
                if app == self.event.record.app && format == self.event.record.format =>
            {
                Some(plan)
            }
            _ => self.other_plan(),
        }
    }

    /// The same for a program that was not the last one.
    #[inline(never)]
    fn other_plan(&mut self) -> Option<u32> {
        // Who asks why is told about every rule.
        if self.trace.is_some() {
            return None;
        }
        let (app, format) = (self.event.record.app, self.event.record.format);
        let plan = self.work.plans.number(self.event.bytes(app), format)?;
        // What lies in the scratch bytes may be another text there the next time.
        if app.end() <= self.event.arena.len() {
            self.plan = Some((app, format, plan));
        }
        Some(plan)
    }

    /// Asks the rules for every event. Most want a vendor, a product or a program, which all events
    /// of one way through the packs share: which of them can hold is found out once.
    fn after(&mut self) {
        let table = self.packs.table(RuleStage::After);
        if table.rules.is_empty() || self.dropped.is_some() {
            return;
        }
        let plan = self.plan();
        let key = hash(&self.work.chain, plan.unwrap_or(u32::MAX));
        let base = self.work.candidates.len();
        let work = &mut *self.work;
        if work.after_of != work.plans.generation() {
            work.after_of = work.plans.generation();
            work.after.clear();
        }
        let same =
            |known: &&AfterStageEntry| Some(known.plan) == plan && *known.chain == *work.chain;
        let mut class = None;
        match work.after.get(&key).filter(same) {
            Some(known) => {
                work.candidates.extend_from_slice(&known.rules);
                class = known.class;
            }
            None => self.possible(plan.map(|plan| (key, plan))),
        }
        let length = self.work.chain.len();
        for at in base..self.work.candidates.len() {
            let candidate = self.work.candidates[at];
            let rule = &table.rules[candidate.rule()];
            if self.ask(rule, RuleStage::After, candidate)
                && let Some(group) = &rule.group
            {
                let place = candidate.rule() as u32;
                self.group.get_or_insert((place, group));
            }
        }
        self.work.candidates.truncate(base);
        if self.work.chain.len() == length {
            self.way = plan.map(|_| (key, class));
        }
    }

    /// The number of the event's class.
    fn class(&mut self, classes: &mut ClassCache) -> u32 {
        if let Some((_, Some(class))) = self.way {
            return class;
        }
        let plan = self.plan();
        let (work, event) = (&mut *self.work, &mut self.event);
        let general = classes.number(self.packs, &work.chain, &mut work.plans);
        let (class, stays) = classes.of_program(general, plan, &mut work.plans, event);
        let way = self.way.filter(|_| stays);
        if let Some(way) = way.and_then(|(way, _)| work.after.get_mut(&way)) {
            way.class = Some(class);
        }
        class
    }

    /// Adds the rules of the last stage that can hold, and remembers them under that key for that
    /// plan.
    #[cold]
    fn possible(&mut self, key: Option<(u64, u32)>) {
        let event = &self.event;
        let fixed = |slot: PropertyText<'a>| match slot {
            PropertyText::Unset => Some(&b""[..]),
            PropertyText::Fixed(text) => Some(text.as_bytes()),
            PropertyText::Own(_) => None,
        };
        let known = KnownFacts {
            program: event.bytes(event.record.app),
            listener: event.listener.as_bytes(),
            format: event.record.format,
            set: Some([event.vendor, event.product, event.class].map(fixed)),
        };
        let work = &mut *self.work;
        let base = work.candidates.len();
        for (at, rule) in self.packs.table(RuleStage::After).rules.iter().enumerate() {
            if key.is_none() {
                work.candidates.push(Candidate::open(at as u32));
            } else {
                let candidate = work.plans.candidate(at as u32, &rule.branch.when, &known);
                work.candidates.extend(candidate);
            }
        }
        if let Some((key, plan)) = key {
            if work.after.len() >= AFTER_MAX {
                work.after.clear();
                work.plans.forget();
            }
            let possible = AfterStageEntry {
                chain: work.chain.as_slice().into(),
                plan,
                class: None,
                rules: work.candidates[base..].into(),
            };
            work.after.insert(key, possible);
        }
    }

    fn main(&mut self) {
        let record = &self.event.record;
        let (sdata, program) = (!record.sdata.is_empty(), !record.app.is_empty());
        let found = sdata && self.stage(RuleStage::Sdata);
        let found = found || program && self.stage(RuleStage::Program);
        if !found {
            self.stage(RuleStage::Message);
        }
    }

    /// `Mmm dd hh:mm:ss host program:` or `program[`: nothing can be amiss with it.
    fn is_plain(&self) -> bool {
        let record = &self.event.record;
        let arena = self.event.arena;
        let start = self.event.text.start();
        let byte = |at: usize| arena.get(at).copied().unwrap_or(0);
        record.format == Format::Rfc3164
            && record.event_time != inrush_event::Timestamp::NONE
            && record.host.start() == start + 16
            && byte(start).is_ascii_uppercase()
            && record.app.start() == record.host.end() + 1
            && !record.app.is_empty()
            && matches!(byte(record.app.end()), b':' | b'[')
    }

    fn has_plain_program(&self) -> bool {
        let program = self.event.bytes(self.event.record.app);
        let letter = |byte: &u8| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'/' | b'(' | b')' | b'.')
        };
        let tail = matches!(
            self.event.arena.get(self.event.record.app.end()),
            Some(b':' | b'[')
        );
        tail && program.first().is_some_and(u8::is_ascii_alphabetic) && program.iter().all(letter)
    }

    /// Asks a stage's rules; whether one was taken. In place, since no rule can hold in most.
    #[inline]
    fn stage(&mut self, stage: RuleStage) -> bool {
        let over = stage == RuleStage::Listener && self.recognised;
        let slot = if over { OVER } else { stage as usize };
        let closed = self.closed >> slot & 1 == 1;
        // A hint can bring rules whatever the program is.
        (!closed || self.event.hint_vendor.is_set()) && self.ask_all(stage, slot, closed)
    }

    /// Asks for what the program decides anew, since a rule may have changed it.
    fn renew(&mut self) {
        let plan = self.plan();
        self.closed = plan.map_or(0, |plan| self.work.plans.closed(plan));
    }

    /// Asks the rules of a stage that can hold; whether one was taken. Never inlined, or it would
    /// stand in `classify` once for each stage.
    #[inline(never)]
    fn ask_all(&mut self, stage: RuleStage, slot: usize, closed: bool) -> bool {
        let table = self.packs.table(stage);
        let index = if slot == OVER {
            &table.over
        } else {
            &table.index
        };
        if self.dropped.is_some() || closed && !index.has_hints() {
            return false;
        }
        // The stage that a rule goes on with puts its candidates behind those of this one.
        let (base, plan) = (self.work.candidates.len(), self.plan());
        self.candidates(plan, slot, table, index);
        let (mut found, mut last) = (false, None);
        for at in base..self.work.candidates.len() {
            let candidate = self.work.candidates[at];
            // The one of which the least is left to ask comes first.
            if last.replace(candidate.rule()) == Some(candidate.rule()) {
                continue;
            }
            if self.ask(&table.rules[candidate.rule()], stage, candidate) {
                found = true;
                // Of a sender several things can be known.
                if stage != RuleStage::Hint {
                    break;
                }
            }
        }
        self.work.candidates.truncate(base);
        if found {
            self.renew();
        }
        found
    }

    /// Adds the rules of a stage that can hold, in their order.
    fn candidates(
        &mut self,
        plan: Option<u32>,
        slot: usize,
        table: &StageRules,
        index: &RuleIndex,
    ) {
        let work = &mut *self.work;
        let base = work.candidates.len();
        let live = match plan {
            Some(plan) => {
                let candidates = &mut work.candidates;
                work.plans
                    .candidates(plan, slot, (table, index), candidates)
            }
            None => {
                let program = self.event.bytes(self.event.record.app);
                let listener = self.event.listener.as_bytes();
                index.by_program(program, listener, &mut work.found);
                let rules = work.found.fixed.iter().copied();
                work.candidates.extend(rules.map(Candidate::open));
                PartMask::MAX
            }
        };
        if index.open(live, &self.event, &mut work.found) {
            merge(&work.found.rules, &mut work.candidates, base);
        }
    }

    /// What of a rule's condition does not hold, as far as that must still be asked.
    fn open_condition<'w>(
        &'w self,
        rule: &'w Rule,
        candidate: Candidate,
    ) -> Option<&'w RuleCondition> {
        match self.work.plans.left(candidate) {
            ResidualCondition::Nothing => None,
            ResidualCondition::Part(when) => self.failing(when),
            ResidualCondition::All => self.failing(&rule.branch.when),
        }
    }

    /// Asks a rule for what is left of its condition, and takes it if that holds.
    fn ask(&mut self, rule: &'a Rule, stage: RuleStage, candidate: Candidate) -> bool {
        if let Some(failed) = self.open_condition(rule, candidate) {
            if self.trace.is_some() {
                let outcome = RuleOutcome::Condition(describe(failed));
                self.note(rule, stage, outcome);
            }
            return false;
        }
        self.try_rule(rule, stage)
    }

    /// Takes a rule whose condition holds, unless one of its steps cannot be done.
    #[inline(never)]
    fn try_rule(&mut self, rule: &'a Rule, stage: RuleStage) -> bool {
        let before = self.before();
        let outcome = self.take(&rule.branch);
        let taken = outcome == RuleOutcome::Taken;
        self.note(rule, stage, outcome);
        if !taken {
            // What a rule read that was not taken after all is forgotten.
            self.undo(&before);
            return false;
        }
        if self.dropped == Some("") {
            self.dropped = Some(&rule.name);
            return true;
        }
        let names = !matches!(
            stage,
            RuleStage::Header | RuleStage::Raw | RuleStage::Repair | RuleStage::Hint
        );
        self.recognised |= (names || rule.branch.says) && stage != RuleStage::After;
        if let Some(then) = rule.branch.then {
            self.renew();
            self.stage(then);
        }
        true
    }

    /// Remembers what came of a rule, for those who ask.
    fn note(&mut self, rule: &Rule, stage: RuleStage, outcome: RuleOutcome) {
        if let Some(trace) = self.trace.as_deref_mut() {
            remember(trace, rule, stage, outcome);
        }
    }

    /// Reads and sets what a branch says whose condition holds.
    fn take(&mut self, branch: &'a Branch) -> RuleOutcome {
        for (index, step) in branch.read.iter().enumerate() {
            if !step.apply(&mut self.event) && !step.optional {
                return RuleOutcome::Step(index);
            }
        }
        self.act(&branch.acts);
        self.work.chain.push(branch.id);
        if branch.drop {
            self.dropped = Some("");
        }
        if !branch.has_cases {
            return RuleOutcome::Taken;
        }
        for case in &branch.cases {
            if self.failing(&case.when).is_some() {
                continue;
            }
            let before = self.before();
            if self.take(case) == RuleOutcome::Taken {
                if !case.go_on {
                    break;
                }
            } else {
                self.undo(&before);
            }
        }
        RuleOutcome::Taken
    }

    /// The condition that does not hold.
    #[inline]
    fn failing<'w>(&self, when: &'w RuleCondition) -> Option<&'w RuleCondition> {
        match when {
            RuleCondition::Part(test) => (!self.meets(test)).then_some(when),
            when => self.failing_of(when),
        }
    }

    /// The same for a condition that is not about one part.
    fn failing_of<'w>(&self, when: &'w RuleCondition) -> Option<&'w RuleCondition> {
        match when {
            // Most are about a part: they are asked here, since calls cost more than answers.
            RuleCondition::All(all) => all.iter().find_map(|one| match one {
                RuleCondition::Part(test) => (!self.meets(test)).then_some(one),
                one => self.failing(one),
            }),
            RuleCondition::Any(any) => (!self.holds_one(any)).then_some(when),
            RuleCondition::Not(other) => {
                let holds = match &**other {
                    RuleCondition::Part(test) => self.meets(test),
                    RuleCondition::Any(any) => self.holds_one(any),
                    other => self.failing(other).is_none(),
                };
                holds.then_some(when)
            }
            when => (!self.holds(when)).then_some(when),
        }
    }

    #[inline]
    fn meets(&self, test: &PatternTest) -> bool {
        test.pattern.matches(self.event.part(&test.part))
    }

    /// Whether one of the conditions holds. Often they ask for one part, which is found once.
    fn holds_one(&self, any: &[RuleCondition]) -> bool {
        let mut known: Option<(&EventPart, &[u8], ByteMask)> = None;
        any.iter().any(|one| match one {
            RuleCondition::Part(test) => {
                let (part, text, mut bytes) = match known {
                    Some(known) if *known.0 == test.part => known,
                    _ => (&test.part, self.event.part(&test.part), ByteMask::UNKNOWN),
                };
                let holds = test.pattern.matches_of(text, &mut bytes);
                known = Some((part, text, bytes));
                holds
            }
            one => self.failing(one).is_none(),
        })
    }

    fn holds(&self, when: &RuleCondition) -> bool {
        let event = &self.event;
        match when {
            RuleCondition::Always => true,
            RuleCondition::Never => false,
            RuleCondition::Part(test) => self.meets(test),
            RuleCondition::Format(header) => header.is(event.record.format),
            RuleCondition::Hint(vendor, product) => {
                *event.part(&EventPart::HintVendor) == *vendor.as_bytes()
                    && *event.part(&EventPart::HintProduct) == *product.as_bytes()
            }
            RuleCondition::Sender(network) => event.sender.is_some_and(|ip| network.contains(ip)),
            RuleCondition::All(_) | RuleCondition::Any(_) | RuleCondition::Not(_) => {
                self.failing(when).is_none()
            }
        }
    }
}
