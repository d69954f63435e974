//! Compares what comes of messages with what another receiver, SC4S mostly, made of them.
//!
//! Answers are JSON lines: `message`, where it came to (`listener`, or `port` over TCP), `sender`
//! and `received_at` where they count, and `answers`, the events that came of it: none if it was
//! dropped. An answer is an object with [`KEYS`], or the HEC envelope itself. Each message is
//! looked at alone, as with `--fresh`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use inrush_inspect::explain::RecordExplanation;
use serde_json::{Map, Value, json};

use super::deliberate::{self, DeliberateKind};

/// Keys that are compared, in this order. Searches and `props.conf` hang on the first six.
pub(super) const KEYS: [&str; 9] = [
    "index",
    "sourcetype",
    "source",
    "host",
    "time",
    "event",
    "vendor",
    "product",
    "class",
];

/// Of [`KEYS`], those that say where an event goes and what reads it.
const PLACE: usize = 2;
/// Of [`KEYS`], those that searches see.
const SEEN: usize = 6;

/// One has an event where the other has none.
pub(super) const EVENT_COUNT: &str = "events";

/// Sourcetypes of what SC4S did not recognise.
const FALLBACKS: [&str; 5] = ["sc4s:fallback", "nix:syslog", "json", "cef", "leef"];

/// The definition's name where an answer does not say which took the message.
const UNNAMED: &str = "-";

/// Applications of SC4S that repair a header or name a fallback; another one took the event.
const HEADERS: [&str; 4] = ["app-raw", "app-almost", "app-fix", "app-fallback"];

/// An event, as far as it is compared.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ComparedEvent([String; KEYS.len()]);

impl ComparedEvent {
    /// Of an object with the keys, or of an envelope.
    pub(super) fn read(object: &Value) -> Self {
        Self(KEYS.map(|key| {
            let value = match key {
                "vendor" | "product" | "class" => {
                    let field = &object["fields"][format!("sc4s_{key}")];
                    if field.is_null() { &object[key] } else { field }
                }
                _ => &object[key],
            };
            match (key, value) {
                (_, Value::Null) => String::new(),
                ("time", value) => milliseconds(value),
                (_, Value::String(text)) => text.clone(),
                (_, value) => value.to_string(),
            }
        }))
    }

    /// The value of a key.
    pub(super) fn get(&self, key: &str) -> &str {
        let at = KEYS.iter().position(|one| *one == key);
        at.map_or("", |at| &self.0[at])
    }

    fn is_fallback(&self) -> bool {
        FALLBACKS.contains(&self.get("sourcetype"))
    }
}

/// Epoch seconds, as a number or a text, to the millisecond.
fn milliseconds(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    match text.parse::<f64>() {
        Ok(seconds) => format!("{seconds:.3}"),
        Err(_) => text,
    }
}

/// A key that differs.
pub(super) struct Difference<'a> {
    /// The message.
    pub(super) message: &'a str,
    /// A key of [`KEYS`].
    pub(super) key: &'static str,
    /// The whole event there.
    pub(super) there: &'a ComparedEvent,
    /// The whole event here.
    pub(super) here: &'a ComparedEvent,
}

/// Messages of one definition, and those that differ by key.
#[derive(Default)]
struct DefinitionRow {
    messages: u64,
    differ: u64,
    by_key: [u64; KEYS.len()],
    events: u64,
}

/// Messages that are the same in some keys.
#[derive(Default)]
struct MatchShare {
    same: u64,
    by_choice: u64,
}

/// Sums of the comparison so far.
#[derive(Default)]
pub(super) struct Compared {
    recognised: u64,
    place: MatchShare,
    seen: MatchShare,
    /// Left to a fallback there, and those of them that are recognised here.
    fell: [u64; 2],
    by_definition: BTreeMap<String, DefinitionRow>,
    by_choice: BTreeMap<&'static str, u64>,
}

