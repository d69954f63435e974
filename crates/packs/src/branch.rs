//! Reader of a rule's branches: conditions (`when`), settings (`set`) and cases.
//!
//! # What it guarantees
//! * Each mistake is a finding with its place; a pack with findings is rejected.
//! * All keys of a condition must hold; of several texts of one key, one suffices.
//! * Conditions on options are decided here, so that events never pay for them.
//! * Constant conditions are folded, and nested lists of one kind are flattened.
//!
//! # Limits
//! The YAML reader bounds depth and count of conditions: `CONFIG_DEPTH_MAX` and `CONFIG_NODES_MAX`
//! in [`inrush_event::limits`].

use std::sync::Arc;

use inrush_classify::pack::{
    Branch, BranchSettings, EventPart, HeaderFormat, OutputTemplate, PatternTest, RuleCondition,
};
use inrush_event::{EventText, Network};
use inrush_yaml::{Location, MapEntry, YamlNode, listed, nearest, quoted};

use crate::field::PackReader;

pub(crate) const WHEN: &[&str] = &[
    "program", "pid", "msgid", "host", "message", "sdata", "text", "raw", "header", "format",
    "listener", "hint", "sender", "vendor", "product", "class", "field", "cef", "leef", "option",
    "any", "all", "not",
];
pub(crate) const SET: &[&str] = &[
    "vendor",
    "product",
    "class",
    "index",
    "sourcetype",
    "source",
    "host",
    "program",
    "pid",
    "msgid",
    "message",
    "sdata",
    "template",
    "fields",
    "zone",
    "time",
    "hint",
    "values",
];
pub(crate) const CASE: &[&str] = &["when", "read", "set", "cases", "drop", "go_on"];
pub(crate) const CEF: &[&str] = &["vendor", "product", "version", "class", "name", "severity"];
pub(crate) const LEEF: &[&str] = &[
    "version",
    "vendor",
    "product",
    "product_version",
    "event",
    "separator",
];

/// Fills in what a rule and a case have in common; whether the key was one of it.
pub(crate) fn take(entry: &MapEntry, branch: &mut Branch, reader: &mut PackReader<'_>) -> bool {
    match entry.key.as_str() {
        "when" => branch.when = when(&entry.value, reader),
        "read" => {
            for item in reader.items(&entry.value, "read") {
                branch.read.extend(crate::step::step(item, reader));
            }
        }
        "set" => branch.set = set(&entry.value, reader),
        "cases" => {
            for item in reader.items(&entry.value, "cases") {
                branch.cases.push(case(item, reader));
            }
        }
        "drop" => branch.drop = reader.flag(&entry.value, "drop"),
        _ => return false,
    }
    true
}

fn case(node: &YamlNode, reader: &mut PackReader<'_>) -> Branch {
    let mut branch = Branch::default();
    for entry in reader.entries(node, "a case", CASE).unwrap_or_default() {
        if entry.key == "go_on" {
            branch.go_on = reader.flag(&entry.value, "go_on");
        } else {
            take(entry, &mut branch, reader);
        }
    }
    branch
}

fn joined(all: Vec<RuleCondition>) -> RuleCondition {
    if all.iter().any(|one| matches!(one, RuleCondition::Never)) {
        return RuleCondition::Never;
    }
    let mut flat = Vec::new();
    for one in all {
        match one {
            RuleCondition::Always => {}
            RuleCondition::All(list) => flat.extend(list),
            one => flat.push(one),
        }
    }
    let mut all = flat;
    match all.len() {
        0 => RuleCondition::Always,
        1 => all.remove(0),
        _ => RuleCondition::All(all),
    }
}

fn either(any: Vec<RuleCondition>) -> RuleCondition {
    if any.iter().any(|one| matches!(one, RuleCondition::Always)) {
        return RuleCondition::Always;
    }
    let mut flat = Vec::new();
    for one in any {
        match one {
            RuleCondition::Never => {}
            RuleCondition::Any(list) => flat.extend(list),
            one => flat.push(one),
        }
    }
    let mut any = flat;
    match any.len() {
        0 => RuleCondition::Never,
        1 => any.remove(0),
        _ => RuleCondition::Any(any),
    }
}

/// A condition: all keys of the mapping.
pub(crate) fn when(node: &YamlNode, reader: &mut PackReader<'_>) -> RuleCondition {
    let entries = reader.entries(node, "`when`", WHEN).unwrap_or_default();
    joined(
        entries
            .iter()
            .map(|entry| condition(entry, reader))
            .collect(),
    )
}

