//! A file, and its rules.

use std::sync::Arc;

use inrush_classify::Pack;
use inrush_classify::pack::{Branch, PackLocation, Rule, RuleCondition, RuleStage};
use inrush_yaml::Findings;
use inrush_yaml::{Location, YamlNode, listed, quoted};

use crate::PackOptionMap;
use crate::field::PackReader;

pub(crate) const PACK: &[&str] = &["about", "rules", "disable"];
pub(crate) const RULE: &[&str] = &[
    "name", "stage", "begins", "when", "read", "set", "cases", "then", "drop", "over", "order",
    "group", "samples", "sc4s", "about",
];

pub(crate) fn place(at: Location) -> PackLocation {
    PackLocation {
        line: at.line,
        column: at.column,
    }
}

pub(crate) fn pack(
    root: &YamlNode,
    options: &PackOptionMap,
    findings: &mut Findings,
) -> Option<Pack> {
    let mut reader = PackReader { options, findings };
    let mut pack = Pack::default();
    for entry in reader.entries(root, "a pack", PACK)? {
        match entry.key.as_str() {
            "about" => {
                let about = reader.text(&entry.value, "about").unwrap_or_default();
                pack.about = about.to_owned();
            }
            "rules" => {
                for item in reader.items(&entry.value, "rules") {
                    pack.rules.extend(rule(item, &mut reader));
                }
            }
            "disable" => {
                let names = reader.texts(&entry.value, "disable");
                let names = names
                    .into_iter()
                    .map(|(name, at)| (name.to_owned(), place(at)));
                pack.disable = names.collect();
            }
            _ => {}
        }
    }
    Some(pack)
}

fn rule(node: &YamlNode, reader: &mut PackReader<'_>) -> Option<Rule> {
    let entries = reader.entries(node, "a rule", RULE)?;
    let mut rule = Rule {
        name: String::new(),
        at: place(node.at),
        stage: RuleStage::Message,
        order: 0,
        over: false,
        branch: Branch::default(),
        begins: None,
        own: false,
        then: None,
        sc4s: Vec::new(),
        group: None,
        samples: Vec::new(),
    };
    let mut stage_given = false;
    let mut group = None;
    for entry in entries {
        let value = &entry.value;
        match entry.key.as_str() {
            "name" => reader.text(value, "name")?.clone_into(&mut rule.name),
            "stage" => {
                let stage = stage(value, RuleStage::ALL.as_slice(), reader);
                stage_given = true;
                rule.stage = stage?;
            }
            "then" => {
                let stages = RuleStage::ALL.into_iter();
                let entered: Vec<_> = stages.filter(|s| s.is_entered()).collect();
                rule.then = stage(value, &entered, reader);
            }
            "begins" => rule.begins = begins(value, reader),
            "over" => rule.over = reader.flag(value, "over"),
            "order" => match reader.text(value, "order").map(str::parse) {
                Some(Ok(order)) => rule.order = order,
                _ => reader.findings.add(value.at, "`order` is no whole number"),
            },
            "group" => group = crate::group::group(value, reader),
            "sc4s" => {
                let names = reader.texts(value, "sc4s").into_iter();
                rule.sc4s = names.map(|(name, _)| name.to_owned()).collect();
            }
            "samples" => {
                for item in reader.items(value, "samples") {
                    rule.samples.extend(crate::sample::sample(item, reader));
                }
            }
            _ => {
                crate::branch::take(entry, &mut rule.branch, reader);
            }
        }
    }
    if rule.name.is_empty() {
        reader.findings.add(node.at, "a rule needs a `name`");
    }
    must_begin(rule.stage, &rule.branch.when, node.at, reader);
    if let Some(group) = &mut group {
        if stage_given && rule.stage != RuleStage::After {
            let words = "only rules of the stage `after` have a `group`";
            reader.findings.add(node.at, words);
        }
        group.rule.clone_from(&rule.name);
    }
    rule.group = group.map(Arc::new);
    if !stage_given {
        reader.findings.add(node.at, no_stage());
    }
    Some(rule)
}

fn no_stage() -> String {
    let names = listed(RuleStage::ALL.iter().map(|stage| stage.name()), "and");
    format!("a rule needs a `stage`; there are {names}")
}

/// The condition of a rule that is known by how its events begin.
fn begins(node: &YamlNode, reader: &mut PackReader<'_>) -> Option<RuleCondition> {
    let when = crate::branch::when(node, reader);
    must_begin(RuleStage::Begins, &when, node.at, reader);
    (!matches!(when, RuleCondition::Never)).then_some(when)
}

fn must_begin(stage: RuleStage, when: &RuleCondition, at: Location, reader: &mut PackReader<'_>) {
    if stage == RuleStage::Begins && !when.is_beginning() {
        let words = "a rule that is asked before all others says how the program, the message or \
                     the text begins: `message: \"date=*\"`";
        reader.findings.add(at, words);
    }
}

fn stage(node: &YamlNode, known: &[RuleStage], reader: &mut PackReader<'_>) -> Option<RuleStage> {
    let name = reader.text(node, "stage")?;
    let found = RuleStage::named(name).filter(|stage| known.contains(stage));
    if found.is_none() {
        let names = listed(known.iter().map(|stage| stage.name()), "and");
        let words = format!("{} is no stage here; there are {names}", quoted(name));
        reader.findings.add(node.at, words);
    }
    found
}
