//! The JSON Schema of a pack, for editors. It is put together from the very lists of keys that the
//! reader takes.

use inrush_classify::pack::RuleStage;
use serde_json::{Map, Value, json};

use crate::branch::{CASE, CEF, LEEF, SET, WHEN, template_names};
use crate::group::GROUP;
use crate::rule::{PACK, RULE};
use crate::sample::{EXPECT, SAMPLE};
use crate::step::KEYS;

/// The JSON Schema (2020-12) of a pack.
pub fn schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Inrush pack",
        "description": "How the products of one vendor are recognised; see docs/guides/packs.md.",
        "$ref": "#/$defs/pack",
        "$defs": {
            "pack": object(PACK, &["rules"], pack),
            "rule": object(RULE, &["name", "stage"], rule),
            "case": object(CASE, &[], branch),
            "condition": object(WHEN, &[], condition),
            "cef": object(CEF, &[], |_| reference("patterns")),
            "leef": object(LEEF, &[], |_| reference("patterns")),
            "step": object(KEYS, &[], step),
            "set": object(SET, &[], set),
            "group": object(GROUP, &["by", "seconds", "event"], group),
            "sample": object(SAMPLE, &["raw", "expect"], sample),
            "expect": object(EXPECT, &[], expect),
            "text": { "type": ["string", "number", "boolean"] },
            "texts": list_or_one(reference("text")),
            "patterns": described(
                list_or_one(reference("text")),
                "text, text*, *text, *text*, /expression/, each with i: before it if case does not \
                 count; one of a list",
            ),
            "map of patterns": map(reference("patterns")),
            "map of texts": map(reference("text")),
        },
    })
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{name}") })
}

fn described(mut schema: Value, words: &str) -> Value {
    schema["description"] = words.into();
    schema
}

fn map(values: Value) -> Value {
    json!({ "type": "object", "additionalProperties": values })
}

fn list(items: Value) -> Value {
    json!({ "type": "array", "items": items })
}

fn list_or_one(one: Value) -> Value {
    json!({ "anyOf": [one.clone(), list(one)] })
}

