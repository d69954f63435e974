//! Products: what comes of events that packs know, end to end.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use inrush_tests::*;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::hec;

/// To a HEC server, with packs.
fn to_hec(endpoints: &[String], packs: &str) -> String {
    let packs = format!("packs: {{ enabled: true{packs} }}\n");
    format!("{}{packs}", hec::to_hec(endpoints, ""))
}

const ASA: &str = "<134>May  6 07:08:09 fw1 : %ASA-4-106023: Deny tcp src outside:192.0.2.9/4242 \
    dst inside:198.51.100.7/22\n";
const PAN: &str = "<14>May  6 07:08:09 pa1 1,2024/05/06 07:08:10,001122334455,TRAFFIC,end,1,\
    2024/05/06 07:08:10,192.0.2.1,198.51.100.2\n";

pub(crate) fn inrush(args: &[&str], dir: &Path, stdin: impl AsRef<[u8]>) -> Output {
    let mut child = Command::new(binary())
        .args(args)
        .current_dir(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let stdin = stdin.as_ref().to_vec();
    // Beside reading what it says, or both would wait for each other. A command that does not read
    // its input may be gone before it is written.
    let writer = std::thread::spawn(move || drop(input.write_all(&stdin)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

/// A configuration with one pack, `own.yaml`, beside it.
pub(crate) fn with_pack(pack: &str) -> tempfile::TempDir {
    with_pack_in("own.yaml", pack)
}

fn with_pack_in(file: &str, pack: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let config = format!(
        "sources: {{ s: {{ type: syslog, listen: [\"tcp://127.0.0.1:0\"] }} }}\n\
        destinations: {{ d: {{ type: blackhole }} }}\n\
        packs: {{ enabled: true, files: [{file}] }}\n"
    );
    std::fs::write(dir.path().join("inrush.yaml"), config).unwrap();
    std::fs::write(dir.path().join(file), pack).unwrap();
    dir
}

fn rule(more: &str) -> String {
    format!(
        "about: mine\nrules:\n  - name: mine\n    stage: program\n    when: {{ program: gadget }}\n    \
         set: {{ vendor: acme, product: gadget, index: things, sourcetype: \"acme:gadget\" }}\n{more}"
    )
}

#[test]
fn products_are_recognised_unless_packs_are_off() {
    let own = "sources: { s: { type: syslog, listen: [\"tcp://127.0.0.1:0\"] } }\n\
        destinations: { d: { type: blackhole } }\n";
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("on.yaml"), own).unwrap();
    let off = format!("{own}packs: {{ enabled: false }}\n");
    std::fs::write(dir.path().join("off.yaml"), off).unwrap();
    let packaged = concat!(env!("CARGO_MANIFEST_DIR"), "/../dist/inrush.yaml");
    for (file, sourcetype) in [
        (None, "cisco:asa"),
        (Some(packaged), "cisco:asa"),
        (Some("on.yaml"), "cisco:asa"),
        (Some("off.yaml"), "syslog"),
    ] {
        let mut args = vec!["explain", "--json"];
        args.extend(file.iter().flat_map(|file| ["-c", file]));
        let output = inrush(&args, dir.path(), ASA);
        let event: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            event["hec"]["sourcetype"], sourcetype,
            "{file:?}: {event:#}"
        );
    }
}

#[test]
fn a_folder_of_an_earlier_version_is_told_once_that_packs_are_on() {
    const WORDS: &str = "packs are on by default since this version";
    let yaml = to_hec(&["http://127.0.0.1:9".to_owned()], "");
    let told = |dir: tempfile::TempDir| {
        let options = Options {
            dir: Some(dir),
            ..Options::default()
        };
        let (exit, dir) = Inrush::with(&yaml, options).stop();
        (exit.stderr.matches(WORDS).count(), dir)
    };
    let (new, dir) = told(tempfile::tempdir().unwrap());
    assert_eq!(new, 0);
    // An earlier version has left no such file.
    std::fs::remove_file(dir.path().join("data/told")).unwrap();
    let (upgraded, dir) = told(dir);
    assert_eq!(upgraded, 1);
    assert_eq!(told(dir).0, 0);
}

#[test]
fn what_packs_know_goes_out_under_its_own_name() {
    let hec = Hec::start();
    let inrush = Inrush::start(&to_hec(&[hec.url()], ""));
    let unknown = "<13>May  6 07:08:09 h1 gadget[4]: hello\n";
    Tcp::connect(inrush.address("tcp")).send(format!("{ASA}{PAN}{unknown}").as_bytes());
    inrush.conserved(3);
    let taken = hec.taken();
    let shown = |event: &Value| json!([event["index"], event["sourcetype"], event["host"]]);
    let mut shown: Vec<String> = taken.iter().map(|event| shown(event).to_string()).collect();
    shown.sort();
    assert_eq!(
        shown,
        [
            r#"["main","syslog","h1"]"#,
            r#"["netfw","cisco:asa","fw1"]"#,
            r#"["netfw","pan:traffic","pa1"]"#
        ]
    );
    let asa = taken
        .iter()
        .find(|event| event["sourcetype"] == "cisco:asa")
        .unwrap();
    assert!(
        asa["event"]
            .as_str()
            .unwrap()
            .starts_with("%ASA-4-106023: Deny"),
        "{asa}"
    );
    assert_eq!(asa["fields"]["sc4s_vendor"], "cisco");
    assert_eq!(asa["fields"]["sc4s_product"], "asa");
    let pan = taken
        .iter()
        .find(|event| event["sourcetype"] == "pan:traffic")
        .unwrap();
    assert_eq!(pan["fields"]["sc4s_class"], "traffic");
    assert!(
        pan["event"].as_str().unwrap().starts_with("1,2024/05/06"),
        "{pan}"
    );
}

#[test]
fn what_was_recognised_outlives_a_crash_and_a_change_of_packs() {
    let hec = Hec::start();
    hec.otherwise(Some(Reply::code(503, 9, "Server is busy")));
    let yaml = to_hec(&[hec.url()], "");
    let inrush = Inrush::start(&yaml);
    Tcp::connect(inrush.address("tcp")).send(ASA.as_bytes());
    inrush.wait_until("accepted", |ledger| {
        ledger.destinations["splunk"].pending == 1
    });
    let (_, dir) = inrush.stop();
    hec.otherwise(None);
    let without = hec::to_hec(&[hec.url()], "");
    let again = Inrush::with(
        &without,
        Options {
            dir: Some(dir),
            ..Options::default()
        },
    );
    let taken = eventually("the event", || {
        Some(hec.taken()).filter(|taken| !taken.is_empty())
    });
    assert_eq!(taken[0]["sourcetype"], "cisco:asa");
    assert_eq!(taken[0]["index"], "netfw");
    drop(again);
}

#[test]
fn what_a_rule_drops_is_counted_and_goes_nowhere() {
    let hec = Hec::start();
    let inrush = Inrush::start(&to_hec(&[hec.url()], ""));
    let mark = "<46>May  6 07:08:09 h1 -- MARK --\n";
    Tcp::connect(inrush.address("tcp")).send(format!("{mark}{ASA}{mark}").as_bytes());
    let ledger = inrush.wait_until("three accepted", |ledger| {
        ledger.sources["syslog"].accepted == 3 && ledger.destinations["splunk"].delivered == 1
    });
    assert!(ledger.balanced);
    assert_eq!(ledger.filtered, BTreeMap::from([("mark".to_owned(), 2)]));
    assert_eq!(hec.taken().len(), 1);
}

#[test]
fn a_pack_of_ones_own_takes_effect_on_reload_and_comes_first() {
    let hec = Hec::start();
    let dir = tempfile::tempdir().unwrap();
    let own = dir.path().join("own.yaml");
    std::fs::write(&own, "about: none yet\nrules: []\n").unwrap();
    let files = format!(", files: [\"{}\"]", own.display());
    let inrush = Inrush::start(&to_hec(&[hec.url()], &files));
    let mut sender = Tcp::connect(inrush.address("tcp"));
    let mine = "<13>May  6 07:08:09 h1 gadget[4]: hello\n";
    sender.send(mine.as_bytes());
    inrush.conserved(1);
    let stolen = rule(
        "  - name: asa_is_mine\n    stage: message\n    when: { message: \"*%ASA-*\" }\n    \
        set: { index: things, sourcetype: mine }\n",
    );
    std::fs::write(&own, stolen).unwrap();
    let answer = inrush.reload();
    assert_eq!(answer.status, 200, "{}", answer.json());
    sender.send(mine.as_bytes());
    inrush.conserved(2);
    let taken = hec.taken();
    let types: Vec<_> = taken
        .iter()
        .map(|event| event["sourcetype"].as_str().unwrap())
        .collect();
    assert_eq!(types, ["syslog", "acme:gadget"]);
    assert_eq!(taken[1]["index"], "things");
    std::fs::write(&own, "rules: [{ name: x, stage: nowhere }]\n").unwrap();
    let refused = inrush.reload();
    assert_eq!(refused.status, 400, "a broken pack changes nothing");
    sender.send(mine.as_bytes());
    inrush.conserved(3);
    assert_eq!(hec.taken()[2]["sourcetype"], "acme:gadget");
}

/// What comes with Inrush may know an event by how it begins, before rules of a later stage are
/// asked: not where one of a user's own would have it.
#[test]
fn a_rule_of_ones_own_is_not_passed_over_by_a_beginning() {
    let dir = with_pack(
        "about: mine\nrules:\n\
        - name: lab\n  stage: message\n  when: { message: \"*devname=fw-lab *\" }\n  \
          set: { vendor: a, product: lab, index: lab, sourcetype: \"lab:fw\" }\n\
        - name: my_hostd\n  stage: program\n  when: { program: hostd, host: esx9 }\n  \
          set: { vendor: a, product: esx, index: lab, sourcetype: \"lab:esx\" }\n\
        - name: my_asa\n  stage: header\n  order: -1\n  when: { text: \"*fw-lab2 : %ASA-*\" }\n  \
          set: { vendor: a, product: asa, index: lab, sourcetype: \"lab:asa\" }\n",
    );
    let fortios = |name: &str| {
        format!(
            "<189>date=2024-05-06 time=07:08:09 devname={name} devid=FGT60FTK00000001 \
             eventtime=1714979289 logid=0000000013 type=traffic subtype=forward level=notice"
        )
    };
    let hostd = |host: &str| {
        format!(
            "<166>2024-05-06T07:08:05.250Z {host} Hostd: info hostd[2100] [Originator@6876 \
             sub=Vimsvc opID=12ab] Task created: haTask-1"
        )
    };
    let asa = |host: &str| {
        format!("<166>May  6 07:08:09 {host} : %ASA-6-302015: Built inbound UDP connection 7")
    };
    let records = [
        (fortios("fw-lab"), "lab:fw"),
        (fortios("fw-branch"), "fgt_traffic"),
        (hostd("esx9"), "lab:esx"),
        (hostd("esx4"), "vmware:esxlog:hostd"),
        (asa("fw-lab2"), "lab:asa"),
        (asa("fw-edge"), "cisco:asa"),
    ];
    let input: String = records.iter().map(|(raw, _)| format!("{raw}\n")).collect();
    let output = self::inrush(
        &["explain", "--json", "-c", "inrush.yaml"],
        dir.path(),
        input,
    );
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    let types = said.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["sourcetype"].as_str().unwrap_or_default().to_owned()
    });
    let wanted: Vec<_> = records.iter().map(|(_, wanted)| *wanted).collect();
    assert_eq!(types.collect::<Vec<_>>(), wanted);
}

