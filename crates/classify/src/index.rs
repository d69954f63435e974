//! Which rules of a stage can hold for an event at all.
//!
//! Every rule is filed under texts of which a match must have one: the program, the beginning of
//! the message, something within it, the hint, a value that was read. A rule without such a text is
//! always a candidate.

use std::collections::HashMap;

use aho_corasick::packed::{Config, MatchKind, Searcher};
use aho_corasick::{AhoCorasick, AhoCorasickKind};
use memchr::memmem::Finder;

use crate::event::Event;
use crate::pack::{Branch, Part, When};
use crate::pattern::Anchor;
use crate::plan::Candidate;
use crate::read::Action;

/// The candidates of a stage.
#[derive(Default, Debug)]
pub(crate) struct Index {
    /// By the program and by the listener.
    fixed: Vec<(Part, Texts)>,
    parts: Vec<(Part, Texts)>,
    /// By `vendor/product`.
    hints: HashMap<Vec<u8>, Vec<u32>>,
    always: Vec<u32>,
}

/// Rules that can hold for an event, and room for its hint.
#[derive(Default, Debug)]
pub(crate) struct Found {
    pub(crate) rules: Vec<Candidate>,
    /// Those that can hold by the program and the listener, or for every event.
    pub(crate) fixed: Vec<u32>,
    hint: Vec<u8>,
}

/// The rules that ask for a text in one part of the event.
#[derive(Default, Debug)]
struct Texts {
    begins: Trie,
    /// By what the text ends with, read backwards.
    ends: Trie,
    contains: Contains,
    /// Rules that the empty text can meet.
    of_nothing: Vec<u32>,
    /// By the first byte; empty if no rule asks for that alone.
    firsts: Vec<Vec<u32>>,
    /// Collected until all is built.
    collected: Collected,
}

#[derive(Default, Debug)]
struct Collected {
    begins: Branches,
    ends: Branches,
    /// The text, whether its case counts, the rule.
    literals: Vec<(Vec<u8>, bool, Candidate)>,
}

/// Rules by a text that stands anywhere.
#[derive(Default, Debug)]
struct Contains {
    /// A few texts whose case counts, each by itself.
    few: Vec<(Finder<'static>, Candidate)>,
    /// The same for texts whose case does not count.
    few_any: Vec<(Vec<u8>, Candidate)>,
    /// More of them, all at once. It finds the longest at a place, so each text brings the rules
    /// of those that it begins with.
    packed: Option<(Searcher, Vec<Vec<Candidate>>)>,
    /// Very many, or such whose case does not count.
    automaton: Option<(AhoCorasick, Vec<Candidate>)>,
}

/// Texts that are looked for one by one at most: each costs a pass, but the fastest there is.
const FEW: usize = 2;

/// Texts that are looked for all at once by vector instructions, at most.
const PACKED_MAX: usize = 64;

/// Texts up to which that search is at its fastest.
const FASTEST_MAX: usize = 32;

/// Bytes that texts of one rule must share to count as one.
const ALIKE: usize = 6;

/// Where a rule is filed.
enum File<'w> {
    Text(&'w Part, Anchor<'w>, bool),
    Hint(&'w str, &'w str),
}

impl File<'_> {
    /// Whether the case of the text counts.
    fn counts_case(&self) -> bool {
        matches!(self, Self::Text(_, _, true))
    }
}

