//! Table tests of annotations: each key, each variant of its name, each pair of places, and the
//! annotations of other collectors.
#![allow(clippy::unwrap_used)]

mod foreign;

use std::sync::Arc;

use super::*;
use crate::objects::{ContainerRole, NamespaceObject, PodContainer, PodObject, WorkloadMetadata};

/// A key with two values, what they become, and a value that is wrong.
type KeyRow = (
    &'static str,
    [(&'static str, &'static str); 2],
    &'static str,
);

/// Every key.
const KEYS: [KeyRow; 18] = [
    ("index", [("web", "web"), (" db-1 ", "db-1")], "a b"),
    ("sourcetype", [("nginx:plus", "nginx:plus"), ("x", "x")], ""),
    (
        "source",
        [("/var/log/x y", "/var/log/x y"), ("s", "s")],
        "a\nb",
    ),
    ("host", [("h1", "h1"), ("h2", "h2")], "  "),
    (
        "to",
        [("prod", "prod"), ("audit, prod,audit", "audit,prod")],
        "nowhere",
    ),
    ("exclude", [("true", "true"), ("No", "false")], "maybe"),
    ("include", [("true", "false"), ("off", "true")], ""),
    (
        "multiline",
        [(r"^\d", r"Start ^\d"), (r"continue:^\s", r"Continue ^\s")],
        "end:(",
    ),
    ("keep", [("ERROR|WARN", "ERROR|WARN"), ("a", "a")], "("),
    (
        "drop",
        [("^GET /health", "^GET /health"), ("b", "b")],
        "[z-a]",
    ),
    (
        "replace.1",
        [("/pw=[^ ]+/pw=*/", "pw=[^ ]+ to pw=*"), ("|a|b|", "a to b")],
        "/a/b",
    ),
    ("hash.2", [(r"user=(\w+)", r"user=(\w+)"), ("x", "x")], "*"),
    ("sample", [("10%", "10"), ("0.5", "0.5")], "101"),
    ("rate", [("1MiB/s", "1048576"), ("64KiB", "65536")], "0"),
    ("strip_ansi", [("true", "true"), ("false", "false")], "x"),
    (
        "product",
        [("cisco_asa", "cisco_asa"), ("nginx", "nginx")],
        "unheard",
    ),
    (
        "field.team",
        [("blue", "blue"), ("red green", "red green")],
        "",
    ),
    (
        "volume.logs",
        [("*.log", "*.log"), ("app/**/*.txt", "app/**/*.txt")],
        "../x",
    ),
];

fn settings() -> AnnotationSettings {
    let names = |names: [&str; 2]| Some(names.into_iter().map(str::to_owned).collect());
    AnnotationSettings {
        destinations: names(["prod", "audit"]),
        products: names(["cisco_asa", "nginx"]),
        ..AnnotationSettings::default()
    }
}

/// Value of a policy for the key of `name`, as text.
fn shown(policy: &ContainerPolicy, name: &str) -> Option<String> {
    let text = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
    match name {
        "index" => text(&policy.index),
        "sourcetype" => text(&policy.sourcetype),
        "source" => text(&policy.source),
        "host" => text(&policy.host),
        "to" => policy.to.as_ref().map(|names| names.join(",")),
        "exclude" | "include" => policy.exclude.map(|on| on.to_string()),
        "multiline" => policy.multiline.as_ref().map(|rule| {
            let place = rule.place;
            format!("{place:?} {}", rule.pattern.text)
        }),
        "keep" => policy.keep.as_ref().map(|one| one.text.to_string()),
        "drop" => policy.drop.as_ref().map(|one| one.text.to_string()),
        "replace.1" => policy.replace.first().map(|rule| {
            assert_eq!(rule.number, 1);
            format!("{} to {}", rule.pattern.text, rule.with)
        }),
        "hash.2" => policy.hash.first().map(|rule| {
            assert_eq!(rule.number, 2);
            rule.pattern.text.to_string()
        }),
        "sample" => policy.sample_percent.map(|percent| percent.to_string()),
        "rate" => policy.rate_bytes.map(|bytes| bytes.to_string()),
        "strip_ansi" => policy.strip_ansi.map(|on| on.to_string()),
        "product" => text(&policy.product),
        "field.team" => policy.fields.get("team").map(|value| value.to_string()),
        "volume.logs" => policy.volumes.first().map(|rule| {
            assert_eq!(&*rule.volume, "logs");
            rule.glob.to_string()
        }),
        _ => panic!("{name}"),
    }
}

