//! `inrush queue`, beside a running process and after it.

use std::path::Path;
use std::process::{Command, Output};

use inrush_tests::*;
use serde_json::Value;
use tempfile::TempDir;

use crate::{TCP, to_file};

const NOBODY: &str = "http://127.0.0.1:1";

/// A file `tape` that takes all, and a collector `splunk`.
fn both(url: &str, rest: &str) -> String {
    let splunk = format!(
        "  splunk: {{ type: splunk_hec, endpoints: [\"{url}\"], token: t, workers: 1, \
         batch: {{ timeout: 10ms }} }}\n"
    );
    to_file(TCP, "").replace("  out:", "  tape:") + &splunk + rest
}

fn start_in(dir: TempDir, yaml: &str) -> Inrush {
    let options = Options {
        dir: Some(dir),
        ..Options::default()
    };
    Inrush::with(yaml, options)
}

fn queue(data_dir: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command
        .arg("queue")
        .args(words)
        .arg("--data-dir")
        .arg(data_dir);
    command.output().unwrap()
}

fn words(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// What it prints, if it ends well.
fn said(data_dir: &Path, args: &[&str]) -> String {
    let output = queue(data_dir, args);
    assert!(
        output.status.success(),
        "{args:?}: {}",
        words(&output.stderr)
    );
    words(&output.stdout)
}

fn json(data_dir: &Path, args: &[&str]) -> Value {
    let args = [args, &["--json"]].concat();
    serde_json::from_str(&said(data_dir, &args)).unwrap()
}

/// So many events that `splunk` does not take, all of them in the queue's files.
fn backlog(events: usize, rest: &str) -> Inrush {
    let inrush = Inrush::start(&both(NOBODY, rest));
    Tcp::connect(inrush.address("tcp")).send(lines(0..events));
    inrush.wait_until("all pending", |l| {
        l.destinations["splunk"].pending == events as u64
            && l.destinations["tape"].delivered == events as u64
    });
    eventually("all written", || {
        let list = json(&inrush.path("data"), &["ls"]);
        let cursors = list["destinations"].as_array()?.clone();
        let of = |name: &str| cursors.iter().find(|c| c["destination"] == name).cloned();
        (of("splunk")?["pending"] == events && of("tape")?["pending"] == 0).then_some(())
    });
    inrush
}

#[test]
fn ls_says_what_is_kept_and_for_whom_beside_the_process() {
    let inrush = backlog(500, "");
    let data = inrush.path("data");
    let list = json(&data, &["ls"]);
    let segment = &list["segments"][0];
    assert_eq!(segment["sound"], true);
    assert_eq!(
        (&segment["events"]["start"], &segment["events"]["end"]),
        (&0.into(), &500.into())
    );
    let text = said(&data, &["ls"]);
    assert!(
        text.contains("0000000000.seg") && text.contains("sound"),
        "{text}"
    );
    let row = text
        .lines()
        .find(|line| line.starts_with("splunk"))
        .unwrap();
    assert!(row.contains("500") && row.ends_with("configured"), "{row}");
    let verified = json(&data, &["verify"]);
    assert_eq!(
        (&verified["damaged"], &verified["events"]),
        (&false.into(), &500.into())
    );
}

#[test]
fn cat_shows_what_is_asked_for() {
    let inrush = backlog(50, "");
    let data = inrush.path("data");
    let ids = |args: &[&str]| {
        let text = said(&data, &[&["cat"], args].concat());
        let events: Vec<Value> = text
            .lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect();
        field(&events, "msg_id")
    };
    assert_eq!(ids(&[]).len(), 50);
    assert_eq!(ids(&["--destination", "tape"]).len(), 0);
    assert_eq!(ids(&["--from", "48"]), ["ID48", "ID49"]);
    assert_eq!(ids(&["--from", "3", "--to", "4"]), ["ID3", "ID4"]);
    assert_eq!(
        ids(&["--destination", "splunk", "--from", "9", "--limit", "1"]),
        ["ID9"]
    );
    assert_eq!(
        said(&data, &["cat", "--raw", "--limit", "1"]),
        numbered(0) + "\n"
    );
    let unknown = queue(&data, &["cat", "--destination", "nobody"]);
    assert!(!unknown.status.success());
    let text = words(&unknown.stderr);
    assert!(
        text.contains("`nobody`") && text.contains("tape, splunk"),
        "{text}"
    );
}

#[test]
fn an_abandoned_destination_is_listed_and_drained_to_a_file() {
    let inrush = backlog(20, "");
    inrush.rewrite(&to_file(TCP, "").replace("  out:", "  tape:"));
    assert_eq!(inrush.reload().status, 200);
    let data = inrush.path("data");
    let text = said(&data, &["ls"]);
    let row = text
        .lines()
        .find(|line| line.starts_with("splunk"))
        .unwrap();
    assert!(row.contains("abandoned since 20"), "{row}");
    let file = inrush.path("old.log");
    let to = file.to_str().unwrap();
    let export = ["export", "--destination", "splunk", "-o", to];
    said(&data, &export);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), lines(0..20));
    assert!(
        !queue(&data, &export).status.success(),
        "a file that is there is left alone"
    );
    let octets = said(&data, &["export", "--framing", "octet", "--limit", "1"]);
    assert_eq!(octets, format!("{} {}", numbered(0).len(), numbered(0)));
    let lines = said(&data, &["export", "--framing", "json", "--from", "19"]);
    assert!(lines.contains("\"msg_id\":\"ID19\""), "{lines}");
    // Once it is saved, its place on the disk can be had back.
    let yaml = to_file(TCP, "").replace("  out:", "  tape:");
    inrush.rewrite(&(yaml + "queue: { abandoned_after: 1ms }\n"));
    assert_eq!(inrush.reload().status, 200);
    let gone = |l: &inrush_event::LedgerSnapshot| {
        l.destinations["splunk"].dropped.get("removed") == Some(&20)
    };
    assert!(inrush.wait_until("the cursor to go", gone).balanced);
}

