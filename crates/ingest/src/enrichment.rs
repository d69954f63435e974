//! Knowledge by which the events of all sources are enriched: one set a configuration.
//!
//! A reload makes a new set; what was learnt (hints, names, counts of failures) goes over to it.

use std::sync::Arc;

use inrush_classify::{CompiledPacks, HostProducts};
use inrush_codec::{SyslogOptions, Zone};
use inrush_event::SourceInfo;

use crate::batch_writer::source::IngestSettings;
use crate::classification::{self, ClassifierContext};
use crate::hostname::{HostNames, ReverseNames};
use crate::options::EnrichmentOptions;
use crate::transform::{FailureCounters, TransformRules};

/// Packs, hints, host names, transforms and routes.
#[derive(Clone)]
pub struct Enrichment {
    /// Compiled rules, shared by the classifiers of all sources; empty if packs are disabled.
    pub packs: Arc<CompiledPacks>,
    /// Products that hosts were recognised as; they outlive a reload.
    hints: Option<Arc<HostProducts>>,
    /// CRC-32C of the options and files of packs; a reload compares it to report changed packs.
    pub fingerprint: u32,
    /// A user's own transforms and routes, and how often their expressions failed.
    pub shape: Option<Arc<TransformRules>>,
    /// Failures of expressions, by rule; a reload keeps them, so that metrics never fall back.
    pub failures: FailureCounters,
    /// The names of senders, if they are wanted. Only who receives has them.
    pub names: Option<Arc<HostNames>>,
    /// The names that DNS has for senders.
    pub dns: Arc<ReverseNames>,
}

impl Enrichment {
    /// Packs, transforms and routes by these options, beside what was learnt before.
    pub fn load(
        options: EnrichmentOptions<'_>,
        before: Option<&Self>,
    ) -> Result<Self, Vec<String>> {
        let loaded = classification::load(options.packs)
            .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        for warning in &loaded.warnings {
            let place = format!("{}:{}", warning.file, warning.at.line);
            tracing::warn!(%place, "{}", warning.words);
        }
        let learnt = || before.and_then(|before| before.hints.clone());
        let hints = options
            .packs
            .remember_hosts
            .then(|| learnt().unwrap_or_else(HostProducts::new));
        let failures = before.map(|before| before.failures.clone());
        let failures = failures.unwrap_or_default();
        let shape = TransformRules::new(options.transforms, options.routes, &failures);
        let shape = shape.map_err(|faults| {
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
            dns: ReverseNames::new(&options.hosts.reverse_dns, before.map(|one| &one.dns)),
        })
    }

    /// [`Self::load`] for who receives: with the names of senders.
    pub fn receiving(
        options: EnrichmentOptions<'_>,
        before: Option<&Self>,
    ) -> Result<Self, Vec<String>> {
        let names = before.and_then(|before| before.names.as_deref());
        let known = Self::load(options, before)?;
        let failed = |error| vec![format!("hosts: names cannot be looked up: {error}")];
        let names = HostNames::open(options, &known.dns, names).map_err(failed)?;
        Ok(Self { names, ..known })
    }

    /// Packs and context by which the events of the source `name` are recognised; `None` if there
    /// are no packs.
    pub fn classifier(
        &self,
        name: &str,
        product: Option<&str>,
        zone: &Zone,
    ) -> Option<ClassifierContext> {
        let (packs, hints) = (&self.packs, self.hints.as_ref());
        ClassifierContext::new(name, product, zone.time_zone(), packs, hints)
    }

    /// Settings of a source. `product` is the one that sends there, as `vendor/product`.
    pub fn settings(
        &self,
        info: SourceInfo,
        product: Option<&str>,
        syslog: &SyslogOptions,
        zone: Zone,
    ) -> IngestSettings {
        IngestSettings {
            recognition: self.classifier(&info.name, product, &zone),
            names: self.names.clone(),
            transforms: self.shape.clone(),
            info: Arc::new(info),
            message_bytes_max: syslog.message_bytes_max(),
            zone,
            guess_timezone: syslog.guess_timezone,
            skew_ns_max: syslog.time_skew_ns_max(),
            encoding: syslog.encoding,
        }
    }
}