/// Packs change again and again while events come: none is lost, none comes twice, and each was
/// recognised by one of the packs.
#[test]
fn packs_that_change_under_load_lose_nothing() {
    const RELOADS: usize = 4;
    /// Lines after which the sender waits until they were received: it is not to outrun a debug
    /// build by a million events.
    const BURST: usize = 20;
    let dir = tempfile::tempdir().unwrap();
    let own = dir.path().join("own.yaml");
    let pack = |round: usize| rule("").replace("index: things", &format!("index: things{round}"));
    std::fs::write(&own, pack(0)).unwrap();
    let packs = format!(
        "packs: {{ enabled: true, files: [\"{}\"] }}\n",
        own.display()
    );
    let inrush = Inrush::start(&(crate::to_file(crate::TCP, "") + &packs));
    let (address, admin) = (inrush.address("tcp"), inrush.admin());
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let sender = std::thread::spawn(move || {
        let mut tcp = Tcp::connect(address);
        let mut sent = 0;
        // One line at a time: a reload meets batches that are half full.
        while !stopped.load(Ordering::Relaxed) {
            tcp.send(format!("<13>May  6 07:08:09 h1 gadget[4]: event {sent}\n"));
            sent += 1;
            let received = || {
                let ledger = http(admin, "GET", "/api/v1/ledger").json();
                (ledger["sources"]["syslog"]["received"] == sent).then_some(())
            };
            if sent % BURST == 0 {
                eventually("all that was sent", received);
            }
        }
        sent
    });
    for round in 1..=RELOADS {
        let before = inrush.ledger().sources["syslog"].received;
        inrush.wait_until("some events by the packs of before", |ledger| {
            ledger.sources["syslog"].received > before
        });
        std::fs::write(&own, pack(round)).unwrap();
        let answer = inrush.reload();
        assert_eq!(answer.status, 200, "{}", answer.json());
    }
    stop.store(true, Ordering::Relaxed);
    let sent: usize = sender.join().unwrap();
    let events = inrush.collected(sent as u64);
    let mut indexes = BTreeSet::new();
    let mut numbers: Vec<usize> = events
        .iter()
        .map(|event| {
            assert_eq!(event["sourcetype"], "acme:gadget");
            indexes.insert(event["index"].as_str().unwrap().to_owned());
            let text = event["message"].as_str().unwrap();
            text.strip_prefix("event ").unwrap().parse().unwrap()
        })
        .collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..sent));
    // The last reload may have come after the last event.
    let rounds = (0..=RELOADS).map(|round| format!("things{round}"));
    let missing: Vec<_> = rounds.filter(|index| !indexes.contains(index)).collect();
    assert!(
        missing.is_empty() || missing == [format!("things{RELOADS}")],
        "{missing:?}"
    );
}

