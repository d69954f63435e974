//! Plan cache of one worker: the rules of each stage that can hold for a program and header format.
//!
//! # What it guarantees
//! * A plan omits only rules that its program, header format or listener excludes.
//! * The engine evaluates only the undecided rest of a candidate's condition.
//!
//! # States
//! `PlanCache::begin` precedes each event; it empties a full cache, or that of another listener.
//! `PlanCache::number` adds a program, and `PlanCache::candidates` adds a stage at its first use.
//! `PlanCache::clear` makes all numbers invalid, and increments the generation.
//!
//! # Limits
//! `PROGRAMS_MAX` programs are cached, each of at most `PROGRAM_BYTES_MAX` bytes. A program gets
//! classes of its own after `USES_ENOUGH` look-ups, so that invented names get none.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use foldhash::fast::RandomState;
use inrush_event::Format;
use smallvec::SmallVec;

use crate::class::IdentityHasher;
use crate::compile::StageRules;
use crate::index::{CandidateSet, PartMask, RuleIndex};
use crate::pack::{EventPart, HeaderFormat, RuleCondition, RuleStage};
use inrush_multipattern::same as same_text;

/// Programs that are remembered. Beyond, all are forgotten and learnt anew.
const PROGRAMS_MAX: usize = 4096;

/// Bytes of a program that is remembered.
const PROGRAM_BYTES_MAX: usize = 64;

/// Events of a program before it gets classes of its own: whoever makes programs up gets none.
const USES_ENOUGH: u32 = 16;

/// The stages in which a rule of a user's own may take an event that is known by its beginning.
pub(crate) const OWN_STAGES: [RuleStage; 5] = [
    RuleStage::Header,
    RuleStage::Repair,
    RuleStage::Sdata,
    RuleStage::Program,
    RuleStage::Message,
];

/// Slot of the rules of the stage `listener` that are asked of what is known already, and first
/// slot of those of [`OWN_STAGES`].
pub(crate) const OVER: usize = RuleStage::ALL.len();
pub(crate) const OWN: usize = OVER + 1;

const TABLES: usize = OWN + OWN_STAGES.len();

/// A rule that can hold, and what of its condition must still be asked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Candidate {
    /// Its number in the stage.
    rule: u32,
    left: u32,
}

/// Nothing of the condition is left to be asked.
const SURE: u32 = 0;

/// All of it is.
const OPEN: u32 = u32::MAX;

/// Rest of a condition that must still be asked.
pub(crate) enum ResidualCondition<'p> {
    /// Nothing: it holds.
    Nothing,
    /// That.
    Part(&'p RuleCondition),
    /// All of it.
    All,
}

impl Candidate {
    /// A rule whose condition is to be asked.
    pub(crate) fn open(rule: u32) -> Self {
        Self { rule, left: OPEN }
    }

    /// A rule whose condition holds.
    pub(crate) fn sure(rule: u32) -> Self {
        Self { rule, left: SURE }
    }

    /// Its number in the stage.
    pub(crate) fn rule(self) -> usize {
        self.rule as usize
    }
}

/// Findings about one program. What is asked for every event comes first, on one line of the cache.
#[derive(Debug)]
#[repr(C, align(64))]
struct ProgramPlan {
    /// In place, since it is compared for every event.
    program: SmallVec<[u8; 24]>,
    format: Format,
    /// A bit for each of the stages that were found out, and for those without a rule but by hints.
    known: u32,
    closed: u32,
    /// Number of times that it was looked for, up to [`USES_ENOUGH`].
    uses: u32,
    stages: [StageCandidates; TABLES],
    /// Classes whose texts follow from the program, by the number of the class without it.
    classes: Vec<(u32, u32)>,
}

/// The rules of a stage that can hold for a program.
#[derive(Clone, Copy, Default, Debug)]
struct StageCandidates {
    /// Range, within `PlanCache::rules`, of those found by the program or asked for every event.
    rules: (u32, u32),
    /// The parts of the event by which others can be found.
    parts: PartMask,
}

// There is a bit for each of the stages.
const _: () = assert!(TABLES <= u32::BITS as usize);