/// Places from the first that decides to the last.
const PLACES: [&str; 6] = [
    "enforce",
    "pod",
    "StatefulSet web",
    "Group all",
    "namespace",
    "configuration",
];

/// Values by place: index into [`PLACES`], name without the domain, value.
type Values<'a> = &'a [(usize, &'a str, &'a str)];

/// A pod with two containers, and settings, with values at places.
fn setup(values: Values<'_>) -> (PodMetadata, AnnotationSettings) {
    let at = |place: usize| {
        let there = values.iter().filter(move |(at, ..)| *at == place);
        there.map(|(_, name, value)| ((*name).to_owned(), (*value).to_owned()))
    };
    let texts = |place| {
        at(place)
            .map(|(name, value)| (domain(&name), value))
            .collect()
    };
    let container = |name: &str| PodContainer {
        name: name.into(),
        role: ContainerRole::Main,
        image: "i".into(),
        id: "".into(),
        last_id: "".into(),
        restarts: 0,
    };
    let workload = |place: usize, kind: &str, name: &str| WorkloadMetadata {
        kind: kind.into(),
        name: name.into(),
        annotations: Arc::new(texts(place)),
    };
    let metadata = PodMetadata {
        pod: Arc::new(PodObject {
            namespace: "shop".into(),
            name: "web-0".into(),
            annotations: texts(1),
            containers: vec![container("web"), container("side-car")],
            ..PodObject::default()
        }),
        workloads: vec![
            workload(2, "StatefulSet", "web"),
            workload(3, "Group", "all"),
        ],
        namespace: Some(Arc::new(NamespaceObject {
            annotations: texts(4),
            ..NamespaceObject::default()
        })),
        removed: false,
    };
    let settings = AnnotationSettings {
        enforce: at(0).collect(),
        defaults: at(5).collect(),
        ..settings()
    };
    (metadata, settings)
}

/// A name with its domain, if it has none.
fn domain(name: &str) -> String {
    match name.contains('/') {
        true => name.to_owned(),
        false => format!("inrush.io/{name}"),
    }
}

fn policy(values: Values<'_>, container: &str, stream: ContainerStream) -> ContainerPolicy {
    let (metadata, settings) = setup(values);
    resolve(&metadata, container, stream, &settings)
}

fn of_web(values: Values<'_>) -> ContainerPolicy {
    policy(values, "web", ContainerStream::Stdout)
}

#[test]
fn every_annotation_is_read_or_is_a_problem() {
    for (name, good, bad) in KEYS {
        for (value, expected) in good {
            let policy = of_web(&[(1, name, value)]);
            assert_eq!(
                shown(&policy, name).as_deref(),
                Some(expected),
                "{name}: {value}"
            );
            assert_eq!(policy.problems, [], "{name}: {value}");
            let decision = policy.decided_by.values().next().unwrap();
            assert_eq!(decision.place, AnnotationPlace::Pod);
            assert_eq!(*decision.annotation, domain(name));
            assert_eq!(policy.decided_by.len(), 1);
        }
        let policy = of_web(&[(1, name, bad)]);
        assert_eq!(shown(&policy, name), None, "{name}: {bad}");
        assert_eq!(policy.problems.len(), 1, "{name}: {bad}");
        assert_eq!(*policy.problems[0].annotation, domain(name));
        assert!(policy.decided_by.is_empty());
    }
}

#[test]
fn every_variant_reaches_its_container_and_stream_alone() {
    let containers = ["web", "side-car"];
    let streams = [ContainerStream::Stdout, ContainerStream::Stderr];
    for (name, good, _) in KEYS {
        for (prefix, suffix) in [
            ("", ""),
            ("", ".web"),
            ("stdout.", ""),
            ("stderr.", ""),
            ("stdout.", ".web"),
            ("stderr.", ".side-car"),
        ] {
            let written = format!("{prefix}{name}{suffix}");
            for container in containers {
                for stream in streams {
                    let policy = policy(&[(1, &written, good[0].0)], container, stream);
                    let is_meant = (suffix.is_empty() || &suffix[1..] == container)
                        && (prefix.is_empty() || prefix.trim_end_matches('.') == stream.name());
                    let has = shown(&policy, name);
                    let expected = is_meant.then_some(good[0].1);
                    assert_eq!(has.as_deref(), expected, "{written} {container} {stream:?}");
                    assert_eq!(policy.problems, []);
                }
            }
        }
    }
}