impl Index {
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
        for (_, texts) in index.fixed.iter_mut().chain(&mut index.parts) {
            texts.build();
        }
        index
    }

    /// Files a rule; `proves`: a text that is found is all that its condition asks for.
    fn file(&mut self, file: &File<'_>, rule: u32, proves: bool) {
        match file {
            File::Hint(vendor, product) => {
                let key = format!("{vendor}/{product}").into_bytes();
                self.hints.entry(key).or_default().push(rule);
            }
            File::Text(part, anchor, _) => {
                let parts = match part {
                    Part::Program | Part::Listener => &mut self.fixed,
                    _ => &mut self.parts,
                };
                let known = parts.iter().position(|(known, _)| known == *part);
                let at = known.unwrap_or_else(|| {
                    parts.push(((*part).clone(), Texts::default()));
                    parts.len() - 1
                });
                let texts = &mut parts[at].1;
                match anchor {
                    Anchor::Exact(text) => {
                        texts
                            .collected
                            .begins
                            .insert(text.iter().copied(), rule, true)
                    }
                    Anchor::Prefix(text) => {
                        texts
                            .collected
                            .begins
                            .insert(text.iter().copied(), rule, false)
                    }
                    Anchor::Suffix(text) => {
                        let backwards: Vec<u8> = text.iter().rev().copied().collect();
                        texts
                            .collected
                            .ends
                            .insert(backwards.into_iter(), rule, false);
                    }
                    Anchor::First(bytes) => {
                        texts.firsts.resize(256, Vec::new());
                        let lists = texts.firsts.iter_mut().zip(bytes.iter());
                        let lists = lists.filter(|(_, is_first)| **is_first);
                        lists.for_each(|(list, _)| list.push(rule));
                    }
                    Anchor::Contains(text) => {
                        let candidate = match proves && file.counts_case() {
                            true => Candidate::sure(rule),
                            false => Candidate::open(rule),
                        };
                        let literal = (text.to_vec(), file.counts_case(), candidate);
                        texts.collected.literals.push(literal);
                    }
                }
            }
        }
    }

    /// Whether no rule can hold.
    pub(crate) fn is_empty(&self) -> bool {
        self.fixed.is_empty()
            && self.parts.is_empty()
            && self.hints.is_empty()
            && self.always.is_empty()
    }

    /// Finds the rules that can hold by their program and listener, or for every event, in order,
    /// each once.
    pub(crate) fn fixed(&self, program: &[u8], listener: &[u8], found: &mut Found) {
        found.rules.clear();
        for (part, texts) in &self.fixed {
            let text = if *part == Part::Program {
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

    /// Adds the rules that can hold by another part of the event; whether there are any.
    pub(crate) fn open(&self, event: &Event<'_>, found: &mut Found) -> bool {
        found.rules.clear();
        for (part, texts) in &self.parts {
            texts.find(event.part(part), &mut found.rules);
        }
        if !self.hints.is_empty() && event.hint_vendor.is_set() {
            let hint = &mut found.hint;
            hint.clear();
            hint.extend_from_slice(event.part(&Part::HintVendor));
            hint.push(b'/');
            hint.extend_from_slice(event.part(&Part::HintProduct));
            if let Some(rules) = self.hints.get(hint.as_slice()) {
                let rules = rules.iter().copied();
                found.rules.extend(rules.map(Candidate::open));
            }
        }
        !found.rules.is_empty()
    }
}

/// Where a rule can be filed by the first expression that it must read with.
fn files_of_step(branch: &Branch) -> Option<Vec<File<'_>>> {
    let step = branch.read.first().filter(|step| !step.optional)?;
    let original = matches!(
        step.input,
        Part::Text | Part::Message | Part::Raw | Part::Program
    );
    match &step.action {
        Action::Regex(groups) if original => {
            Some(vec![File::Text(&step.input, groups.anchor()?, true)])
        }
        _ => None,
    }
}

/// Whether a condition holds for sure where one of the texts is found that it is filed under, if
/// that is found anywhere and its case counts.
fn proves(when: &When) -> bool {
    match when {
        When::Part(test) => test.pattern.is_contained(),
        // Of others only some are filed under all that they ask for.
        When::Any(any) => any.iter().all(proves),
        _ => false,
    }
}

/// Where a condition can be filed: under each of the answers; `None`: nowhere.
fn files(when: &When) -> Option<Vec<File<'_>>> {
    match when {
        When::Part(test) => {
            let anchor = test.pattern.anchor()?;
            let counts_case = !test.pattern.ignores_case();
            Some(vec![File::Text(&test.part, anchor, counts_case)])
        }
        When::Hint(vendor, product) => Some(vec![File::Hint(vendor, product)]),
        When::All(all) => all
            .iter()
            .filter_map(files)
            .max_by_key(|files| score(files)),
        When::Any(any) => {
            let mut out = Vec::new();
            for one in any {
                out.extend(files(one)?);
            }
            Some(out)
        }
        When::Always | When::Not(_) | When::Format(_) | When::Sender(_) | When::Never => None,
    }
}

