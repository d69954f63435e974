//! YAML reader: a text becomes a tree in which every key and value has its place in the file.
//!
//! # What it guarantees
//! * Variables are filled in after parsing, never in keys, so that no value changes the structure.
//! * A duplicate key or a tag is a finding, and reading continues. A second document, bad syntax, a
//!   NUL byte or an exceeded limit is a finding that ends reading.
//! * [`Scalar::written`] has the text of the file, since a variable's value may be a secret.
//!
//! # Limits
//! A tree has at most `CONFIG_NODES_MAX` keys and values, `CONFIG_TEXT_BYTES_MAX` bytes of text and
//! `CONFIG_DEPTH_MAX` levels ([`inrush_event::limits`]). Aliases and variables count as filled in.
//! The caller bounds the bytes of the file.

use std::borrow::Cow;
use std::collections::HashMap;

use inrush_event::limits;
use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, Tag};

use crate::problem::{Findings, Location, quoted};
use crate::variables::{self, VariableLookup};

/// A value and where it begins.
#[derive(Clone, Debug)]
pub struct YamlNode {
    /// Place of its beginning in the file.
    pub at: Location,
    /// The value itself.
    pub kind: NodeKind,
}

/// Value of a node.
#[derive(Clone, Debug)]
pub enum NodeKind {
    /// A text, which may stand for a number, true, false or nothing.
    Scalar(Scalar),
    /// A list.
    List(Vec<YamlNode>),
    /// A mapping, its keys in their order, each once.
    Map(Vec<MapEntry>),
    /// Text whose variables could not be filled in; that was reported, and nothing more is known.
    Unresolved,
}

/// Text, with its variables already substituted.
#[derive(Clone, Debug)]
pub struct Scalar {
    /// The text.
    pub text: String,
    /// Written without quotes: may be a number, true, false or nothing at all.
    pub plain: bool,
    /// Text that stands in the file, where it differs because variables were substituted. Problems
    /// quote this and never the value, which may be a secret.
    pub written: Option<String>,
}

/// One `key: value`.
#[derive(Clone, Debug)]
pub struct MapEntry {
    /// The key.
    pub key: String,
    /// Place of the key.
    pub key_at: Location,
    /// Its value.
    pub value: YamlNode,
}

impl Scalar {
    /// Nothing: `key:` with no value, `~` or `null` (YAML 1.2 core schema).
    pub fn is_null(&self) -> bool {
        self.plain && matches!(self.text.as_str(), "" | "~" | "null" | "Null" | "NULL")
    }

    /// True or false, if it is written so.
    pub fn as_bool(&self) -> Option<bool> {
        match self.text.as_str() {
            "true" | "True" | "TRUE" if self.plain => Some(true),
            "false" | "False" | "FALSE" if self.plain => Some(false),
            _ => None,
        }
    }

    /// The whole number that it is.
    pub fn as_integer(&self) -> Option<i128> {
        let text = if self.plain {
            self.text.as_str()
        } else {
            return None;
        };
        match text.as_bytes() {
            [b'0', b'x', ..] => i128::from_str_radix(&text[2..], 16).ok(),
            [b'0', b'o', ..] => i128::from_str_radix(&text[2..], 8).ok(),
            _ => text.parse().ok(),
        }
    }

    /// The number that it is.
    pub fn as_float(&self) -> Option<f64> {
        let numeric = self.plain && self.text.bytes().any(|b| b.is_ascii_digit());
        if numeric {
            self.text.parse().ok()
        } else {
            None
        }
    }

    /// Form in which a problem quotes it.
    pub fn shown(&self) -> String {
        quoted(self.written.as_deref().unwrap_or(&self.text))
    }
}