#[test]
fn a_listener_of_its_own_says_what_sends_there() {
    let hec = Hec::start();
    let yaml = to_hec(&[hec.url()], "").replace(
        "sources:\n",
        "sources:\n  esa: { type: syslog, listen: [\"tcp://127.0.0.1:0\"], product: cisco/esa }\n",
    );
    let inrush = Inrush::start(&yaml);
    let line = "<22>May  6 07:08:09 gui_logs: Info: login from 192.0.2.7\n";
    Tcp::connect(inrush.nth_address("tcp", 0)).send(line.as_bytes());
    Tcp::connect(inrush.nth_address("tcp", 1)).send(line.as_bytes());
    let taken = eventually("both", || {
        Some(hec.taken()).filter(|taken| taken.len() == 2)
    });
    let types = sorted(field(&taken, "sourcetype"));
    assert_eq!(types, ["cisco:esa:http", "syslog"]);
}

#[test]
fn check_names_the_place_of_every_mistake_in_a_pack() {
    for (pack, wanted) in [
        (
            "rules:\n  - { name: a, stage: program, whne: {} }\n",
            "own.yaml:2:32: `whne` is no key of a rule; did you mean `when`?",
        ),
        (
            "rules:\n  - { name: a, stage: porgram }\n",
            "own.yaml:2:23: `porgram` is no stage here",
        ),
        (
            "rules:\n  - { name: a, stage: program, when: { program: \"/a(/\" } }\n",
            "own.yaml:2:49: `a(` is no regular expression",
        ),
        (
            "rules:\n  - { name: a, stage: program, when: { program: \"/(x{1,200}){1,200}{1,200}/\" } }\n",
            "too large",
        ),
        (
            "rules:\n  - { name: a, stage: program, set: { template: t_msg_onyl } }\n",
            "did you mean `t_msg_only`?",
        ),
        (
            "rules:\n  - { name: a, stage: program, read: [{ time: x, format: \"%k\" }] }\n",
            "`%k` is no part of a time",
        ),
        (
            "rules:\n  - { name: a, stage: program, set: { source: \"${program|loud}\" } }\n",
            "no filter `loud`",
        ),
        (
            "rules:\n  - { name: a, stage: after, group: { by: x, second: 2 } }\n",
            "own.yaml:2:46: `second` is no key of `group`; did you mean `seconds`?",
        ),
        (
            "rules:\n  - { name: a, stage: after, group: { by: x, seconds: 0 } }\n",
            "`seconds` is no number above 0 and up to 300",
        ),
        (
            "rules:\n  - { name: a, stage: after, group: { seconds: 2 } }\n",
            "`group` needs `by`",
        ),
        (
            "rules:\n  - { name: a, stage: program, group: { by: x, seconds: 2 } }\n",
            "only rules of the stage `after` have a `group`",
        ),
        (
            "rules:\n  - { name: a, stage: after, \
             group: { by: x, seconds: 2, part: \"${message}\", event: \"${joind}\" } }\n",
            "`event` must have `${joined}` in it",
        ),
        (
            "rules:\n  - { name: a, stage: after, group: { by: x, seconds: 2, join: x } }\n",
            "own.yaml:2:58: `join` needs `part`",
        ),
    ] {
        let dir = with_pack(pack);
        let output = inrush(&["check", "-c", "inrush.yaml"], dir.path(), "");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{pack}: {said}");
        assert!(said.contains(wanted), "{pack}: {said}");
    }
}