fn object(keys: &[&str], required: &[&str], of: fn(&str) -> Value) -> Value {
    let properties: Map<String, Value> = keys
        .iter()
        .map(|key| ((*key).to_owned(), of(key)))
        .collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn flag(words: &str) -> Value {
    json!({ "type": "boolean", "description": words })
}

fn text(words: &str) -> Value {
    described(reference("text"), words)
}

fn stages(entered: bool) -> Value {
    let stages = RuleStage::ALL.into_iter();
    let names = stages.filter(|stage| !entered || stage.is_entered());
    json!({ "enum": names.map(RuleStage::name).collect::<Vec<_>>() })
}

fn pack(key: &str) -> Value {
    match key {
        "rules" => described(list(reference("rule")), "The rules, in their order."),
        "disable" => described(
            reference("texts"),
            "Rules of other packs that do not count, by name.",
        ),
        _ => text("Whose products it is about."),
    }
}

fn rule(key: &str) -> Value {
    match key {
        "name" => text("Unique over all packs; explain shows it."),
        "stage" => described(stages(false), "When it is asked."),
        "then" => described(stages(true), "The stage whose rules go on with the event."),
        "over" => flag("In stage listener: asked even if the event was recognised before."),
        "order" => json!({
            "type": "integer",
            "description": "Rules with a lower one are asked first; 0 unless given.",
        }),
        "group" => described(reference("group"), "Puts the parts of one event together."),
        "samples" => described(
            list(reference("sample")),
            "Events, and what must come of them.",
        ),
        "sc4s" => described(
            reference("texts"),
            "The definitions of SC4S that it stands for.",
        ),
        "about" => text("A remark."),
        key => branch(key),
    }
}

/// Schema of a key that a rule and a case have in common.
fn branch(key: &str) -> Value {
    match key {
        "when" => described(reference("condition"), "All of its keys must hold."),
        "begins" => described(
            reference("condition"),
            "How an event begins that is known by that before any other rule is asked.",
        ),
        "read" => described(list(reference("step")), "Takes the event apart, in order."),
        "set" => described(reference("set"), "What is set."),
        "cases" => described(
            list(reference("case")),
            "The first that holds is taken, and the next one too if it says go_on.",
        ),
        "drop" => flag("The event is filtered, counted under the rule's name."),
        _ => flag("The cases after it are asked too."),
    }
}

fn condition(key: &str) -> Value {
    match key {
        "any" => described(list(reference("condition")), "One of them holds."),
        "all" => described(list(reference("condition")), "All of them hold."),
        "not" => described(reference("condition"), "It does not hold."),
        "format" => described(
            list_or_one(json!({ "enum": ["rfc3164", "rfc5424", "unparsed"] })),
            "How the header was read.",
        ),
        "hint" => described(
            reference("texts"),
            "vendor/product that the sender stands for.",
        ),
        "sender" => described(reference("texts"), "Addresses or networks: 10.0.0.0/8."),
        "cef" | "leef" => reference(key),
        "field" => described(reference("map of patterns"), "Values that were read."),
        "option" => described(
            reference("map of patterns"),
            "Options of the configuration.",
        ),
        _ => reference("patterns"),
    }
}

fn step(key: &str) -> Value {
    match key {
        "optional" => flag("The rule holds without it."),
        "keep" => flag("Its values count among the event's."),
        "greedy" => flag("The last column takes the rest."),
        "columns" => described(reference("texts"), "Names; an empty one is skipped."),
        "until" => described(
            reference("texts"),
            "Reading ends once all of these pairs have been read.",
        ),
        "format" => described(
            reference("texts"),
            "The first that fits: %Y-%m-%d %H:%M:%S.",
        ),
        "in" => text("What is read; the message unless given."),
        "zone" => text("The zone of times without one."),
        _ => reference("text"),
    }
}

fn set(key: &str) -> Value {
    match key {
        "fields" => described(reference("map of texts"), "Indexed fields."),
        "values" => described(
            reference("map of texts"),
            "Values, as if they had been read.",
        ),
        "time" => json!({ "const": "received", "description": "The receive time counts." }),
        "template" => json!({
            "anyOf": [
                { "enum": template_names().collect::<Vec<_>>() },
                { "type": "string", "pattern": r"\$\{" },
            ],
            "description": "What is sent as the event's text.",
        }),
        "hint" => text("vendor/product that the sender stands for."),
        "zone" => text("The zone of times without one."),
        _ => text("A text; ${name} is a part of the event, or a value that was read."),
    }
}

fn group(key: &str) -> Value {
    match key {
        "by" => described(
            reference("texts"),
            "What the parts of one event have in common.",
        ),
        "seconds" => text("How long a part waits for the others at most."),
        "parts" => text("How many parts there are; without it the time decides."),
        "order" => text("The number of a part."),
        "part" => text("What a part contributes; without it the last event stands for all."),
        "join" => text("What stands between parts."),
        _ => text("The text that comes out; ${joined} are the parts."),
    }
}

fn sample(key: &str) -> Value {
    match key {
        "raw" => described(reference("texts"), "A record, or several of one event."),
        "expect" => described(reference("expect"), "Only what is given is compared."),
        "options" => described(reference("map of texts"), "Options of the configuration."),
        "hint" => text("vendor/product of the listener."),
        "received" => text("RFC 3339; 2024-05-06T07:08:09.123456Z unless given."),
        _ => reference("text"),
    }
}

fn expect(key: &str) -> Value {
    match key {
        "dropped" => flag("It is filtered."),
        "fields" => reference("map of texts"),
        // An object where the event is one.
        "event" => json!({ "type": ["string", "number", "boolean", "object"] }),
        _ => reference("text"),
    }
}

#[cfg(test)]
mod tests {
    use inrush_yaml::{Findings, NodeKind, YamlNode};

    use super::*;

    /// What is wrong with a value, if anything: as much of JSON Schema as [`schema`] uses.
    fn fault(node: &YamlNode, of: &Value, root: &Value, path: &str) -> Option<String> {
        if let Some(name) = of["$ref"].as_str() {
            return fault(node, &root["$defs"][&name[8..]], root, path);
        }
        if let Some(choices) = of["anyOf"].as_array() {
            let faults = choices.iter().map(|choice| fault(node, choice, root, path));
            let faults: Option<Vec<_>> = faults.collect();
            return faults.map(|faults| faults.join(" and "));
        }
        match &node.kind {
            NodeKind::Map(entries) => {
                let named = &of["properties"];
                entries.iter().find_map(|entry| {
                    let path = format!("{path}.{}", entry.key);
                    match (named.get(&entry.key), of.get("additionalProperties")) {
                        (Some(inner), _) => fault(&entry.value, inner, root, &path),
                        (None, Some(inner)) if inner.is_object() => {
                            fault(&entry.value, inner, root, &path)
                        }
                        // An event that is an object.
                        (None, None) if of["type"].is_array() => None,
                        _ => Some(format!("{path} is unknown")),
                    }
                })
            }
            NodeKind::List(items) => match of.get("items") {
                Some(inner) => items
                    .iter()
                    .enumerate()
                    .find_map(|(at, item)| fault(item, inner, root, &format!("{path}[{at}]"))),
                None => Some(format!("{path} is a list")),
            },
            NodeKind::Scalar(scalar) => {
                let wanted = of["enum"].as_array();
                let word = wanted.is_none_or(|all| all.iter().any(|one| *one == *scalar.text));
                let fits = of.get("pattern").is_none() || scalar.text.contains("${");
                let structured = matches!(of["type"].as_str(), Some("object" | "array"));
                (!word || !fits || structured).then(|| format!("{path} is `{}`", scalar.text))
            }
            NodeKind::Unresolved => Some(format!("{path} is unresolved")),
        }
    }

    #[test]
    fn the_packs_that_come_with_inrush_follow_the_schema() {
        let schema = schema();
        for (file, text) in crate::BUILTIN {
            let mut findings = Findings::default();
            let root = inrush_yaml::read_plain(text, &mut findings).expect(file);
            assert_eq!(fault(&root, &schema, &schema, file), None);
        }
    }

    #[test]
    fn what_the_reader_refuses_the_schema_refuses() {
        let schema = schema();
        let refused = |rule: &str| {
            let mut findings = Findings::default();
            let text = format!("rules:\n  - {{ name: a, stage: program, {rule} }}\n");
            let root = inrush_yaml::read_plain(&text, &mut findings).expect(rule);
            let read = crate::read("x", &text, &Default::default());
            assert!(read.is_err(), "{rule}");
            fault(&root, &schema, &schema, "x")
        };
        for rule in [
            "wen: {}",
            "when: { programm: a }",
            "set: { indx: a }",
            "then: program",
            "set: { template: t_nothing }",
            "read: [{ regexp: a }]",
        ] {
            assert!(refused(rule).is_some(), "{rule}");
        }
    }
}
