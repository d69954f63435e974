//! Index of a stage's rules: finds the candidates, which are those that can hold for an event at
//! all.
//!
//! Every rule is filed under texts of which a match must have one: the program, the beginning of
//! the message, something within it, the hint, a value that was read. A rule without such a text is
//! always a candidate.

use std::collections::HashMap;

use aho_corasick::packed::{Config, MatchKind, Searcher};
use aho_corasick::{AhoCorasick, AhoCorasickKind};
use inrush_multipattern::{self as multipattern, Anchor, GramSearcher, Trie, TrieBuilder};
use memchr::memmem::Finder;

use crate::event::Event;
use crate::pack::{Branch, EventPart, RuleCondition};
use crate::plan::Candidate;
use crate::read::StepAction;

/// The candidates of a stage.
#[derive(Default, Debug)]
pub(crate) struct RuleIndex {
    /// By the program and by the listener.
    fixed: Vec<(EventPart, PartIndex)>,
    /// By other parts, and what is looked at first of each.
    parts: Vec<PartIndex>,
    gates: Vec<FirstByteFilter>,
    /// The rules that are filed under each of `parts`.
    rules_of: Vec<Vec<u32>>,
    /// By `vendor/product`.
    hints: HashMap<Vec<u8>, Vec<u32>>,
    always: Vec<u32>,
}

/// Rules that can hold for an event, and room for its hint.
#[derive(Default, Debug)]
pub(crate) struct CandidateSet {
    pub(crate) rules: Vec<Candidate>,
    /// Those that can hold by the program and the listener, or for every event.
    pub(crate) fixed: Vec<u32>,
    hint: Vec<u8>,
}

/// The rules that ask for a text in one part of the event.
#[derive(Default, Debug)]
struct PartIndex {
    begins: Trie<Candidate>,
    /// By what the text ends with, read backwards.
    ends: Trie<Candidate>,
    contains: Option<Box<SubstringIndex>>,
    /// Rules that the empty text can meet.
    of_nothing: Vec<Candidate>,
    /// Collected until all is built.
    collected: PartIndexBuilder,
}

/// True if rules can be found by a part at all, as far as its first byte says.
#[derive(Debug)]
#[repr(align(64))]
struct FirstByteFilter {
    part: EventPart,
    /// A bit for each byte.
    firsts: [u64; 4],
    /// True if rules can be found by the empty text.
    empty: bool,
}

impl FirstByteFilter {
    fn new(part: &EventPart) -> Self {
        Self {
            part: part.clone(),
            firsts: [0; 4],
            empty: false,
        }
    }

    fn passes(&self, text: &[u8]) -> bool {
        match text.first() {
            Some(byte) => self.firsts[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1,
            None => self.empty,
        }
    }
}

/// A bit for each part of an event by which rules of a stage can be found; parts beyond the last
/// bit are always looked at.
pub(crate) type PartMask = u32;

#[derive(Default, Debug)]
struct PartIndexBuilder {
    begins: TrieBuilder<Candidate>,
    ends: TrieBuilder<Candidate>,
    /// The text, whether its case counts, the rule.
    literals: Vec<(Vec<u8>, bool, Candidate)>,
}

/// Rules by a text that stands anywhere.
#[derive(Default, Debug)]
struct SubstringIndex {
    /// A few texts whose case counts, each by itself.
    few: Vec<(Finder<'static>, Candidate)>,
    /// More of them, all at once. It finds the longest at a place, so each text brings the rules
    /// of those that it begins with.
    packed: Option<(Searcher, Vec<Vec<Candidate>>)>,
    /// Very many of some length.
    grams: Option<GramSearcher<Candidate>>,
    /// Very many short ones, or such whose case does not count.
    automaton: Option<(AhoCorasick, Vec<Candidate>)>,
}

/// Bytes that a match may begin with, at most, to be worth looking at the first one: with more of
/// them a rule is asked for every event.
const FIRSTS_MAX: usize = 128;

/// Texts that are looked for one by one at most: each costs a pass, but the fastest there is.
const FEW: usize = 2;

/// Texts that are looked for all at once by vector instructions, at most.
const PACKED_MAX: usize = 64;

/// Texts up to which that search is at its fastest.
const FASTEST_MAX: usize = 32;

/// Bytes that texts of one rule must share to count as one.
const ALIKE: usize = 6;

/// Key that a rule is filed under.
enum IndexKey<'w> {
    Text(&'w EventPart, Anchor<'w>, bool),
    Hint(&'w str, &'w str),
}

impl IndexKey<'_> {
    /// True if the case of the text counts.
    fn counts_case(&self) -> bool {
        matches!(self, Self::Text(_, _, true))
    }
}