#[test]
fn check_runs_samples_and_warns_of_rules_that_are_never_taken() {
    let good = rule(
        "    samples:\n      - raw: \"<13>May  6 07:08:09 h1 gadget: hi\"\n        \
         expect: { sourcetype: \"acme:gadget\", event: \"gadget: hi\" }\n",
    );
    let dir = with_pack(&good);
    let output = inrush(&["check", "-c", "inrush.yaml"], dir.path(), "");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), said.as_str()), (Some(0), ""));
    let dir = with_pack(&good.replace("acme:gadget\", event", "acme:other\", event"));
    let output = inrush(&["check", "-c", "inrush.yaml"], dir.path(), "");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2));
    let wanted =
        "own.yaml:9:19: a sample of `mine`: sourcetype is \"acme:gadget\", not \"acme:other\"";
    assert!(said.contains(wanted), "{said}");
    let shadowed = rule("  - { name: never, stage: program, when: { program: gadget } }\n");
    let dir = with_pack(&shadowed);
    let output = inrush(&["check", "-c", "inrush.yaml"], dir.path(), "");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0));
    assert!(said.contains("`never` is never taken: `mine`"), "{said}");
}

/// Who changes one of the packs that come with Inrush copies its file, with its name.
#[test]
fn a_pack_with_the_name_of_one_that_comes_with_inrush_is_checked_too() {
    let pack = "about: ours\nrules:\n  - name: zscaler_lss\n    stage: program\n    \
        when: { program: gadget }\n    set: { sourcetype: mine }\n    samples:\n      \
        - raw: \"<13>May  6 07:08:09 h1 gadget: hi\"\n        expect: { sourcetype: other }\n";
    let dir = with_pack_in("zscaler.yaml", pack);
    let output = inrush(&["check", "-c", "inrush.yaml"], dir.path(), "");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let wanted = "zscaler.yaml:9:19: a sample of `zscaler_lss`: sourcetype is \"mine\"";
    assert!(said.contains(wanted), "{said}");
    assert!(!said.contains("does not count"), "{said}");
    assert_eq!(output.status.code(), Some(2));
}