fn condition(entry: &MapEntry, reader: &mut PackReader<'_>) -> RuleCondition {
    let value = &entry.value;
    match entry.key.as_str() {
        "any" | "all" => {
            let items = reader.items(value, &entry.key);
            let list = items.iter().map(|item| when(item, reader)).collect();
            if entry.key == "any" {
                either(list)
            } else {
                joined(list)
            }
        }
        "not" => match when(value, reader) {
            RuleCondition::Always => RuleCondition::Never,
            RuleCondition::Never => RuleCondition::Always,
            other => RuleCondition::Not(Box::new(other)),
        },
        "format" => {
            let texts = reader.texts(value, "format");
            either(
                texts
                    .into_iter()
                    .map(|(text, at)| format(text, at, reader))
                    .collect(),
            )
        }
        "hint" => {
            let texts = reader.texts(value, "hint");
            let hints = texts.into_iter().map(|(text, at)| {
                let product = reader.product(text, at);
                product.map_or(RuleCondition::Never, |(vendor, product)| {
                    RuleCondition::Hint(vendor, product)
                })
            });
            either(hints.collect())
        }
        "sender" => {
            let texts = reader.texts(value, "sender");
            let networks = texts
                .into_iter()
                .map(|(text, at)| match Network::parse(text) {
                    Some(network) => RuleCondition::Sender(network),
                    None => {
                        let words = format!("{} is no network; write `10.0.0.0/8`", quoted(text));
                        reader.findings.add(at, words);
                        RuleCondition::Never
                    }
                });
            either(networks.collect())
        }
        "field" => named(value, None, "", reader),
        "cef" => named(value, Some(CEF), "cef.", reader),
        "leef" => named(value, Some(LEEF), "leef.", reader),
        "option" => options(value, reader),
        part => patterns(&EventPart::named(part), value, reader),
    }
}

fn format(text: &str, at: Location, reader: &mut PackReader<'_>) -> RuleCondition {
    RuleCondition::Format(match text {
        "rfc3164" => HeaderFormat::Rfc3164,
        "rfc5424" => HeaderFormat::Rfc5424,
        "unparsed" => HeaderFormat::Unparsed,
        other => {
            let words = format!(
                "{} is no format; give rfc3164, rfc5424 or unparsed",
                quoted(other)
            );
            reader.findings.add(at, words);
            return RuleCondition::Never;
        }
    })
}

fn patterns(part: &EventPart, value: &YamlNode, reader: &mut PackReader<'_>) -> RuleCondition {
    let texts = reader.texts(value, part.name());
    let all = texts.into_iter().map(|(text, at)| {
        let pattern = reader.pattern(text, at);
        pattern.map_or(RuleCondition::Never, |pattern| {
            RuleCondition::Part(Arc::new(PatternTest {
                part: part.clone(),
                pattern,
                written: text.to_owned(),
            }))
        })
    });
    either(all.collect())
}

fn named(
    value: &YamlNode,
    known: Option<&[&str]>,
    prefix: &str,
    reader: &mut PackReader<'_>,
) -> RuleCondition {
    let what = format!("`{}`", prefix.trim_end_matches('.'));
    let entries = match known {
        Some(known) => reader.entries(value, &what, known),
        None => reader.map(value, "`field`"),
    };
    let all = entries.unwrap_or_default().iter().map(|entry| {
        let name = format!("{prefix}{}", entry.key);
        // What the sender stands for is no value, but has a name as if it were one.
        let part = match name.starts_with("hint.") {
            true => EventPart::named(&name),
            false => EventPart::value(&name),
        };
        patterns(&part, &entry.value, reader)
    });
    joined(all.collect())
}

/// Options are known by now: the condition holds always or never.
fn options(value: &YamlNode, reader: &mut PackReader<'_>) -> RuleCondition {
    let entries = reader.map(value, "`option`").unwrap_or_default();
    let mut all = Vec::new();
    for entry in entries {
        let texts = reader.texts(&entry.value, &entry.key);
        let given = reader.options.get(&entry.key).cloned().unwrap_or_default();
        let one = texts.into_iter().map(|(text, at)| {
            let holds = reader
                .pattern(text, at)
                .is_some_and(|p| p.matches(given.as_bytes()));
            if holds {
                RuleCondition::Always
            } else {
                RuleCondition::Never
            }
        });
        all.push(either(one.collect()));
    }
    joined(all)
}

