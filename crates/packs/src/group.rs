//! Messages of which several make one event.

use std::time::Duration;

use inrush_classify::TextTemplate;
use inrush_classify::group::{GroupOutput, GroupRule, JOINED};
use inrush_yaml::{Location, YamlNode};

use crate::field::PackReader;

pub(crate) const GROUP: &[&str] = &["by", "seconds", "parts", "order", "join", "part", "event"];

/// Keys that there must be, and what they say.
const NEEDED: &[(&str, &str)] = &[
    ("by", "what the parts of one event have in common"),
    ("seconds", "how long the first part waits for the others"),
];

/// The longest that a part may wait: what waits is in memory only.
const SECONDS_MAX: f64 = 300.0;

/// The mapping of `group`; the rule's name is still to be filled in.
pub(crate) fn group(node: &YamlNode, reader: &mut PackReader<'_>) -> Option<GroupRule> {
    let entries = reader.entries(node, "`group`", GROUP)?;
    let mut group = GroupRule {
        rule: String::new(),
        by: Vec::new(),
        wait: Duration::ZERO,
        parts: None,
        order: None,
        join: String::new(),
        event: GroupOutput::Last(None),
    };
    let (mut part, mut event) = (None, None);
    let mut given = Vec::new();
    for entry in entries {
        let (value, key) = (&entry.value, entry.key.as_str());
        given.push((key, entry.key_at));
        match key {
            "by" => {
                for (text, at) in reader.texts(value, "by") {
                    let text = reader.template_text(text, at);
                    group.by.extend(text);
                }
            }
            "seconds" => group.wait = seconds(value, reader).unwrap_or_default(),
            "parts" => group.parts = reader.template(value, key),
            "order" => group.order = reader.template(value, key),
            "join" => reader.text(value, key)?.clone_into(&mut group.join),
            "part" => part = reader.template(value, key),
            "event" => event = reader.template(value, key).map(|text| (text, value.at)),
            _ => {}
        }
    }
    for (key, why) in NEEDED {
        if !given.iter().any(|(known, _)| known == key) {
            let words = format!("`group` needs `{key}`: {why}");
            reader.findings.add(node.at, words);
        }
    }
    group.event = whole(part, event, &given, reader)?;
    Some(group)
}

/// Output of the parts, by the templates `part` and `event`. `given` are the keys of the group.
fn whole(
    part: Option<TextTemplate>,
    event: Option<(TextTemplate, Location)>,
    given: &[(&str, Location)],
    reader: &mut PackReader<'_>,
) -> Option<GroupOutput> {
    Some(match (part, event) {
        (Some(part), None) => GroupOutput::Joined {
            part,
            before: TextTemplate::Fixed(String::new()),
            after: TextTemplate::Fixed(String::new()),
        },
        (Some(part), Some((text, at))) => match text.around(JOINED) {
            Some((before, after)) => GroupOutput::Joined {
                part,
                before,
                after,
            },
            None => {
                let words = "`event` must have `${joined}` in it, once and without filters: \
                    that is where the parts stand";
                reader.findings.add(at, words);
                return None;
            }
        },
        (None, event) => {
            for (key, at) in given {
                if matches!(*key, "parts" | "order" | "join") {
                    let words = format!(
                        "`{key}` needs `part`, the text that each part brings; without it the \
                         last one to come stands for all"
                    );
                    reader.findings.add(*at, words);
                }
            }
            GroupOutput::Last(event.map(|(text, _)| text))
        }
    })
}

fn seconds(node: &YamlNode, reader: &mut PackReader<'_>) -> Option<Duration> {
    let seconds = match reader.template(node, "seconds")? {
        TextTemplate::Fixed(text) => text.parse().ok(),
        TextTemplate::Pieces(_) => None,
    };
    let fits = |seconds: &f64| *seconds > 0.0 && *seconds <= SECONDS_MAX;
    let seconds = seconds.filter(fits);
    if seconds.is_none() {
        let words = format!("`seconds` is no number above 0 and up to {SECONDS_MAX}");
        reader.findings.add(node.at, words);
    }
    seconds.map(Duration::from_secs_f64)
}