impl Compared {
    /// Compares one message, and writes a line of JSON about it if it differs and `each` is set.
    ///
    /// # Errors
    /// The line cannot be written.
    pub(super) fn add(
        &mut self,
        line: &Value,
        explained: &RecordExplanation,
        each: Option<&mut dyn Write>,
    ) -> anyhow::Result<()> {
        let there: Vec<ComparedEvent> = line["answers"]
            .as_array()
            .map(|answers| answers.iter().map(ComparedEvent::read).collect())
            .unwrap_or_default();
        let here = explained
            .envelopes
            .iter()
            .map(|one| serde_json::from_slice(one));
        let here = here.collect::<Result<Vec<Value>, _>>()?;
        let here: Vec<ComparedEvent> = here.iter().map(ComparedEvent::read).collect();
        if there.last().is_some_and(ComparedEvent::is_fallback) {
            self.fell[0] += 1;
            self.fell[1] += u64::from(!here.last().is_some_and(ComparedEvent::is_fallback));
            return Ok(());
        }
        let message = line["message"].as_str().unwrap_or_default();
        let decided = decided(line);
        let found = differences(message, &there, &here);
        let definition = definition(&decided);
        self.count(definition, &found);
        if let Some(out) = each
            && !found.is_empty()
        {
            let object = json!({
                "id": line["id"], "definition": definition, "rule": explained.rules(),
                "message": message, "keys": keys(&found, there.last(), here.last()),
            });
            serde_json::to_writer(&mut *out, &object)?;
            out.write_all(b"\n")?;
        }
        Ok(())
    }

    fn count(&mut self, definition: &str, found: &[DifferenceFinding]) {
        self.recognised += 1;
        let is_seen =
            |one: &&DifferenceFinding| one.key == EVENT_COUNT || KEYS[..SEEN].contains(&one.key);
        let is_place =
            |one: &&DifferenceFinding| one.key == EVENT_COUNT || KEYS[..PLACE].contains(&one.key);
        self.place.count(found.iter().filter(is_place));
        self.seen.count(found.iter().filter(is_seen));
        let row = self.by_definition.entry(definition.to_owned()).or_default();
        row.messages += 1;
        row.differ += u64::from(found.iter().any(|one| one.kind.is_none()));
        for one in found {
            match (one.kind, KEYS.iter().position(|key| *key == one.key)) {
                (Some(kind), _) => *self.by_choice.entry(kind.name).or_default() += 1,
                (None, Some(at)) => row.by_key[at] += 1,
                (None, None) => row.events += 1,
            }
        }
    }

    /// True if nothing differs but what differs by choice.
    pub(super) fn is_same(&self) -> bool {
        self.by_definition.values().all(|row| row.differ == 0)
    }

    /// All of it as one JSON object.
    pub(super) fn to_json(&self) -> Value {
        let share =
            |share: &MatchShare| json!({ "same": share.same, "by_choice": share.by_choice });
        let rows = self.by_definition.iter().map(|(name, row)| {
            let mut keys: Map<String, Value> = KEYS
                .iter()
                .zip(row.by_key)
                .map(|(key, count)| ((*key).to_owned(), count.into()))
                .collect();
            keys.insert(EVENT_COUNT.to_owned(), row.events.into());
            let row = json!({ "messages": row.messages, "differ": row.differ, "keys": keys });
            (name.clone(), row)
        });
        json!({ "summary": {
            "recognised": self.recognised,
            "index_and_sourcetype": share(&self.place),
            "six_keys": share(&self.seen),
            "fell_back_there": self.fell[0], "of_them_recognised_here": self.fell[1],
            "by_choice": self.by_choice,
            "definitions": rows.collect::<Map<_, _>>(),
        }})
    }

    /// The shares, and a table of the definitions that differ, the worst first.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let [fell, recognised] = self.fell;
        writeln!(
            out,
            "{} messages that were recognised there; {fell} left to a fallback, {recognised} of \
             them recognised here\n",
            self.recognised
        )?;
        writeln!(
            out,
            "{:18} {:>8} {:>10} {:>8}",
            "", "same", "by choice", "differ"
        )?;
        for (name, share) in [
            ("index, sourcetype", &self.place),
            ("all six keys", &self.seen),
        ] {
            let differ = self.recognised - share.same - share.by_choice;
            let [same, choice, differ] = [share.same, share.by_choice, differ]
                .map(|count| 100.0 * count as f64 / self.recognised.max(1) as f64);
            writeln!(
                out,
                "{name:18} {same:>6.1} % {choice:>8.1} % {differ:>6.1} %"
            )?;
        }
        self.table(out)?;
        if !self.by_choice.is_empty() {
            writeln!(out, "\nby choice (docs/guides/sc4s.md):")?;
        }
        for (kind, count) in &self.by_choice {
            writeln!(out, "  {kind:36} {count:>6}")?;
        }
        Ok(())
    }

    fn table(&self, out: &mut impl Write) -> io::Result<()> {
        let mut rows: Vec<_> = self.by_definition.iter().collect();
        rows.retain(|(_, row)| row.differ > 0);
        rows.sort_by_key(|(name, row)| (std::cmp::Reverse(row.differ), name.as_str()));
        if rows.is_empty() {
            return Ok(());
        }
        let wide = rows.iter().map(|(name, _)| name.chars().count()).max();
        let wide = wide.unwrap_or_default();
        write!(
            out,
            "\n{:wide$} {:>8} {:>6}",
            "definition", "messages", "differ"
        )?;
        for key in KEYS.iter().chain([&EVENT_COUNT]) {
            write!(out, " {key:>10}")?;
        }
        writeln!(out)?;
        for (name, row) in rows {
            write!(out, "{name:wide$} {:>8} {:>6}", row.messages, row.differ)?;
            for count in row.by_key.iter().chain([&row.events]) {
                let count = match count {
                    0 => ".".to_owned(),
                    count => count.to_string(),
                };
                write!(out, " {count:>10}")?;
            }
            writeln!(out)?;
        }
        Ok(())
    }
}