/// How few events a set of files lets through, and how cheap it is to ask: the worst of them
/// counts.
fn score(files: &[File<'_>]) -> usize {
    let one = |file: &File<'_>| match file {
        File::Hint(..) => 900,
        File::Text(Part::Vendor | Part::Product, Anchor::Exact(_), _) => 950,
        // Of many events the program could not be read.
        File::Text(Part::Program, Anchor::Exact([]), _) => 20,
        // Most events that meet other rules have no number there.
        File::Text(Part::Pid, Anchor::First(_), _) => 400,
        File::Text(Part::Program | Part::Value(_) | Part::MsgId | Part::Host, anchor, _) => {
            match anchor {
                Anchor::Exact(_) => 1000,
                Anchor::Prefix(text) => 800 + text.len(),
                Anchor::Suffix(text) => 600 + text.len(),
                Anchor::Contains(text) => 300 + text.len(),
                Anchor::First(_) => 50,
            }
        }
        File::Text(_, Anchor::Exact(_), _) => 850,
        File::Text(_, Anchor::Prefix(text), _) if text.len() > 1 => 700 + text.len(),
        File::Text(_, Anchor::Prefix(_), _) => 200,
        File::Text(_, Anchor::Suffix(text), _) => 400 + text.len(),
        File::Text(_, Anchor::Contains(text), _) => 100 + text.len().min(50),
        File::Text(_, Anchor::First(bytes), _) => {
            // The fewer bytes, the better; still worse than any text.
            (256 - bytes.iter().filter(|is_first| **is_first).count()) / 4
        }
    };
    files.iter().map(one).min().unwrap_or(0)
}

impl Texts {
    fn find(&self, text: &[u8], out: &mut Vec<Candidate>) {
        // Most parts that few events have are empty, and nothing stands in them.
        if text.is_empty() {
            out.extend(self.of_nothing.iter().copied().map(Candidate::open));
            return;
        }
        if !self.begins.is_empty() {
            self.begins.find(text.iter(), out);
        }
        if !self.ends.is_empty() {
            self.ends.find(text.iter().rev(), out);
        }
        if let Some(first) = text.first()
            && let Some(rules) = self.firsts.get(usize::from(*first))
        {
            out.extend(rules.iter().copied().map(Candidate::open));
        }
        self.contains.find(text, out);
    }