impl YamlNode {
    /// The entries of a mapping; none for anything else.
    pub fn entries(&self) -> &[MapEntry] {
        match &self.kind {
            NodeKind::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The items of a list; none for anything else.
    pub fn items(&self) -> &[YamlNode] {
        match &self.kind {
            NodeKind::List(items) => items,
            _ => &[],
        }
    }

    /// The entry of that key.
    pub fn entry(&self, key: &str) -> Option<&MapEntry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    /// The value of that key.
    pub fn get(&self, key: &str) -> Option<&YamlNode> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// True if it is nothing.
    pub fn is_null(&self) -> bool {
        matches!(&self.kind, NodeKind::Scalar(scalar) if scalar.is_null())
    }

    fn weight(&self) -> SubtreeSize {
        let mut weight = SubtreeSize {
            nodes: 1,
            bytes: 0,
            depth: 1,
        };
        match &self.kind {
            NodeKind::Scalar(scalar) => weight.bytes = scalar.text.len(),
            NodeKind::Unresolved => {}
            NodeKind::List(items) => items.iter().for_each(|item| weight.contain(item.weight())),
            NodeKind::Map(entries) => {
                for entry in entries {
                    weight.bytes += entry.key.len();
                    weight.contain(entry.value.weight());
                }
            }
        }
        weight
    }
}

#[derive(Clone, Copy)]
struct SubtreeSize {
    nodes: usize,
    bytes: usize,
    depth: usize,
}

impl SubtreeSize {
    fn contain(&mut self, inner: Self) {
        self.nodes += inner.nodes;
        self.bytes += inner.bytes;
        self.depth = self.depth.max(inner.depth + 1);
    }
}

/// Reads `text`. Problems go to `findings`; `None` where there is no tree to check further.
pub fn read(text: &str, env: VariableLookup<'_>, findings: &mut Findings) -> Option<YamlNode> {
    tree(text, Some(env), findings)
}

/// Reads `text` in which `${…}` stands for itself.
pub fn read_plain(text: &str, findings: &mut Findings) -> Option<YamlNode> {
    tree(text, None, findings)
}

fn tree(text: &str, env: Option<VariableLookup<'_>>, findings: &mut Findings) -> Option<YamlNode> {
    // The parser takes a NUL for the end, and would silently leave out what follows.
    if let Some(nul) = text.find('\0') {
        findings.add(
            Location::of_byte(text, nul),
            "a NUL byte; save the file as UTF-8 text",
        );
        return None;
    }
    if let Some(at) = variables::reserved(text) {
        findings.add(
            Location::of_byte(text, at),
            "a character that is none; remove it",
        );
        return None;
    }
    let masked = variables::mask(text);
    let mut builder = TreeBuilder::new(text, env, findings);
    let mut parser = Parser::new_from_str(&masked);
    while let Some(event) = parser.next_event() {
        let step = match event {
            Ok((event, span)) => builder.event(event, span),
            Err(error) => Err(builder.syntax(&error)),
        };
        if let Err(ParseAborted) = step {
            return None;
        }
    }
    let root = builder.root.take();
    if root.as_ref().is_none_or(YamlNode::is_null) {
        builder.findings.add(
            Location::START,
            "the file is empty; give at least `sources` and `destinations`",
        );
        return None;
    }
    root
}

/// A problem was reported after which reading on makes no sense.
struct ParseAborted;

enum OpenCollection {
    List {
        at: Location,
        anchor: usize,
        items: Vec<YamlNode>,
    },
    Map {
        at: Location,
        anchor: usize,
        entries: Vec<MapEntry>,
        key: Option<(Option<String>, Location)>,
    },
}

struct TreeBuilder<'a> {
    text: &'a str,
    /// Looks variables up, if they are to be filled in.
    env: Option<VariableLookup<'a>>,
    findings: &'a mut Findings,
    stack: Vec<OpenCollection>,
    anchors: HashMap<usize, YamlNode>,
    /// Nodes and bytes of text left of the budget.
    nodes: usize,
    bytes: usize,
    root: Option<YamlNode>,
}

impl<'a> TreeBuilder<'a> {
    fn new(text: &'a str, env: Option<VariableLookup<'a>>, findings: &'a mut Findings) -> Self {
        Self {
            text,
            env,
            findings,
            stack: Vec::new(),
            anchors: HashMap::new(),
            nodes: limits::CONFIG_NODES_MAX,
            bytes: limits::CONFIG_TEXT_BYTES_MAX,
            root: None,
        }
    }

    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), ParseAborted> {
        let at = place(&span);
        match event {
            Event::DocumentStart(_) if self.root.is_some() => self.stop(
                at,
                "a second YAML document; keep one in a file, without a second `---`",
            ),
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_tag(at, tag.as_deref());
                let node = self.scalar(&variables::unmask(&text), style, &span);
                self.done(node, anchor)
            }
            Event::SequenceStart(anchor, tag) => {
                self.refuse_tag(at, tag.as_deref());
                self.open(
                    at,
                    OpenCollection::List {
                        at,
                        anchor,
                        items: Vec::new(),
                    },
                )
            }
            Event::MappingStart(anchor, tag) => {
                self.refuse_tag(at, tag.as_deref());
                self.open(
                    at,
                    OpenCollection::Map {
                        at,
                        anchor,
                        entries: Vec::new(),
                        key: None,
                    },
                )
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(anchor) => self.alias(at, anchor),
            _ => Ok(()),
        }
    }

