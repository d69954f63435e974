//! Steps that read an event.

use inrush_classify::TextTemplate;
use inrush_classify::pack::EventPart;
use inrush_classify::read::{CaptureGroups, Csv, Kv, ReadStep, StepAction, TimeFormats};
use inrush_yaml::{MapEntry, YamlNode, listed};

use crate::field::PackReader;

const KINDS: [&str; 12] = [
    "regex", "remove", "kv", "csv", "json", "xml", "cef", "leef", "sdata", "time", "tag", "header",
];
pub(crate) const KEYS: &[&str] = &[
    "regex",
    "remove",
    "kv",
    "csv",
    "json",
    "xml",
    "cef",
    "leef",
    "sdata",
    "time",
    "tag",
    "header",
    "trim",
    "in",
    "optional",
    "keep",
    "pair",
    "value",
    "quote",
    "columns",
    "delimiter",
    "greedy",
    "until",
    "format",
    "zone",
];

pub(crate) fn step(node: &YamlNode, reader: &mut PackReader<'_>) -> Option<ReadStep> {
    let entries = reader.entries(node, "a step", KEYS)?;
    let kinds = || KINDS.iter().copied().chain(["trim"]);
    let mut found = entries
        .iter()
        .filter(|entry| kinds().any(|kind| kind == entry.key));
    let (Some(kind), None) = (found.next(), found.next()) else {
        let words = format!(
            "a step does one thing; give one of {}",
            listed(kinds(), "and")
        );
        reader.findings.add(node.at, words);
        return None;
    };
    let option = |name: &str| entries.iter().find(|entry| entry.key == name);
    let flag = |name: &str, reader: &mut PackReader<'_>| {
        option(name).map(|entry| reader.flag(&entry.value, name))
    };
    let regex = matches!(kind.key.as_str(), "regex" | "remove");
    let input = match option("in") {
        Some(entry) => reader.text(&entry.value, "in")?.to_owned(),
        None if regex || kind.value.is_null() || kind.key == "time" => "message".to_owned(),
        None => reader.text(&kind.value, &kind.key)?.to_owned(),
    };
    let input = if input == "true" {
        "message".to_owned()
    } else {
        input
    };
    let optional = flag("optional", reader).unwrap_or(false);
    let keep = flag("keep", reader).unwrap_or(!regex);
    let action = match kind.key.as_str() {
        "regex" => {
            let text = reader.text(&kind.value, "regex")?;
            StepAction::Regex(reader.sound(kind.value.at, CaptureGroups::new(text))?)
        }
        "remove" => {
            let text = reader.text(&kind.value, "remove")?;
            StepAction::Remove(reader.sound(kind.value.at, CaptureGroups::new(text))?)
        }
        "kv" => StepAction::Kv(kv(&option, reader)?),
        "csv" => StepAction::Csv(csv(&option, reader)?),
        "json" => StepAction::Json,
        "xml" => StepAction::Xml,
        "cef" => StepAction::Cef,
        "leef" => StepAction::Leef,
        "sdata" => StepAction::Sdata,
        "time" => time(kind, &option, reader)?,
        "tag" => StepAction::Tag,
        "header" => StepAction::Header,
        _ => StepAction::Trim,
    };
    Some(ReadStep::new(
        action,
        EventPart::named(&input),
        optional,
        keep,
    ))
}

fn bytes(entry: Option<&MapEntry>, default: &str, reader: &mut PackReader<'_>) -> Option<Vec<u8>> {
    let text = match entry {
        Some(entry) => reader.text(&entry.value, &entry.key)?,
        None => default,
    };
    Some(text.replace("\\t", "\t").replace("\\n", "\n").into_bytes())
}

fn kv<'n>(
    option: &dyn Fn(&str) -> Option<&'n MapEntry>,
    reader: &mut PackReader<'_>,
) -> Option<Kv> {
    let pair = bytes(option("pair"), " ", reader)?;
    let value = bytes(option("value"), "=", reader)?;
    let quotes = bytes(option("quote"), "\"'", reader)?;
    let ([value], false) = (value.as_slice(), pair.is_empty()) else {
        if let Some(entry) = option("value").or(option("pair")) {
            let words = "`value` is one character, and `pair` at least one";
            reader.findings.add(entry.value.at, words);
        }
        return None;
    };
    Some(Kv {
        pair,
        value: *value,
        quotes,
        until: option("until").map_or_else(Vec::new, |entry| {
            let names = reader.texts(&entry.value, "until");
            names.into_iter().map(|(name, _)| name.to_owned()).collect()
        }),
    })
}

fn csv<'n>(
    option: &dyn Fn(&str) -> Option<&'n MapEntry>,
    reader: &mut PackReader<'_>,
) -> Option<Csv> {
    let Some(columns) = option("columns") else {
        return None.or_else(|| {
            let at = option("csv").map_or(inrush_yaml::Location::START, |entry| entry.key_at);
            reader.findings.add(at, "`csv` needs `columns: [name, …]`");
            None
        });
    };
    let names = reader.texts(&columns.value, "columns");
    let columns = names.into_iter().map(|(name, _)| name.to_owned()).collect();
    let delimiter = bytes(option("delimiter"), ",", reader)?;
    let quote = bytes(option("quote"), "\"", reader)?.first().copied();
    let greedy = option("greedy").is_some_and(|entry| reader.flag(&entry.value, "greedy"));
    if delimiter.is_empty() {
        return None;
    }
    Some(Csv::new(columns, delimiter, quote, greedy))
}

fn time<'n>(
    kind: &MapEntry,
    option: &dyn Fn(&str) -> Option<&'n MapEntry>,
    reader: &mut PackReader<'_>,
) -> Option<StepAction> {
    let what = reader.text(&kind.value, "time")?;
    let text = if what.contains("${") {
        reader.template(&kind.value, "time")?
    } else {
        let text = TextTemplate::parse(&format!("${{{what}}}"), &|_| String::new());
        reader.sound(kind.value.at, text)?
    };
    let Some(format) = option("format") else {
        let words = "`time` needs `format`, for example `format: \"%Y-%m-%d %H:%M:%S\"`";
        reader.findings.add(kind.key_at, words);
        return None;
    };
    let texts = reader.texts(&format.value, "format");
    let formats = TimeFormats::parse(texts.iter().map(|(text, _)| *text));
    let formats = reader.sound(format.value.at, formats)?;
    let zone = match option("zone") {
        Some(entry) => {
            let text = reader.text(&entry.value, "zone")?;
            Some(reader.zone(text, entry.value.at)?)
        }
        None => None,
    };
    Some(StepAction::Time {
        text,
        formats,
        zone,
    })
}
