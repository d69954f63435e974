//! Texts by their beginnings.

/// Values by the beginning of a text; case is ignored.
#[derive(Debug)]
pub struct Trie<V> {
    /// The node that each first byte leads to; 0: none.
    roots: Vec<u32>,
    /// Values for every text, and for the empty one.
    any: Vec<V>,
    empty: Vec<V>,
    nodes: Vec<TrieNode>,
    /// Bytes that lead on, and where to, of all nodes; each node's lie together.
    bytes: Vec<u8>,
    targets: Vec<u32>,
    /// Values of all nodes; each node's lie together.
    values: Vec<V>,
}

/// Ranges of the trie's lists.
#[derive(Clone, Copy, Default, Debug)]
struct TrieNode {
    next: (u32, u32),
    /// Values for all that goes on from here.
    begins: (u32, u32),
    /// Values for what ends here.
    exact: (u32, u32),
}

/// Texts and values that a trie is built from.
#[derive(Debug)]
pub struct TrieBuilder<V> {
    next: Vec<(u8, TrieBuilder<V>)>,
    begins: Vec<V>,
    exact: Vec<V>,
}

impl<V> Default for TrieBuilder<V> {
    fn default() -> Self {
        Self {
            next: Vec::new(),
            begins: Vec::new(),
            exact: Vec::new(),
        }
    }
}

impl<V> TrieBuilder<V> {
    /// Adds a text with its value. `exact`: a text that goes on behind it is no match.
    pub fn insert(&mut self, text: impl Iterator<Item = u8>, value: V, exact: bool) {
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
            at.exact.push(value);
        } else {
            at.begins.push(value);
        }
    }
}

impl<V> Default for Trie<V> {
    fn default() -> Self {
        Self {
            roots: Vec::new(),
            any: Vec::new(),
            empty: Vec::new(),
            nodes: Vec::new(),
            bytes: Vec::new(),
            targets: Vec::new(),
            values: Vec::new(),
        }
    }
}

impl<V: Copy> Trie<V> {
    /// Trie of the texts of a builder.
    pub fn new(root: &TrieBuilder<V>) -> Self {
        let mut trie = Self {
            any: root.begins.clone(),
            empty: root.exact.clone(),
            // Node 0 stands for none.
            nodes: vec![TrieNode::default()],
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

    fn add(&mut self, branches: &TrieBuilder<V>) -> u32 {
        let number = self.nodes.len();
        self.nodes.push(TrieNode::default());
        let mut keep = |values: &[V]| {
            let from = self.values.len() as u32;
            self.values.extend_from_slice(values);
            (from, self.values.len() as u32)
        };
        let (begins, exact) = (keep(&branches.begins), keep(&branches.exact));
        let from = self.bytes.len();
        let to = from + branches.next.len();
        self.bytes.resize(to, 0);
        self.targets.resize(to, 0);
        self.nodes[number] = TrieNode {
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

    /// True if there is no text in it.
    pub fn is_empty(&self) -> bool {
        self.roots.is_empty() && self.any.is_empty() && self.empty.is_empty()
    }

    /// Values that the empty text finds.
    pub fn of_empty(&self) -> impl Iterator<Item = &V> {
        self.any.iter().chain(&self.empty)
    }

    /// True if there are values for every text.
    pub fn has_any(&self) -> bool {
        !self.any.is_empty()
    }

    /// By each first byte: 0 where no text begins with it. Empty where there are no texts.
    pub fn roots(&self) -> &[u32] {
        &self.roots
    }

    fn list(&self, (from, to): (u32, u32)) -> &[V] {
        &self.values[from as usize..to as usize]
    }

    /// Adds the values of all texts with which `text` begins.
    pub fn find<'t>(&self, mut text: impl Iterator<Item = &'t u8>, out: &mut Vec<V>) {
        // Most have one value or none.
        let mut add = |values: &[V]| values.iter().for_each(|value| out.push(*value));
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
