//! Recorded answers of SC4S itself, compared by `inrush explain --against`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use inrush_tests::*;
use serde_json::{Value, json};

use crate::packs::inrush;

/// Shares that must be reached of what SC4S recognises: index and sourcetype, and all six keys.
/// A difference by choice counts as reached.
const PLACE_MIN: f64 = 0.995;
const SIX_MIN: f64 = 0.99;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpus/sc4s")
}

pub(crate) fn lines(file: &str) -> Option<Vec<Value>> {
    let text = fs::read_to_string(corpus().join(file)).ok()?;
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    Some(lines.collect())
}

/// The configuration of the corpus, with a source for each hint and these options.
pub(crate) fn configuration(answers: &[Value], options: &Value) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("sc4s");
    let text = fs::read_to_string(root.join("inrush.yaml")).unwrap();
    let mut sources = String::new();
    let hints = answers
        .iter()
        .filter_map(|line| Some((line["hint"].as_str()?, &line["port"])));
    for (hint, port) in hints.collect::<BTreeMap<_, _>>() {
        let name = hint.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        sources.push_str(&format!(
            "  hint_{name}: {{ type: syslog, listen: [\"tcp://0.0.0.0:{port}\"], product: {hint}, \
             timezone: UTC }}\n"
        ));
    }
    let text = text.replace("packs:\n", &format!("{sources}packs:\n"));
    let mut more = String::new();
    let mut kept = text;
    for (name, value) in options.as_object().into_iter().flatten() {
        let own = format!("    {name}: ");
        kept = kept
            .lines()
            .filter(|line| !line.starts_with(&own))
            .map(|l| l.to_owned() + "\n")
            .collect();
        more.push_str(&format!("{own}{value}\n"));
    }
    let kept = kept.replace("  options:\n", &format!("  options:\n{more}"));
    kept.replace(
        "files: [hints.yaml]",
        &format!("files: [{}]", root.join("hints.yaml").display()),
    )
}

/// Asks, and returns what differs and the summary.
fn against(dir: &Path, config: &str, answers: &[Value]) -> (Vec<Value>, Value) {
    fs::write(dir.join("inrush.yaml"), config).unwrap();
    let input: String = answers.iter().map(|line| format!("{line}\n")).collect();
    let args = ["explain", "-c", "inrush.yaml", "--against", "-", "--json"];
    let output = inrush(&args, dir, &input);
    assert!(
        output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    let mut said: Vec<Value> = text
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let summary = said.pop().unwrap()["summary"].take();
    (said, summary)
}

#[test]
fn what_sc4s_recognises_comes_out_as_there() {
    let (Some(cases), Some(mut answers)) = (lines("cases.jsonl"), lines("answers.jsonl")) else {
        skip!("the corpus ../shared/corpus/sc4s is not here");
    };
    let cases: BTreeMap<&str, &Value> = cases
        .iter()
        .map(|c| (c["id"].as_str().unwrap(), c))
        .collect();
    for line in &mut answers {
        if let Some(case) = cases.get(line["id"].as_str().unwrap()) {
            let (transport, port) = (case["transport"].as_str().unwrap(), &case["port"]);
            line["message"] = case["message"].clone();
            line["listener"] = format!("{transport}:{port}").into();
        }
        line["sender"] = json!("127.0.0.1");
        line["received_at"] = json!("1714979289.123456");
    }
    let mut by_options: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for line in &answers {
        by_options
            .entry(line["options"].to_string())
            .or_default()
            .push(line.clone());
    }
    let dir = tempfile::tempdir().unwrap();
    let (mut recognised, mut place, mut six) = (0, 0, 0);
    let mut failed = Vec::new();
    for some in by_options.values() {
        let config = configuration(&answers, &some[0]["options"]);
        let (differ, summary) = against(dir.path(), &config, some);
        let share = |name: &str| {
            let count = |which| summary[name][which].as_u64().unwrap();
            count("same") + count("by_choice")
        };
        recognised += summary["recognised"].as_u64().unwrap();
        place += share("index_and_sourcetype");
        six += share("six_keys");
        failed.extend(differ);
    }
    // With a sourcetype that only a fallback gives, and no reason of ours for it.
    let falls = |one: &&Value| {
        let last = one["rule"].as_str().unwrap().rsplit('|').next().unwrap();
        let kind = &one["keys"]["sourcetype"];
        last.starts_with("fallback_") && kind["by_choice"].is_null() && !kind.is_null()
    };
    let fell: Vec<&Value> = failed.iter().filter(falls).collect();
    assert!(
        fell.is_empty(),
        "what SC4S recognises falls back: {fell:#?}"
    );
    let [place, six] = [place, six].map(|count| count as f64 / recognised as f64);
    eprintln!("{recognised} recognised: {place:.4} index and sourcetype, {six:.4} all six keys");
    let ids: Vec<&Value> = failed.iter().map(|one| &one["id"]).collect();
    assert!(
        place >= PLACE_MIN && six >= SIX_MIN,
        "{place:.4}, {six:.4}: {ids:?}"
    );
}