    fn stop(&mut self, at: Location, message: impl Into<String>) -> Result<(), ParseAborted> {
        self.findings.add(at, message);
        Err(ParseAborted)
    }

    fn syntax(&mut self, error: &ScanError) -> ParseAborted {
        let mark = error.marker();
        let at = Location {
            line: mark.line().max(1),
            column: mark.col() + 1,
        };
        let line = self.text.lines().nth(at.line - 1).unwrap_or_default();
        let remedy = if line.contains("://[") {
            "write an IPv6 address in quotes inside [ ], as in [\"tcp://[::]:514\"]"
        } else if line.contains('\t') {
            "indent with spaces, not tabs"
        } else {
            "mend the line, or quote the text on it"
        };
        self.findings
            .add(at, format!("not valid YAML: {}; {remedy}", error.info()));
        ParseAborted
    }

    fn refuse_tag(&mut self, at: Location, tag: Option<&Tag>) {
        if let Some(tag) = tag {
            self.findings.add(
                at,
                format!(
                    "YAML tags are not supported; remove {}",
                    quoted(&tag.to_string())
                ),
            );
        }
    }

    fn expects_key(&self) -> bool {
        matches!(
            self.stack.last(),
            Some(OpenCollection::Map { key: None, .. })
        )
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, span: &Span) -> YamlNode {
        let at = place(span);
        let plain = style == ScalarStyle::Plain;
        let env = self
            .env
            .filter(|_| !self.expects_key() && variables::has_any(text));
        let Some(env) = env else {
            let scalar = Scalar {
                text: text.to_owned(),
                plain,
                written: None,
            };
            return YamlNode {
                at,
                kind: NodeKind::Scalar(scalar),
            };
        };
        match variables::substitute(text, env) {
            Ok(value) => {
                let scalar = Scalar {
                    text: value,
                    plain,
                    written: Some(text.to_owned()),
                };
                YamlNode {
                    at,
                    kind: NodeKind::Scalar(scalar),
                }
            }
            Err(faults) => {
                self.report(faults, span);
                YamlNode {
                    at,
                    kind: NodeKind::Unresolved,
                }
            }
        }
    }

    /// Points at each variable itself rather than at the start of its text.
    fn report(&mut self, faults: Vec<variables::SubstitutionError>, span: &Span) {
        let byte = |chars: usize| {
            self.text
                .char_indices()
                .nth(chars)
                .map_or(self.text.len(), |(byte, _)| byte)
        };
        let (start, end) = (byte(span.start.index()), byte(span.end.index()));
        let source = self.text.get(start..end).unwrap_or_default();
        for fault in faults {
            let at = match variables::position(source, fault.number) {
                Some(offset) => Location::of_byte(self.text, start + offset),
                None => place(span),
            };
            self.findings.add(at, fault.message);
        }
    }

    fn open(&mut self, at: Location, open: OpenCollection) -> Result<(), ParseAborted> {
        if self.stack.len() >= limits::CONFIG_DEPTH_MAX {
            return self.stop(at, too_deep());
        }
        self.stack.push(open);
        Ok(())
    }

    fn close(&mut self) -> Result<(), ParseAborted> {
        match self.stack.pop() {
            Some(OpenCollection::List { at, anchor, items }) => self.done(
                YamlNode {
                    at,
                    kind: NodeKind::List(items),
                },
                anchor,
            ),
            Some(OpenCollection::Map {
                at,
                anchor,
                entries,
                ..
            }) => self.done(
                YamlNode {
                    at,
                    kind: NodeKind::Map(entries),
                },
                anchor,
            ),
            None => Ok(()),
        }
    }

    fn alias(&mut self, at: Location, anchor: usize) -> Result<(), ParseAborted> {
        let Some(node) = self.anchors.get(&anchor) else {
            return self.stop(
                at,
                "an alias inside the very value that it stands for; write the value out",
            );
        };
        let weight = node.weight();
        if self.stack.len() + weight.depth > limits::CONFIG_DEPTH_MAX {
            return self.stop(at, too_deep());
        }
        if weight.nodes > self.nodes || weight.bytes > self.bytes {
            return self.stop(at, too_large());
        }
        let copy = node.clone();
        // `put` takes one node and its own text off; the rest of the copy is taken off here.
        self.nodes -= weight.nodes - 1;
        self.bytes -= weight.bytes;
        self.put(copy)
    }