impl PartIndexBuilder {
    /// `proves`: a text that is found is all that the rule's condition asks for.
    fn add(&mut self, anchor: &Anchor<'_>, rule: u32, file: &IndexKey<'_>, proves: bool) {
        let open = Candidate::open(rule);
        match anchor {
            Anchor::Exact(text) => self.begins.insert(text.iter().copied(), open, true),
            Anchor::Prefix(text) => self.begins.insert(text.iter().copied(), open, false),
            Anchor::Suffix(text) => {
                self.ends.insert(text.iter().rev().copied(), open, false);
            }
            Anchor::First(bytes) => {
                // In whatever case: the condition is asked all the same.
                let mut firsts: Vec<u8> = (0..=u8::MAX)
                    .filter(|byte| bytes[usize::from(*byte)])
                    .map(|byte| byte.to_ascii_lowercase())
                    .collect();
                firsts.sort_unstable();
                firsts.dedup();
                for byte in firsts {
                    self.begins.insert([byte].into_iter(), open, false);
                }
            }
            Anchor::Contains(text) => {
                let candidate = match proves && file.counts_case() {
                    true => Candidate::sure(rule),
                    false => open,
                };
                let literal = (text.to_vec(), file.counts_case(), candidate);
                self.literals.push(literal);
            }
        }
    }
}