fn set(node: &YamlNode, reader: &mut PackReader<'_>) -> BranchSettings {
    let mut set = BranchSettings::default();
    for entry in reader.entries(node, "`set`", SET).unwrap_or_default() {
        let value = &entry.value;
        let key = entry.key.as_str();
        match key {
            "vendor" => set.vendor = reader.template(value, key),
            "product" => set.product = reader.template(value, key),
            "class" => set.class = reader.template(value, key),
            "index" => set.index = reader.template(value, key),
            "sourcetype" => set.sourcetype = reader.template(value, key),
            "source" => set.source = reader.template(value, key),
            "host" | "program" | "pid" | "msgid" | "message" | "sdata" => {
                let text = reader.template(value, key);
                set.parts
                    .extend(text.map(|text| (EventPart::named(key), text)));
            }
            "template" => set.template = template(value, reader),
            "fields" => set.fields = texts(value, reader),
            "values" => set.values = texts(value, reader),
            "zone" => {
                let text = reader.text(value, key).map(str::to_owned);
                set.zone = text.and_then(|text| reader.zone(&text, value.at));
            }
            "time" => match reader.text(value, key) {
                Some("received") => set.received_time = true,
                _ => reader
                    .findings
                    .add(value.at, "`time` may only be `received`"),
            },
            "hint" => {
                let text = reader.text(value, key).map(str::to_owned);
                set.hint = text.and_then(|text| reader.product(&text, value.at));
            }
            _ => {}
        }
    }
    set
}

fn texts(
    node: &YamlNode,
    reader: &mut PackReader<'_>,
) -> Vec<(String, inrush_classify::TextTemplate)> {
    let entries = reader.map(node, "this").unwrap_or_default();
    let mut out = Vec::new();
    for entry in entries {
        let text = reader.template(&entry.value, &entry.key);
        out.extend(text.map(|text| (entry.key.clone(), text)));
    }
    out
}

/// The templates by name, as SC4S calls them.
const TEMPLATES: [(&str, EventText); 11] = [
    ("t_hdr_msg", EventText::HeaderMessage),
    ("t_msg_only", EventText::Message),
    ("t_msg_trim", EventText::MessageTrimmed),
    ("t_5424_hdr_sdata_compact", EventText::Compact5424),
    ("t_hdr_sdata_msg", EventText::HeaderSdataMessage),
    ("t_standard", EventText::Standard),
    ("t_everything", EventText::Everything),
    ("t_program_msg", EventText::ProgramMessage),
    ("t_program_nopid_msg", EventText::ProgramNoPidMessage),
    ("t_fallback_kv", EventText::Fallback),
    ("t_fallback_kv_rawmsg", EventText::FallbackRaw),
];

/// Every template by name.
pub(crate) fn template_names() -> impl Iterator<Item = &'static str> {
    let fixed = TEMPLATES.iter().map(|(name, _)| *name);
    fixed.chain(["t_json_values", "t_kv_values", "t_leef_event"])
}

/// The fixed template of that name.
pub fn event_text(name: &str) -> Option<EventText> {
    let found = TEMPLATES.iter().find(|(known, _)| *known == name);
    found.map(|(_, text)| *text)
}

fn template(node: &YamlNode, reader: &mut PackReader<'_>) -> Option<OutputTemplate> {
    let name = reader.text(node, "template")?;
    match name {
        "t_json_values" => return Some(OutputTemplate::JsonValues),
        "t_kv_values" => return Some(OutputTemplate::KvValues),
        "t_leef_event" => {
            let attributes =
                inrush_classify::TextTemplate::parse("${leef.attributes}", &|_| String::new());
            return reader.sound(node.at, attributes).map(OutputTemplate::Text);
        }
        _ => {}
    }
    if let Some(text) = event_text(name) {
        return Some(OutputTemplate::Fixed(text));
    }
    if name.contains("${") {
        return reader.template(node, "template").map(OutputTemplate::Text);
    }
    let known = || TEMPLATES.iter().map(|(name, _)| *name);
    let remedy = match nearest(name, known()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => {
            let names = listed(template_names(), "and");
            format!("there are {names}, or a text with `${{…}}`")
        }
    };
    let words = format!("there is no template {}; {remedy}", quoted(name));
    reader.findings.add(node.at, words);
    None
}
