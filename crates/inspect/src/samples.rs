//! Runs the samples of packs: events, and what must come of them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use inrush_classify::pack::{Expectation, PackLocation, PackSample};
use inrush_classify::{CompiledPacks, Pack, PackWarning};
use inrush_config::Config;
use inrush_event::{Anomalies, Timestamp};
use inrush_ingest::classification;
use inrush_yaml::FileProblems;
use serde_json::Value;

use crate::explain::{Explainer, RawRecord, RecordExplanation};

/// Time of receipt of a sample that names none: 2024-05-06T07:08:09.123456Z.
const RECEIVED: Timestamp = Timestamp(1_714_979_289_123_456_000);

/// The least that a source needs.
const CONFIG: &str = "sources: { sample: { type: syslog, listen: [\"tcp://127.0.0.1:0\"] } }\n\
    destinations: { none: { type: blackhole } }\npacks: { enabled: true }\n";

/// Samples to be run, by the origin of their pack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SampleOrigin {
    /// Those of the packs that a configuration names.
    Own,
    /// Those of the packs that come with Inrush.
    Builtin,
}

/// Runs samples. What is returned is what did not come out as it must; and how many samples there
/// are.
///
/// # Errors
/// Everything that is wrong with the packs themselves.
pub fn samples(
    config: &Config,
    whose: SampleOrigin,
) -> Result<(Vec<PackWarning>, usize), FileProblems> {
    let own = classification::read(&config.packs, &config.packs.options)?;
    let mut compiled = PacksByOptions {
        config,
        by_options: BTreeMap::new(),
    };
    let (mut failed, mut count) = (Vec::new(), 0);
    let wanted = |pack: &&Pack| pack.builtin == (whose == SampleOrigin::Builtin);
    for pack in own.iter().filter(wanted) {
        for rule in &pack.rules {
            for sample in &rule.samples {
                count += 1;
                for (at, words) in compiled.run(sample)? {
                    failed.push(PackWarning {
                        file: pack.file.clone(),
                        at,
                        words: format!("a sample of `{}`: {words}", rule.name),
                    });
                }
            }
        }
    }
    Ok((failed, count))
}

/// Packs, compiled for each set of options that samples have.
struct PacksByOptions<'c> {
    config: &'c Config,
    by_options: BTreeMap<Vec<(String, String)>, Arc<CompiledPacks>>,
}

impl PacksByOptions<'_> {
    fn packs(&mut self, given: &[(String, String)]) -> Result<Arc<CompiledPacks>, FileProblems> {
        if let Some(known) = self.by_options.get(given) {
            return Ok(Arc::clone(known));
        }
        // Samples hold whatever the configuration says, so its own options do not count.
        let mut options: inrush_packs::PackOptionMap = given.iter().cloned().collect();
        options
            .entry("fallback".into())
            .or_insert_with(|| "sc4s".into());
        let packs = classification::read(&self.config.packs, &options)?;
        let packs = Arc::new(CompiledPacks::compile(packs, Default::default()).0);
        self.by_options.insert(given.to_vec(), Arc::clone(&packs));
        Ok(packs)
    }

    /// Runs a sample; returns what did not come out as it must.
    fn run(&mut self, sample: &PackSample) -> Result<Vec<(PackLocation, String)>, FileProblems> {
        let Some(mut explainer) = self.explainer(sample)? else {
            return Ok(Vec::new());
        };
        if sample.raw.len() > 1 {
            explainer.group();
        }
        let arrivals = sample.raw.iter().map(|raw| arrival(sample, raw));
        let all: Vec<_> = arrivals
            .map(|arrival| explainer.explain(&arrival))
            .collect();
        let mut envelopes: Vec<_> = all.iter().flat_map(|one| one.envelopes.clone()).collect();
        envelopes.extend(explainer.rest());
        let Some(explained) = all.last() else {
            return Ok(Vec::new());
        };
        if envelopes.len() > 1 {
            let words = format!("{} events came of it, not one", envelopes.len());
            return Ok(vec![(sample.at, words)]);
        }
        let envelope = envelopes.first().map(|hec| serde_json::from_slice(hec));
        let envelope: Value = envelope.and_then(Result::ok).unwrap_or(Value::Null);
        let wrong = sample.expect.iter().filter_map(|expectation| {
            let words = compare(expectation, explained, &envelope)?;
            Some((expectation.at, words))
        });
        Ok(wrong.collect())
    }

    /// Explainer that reads such samples; `None` if there can be none.
    fn explainer(&mut self, sample: &PackSample) -> Result<Option<Explainer>, FileProblems> {
        let packs = self.packs(&sample.options)?;
        let mut config = inrush_config::parse(CONFIG, "samples", &|_| None)?;
        let Some(source) = config.sources[0].as_syslog_mut() else {
            return Ok(None);
        };
        source.product = sample.hint.as_ref().map(|(v, p)| format!("{v}/{p}"));
        let name = sample.listener.as_deref().unwrap_or("sample");
        let source = source.clone();
        Ok(Explainer::new(name, &source, &config, &packs).ok())
    }
}