/// Flips a bit in the middle of the segment.
fn damage(queue: &Path) {
    let file = queue.join("0000000000.seg");
    let mut bytes = std::fs::read(&file).unwrap();
    let written = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[written / 2] ^= 0x10;
    std::fs::write(&file, &bytes).unwrap();
}

/// Three batches and more that `splunk` has not taken; killed, then damaged.
fn damaged() -> TempDir {
    let inrush = backlog(100, "");
    let data = inrush.path("data");
    for n in 1..3 {
        Tcp::connect(inrush.address("tcp")).send(lines(100 * n..100 * n + 100));
        let all = 100 * (n as u64 + 1);
        inrush.wait_until("all pending", |l| l.destinations["splunk"].pending == all);
        eventually("all written", || {
            (json(&data, &["verify"])["events"] == all).then_some(())
        });
    }
    let refused = queue(&data, &["repair"]);
    assert_eq!(refused.status.code(), Some(1));
    let text = words(&refused.stderr);
    let owner = format!("process {}", inrush.pid());
    assert!(
        text.contains(&owner) && text.contains("stop it first"),
        "{text}"
    );
    let (_, dir) = inrush.kill();
    damage(&dir.path().join("data/queue"));
    dir
}

fn verify(data_dir: &Path) -> (Option<i32>, Value) {
    let output = queue(data_dir, &["verify", "--json"]);
    let verified = serde_json::from_str(&words(&output.stdout)).unwrap();
    (output.status.code(), verified)
}

