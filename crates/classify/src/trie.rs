//! Texts by how they begin.

use crate::plan::Candidate;

/// Rules by the beginning of a text; case is ignored.
#[derive(Default, Debug)]
pub(crate) struct Trie {
    /// The node that each first byte leads to; 0: none.
    pub(crate) roots: Vec<u32>,
    /// Rules for every text, and for the empty one.
    pub(crate) any: Vec<Candidate>,
    pub(crate) empty: Vec<Candidate>,
    nodes: Vec<Node>,
    /// Bytes that lead on, and where to, of all nodes; each node's lie together.
    bytes: Vec<u8>,
    targets: Vec<u32>,
    /// Rules of all nodes; each node's lie together.
    rules: Vec<Candidate>,
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
pub(crate) struct Branches {
    next: Vec<(u8, Branches)>,
    begins: Vec<u32>,
    exact: Vec<u32>,
}

impl Branches {
    pub(crate) fn insert(&mut self, text: impl Iterator<Item = u8>, rule: u32, exact: bool) {
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
    pub(crate) fn new(root: &Branches) -> Self {
        let mut trie = Self {
            any: root.begins.iter().copied().map(Candidate::open).collect(),
            empty: root.exact.iter().copied().map(Candidate::open).collect(),
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
            let rules = rules.iter().copied();
            self.rules.extend(rules.map(Candidate::open));
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

    pub(crate) fn is_empty(&self) -> bool {
        self.roots.is_empty() && self.any.is_empty() && self.empty.is_empty()
    }

    fn list(&self, (from, to): (u32, u32)) -> &[Candidate] {
        &self.rules[from as usize..to as usize]
    }

    pub(crate) fn find<'t>(
        &self,
        mut text: impl Iterator<Item = &'t u8>,
        out: &mut Vec<Candidate>,
    ) {
        // Most have one rule or none.
        let mut add = |rules: &[Candidate]| rules.iter().for_each(|rule| out.push(*rule));
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