/// The attributes of this kind of LEEF are kept apart, and what is kept goes with the rule.
#[test]
fn what_a_rule_read_is_forgotten_if_it_is_not_taken() {
    let pack = "about: mine\nrules:\n\
        \x20 - name: first\n    stage: message\n    order: -90\n\
        \x20   when: { message: \"LEEF:1*\" }\n\
        \x20   read: [{ leef: message }, { regex: '^never$', in: message }]\n\
        \x20   set: { index: \"${usr}\" }\n\
        \x20 - name: second\n    stage: message\n    order: -80\n\
        \x20   when: { message: \"LEEF:1*\" }\n\
        \x20   set: { index: second }\n    cases:\n\
        \x20     - { when: { not: { field: { usr: \"\" } } }, set: { index: stale } }\n";
    let dir = with_pack(pack);
    let args = ["explain", "-c", "inrush.yaml", "--json", "--fresh"];
    let line =
        "<13>May  6 07:08:09 h1 LEEF:1.0|Acme|Gate|1|7|src=192.0.2.1|usr=ann|dst=192.0.2.2\n";
    let output = inrush(&args, dir.path(), line);
    let said = String::from_utf8_lossy(&output.stderr);
    let answer: Value = serde_json::from_slice(&output.stdout).expect(&said);
    assert_eq!(answer["envelope"][0]["index"], "second", "{answer}");
}

