//! Policy of a container's logs, from the annotations of those who own the workload.
//!
//! # What it guarantees
//! * The nearest place decides each key by itself: `enforce` of the configuration, then the pod,
//!   its workloads (the nearest first), its namespace, the configuration.
//! * Within one place an annotation for a container and a stream beats that for the container, that
//!   beats the one for the stream, and that beats the plain one. Then Inrush's own beats those of
//!   other collectors, in the order of [`AnnotationSettings::compatibility`].
//! * A value that cannot be read is an [`AnnotationProblem`] with its place, and is ignored: the
//!   next place decides. It never changes another key.
//! * `include` is the opposite of `exclude`: both decide the same key. In one place `exclude` wins.
//!
//! # Limits
//! A pattern is compiled within bounds, and matches in linear time; a container has
//! [`CHANGES_MAX`] replacements and hashes. [`PROBLEMS_MAX`] problems are reported of a container.
//! The labels and annotations themselves are bounded by
//! [`text_map`](crate::text_map).

mod dialect;
mod name;
mod value;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

pub use dialect::AnnotationDialect;
use dialect::{Claim, ClaimValue, TextEntries, claim_of, foreign_claims, own_claims};
pub use name::{AnnotationKey, ContainerStream};
pub use value::{HashRule, LogPattern, MultilinePlace, MultilineRule, ReplaceRule};

use crate::store::PodMetadata;

/// Problems that are reported of one container.
pub(crate) const PROBLEMS_MAX: usize = 100;

/// Replacements and hashes of one container together: each has a compiled program, up to a MiB.
pub(crate) const CHANGES_MAX: usize = 32;

/// Settings of the configuration for annotations.
#[derive(Clone, Debug, Default)]
pub struct AnnotationSettings {
    /// Values where no annotation decides, by names without a domain, such as `stderr.index`.
    pub defaults: BTreeMap<String, String>,
    /// Values that no annotation can change, by the same names.
    pub enforce: BTreeMap<String, String>,
    /// Other collectors whose annotations are read, the first before the others.
    pub compatibility: Vec<AnnotationDialect>,
    /// Destinations that `to` may name; `None`: it is not checked.
    pub destinations: Option<BTreeSet<String>>,
    /// Products that `product` may name; `None`: it is not checked.
    pub products: Option<BTreeSet<String>>,
}

/// Place of an annotation, in the order in which places decide.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum AnnotationPlace {
    /// `enforce` of the configuration.
    Enforced,
    /// The pod.
    Pod,
    /// Labels of a docker container.
    DockerLabel,
    /// A workload that the pod belongs to.
    Workload {
        /// 0 for the nearest one.
        distance: u8,
        /// Its kind, such as `Deployment`.
        kind: Box<str>,
        /// Its name.
        name: Box<str>,
    },
    /// The namespace.
    Namespace,
    /// The configuration.
    Configuration,
}

impl fmt::Display for AnnotationPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Enforced => f.write_str("enforce"),
            Self::Pod => f.write_str("pod"),
            Self::DockerLabel => f.write_str("container label"),
            Self::Workload { kind, name, .. } => write!(f, "{kind} {name}"),
            Self::Namespace => f.write_str("namespace"),
            Self::Configuration => f.write_str("configuration"),
        }
    }
}

/// Annotation that decided a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AnnotationDecision {
    /// Its place.
    pub place: AnnotationPlace,
    /// Its name as it was written.
    pub annotation: Box<str>,
}

/// Annotation that is ignored, because it cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AnnotationProblem {
    /// Its place.
    pub place: AnnotationPlace,
    /// Its name as it was written.
    pub annotation: Box<str>,
    /// The error, as the end of a sentence that begins with the annotation.
    pub message: String,
}

impl fmt::Display for AnnotationProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: `{}` {}", self.place, self.annotation, self.message)
    }
}

/// Volume whose files are read, too.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeRule {
    /// Name of the volume in the pod.
    pub volume: Box<str>,
    /// Glob below its root.
    pub glob: Box<str>,
}

