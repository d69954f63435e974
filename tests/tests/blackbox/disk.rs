//! A full disk holds events; it loses none and tears none.

use std::process::Command;

use inrush_tests::*;

use crate::{TCP, to_file};

/// Starts inrush in a mount namespace of its own, with a disk of 1 MiB at `disk` in its folder.
pub(crate) fn on_a_small_disk(yaml: &str) -> Option<Inrush> {
    on_a_disk("size=1m", yaml)
}

/// The same, with a disk as these options of a tmpfs say.
pub(crate) fn on_a_disk(options: &str, yaml: &str) -> Option<Inrush> {
    if !is_root() || ["unshare", "nsenter", "mount"].map(tool).contains(&None) {
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let disk = dir.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mount = format!("mount -t tmpfs -o {options} tmpfs {}", disk.display());
    if !Command::new("unshare")
        .args(["-m", "sh", "-c", &mount])
        .status()
        .unwrap()
        .success()
    {
        return None;
    }
    let script = format!("{mount} && exec \"$0\" \"$@\"");
    let wrapper = ["unshare", "-m", "sh", "-c", &script].map(str::to_owned);
    let options = Options {
        dir: Some(dir),
        wrapper: &wrapper,
        ..Options::default()
    };
    Some(Inrush::with(yaml, options))
}

/// Gives that disk more room.
pub(crate) fn grow_disk(inrush: &Inrush) {
    remount(inrush, "remount,size=64m");
}

/// Changes options of that disk.
pub(crate) fn remount(inrush: &Inrush, options: &str) {
    let disk = inrush.path("disk");
    let pid = inrush.pid().to_string();
    let grow = ["-t", &pid, "-m", "mount", "-o", options];
    run_ok(Command::new("nsenter").args(grow).arg(disk));
}

#[test]
fn a_full_disk_holds_events_until_there_is_room() {
    const SENT: usize = 10_000;
    let yaml = to_file(TCP, "").replace("out.jsonl", "disk/out.jsonl");
    let Some(inrush) = on_a_small_disk(&yaml) else {
        skip!("a small disk cannot be mounted here")
    };
    let mut tcp = Tcp::connect(inrush.address("tcp"));
    tcp.send(lines(0..SENT));
    eventually("the full disk to be noticed", || {
        (inrush.destination()["errors"]["disk_full"].as_u64()? >= 1).then_some(())
    });
    let ledger = inrush.wait_until("all received", |l| {
        l.sources["syslog"].received == SENT as u64
    });
    let out = &ledger.destinations["out"];
    assert!(
        out.pending > 0 && out.dropped.is_empty() && out.quarantined.is_empty(),
        "{out:?}"
    );
    let health = inrush.http("GET", "/healthz");
    assert_eq!(health.status, 503);
    let edges = health.json()["edges"].clone();
    let ill: Vec<_> = edges
        .as_array()
        .unwrap()
        .iter()
        .filter(|edge| edge["ok"] == false)
        .collect();
    assert_eq!((ill.len(), &ill[0]["name"]), (1, &"out".into()), "{edges}");
    assert!(ill[0]["since_ns"].is_i64() && ill[0]["reason"].is_string());

    grow_disk(&inrush);
    inrush.conserved(SENT as u64);
    assert_eq!(inrush.http("GET", "/healthz").status, 200);
    // The mount is seen only through the process that has it.
    let disk = inrush.path("disk");
    let inside = format!("/proc/{}/root{}/out.jsonl", inrush.pid(), disk.display());
    let ids: Vec<_> = (0..SENT).map(|n| format!("ID{n}")).collect();
    assert_eq!(field(&json_lines(inside.as_ref()), "msg_id"), ids);
}

#[test]
fn a_folder_that_cannot_be_written_holds_events() {
    let dir = tempfile::tempdir().unwrap();
    // A file where a folder should be: not even root can write below it.
    std::fs::write(dir.path().join("tape"), "").unwrap();
    let yaml = to_file(TCP, "").replace("out.jsonl", "tape/out.jsonl");
    let inrush = Inrush::with(
        &yaml,
        Options {
            dir: Some(dir),
            ..Options::default()
        },
    );
    Tcp::connect(inrush.address("tcp")).send(lines(0..10));
    eventually("the error", || {
        (inrush.destination()["errors"]["io"].as_u64()? >= 1).then_some(())
    });
    assert_eq!(inrush.ledger().destinations["out"].pending, 10);
    std::fs::remove_file(inrush.path("tape")).unwrap();
    inrush.conserved(10);
    assert_eq!(inrush.events("tape/out.jsonl").len(), 10);
}

#[test]
fn files_rotate_by_size_and_are_compressed() {
    use std::io::Read;
    const SENT: usize = 5_000;
    let more = "rotate: { max_bytes: 64KiB }, compression: gzip";
    let yaml = to_file(TCP, "").replace("out.jsonl\"", &format!("out.jsonl\", {more}"));
    let inrush = Inrush::start(&yaml);
    let mut tcp = Tcp::connect(inrush.address("tcp"));
    // A batch is written whole, so that several are needed for several files.
    for first in (0..SENT).step_by(500) {
        tcp.send(lines(first..first + 500));
        inrush.conserved(first as u64 + 500);
    }
    eventually("five compressed files", || {
        let names = std::fs::read_dir(inrush.path(""))
            .unwrap()
            .map(|e| e.unwrap().file_name());
        let gz = names
            .filter(|name| name.to_str().unwrap().ends_with(".gz"))
            .count();
        (gz >= 5).then_some(())
    });
    let (exit, dir) = inrush.stop();
    assert!(exit.status.success());
    let mut ids = Vec::new();
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if !name.starts_with("out") {
            continue;
        }
        let mut text = String::new();
        let file = std::fs::File::open(&path).unwrap();
        if name.ends_with(".gz") {
            flate2::read::MultiGzDecoder::new(file)
                .read_to_string(&mut text)
                .unwrap();
        } else {
            std::io::BufReader::new(file)
                .read_to_string(&mut text)
                .unwrap();
        }
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        ids.extend(field(&lines.collect::<Vec<_>>(), "msg_id"));
    }
    assert_eq!(ids.len(), SENT);
    let mut ids = sorted(ids);
    ids.dedup();
    assert_eq!(ids.len(), SENT);
}