/// Offsets of kept texts begin at the end of the bytes that were received: there the message seems
/// to go on.
#[test]
fn a_text_goes_on_behind_the_message_that_was_received_last() {
    let pack = "about: mine\nrules:\n  - name: mine\n    stage: program\n    \
        when: { program: gadget }\n    set: { values: { more: \", and more\" }, \
        template: \"${message}${more}\" }\n";
    let dir = with_pack(pack);
    let args = ["explain", "-c", "inrush.yaml", "--json", "--fresh"];
    let output = inrush(&args, dir.path(), "<13>May  6 07:08:09 h1 gadget: a text\n");
    let said = String::from_utf8_lossy(&output.stderr);
    let answer: Value = serde_json::from_slice(&output.stdout).expect(&said);
    assert_eq!(answer["envelope"][0]["event"], "a text, and more");
}

#[test]
fn explain_says_which_rules_were_asked_and_why_they_lost() {
    let more = "    cases:\n      - when: { message: \"*alarm*\" }\n        set: { class: alarm }\n\
        \x20 - { name: other, stage: program, when: { program: \"gizmo*\", message: \"x*\" } }\n";
    let dir = with_pack(&rule(more));
    let lines = "{\"raw\":\"<13>May  6 07:08:09 h1 gadget: an alarm\",\"peer\":\"10.0.0.5\",\
        \"received_at\":1714979289.123456}\n{\"raw\":\"<13>May  6 07:08:09 h1 gizmo: y\"}\n";
    let args = [
        "explain",
        "-c",
        "inrush.yaml",
        "--input",
        "json",
        "--json",
        "--fresh",
    ];
    let output = inrush(&args, dir.path(), lines);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    let said: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        (&said[0]["rule"], &said[0]["class"]),
        (&json!("mine"), &json!("acme/gadget/alarm"))
    );
    let envelope = &said[0]["envelope"][0];
    assert_eq!(envelope["fields"]["sc4s_recv_time"], "1714979289.123");
    assert_eq!(envelope["fields"]["sc4s_fromhostip"], "10.0.0.5");
    assert_eq!(said[0]["fields"]["host"], "h1");
    assert_eq!(said[0]["spans"]["host"], json!([20, 22]));
    assert_eq!(said[1]["class"], Value::Null);
    let why = said[1]["why"].as_str().unwrap();
    assert!(
        why.contains("`other`") && why.contains("message is `x*`"),
        "{why}"
    );
}