impl RuleIndex {
    /// Files the rules' conditions, in order; a rule without one is none of the candidates.
    pub(crate) fn new<'w>(branches: impl Iterator<Item = Option<&'w Branch>>) -> Self {
        let mut index = Self::default();
        for (rule, branch) in branches.enumerate() {
            let rule = rule as u32;
            let Some(branch) = branch else {
                continue;
            };
            match files(&branch.when).or_else(|| files_of_step(branch)) {
                Some(files) if !files.is_empty() => {
                    let proves = proves(&branch.when);
                    files.iter().for_each(|file| index.file(file, rule, proves));
                }
                _ => index.always.push(rule),
            }
        }
        for (_, texts) in &mut index.fixed {
            texts.build(0);
        }
        for (texts, gate) in index.parts.iter_mut().zip(&mut index.gates) {
            index.always.extend(texts.build(FEW));
            texts.tell(gate);
        }
        index.always.sort_unstable();
        index.always.dedup();
        index
    }

    /// Files a rule; `proves`: a text that is found is all that its condition asks for.
    fn file(&mut self, file: &IndexKey<'_>, rule: u32, proves: bool) {
        match file {
            IndexKey::Hint(vendor, product) => {
                let key = format!("{vendor}/{product}").into_bytes();
                self.hints.entry(key).or_default().push(rule);
            }
            IndexKey::Text(part, anchor, _) => {
                let texts = match part {
                    EventPart::Program | EventPart::Listener => self.fixed(part),
                    part => self.part(part, rule),
                };
                texts.collected.add(anchor, rule, file, proves);
            }
        }
    }

    /// Entries that are filed under the program or the listener.
    fn fixed(&mut self, part: &EventPart) -> &mut PartIndex {
        let known = self.fixed.iter().position(|(known, _)| known == part);
        let at = known.unwrap_or_else(|| {
            self.fixed.push((part.clone(), PartIndex::default()));
            self.fixed.len() - 1
        });
        &mut self.fixed[at].1
    }

    /// Entries that are filed under another part, with that rule among its own.
    fn part(&mut self, part: &EventPart, rule: u32) -> &mut PartIndex {
        let known = self.gates.iter().position(|gate| gate.part == *part);
        let at = known.unwrap_or_else(|| {
            self.gates.push(FirstByteFilter::new(part));
            self.parts.push(PartIndex::default());
            self.rules_of.push(Vec::new());
            self.gates.len() - 1
        });
        self.rules_of[at].push(rule);
        &mut self.parts[at]
    }

    /// The parts of an event under which a rule is filed that can hold.
    pub(crate) fn live(&self, mut can_hold: impl FnMut(u32) -> bool) -> PartMask {
        let rules_of = self.rules_of.iter().enumerate();
        rules_of.fold(0, |live, (at, rules)| {
            let can = rules.iter().any(|rule| can_hold(*rule));
            live | PartMask::from(can).checked_shl(at as u32).unwrap_or(0)
        })
    }

    /// True if rules can be found by program, listener and hint alone: none can by a part of
    /// `live`.
    pub(crate) fn is_closed(&self, live: PartMask) -> bool {
        live == 0 && self.parts.len() <= PartMask::BITS as usize
    }

    /// True if rules are filed under hints.
    pub(crate) fn has_hints(&self) -> bool {
        !self.hints.is_empty()
    }

    /// True if no rule can hold.
    pub(crate) fn is_empty(&self) -> bool {
        self.fixed.is_empty()
            && self.parts.is_empty()
            && self.hints.is_empty()
            && self.always.is_empty()
    }

    /// Finds the rules that can hold by their program and listener, or for every event, in order,
    /// each once.
    pub(crate) fn by_program(&self, program: &[u8], listener: &[u8], found: &mut CandidateSet) {
        found.rules.clear();
        for (part, texts) in &self.fixed {
            let text = if *part == EventPart::Program {
                program
            } else {
                listener
            };
            texts.find(text, &mut found.rules);
        }
        let (rules, out) = (&found.rules, &mut found.fixed);
        out.clear();
        out.extend_from_slice(&self.always);
        out.extend(rules.iter().map(|candidate| candidate.rule() as u32));
        out.sort_unstable();
        out.dedup();
    }

    /// Adds the rules that can hold by the part of that number.
    #[inline]
    fn look(&self, at: usize, event: &Event<'_>, out: &mut Vec<Candidate>) {
        if let Some(gate) = self.gates.get(at) {
            let text = event.part(&gate.part);
            if gate.passes(text)
                && let Some(texts) = self.parts.get(at)
            {
                texts.find(text, out);
            }
        }
    }

    /// Adds the rules that can hold by another part of the event, if it is one of `live`; whether
    /// there are any.
    pub(crate) fn open(&self, live: PartMask, event: &Event<'_>, found: &mut CandidateSet) -> bool {
        found.rules.clear();
        let mut left = live;
        while left != 0 {
            self.look(left.trailing_zeros() as usize, event, &mut found.rules);
            left &= left - 1;
        }
        for at in PartMask::BITS as usize..self.parts.len() {
            self.look(at, event, &mut found.rules);
        }
        if !self.hints.is_empty() && event.hint_vendor.is_set() {
            let hint = &mut found.hint;
            hint.clear();
            hint.extend_from_slice(event.part(&EventPart::HintVendor));
            hint.push(b'/');
            hint.extend_from_slice(event.part(&EventPart::HintProduct));
            if let Some(rules) = self.hints.get(hint.as_slice()) {
                let rules = rules.iter().copied();
                found.rules.extend(rules.map(Candidate::open));
            }
        }
        !found.rules.is_empty()
    }
}