#[test]
fn damage_is_counted_to_the_byte_and_repaired_once_nobody_uses_it() {
    let dir = damaged();
    let data = dir.path().join("data");
    let (code, before) = verify(&data);
    let (sound, bad) = (
        before["sound_bytes"].as_u64().unwrap(),
        before["bad_bytes"].as_u64().unwrap(),
    );
    assert_eq!((code, &before["bytes"]), (Some(1), &(sound + bad).into()));
    let kept = before["events"].as_u64().unwrap();
    let lost = &before["details"]["lost"][0];
    assert_eq!(
        lost["wanted_by"][0],
        serde_json::json!(["splunk", 300 - kept])
    );
    let text = words(&queue(&data, &["verify"]).stdout);
    assert!(
        text.contains(&format!("{bad} bad bytes")) && text.contains("LOST"),
        "{text}"
    );

    let image = std::fs::read(data.join("queue/0000000000.seg")).unwrap();
    let plan = said(&data, &["repair", "--dry-run"]);
    assert!(plan.contains("nothing was done"), "{plan}");
    assert_eq!(
        std::fs::read(data.join("queue/0000000000.seg")).unwrap(),
        image
    );
    std::fs::write(data.join("queue/0000000009.seg.new"), "half").unwrap();
    let done = said(&data, &["repair"]);
    assert!(done.contains(&format!("without {bad} bad bytes")), "{done}");
    assert!(
        done.contains("0000000009.seg.new: leftover, deleted"),
        "{done}"
    );
    assert_eq!(said(&data, &["repair"]), "nothing to repair\n");
    let (_, after) = verify(&data);
    assert_eq!(
        (after["bad_bytes"].as_u64(), after["bytes"].as_u64()),
        (Some(0), Some(sound))
    );
    assert_eq!(after["events"], kept);
    assert_eq!(
        after["details"]["lost"], before["details"]["lost"],
        "what is lost stays counted"
    );
    assert!(std::fs::read_dir(data.join("queue/bad")).unwrap().count() == 1);

    let hec = Hec::start();
    let inrush = start_in(dir, &both(&hec.url(), ""));
    let ledger = inrush.wait_until("all with a fate", |l| l.destinations["splunk"].pending == 0);
    let splunk = &ledger.destinations["splunk"];
    assert!(ledger.balanced);
    assert_eq!(
        (splunk.delivered, splunk.dropped["corrupt"]),
        (kept, 300 - kept)
    );
    assert_eq!(
        json(&inrush.path("data"), &["verify"])["damaged"],
        false,
        "all is accounted for"
    );
}

