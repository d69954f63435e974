//! Files of Collectord in, a configuration out. The samples are our own.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::collectord;
use crate::Migration;
use crate::made_tests::{hostile, notes, nowhere, read, under, value, values};

const NODE: &str = "\
# our own sample
[general]
dataPath = ./data/
httpServerBinding = :8080
annotationsSubdomain = blue
tooOldEvents = 168h
acceptEverything = yes

[general.kubernetes]
includeLabels.0 = ^app\\.kubernetes\\.io/.*$
includeLabels.1 = (a|b)
excludeAnnotations.0 = ^kubectl
watchTimeout = 5m

[input.files]
path = /rootfs/var/lib/docker/containers/
crioPath = /rootfs/var/log/pods/
type = kubernetes_logs
pollingInterval = 250ms
index = k8s
thruputPerSecond = 1Mb
output = splunk::prod

[pipe.join]
patternRegex = ^[^\\s]
maxInterval = 100ms
maxWait = 1s
maxSize = 1MB

[input.files::app-logs]
path = /rootfs/var/log/app
glob = *.log
recursive = true
type = app
eventPattern = ^\\d{4}-
whitelist.0 = error
whitelist.1 = warn
blacklist.0 = (?!look)ahead
extraction = ^(?P<timestamp>\\S+)
maxHoldAfterClose = 30m
output = devnull

[input.journald]
path.persistent = /rootfs/var/log/journal/
startFromRel = -14h
output = elasticsearch

[input.kubernetes_events]
index = events

[input.system_stats]
disabled = false
interval = 30s

[input.app_logs]
disabled = true

[output.splunk]
url = https://user:p4ssw0rd@a.example:8088/services/collector/event/1.0
urls.0 = https://b.example:8088
token = 11111111-2222-3333-4444-555555555555
threads = 2
batchSize = 768K
events = 50
ackEnabled = true
ackTimeout = 3m
incorrectIndexBehavior = RedirectToDefault
compressionLevel = default
clientSecretThing = verysecretvalue

[output.splunk::prod]
url = https://prod.example:8088

[output.elasticsearch]
host = https://elastic:changeme@es.example:9200
[nobody::knows]
x = 1
";

fn made(text: &str) -> Migration {
    collectord(&[("node.conf".to_owned(), text.to_owned())])
}

#[test]
fn inputs_become_sources() {
    let made = made(NODE);
    let root = read(&made);
    let pods = "sources.containers";
    assert_eq!(
        values(&root, &format!("{pods}.include")),
        ["/var/log/pods/*/*/*.log"]
    );
    for (path, wanted) in [
        ("sources.containers.format", "auto"),
        ("sources.containers.index", "k8s"),
        ("sources.containers.sourcetype", "kubernetes_logs"),
        ("sources.containers.kubernetes.fields", "collectord"),
        ("sources.containers.multiline.start", "^[^\\s]"),
        ("sources.containers.multiline.timeout", "1s"),
        ("sources.containers.multiline.max", "1MiB"),
        ("sources.app-logs.type", "file"),
        ("sources.app-logs.multiline.start", "^\\d{4}-"),
        ("sources.app-logs.rotate_hold", "30m"),
        ("sources.journal.start_at", "14h"),
        ("sources.events.index", "events"),
        ("health.listen", "0.0.0.0:8080"),
    ] {
        assert_eq!(value(&root, path), wanted, "{path}");
    }
    assert_eq!(
        values(&root, "sources.app-logs.include"),
        ["/var/log/app/**/*.log"]
    );
    assert_eq!(
        values(&root, "sources.containers.kubernetes.labels"),
        ["app.kubernetes.io/*"]
    );
}

#[test]
fn outputs_become_destinations_without_their_secrets() {
    let made = made(NODE);
    let root = read(&made);
    let endpoints = values(&root, "destinations.splunk.endpoints");
    let wanted = [
        "https://a.example:8088/services/collector/event/1.0",
        "https://b.example:8088",
    ];
    assert_eq!(endpoints, wanted);
    for (path, wanted) in [
        ("destinations.splunk.token", "${SPLUNK_TOKEN}"),
        ("destinations.prod.token", "${SPLUNK_TOKEN_PROD}"),
        ("destinations.splunk.acknowledgements", "true"),
        ("destinations.splunk.ack_timeout", "3m"),
        ("destinations.splunk.reroute_index", "main"),
        ("destinations.splunk.compression", "gzip"),
    ] {
        assert_eq!(value(&root, path), wanted, "{path}");
    }
    nowhere(
        &made,
        &["p4ssw0rd", "11111111", "verysecretvalue", "changeme"],
    );
    let said = notes(&made);
    let token = "node.conf:61 [output.splunk] token: a secret is not written down: set the \
                 variable SPLUNK_TOKEN to it";
    assert!(said.iter().any(|note| note == token), "{said:#?}");
}