/// Keys of a rule by the first expression that it must read with.
fn files_of_step(branch: &Branch) -> Option<Vec<IndexKey<'_>>> {
    let step = branch.read.first().filter(|step| !step.optional)?;
    let original = matches!(
        step.input,
        EventPart::Text | EventPart::Message | EventPart::Raw | EventPart::Program
    );
    match &step.action {
        StepAction::Regex(groups) if original => {
            let anchor = useful(groups.anchor()?)?;
            Some(vec![IndexKey::Text(&step.input, anchor, true)])
        }
        _ => None,
    }
}

impl RuleCondition {
    /// True if it can hold only for events whose program, message or text begins in one of some
    /// ways: those are found with one look at the beginning.
    pub fn is_beginning(&self) -> bool {
        let begins = |file: &IndexKey<'_>| {
            let IndexKey::Text(
                EventPart::Program | EventPart::Message | EventPart::Text,
                anchor,
                _,
            ) = file
            else {
                return false;
            };
            match anchor {
                Anchor::Exact(text) | Anchor::Prefix(text) => !text.is_empty(),
                _ => false,
            }
        };
        let files = || files(self).is_some_and(|files| files.iter().all(begins));
        matches!(self, Self::Never) || files()
    }
}

/// True if any text that a condition is filed under proves it. The text must be one that is found
/// anywhere, and its case must count.
fn proves(when: &RuleCondition) -> bool {
    match when {
        RuleCondition::Part(test) => test.pattern.is_contained(),
        // Of others only some are filed under all that they ask for.
        RuleCondition::Any(any) => any.iter().all(proves),
        _ => false,
    }
}

/// An anchor, if it keeps a rule from many events.
fn useful(anchor: Anchor<'_>) -> Option<Anchor<'_>> {
    match anchor {
        Anchor::First(bytes) => {
            let count = bytes.iter().filter(|is_first| **is_first).count();
            (count <= FIRSTS_MAX).then_some(anchor)
        }
        _ => Some(anchor),
    }
}

/// Keys of a condition, which is filed under each of them; `None`: it has none.
fn files(when: &RuleCondition) -> Option<Vec<IndexKey<'_>>> {
    match when {
        RuleCondition::Part(test) => {
            let anchor = useful(test.pattern.anchor()?)?;
            let counts_case = !test.pattern.ignores_case();
            Some(vec![IndexKey::Text(&test.part, anchor, counts_case)])
        }
        RuleCondition::Hint(vendor, product) => Some(vec![IndexKey::Hint(vendor, product)]),
        RuleCondition::All(all) => all
            .iter()
            .filter_map(files)
            .max_by_key(|files| score(files)),
        RuleCondition::Any(any) => {
            let mut out = Vec::new();
            for one in any {
                out.extend(files(one)?);
            }
            Some(out)
        }
        RuleCondition::Always
        | RuleCondition::Not(_)
        | RuleCondition::Format(_)
        | RuleCondition::Sender(_)
        | RuleCondition::Never => None,
    }
}

/// Score of a set of keys: how few events they let through, and how cheap they are to ask. The
/// worst of them counts.
fn score(files: &[IndexKey<'_>]) -> usize {
    let one = |file: &IndexKey<'_>| match file {
        IndexKey::Hint(..) => 900,
        IndexKey::Text(EventPart::Vendor | EventPart::Product, Anchor::Exact(_), _) => 950,
        // Of many events the program could not be read.
        IndexKey::Text(EventPart::Program, Anchor::Exact([]), _) => 20,
        // Most events that meet other rules have no number there.
        IndexKey::Text(EventPart::Pid, Anchor::First(_), _) => 400,
        IndexKey::Text(
            EventPart::Program | EventPart::Value(..) | EventPart::MsgId | EventPart::Host,
            anchor,
            _,
        ) => match anchor {
            Anchor::Exact(_) if matches!(file, IndexKey::Text(EventPart::Program, ..)) => 1001,
            Anchor::Exact(_) => 1000,
            Anchor::Prefix(text) => 800 + text.len(),
            Anchor::Suffix(text) => 600 + text.len(),
            Anchor::Contains(text) => 300 + text.len(),
            Anchor::First(_) => 50,
        },
        IndexKey::Text(_, Anchor::Exact(_), _) => 850,
        IndexKey::Text(_, Anchor::Prefix(text), _) if text.len() > 1 => 700 + text.len(),
        IndexKey::Text(_, Anchor::Prefix(_), _) => 200,
        IndexKey::Text(_, Anchor::Suffix(text), _) => 400 + text.len(),
        IndexKey::Text(_, Anchor::Contains(text), _) => 100 + text.len().min(50),
        IndexKey::Text(_, Anchor::First(bytes), _) => {
            // The fewer bytes, the better; still worse than any text.
            (256 - bytes.iter().filter(|is_first| **is_first).count()) / 4
        }
    };
    files.iter().map(one).min().unwrap_or(0)
}