#[test]
fn an_env_file_of_sc4s_runs_and_becomes_a_configuration() {
    let hec = Hec::start();
    let dir = tempfile::tempdir().unwrap();
    let port = || {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().port()
    };
    let (tcp, udp) = (port(), port());
    let env = format!(
        "SC4S_DEST_SPLUNK_HEC_DEFAULT_URL={}\nSC4S_DEST_SPLUNK_HEC_DEFAULT_TOKEN=tok\n\
         SC4S_LISTEN_DEFAULT_TCP_PORT={tcp}\nSC4S_LISTEN_DEFAULT_UDP_PORT={udp}\n\
         SC4S_LISTEN_DEFAULT_RFC6587_PORT={tcp}\nSC4S_LISTEN_DEFAULT_RFC5426_PORT={udp}\n\
         SC4S_USE_NAME_CACHE=yes\nSC4S_ENABLE_EBPF=yes\n",
        hec.url()
    );
    std::fs::write(dir.path().join("env_file"), env).unwrap();
    let metadata = "cisco_asa,index,mine\n";
    std::fs::write(dir.path().join("splunk_metadata.csv"), metadata).unwrap();
    let args = ["migrate", "sc4s", "env_file", "--context", "."];
    let made = inrush(&args, dir.path(), "");
    assert_eq!(made.status.code(), Some(0));
    let said = String::from_utf8_lossy(&made.stderr).into_owned();
    assert!(
        said.contains("SC4S_ENABLE_EBPF: not needed") && !said.contains("NAME_CACHE"),
        "{said}"
    );
    let config = String::from_utf8(made.stdout).unwrap();
    assert!(
        !config.contains("tok\n"),
        "a token is not printed: {config}"
    );
    assert!(config.contains("remember_names: true"), "{config}");
    let config = config.replace("0.0.0.0", "127.0.0.1");
    let token = [("SC4S_DEST_SPLUNK_HEC_DEFAULT_TOKEN", "tok")];
    let inrush = Inrush::with(
        &config,
        Options {
            env: &token,
            ..Options::default()
        },
    );
    Tcp::connect(inrush.address("tcp")).send(ASA.as_bytes());
    let taken = eventually("the event", || {
        Some(hec.taken()).filter(|taken| !taken.is_empty())
    });
    assert_eq!(
        (&taken[0]["index"], &taken[0]["source"]),
        (&json!("mine"), &json!("sc4s"))
    );
    assert_eq!(hec.requests()[0].authorization, "Splunk tok");
}

#[test]
fn a_host_is_remembered_as_what_it_was() {
    let hec = Hec::start();
    let yaml = to_hec(&[hec.url()], ", remember_hosts: true, fallback: sc4s");
    let inrush = Inrush::start(&yaml);
    let mut sender = Tcp::connect(inrush.address("tcp"));
    sender.send(b"<166>May  6 07:08:09 esx7 vpxa[195]: verbose\n");
    inrush.conserved(1);
    sender.send(b"<166>May  6 07:08:09 esx7 sshd[77]: opened\n");
    inrush.conserved(2);
    let taken = hec.taken();
    assert_eq!(taken[0]["fields"]["sc4s_vendor"], "vmware");
    assert_eq!(taken[1]["sourcetype"], "nix:syslog");
    assert_eq!(taken[1]["fields"]["sc4s_vendor"], "vmware", "{}", taken[1]);
    inrush.signal(Signal::SIGTERM);
}

/// Cases that cannot come out right, each with the reason.
const KNOWN: [(&str, &str); 4] = [
    (
        "test_common_lite.py::test_fallback",
        "of the image without Cisco; another case wants the opposite",
    ),
    (
        "test_mk8s_config_files.py::test_host_override_mk8s",
        "skipped there too: another set-up",
    ),
    (
        "test_mk8s_hosts_override.py::test_host_override_mk8s",
        "skipped there too: another set-up",
    ),
    (
        "test_mk8s_splunk_metadata.py::test_splunk_metadata",
        "skipped there too: another set-up",
    ),
];

/// Cases that mean the last of their messages, as one process reads them in order.
const IN_ORDER: [&str; 1] = ["test_vmware.py::test_vmware_bsd_vpscache"];