#[test]
fn every_place_beats_those_behind_it_and_gives_way_if_it_cannot_be_read() {
    for (name, good, bad) in KEYS {
        for (first, first_place) in PLACES.iter().enumerate() {
            for (second, second_place) in PLACES.iter().enumerate().skip(first + 1) {
                let both = [(second, name, good[1].0), (first, name, good[0].0)];
                let policy = of_web(&both);
                let at = format!("{name}: {first_place} {second_place}");
                assert_eq!(shown(&policy, name).as_deref(), Some(good[0].1), "{at}");
                let decision = policy.decided_by.values().next().unwrap();
                assert_eq!(decision.place.to_string(), *first_place, "{at}");
                let policy = of_web(&[(second, name, good[1].0), (first, name, bad)]);
                assert_eq!(shown(&policy, name).as_deref(), Some(good[1].1), "{at}");
                assert_eq!(policy.problems.len(), 1, "{at}");
                assert_eq!(policy.problems[0].place.to_string(), *first_place, "{at}");
            }
        }
    }
}

#[test]
fn the_nearest_variant_of_one_place_decides() {
    let order = ["stdout.index.web", "index.web", "stdout.index", "index"];
    for first in 0..order.len() {
        for second in first + 1..order.len() {
            let policy = of_web(&[(1, order[second], "b"), (1, order[first], "a")]);
            assert_eq!(
                policy.index.as_deref(),
                Some("a"),
                "{} {}",
                order[first],
                order[second]
            );
        }
    }
    // The place comes before the variant.
    let policy = of_web(&[(4, "stdout.index.web", "b"), (1, "index", "a")]);
    assert_eq!(policy.index.as_deref(), Some("a"));
    let policy = of_web(&[(1, "stdout.index.web", "b"), (0, "index", "a")]);
    assert_eq!(policy.index.as_deref(), Some("a"));
}

#[test]
fn each_number_and_each_field_is_decided_by_itself() {
    let policy = of_web(&[
        (1, "replace.20", "/b/2/"),
        (4, "replace.3", "/a/1/"),
        (4, "replace.20", "/x/y/"),
        (1, "hash.2", "h2"),
        (5, "hash.1", "h1"),
        (1, "field.a.b", "1"),
        (4, "field.a", "2"),
        (1, "field.c.web", "3"),
        (1, "field.d.side-car", "4"),
        (1, "volume.logs", "*.log"),
        (4, "volume.data", "*.txt"),
    ]);
    let replace: Vec<_> = policy
        .replace
        .iter()
        .map(|rule| (rule.number, &*rule.with))
        .collect();
    assert_eq!(replace, [(3, "1"), (20, "2")]);
    let hash: Vec<_> = policy.hash.iter().map(|rule| rule.number).collect();
    assert_eq!(hash, [1, 2]);
    let fields: Vec<_> = policy
        .fields
        .iter()
        .map(|(name, value)| (&**name, &**value))
        .collect();
    assert_eq!(fields, [("a", "2"), ("a.b", "1"), ("c", "3")]);
    assert_eq!(policy.volumes.len(), 2);
    assert_eq!(policy.problems, []);
}