/// Policy of one stream of one container. An absent value is decided elsewhere.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ContainerPolicy {
    /// Index.
    pub index: Option<Box<str>>,
    /// Sourcetype.
    pub sourcetype: Option<Box<str>>,
    /// Source.
    pub source: Option<Box<str>>,
    /// Host.
    pub host: Option<Box<str>>,
    /// Destinations by name, in place of those of the routes.
    pub to: Option<Vec<Box<str>>>,
    /// True if the logs are not wanted; false if they are wanted by name.
    pub exclude: Option<bool>,
    /// Rule that joins lines.
    pub multiline: Option<MultilineRule>,
    /// Pattern that an event must match.
    pub keep: Option<LogPattern>,
    /// Pattern that an event must not match.
    pub drop: Option<LogPattern>,
    /// Replacements, in the order of their numbers.
    pub replace: Vec<ReplaceRule>,
    /// Hashes, in the order of their numbers.
    pub hash: Vec<HashRule>,
    /// Share of events that is kept, in per cent.
    pub sample_percent: Option<f64>,
    /// Bytes a second that are read at most.
    pub rate_bytes: Option<u64>,
    /// True if escape sequences of terminals are taken out.
    pub strip_ansi: Option<bool>,
    /// Product that wrote the logs.
    pub product: Option<Box<str>>,
    /// Fields of every event.
    pub fields: BTreeMap<Box<str>, Box<str>>,
    /// Volumes whose files are read, too.
    pub volumes: Vec<VolumeRule>,
    /// The annotation that decided each key that has a value.
    pub decided_by: BTreeMap<AnnotationKey, AnnotationDecision>,
    /// Annotations that are ignored.
    pub problems: Vec<AnnotationProblem>,
}

/// Value that was read.
enum PolicyValue {
    Name(Box<str>),
    Names(Vec<Box<str>>),
    Switch(bool),
    Multiline(MultilineRule),
    Pattern(LogPattern),
    Replace(ReplaceRule),
    Hash(HashRule),
    Percent(f64),
    Rate(u64),
}

/// Policy of a stream of a pod's container.
pub fn resolve(
    metadata: &PodMetadata,
    container: &str,
    stream: ContainerStream,
    settings: &AnnotationSettings,
) -> ContainerPolicy {
    let pod = &metadata.pod;
    let is_container = |name: &str| pod.container(name).is_some();
    let mut resolver = Resolver::new(container, stream, settings, &is_container);
    let (annotations, labels) = (&pod.annotations.entries, &pod.labels.entries);
    resolver.read(AnnotationPlace::Pod, annotations, labels);
    let none = TextEntries::new();
    for (distance, workload) in metadata.workloads.iter().enumerate() {
        let place = AnnotationPlace::Workload {
            distance: u8::try_from(distance).unwrap_or(u8::MAX),
            kind: workload.kind.clone(),
            name: workload.name.clone(),
        };
        resolver.read(place, &workload.annotations.entries, &none);
    }
    if let Some(namespace) = &metadata.namespace {
        let (annotations, labels) = (&namespace.annotations.entries, &namespace.labels.entries);
        resolver.read(AnnotationPlace::Namespace, annotations, labels);
    }
    resolver.finish()
}

/// Policy of a stream of a docker container, from its labels.
pub fn resolve_labels(
    labels: &BTreeMap<Box<str>, Box<str>>,
    container: &str,
    stream: ContainerStream,
    settings: &AnnotationSettings,
) -> ContainerPolicy {
    let is_container = |name: &str| name == container;
    let mut resolver = Resolver::new(container, stream, settings, &is_container);
    resolver.read(AnnotationPlace::DockerLabel, labels, labels);
    resolver.finish()
}

impl AnnotationSettings {
    /// All that is wrong with the names and values of the configuration.
    pub fn problems(&self) -> Vec<AnnotationProblem> {
        let places = [
            (AnnotationPlace::Configuration, &self.defaults),
            (AnnotationPlace::Enforced, &self.enforce),
        ];
        let all = places.into_iter().flat_map(|(place, values)| {
            values.iter().filter_map(move |(name, value)| {
                let claim = claim_of(name, value, name, &|_| false);
                let problem = claim.and_then(|claim| self.value_of(&claim)).err();
                problem.map(|message| AnnotationProblem {
                    place: place.clone(),
                    annotation: name.as_str().into(),
                    message,
                })
            })
        });
        all.collect()
    }