/// Decisions by program, of one worker and one listener.
#[derive(Debug, Default)]
pub(crate) struct PlanCache {
    listener: String,
    known: Vec<ProgramPlan>,
    by_hash: HashMap<u64, u32, BuildHasherDefault<IdentityHasher>>,
    hasher: RandomState,
    last: u32,
    full: bool,
    /// Number of times that all was forgotten: numbers then begin anew.
    generation: u32,
    found: CandidateSet,
    /// The rules of all stages of all programs.
    rules: Vec<Candidate>,
    /// Rests of conditions.
    left: Vec<RuleCondition>,
}

impl PlanCache {
    /// The next event comes from that listener. Everything is forgotten if that is another one, or
    /// if there is no room: never while an event is at work, which has numbers from here.
    pub(crate) fn begin(&mut self, listener: &str) {
        if self.full || self.listener != listener {
            listener.clone_into(&mut self.listener);
            self.clear();
        }
    }

    /// Has everything be forgotten before the next event.
    pub(crate) fn forget(&mut self) {
        self.full = true;
    }

    /// Number of times that all was forgotten, with which all numbers lose their meaning.
    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.known.clear();
        self.by_hash.clear();
        self.rules.clear();
        self.left.clear();
        self.generation = self.generation.wrapping_add(1);
        self.last = 0;
        self.full = false;
    }

    /// The number of what that program decides; `None`: it is not remembered.
    pub(crate) fn number(&mut self, program: &[u8], format: Format) -> Option<u32> {
        if program.len() > PROGRAM_BYTES_MAX {
            return None;
        }
        let same = |plan: &ProgramPlan| same_text(&plan.program, program) && plan.format == format;
        if self.known.get(self.last as usize).is_some_and(same) {
            return Some(self.last);
        }
        let hash = std::hash::BuildHasher::hash_one(&self.hasher, (program, format as u8));
        if let Some(number) = self.by_hash.get(&hash)
            && same(&self.known[*number as usize])
        {
            self.last = *number;
            return Some(*number);
        }
        self.learn(program, format, hash)
    }

    /// Remembers a program that was not met before.
    #[cold]
    fn learn(&mut self, program: &[u8], format: Format, hash: u64) -> Option<u32> {
        if self.known.len() >= PROGRAMS_MAX {
            self.full = true;
            return None;
        }
        let number = self.known.len() as u32;
        self.known.push(ProgramPlan {
            program: program.into(),
            format,
            known: 0,
            closed: 0,
            uses: 0,
            stages: Default::default(),
            classes: Vec::new(),
        });
        self.by_hash.insert(hash, number);
        self.last = number;
        Some(number)
    }

    /// A bit for each stage none of whose rules can hold for that program, as far as is known, but
    /// for those that are found by a hint.
    #[inline]
    pub(crate) fn closed(&self, number: u32) -> u32 {
        self.known[number as usize].closed
    }

    /// Puts the rules that can hold as far as the program decides into `out`; returns the parts of
    /// the event by which others can be found.
    pub(crate) fn candidates(
        &mut self,
        number: u32,
        slot: usize,
        of: (&StageRules, &RuleIndex),
        out: &mut Vec<Candidate>,
    ) -> PartMask {
        let plan = &self.known[number as usize];
        if plan.known >> slot & 1 == 1 {
            let known = plan.stages[slot];
            let (from, to) = known.rules;
            out.extend_from_slice(&self.rules[from as usize..to as usize]);
            return known.parts;
        }
        self.find_out(number, slot, of, out)
    }

    /// The same for a stage that was not asked for that program before.
    #[cold]
    fn find_out(
        &mut self,
        number: u32,
        slot: usize,
        (table, index): (&StageRules, &RuleIndex),
        out: &mut Vec<Candidate>,
    ) -> PartMask {
        let plan = &self.known[number as usize];
        let listener = self.listener.as_bytes();
        index.by_program(&plan.program, listener, &mut self.found);
        let known = KnownFacts {
            program: &plan.program,
            listener,
            format: plan.format,
            set: None,
        };
        let when = |rule: u32| &table.rules[rule as usize].branch.when;
        let parts = index.live(|rule| !matches!(known.left(when(rule)), RuleCondition::Never));
        let rules = self.found.fixed.drain(..);
        let rules = rules.filter_map(|rule| candidate(rule, when(rule), &known, &mut self.left));
        let from = self.rules.len();
        self.rules.extend(rules);
        out.extend_from_slice(&self.rules[from..]);
        let plan = &mut self.known[number as usize];
        plan.known |= 1 << slot;
        let closed = self.rules.len() == from && index.is_closed(parts);
        plan.closed |= u32::from(closed) << slot;
        plan.stages[slot] = StageCandidates {
            rules: (from as u32, self.rules.len() as u32),
            parts,
        };
        parts
    }

    /// The rule with what is left of its condition, if that can hold at all.
    pub(crate) fn candidate(
        &mut self,
        rule: u32,
        when: &RuleCondition,
        known: &KnownFacts<'_>,
    ) -> Option<Candidate> {
        candidate(rule, when, known, &mut self.left)
    }

    /// Rest of a candidate's condition that must still be asked.
    pub(crate) fn left(&self, candidate: Candidate) -> ResidualCondition<'_> {
        match candidate.left {
            SURE => ResidualCondition::Nothing,
            left => match self.left.get(left as usize - 1) {
                Some(when) => ResidualCondition::Part(when),
                None => ResidualCondition::All,
            },
        }
    }

    /// The class with the texts that follow from the program: `Ok` if it is known, `Err(true)` if
    /// the program was met often enough to be worth one.
    pub(crate) fn class(&mut self, number: u32, class: u32) -> Result<u32, bool> {
        // All was forgotten while the event was at work.
        let Some(plan) = self.known.get_mut(number as usize) else {
            return Err(false);
        };
        let found = plan.classes.iter().find(|(general, _)| *general == class);
        if let Some((_, special)) = found {
            return Ok(*special);
        }
        plan.uses += 1;
        Err(plan.uses >= USES_ENOUGH)
    }

    /// Remembers that class.
    pub(crate) fn keep_class(&mut self, number: u32, class: u32, special: u32) {
        self.known[number as usize].classes.push((class, special));
    }
}

