//! Usage analysis of packs: each reading step learns the names of values that rules ask for.
//!
//! # What it guarantees
//! * A step keeps the values for its own rule and for the stage that its rule enters. It also keeps
//!   those for the stages `listener`, `fallback` and `after`.
//! * Steps of the stages `header`, `raw`, `repair` and `hint` keep the values for any rule.
//! * A rule that sends all values keeps each counted value, or the one JSON object of them all.
//!
//! # States
//! `prune` runs once, as packs are compiled; events only look names up.
//!
//! # Limits
//! Names come from packs alone, so that no event adds one. A look-up tests one bit and searches at
//! most one of `CHAINS` chains.

use std::sync::Arc;

use crate::mark::NameFingerprint;
use crate::pack::{
    Branch, BranchSettings, EventPart, OutputTemplate, Rule, RuleCondition, RuleStage,
};
use crate::read::{ReadStep, StepAction};
use crate::template::{TemplatePiece, TextTemplate};
use inrush_multipattern::same;

/// The names of values that are asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct NeededNames {
    names: TextHashSet,
    /// Prefixes of the names up to each of their dots, and the names.
    paths: TextHashSet,
}

/// Chains of [`TextHashSet`]: a power of two, of the highest bits of a hash.
const CHAINS: usize = 128;

/// Texts, found by their [`NameFingerprint`]: each is in the chain that its mark is hashed to.
/// An event asks for some twenty names, most of which are in no chain: a bit tells.
#[derive(Clone, Debug)]
struct TextHashSet {
    /// A bit for each hash of a mark that a text has.
    bits: [u64; 4],
    /// One more than the place in `all` of a chain's first text, 0 if it is empty.
    chains: Box<[u32; CHAINS]>,
    all: Vec<HashChainEntry>,
}

/// One of them.
#[derive(Clone, Debug)]
struct HashChainEntry {
    mark: NameFingerprint,
    /// One more than the place of the next one of its chain.
    next: u32,
    text: Box<[u8]>,
}

impl Default for TextHashSet {
    fn default() -> Self {
        Self {
            bits: [0; 4],
            chains: Box::new([0; CHAINS]),
            all: Vec::new(),
        }
    }
}

impl TextHashSet {
    #[inline]
    fn contains(&self, text: &[u8]) -> bool {
        let mark = NameFingerprint::of(text);
        let hash = mark.hash();
        self.bits[hash >> 6] >> (hash & 63) & 1 == 1 && self.is_in_chain(hash >> 1, mark, text)
    }

    fn is_in_chain(&self, chain: usize, mark: NameFingerprint, text: &[u8]) -> bool {
        let mut next = self.chains[chain];
        while let Some(known) = next.checked_sub(1).and_then(|at| self.all.get(at as usize)) {
            if known.mark == mark && same(&known.text, text) {
                return true;
            }
            next = known.next;
        }
        false
    }

    fn insert(&mut self, text: &[u8]) {
        if self.contains(text) {
            return;
        }
        let mark = NameFingerprint::of(text);
        let hash = mark.hash();
        self.bits[hash >> 6] |= 1 << (hash & 63);
        let chain = &mut self.chains[hash >> 1];
        self.all.push(HashChainEntry {
            mark,
            next: *chain,
            text: text.into(),
        });
        *chain = self.all.len() as u32;
    }

    fn extend(&mut self, other: &Self) {
        other.all.iter().for_each(|known| self.insert(&known.text));
    }
}

impl NeededNames {
    /// True if that name is asked for.
    pub(crate) fn contains(&self, name: &[u8]) -> bool {
        self.names.contains(name)
    }

    /// True if that name, or one below it, is asked for.
    pub(crate) fn leads_on(&self, path: &[u8]) -> bool {
        self.paths.contains(path)
    }

    fn insert(&mut self, name: &str) {
        let name = name.as_bytes();
        for (at, byte) in name.iter().enumerate() {
            if *byte == b'.' {
                self.paths.insert(&name[..at]);
            }
        }
        self.paths.insert(name);
        self.names.insert(name);
    }

