//! Share of SC4S's own recorded answers that Inrush gives: not a cost.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use inrush_harness::lab::{BenchHarness, INRUSH_DIR};
use inrush_harness::measure::{ScenarioCheck, ScenarioResult};
use serde_json::{Value, json};

use super::tell;

/// Folder of the recorded answers, seen from the repository.
const CORPUS: &str = "../shared/corpus/sc4s";

/// The configuration that stands for SC4S's set-up, and the hints that it has.
const CONFIG: &str = include_str!("../../../tests/sc4s/inrush.yaml");
const HINTS: &str = include_str!("../../../tests/sc4s/hints.yaml");

/// Shares that must be reached: index and sourcetype, and all six keys, per cent. What differs by
/// choice counts as reached.
const PLACE_PCT: f64 = 99.0;
const SIX_PCT: f64 = 96.0;

/// Arrival of the messages, in seconds since 1970. SC4S was asked with a clock of its own, and a
/// time of arrival was recorded as this.
const RECEIVED_AT: &str = "1714979289.123456";

/// Messages that are told apart in the report.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum MessageCategory {
    Plain,
    Hints,
    Options,
}

impl MessageCategory {
    fn of(answer: &Value) -> Self {
        match (answer.get("options"), answer.get("hint")) {
            (Some(_), _) => Self::Options,
            (None, Some(_)) => Self::Hints,
            (None, None) => Self::Plain,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Plain => "messages without more",
            Self::Hints => "with a product hint",
            Self::Options => "under options",
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Shares {
    recognised: u64,
    place: [u64; 2],
    six: [u64; 2],
}

impl Shares {
    fn add(&mut self, summary: &Value) {
        let counts = |name: &str| {
            let count = |which| summary[name][which].as_u64().unwrap_or(0);
            [count("same"), count("by_choice")]
        };
        self.recognised += summary["recognised"].as_u64().unwrap_or(0);
        let sums = [
            (&mut self.place, "index_and_sourcetype"),
            (&mut self.six, "six_keys"),
        ];
        for (sum, name) in sums {
            let more = counts(name);
            *sum = [sum[0] + more[0], sum[1] + more[1]];
        }
    }

    fn check(&self, what: &str) -> ScenarioCheck {
        let pct = |count: u64| 100.0 * count as f64 / self.recognised.max(1) as f64;
        let share = |[same, by_choice]: [u64; 2]| {
            let all = pct(same + by_choice);
            format!(
                "{:.1} % the same, {all:.1} % with what differs by choice",
                pct(same)
            )
        };
        let reached = pct(self.place.iter().sum()) >= PLACE_PCT
            && pct(self.six.iter().sum()) >= SIX_PCT
            && self.recognised > 0;
        ScenarioCheck::new(
            format!("{what}: index and sourcetype ≥ {PLACE_PCT} %, all six keys ≥ {SIX_PCT} %"),
            format!(
                "{} recognised by SC4S; index and sourcetype {}; all six keys {}",
                self.recognised,
                share(self.place),
                share(self.six)
            ),
            reached,
        )
    }
}

/// Runs it.
pub(super) fn run(lab: &BenchHarness) -> Result<ScenarioResult> {
    let shows = "SC4S's own recorded answers, compared by `inrush explain --against`; six keys are \
                 index, sourcetype, source, host, time and text";
    tell(shows);
    let answers = answers(Path::new(CORPUS))?;
    let mut groups: BTreeMap<(MessageCategory, String), Vec<&Value>> = BTreeMap::new();
    for answer in &answers {
        let options = answer["options"].to_string();
        let group = groups
            .entry((MessageCategory::of(answer), options))
            .or_default();
        group.push(answer);
    }
    let dir = lab.dir(INRUSH_DIR)?;
    fs::write(dir.join("hints.yaml"), HINTS)?;
    let mut shares: BTreeMap<MessageCategory, Shares> = BTreeMap::new();
    for ((part, _), group) in &groups {
        fs::write(dir.join("inrush.yaml"), configuration(group))?;
        let summary = against(&lab.inrush, &dir, group)?;
        shares.entry(*part).or_default().add(&summary);
    }
    let mut scenario = lab.scenario(shows);
    for (part, shares) in &shares {
        let check = shares.check(part.name());
        tell(&format!("  {}: {}", check.what, check.found));
        scenario.checks.push(check);
    }
    Ok(scenario)
}

/// The answers, with the messages of those that stand in the list of SC4S's own cases.
fn answers(corpus: &Path) -> Result<Vec<Value>> {
    let lines = |name: &str| -> Result<Vec<Value>> {
        let file = corpus.join(name);
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        text.lines()
            .map(|line| Ok(serde_json::from_str(line)?))
            .collect()
    };
    let cases = lines("cases.jsonl")?;
    let cases: BTreeMap<&str, &Value> = cases
        .iter()
        .filter_map(|case| Some((case["id"].as_str()?, case)))
        .collect();
    let mut answers = lines("answers.jsonl")?;
    for answer in &mut answers {
        if let Some(case) = answer["id"].as_str().and_then(|id| cases.get(id)) {
            let transport = case["transport"].as_str().unwrap_or("tcp");
            answer["listener"] = format!("{transport}:{}", case["port"]).into();
            answer["message"] = case["message"].clone();
        }
        answer["sender"] = json!("127.0.0.1");
        answer["received_at"] = json!(RECEIVED_AT);
    }
    Ok(answers)
}

/// The set-up with a listener for each hint and with the options of these answers.
fn configuration(group: &[&Value]) -> String {
    let hint = |one: &&Value| Some((one["hint"].as_str()?.to_owned(), one["port"].to_string()));
    let hints: BTreeSet<_> = group.iter().filter_map(hint).collect();
    let mut sources = String::new();
    for (hint, port) in hints {
        let name = hint.replace(|letter: char| !letter.is_ascii_alphanumeric(), "_");
        sources.push_str(&format!(
            "  hint_{name}: {{ type: syslog, listen: [\"tcp://0.0.0.0:{port}\"], \
             product: {hint}, timezone: UTC }}\n"
        ));
    }
    let options = group.first().and_then(|one| one["options"].as_object());
    let options: Vec<_> = options.into_iter().flatten().collect();
    let is_set = |line: &&str| {
        let own = |name: &str| line.starts_with(&format!("    {name}: "));
        options.iter().any(|(name, _)| own(name))
    };
    let kept: Vec<&str> = CONFIG.lines().filter(|line| !is_set(line)).collect();
    let mut text = kept.join("\n") + "\n";
    let lines = options
        .iter()
        .map(|(name, value)| format!("    {name}: {value}\n"));
    text = text.replace(
        "  options:\n",
        &format!("  options:\n{}", lines.collect::<String>()),
    );
    text.replace("packs:\n", &format!("{sources}packs:\n"))
}

/// The summary that `inrush explain --against` ends with.
fn against(inrush: &Path, dir: &Path, group: &[&Value]) -> Result<Value> {
    let mut child = Command::new(inrush)
        .args(["explain", "-c", "inrush.yaml", "--against", "-", "--json"])
        .current_dir(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| inrush.display().to_string())?;
    let mut stdin = child.stdin.take().context("no pipe")?;
    let input: String = group.iter().map(|one| format!("{one}\n")).collect();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output()?;
    let written = writer
        .join()
        .map_err(|_| anyhow::anyhow!("the writer panicked"))?;
    // 1 says that something differs.
    ensure!(
        matches!(output.status.code(), Some(0 | 1)),
        "{:?}",
        output.status
    );
    written?;
    let text = String::from_utf8(output.stdout)?;
    let last = text.lines().last().context("no answer")?;
    Ok(serde_json::from_str::<Value>(last)?["summary"].take())
}