/// What `inrush explain` says of JSON records, as SC4S's tests are set up.
fn explained(root: &Path, input: &str, more: &[&str]) -> Vec<Value> {
    let args = ["explain", "-c", "tests/sc4s/inrush.yaml"];
    let args = [&args[..], &["--input", "json", "--json"], more].concat();
    let output = inrush(&args, root, input);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let text = String::from_utf8(output.stdout).unwrap();
    let answer = |line| serde_json::from_str(line).unwrap();
    text.lines().map(answer).collect()
}

/// What is wrong with an answer; empty if it is as the case expects.
fn wrong(case: &Value, answer: &Value) -> Vec<String> {
    let expect = &case["expect"];
    let Some(envelope) = answer["envelope"].get(0) else {
        let grouped = case.get("messages").is_some();
        return if grouped || expect["count"] == "==0" {
            Vec::new()
        } else {
            vec!["nothing is sent".to_owned()]
        };
    };
    let mut out = Vec::new();
    let text = |value: &Value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    };
    let lower = |value: &Value| text(value).to_lowercase();
    for key in ["index", "sourcetype", "source", "host"] {
        let Some(wanted) = expect.get(key) else {
            continue;
        };
        let found = &envelope[key];
        let same = match text(wanted).strip_suffix('*') {
            Some(prefix) => text(found).starts_with(prefix),
            None if key == "host" => lower(found) == lower(wanted),
            None => found == wanted,
        };
        if !same {
            out.push(format!("{key} is {found}, not {wanted}"));
        }
    }
    // What must not come of it.
    if expect["count"] == "==0" {
        return if out.is_empty() {
            vec!["it came out as what must not come".to_owned()]
        } else {
            Vec::new()
        };
    }
    if let Some(wanted) = expect.get("time_epoch") {
        let seconds = |value: &Value| text(value).parse::<f64>().unwrap();
        if (seconds(&envelope["time"]) - seconds(wanted)).abs() > 0.000_6 {
            out.push(format!("time is {}, not {wanted}", envelope["time"]));
        }
    }
    if let Some(wanted) = expect.get("raw") {
        let wanted = wanted.get(0).unwrap_or(wanted);
        if text(&envelope["event"]).trim() != text(wanted).trim() {
            out.push(format!("event is {}, not {wanted}", envelope["event"]));
        }
    }
    out
}

#[test]
fn the_cases_of_sc4s_come_out_as_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let cases = root.join("../shared/corpus/sc4s/cases.jsonl");
    let Ok(cases) = std::fs::read_to_string(cases) else {
        skip!("the corpus ../shared/corpus/sc4s is not here");
    };
    let cases: Vec<Value> = cases
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let line = |case: &Value, message: &Value| {
        let listener = format!("{}:{}", case["transport"].as_str().unwrap(), case["port"]);
        let received: f64 = case["recv_time"].as_str().unwrap().parse().unwrap();
        let record = json!({"raw": message, "peer": "127.0.0.1", "listener": listener,
            "received_at": received});
        format!("{record}\n")
    };
    let alone = |case: &Value| line(case, &case["message"]);
    let input: String = cases.iter().map(alone).collect();
    let mut answers = explained(&root, &input, &["--fresh"]);
    assert_eq!(answers.len(), cases.len());
    for (case, answer) in cases.iter().zip(&mut answers) {
        if IN_ORDER.iter().any(|id| case["id"] == **id) {
            let messages = case["messages"].as_array().unwrap().iter();
            let input: String = messages.map(|one| line(case, &one["message"])).collect();
            *answer = explained(&root, &input, &[]).pop().unwrap();
        }
    }
    let mut failed = Vec::new();
    for (case, answer) in cases.iter().zip(&answers) {
        let id = case["id"].as_str().unwrap();
        let wrong = wrong(case, answer);
        let known = KNOWN.iter().any(|(known, _)| *known == id);
        if !wrong.is_empty() && !known {
            failed.push(format!("{id}: {} ({})", wrong.join("; "), answer["why"]));
        }
    }
    let exact = cases.len() - failed.len() - KNOWN.len();
    eprintln!("{exact} of {} cases exact", cases.len());
    assert!(
        failed.is_empty(),
        "{exact} of {}:\n{}",
        cases.len(),
        failed.join("\n")
    );
}