    /// A value is complete.
    fn done(&mut self, node: YamlNode, anchor: usize) -> Result<(), ParseAborted> {
        let bytes = match &node.kind {
            NodeKind::Scalar(scalar) => scalar.text.len(),
            _ => 0,
        };
        if bytes > self.bytes {
            return self.stop(node.at, too_large());
        }
        self.bytes -= bytes;
        if anchor > 0 {
            let weight = node.weight();
            if weight.nodes > self.nodes || weight.bytes > self.bytes {
                return self.stop(node.at, too_large());
            }
            self.nodes -= weight.nodes;
            self.bytes -= weight.bytes;
            self.anchors.insert(anchor, node.clone());
        }
        self.put(node)
    }

    /// Puts a value where it belongs: into the open list or map, or at the root.
    fn put(&mut self, node: YamlNode) -> Result<(), ParseAborted> {
        if self.nodes == 0 {
            return self.stop(node.at, too_large());
        }
        self.nodes -= 1;
        match self.stack.last_mut() {
            None => self.root = Some(node),
            Some(OpenCollection::List { items, .. }) => items.push(node),
            Some(OpenCollection::Map { entries, key, .. }) => match key.take() {
                None => *key = Some(read_key(node, entries, self.findings)),
                Some((Some(name), key_at)) => {
                    entries.push(MapEntry {
                        key: name,
                        key_at,
                        value: node,
                    });
                }
                Some((None, _)) => {}
            },
        }
        Ok(())
    }
}

/// The key that `node` is; its name is `None` if it is unusable, and its value is then left out.
fn read_key(
    node: YamlNode,
    entries: &[MapEntry],
    findings: &mut Findings,
) -> (Option<String>, Location) {
    let NodeKind::Scalar(scalar) = node.kind else {
        findings.add(
            node.at,
            "a list or mapping cannot be a key; write `key: value`",
        );
        return (None, node.at);
    };
    // A linear search: the budget of nodes bounds it, and real maps have a dozen keys.
    if let Some(first) = entries.iter().find(|entry| entry.key == scalar.text) {
        findings.add(
            node.at,
            format!(
                "{} is given twice, first on line {}; keep one",
                quoted(&scalar.text),
                first.key_at.line
            ),
        );
        return (None, node.at);
    }
    (Some(scalar.text), node.at)
}

fn place(span: &Span) -> Location {
    Location {
        line: span.start.line().max(1),
        column: span.start.col() + 1,
    }
}

fn too_deep() -> String {
    format!(
        "nested deeper than {} levels; no option is that deep",
        limits::CONFIG_DEPTH_MAX
    )
}

fn too_large() -> String {
    format!(
        "more than {} values or {} bytes of text once aliases and variables are filled in; use fewer",
        limits::CONFIG_NODES_MAX,
        limits::CONFIG_TEXT_BYTES_MAX
    )
}

/// Kind of a node in words, for a problem that says what was found.
pub fn kind_name(node: &YamlNode) -> Cow<'static, str> {
    match &node.kind {
        NodeKind::List(_) => "a list".into(),
        NodeKind::Map(_) => "a mapping".into(),
        NodeKind::Unresolved => "an unknown value".into(),
        NodeKind::Scalar(scalar) if scalar.is_null() => "nothing".into(),
        NodeKind::Scalar(scalar) => scalar.shown().into(),
    }
}

/// `message` with what variables hold in `node` put back as it is written: it may be a secret.
pub fn redacted(message: &str, node: Option<&YamlNode>) -> String {
    let mut out = message.to_owned();
    let mut left: Vec<&YamlNode> = node.into_iter().collect();
    while let Some(node) = left.pop() {
        match &node.kind {
            NodeKind::List(items) => left.extend(items),
            NodeKind::Map(entries) => left.extend(entries.iter().map(|entry| &entry.value)),
            NodeKind::Scalar(Scalar {
                text,
                written: Some(written),
                ..
            }) if !text.is_empty() => {
                out = out.replace(text.as_str(), written);
            }
            NodeKind::Scalar(_) | NodeKind::Unresolved => {}
        }
    }
    out
}
