//! Annotations of Inrush and of other collectors, as claims of one form.
//!
//! Only keys with an equal meaning are read of others; the rest of theirs is left alone. Sources:
//! splunk-otel-collector-chart (`splunk.com/…`), Collectord 5 (annotations reference; names as
//! `shared/reference/collectord.md` has them), Fluent Bit 5.1.1 `plugins/filter_kubernetes`,
//! Vector's `kubernetes_logs`.

use std::collections::BTreeMap;

use super::name::{AnnotationKey, ContainerStream, parse};

/// Domain of Inrush's own annotations.
const OWN_PREFIX: &str = "inrush.io/";

/// Other collector whose annotations are read, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnnotationDialect {
    /// `splunk.com/…` of Splunk's OpenTelemetry collector.
    Splunk,
    /// `collectord.io/…`, and `io.collectord.…` of docker labels.
    Collectord,
    /// `fluentbit.io/…`.
    FluentBit,
    /// `vector.dev/…`.
    Vector,
}

impl AnnotationDialect {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Splunk,
        Self::Collectord,
        Self::FluentBit,
        Self::Vector,
    ];

    /// Name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Splunk => "splunk",
            Self::Collectord => "collectord",
            Self::FluentBit => "fluentbit",
            Self::Vector => "vector",
        }
    }
}

/// Labels or annotations by key.
pub(super) type TextEntries = BTreeMap<Box<str>, Box<str>>;

/// Value that an annotation claims for a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum ClaimValue {
    /// In the form that Inrush's own annotation has.
    Text(Box<str>),
    /// A replacement whose parts are given apart.
    Replacement { search: Box<str>, with: Box<str> },
}

/// Request of one annotation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Claim {
    pub(super) key: AnnotationKey,
    /// The value means the opposite: `include`.
    pub(super) is_opposite: bool,
    pub(super) stream: Option<ContainerStream>,
    pub(super) container: Option<Box<str>>,
    pub(super) value: ClaimValue,
    /// The annotation as it was written.
    pub(super) written: Box<str>,
    /// Place in the order of dialects: Inrush's own is 0.
    pub(super) order: usize,
    /// Higher for the nearer of two annotations of one dialect that mean the same.
    pub(super) detail: u8,
}

impl Claim {
    fn new(key: AnnotationKey, value: &str, written: &str) -> Self {
        Self {
            key,
            is_opposite: false,
            stream: None,
            container: None,
            value: ClaimValue::Text(value.into()),
            written: written.into(),
            order: 0,
            detail: 0,
        }
    }
}

/// Claims of Inrush's own annotations, and what is wrong with names, each with its annotation.
pub(super) fn own_claims(
    annotations: &TextEntries,
    is_container: &dyn Fn(&str) -> bool,
) -> (Vec<Claim>, Vec<(Box<str>, String)>) {
    let (mut claims, mut problems) = (Vec::new(), Vec::new());
    for (written, value) in with_prefix(annotations, OWN_PREFIX) {
        let name = written.strip_prefix(OWN_PREFIX).unwrap_or_default();
        match claim_of(name, value, written, is_container) {
            Ok(claim) => claims.push(claim),
            Err(problem) => problems.push((written.into(), problem)),
        }
    }
    (claims, problems)
}

/// The claim of a name without its domain.
///
/// # Errors
/// The name is none that Inrush knows.
pub(super) fn claim_of(
    name: &str,
    value: &str,
    written: &str,
    is_container: &dyn Fn(&str) -> bool,
) -> Result<Claim, String> {
    let name = parse(name, is_container)?;
    Ok(Claim {
        is_opposite: name.is_opposite,
        stream: name.stream,
        container: name.container.map(Into::into),
        ..Claim::new(name.key, value, written)
    })
}

/// Claims of the annotations of another collector.
pub(super) fn foreign_claims(
    dialect: AnnotationDialect,
    annotations: &TextEntries,
    labels: &TextEntries,
) -> Vec<Claim> {
    match dialect {
        AnnotationDialect::Splunk => splunk(annotations),
        AnnotationDialect::Collectord => collectord(annotations),
        AnnotationDialect::FluentBit => fluent_bit(annotations),
        AnnotationDialect::Vector => vector(annotations, labels),
    }
}

fn with_prefix<'a>(
    entries: &'a TextEntries,
    prefix: &'a str,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let from = entries.range::<str, _>((
        std::ops::Bound::Included(prefix),
        std::ops::Bound::Unbounded,
    ));
    let own = from.take_while(move |(key, _)| key.starts_with(prefix));
    own.map(|(key, value)| (&**key, &**value))
}

fn splunk(annotations: &TextEntries) -> Vec<Claim> {
    let claims = with_prefix(annotations, "splunk.com/").filter_map(|(written, value)| {
        let (key, is_opposite) = match written.strip_prefix("splunk.com/")? {
            "index" => (AnnotationKey::Index, false),
            "sourcetype" => (AnnotationKey::Sourcetype, false),
            "exclude" => (AnnotationKey::Exclude, false),
            "include" => (AnnotationKey::Exclude, true),
            _ => return None,
        };
        Some(Claim {
            is_opposite,
            ..Claim::new(key, value, written)
        })
    });
    claims.collect()
}

