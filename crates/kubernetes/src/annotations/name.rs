//! Names of annotations, without the domain before their `/`.
//!
//! `[stdout.|stderr.]KEY[.CONTAINER]`, where `KEY` is one of [`AnnotationKey`]. A container has no
//! dot in its name, but the name of a field has. So the last part of `field.NAME` and
//! `volume.NAME` is a container only where the pod has one of that name.

use std::fmt;

/// Stream of a container.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ContainerStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl ContainerStream {
    /// Name in logs and annotations.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// Property of a container's logs that annotations decide.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AnnotationKey {
    /// `index`
    Index,
    /// `sourcetype`
    Sourcetype,
    /// `source`
    Source,
    /// `host`
    Host,
    /// `to`: names of destinations.
    To,
    /// `exclude`: no logs at all; `include` is its opposite.
    Exclude,
    /// `multiline`: the pattern that joins lines.
    Multiline,
    /// `keep`: the pattern that an event must match.
    Keep,
    /// `drop`: the pattern that an event must not match.
    Drop,
    /// `replace.N`: a replacement within events, in the order of their numbers.
    Replace(u16),
    /// `hash.N`: a pattern whose matches become their SHA-256.
    Hash(u16),
    /// `sample`: the share of events that is kept.
    Sample,
    /// `rate`: bytes a second that are read.
    Rate,
    /// `strip_ansi`: colours and other escape sequences of terminals are taken out.
    StripAnsi,
    /// `product`: the product that wrote the logs.
    Product,
    /// `field.NAME`: a field of every event.
    Field(Box<str>),
    /// `volume.NAME`: the files in a volume that are read, too.
    Volume(Box<str>),
}

/// Keys without a number or a name.
const PLAIN_KEYS: [(&str, AnnotationKey); 13] = [
    ("index", AnnotationKey::Index),
    ("sourcetype", AnnotationKey::Sourcetype),
    ("source", AnnotationKey::Source),
    ("host", AnnotationKey::Host),
    ("to", AnnotationKey::To),
    ("exclude", AnnotationKey::Exclude),
    ("multiline", AnnotationKey::Multiline),
    ("keep", AnnotationKey::Keep),
    ("drop", AnnotationKey::Drop),
    ("sample", AnnotationKey::Sample),
    ("rate", AnnotationKey::Rate),
    ("strip_ansi", AnnotationKey::StripAnsi),
    ("product", AnnotationKey::Product),
];

/// All words that a name may begin with.
const WORDS: &str = "index, sourcetype, source, host, to, exclude, include, multiline, keep, drop, \
    replace.N, hash.N, sample, rate, strip_ansi, product, field.NAME, volume.NAME";

impl fmt::Display for AnnotationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Replace(number) => write!(f, "replace.{number}"),
            Self::Hash(number) => write!(f, "hash.{number}"),
            Self::Field(name) => write!(f, "field.{name}"),
            Self::Volume(name) => write!(f, "volume.{name}"),
            plain => {
                let known = PLAIN_KEYS.iter().find(|(_, key)| key == plain);
                f.write_str(known.map_or("", |(name, _)| name))
            }
        }
    }
}

/// A name that was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct AnnotationName<'a> {
    pub(super) stream: Option<ContainerStream>,
    pub(super) key: AnnotationKey,
    /// True for `include`: the value means the opposite.
    pub(super) is_opposite: bool,
    pub(super) container: Option<&'a str>,
}