impl MatchShare {
    fn count<'a>(&mut self, found: impl Iterator<Item = &'a DifferenceFinding>) {
        let (mut any, mut all_by_choice) = (false, true);
        for one in found {
            (any, all_by_choice) = (true, all_by_choice && one.kind.is_some());
        }
        self.same += u64::from(!any);
        self.by_choice += u64::from(any && all_by_choice);
    }
}

/// A key that differs, and the kind by which it is meant to.
struct DifferenceFinding {
    key: &'static str,
    kind: Option<&'static DeliberateKind>,
}

fn differences(
    message: &str,
    there: &[ComparedEvent],
    here: &[ComparedEvent],
) -> Vec<DifferenceFinding> {
    let (there, here) = match (there, here) {
        ([], []) => return Vec::new(),
        ([.., there], [.., here]) => (there, here),
        _ => {
            let none = ComparedEvent::default();
            let kind = deliberate::of(&Difference {
                message,
                key: EVENT_COUNT,
                there: there.last().unwrap_or(&none),
                here: here.last().unwrap_or(&none),
            });
            let key = EVENT_COUNT;
            return vec![DifferenceFinding { key, kind }];
        }
    };
    let differ = KEYS
        .into_iter()
        .filter(|key| !is_same(key, there.get(key), here.get(key)));
    let found = differ.map(|key| DifferenceFinding {
        key,
        kind: deliberate::of(&Difference {
            message,
            key,
            there,
            here,
        }),
    });
    found.collect()
}

/// Texts that are JSON objects are the same in whatever order their members stand.
fn is_same(key: &str, there: &str, here: &str) -> bool {
    let object = |text| serde_json::from_str::<Map<String, Value>>(text).ok();
    there == here
        || (key == "event" && there.starts_with('{') && here.starts_with('{'))
            && object(there).is_some_and(|there| Some(there) == object(here))
}

/// The applications that took the message there.
fn decided(line: &Value) -> Vec<&str> {
    let answer = line["answers"]
        .as_array()
        .and_then(|answers| answers.last());
    let decided = answer.and_then(|answer| answer["decided"].as_array());
    decided
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// Of these, the one that says what the message is.
fn definition<'a>(decided: &[&'a str]) -> &'a str {
    let is_header = |name: &&&str| HEADERS.iter().any(|begin| name.starts_with(begin));
    let found = decided.iter().find(|name| !is_header(name));
    found.or(decided.last()).map_or(UNNAMED, |name| name)
}

fn keys(
    found: &[DifferenceFinding],
    there: Option<&ComparedEvent>,
    here: Option<&ComparedEvent>,
) -> Map<String, Value> {
    let value =
        |answer: Option<&ComparedEvent>, key| answer.map(|answer| answer.get(key).to_owned());
    let one = |one: &DifferenceFinding| {
        let (there, here) = match one.key {
            EVENT_COUNT => (json!(there.is_some()), json!(here.is_some())),
            key => (value(there, key).into(), value(here, key).into()),
        };
        let by_choice = one.kind.map(|kind| kind.name);
        let object = json!({ "there": there, "here": here, "by_choice": by_choice });
        (one.key.to_owned(), object)
    };
    found.iter().map(one).collect()
}