#[test]
fn a_wrong_place_is_not_an_empty_queue() {
    let folder = TempDir::new().unwrap();
    for args in [["ls"], ["verify"], ["cat"], ["repair"]] {
        let output = queue(&folder.path().join("nothing"), &args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(words(&output.stderr).contains("nothing"), "{args:?}");
    }
    let refused = queue(folder.path(), &["quarantine", "drop"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(words(&refused.stderr).contains("--all"));
}

/// Gives the head of a segment another version, as `docs/specs/queue.md` lays it out.
fn set_version(segment: &Path, version: u16) {
    let mut bytes = std::fs::read(segment).unwrap();
    bytes[12..14].copy_from_slice(&version.to_le_bytes());
    let key = inrush_event::crc32c(&bytes[16..32]);
    let sum = inrush_event::crc32c_append(key, &bytes[12..72]);
    bytes[8..12].copy_from_slice(&sum.to_le_bytes());
    std::fs::write(segment, bytes).unwrap();
}

#[test]
fn a_queue_of_a_newer_version_is_refused_and_left_as_it_is() {
    let (_, dir) = backlog(50, "").kill();
    let data = dir.path().join("data");
    let segment = data.join("queue/0000000000.seg");
    set_version(&segment, 999);
    let image = std::fs::read(&segment).unwrap();
    let refuses = |output: Output| {
        let said = words(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        let text = "0000000000.seg: its format 999 is newer than";
        assert!(said.contains(text), "{said}");
    };
    for tool in ["ls", "verify", "cat", "repair"] {
        refuses(queue(&data, &[tool]));
    }
    let mut run = Command::new(binary());
    run.args(["run", "-c"]).arg(dir.path().join("inrush.yaml"));
    refuses(run.arg("--data-dir").arg(&data).output().unwrap());
    assert_eq!(std::fs::read(&segment).unwrap(), image);
    set_version(&segment, 1);
    let hec = Hec::start();
    let inrush = start_in(dir, &both(&hec.url(), ""));
    inrush.wait_until("all delivered", |l| {
        l.destinations["splunk"].delivered == 50 && l.balanced
    });
}

/// What a collector says to an event that it will never take.
fn poison() -> Option<Reply> {
    let text = r#"{"text":"Invalid data format","code":6,"invalid-event-number":0}"#;
    Some(Reply::Status(400, text.to_owned()))
}

/// Three events that the tape has taken and the collector refused.
fn refused(hec: &Hec) -> Inrush {
    hec.otherwise(poison());
    let inrush = Inrush::start(&both(&hec.url(), ""));
    Tcp::connect(inrush.address("tcp")).send(lines(0..3));
    inrush.wait_until("all refused", |l| {
        l.destinations["splunk"].quarantined.get("invalid_event") == Some(&3)
            && l.destinations["tape"].delivered == 3
    });
    inrush
}

fn entries(data_dir: &Path, args: &[&str]) -> Vec<Value> {
    let text = said(data_dir, &[&["quarantine", "cat"], args].concat());
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn refused_events_are_kept_with_the_reason_and_survive_kill_9() {
    let hec = Hec::start();
    let inrush = refused(&hec);
    let list = said(&inrush.path("data"), &["quarantine", "ls"]);
    let row = list.lines().nth(1).unwrap();
    assert!(
        row.contains("splunk") && row.contains("invalid_event"),
        "{row}"
    );
    assert!(
        row.contains("0-2") && row.contains("Invalid data format"),
        "{row}"
    );
    let (_, dir) = inrush.kill();
    let kept = entries(&dir.path().join("data"), &[]);
    assert_eq!(kept.len(), 3);
    assert_eq!((&kept[0]["code"], &kept[0]["id"]), (&6.into(), &0.into()));
    assert!(kept[0]["attempts"].as_u64() >= Some(1));
    assert_eq!(kept[1]["event"]["raw"], numbered(1));
    assert_eq!(kept[1]["event"]["sender"], "127.0.0.1");
    assert_eq!(entries(&dir.path().join("data"), &["--id", "2"]).len(), 1);
    let two = entries(&dir.path().join("data"), &["--limit", "2"]);
    assert_eq!(two[..], kept[..2]);
    assert_eq!(
        entries(&dir.path().join("data"), &["--destination", "tape"]).len(),
        0
    );
    assert_eq!(
        entries(&dir.path().join("data"), &["--since", "1h"]).len(),
        3
    );
}

#[test]
fn a_replay_goes_to_the_one_that_refused_and_to_nobody_else() {
    let hec = Hec::start();
    let inrush = refused(&hec);
    let admin = inrush.admin().to_string();
    hec.otherwise(None);
    let replay = ["quarantine", "replay", "--id", "1-2", "--admin", &admin];
    let text = said(&inrush.path("data"), &replay);
    assert!(text.starts_with("2 events are on their way"), "{text}");
    let ledger = inrush.wait_until("both taken", |l| l.destinations["splunk"].delivered == 2);
    assert!(ledger.balanced);
    let (splunk, tape) = (&ledger.destinations["splunk"], &ledger.destinations["tape"]);
    assert_eq!(
        (splunk.accepted, splunk.quarantined["invalid_event"]),
        (5, 3)
    );
    assert_eq!((tape.accepted, tape.delivered, tape.pending), (3, 3, 0));
    let taken: Vec<Value> = hec
        .taken()
        .iter()
        .map(|event| event["event"].clone())
        .collect();
    assert_eq!(taken.len(), 2, "{taken:?}");
    let left = entries(&inrush.path("data"), &[]);
    assert_eq!((left.len(), &left[0]["id"]), (1, &0.into()));
    // What comes after it reaches both.
    Tcp::connect(inrush.address("tcp")).send(lines(3..4));
    inrush.wait_until("the next one", |l| {
        l.destinations["splunk"].delivered == 3 && l.destinations["tape"].delivered == 4
    });
    let ids: Vec<String> = (0..4).map(|n| format!("ID{n}")).collect();
    assert_eq!(field(&inrush.events("out.jsonl"), "msg_id"), ids);
    let api = inrush.json("/api/v1/quarantine");
    assert_eq!(api["entries"][0]["event"]["msg_id"], "ID0");
}

#[test]
fn a_replay_survives_kill_9() {
    let hec = Hec::start();
    let inrush = refused(&hec);
    hec.otherwise(Some(Reply::code(503, 9, "Server is busy")));
    let answer = inrush.http("POST", "/api/v1/quarantine/replay?all=true");
    assert_eq!(answer.json()["replayed"], 3, "{answer:?}");
    let ledger = inrush.ledger();
    assert!(ledger.balanced);
    assert_eq!(ledger.destinations["splunk"].pending, 3);
    assert_eq!(ledger.destinations["tape"].pending, 0);
    let (_, dir) = inrush.kill();
    assert_eq!(entries(&dir.path().join("data"), &[]).len(), 0);
    let verified = json(&dir.path().join("data"), &["verify"]);
    assert_eq!(verified["damaged"], false, "{verified}");
    hec.otherwise(None);
    let inrush = start_in(dir, &both(&hec.url(), ""));
    let ledger = inrush.wait_until("all taken", |l| l.destinations["splunk"].delivered == 3);
    assert!(ledger.balanced);
    let ledger = inrush.wait_until("nothing pending", |l| l.destinations["tape"].pending == 0);
    assert_eq!(ledger.destinations["tape"].delivered, 0);
    assert_eq!(hec.taken().len(), 3);
    assert_eq!(inrush.events("out.jsonl").len(), 3);
}

#[test]
fn what_is_not_wanted_is_dropped_beside_the_process_and_without_it() {
    let hec = Hec::start();
    let inrush = refused(&hec);
    let (data, admin) = (inrush.path("data"), inrush.admin().to_string());
    let drop = ["quarantine", "drop", "--id", "0", "--admin", &admin];
    assert_eq!(said(&data, &drop), "1 events deleted\n");
    assert_eq!(entries(&data, &[]).len(), 2);
    let nobody = queue(
        &data,
        &["quarantine", "replay", "--all", "--admin", "127.0.0.1:1"],
    );
    assert!(words(&nobody.stderr).contains("is inrush running"));
    let (_, dir) = inrush.stop();
    let data = dir.path().join("data");
    assert_eq!(
        said(&data, &["quarantine", "drop", "--reason", "too_large"]),
        "0 events deleted\n"
    );
    assert_eq!(
        said(&data, &["quarantine", "drop", "--all"]),
        "2 events deleted\n"
    );
    assert_eq!(entries(&data, &[]).len(), 0);
}

#[test]
fn a_full_quarantine_holds_the_events_and_turns_its_destination_red() {
    let hec = Hec::start();
    hec.otherwise(poison());
    let rest = "queue: { quarantine_bytes: 4MiB }\n";
    let inrush = Inrush::start(&both(&hec.url(), rest));
    let long = "x".repeat(60_000);
    let mut tcp = Tcp::connect(inrush.address("tcp"));
    for n in 0..100 {
        tcp.send(format!("{} {long}\n", numbered(n)));
    }
    let health = eventually("the destination to be red", || {
        let health = inrush.http("GET", "/healthz");
        let edges = health.json()["edges"].clone();
        let mut edges = edges.as_array()?.clone().into_iter();
        let splunk = edges.find(|e| e["name"] == "splunk")?;
        let words = splunk["reason"].to_string();
        words
            .contains("queue.quarantine_bytes")
            .then_some((health.status, splunk))
    });
    assert_eq!((health.0, &health.1["ok"]), (503, &false.into()));
    let ledger = inrush.wait_until("all with the tape", |l| {
        let splunk = &l.destinations["splunk"];
        let refused = splunk.quarantined.values().sum::<u64>();
        l.destinations["tape"].delivered == 100 && splunk.pending + refused == 100
    });
    assert!(ledger.balanced);
    let splunk = &ledger.destinations["splunk"];
    assert!(
        splunk.pending > 0 && splunk.dropped.is_empty(),
        "{splunk:?}"
    );
    // Those that wait are tried again in other company, and now and then one more has room.
    eventually("the ledger to say what quarantine holds", || {
        let shown = queue(&inrush.path("data"), &["quarantine", "cat"]);
        // Beside the one who writes, the last entry may be there in part, and it says so.
        let whole = shown.status.success().then(|| words(&shown.stdout))?;
        let kept = whole.lines().count() as u64;
        let ledger = inrush.ledger();
        (kept == ledger.destinations["splunk"].quarantined["invalid_event"]).then_some(())
    });
}
