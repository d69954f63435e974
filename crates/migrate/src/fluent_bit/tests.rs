//! Files of Fluent Bit in, a configuration out. The samples are our own.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::fluent_bit;
use crate::Migration;
use crate::made_tests::{at, hostile, notes, nowhere, read, under, value, values};

const MAIN: &str = "\
@SET folder=/srv/log
@SET hec_token=verysecret
[SERVICE]
    Flush        1
    Grace        5
    HTTP_Server  On
    Parsers_File parsers.conf
    Odd_Key      1

[INPUT]
    Name              tail
    Alias             pods
    Tag               kube.*
    Path              /var/log/containers/*.log
    Exclude_Path      /var/log/containers/*_kube-system_*.log,*.gz
    multiline.parser  docker, cri
    DB                /var/lib/fb/tail.db
    Refresh_Interval  5
    Rotate_Wait       30
    Buffer_Max_Size   10MB
    Mem_Buf_Limit     50MB
    Read_from_Head    On

[INPUT]
    Name              tail
    Tag               app
    Path              ${folder}/*.log
    Multiline         On
    Parser_Firstline  first
    Ignore_Older      7d
    Strange           x

[INPUT]
    Name            systemd
    Tag             host.*
    Systemd_Filter  _SYSTEMD_UNIT=kubelet.service
    Systemd_Filter  _TRANSPORT=kernel
    Read_From_Tail  On

[INPUT]
    Name    syslog
    Mode    udp
    Port    5140

[INPUT]
    Name  cpu

@INCLUDE outputs.conf

[FILTER]
    Name                 kubernetes
    Match                kube.*
    Merge_Log            On
    Labels               On
    K8S-Logging.Exclude  On
    Buffer_Size          0

[FILTER]
    Name     grep
    Match    app
    Exclude  log  ^DEBUG \"x\"
    Regex    nothing ^x

[FILTER]
    Name   modify
    Match  *
    Add    cluster prod-1
    Add    api_token abcdefg
    Rename a b

[FILTER]
    Name                  multiline
    Match                 kube.*
    multiline.parser      java
    multiline.key_content log

[FILTER]
    Name    lua
    Match   *
    script  s.lua
    call    f
";

const PARSERS: &str = "\
[PARSER]
    Name   first
    Format regex
    Regex  /^\\d{4}-\\d\\d/

[PARSER]
    Name   other
    Format json

[MULTILINE_PARSER]
    name          stack
    type          regex
    flush_timeout 500
    rule  \"start_state\"  \"/^ERROR/\"   \"cont\"
    rule  \"cont\"         \"/^\\s+at /\"  \"cont\"
";

const OUTPUTS: &str = "\
[OUTPUT]
    Name              splunk
    Match             kube.*
    Host              splunk.example
    Port              8088
    TLS               On
    TLS.Verify        Off
    Splunk_Token      ${hec_token}
    Event_Sourcetype  k8s
    Event_Index       main
    Workers           4
    Retry_Limit       False
    storage.total_limit_size 5G
    http_passwd       hunter2

[OUTPUT]
    Name    file
    Match   app
    Path    /archive
    File    app.log

[OUTPUT]
    Name   es
    Match  *
    Host   es.example
    HTTP_Passwd hunter3
";

fn included(_: &str, pattern: &str) -> Result<Vec<(String, String)>, String> {
    match pattern {
        "parsers.conf" => Ok(vec![("parsers.conf".into(), PARSERS.into())]),
        "outputs.conf" => Ok(vec![("outputs.conf".into(), OUTPUTS.into())]),
        "loop.conf" => Ok(vec![(
            "loop.conf".into(),
            "@INCLUDE loop.conf\n@INCLUDE ring.conf\n".into(),
        )]),
        "ring.conf" => Ok(vec![("ring.conf".into(), "@INCLUDE loop.conf\n".into())]),
        name if name.starts_with("deep") => {
            let next = format!("@INCLUDE {name}x\n");
            Ok(vec![(name.to_owned(), next)])
        }
        _ => Err("there is no such file".to_owned()),
    }
}

fn made(name: &str, text: &str) -> Migration {
    fluent_bit(&[(name.to_owned(), text.to_owned())], &included)
}

#[test]
fn inputs_become_sources() {
    let made = made("fluent-bit.conf", MAIN);
    let root = read(&made);
    assert_eq!(
        values(&root, "sources.pods.include"),
        ["/var/log/pods/*/*/*.log"]
    );
    let exclude = ["/var/log/pods/kube-system_*_*/*/*.log", "/**/*.gz"];
    assert_eq!(values(&root, "sources.pods.exclude"), exclude);
    assert_eq!(values(&root, "sources.tail.include"), ["/srv/log/*.log"]);
    assert_eq!(values(&root, "sources.systemd.units"), ["kubelet.service"]);
    assert_eq!(
        values(&root, "sources.systemd.matches"),
        ["_TRANSPORT=kernel"]
    );
    assert_eq!(
        values(&root, "sources.syslog.listen"),
        ["udp://0.0.0.0:5140"]
    );
    for (path, wanted) in [
        ("sources.pods.format", "auto"),
        ("sources.pods.start_at", "beginning"),
        ("sources.pods.max_line_bytes", "10MiB"),
        ("sources.tail.format", "lines"),
        ("sources.tail.start_at", "end"),
        ("sources.tail.older_than", "7d"),
        ("sources.tail.multiline.start", "^\\d{4}-\\d\\d"),
        ("sources.systemd.start_at", "end"),
        ("shutdown_timeout", "5s"),
    ] {
        assert_eq!(value(&root, path), wanted, "{path}");
    }
}