fn fluent_bit(annotations: &TextEntries) -> Vec<Claim> {
    let claims = with_prefix(annotations, "fluentbit.io/").filter_map(|(written, value)| {
        let name = written.strip_prefix("fluentbit.io/")?;
        let (name, container) = match name.split_once('-') {
            Some((name, container)) => (name, Some(container)),
            None => (name, None),
        };
        let (name, stream) = match name.rsplit_once('_') {
            Some((name, "stdout")) => (name, Some(ContainerStream::Stdout)),
            Some((name, "stderr")) => (name, Some(ContainerStream::Stderr)),
            _ => (name, None),
        };
        let key = match name {
            "parser" => AnnotationKey::Product,
            "exclude" => AnnotationKey::Exclude,
            _ => return None,
        };
        Some(Claim {
            stream,
            container: container.map(Into::into),
            ..Claim::new(key, value, written)
        })
    });
    claims.collect()
}

fn vector(annotations: &TextEntries, labels: &TextEntries) -> Vec<Claim> {
    let mut claims = Vec::new();
    if let Some(value) = labels.get("vector.dev/exclude") {
        claims.push(Claim::new(
            AnnotationKey::Exclude,
            value,
            "vector.dev/exclude",
        ));
    }
    let written = "vector.dev/exclude-containers";
    let containers = annotations.get(written).into_iter();
    let containers = containers.flat_map(|list| list.split(',').map(str::trim));
    claims.extend(
        containers
            .filter(|name| !name.is_empty())
            .map(|name| Claim {
                container: Some(name.into()),
                ..Claim::new(AnnotationKey::Exclude, "true", written)
            }),
    );
    claims
}

/// Domains of Collectord: one for all instances, one for those without a subdomain; and docker's
/// form.
const COLLECTORD_PREFIXES: [&str; 3] = [
    "collectord.collectord.io/",
    "collectord.io/",
    "io.collectord.",
];

fn collectord(annotations: &TextEntries) -> Vec<Claim> {
    let mut claims = Vec::new();
    for prefix in COLLECTORD_PREFIXES {
        for (written, value) in with_prefix(annotations, prefix) {
            let name = written.strip_prefix(prefix).unwrap_or_default();
            let sibling = |suffix: &str, other: &str| {
                let stem = written.strip_suffix(suffix)?;
                annotations
                    .get(&*format!("{stem}{other}"))
                    .map(|value| &**value)
            };
            claims.extend(collectord_claim(name, value, written, &sibling));
        }
    }
    claims
}

/// The claim of one of Collectord's annotations; `sibling` gives the value of the one that has
/// another ending.
fn collectord_claim<'a>(
    name: &str,
    value: &'a str,
    written: &str,
    sibling: &dyn Fn(&str, &str) -> Option<&'a str>,
) -> Option<Claim> {
    let (container, name) = match name.split_once("--") {
        Some((container, name)) => (Some(container), name),
        None => (None, name),
    };
    let (stream, name) = if let Some(name) = name.strip_prefix("stdout-") {
        (Some(ContainerStream::Stdout), name)
    } else if let Some(name) = name.strip_prefix("stderr-") {
        (Some(ContainerStream::Stderr), name)
    } else {
        (None, name)
    };
    let (detail, name) = match name.strip_prefix("logs-") {
        Some(name) => (1, name),
        None => (0, name),
    };
    let (key, value) = match collectord_plain(name, value) {
        Some((key, value)) => (key, ClaimValue::Text(value.into())),
        None => collectord_numbered(name, value, sibling)?,
    };
    Some(Claim {
        stream,
        container: container.map(Into::into),
        detail,
        value,
        ..Claim::new(key, "", written)
    })
}

fn collectord_plain<'a>(name: &str, value: &'a str) -> Option<(AnnotationKey, &'a str)> {
    let key = match name {
        "index" => AnnotationKey::Index,
        "type" => AnnotationKey::Sourcetype,
        "source" => AnnotationKey::Source,
        "host" => AnnotationKey::Host,
        "eventpattern" => AnnotationKey::Multiline,
        "whitelist" => AnnotationKey::Keep,
        "blacklist" => AnnotationKey::Drop,
        "sampling-percent" => AnnotationKey::Sample,
        "ThruputPerSecond" | "thruputPerSecond" => AnnotationKey::Rate,
        "strip-terminal-escape-sequences" => AnnotationKey::StripAnsi,
        "output" if value == "devnull" => return Some((AnnotationKey::Exclude, "true")),
        "output" => return Some((AnnotationKey::To, value.split_once("::")?.1)),
        _ => {
            let field = name
                .strip_prefix("userfields.")
                .filter(|name| !name.is_empty())?;
            AnnotationKey::Field(field.into())
        }
    };
    Some((key, value))
}

/// Annotations that say something together with a sibling.
fn collectord_numbered<'a>(
    name: &str,
    value: &'a str,
    sibling: &dyn Fn(&str, &str) -> Option<&'a str>,
) -> Option<(AnnotationKey, ClaimValue)> {
    let text = |value: &str| ClaimValue::Text(value.into());
    if let Some(rest) = name.strip_prefix("replace.") {
        let number = rest.strip_suffix("-search")?.parse().ok()?;
        let with = sibling("-search", "-val").unwrap_or_default();
        let value = ClaimValue::Replacement {
            search: value.into(),
            with: with.into(),
        };
        return Some((AnnotationKey::Replace(number), value));
    }
    if let Some(rest) = name.strip_prefix("hashing.") {
        let number = rest.strip_suffix("-match")?.parse().ok()?;
        let is_same = sibling("-match", "-function") == Some("sha256");
        return is_same.then(|| (AnnotationKey::Hash(number), text(value)));
    }
    let rest = name.strip_prefix("volume.")?;
    rest.strip_suffix("-logs-name")?;
    let glob = sibling("-name", "-glob").unwrap_or("*.log*");
    Some((AnnotationKey::Volume(value.into()), text(glob)))
}
