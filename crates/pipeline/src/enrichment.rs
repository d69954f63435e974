//! Knowledge by which the events of all sources are enriched: one set a configuration.
//!
//! A reload makes a new set; what was learnt (hints, names, counts of failures) goes over to it.

use std::sync::Arc;

use inrush_classify::{Hints, Packs};
use inrush_codec::Zone;

use crate::config::{Config, SyslogSource};
use crate::names::Names;
use crate::recognise::{self, Recognition};
use crate::shape::{Failures, Shape};

/// Packs, hints, host names, transforms and routes.
#[derive(Clone)]
pub(crate) struct Enrichment {
    pub(crate) packs: Arc<Packs>,
    /// Products that hosts were recognised as; they outlive a reload.
    hints: Option<Arc<Hints>>,
    pub(crate) fingerprint: u32,
    /// A user's own transforms and routes, and how often their expressions failed.
    pub(crate) shape: Option<Arc<Shape>>,
    pub(crate) failures: Failures,
    /// The names of senders, if they are wanted. Only who receives has them.
    pub(crate) names: Option<Arc<Names>>,
}

impl Enrichment {
    /// The packs that a configuration names, beside what was learnt before.
    pub(crate) fn load(config: &Config, before: Option<&Self>) -> Result<Self, Vec<String>> {
        let loaded = recognise::load(config)
            .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        for warning in &loaded.warnings {
            let place = format!("{}:{}", warning.file, warning.at.line);
            tracing::warn!(%place, "{}", warning.words);
        }
        let learnt = || before.and_then(|before| before.hints.clone());
        let hints = config
            .packs
            .remember_hosts
            .then(|| learnt().unwrap_or_else(Hints::new));
        let failures = before.map(|before| before.failures.clone());
        let failures = failures.unwrap_or_default();
        let shape = Shape::new(config, &failures).map_err(|faults| {
            let words = |(place, fault)| format!("{place}: {fault}");
            faults.into_iter().map(words).collect::<Vec<_>>()
        })?;
        Ok(Self {
            packs: loaded.packs,
            hints,
            fingerprint: loaded.fingerprint,
            shape: shape.map(Arc::new),
            failures,
            names: None,
        })
    }

    /// [`Self::load`] for who receives: with the names of senders.
    pub(crate) fn receiving(config: &Config, before: Option<&Self>) -> Result<Self, Vec<String>> {
        let names = before.and_then(|before| before.names.as_deref());
        let known = Self::load(config, before)?;
        let failed = |error| vec![format!("hosts: names cannot be looked up: {error}")];
        let names = Names::open(config, names).map_err(failed)?;
        Ok(Self { names, ..known })
    }

    pub(crate) fn of(&self, name: &str, source: &SyslogSource, zone: &Zone) -> Option<Recognition> {
        let zone = zone.time_zone();
        Recognition::new(name, source, zone, &self.packs, self.hints.as_ref())
    }
}