    fn build(&mut self) {
        let collected = std::mem::take(&mut self.collected);
        self.begins = Trie::new(&collected.begins);
        self.ends = Trie::new(&collected.ends);
        for trie in [&self.begins, &self.ends] {
            self.of_nothing.extend(trie.any.iter().chain(&trie.empty));
        }
        let (exact, any): (Vec<_>, Vec<_>) = collected
            .literals
            .into_iter()
            .partition(|(_, counts_case, _)| *counts_case);
        let exact = fewer(exact);
        let mut distinct: Vec<&[u8]> = exact.iter().map(|(text, ..)| text.as_slice()).collect();
        distinct.sort_unstable();
        distinct.dedup();
        let mut automaton = Vec::new();
        if any.len() <= FEW {
            self.contains.few_any = any
                .into_iter()
                .map(|(text, _, rule)| (text, rule))
                .collect();
        } else {
            automaton = any;
        }
        if distinct.len() <= FEW {
            let finder = |(text, _, rule): &(Vec<u8>, bool, Candidate)| {
                (Finder::new(text).into_owned(), *rule)
            };
            self.contains.few = exact.iter().map(finder).collect();
        } else if let Some(searcher) = packed(&distinct) {
            // A text brings the rules of all that it begins with.
            let rules = distinct.iter().map(|text| {
                let begins = exact.iter().filter(|(other, ..)| text.starts_with(other));
                begins.map(|(.., rule)| *rule).collect()
            });
            self.contains.packed = Some((searcher, rules.collect()));
        } else {
            automaton.extend(exact);
        }
        if automaton.is_empty() {
            return;
        }
        let built = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(automaton.iter().map(|(text, ..)| text));
        // What cannot be built has more bytes than a pack may have.
        if let Ok(built) = built {
            let rules = automaton.iter().map(|(.., rule)| *rule).collect();
            self.contains.automaton = Some((built, rules));
        }
    }
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

impl Contains {
    fn find(&self, text: &[u8], out: &mut Vec<Candidate>) {
        for (finder, rule) in &self.few {
            if finder.find(text).is_some() {
                out.push(*rule);
            }
        }
        for (part, rule) in &self.few_any {
            let mut places = text.windows(part.len());
            if places.any(|place| place.eq_ignore_ascii_case(part)) {
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
        if let Some((automaton, rules)) = &self.automaton {
            let found = automaton.find_overlapping_iter(text);
            out.extend(found.map(|found| rules[found.pattern().as_usize()]));
        }
    }
}

/// Rules by the beginning of a text; case is ignored.
#[derive(Default, Debug)]
struct Trie {
    /// The node that each first byte leads to; 0: none.
    roots: Vec<u32>,
    /// Rules for every text, and for the empty one.
    any: Vec<u32>,
    empty: Vec<u32>,
    nodes: Vec<Node>,
    /// Bytes that lead on, and where to, of all nodes; each node's lie together.
    bytes: Vec<u8>,
    targets: Vec<u32>,
    /// Rules of all nodes; each node's lie together.
    rules: Vec<u32>,
}

/// Ranges of the trie's lists.
#[derive(Clone, Copy, Default, Debug)]
struct Node {
    next: (u32, u32),
    /// Rules for all that goes on from here.
    begins: (u32, u32),
    /// Rules for what ends here.
    exact: (u32, u32),
}

/// Texts and rules that a trie is built from.
#[derive(Default, Debug)]
struct Branches {
    next: Vec<(u8, Branches)>,
    begins: Vec<u32>,
    exact: Vec<u32>,
}

impl Branches {
    fn insert(&mut self, text: impl Iterator<Item = u8>, rule: u32, exact: bool) {
        let mut at = self;
        for byte in text.map(|byte| byte.to_ascii_lowercase()) {
            let place = match at.next.binary_search_by_key(&byte, |(known, _)| *known) {
                Ok(found) => found,
                Err(place) => {
                    at.next.insert(place, (byte, Self::default()));
                    place
                }
            };
            at = &mut at.next[place].1;
        }
        if exact {
            at.exact.push(rule);
        } else {
            at.begins.push(rule);
        }
    }
}

impl Trie {
    fn new(root: &Branches) -> Self {
        let mut trie = Self {
            any: root.begins.clone(),
            empty: root.exact.clone(),
            // Node 0 stands for none.
            nodes: vec![Node::default()],
            ..Self::default()
        };
        if !root.next.is_empty() {
            trie.roots = vec![0; 256];
        }
        for (byte, branches) in &root.next {
            let node = trie.add(branches);
            trie.roots[usize::from(*byte)] = node;
            trie.roots[usize::from(byte.to_ascii_uppercase())] = node;
        }
        trie
    }

    fn add(&mut self, branches: &Branches) -> u32 {
        let number = self.nodes.len();
        self.nodes.push(Node::default());
        let mut keep = |rules: &[u32]| {
            let from = self.rules.len() as u32;
            self.rules.extend_from_slice(rules);
            (from, self.rules.len() as u32)
        };
        let (begins, exact) = (keep(&branches.begins), keep(&branches.exact));
        let from = self.bytes.len();
        let to = from + branches.next.len();
        self.bytes.resize(to, 0);
        self.targets.resize(to, 0);
        self.nodes[number] = Node {
            next: (from as u32, to as u32),
            begins,
            exact,
        };
        for (at, (byte, next)) in (from..to).zip(&branches.next) {
            self.bytes[at] = *byte;
            self.targets[at] = self.add(next);
        }
        number as u32
    }

    fn is_empty(&self) -> bool {
        self.roots.is_empty() && self.any.is_empty() && self.empty.is_empty()
    }

    fn list(&self, (from, to): (u32, u32)) -> &[u32] {
        &self.rules[from as usize..to as usize]
    }

    fn find<'t>(&self, mut text: impl Iterator<Item = &'t u8>, out: &mut Vec<Candidate>) {
        let mut add = |rules: &[u32]| out.extend(rules.iter().copied().map(Candidate::open));
        add(&self.any);
        let Some(first) = text.next() else {
            return add(&self.empty);
        };
        let Some(mut number) = self.roots.get(usize::from(*first)).copied() else {
            return;
        };
        while number != 0 {
            let node = self.nodes[number as usize];
            add(self.list(node.begins));
            let Some(byte) = text.next() else {
                return add(self.list(node.exact));
            };
            let byte = byte.to_ascii_lowercase();
            let (from, to) = (node.next.0 as usize, node.next.1 as usize);
            // Most nodes lead on to one other.
            let found = match &self.bytes[from..to] {
                [only] => (*only == byte).then_some(0),
                bytes => bytes.iter().position(|known| *known == byte),
            };
            number = found.map_or(0, |found| self.targets[from + found]);
        }
    }
}
