//! Which rules of a stage can hold for an event at all.
//!
//! Every rule is filed under texts of which a match must have one: the program, the beginning of
//! the message, something within it, the hint, a value that was read. A rule without such a text is
//! always a candidate.

use std::collections::HashMap;

use aho_corasick::AhoCorasick;

use crate::event::Event;
use crate::pack::{Part, When};
use crate::pattern::Anchor;

/// The candidates of a stage.
#[derive(Default, Debug)]
pub(crate) struct Index {
    parts: Vec<(Part, Texts)>,
    /// By `vendor/product`.
    hints: HashMap<Vec<u8>, Vec<u32>>,
    always: Vec<u32>,
}

/// The rules that ask for a text in one part of the event.
#[derive(Default, Debug)]
struct Texts {
    begins: Trie,
    contains: Option<Contains>,
    /// Collected until the automata are built.
    literals: Vec<(Vec<u8>, u32)>,
}

#[derive(Debug)]
struct Contains {
    automaton: AhoCorasick,
    rules: Vec<u32>,
}

/// Where a rule is filed.
enum File<'w> {
    Text(&'w Part, Anchor<'w>),
    Hint(&'w str, &'w str),
}

impl Index {
    /// Files the rules' conditions, in order.
    pub(crate) fn new<'w>(conditions: impl Iterator<Item = &'w When>) -> Self {
        let mut index = Self::default();
        for (rule, when) in conditions.enumerate() {
            let rule = rule as u32;
            match files(when) {
                Some(files) if !files.is_empty() => {
                    files.iter().for_each(|file| index.file(file, rule));
                }
                _ => index.always.push(rule),
            }
        }
        for (_, texts) in &mut index.parts {
            texts.build();
        }
        index
    }

    fn file(&mut self, file: &File<'_>, rule: u32) {
        match file {
            File::Hint(vendor, product) => {
                let key = format!("{vendor}/{product}").into_bytes();
                self.hints.entry(key).or_default().push(rule);
            }
            File::Text(part, anchor) => {
                let known = self.parts.iter().position(|(known, _)| known == *part);
                let at = known.unwrap_or_else(|| {
                    self.parts.push(((*part).clone(), Texts::default()));
                    self.parts.len() - 1
                });
                let texts = &mut self.parts[at].1;
                match anchor {
                    Anchor::Exact(text) => texts.begins.insert(text, rule, true),
                    Anchor::Prefix(text) => texts.begins.insert(text, rule, false),
                    Anchor::Contains(text) => texts.literals.push((text.to_vec(), rule)),
                }
            }
        }
    }

    /// Puts the rules that can hold into `out`, in order, each once.
    pub(crate) fn candidates(&self, event: &Event<'_>, hint: &mut Vec<u8>, out: &mut Vec<u32>) {
        out.clear();
        out.extend_from_slice(&self.always);
        for (part, texts) in &self.parts {
            let text = event.part(part);
            texts.begins.find(&text, out);
            if let Some(contains) = &texts.contains {
                contains.find(&text, out);
            }
        }
        if !self.hints.is_empty() && event.hint_vendor.is_set() {
            hint.clear();
            hint.extend_from_slice(&event.part(&Part::HintVendor));
            hint.push(b'/');
            hint.extend_from_slice(&event.part(&Part::HintProduct));
            if let Some(rules) = self.hints.get(hint.as_slice()) {
                out.extend_from_slice(rules);
            }
        }
        if out.len() > 1 {
            out.sort_unstable();
            out.dedup();
        }
    }
}

/// Where a condition can be filed: under each of the answers; `None`: nowhere.
fn files(when: &When) -> Option<Vec<File<'_>>> {
    match when {
        When::Part(part, pattern, _) => {
            let anchor = pattern.anchor()?;
            Some(vec![File::Text(part, anchor)])
        }
        When::Hint(vendor, product) => Some(vec![File::Hint(vendor, product)]),
        When::All(all) => all.iter().filter_map(files).max_by_key(|files| score(files)),
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
        File::Text(Part::Program | Part::Value(_) | Part::MsgId | Part::Host, anchor) => {
            match anchor {
                Anchor::Exact(_) => 1000,
                Anchor::Prefix(text) => 800 + text.len(),
                Anchor::Contains(text) => 300 + text.len(),
            }
        }
        File::Text(_, Anchor::Exact(_)) => 850,
        File::Text(_, Anchor::Prefix(text)) if text.len() > 1 => 700 + text.len(),
        File::Text(_, Anchor::Prefix(_)) => 200,
        File::Text(_, Anchor::Contains(text)) => 100 + text.len().min(50),
    };
    files.iter().map(one).min().unwrap_or(0)
}

impl Texts {
    fn build(&mut self) {
        if self.literals.is_empty() {
            return;
        }
        let automaton = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .kind(None)
            .build(self.literals.iter().map(|(text, _)| text));
        // What cannot be built is asked of every event; our literals are far too few for that.
        if let Ok(automaton) = automaton {
            let rules = self.literals.iter().map(|(_, rule)| *rule).collect();
            self.contains = Some(Contains { automaton, rules });
        }
        self.literals = Vec::new();
    }
}

impl Contains {
    fn find(&self, text: &[u8], out: &mut Vec<u32>) {
        let found = self.automaton.find_overlapping_iter(text);
        out.extend(found.map(|found| self.rules[found.pattern().as_usize()]));
    }
}

/// Rules by the beginning of a text; case is ignored.
#[derive(Debug)]
struct Trie {
    nodes: Vec<Node>,
}

#[derive(Default, Debug)]
struct Node {
    next: Vec<(u8, u32)>,
    /// Rules for all that goes on from here.
    begins: Vec<u32>,
    /// Rules for what ends here.
    exact: Vec<u32>,
}

impl Default for Trie {
    fn default() -> Self {
        Self {
            nodes: vec![Node::default()],
        }
    }
}

impl Trie {
    fn insert(&mut self, text: &[u8], rule: u32, exact: bool) {
        let mut at = 0;
        for byte in text.to_ascii_lowercase() {
            let next = self.nodes[at].next.binary_search_by_key(&byte, |(b, _)| *b);
            at = match next {
                Ok(found) => self.nodes[at].next[found].1 as usize,
                Err(place) => {
                    let new = self.nodes.len();
                    self.nodes.push(Node::default());
                    self.nodes[at].next.insert(place, (byte, new as u32));
                    new
                }
            };
        }
        let node = &mut self.nodes[at];
        if exact {
            node.exact.push(rule);
        } else {
            node.begins.push(rule);
        }
    }

    fn find(&self, text: &[u8], out: &mut Vec<u32>) {
        let mut node = &self.nodes[0];
        out.extend_from_slice(&node.begins);
        for byte in text {
            let byte = byte.to_ascii_lowercase();
            let Ok(found) = node.next.binary_search_by_key(&byte, |(b, _)| *b) else {
                return;
            };
            node = &self.nodes[node.next[found].1 as usize];
            out.extend_from_slice(&node.begins);
        }
        out.extend_from_slice(&node.exact);
    }
}