/// A record of a sample as it comes in.
fn arrival<'a>(sample: &PackSample, raw: &'a str) -> RawRecord<'a> {
    let received = sample
        .received
        .and_then(|at| i64::try_from(at.as_nanosecond()).ok());
    RawRecord {
        bytes: raw.as_bytes(),
        framing: Anomalies::NONE,
        listener: None,
        sender: Some(sample.sender.unwrap_or(IpAddr::from([192, 0, 2, 1]))),
        received: Some(received.map_or(RECEIVED, Timestamp)),
    }
}

/// Difference from the expectation, in words; `None` if it is met.
fn compare(
    expectation: &Expectation,
    explained: &RecordExplanation,
    envelope: &Value,
) -> Option<String> {
    let Expectation { name, value, .. } = expectation;
    let fields = &envelope["fields"];
    let found = match name.as_str() {
        "dropped" => Value::Bool(explained.filtered.is_some()),
        "vendor" => fields["sc4s_vendor"].clone(),
        "product" => fields["sc4s_product"].clone(),
        "class" => fields["sc4s_class"].clone(),
        "time" => return time(value, envelope),
        name => match name.strip_prefix("fields.") {
            Some(field) => fields[field].clone(),
            None => envelope[name].clone(),
        },
    };
    if found == *value || text(&found) == text(value) {
        return None;
    }
    let why = explained.why();
    Some(format!("{name} is {found}, not {value}; {why}"))
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Compares times to the millisecond.
fn time(expected: &Value, envelope: &Value) -> Option<String> {
    let seconds = match expected {
        Value::Number(number) => number.as_f64(),
        other => {
            let text = text(other);
            let stamp = text.parse::<jiff::Timestamp>().ok();
            let stamp = stamp.map(|at| at.as_nanosecond() as f64 / 1e9);
            stamp.or_else(|| text.parse().ok())
        }
    };
    let found: Option<f64> = envelope["time"].as_str().and_then(|text| text.parse().ok());
    match (seconds, found) {
        (Some(a), Some(b)) if (a - b).abs() < 0.000_6 => None,
        _ => Some(format!("time is {}, not {expected}", envelope["time"])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_samples_of_the_packs_that_come_with_inrush_come_out_as_they_say() {
        let config = inrush_config::parse(CONFIG, "test", &|_| None).expect("a configuration");
        let loaded = inrush_ingest::classification::load(&config.packs)
            .unwrap_or_else(|problems| panic!("{problems}"));
        let line =
            |w: &PackWarning| format!("{}:{}:{}: {}", w.file, w.at.line, w.at.column, w.words);
        let warnings: Vec<_> = loaded.warnings.iter().map(line).collect();
        let (failed, count) =
            samples(&config, SampleOrigin::Builtin).unwrap_or_else(|problems| panic!("{problems}"));
        let failed: Vec<_> = failed.iter().map(line).collect();
        assert!(count > 400, "{count} samples");
        assert!(
            failed.is_empty(),
            "{} of {count}:\n{}",
            failed.len(),
            failed.join("\n")
        );
        assert!(warnings.is_empty(), "{}", warnings.join("\n"));
    }
    /// Whoever asks why has every rule asked; otherwise what a program decides is remembered. Both
    /// come to the same, in whatever order events come.
    #[test]
    fn what_is_remembered_changes_nothing() {
        let config = inrush_config::parse(CONFIG, "test", &|_| None).expect("a configuration");
        let packs = inrush_ingest::classification::read(&config.packs, &config.packs.options);
        let packs = packs.unwrap_or_else(|problems| panic!("{problems}"));
        let mut compiled = PacksByOptions {
            config: &config,
            by_options: BTreeMap::new(),
        };
        let samples = || {
            let rules = packs.iter().flat_map(|pack| &pack.rules);
            rules.flat_map(|rule| rule.samples.iter().map(move |sample| (&rule.name, sample)))
        };
        let mut expected = Vec::new();
        let mut remembering = BTreeMap::new();
        for (_, sample) in samples() {
            let explainer = compiled
                .explainer(sample)
                .unwrap_or_else(|problems| panic!("{problems}"));
            expected.push(
                explainer
                    .expect("an explainer")
                    .explain(&arrival(sample, &sample.raw[0]))
                    .hec,
            );
            let key = (
                sample.options.clone(),
                sample.hint.clone(),
                sample.listener.clone(),
            );
            remembering.entry(key).or_insert_with(|| {
                let explainer = compiled
                    .explainer(sample)
                    .unwrap_or_else(|problems| panic!("{problems}"));
                let mut explainer = explainer.expect("an explainer");
                explainer.remember();
                explainer
            });
        }
        // Often enough that programs get classes of their own.
        for _ in 0..20 {
            for ((rule, sample), expected) in samples().zip(&expected) {
                let key = (
                    sample.options.clone(),
                    sample.hint.clone(),
                    sample.listener.clone(),
                );
                let explainer = remembering.get_mut(&key).expect("made above");
                let found = explainer.explain(&arrival(sample, &sample.raw[0])).hec;
                let value =
                    |hec: &[u8]| serde_json::from_slice::<Value>(hec).unwrap_or(Value::Null);
                assert_eq!(value(&found), value(expected), "{rule}: {}", sample.raw[0]);
            }
        }
    }
}