/// Reads a name; `is_container` knows the containers of the pod.
///
/// # Errors
/// It is none that Inrush knows: the text says so.
pub(super) fn parse<'a>(
    written: &'a str,
    is_container: &dyn Fn(&str) -> bool,
) -> Result<AnnotationName<'a>, String> {
    let streams = [ContainerStream::Stdout, ContainerStream::Stderr];
    let found = streams.into_iter().find_map(|stream| {
        let rest = written.strip_prefix(stream.name())?.strip_prefix('.')?;
        Some((stream, rest))
    });
    let (stream, rest) = match found {
        Some((stream, rest)) => (Some(stream), rest),
        None => (None, written),
    };
    let (word, rest) = match rest.split_once('.') {
        Some((word, rest)) => (word, Some(rest)),
        None => (rest, None),
    };
    let (key, container) = match (word, rest) {
        ("replace" | "hash", Some(rest)) => {
            let (number, container) = match rest.split_once('.') {
                Some((number, container)) => (number, Some(container)),
                None => (rest, None),
            };
            let number = number.parse::<u16>();
            let number = number.map_err(|_| format!("`{word}` needs a number, as {word}.1"))?;
            match word {
                "hash" => (AnnotationKey::Hash(number), container),
                _ => (AnnotationKey::Replace(number), container),
            }
        }
        ("field" | "volume", Some(rest)) => {
            let (name, container) = match rest.rsplit_once('.') {
                Some((name, container)) if is_container(container) => (name, Some(container)),
                _ => (rest, None),
            };
            if name.is_empty() {
                return Err(format!("`{word}` needs a name, as {word}.NAME"));
            }
            match word {
                "volume" => (AnnotationKey::Volume(name.into()), container),
                _ => (AnnotationKey::Field(name.into()), container),
            }
        }
        ("include", container) => (AnnotationKey::Exclude, container),
        (word, container) => {
            let known = PLAIN_KEYS.iter().find(|(name, _)| *name == word);
            let (_, key) = known.ok_or_else(|| format!("is not known; there are {WORDS}"))?;
            (key.clone(), container)
        }
    };
    Ok(AnnotationName {
        stream,
        key,
        is_opposite: word == "include",
        container,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_key_is_read_and_shown_in_every_variant() {
        let plain = PLAIN_KEYS
            .iter()
            .map(|(name, key)| ((*name).to_owned(), key.clone()));
        let more = [
            ("replace.1", AnnotationKey::Replace(1)),
            ("replace.65535", AnnotationKey::Replace(65535)),
            ("hash.20", AnnotationKey::Hash(20)),
            ("field.team", AnnotationKey::Field("team".into())),
            ("field.a.b.c", AnnotationKey::Field("a.b.c".into())),
            ("volume.logs", AnnotationKey::Volume("logs".into())),
        ];
        let all = plain.chain(more.map(|(name, key)| (name.to_owned(), key)));
        let all: Vec<_> = all.collect();
        assert_eq!(all.len(), PLAIN_KEYS.len() + 6);
        let streams = [
            ("", None),
            ("stdout.", Some(ContainerStream::Stdout)),
            ("stderr.", Some(ContainerStream::Stderr)),
        ];
        for (name, key) in all {
            assert_eq!(key.to_string(), name);
            for (prefix, stream) in streams {
                for container in [None, Some("web")] {
                    let end = container.map_or_else(String::new, |name| format!(".{name}"));
                    let written = format!("{prefix}{name}{end}");
                    let read = parse(&written, &|name| name == "web").unwrap();
                    let expected = AnnotationName {
                        stream,
                        key: key.clone(),
                        is_opposite: false,
                        container,
                    };
                    assert_eq!(read, expected, "{written}");
                }
            }
        }
        let read = parse("stderr.include.web", &|_| false).unwrap();
        assert!(read.is_opposite && read.key == AnnotationKey::Exclude);
        assert_eq!(read.container, Some("web"));
    }

    #[test]
    fn names_that_are_none_are_refused() {
        for name in [
            "",
            "indexx",
            "Index",
            "replace",
            "replace.",
            "replace.x",
            "replace.-1",
            "replace.65536",
            "hash",
            "field",
            "field.",
            "volume.",
            "field..web",
            "stdout",
            "stdout.",
            "stdin.index",
            ".index",
            "include_all",
        ] {
            assert!(parse(name, &|name| name == "web").is_err(), "{name}");
        }
    }
}
