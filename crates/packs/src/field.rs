//! Reader for all parts of a pack: keys that are known, texts, lists.

use inrush_classify::{PackError, TextPattern, TextTemplate};
use inrush_yaml::{
    Findings, Location, MapEntry, NodeKind, YamlNode, kind_name, listed, nearest, quoted,
};

use crate::PackOptionMap;

/// Reader of a pack: the options, and the findings so far.
pub(crate) struct PackReader<'r> {
    pub(crate) options: &'r PackOptionMap,
    pub(crate) findings: &'r mut Findings,
}

impl PackReader<'_> {
    /// The entries of a mapping whose keys are among `known`; others are named.
    pub(crate) fn entries<'n>(
        &mut self,
        node: &'n YamlNode,
        what: &str,
        known: &[&str],
    ) -> Option<&'n [MapEntry]> {
        let entries = self.map(node, what)?;
        for entry in entries {
            if known.contains(&entry.key.as_str()) {
                continue;
            }
            let key = quoted(&entry.key);
            let remedy = match nearest(&entry.key, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the keys here are {}", listed(known.iter().copied(), "and")),
            };
            let words = format!("{key} is no key of {what}; {remedy}");
            self.findings.add(entry.key_at, words);
        }
        Some(entries)
    }

    /// The entries of a mapping with any keys.
    pub(crate) fn map<'n>(&mut self, node: &'n YamlNode, what: &str) -> Option<&'n [MapEntry]> {
        match &node.kind {
            NodeKind::Map(entries) => Some(entries),
            _ => {
                let found = kind_name(node);
                let words = format!("{what} is {found}; give a mapping, `key: value`");
                self.findings.add(node.at, words);
                None
            }
        }
    }

    /// A text; numbers and words such as `true` count as they are written.
    pub(crate) fn text<'n>(&mut self, node: &'n YamlNode, what: &str) -> Option<&'n str> {
        match &node.kind {
            NodeKind::Scalar(scalar) => Some(&scalar.text),
            _ => {
                let found = kind_name(node);
                self.findings
                    .add(node.at, format!("`{what}` is {found}; give a text"));
                None
            }
        }
    }

    /// A text, or a list of texts.
    pub(crate) fn texts<'n>(&mut self, node: &'n YamlNode, what: &str) -> Vec<(&'n str, Location)> {
        let items = match &node.kind {
            NodeKind::List(items) => items.as_slice(),
            _ => std::slice::from_ref(node),
        };
        let mut texts = Vec::new();
        for item in items {
            texts.extend(self.text(item, what).map(|text| (text, item.at)));
        }
        texts
    }

    /// Nodes of a list.
    pub(crate) fn items<'n>(&mut self, node: &'n YamlNode, what: &str) -> &'n [YamlNode] {
        match &node.kind {
            NodeKind::List(items) => items,
            NodeKind::Scalar(_) if node.is_null() => &[],
            _ => {
                let found = kind_name(node);
                self.findings
                    .add(node.at, format!("`{what}` is {found}; give a list"));
                &[]
            }
        }
    }

    pub(crate) fn flag(&mut self, node: &YamlNode, what: &str) -> bool {
        let value = match &node.kind {
            NodeKind::Scalar(scalar) => scalar.as_bool(),
            _ => None,
        };
        value.unwrap_or_else(|| {
            let found = kind_name(node);
            let words = format!("`{what}` is {found}; give true or false");
            self.findings.add(node.at, words);
            false
        })
    }

    /// A template text.
    pub(crate) fn template(&mut self, node: &YamlNode, what: &str) -> Option<TextTemplate> {
        let text = self.text(node, what)?;
        self.template_text(text, node.at)
    }

    pub(crate) fn template_text(&mut self, text: &str, at: Location) -> Option<TextTemplate> {
        let options = self.options;
        let option = |name: &str| options.get(name).cloned().unwrap_or_default();
        self.sound(at, TextTemplate::parse(text, &option))
    }

    pub(crate) fn pattern(&mut self, text: &str, at: Location) -> Option<TextPattern> {
        self.sound(at, TextPattern::parse(text))
    }

    /// The value that was read; `None` if there is a problem, which goes to the findings.
    pub(crate) fn sound<T>(&mut self, at: Location, read: Result<T, PackError>) -> Option<T> {
        read.map_err(|error| self.findings.add(at, error.to_string()))
            .ok()
    }

    pub(crate) fn product(&mut self, text: &str, at: Location) -> Option<(String, String)> {
        let product = text
            .split_once('/')
            .filter(|(v, p)| !v.is_empty() && !p.is_empty());
        if product.is_none() {
            let words = format!("{} is no product; write `vendor/product`", quoted(text));
            self.findings.add(at, words);
        }
        product.map(|(vendor, product)| (vendor.to_owned(), product.to_owned()))
    }

    pub(crate) fn zone(&mut self, text: &str, at: Location) -> Option<jiff::tz::TimeZone> {
        let zone = zone(text);
        if zone.is_none() {
            let words = format!(
                "{} is no zone; give `Europe/Rome` or `+02:00`",
                quoted(text)
            );
            self.findings.add(at, words);
        }
        zone
    }
}

/// A zone by its name in the zone database, or an offset.
fn zone(text: &str) -> Option<jiff::tz::TimeZone> {
    use jiff::tz::{Offset, TimeZone};
    if let Ok(zone) = inrush_event::named_zone(text) {
        return Some(zone);
    }
    let (sign, digits) = match text.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let (hours, minutes) = digits.split_once(':')?;
    let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
    let offset = Offset::from_seconds(sign * (hours * 3600 + minutes * 60)).ok()?;
    Some(TimeZone::fixed(offset))
}
