//! Reasons that no rule recognised an event: the samples that were kept, read once more.

use std::collections::HashMap;
use std::sync::Arc;

use inrush_classify::Packs;
use inrush_event::Anomalies;

use super::{Arrival, Explainer, source};
use crate::admin::{NearestRule, UnknownStatus};
use crate::config::Config;
use crate::unknown::{Kind, Seen};

/// Each kind with what the rules of now say of its sample.
pub(crate) fn unknown(
    config: &Config,
    packs: &Arc<Packs>,
    kinds: Vec<(Kind, Seen)>,
) -> Vec<UnknownStatus> {
    let mut explainers: HashMap<Arc<str>, Option<Explainer>> = HashMap::new();
    let status = |(kind, seen): (Kind, Seen)| {
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
fn explainer_of(config: &Config, packs: &Arc<Packs>, name: &str) -> Option<Explainer> {
    let (name, options) = source(config, Some(name)).ok()?;
    Explainer::new(name, options, config, packs).ok()
}

/// The rule that came nearest and what failed, or the rules that recognise the sample by now.
fn reasons(explainer: &mut Explainer, seen: &Seen) -> (Option<NearestRule>, Option<String>) {
    // No sample is to be recognised by what another one taught.
    explainer.forget();
    let explained = explainer.explain(&Arrival {
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