#[test]
fn events_go_where_their_input_says() {
    let made = made(NODE);
    let wanted = "\
transforms:
  - { name: \"app-logs whitelist\", match: 'listener == \"app-logs\" && !message.matches(\"(?:error)|(?:warn)\")', drop: true }
  - { name: \"too old\", match: 'received - time > 604800.0', drop: true }
  - { name: \"output devnull\", match: 'listener == \"app-logs\"', drop: true }
";
    assert!(
        made.config.contains(wanted) || made.config.contains("too old"),
        "{}",
        made.config
    );
    for line in wanted.lines() {
        assert!(made.config.contains(line), "{line}\n{}", made.config);
    }
    let routes = "\
routes:
  - { match: 'listener == \"containers\"', to: [\"prod\"] }
  - { to: [\"splunk\"] }
";
    assert!(made.config.ends_with(routes), "{}", made.config);
}

#[test]
fn every_setting_is_named() {
    let made = made(NODE);
    under(
        &made,
        "Carried over",
        &["node.conf:18 [input.files] type -> sources.containers.sourcetype"],
    );
    let needless = [
        "[input.files] pollingInterval: inotify",
        "[output.splunk] threads: `workers: auto`",
        "[output.splunk] batchSize:",
        "[input.app_logs]: it is switched off",
        "[input.files] path: on a node with Docker",
    ];
    under(&made, "Not needed", &needless);
    let missing = [
        "[input.system_stats] and its 2 keys: metrics",
        "[general] annotationsSubdomain:",
        "[general.kubernetes] includeLabels.1: write globs",
        "[input.files::app-logs] blacklist.0: the pattern is none of Rust's syntax",
        "[input.files::app-logs] extraction:",
        "[input.files] thruputPerSecond: annotation `inrush.io/rate`",
        "[input.journald] output: that output did not come over",
        "[output.elasticsearch] and its key: Inrush has no such destination yet",
        "[output.splunk] url: the address holds a user",
    ];
    under(&made, "Not carried over, with what to do", &missing);
    let unknown = [
        "[general] acceptEverything",
        "[output.splunk] clientSecretThing",
        "[nobody::knows] x",
    ];
    under(
        &made,
        "Not known to this program: it changes nothing",
        &unknown,
    );
    let keys = NODE.lines().filter(|line| line.contains(" = "));
    for key in keys.map(|line| line.split(" = ").next().unwrap()) {
        let in_section = ["interval", "disabled", "host", "includeLabels.0"].contains(&key);
        assert!(in_section || made.config.contains(key), "{key} is lost");
    }
}

#[test]
fn variables_stand_in_for_values_of_files() {
    let manifest = "\
apiVersion: v1
kind: ConfigMap
data:
  node.conf: |
    [input.files]
    crioPath = /var/log/pods
    index = old
    [output.splunk]
    url = https://old.example:8088
---
apiVersion: apps/v1
kind: DaemonSet
spec: { template: { spec: { containers: [ { env: [
  { name: COLLECTOR__A, value: \"input.files__index=new\" },
  { name: COLLECTOR__B, value: \"output.splunk__url=https://new.example:8088\" },
  { name: COLLECTOR__C, value: \"output.splunk__token=secrettoken\" },
  { name: COLLECTOR__D, valueFrom: {} },
  { name: COLLECTOR__E, value: \"nothing\" },
  { name: OTHER, value: \"input.files__index=other\" } ] } ] } } }
";
    let env =
        "COLLECTOR__X=input.journald__index=journal\nexport COLLECTOR__Y='input.files__host=h'\n";
    let files = [("all.yaml", manifest), ("collector.env", env)];
    let made = collectord(&files.map(|(name, text)| (name.to_owned(), text.to_owned())));
    let root = read(&made);
    for (path, wanted) in [
        ("sources.containers.index", "new"),
        ("sources.containers.host", "h"),
        ("sources.journal.index", "journal"),
    ] {
        assert_eq!(value(&root, path), wanted, "{path}");
    }
    assert_eq!(
        values(&root, "destinations.splunk.endpoints"),
        ["https://new.example:8088"]
    );
    nowhere(&made, &["secrettoken"]);
    let said = notes(&made);
    let told = |text: &str| said.iter().any(|note| note.contains(text));
    assert!(told("COLLECTOR__D: its value is elsewhere"), "{said:#?}");
    assert!(told("COLLECTOR__E: not known"), "{said:#?}");
    assert!(!told("OTHER"), "{said:#?}");
}

#[test]
fn docker_alone_has_its_own_paths() {
    let made = made("[input.files]\npath = /rootfs/var/lib/docker/containers/\n");
    let root = read(&made);
    let include = values(&root, "sources.containers.include");
    assert_eq!(include, ["/var/lib/docker/containers/*/*-json.log"]);
    assert_eq!(value(&root, "sources.containers.format"), "docker");
    assert_eq!(
        value(&root, "sources.containers.docker.root"),
        "/var/lib/docker"
    );
    assert_eq!(value(&root, "destinations.local.type"), "store");
}

#[test]
fn hostile_files_are_read_within_bounds() {
    for text in hostile(NODE) {
        let made = made(&text);
        assert!(made.config.len() < 2 << 20, "{}", made.config.len());
        read(&made);
    }
    let many = "[input.files::x]\npath = /x\n".to_owned();
    let many: String = (0..200)
        .map(|n| many.replace("::x", &format!("::{n}")))
        .collect();
    let made = made(&many);
    read(&made);
    let said = notes(&made);
    assert!(
        said.iter()
            .any(|note| note.contains("more than 100 sources")),
        "{said:#?}"
    );
}

proptest! {
    /// Whatever the values are: the configuration is readable, and no secret is in it.
    #[test]
    fn values_are_texts_and_secrets_stay(text in "\\PC{0,40}", secret in "[A-Z]{12}") {
        let file = format!(
            "[input.files]\ncrioPath = {text}\nindex = {text}\n[input.files::{text}]\n\
             path = {text}\n\
             whitelist = {text}\neventPattern = {text}\n[output.splunk]\n\
             url = https://u:{secret}@h/{text}\n\
             token = {secret}\n{text}\n{text} = {secret}\n"
        );
        let made = made(&file);
        read(&made);
        prop_assert!(!made.config.contains(&secret) && !notes(&made).concat().contains(&secret));
    }
}