#[test]
fn filters_become_transforms_and_options_of_sources() {
    let made = made("fluent-bit.conf", MAIN);
    let root = read(&made);
    assert_eq!(value(&root, "sources.pods.kubernetes.fields"), "otel");
    assert_eq!(values(&root, "sources.pods.kubernetes.labels"), ["*"]);
    assert_eq!(
        values(&root, "sources.pods.kubernetes.compatibility"),
        ["fluentbit"]
    );
    assert!(at(&root, "sources.tail").get("kubernetes").is_none());
    let java = value(&root, "sources.pods.multiline.continue");
    assert!(java.contains("Caused by:"), "{java}");
    let lines = [
        "match: 'listener == \"tail\" && (message.matches(\"^DEBUG \\\"x\\\"\"))', drop: true",
        "set: { fields: { \"cluster\": \"\\\"prod-1\\\"\", \"api_token\": \"\\\"${API_TOKEN}\\\"\" } }",
        "match: 'listener == \"pods\"', set: { sourcetype: \"\\\"k8s\\\"\" }",
    ];
    for line in lines {
        assert!(made.config.contains(line), "{line}\n{}", made.config);
    }
}

#[test]
fn outputs_become_destinations_and_routes_without_secrets() {
    let made = made("fluent-bit.conf", MAIN);
    let root = read(&made);
    assert_eq!(
        values(&root, "destinations.splunk.endpoints"),
        ["https://splunk.example:8088"]
    );
    for (path, wanted) in [
        ("destinations.splunk.token", "${hec_token}"),
        ("destinations.splunk.index", "main"),
        ("destinations.splunk.tls.verify", "false"),
        ("destinations.splunk.queue.max_bytes", "5GiB"),
        ("destinations.splunk.queue.when_full", "drop_oldest"),
        ("destinations.file.path", "/archive/app.log"),
    ] {
        assert_eq!(value(&root, path), wanted, "{path}");
    }
    let routes = "\
routes:
  - { match: 'listener == \"pods\"', to: [\"splunk\"] }
  - { match: 'listener == \"tail\"', to: [\"file\"] }
";
    assert!(made.config.ends_with(routes), "{}", made.config);
    nowhere(&made, &["verysecret", "hunter", "abcdefg"]);
}

#[test]
fn every_setting_is_named() {
    let made = made("fluent-bit.conf", MAIN);
    let needless = [
        "fluent-bit.conf:17 [INPUT tail] DB: positions are durable",
        "[INPUT tail] Refresh_Interval: inotify",
        "[INPUT tail] Mem_Buf_Limit: events are always in a queue on disk",
        "[SERVICE] Flush:",
        "[OUTPUT splunk] Workers: `workers: auto`",
        "[OUTPUT splunk] Retry_Limit:",
    ];
    under(&made, "Not needed", &needless);
    let missing = [
        "[INPUT cpu]: metrics",
        "[FILTER lua] and its 3 keys: scripts do not run here",
        "[FILTER grep] Regex: events have no such field",
        "[FILTER modify] Add: a secret is not written down: set the variable API_TOKEN",
        "[FILTER modify] Rename:",
        "[FILTER kubernetes] Merge_Log:",
        "outputs.conf:22 [OUTPUT es] and its 3 keys: a destination for Elasticsearch",
        "@SET hec_token: a secret is not written down",
        "parsers.conf:6 [PARSER other] and its key: no source needs it",
    ];
    under(&made, "Not carried over, with what to do", &missing);
    let unknown = ["[SERVICE] Odd_Key", "[INPUT tail] Strange"];
    under(
        &made,
        "Not known to this program: it changes nothing",
        &unknown,
    );
    for text in [MAIN, OUTPUTS] {
        let mut named = text.lines().filter_map(|line| line.strip_prefix("    "));
        let whole = [
            "Name",
            "script",
            "call",
            "Host",
            "HTTP_Passwd",
            "Alias",
            "Match",
        ];
        let lost = named.find(|line| {
            let key = line.split(' ').next().unwrap();
            !whole.contains(&key) && !made.config.contains(key)
        });
        assert_eq!(lost, None, "\n{}", made.config);
    }
}

const AS_YAML: &str = "\
env:
  folder: /srv/log
service:
  flush: 1
  parsers_file: parsers.conf
pipeline:
  inputs:
    - name: tail
      path: ${folder}/*.log
      tag: app
      multiline.parser: [docker, stack]
    - name: cpu
  filters:
    - name: grep
      match: app
      exclude: log ^DEBUG
  outputs:
    - name: splunk
      match: '*'
      host: a.example
      splunk_token: hunter2
      processors: { logs: [] }
unheard: 1
";

const AS_CLASSIC: &str = "\
@SET folder=/srv/log
@INCLUDE parsers.conf
[INPUT]
    name tail
    path ${folder}/*.log
    tag app
    multiline.parser docker, stack
[FILTER]
    name grep
    match app
    exclude log ^DEBUG
[OUTPUT]
    name splunk
    match *
    host a.example
    splunk_token hunter2
";

/// The same configuration in both formats, and in a ConfigMap.
#[test]
fn the_yaml_form_and_manifests_say_the_same() {
    let indented = |text: &str| text.replace('\n', "\n    ");
    let manifest = format!(
        "apiVersion: v1\nkind: ConfigMap\ndata:\n  a.lua: x\n  fluent-bit.conf: |\n    {}\n  \
         parsers.conf: |\n    {}\n",
        indented(AS_CLASSIC),
        indented(PARSERS)
    );
    let body = |made: &Migration| -> String {
        let lines = made.config.lines();
        let lines = lines.filter(|line| !line.trim_start().starts_with('#'));
        // The name of a rule has its place.
        lines
            .map(|line| line.replace(|c: char| c.is_ascii_digit(), "") + "\n")
            .collect()
    };
    let by_yaml = made("conf.yaml", AS_YAML);
    let root = read(&by_yaml);
    assert_eq!(
        value(&root, "sources.tail.multiline.continue"),
        "(?:^\\s+at )"
    );
    assert_eq!(value(&root, "sources.tail.multiline.timeout"), "500ms");
    let by_classic = made("conf.conf", AS_CLASSIC);
    let by_manifest = made("all.yaml", &manifest);
    let plain = |text: String| {
        text.replace("conf.yaml", "X")
            .replace("conf.conf", "X")
            .replace("fluent-bit.conf", "X")
    };
    assert_eq!(plain(body(&by_yaml)), plain(body(&by_classic)));
    assert_eq!(plain(body(&by_manifest)), plain(body(&by_classic)));
    nowhere(&by_yaml, &["hunter"]);
    let said = notes(&by_yaml);
    for wanted in [
        "[UNHEARD]",
        "[OUTPUT splunk] processors: processors: write transforms",
    ] {
        assert!(
            said.iter().any(|note| note.contains(wanted)),
            "{wanted} {said:#?}"
        );
    }
    let said = notes(&by_manifest);
    assert!(
        said.iter()
            .any(|note| note.contains("a.lua:1 file: no configuration")),
        "{said:#?}"
    );
}

#[test]
fn many_rules_make_expressions_that_compile_or_are_named() {
    for rules in [60, 400, 3000] {
        let lines: String = (0..rules)
            .map(|n| format!("  Exclude log word{n}\n"))
            .collect();
        let text = format!("[INPUT]\n Name tail\n Path /x\n[FILTER]\n Name grep\n{lines}");
        let made = made("a.conf", &text);
        read(&made);
        let said = notes(&made);
        let told = |words: &str| said.iter().any(|note| note.contains(words));
        let named = told("too many or too long") || told("more settings: too many");
        assert_eq!(made.config.contains("word59"), !named, "{rules}");
    }
}

#[test]
fn files_that_include_each_other_end() {
    for (text, wanted) in [
        ("@INCLUDE loop.conf\n", None),
        ("@INCLUDE deep\n", Some("8 levels")),
        (
            "@INCLUDE none.conf\n",
            Some("@INCLUDE none.conf: there is no such file: give that file too"),
        ),
    ] {
        let made = made("main.conf", text);
        read(&made);
        let said = notes(&made);
        if let Some(wanted) = wanted {
            assert!(
                said.iter().any(|note| note.contains(wanted)),
                "{text} {said:#?}"
            );
        }
    }
}

#[test]
fn hostile_files_are_read_within_bounds() {
    let sample = [MAIN, OUTPUTS, PARSERS].concat();
    for text in hostile(&sample) {
        for name in ["a.conf", "a.yaml"] {
            let made = made(name, &text);
            assert!(made.config.len() < 2 << 20, "{}", made.config.len());
            read(&made);
        }
    }
    let bomb = "a: &a [x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a]\n\
        c: &c [*b, *b, *b, *b, *b, *b, *b, *b]\nd: &d [*c, *c, *c, *c, *c, *c, *c, *c]\n\
        e: &e [*d, *d, *d, *d, *d, *d, *d, *d]\nf: [*e, *e, *e, *e, *e, *e, *e, *e]\n";
    let said = notes(&made("bomb.yaml", bomb));
    assert!(
        said.iter().any(|note| note.contains("beyond the bounds")),
        "{said:#?}"
    );
}

proptest! {
    /// Whatever the values are: the configuration is readable, and no secret is in it.
    #[test]
    fn values_are_texts_and_secrets_stay(text in "\\PC{0,40}", secret in "[A-Z]{12}") {
        let file = format!(
            "[INPUT]\n Name tail\n Alias {text}\n Path {text}\n Tag {text}\n Multiline.Parser {text}\n\
             [FILTER]\n Name grep\n Match {text}\n Regex log {text}\n\
             [FILTER]\n Name modify\n Add {text} {text}\n Add my_token {secret}\n\
             [OUTPUT]\n Name splunk\n Match {text}\n Host u:{secret}@{text}\n\
             Splunk_Token {secret}\n Event_Sourcetype {text}\n {text} {secret}\n"
        );
        let made = made("a.conf", &file);
        read(&made);
        prop_assert!(!made.config.contains(&secret) && !notes(&made).concat().contains(&secret));
    }
}