fn candidate(
    rule: u32,
    when: &RuleCondition,
    known: &KnownFacts<'_>,
    left: &mut Vec<RuleCondition>,
) -> Option<Candidate> {
    let left = match known.left(when) {
        RuleCondition::Never => return None,
        RuleCondition::Always => SURE,
        open => {
            left.push(open);
            left.len() as u32
        }
    };
    Some(Candidate { rule, left })
}

/// Facts known of an event beforehand.
pub(crate) struct KnownFacts<'k> {
    pub(crate) program: &'k [u8],
    pub(crate) listener: &'k [u8],
    pub(crate) format: Format,
    /// Vendor, product and class, once the rules that set them have been asked; `None` for one that
    /// differs from event to event.
    pub(crate) set: Option<[Option<&'k [u8]>; 3]>,
}

impl KnownFacts<'_> {
    fn part(&self, part: &EventPart) -> Option<&[u8]> {
        match part {
            EventPart::Program => Some(self.program),
            EventPart::Listener => Some(self.listener),
            EventPart::Vendor => self.set?[0],
            EventPart::Product => self.set?[1],
            EventPart::Class => self.set?[2],
            _ => None,
        }
    }

    /// Rest of a condition that must still be asked: `Always` if it holds, `Never` if it cannot.
    pub(crate) fn left(&self, when: &RuleCondition) -> RuleCondition {
        let sure = |holds: bool| {
            if holds {
                RuleCondition::Always
            } else {
                RuleCondition::Never
            }
        };
        match when {
            RuleCondition::Always => RuleCondition::Always,
            RuleCondition::Never => RuleCondition::Never,
            RuleCondition::Part(test) => match self.part(&test.part) {
                Some(text) => sure(test.pattern.matches(text)),
                None => when.clone(),
            },
            RuleCondition::Format(header) => sure(header.is(self.format)),
            RuleCondition::Not(other) => match self.left(other) {
                RuleCondition::Always => RuleCondition::Never,
                RuleCondition::Never => RuleCondition::Always,
                open => RuleCondition::Not(Box::new(open)),
            },
            RuleCondition::All(all) => {
                let mut open = Vec::new();
                for one in all {
                    match self.left(one) {
                        RuleCondition::Always => {}
                        RuleCondition::Never => return RuleCondition::Never,
                        left => open.push(left),
                    }
                }
                joined(open, RuleCondition::Always, RuleCondition::All)
            }
            RuleCondition::Any(any) => {
                let mut open = Vec::new();
                for one in any {
                    match self.left(one) {
                        RuleCondition::Never => {}
                        RuleCondition::Always => return RuleCondition::Always,
                        left => open.push(left),
                    }
                }
                joined(open, RuleCondition::Never, RuleCondition::Any)
            }
            RuleCondition::Hint(..) | RuleCondition::Sender(_) => when.clone(),
        }
    }
}