    /// Reads a value.
    fn value_of(&self, claim: &Claim) -> Result<PolicyValue, String> {
        use AnnotationKey as Key;
        let text = match (&claim.value, &claim.key) {
            (ClaimValue::Replacement { search, with }, Key::Replace(number)) => {
                return value::replacement(*number, search, with).map(PolicyValue::Replace);
            }
            (ClaimValue::Replacement { .. }, _) => return Err("is no replacement".into()),
            (ClaimValue::Text(text), _) => text,
        };
        Ok(match &claim.key {
            Key::Index => PolicyValue::Name(value::index(text)?),
            Key::Sourcetype | Key::Source | Key::Host | Key::Field(_) => {
                PolicyValue::Name(value::name(text)?)
            }
            Key::To => PolicyValue::Names(known_names(value::names(text)?, &self.destinations)?),
            Key::Product => {
                let names = vec![value::name(text)?];
                let mut names = known_names(names, &self.products)?;
                PolicyValue::Name(names.swap_remove(0))
            }
            Key::Exclude => PolicyValue::Switch(value::boolean(text)? != claim.is_opposite),
            Key::StripAnsi => PolicyValue::Switch(value::boolean(text)?),
            Key::Multiline => PolicyValue::Multiline(value::multiline(text)?),
            Key::Keep | Key::Drop => PolicyValue::Pattern(value::pattern(text)?),
            Key::Replace(number) => PolicyValue::Replace(value::replace(*number, text)?),
            Key::Hash(number) => PolicyValue::Hash(HashRule {
                number: *number,
                pattern: value::pattern(text)?,
            }),
            Key::Sample => PolicyValue::Percent(value::percent(text)?),
            Key::Rate => PolicyValue::Rate(value::rate(text)?),
            Key::Volume(_) => PolicyValue::Name(value::glob(text)?),
        })
    }
}

/// Names, if each of them is known.
fn known_names(
    names: Vec<Box<str>>,
    known: &Option<BTreeSet<String>>,
) -> Result<Vec<Box<str>>, String> {
    let is_strange = |name: &&str| known.as_ref().is_some_and(|all| !all.contains(*name));
    match names.iter().map(AsRef::as_ref).find(is_strange) {
        Some(name) => Err(format!(
            "names `{name}`, which the configuration does not have"
        )),
        None => Ok(names),
    }
}

struct Resolver<'a> {
    container: &'a str,
    stream: ContainerStream,
    settings: &'a AnnotationSettings,
    is_container: &'a dyn Fn(&str) -> bool,
    claims: Vec<(AnnotationPlace, Claim)>,
    problems: Vec<AnnotationProblem>,
}

impl<'a> Resolver<'a> {
    fn new(
        container: &'a str,
        stream: ContainerStream,
        settings: &'a AnnotationSettings,
        is_container: &'a dyn Fn(&str) -> bool,
    ) -> Self {
        let mut resolver = Self {
            container,
            stream,
            settings,
            is_container,
            claims: Vec::new(),
            problems: Vec::new(),
        };
        let places = [
            (AnnotationPlace::Enforced, &settings.enforce),
            (AnnotationPlace::Configuration, &settings.defaults),
        ];
        for (place, values) in places {
            for (name, value) in values {
                // What is wrong here was said when the configuration was checked.
                if let Ok(claim) = claim_of(name, value, name, is_container) {
                    resolver.claims.push((place.clone(), claim));
                }
            }
        }
        resolver
    }

    /// Reads the annotations of one place.
    fn read(&mut self, place: AnnotationPlace, annotations: &TextEntries, labels: &TextEntries) {
        let (mut claims, problems) = own_claims(annotations, self.is_container);
        for (annotation, message) in problems {
            self.add_problem(&place, annotation, message);
        }
        let is_pod = matches!(place, AnnotationPlace::Pod | AnnotationPlace::DockerLabel);
        for claim in claims.iter().filter(|_| is_pod) {
            let stranger = claim.container.as_deref();
            if let Some(stranger) = stranger.filter(|name| !(self.is_container)(name)) {
                let message = format!("names the container `{stranger}`, which the pod has not");
                self.add_problem(&place, claim.written.clone(), message);
            }
        }
        for (at, dialect) in self.settings.compatibility.iter().enumerate() {
            let foreign = foreign_claims(*dialect, annotations, labels);
            claims.extend(foreign.into_iter().map(|claim| Claim {
                order: at + 1,
                ..claim
            }));
        }
        let claims = claims.into_iter().map(|claim| (place.clone(), claim));
        self.claims.extend(claims);
    }

