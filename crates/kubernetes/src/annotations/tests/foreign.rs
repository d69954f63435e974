//! Table test of the annotations of other collectors.

use std::sync::Arc;

use super::super::{AnnotationDialect, AnnotationSettings, ContainerStream, resolve};
use super::{Values, setup, shown};

/// Annotations of other collectors: the dialect, the annotations, the container and the stream that
/// are asked for, and the key with its value. `label:` in front of a name makes it a label.
type ForeignRow = (
    AnnotationDialect,
    &'static [(&'static str, &'static str)],
    &'static str,
    &'static str,
    Option<&'static str>,
);

const SPLUNK: AnnotationDialect = AnnotationDialect::Splunk;
const COLLECTORD: AnnotationDialect = AnnotationDialect::Collectord;
const FLUENT_BIT: AnnotationDialect = AnnotationDialect::FluentBit;
const VECTOR: AnnotationDialect = AnnotationDialect::Vector;

const FOREIGN: &[ForeignRow] = &[
    (
        SPLUNK,
        &[("splunk.com/index", "a")],
        "web",
        "index",
        Some("a"),
    ),
    (
        SPLUNK,
        &[("splunk.com/sourcetype", "a")],
        "web",
        "sourcetype",
        Some("a"),
    ),
    (
        SPLUNK,
        &[("splunk.com/exclude", "true")],
        "web",
        "exclude",
        Some("true"),
    ),
    (
        SPLUNK,
        &[("splunk.com/include", "true")],
        "web",
        "exclude",
        Some("false"),
    ),
    (
        SPLUNK,
        &[("splunk.com/metricsIndex", "a")],
        "web",
        "index",
        None,
    ),
    (
        COLLECTORD,
        &[("collectord.io/index", "a")],
        "web",
        "index",
        Some("a"),
    ),
    (
        COLLECTORD,
        &[
            ("collectord.io/index", "a"),
            ("collectord.io/logs-index", "b"),
        ],
        "web",
        "index",
        Some("b"),
    ),
    (
        COLLECTORD,
        &[("collectord.io/stats-index", "a")],
        "web",
        "index",
        None,
    ),
    (
        COLLECTORD,
        &[("collectord.collectord.io/index", "a")],
        "web",
        "index",
        Some("a"),
    ),
    (
        COLLECTORD,
        &[("io.collectord.index", "a")],
        "web",
        "index",
        Some("a"),
    ),
    (
        COLLECTORD,
        &[("collectord.io/type", "a")],
        "web",
        "sourcetype",
        Some("a"),
    ),
    (
        COLLECTORD,
        &[("collectord.io/logs-source", "a")],
        "web",
        "source",
        Some("a"),
    ),
    (
        COLLECTORD,
        &[("collectord.io/logs-host", "a")],
        "web",
        "host",
        Some("a"),
    ),
    (
        COLLECTORD,
        &[("collectord.io/web--logs-index", "a")],
        "web",
        "index",
        Some("a"),
    ),
    (
        COLLECTORD,
        &[("collectord.io/side-car--logs-index", "a")],
        "web",
        "index",
        None,
    ),
    (
        COLLECTORD,
        &[("collectord.io/stdout-logs-index", "a")],
        "web",
        "index",
        Some("a"),
    ),
    (
        COLLECTORD,
        &[("collectord.io/web--stderr-logs-index", "a")],
        "web",
        "index",
        None,
    ),
    (
        COLLECTORD,
        &[("collectord.io/logs-output", "devnull")],
        "web",
        "exclude",
        Some("true"),
    ),
    (
        COLLECTORD,
        &[("collectord.io/logs-output", "splunk::prod")],
        "web",
        "to",
        Some("prod"),
    ),
    (
        COLLECTORD,
        &[("collectord.io/logs-output", "splunk")],
        "web",
        "to",
        None,
    ),
    (
        COLLECTORD,
        &[("collectord.io/logs-eventpattern", "^x")],
        "web",
        "multiline",
        Some("Start ^x"),
    ),
    (
        COLLECTORD,
        &[("collectord.io/logs-whitelist", "a")],
        "web",
        "keep",
        Some("a"),
    ),
    (
        COLLECTORD,
        &[("collectord.io/logs-blacklist", "a")],
        "web",
        "drop",
        Some("a"),
    ),
    (
        COLLECTORD,
        &[
            ("collectord.io/logs-replace.1-search", "a/b"),
            ("collectord.io/logs-replace.1-val", "c"),
        ],
        "web",
        "replace.1",
        Some("a/b to c"),
    ),
    (
        COLLECTORD,
        &[
            ("collectord.io/logs-hashing.2-match", "a"),
            ("collectord.io/logs-hashing.2-function", "sha256"),
        ],
        "web",
        "hash.2",
        Some("a"),
    ),
    (
        COLLECTORD,
        &[("collectord.io/logs-hashing.2-match", "a")],
        "web",
        "hash.2",
        None,
    ),
    (
        COLLECTORD,
        &[("collectord.io/logs-sampling-percent", "20")],
        "web",
        "sample",
        Some("20"),
    ),
    (
        COLLECTORD,
        &[("collectord.io/logs-ThruputPerSecond", "256KiB")],
        "web",
        "rate",
        Some("262144"),
    ),
    (
        COLLECTORD,
        &[("collectord.io/logs-strip-terminal-escape-sequences", "true")],
        "web",
        "strip_ansi",
        Some("true"),
    ),
    (
        COLLECTORD,
        &[("collectord.io/userfields.team", "a")],
        "web",
        "field.team",
        Some("a"),
    ),
    (
        COLLECTORD,
        &[
            ("collectord.io/volume.1-logs-name", "logs"),
            ("collectord.io/volume.1-logs-glob", "*.x"),
        ],
        "web",
        "volume.logs",
        Some("*.x"),
    ),
    (
        COLLECTORD,
        &[("collectord.io/volume.1-logs-name", "logs")],
        "web",
        "volume.logs",
        Some("*.log*"),
    ),
    (
        FLUENT_BIT,
        &[("fluentbit.io/exclude", "true")],
        "web",
        "exclude",
        Some("true"),
    ),
    (
        FLUENT_BIT,
        &[("fluentbit.io/exclude-web", "true")],
        "web",
        "exclude",
        Some("true"),
    ),
    (
        FLUENT_BIT,
        &[("fluentbit.io/exclude-side-car", "true")],
        "web",
        "exclude",
        None,
    ),
    (
        FLUENT_BIT,
        &[("fluentbit.io/exclude_stderr", "true")],
        "web",
        "exclude",
        None,
    ),
    (
        FLUENT_BIT,
        &[("fluentbit.io/exclude_stdout-side-car", "true")],
        "side-car",
        "exclude",
        Some("true"),
    ),
    (
        FLUENT_BIT,
        &[("fluentbit.io/parser", "nginx")],
        "web",
        "product",
        Some("nginx"),
    ),
    (
        FLUENT_BIT,
        &[("fluentbit.io/parser_stdout-web", "nginx")],
        "web",
        "product",
        Some("nginx"),
    ),
    (
        FLUENT_BIT,
        &[("fluentbit.io/parser", "json")],
        "web",
        "product",
        None,
    ),
    (
        VECTOR,
        &[("label:vector.dev/exclude", "true")],
        "web",
        "exclude",
        Some("true"),
    ),
    (
        VECTOR,
        &[("vector.dev/exclude", "true")],
        "web",
        "exclude",
        None,
    ),
    (
        VECTOR,
        &[("vector.dev/exclude-containers", "a, web")],
        "web",
        "exclude",
        Some("true"),
    ),
    (
        VECTOR,
        &[("vector.dev/exclude-containers", "side-car")],
        "web",
        "exclude",
        None,
    ),
];