#[test]
fn exclude_and_include_are_one_decision() {
    let rows: [(Values<'_>, Option<bool>); 6] = [
        (
            &[(1, "exclude", "true"), (1, "include", "true")],
            Some(true),
        ),
        (
            &[(4, "exclude", "true"), (1, "include", "true")],
            Some(false),
        ),
        (
            &[(5, "exclude", "true"), (4, "include", "yes")],
            Some(false),
        ),
        (
            &[(0, "exclude", "true"), (1, "include", "true")],
            Some(true),
        ),
        (
            &[(1, "exclude", "true"), (1, "include.web", "true")],
            Some(false),
        ),
        (&[(1, "exclude", "x"), (1, "include", "true")], Some(false)),
    ];
    for (values, expected) in rows {
        assert_eq!(of_web(values).exclude, expected, "{values:?}");
    }
}

#[test]
fn wrong_names_are_problems_where_they_are_surely_wrong() {
    let said = |values: Values<'_>| {
        let problems = of_web(values).problems;
        problems.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let unknown = said(&[(1, "indx", "a")]);
    assert!(unknown[0].starts_with("pod: `inrush.io/indx` is not known; there are index"));
    let stranger = said(&[(1, "index.webb", "a")]);
    let text = "pod: `inrush.io/index.webb` names the container `webb`, which the pod has not";
    assert_eq!(stranger, [text]);
    // A namespace has other pods, too.
    assert_eq!(
        said(&[(4, "index.webb", "a"), (2, "index.other", "b")]),
        [""; 0]
    );
    assert_eq!(said(&[(4, "replace", "a")]).len(), 1);
    let to = said(&[(2, "to", "prod,nowhere")]);
    let text = "StatefulSet web: `inrush.io/to` names `nowhere`, which the configuration does not \
        have";
    assert_eq!(to, [text]);
    // One that is wrong for another container harms and bothers nobody here.
    assert_eq!(said(&[(1, "sample.side-car", "x")]), [""; 0]);
}

#[test]
fn the_configuration_is_checked_by_itself() {
    let (_, settings) = setup(&[
        (0, "index", "a b"),
        (0, "index.web", "fine"),
        (5, "smple", "1"),
        (5, "stderr.sample", "10"),
    ]);
    let problems = settings.problems();
    let said = problems
        .iter()
        .map(|one| (one.place.to_string(), &*one.annotation));
    let expected = [
        ("configuration".to_owned(), "smple"),
        ("enforce".to_owned(), "index"),
    ];
    assert_eq!(said.collect::<Vec<_>>(), expected);
}

#[test]
fn labels_of_docker_are_annotations() {
    let mut settings = settings();
    settings.compatibility = AnnotationDialect::ALL.to_vec();
    settings
        .defaults
        .insert("sourcetype".into(), "docker".into());
    for (name, good, _) in KEYS {
        let labels = [(domain(name), good[0].0)].into_iter();
        let labels = labels
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        let policy = resolve_labels(&labels, "web", ContainerStream::Stdout, &settings);
        assert_eq!(shown(&policy, name).as_deref(), Some(good[0].1), "{name}");
        assert_eq!(policy.problems, []);
        let decision = policy
            .decided_by
            .values()
            .find(|one| *one.annotation == domain(name));
        assert_eq!(decision.unwrap().place.to_string(), "container label");
    }
    let labels = [
        ("io.collectord.logs-index", "a"),
        ("fluentbit.io/exclude", "true"),
    ];
    let labels = labels
        .into_iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    let policy = resolve_labels(&labels, "web", ContainerStream::Stderr, &settings);
    assert_eq!(
        (policy.index.as_deref(), policy.exclude),
        (Some("a"), Some(true))
    );
    assert_eq!(policy.sourcetype.as_deref(), Some("docker"));
}

#[test]
fn replacements_have_any_mark() {
    for (text, expected) in [
        (r"/a\/b/c\/d/", Some(("a/b", "c/d"))),
        (r"/\d+\\/$1/", Some((r"\d+\\", "$1"))),
        ("#a#b#", Some(("a", "b"))),
        ("/a//", Some(("a", ""))),
        ("//b/", None),
        ("/a/b", None),
        ("/a/b/c", None),
        ("/a/b/c/", None),
        (r"\a\b\", None),
        ("/a/b\\", None),
        ("", None),
        ("xaxbx", None),
    ] {
        let rule = value::replace(1, text).ok();
        let read = rule.as_ref().map(|rule| (&*rule.pattern.text, &*rule.with));
        assert_eq!(read, expected, "{text}");
    }
}

#[test]
fn hostile_values_are_bounded() {
    let long = "a".repeat(5000);
    let wide = r"(\w{1,200}){1,200}".repeat(50);
    let many = vec!["x"; 33].join(",");
    for (name, value) in [
        ("keep", &*long),
        ("keep", &*wide),
        ("index", &*long),
        ("volume.a", &*long),
        ("to", &*many),
    ] {
        let policy = of_web(&[(1, name, value)]);
        assert_eq!(policy.problems.len(), 1, "{name}");
        assert!(
            policy.problems[0].message.len() < 300,
            "{}",
            policy.problems[0].message
        );
    }
    let names: Vec<String> = (0..500).map(|number| format!("wrong{number}")).collect();
    let values: Vec<_> = names.iter().map(|name| (1, &**name, "x")).collect();
    assert_eq!(of_web(&values).problems.len(), PROBLEMS_MAX);
}
