//! `inrush migrate collectord` and `fluent-bit`: what they print passes `inrush check`.

use std::path::Path;
use std::process::Command;

use inrush_tests::*;

/// A node's part of Collectord, with an application's files and a second input for events.
const COLLECTORD: &str = r"
[general]
dataPath = ./data/
annotationsSubdomain = blue

[general.kubernetes]
includeLabels.0 = ^app\.kubernetes\.io/.*$

[input.files]
path = /rootfs/var/lib/docker/containers/
crioPath = /rootfs/var/log/pods/
index = k8s
output = splunk::prod

[pipe.join]
patternRegex = ^[^\s]
maxInterval = 100ms
maxWait = 1s
maxSize = 1MB

[input.files::app-logs]
path = /rootfs/var/log/app
glob = *.log
recursive = true
type = app
eventPattern = ^\d{4}-
whitelist.0 = error
maxHoldAfterClose = 30m

[input.journald]
path.persistent = /rootfs/var/log/journal/
startFromRel = -14h

[input.kubernetes_events]
index = events

[output.splunk::prod]
urls.0 = https://hec-1:8088/services/collector/event/1.0
urls.1 = https://hec-2:8088/services/collector/event/1.0
token = verysecret
";

const FLUENT_BIT: &str = r"
[SERVICE]
    Flush        1
    Parsers_File parsers.conf

[INPUT]
    Name              tail
    Alias             pods
    Tag               kube.*
    Path              /var/log/containers/*.log
    Exclude_Path      /var/log/containers/*_kube-system_*.log,*.gz
    multiline.parser  docker, cri
    DB                /var/lib/fb/tail.db
    Read_from_Head    On

[INPUT]
    Name              tail
    Tag               app
    Path              /srv/log/*.log
    Multiline         On
    Parser_Firstline  first
    Ignore_Older      7d

[INPUT]
    Name            systemd
    Tag             host.*
    Systemd_Filter  _SYSTEMD_UNIT=kubelet.service

[INPUT]
    Name            kubernetes_events
    Tag             events

[FILTER]
    Name            kubernetes
    Match           kube.*
    K8S-Logging.Exclude On

[FILTER]
    Name            grep
    Match           app
    Regex           log error

[OUTPUT]
    Name            splunk
    Match           *
    Host            hec-1
    Port            8088
    TLS             On
    Splunk_Token    verysecret
";

const PARSERS: &str = r"
[PARSER]
    Name   first
    Format regex
    Regex  ^(?<time>\d{4}-\d\d-\d\d) (?<message>.*)
";

/// Variables that a configuration takes from the environment.
fn variables(text: &str) -> Vec<String> {
    let names = text.split("${").skip(1);
    let names = names.filter_map(|rest| rest.split(['}', ':']).next());
    names.map(str::to_owned).collect()
}

/// Migrates a file, and checks what comes out.
fn passes(kind: &str, file: &Path) {
    let migrated = Command::new(binary())
        .args(["migrate", kind])
        .arg(file)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&migrated.stderr);
    assert!(migrated.status.success(), "{kind}: {said}");
    let text = String::from_utf8(migrated.stdout).unwrap();
    assert!(!text.contains("verysecret"), "{text}");
    let made = file.with_extension("yaml");
    std::fs::write(&made, &text).unwrap();
    let mut check = Command::new(binary());
    check.arg("check").arg("-c").arg(&made);
    for name in variables(&text) {
        check.env(name, "value");
    }
    let checked = check.output().unwrap();
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success(), "{kind}: {said}\n{text}");
}

#[test]
fn what_is_made_of_a_collectord_passes_the_check() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("collectord.conf");
    std::fs::write(&file, COLLECTORD).unwrap();
    passes("collectord", &file);
}

#[test]
fn what_is_made_of_a_fluent_bit_passes_the_check() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("parsers.conf"), PARSERS).unwrap();
    let file = dir.path().join("fluent-bit.conf");
    std::fs::write(&file, FLUENT_BIT).unwrap();
    passes("fluent-bit", &file);
}
