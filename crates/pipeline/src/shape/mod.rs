//! The user's own expressions: transforms change or filter events, routes choose their
//! destinations.
//!
//! # What it guarantees
//! * An expression that fails for an event leaves it as it was, and is counted by rule; a route
//!   whose condition fails does not match.
//! * The first route that matches decides. What no route matches is filtered, and counted.
//! * Without transforms and routes nothing is done, and everything goes to every destination.

mod shaper;
mod split;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use inrush_cel::{CompileError, Error, Kind, Program};
use inrush_event::{Counter, ExtraKey};

use crate::config::{Config, SetOptions};

pub(crate) use shaper::Shaper;
pub(crate) use split::Routing;

/// The rule that events are filtered by which no route matches.
pub(crate) const UNROUTED: &str = "unrouted";

/// A place in the configuration, and what is wrong there.
pub(crate) type Fault = (String, CompileError);

/// Compiled transforms and routes, which all events pass; shared by all workers.
#[derive(Debug)]
pub(crate) struct Shape {
    transforms: Vec<Transform>,
    routes: Vec<Route>,
}

/// Name of a transform or route, and the number of times that its expressions failed.
#[derive(Debug)]
struct Rule {
    name: String,
    failed: Arc<Counter>,
    /// True once a failure was logged; only the first one is.
    said: AtomicBool,
}

#[derive(Debug)]
struct Transform {
    rule: Rule,
    condition: Option<Program>,
    drop: bool,
    texts: Vec<(Target, Program)>,
    fields: Vec<(String, Program)>,
}

/// Target of a transform's expression, beside fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Target {
    /// A value of the event's own, which goes before that of its class.
    Extra(ExtraKey),
    Host,
    Message,
}

#[derive(Debug)]
struct Route {
    rule: Rule,
    condition: Option<Program>,
    to: Arc<[String]>,
}

/// Failures by rule; they outlive a reload.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failures(Arc<Mutex<BTreeMap<String, Arc<Counter>>>>);

impl Failures {
    fn of(&self, rule: &str) -> Arc<Counter> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry(rule.to_owned()).or_default())
    }

    /// By rule, without those that never failed.
    pub(crate) fn counts(&self) -> BTreeMap<String, u64> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = known
            .iter()
            .map(|(rule, counter)| (rule.clone(), counter.get()));
        counts.filter(|(_, count)| *count > 0).collect()
    }
}

impl Rule {
    fn new(name: Option<&String>, place: &str, failures: &Failures) -> Self {
        let name = name.map_or(place, String::as_str);
        Self {
            name: name.to_owned(),
            failed: failures.of(name),
            said: AtomicBool::new(false),
        }
    }

    /// Counts a failure; the first one is said.
    fn fail(&self, error: &Error) {
        self.failed.add(1);
        if !self.said.swap(true, Ordering::Relaxed) {
            let rule = &self.name;
            tracing::warn!(%rule, %error, "an expression fails; such events pass it as they are");
        }
    }
}

impl Shape {
    /// Compiles what a configuration says; `None` if that is nothing.
    ///
    /// # Errors
    /// Each expression that cannot be used, with its place.
    pub(crate) fn new(config: &Config, failures: &Failures) -> Result<Option<Self>, Vec<Fault>> {
        let mut faults = Vec::new();
        let mut compile = |place: String, written: &String, kind| {
            let compiled = Program::compile(written, kind);
            compiled.map_err(|fault| faults.push((place, fault))).ok()
        };
        let mut transforms = Vec::new();
        for (at, options) in config.transforms.iter().enumerate() {
            let place = format!("transforms[{at}]");
            let condition = options
                .condition
                .as_ref()
                .and_then(|written| compile(format!("{place}.match"), written, Kind::Condition));
            let texts = texts(&options.set)
                .into_iter()
                .filter_map(|(name, target, written)| {
                    let program = compile(format!("{place}.set.{name}"), written?, Kind::Value)?;
                    Some((target, program))
                });
            let texts = texts.collect();
            let fields = options.set.fields.iter().filter_map(|(name, written)| {
                let place = format!("{place}.set.fields.{name}");
                Some((name.clone(), compile(place, written, Kind::Value)?))
            });
            let fields = fields.collect();
            transforms.push(Transform {
                rule: Rule::new(options.name.as_ref(), &place, failures),
                condition,
                drop: options.drop,
                texts,
                fields,
            });
        }
        let mut routes = Vec::new();
        for (at, options) in config.routes.iter().enumerate() {
            let place = format!("routes[{at}]");
            let condition = options
                .condition
                .as_ref()
                .and_then(|written| compile(format!("{place}.match"), written, Kind::Condition));
            routes.push(Route {
                rule: Rule::new(options.name.as_ref(), &place, failures),
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

fn texts(set: &SetOptions) -> [(&'static str, Target, Option<&String>); 6] {
    let extra = |key| Target::Extra(key);
    [
        ("index", extra(ExtraKey::Index), set.index.as_ref()),
        (
            "sourcetype",
            extra(ExtraKey::Sourcetype),
            set.sourcetype.as_ref(),
        ),
        ("source", extra(ExtraKey::Source), set.source.as_ref()),
        ("host", Target::Host, set.host.as_ref()),
        ("message", Target::Message, set.message.as_ref()),
        ("event", extra(ExtraKey::Event), set.event.as_ref()),
    ]
}
