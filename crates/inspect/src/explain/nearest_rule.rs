//! Reasons that no rule recognised an event: the samples that were kept, read once more.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use inrush_classify::CompiledPacks;
use inrush_config::Config;
use inrush_event::Anomalies;
use inrush_ingest::unclassified::{KindStats, UnclassifiedKind};
use serde::Serialize;

use super::{Explainer, RawRecord, source};

/// A kind of events that no rule recognised: those of a source with one header format and one
/// program.
#[derive(Clone, Debug, Serialize)]
pub struct UnknownStatus {
    /// The source that they came to.
    pub source: String,
    /// Format of their header: `rfc3164`, `rfc5424`, `cisco`, `unparsed`.
    pub format: &'static str,
    /// The program, cut after 64 bytes; empty if there is none.
    pub program: String,
    /// Events since the kind was first noted.
    pub events: u64,
    /// Time at which the kind was first noted, in nanoseconds since 1970.
    pub first_seen_ns: i64,
    /// Time at which the last one came, in nanoseconds since 1970.
    pub last_seen_ns: i64,
    /// Address of the sender of the sample.
    pub sender: Option<IpAddr>,
    /// The first event as it came, cut after 2 KiB; what is not UTF-8 is shown as U+FFFD.
    pub sample: String,
    /// The rule that came nearest to recognising it; `None` if none asks for anything in it.
    pub nearest: Option<NearestRule>,
    /// The rules that recognise it by now, joined by `|`; `None` while none does.
    pub recognised_by: Option<String>,
}

/// A rule that did not recognise an event.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct NearestRule {
    /// Its name.
    pub rule: String,
    /// Reason that it did not match, in words.
    pub why: String,
}

/// Each kind with what the rules of now say of its sample.
pub fn unknown(
    config: &Config,
    packs: &Arc<CompiledPacks>,
    kinds: Vec<(UnclassifiedKind, KindStats)>,
) -> Vec<UnknownStatus> {
    let mut explainers: HashMap<Arc<str>, Option<Explainer>> = HashMap::new();
    let status = |(kind, seen): (UnclassifiedKind, KindStats)| {
        let explainer = explainers.entry(Arc::clone(&kind.source));
        let explainer = explainer.or_insert_with(|| explainer_of(config, packs, &kind.source));
        let (nearest, recognised_by) = match explainer {
            Some(explainer) => reasons(explainer, &seen),
            None => (None, None),
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        UnknownStatus {
            source: kind.source.to_string(),
            format: kind.format.name(),
            program: text(&kind.program),
            events: seen.events,
            first_seen_ns: seen.first.0,
            last_seen_ns: seen.last.0,
            sender: seen.sender,
            sample: text(&seen.sample),
            nearest,
            recognised_by,
        }
    };
    kinds.into_iter().map(status).collect()
}

/// As the source reads records now; `None` if it is gone.
fn explainer_of(config: &Config, packs: &Arc<CompiledPacks>, name: &str) -> Option<Explainer> {
    let (name, options) = source(config, Some(name)).ok()?;
    Explainer::new(name, options, config, packs).ok()
}

/// The rule that came nearest and what failed, or the rules that recognise the sample by now.
fn reasons(explainer: &mut Explainer, seen: &KindStats) -> (Option<NearestRule>, Option<String>) {
    // No sample is to be recognised by what another one taught.
    explainer.forget();
    let explained = explainer.explain(&RawRecord {
        bytes: &seen.sample,
        framing: Anomalies::NONE,
        sender: seen.sender,
        listener: None,
        received: Some(seen.first),
    });
    if !explained.fell {
        let rules = explained.filtered.as_deref().unwrap_or(explained.rules());
        return (None, Some(rules.to_owned()));
    }
    let nearest = explained.nearest().map(|(rule, why)| NearestRule {
        rule: rule.to_owned(),
        why,
    });
    (nearest, None)
}