impl PartIndex {
    fn find(&self, text: &[u8], out: &mut Vec<Candidate>) {
        // Most parts that few events have are empty, and nothing stands in them.
        if text.is_empty() {
            out.extend_from_slice(&self.of_nothing);
            return;
        }
        if !self.begins.is_empty() {
            self.begins.find(text.iter(), out);
        }
        if !self.ends.is_empty() {
            self.ends.find(text.iter().rev(), out);
        }
        if let Some(contains) = &self.contains {
            contains.find(text, out);
        }
    }

    /// Tells a gate what passes it.
    fn tell(&self, gate: &mut FirstByteFilter) {
        gate.empty = !self.of_nothing.is_empty();
        if self.contains.is_some() || !self.ends.is_empty() || self.begins.has_any() {
            gate.firsts = [u64::MAX; 4];
        }
        for (byte, node) in self.begins.roots().iter().enumerate() {
            gate.firsts[byte >> 6] |= u64::from(*node != 0) << (byte & 63);
        }
    }

    /// Builds what is searched with; the rules that are better asked for every event. Those are the
    /// ones of up to so many texts whose case does not count.
    fn build(&mut self, asked_max: usize) -> Vec<u32> {
        let collected = std::mem::take(&mut self.collected);
        self.begins = Trie::new(&collected.begins);
        self.ends = Trie::new(&collected.ends);
        for trie in [&self.begins, &self.ends] {
            self.of_nothing.extend(trie.of_empty());
        }
        let (exact, mut any): (Vec<_>, Vec<_>) = collected
            .literals
            .into_iter()
            .partition(|(_, counts_case, _)| *counts_case);
        let mut asked = Vec::new();
        if any.len() <= asked_max {
            // To look for each of a few costs what asking their rules does, and these are seldom
            // asked: another one was taken before.
            asked.extend(any.drain(..).map(|(.., rule)| rule.rule() as u32));
        }
        if exact.is_empty() && any.is_empty() {
            return asked;
        }
        let contains = self.contains.insert(Box::default());
        let mut exact = fewer(uncovered(exact));
        if distinct(&exact).len() > PACKED_MAX {
            let (long, short): (Vec<_>, _) = exact
                .into_iter()
                .partition(|(text, ..)| text.len() >= multipattern::LEAST);
            exact = short;
            let open = |rule: &Candidate| Candidate::open(rule.rule() as u32);
            let long = long
                .iter()
                .map(|(text, _, rule)| (text.as_slice(), open(rule)));
            contains.grams = Some(GramSearcher::new(long));
        }
        let mut distinct = distinct(&exact);
        if distinct.len() <= PACKED_MAX {
            multipattern::arrange(&mut distinct);
        }
        let mut automaton = any;
        if distinct.len() <= FEW {
            let finder = |(text, _, rule): &(Vec<u8>, bool, Candidate)| {
                (Finder::new(text).into_owned(), *rule)
            };
            contains.few = exact.iter().map(finder).collect();
        } else if let Some(searcher) = packed(&distinct) {
            // A text brings the rules of all that it begins with.
            let rules = distinct.iter().map(|text| {
                let begins = exact.iter().filter(|(other, ..)| text.starts_with(other));
                begins.map(|(.., rule)| *rule).collect()
            });
            contains.packed = Some((searcher, rules.collect()));
        } else {
            automaton.extend(exact);
        }
        if automaton.is_empty() {
            return asked;
        }
        let built = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(automaton.iter().map(|(text, ..)| text));
        // What cannot be built has more bytes than a pack may have.
        if let Ok(built) = built {
            let rules = automaton.iter().map(|(.., rule)| *rule).collect();
            contains.automaton = Some((built, rules));
        }
        asked
    }
}

