//! What of an event is asked for at all: the rest of what a step finds is not kept.

use std::collections::HashSet;
use std::sync::Arc;

use foldhash::fast::RandomState;

use crate::event::mark;
use crate::pack::{Branch, Part, Rule, Set, Stage, Template, When};
use crate::read::{Action, Step};
use crate::template::{Piece, Text};

/// The names of values that are asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    names: HashSet<Vec<u8>, RandomState>,
    /// What a name begins with up to each of its dots, and the names.
    paths: HashSet<Vec<u8>, RandomState>,
    /// What tells most names and paths that are not asked for, without a hash of them.
    few: Few,
}

/// A bit for the [`mark`] of each name, and of what names begin with: a Bloom filter of one hash.
#[derive(Clone, Copy, Debug, Default)]
struct Few([u64; 4]);

impl Few {
    /// The word and the bit in it.
    fn place(name: &[u8]) -> (usize, u32) {
        let hash = mark(name).wrapping_mul(0x9e37_79b1) >> 24;
        ((hash >> 6) as usize, hash & 63)
    }

    fn insert(&mut self, name: &[u8]) {
        let (word, bit) = Self::place(name);
        self.0[word] |= 1 << bit;
    }

    fn extend(&mut self, other: Self) {
        let words = self.0.iter_mut().zip(other.0);
        words.for_each(|(word, other)| *word |= other);
    }

    #[inline]
    fn may_have(&self, name: &[u8]) -> bool {
        let (word, bit) = Self::place(name);
        self.0[word] >> bit & 1 == 1
    }
}

impl Names {
    /// Whether that name is asked for.
    pub(crate) fn contains(&self, name: &[u8]) -> bool {
        self.few.may_have(name) && self.names.contains(name)
    }

    /// Whether that name, or one below it, is asked for.
    pub(crate) fn leads_on(&self, path: &[u8]) -> bool {
        self.few.may_have(path) && self.paths.contains(path)
    }

    fn insert(&mut self, name: &str) {
        let name = name.as_bytes();
        for (at, byte) in name.iter().enumerate() {
            if *byte == b'.' {
                self.paths.insert(name[..at].to_vec());
                self.few.insert(&name[..at]);
            }
        }
        self.paths.insert(name.to_vec());
        self.names.insert(name.to_vec());
        self.few.insert(name);
    }

    fn extend(&mut self, other: &Self) {
        self.names.extend(other.names.iter().cloned());
        self.paths.extend(other.paths.iter().cloned());
        self.few.extend(other.few);
    }
}

/// What rules ask for.
#[derive(Clone, Debug, Default)]
struct Needs {
    names: Names,
    /// Whether all values that count are asked for.
    all: bool,
}

impl Needs {
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

    /// What the rules of a stage ask of who enters it. One that reads the event's format itself
    /// has all values from there: the others need not pay for it.
    fn of_entered(stage: Stage, rules: &[Rule]) -> Self {
        let mut needs = Self::default();
        for rule in rules {
            let mut one = Self::of(std::slice::from_ref(rule));
            let reads = |step: &Step| step.keeps() && reads_format(stage, &step.action);
            one.all &= !rule.branch.read.iter().any(reads);
            needs.extend(&one);
        }
        needs
    }

    fn extend(&mut self, other: &Self) {
        self.names.extend(&other.names);
        self.all |= other.all;
    }

    fn part(&mut self, part: &Part) {
        if let Part::Value(name) = part {
            self.names.insert(name);
        }
    }

    fn text(&mut self, text: &Text) {
        if let Text::Pieces(pieces) = text {
            self.pieces(pieces);
        }
    }

    fn pieces(&mut self, pieces: &[Piece]) {
        for piece in pieces {
            if let Piece::Part { part, default, .. } = piece {
                self.part(part);
                self.pieces(default);
            }
        }
    }

    fn when(&mut self, when: &When) {
        match when {
            When::All(list) | When::Any(list) => list.iter().for_each(|one| self.when(one)),
            When::Not(other) => self.when(other),
            When::Part(test) => self.part(&test.part),
            _ => {}
        }
    }

    fn set(&mut self, set: &Set) {
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
            Some(Template::JsonValues | Template::KvValues) => self.all = true,
            Some(Template::Text(text)) => self.text(text),
            Some(Template::Fixed(_)) | None => {}
        }
    }

    fn branch(&mut self, branch: &Branch) {
        self.when(&branch.when);
        for step in &branch.read {
            self.part(&step.input);
            match &step.action {
                Action::Time { text, .. } => self.text(text),
                Action::Kv(kv) => kv.until.iter().for_each(|name| self.names.insert(name)),
                _ => {}
            }
        }
        self.set(&branch.set);
        branch.cases.iter().for_each(|case| self.branch(case));
    }
}

/// Whether a step reads the format that a stage is for.
fn reads_format(stage: Stage, action: &Action) -> bool {
    matches!(
        (stage, action),
        (Stage::Cef, Action::Cef) | (Stage::Leef, Action::Leef) | (Stage::Json, Action::Json)
    )
}

/// Tells every step what is asked for of what it finds.
pub(crate) fn prune(stages: &mut [(Stage, Vec<Rule>)]) {
    let rules_of = |stage: Stage| {
        let rules = stages.iter().find(|(known, _)| *known == stage);
        rules.map_or(&[][..], |(_, rules)| rules)
    };
    let mut later = Needs::default();
    for stage in [Stage::Listener, Stage::Fallback, Stage::After] {
        let needs = Needs::of(rules_of(stage));
        later.names.extend(&needs.names);
    }
    let entered: Vec<_> = Stage::ALL
        .into_iter()
        .filter(|stage| stage.is_entered())
        .collect();
    let entered: Vec<_> = entered
        .into_iter()
        .map(|stage| (stage, Needs::of_entered(stage, rules_of(stage))))
        .collect();
    let mut everything = Needs::default();
    for (_, rules) in stages.iter() {
        everything.names.extend(&Needs::of(rules).names);
    }
    for (stage, rules) in stages.iter_mut() {
        let early = matches!(
            stage,
            Stage::Header | Stage::Raw | Stage::Repair | Stage::Hint
        );
        for rule in rules {
            let mut needs = Needs::of(std::slice::from_ref(rule));
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

/// Whether all values that count come from one JSON object: then the object itself is what they
/// make.
fn is_whole(branch: &Branch) -> bool {
    fn count(branch: &Branch, kept: &mut usize, json: &mut usize) {
        for step in &branch.read {
            *kept += usize::from(step.keeps());
            *json += usize::from(step.keeps() && matches!(step.action, Action::Json));
        }
        *kept += branch.set.values.len();
        branch.cases.iter().for_each(|case| count(case, kept, json));
    }
    let (mut kept, mut json) = (0, 0);
    count(branch, &mut kept, &mut json);
    (kept, json) == (1, 1)
}

fn tell(branch: &mut Branch, names: &Arc<Names>, all: bool, whole: bool) {
    for step in &mut branch.read {
        let everything = all && step.keeps() && !whole;
        step.only = (!everything).then(|| Arc::clone(names));
        step.whole = whole && matches!(step.action, Action::Json);
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
fn forget(step: &mut Step, names: &Names) {
    match &mut step.action {
        Action::Regex(groups) => groups.retain(|part| match part {
            Part::Value(name) => names.contains(name.as_bytes()),
            _ => true,
        }),
        Action::Csv(csv) => csv.retain(|column| names.contains(column.as_bytes())),
        _ => {}
    }
}