    fn extend(&mut self, other: &Self) {
        self.names.extend(&other.names);
        self.paths.extend(&other.paths);
    }
}

/// Values that rules ask for.
#[derive(Clone, Debug, Default)]
struct NeededValues {
    names: NeededNames,
    /// True if all values that count are asked for.
    all: bool,
}

impl NeededValues {
    fn of(rules: &[Rule]) -> Self {
        let mut needs = Self::default();
        for rule in rules {
            needs.branch(&rule.branch);
            let group = rule.group.iter();
            group
                .flat_map(|group| group.texts())
                .for_each(|text| needs.text(text));
        }
        needs
    }

    /// Values that the rules of a stage ask of who enters it. A rule that reads the event's format
    /// itself has all values from there: the others need not pay for it.
    fn of_entered(stage: RuleStage, rules: &[Rule]) -> Self {
        let mut needs = Self::default();
        for rule in rules {
            let mut one = Self::of(std::slice::from_ref(rule));
            let reads = |step: &ReadStep| step.keeps() && reads_format(stage, &step.action);
            one.all &= !rule.branch.read.iter().any(reads);
            needs.extend(&one);
        }
        needs
    }

    fn extend(&mut self, other: &Self) {
        self.names.extend(&other.names);
        self.all |= other.all;
    }

    fn part(&mut self, part: &EventPart) {
        if let EventPart::Value(_, name) = part {
            self.names.insert(name);
        }
    }

    fn text(&mut self, text: &TextTemplate) {
        if let TextTemplate::Pieces(pieces) = text {
            self.pieces(pieces);
        }
    }

    fn pieces(&mut self, pieces: &[TemplatePiece]) {
        for piece in pieces {
            if let TemplatePiece::Part { part, default, .. } = piece {
                self.part(part);
                self.pieces(default);
            }
        }
    }

    fn when(&mut self, when: &RuleCondition) {
        match when {
            RuleCondition::All(list) | RuleCondition::Any(list) => {
                list.iter().for_each(|one| self.when(one))
            }
            RuleCondition::Not(other) => self.when(other),
            RuleCondition::Part(test) => self.part(&test.part),
            _ => {}
        }
    }

    fn set(&mut self, set: &BranchSettings) {
        let texts = [
            &set.vendor,
            &set.product,
            &set.class,
            &set.index,
            &set.sourcetype,
            &set.source,
        ];
        texts.into_iter().flatten().for_each(|text| self.text(text));
        set.parts.iter().for_each(|(_, text)| self.text(text));
        set.fields.iter().for_each(|(_, text)| self.text(text));
        set.values.iter().for_each(|(_, text)| self.text(text));
        match &set.template {
            Some(OutputTemplate::JsonValues | OutputTemplate::KvValues) => self.all = true,
            Some(OutputTemplate::Text(text)) => self.text(text),
            Some(OutputTemplate::Fixed(_)) | None => {}
        }
    }

    fn branch(&mut self, branch: &Branch) {
        self.when(&branch.when);
        for step in &branch.read {
            self.part(&step.input);
            match &step.action {
                StepAction::Time { text, .. } => self.text(text),
                StepAction::Kv(kv) => kv.until.iter().for_each(|name| self.names.insert(name)),
                _ => {}
            }
        }
        self.set(&branch.set);
        branch.cases.iter().for_each(|case| self.branch(case));
    }
}

/// True if a step reads the format that a stage is for.
fn reads_format(stage: RuleStage, action: &StepAction) -> bool {
    matches!(
        (stage, action),
        (RuleStage::Cef, StepAction::Cef)
            | (RuleStage::Leef, StepAction::Leef)
            | (RuleStage::Json, StepAction::Json)
    )
}