fn joined(
    mut open: Vec<RuleCondition>,
    none: RuleCondition,
    many: fn(Vec<RuleCondition>) -> RuleCondition,
) -> RuleCondition {
    match open.len() {
        0 => none,
        1 => open.pop().unwrap_or(none),
        _ => many(open),
    }
}

impl HeaderFormat {
    /// True if a header was read as that.
    pub(crate) fn is(self, format: Format) -> bool {
        matches!(
            (self, format),
            (Self::Rfc3164, Format::Rfc3164 | Format::Cisco)
                | (Self::Rfc5424, Format::Rfc5424)
                | (Self::Unparsed, Format::Unparsed)
        )
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::TextPattern;
    use crate::pack::PatternTest;

    fn part(part: EventPart, written: &str) -> RuleCondition {
        RuleCondition::Part(Arc::new(PatternTest {
            part,
            pattern: TextPattern::parse(written).expect("a pattern"),
            written: written.to_owned(),
        }))
    }

    #[test]
    fn what_a_program_decides_is_known_beforehand() {
        let known = KnownFacts {
            program: b"sshd",
            listener: b"default",
            format: Format::Rfc3164,
            set: Some([Some(b"nix"), None, None]),
        };
        let left = |when: &RuleCondition| match known.left(when) {
            RuleCondition::Always => "always",
            RuleCondition::Never => "never",
            RuleCondition::Part(_) => "a part",
            RuleCondition::All(_) => "all",
            _ => "more",
        };
        let (yes, no) = (
            part(EventPart::Program, "ssh*"),
            part(EventPart::Program, "cron"),
        );
        let open = part(EventPart::Message, "*x*");
        assert_eq!(
            [left(&yes), left(&no), left(&open)],
            ["always", "never", "a part"]
        );
        let all = |list: &[&RuleCondition]| {
            RuleCondition::All(list.iter().map(|when| (*when).clone()).collect())
        };
        let any = |list: &[&RuleCondition]| {
            RuleCondition::Any(list.iter().map(|when| (*when).clone()).collect())
        };
        assert_eq!(left(&all(&[&yes, &open])), "a part");
        assert_eq!(left(&all(&[&open, &yes, &open])), "all");
        assert_eq!(left(&all(&[&open, &no])), "never");
        assert_eq!(left(&any(&[&open, &yes])), "always");
        assert_eq!(left(&any(&[&open, &no])), "a part");
        assert_eq!(left(&RuleCondition::Not(Box::new(no))), "always");
        assert_eq!(left(&RuleCondition::Format(HeaderFormat::Rfc5424)), "never");
        assert_eq!(left(&part(EventPart::Listener, "default")), "always");
        assert_eq!(left(&part(EventPart::Vendor, "nix")), "always");
        assert_eq!(left(&part(EventPart::Product, "")), "a part");
    }

    #[test]
    fn programs_are_bounded() {
        let mut plans = PlanCache::default();
        let one = plans.number(b"one", Format::Rfc3164);
        assert_eq!(plans.number(b"one", Format::Rfc3164), one);
        assert_ne!(plans.number(b"one", Format::Rfc5424), one);
        for number in 0..3 * PROGRAMS_MAX {
            let name = number.to_string();
            plans.begin("default");
            plans.number(name.as_bytes(), Format::Rfc3164);
            assert!(plans.known.len() <= PROGRAMS_MAX && plans.by_hash.len() <= PROGRAMS_MAX);
        }
        assert_eq!(plans.number(&[b'x'; 65], Format::Rfc3164), None);
    }
}
