//! The user's own expressions: transforms change or filter events, routes choose their
//! destinations.
//!
//! # What it guarantees
//! * An expression that fails for an event leaves it as it was, and is counted by rule; a route
//!   whose condition fails does not match.
//! * The first route that matches decides. What no route matches is filtered, and counted.
//! * Without transforms and routes nothing is done, and everything goes to every destination.

mod split;
mod transformer;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use inrush_cel::{CompileError, EvaluationError, Program, ResultKind};
use inrush_event::{Counter, ExtraKey};

use crate::options::{RouteOptions, SetOptions, TransformOptions};

pub use split::BatchRouting;
pub use transformer::EventTransformer;

/// The rule that events are filtered by which no route matches.
pub const UNROUTED: &str = "unrouted";

/// A place in the configuration, and what is wrong there.
pub type ExpressionFault = (String, CompileError);

/// Compiled transforms and routes, which all events pass; shared by all workers.
#[derive(Debug)]
pub struct TransformRules {
    transforms: Vec<TransformRule>,
    routes: Vec<RouteRule>,
}

/// Name of a transform or route, and the number of times that its expressions failed.
#[derive(Debug)]
struct RuleStatus {
    name: String,
    failed: Arc<Counter>,
    /// True once a failure was logged; only the first one is.
    said: AtomicBool,
}

#[derive(Debug)]
struct TransformRule {
    rule: RuleStatus,
    condition: Option<Program>,
    drop: bool,
    texts: Vec<(TransformTarget, Program)>,
    fields: Vec<(String, Program)>,
}

/// Target of a transform's expression, beside fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TransformTarget {
    /// A value of the event's own, which goes before that of its class.
    Extra(ExtraKey),
    Host,
    Message,
}

#[derive(Debug)]
struct RouteRule {
    rule: RuleStatus,
    condition: Option<Program>,
    to: Arc<[String]>,
}

/// Failures by rule; they outlive a reload.
#[derive(Clone, Debug, Default)]
pub struct FailureCounters(Arc<Mutex<BTreeMap<String, Arc<Counter>>>>);

impl FailureCounters {
    fn of(&self, rule: &str) -> Arc<Counter> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry(rule.to_owned()).or_default())
    }

    /// By rule, without those that never failed.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = known
            .iter()
            .map(|(rule, counter)| (rule.clone(), counter.get()));
        counts.filter(|(_, count)| *count > 0).collect()
    }
}

impl RuleStatus {
    fn new(name: Option<&String>, place: &str, failures: &FailureCounters) -> Self {
        let name = name.map_or(place, String::as_str);
        Self {
            name: name.to_owned(),
            failed: failures.of(name),
            said: AtomicBool::new(false),
        }
    }

    /// Counts a failure; the first one is said.
    fn fail(&self, error: &EvaluationError) {
        self.failed.add(1);
        if !self.said.swap(true, Ordering::Relaxed) {
            let rule = &self.name;
            tracing::warn!(%rule, %error, "an expression fails; such events pass it as they are");
        }
    }
}

impl TransformRules {
    /// Compiles transforms and routes; `None` if there are none.
    ///
    /// # Errors
    /// Each expression that cannot be used, with its place.
    pub fn new(
        transforms: &[TransformOptions],
        routes: &[RouteOptions],
        failures: &FailureCounters,
    ) -> Result<Option<Self>, Vec<ExpressionFault>> {
        let (wanted_transforms, wanted_routes) = (transforms, routes);
        let mut faults = Vec::new();
        let mut compile = |place: String, written: &String, kind| {
            let compiled = Program::compile(written, kind);
            compiled.map_err(|fault| faults.push((place, fault))).ok()
        };
        let mut transforms = Vec::new();
        for (at, options) in wanted_transforms.iter().enumerate() {
            let place = format!("transforms[{at}]");
            let condition = options.condition.as_ref().and_then(|written| {
                compile(format!("{place}.match"), written, ResultKind::Condition)
            });
            let texts = texts(&options.set)
                .into_iter()
                .filter_map(|(name, target, written)| {
                    let program =
                        compile(format!("{place}.set.{name}"), written?, ResultKind::Value)?;
                    Some((target, program))
                });
            let texts = texts.collect();
            let fields = options.set.fields.iter().filter_map(|(name, written)| {
                let place = format!("{place}.set.fields.{name}");
                Some((name.clone(), compile(place, written, ResultKind::Value)?))
            });
            let fields = fields.collect();
            transforms.push(TransformRule {
                rule: RuleStatus::new(options.name.as_ref(), &place, failures),
                condition,
                drop: options.drop,
                texts,
                fields,
            });
        }
        let mut routes = Vec::new();
        for (at, options) in wanted_routes.iter().enumerate() {
            let place = format!("routes[{at}]");
            let condition = options.condition.as_ref().and_then(|written| {
                compile(format!("{place}.match"), written, ResultKind::Condition)
            });
            routes.push(RouteRule {
                rule: RuleStatus::new(options.name.as_ref(), &place, failures),
                condition,
                to: options.to.iter().cloned().collect(),
            });
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let any = !transforms.is_empty() || !routes.is_empty();
        Ok(any.then_some(Self { transforms, routes }))
    }
}

fn texts(set: &SetOptions) -> [(&'static str, TransformTarget, Option<&String>); 6] {
    let extra = |key| TransformTarget::Extra(key);
    [
        ("index", extra(ExtraKey::Index), set.index.as_ref()),
        (
            "sourcetype",
            extra(ExtraKey::Sourcetype),
            set.sourcetype.as_ref(),
        ),
        ("source", extra(ExtraKey::Source), set.source.as_ref()),
        ("host", TransformTarget::Host, set.host.as_ref()),
        ("message", TransformTarget::Message, set.message.as_ref()),
        ("event", extra(ExtraKey::Event), set.event.as_ref()),
    ]
}