/// Tells every step what is asked for of what it finds.
pub(crate) fn prune(stages: &mut [(RuleStage, Vec<Rule>)]) {
    let rules_of = |stage: RuleStage| {
        let rules = stages.iter().find(|(known, _)| *known == stage);
        rules.map_or(&[][..], |(_, rules)| rules)
    };
    let mut later = NeededValues::default();
    for stage in [RuleStage::Listener, RuleStage::Fallback, RuleStage::After] {
        let needs = NeededValues::of(rules_of(stage));
        later.names.extend(&needs.names);
    }
    let entered: Vec<_> = RuleStage::ALL
        .into_iter()
        .filter(|stage| stage.is_entered())
        .collect();
    let entered: Vec<_> = entered
        .into_iter()
        .map(|stage| (stage, NeededValues::of_entered(stage, rules_of(stage))))
        .collect();
    let mut everything = NeededValues::default();
    for (_, rules) in stages.iter() {
        everything.names.extend(&NeededValues::of(rules).names);
    }
    for (stage, rules) in stages.iter_mut() {
        let early = matches!(
            stage,
            RuleStage::Header | RuleStage::Raw | RuleStage::Repair | RuleStage::Hint
        );
        for rule in rules {
            let mut needs = NeededValues::of(std::slice::from_ref(rule));
            needs.extend(&later);
            if early {
                needs.extend(&everything);
            }
            for (_, entered) in entered
                .iter()
                .filter(|(stage, _)| rule.then == Some(*stage))
            {
                needs.extend(entered);
            }
            let whole = is_whole(&rule.branch);
            let names = Arc::new(needs.names);
            tell(&mut rule.branch, &names, needs.all, whole);
        }
    }
}

/// True if all values that count come from one JSON object: then the object itself is what they
/// make.
fn is_whole(branch: &Branch) -> bool {
    fn count(branch: &Branch, kept: &mut usize, json: &mut usize) {
        for step in &branch.read {
            *kept += usize::from(step.keeps());
            *json += usize::from(step.keeps() && matches!(step.action, StepAction::Json));
        }
        *kept += branch.set.values.len();
        branch.cases.iter().for_each(|case| count(case, kept, json));
    }
    let (mut kept, mut json) = (0, 0);
    count(branch, &mut kept, &mut json);
    (kept, json) == (1, 1)
}

fn tell(branch: &mut Branch, names: &Arc<NeededNames>, all: bool, whole: bool) {
    for step in &mut branch.read {
        let everything = all && step.keeps() && !whole;
        step.only = (!everything).then(|| Arc::clone(names));
        step.whole = whole && matches!(step.action, StepAction::Json);
        if !everything {
            forget(step, names);
        }
    }
    branch
        .cases
        .iter_mut()
        .for_each(|case| tell(case, names, all, whole));
}

/// Takes out what is known beforehand to be kept for nothing.
fn forget(step: &mut ReadStep, names: &NeededNames) {
    match &mut step.action {
        StepAction::Regex(groups) => groups.retain(|part| match part {
            EventPart::Value(_, name) => names.contains(name.as_bytes()),
            _ => true,
        }),
        StepAction::Csv(csv) => csv.retain(|column| names.contains(column.as_bytes())),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn names_are_those_that_were_put_in(
            put in prop::collection::hash_set("[ab.]{0,6}", 0..400),
            asked in prop::collection::vec("[ab.]{0,6}", 0..100),
        ) {
            let mut names = NeededNames::default();
            put.iter().for_each(|name| names.insert(name));
            let paths: HashSet<&str> = put
                .iter()
                .flat_map(|name| {
                    let dots = name.match_indices('.').map(|(at, _)| &name[..at]);
                    dots.chain([name.as_str()])
                })
                .collect();
            for name in asked.iter().chain(&put) {
                prop_assert_eq!(names.contains(name.as_bytes()), put.contains(name));
                prop_assert_eq!(names.leads_on(name.as_bytes()), paths.contains(name.as_str()));
            }
        }
    }
}