    fn add_problem(&mut self, place: &AnnotationPlace, annotation: Box<str>, message: String) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(AnnotationProblem {
                place: place.clone(),
                annotation,
                message,
            });
        }
    }

    /// Decides each key.
    fn finish(mut self) -> ContainerPolicy {
        let mut claims = std::mem::take(&mut self.claims);
        claims.retain(|(_, claim)| {
            let container = claim.container.as_deref();
            container.is_none_or(|name| name == self.container)
                && claim.stream.is_none_or(|stream| stream == self.stream)
        });
        claims.sort_by(|one, other| rank(one).cmp(&rank(other)));
        let mut policy = ContainerPolicy::default();
        for (place, claim) in claims {
            match self.settings.value_of(&claim) {
                Ok(_) if policy.is_full(&claim.key) => {
                    let message = format!("is one too many: {CHANGES_MAX} replace and hash");
                    self.add_problem(&place, claim.written, message);
                }
                Ok(value) => policy.decide(place, claim, value),
                // A product that Fluent Bit has need not be one of ours.
                Err(_) if claim.order > 0 && claim.key == AnnotationKey::Product => {}
                Err(message) => self.add_problem(&place, claim.written, message),
            }
        }
        policy.problems = self.problems;
        policy
    }
}

/// Order in which claims decide: the first that can be read does.
fn rank(claim: &(AnnotationPlace, Claim)) -> impl Ord {
    let (place, claim) = claim;
    let specific = (
        claim.container.is_some(),
        claim.stream.is_some(),
        claim.detail,
    );
    let wide = std::cmp::Reverse((specific.0, specific.1));
    let detail = std::cmp::Reverse(specific.2);
    (place.clone(), wide, claim.order, detail, claim.is_opposite)
}

impl ContainerPolicy {
    /// Takes a value, unless the key is decided.
    fn decide(&mut self, place: AnnotationPlace, claim: Claim, value: PolicyValue) {
        if self.decided_by.contains_key(&claim.key) {
            return;
        }
        self.put(&claim.key, value);
        let decision = AnnotationDecision {
            place,
            annotation: claim.written,
        };
        self.decided_by.insert(claim.key, decision);
    }

    /// True if there is no room for another change of the text.
    fn is_full(&self, key: &AnnotationKey) -> bool {
        let is_change = matches!(key, AnnotationKey::Replace(_) | AnnotationKey::Hash(_));
        is_change && self.replace.len() + self.hash.len() >= CHANGES_MAX
    }

    fn put(&mut self, key: &AnnotationKey, value: PolicyValue) {
        use AnnotationKey as Key;
        match (key, value) {
            (Key::Index, PolicyValue::Name(name)) => self.index = Some(name),
            (Key::Sourcetype, PolicyValue::Name(name)) => self.sourcetype = Some(name),
            (Key::Source, PolicyValue::Name(name)) => self.source = Some(name),
            (Key::Host, PolicyValue::Name(name)) => self.host = Some(name),
            (Key::Product, PolicyValue::Name(name)) => self.product = Some(name),
            (Key::To, PolicyValue::Names(names)) => self.to = Some(names),
            (Key::Exclude, PolicyValue::Switch(on)) => self.exclude = Some(on),
            (Key::StripAnsi, PolicyValue::Switch(on)) => self.strip_ansi = Some(on),
            (Key::Multiline, PolicyValue::Multiline(rule)) => self.multiline = Some(rule),
            (Key::Keep, PolicyValue::Pattern(pattern)) => self.keep = Some(pattern),
            (Key::Drop, PolicyValue::Pattern(pattern)) => self.drop = Some(pattern),
            (Key::Sample, PolicyValue::Percent(percent)) => self.sample_percent = Some(percent),
            (Key::Rate, PolicyValue::Rate(bytes)) => self.rate_bytes = Some(bytes),
            (Key::Replace(_), PolicyValue::Replace(rule)) => {
                let at = self
                    .replace
                    .partition_point(|known| known.number < rule.number);
                self.replace.insert(at, rule);
            }
            (Key::Hash(_), PolicyValue::Hash(rule)) => {
                let at = self
                    .hash
                    .partition_point(|known| known.number < rule.number);
                self.hash.insert(at, rule);
            }
            (Key::Field(name), PolicyValue::Name(value)) => {
                self.fields.insert(name.clone(), value);
            }
            (Key::Volume(volume), PolicyValue::Name(glob)) => self.volumes.push(VolumeRule {
                volume: volume.clone(),
                glob,
            }),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