#[test]
fn annotations_of_other_collectors_are_read_where_they_mean_the_same() {
    for (dialect, entries, container, key, expected) in FOREIGN {
        let (mut metadata, mut settings) = setup(&[]);
        let pod = Arc::make_mut(&mut metadata.pod);
        for (name, value) in *entries {
            let (map, name) = match name.strip_prefix("label:") {
                Some(name) => (&mut pod.labels, name),
                None => (&mut pod.annotations, *name),
            };
            map.entries.insert(name.into(), (*value).into());
        }
        let before = resolve(&metadata, container, ContainerStream::Stdout, &settings);
        assert_eq!(shown(&before, key), None, "{entries:?}: not asked for");
        settings.compatibility = vec![*dialect];
        let policy = resolve(&metadata, container, ContainerStream::Stdout, &settings);
        assert_eq!(shown(&policy, key).as_deref(), *expected, "{entries:?}");
        assert_eq!(policy.problems, [], "{entries:?}");
    }
    let named = |dialect: &AnnotationDialect| FOREIGN.iter().any(|row| row.0 == *dialect);
    assert!(AnnotationDialect::ALL.iter().all(named));
}

#[test]
fn own_annotations_beat_those_of_others_in_their_order() {
    let values: Values<'_> = &[
        (1, "splunk.com/index", "splunk"),
        (1, "collectord.io/logs-index", "collectord"),
        (4, "index", "namespace"),
    ];
    let (metadata, mut settings) = setup(values);
    let index = |settings: &AnnotationSettings| {
        let policy = resolve(&metadata, "web", ContainerStream::Stdout, settings);
        policy.index.unwrap().to_string()
    };
    assert_eq!(index(&settings), "namespace");
    settings.compatibility = vec![SPLUNK, COLLECTORD];
    assert_eq!(index(&settings), "splunk");
    settings.compatibility = vec![COLLECTORD, SPLUNK];
    assert_eq!(index(&settings), "collectord");
    let (metadata, _) = setup(&[values[0], values[1], (1, "index", "own")]);
    let policy = resolve(&metadata, "web", ContainerStream::Stdout, &settings);
    assert_eq!(policy.index.as_deref(), Some("own"));
}