/// The texts, each once.
fn distinct(texts: &[(Vec<u8>, bool, Candidate)]) -> Vec<&[u8]> {
    let mut distinct: Vec<&[u8]> = texts.iter().map(|(text, ..)| text.as_slice()).collect();
    distinct.sort_unstable();
    distinct.dedup();
    distinct
}

/// The texts without those that hold another one of the same rule, which is found with them.
fn uncovered(texts: Vec<(Vec<u8>, bool, Candidate)>) -> Vec<(Vec<u8>, bool, Candidate)> {
    let covers = |short: &(Vec<u8>, bool, Candidate), long: &(Vec<u8>, bool, Candidate)| {
        let same = short.2.rule() == long.2.rule() && short.0.len() < long.0.len();
        same && memchr::memmem::find(&long.0, &short.0).is_some()
    };
    let covered = |text| texts.iter().any(|other| covers(other, text));
    let kept: Vec<bool> = texts.iter().map(|text| !covered(text)).collect();
    let texts = texts.into_iter().zip(kept);
    texts
        .filter(|(_, keep)| *keep)
        .map(|(text, _)| text)
        .collect()
}

/// Texts with fewer of them where they are just too many for the faster of the two searches: those
/// of one rule that begin alike count as one.
fn fewer(texts: Vec<(Vec<u8>, bool, Candidate)>) -> Vec<(Vec<u8>, bool, Candidate)> {
    if texts.len() <= FASTEST_MAX || texts.len() > PACKED_MAX {
        return texts;
    }
    let alike = |a: &(Vec<u8>, bool, Candidate), b: &(Vec<u8>, bool, Candidate)| {
        let begins = a.0.get(..ALIKE).zip(b.0.get(..ALIKE));
        a.2.rule() == b.2.rule() && begins.is_some_and(|(a, b)| a == b)
    };
    let mut out: Vec<(Vec<u8>, bool, Candidate)> = Vec::new();
    for text in texts {
        match out.iter_mut().find(|known| alike(known, &text)) {
            Some(known) => {
                known.0.truncate(ALIKE);
                known.2 = Candidate::open(text.2.rule() as u32);
            }
            None => out.push(text),
        }
    }
    out
}

fn packed(texts: &[&[u8]]) -> Option<Searcher> {
    if texts.len() > PACKED_MAX {
        return None;
    }
    let mut builder = Config::new()
        .match_kind(MatchKind::LeftmostLongest)
        .builder();
    builder.extend(texts);
    builder.build()
}

impl SubstringIndex {
    fn find(&self, text: &[u8], out: &mut Vec<Candidate>) {
        for (finder, rule) in &self.few {
            if finder.find(text).is_some() {
                out.push(*rule);
            }
        }
        if let Some((searcher, rules)) = &self.packed {
            let mut at = 0;
            while let Some(found) = text.get(at..).and_then(|rest| searcher.find(rest)) {
                out.extend_from_slice(&rules[found.pattern().as_usize()]);
                at += found.start() + 1;
            }
        }
        if let Some(grams) = &self.grams {
            grams.find(text, out);
        }
        if let Some((automaton, rules)) = &self.automaton {
            let found = automaton.find_overlapping_iter(text);
            out.extend(found.map(|found| rules[found.pattern().as_usize()]));
        }
    }
}
