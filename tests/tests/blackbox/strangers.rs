//! Other users of the host: what they could read, lock, or put in the place of a file.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use inrush_tests::{Inrush, Options, Tcp, binary, lines};
use nix::sys::stat::Mode;

use crate::{TCP, to_file};

/// Everything that two kinds of destinations and a queue write.
fn all_kinds() -> String {
    to_file(TCP, "")
        + "  archive: { type: file, path: \"{dir}/archive/{year}/x.log\" }\n  kept: { type: store, flush_after: 200ms }\n"
}

/// Below a folder all that others have any permission for, but for links.
fn open_to_others(folder: &Path) -> Vec<(PathBuf, u32)> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(path) = open.pop() {
        let metadata = fs::symlink_metadata(&path).unwrap();
        if metadata.mode() & 0o077 != 0 && !metadata.is_symlink() {
            found.push((path.clone(), metadata.mode() & 0o7777));
        }
        if metadata.is_dir() {
            open.extend(
                fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        }
    }
    found
}

fn send(inrush: &Inrush, events: usize) {
    let mut tcp = Tcp::connect(inrush.address("tcp"));
    tcp.send(lines(0..events));
    drop(tcp);
}

#[test]
fn nothing_that_is_written_can_be_read_by_others() {
    let inrush = Inrush::start(&all_kinds());
    send(&inrush, 1000);
    inrush.conserved(1000);
    for written in ["data", "archive", "out.jsonl"] {
        let open = open_to_others(&inrush.path(written));
        assert!(open.is_empty(), "{open:?}");
    }
    assert!(inrush.path("data/queue").is_dir() && inrush.path("data/store/_log").is_dir());
}

#[test]
fn owner_group_and_modes_are_as_configured() {
    let nowhere = "  archive: { type: file, path: \"{dir}/archive/{year}/x.log\", \
                   file_mode: 0640, dir_mode: 0750 }\n  kept: { type: store, flush_after: 200ms }\n";
    let access = "data_access: { file_mode: 0640, dir_mode: 0750 }\n";
    let inrush = Inrush::start(&(access.to_owned() + &to_file(TCP, "") + nowhere));
    send(&inrush, 100);
    inrush.conserved(100);
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    for folder in ["archive", "data/queue"] {
        assert_eq!(mode(&inrush.path(folder)), 0o750, "{folder}");
    }
    for entry in fs::read_dir(inrush.path("data/queue")).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o640, "{}", path.display());
    }
    for entry in fs::read_dir(inrush.path("archive")).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!((mode(&path), mode(&path.join("x.log"))), (0o750, 0o640));
    }
    assert_eq!(mode(&inrush.path("out.jsonl")), 0o600);
    // The number of the process is nobody's business, and its lock less so.
    assert_eq!(mode(&inrush.path("data/owner.lock")), 0o600);
}

#[test]
fn what_an_earlier_version_left_readable_is_closed_and_said_once() {
    let inrush = Inrush::start(&all_kinds());
    send(&inrush, 100);
    inrush.conserved(100);
    let (exit, dir) = inrush.stop();
    assert!(exit.status.success(), "{}", exit.stderr);
    for written in ["data", "archive"] {
        widen(&dir.path().join(written));
    }
    let options = Options {
        dir: Some(dir),
        ..Options::default()
    };
    let inrush = Inrush::with(&all_kinds(), options);
    send(&inrush, 100);
    inrush.conserved(100);
    let open = open_to_others(&inrush.path("data"));
    assert!(open.is_empty(), "{open:?}");
    let archives = open_to_others(&inrush.path("archive"));
    assert!(
        archives.iter().all(|(path, _)| path.is_dir()),
        "{archives:?}"
    );
    let said = inrush.stderr();
    assert_eq!(said.matches("other users could read").count(), 1, "{said}");
    assert_eq!(
        said.matches("was readable for other users").count(),
        1,
        "{said}"
    );
}

fn widen(path: &Path) {
    let is_dir = path.is_dir();
    let mode = if is_dir { 0o755 } else { 0o644 };
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    if is_dir {
        for entry in fs::read_dir(path).unwrap() {
            widen(&entry.unwrap().path());
        }
    }
}

#[test]
fn a_lock_of_a_stranger_does_not_keep_it_from_starting() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("data")).unwrap();
    fs::write(dir.path().join("data/owner.pid"), "999999999\n").unwrap();
    let stranger = File::open(dir.path().join("data/owner.pid")).unwrap();
    stranger.lock_shared().unwrap();
    let options = Options {
        dir: Some(dir),
        ..Options::default()
    };
    let inrush = Inrush::with(&to_file(TCP, ""), options);
    send(&inrush, 10);
    inrush.conserved(10);
    // A second one is still refused, and names the one that runs.
    let second = Command::new(binary())
        .args(["run", "-c"])
        .arg(inrush.path("inrush.yaml"))
        .arg("--data-dir")
        .arg(inrush.path("data"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(1), "{said}");
    assert!(
        said.contains(&format!("process {}", inrush.pid())),
        "{said}"
    );
}

#[test]
fn who_holds_the_lock_is_named_only_if_it_lives_and_holds_it() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("data")).unwrap();
    fs::write(dir.path().join("data/owner.pid"), "999999999\n").unwrap();
    let path = dir.path().join("data/owner.lock");
    let other = File::create(&path).unwrap();
    other.lock().unwrap();
    let yaml = to_file(TCP, "").replace("{dir}", dir.path().to_str().unwrap());
    fs::write(dir.path().join("inrush.yaml"), yaml).unwrap();
    let output = Command::new(binary())
        .args(["run", "-c"])
        .arg(dir.path().join("inrush.yaml"))
        .arg("--data-dir")
        .arg(dir.path().join("data"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(!said.contains("999999999"), "{said}");
    let own = format!("process {}", std::process::id());
    assert!(said.contains(&own) || said.contains("not known"), "{said}");
}

/// What stands in place of a file: each would be waited for, or read until memory ends.
fn in_place_of(path: &Path, kind: &str) {
    match kind {
        "pipe" => nix::unistd::mkfifo(path, Mode::S_IRWXU).unwrap(),
        "device" => std::os::unix::fs::symlink("/dev/zero", path).unwrap(),
        _ => File::create(path).unwrap().set_len(20 << 30).unwrap(),
    }
}

const KINDS: [(&str, &str); 3] = [("pipe", "pipe"), ("device", "device"), ("sparse", "larger")];

#[test]
fn a_file_that_would_not_end_is_refused_with_its_name() {
    for (kind, said) in KINDS {
        let dir = tempfile::tempdir().unwrap();
        let odd = dir.path().join("odd");
        in_place_of(&odd, kind);
        let odd = odd.to_str().unwrap();
        let good = to_file(TCP, "").replace("{dir}", dir.path().to_str().unwrap());
        let yaml = dir.path().join("inrush.yaml");
        let yaml = yaml.to_str().unwrap();
        let env = dir.path().join("env_file");
        fs::write(&env, "SC4S_DEST_SPLUNK_HEC_DEFAULT_URL=https://x:8088\n").unwrap();
        let packs = format!("packs: {{ enabled: true, files: [{odd}] }}\n");
        let hec = format!(
            "  hec: {{ type: splunk_hec, endpoints: [\"https://x:8088\"], token: t, tls: {{ ca_file: {odd} }} }}\n"
        );
        let served = good.replace("tcp://", "tls://").replace(
            "destinations",
            &format!("    tls: {{ cert_file: {odd}, key_file: {odd} }}\ndestinations"),
        );
        let cases: [(&str, &[&str]); 7] = [
            (&(good.clone() + &packs), &["check", "-c", yaml]),
            (&(good.clone() + &hec), &["check", "-c", yaml]),
            (&served, &["check", "-c", yaml]),
            (&good, &["check", "-c", odd]),
            (&good, &["run", "-c", odd]),
            (&good, &["migrate", "sc4s", odd]),
            (&good, &["load", "tcp://127.0.0.1:9", "--read-file", odd]),
        ];
        for (config, args) in cases {
            fs::write(yaml, config).unwrap();
            let output = limited(args);
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            let code = output.status.code();
            assert!(
                code == Some(2) || code == Some(1),
                "{kind} {args:?}: {code:?} {text}"
            );
            let named = text.contains(said) || text.contains("bytes") || text.contains("regular");
            assert!(named, "{kind} {args:?}: {text}");
        }
    }
}

/// The binary with 2 GiB of memory: what reads without end fails, and does not take the host along.
fn limited(args: &[&str]) -> std::process::Output {
    Command::new("timeout")
        .args(["-s", "KILL", "60", "prlimit", "--as=2147483648"])
        .arg(binary())
        .args(args)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[test]
fn odd_files_in_place_of_what_was_learnt_or_queued_do_not_stop_it() {
    for (kind, _) in KINDS {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("data/queue")).unwrap();
        for name in [
            "names.json",
            "zones.json",
            "given-up",
            "told",
            "queue/log.json",
            "queue/cursor-out",
        ] {
            in_place_of(&dir.path().join("data").join(name), kind);
        }
        let options = Options {
            dir: Some(dir),
            ..Options::default()
        };
        let yaml = "hosts: { remember_names: true }\n".to_owned() + &to_file(TCP, "");
        let inrush = Inrush::with(&yaml, options);
        send(&inrush, 100);
        inrush.conserved(100);
        assert!(inrush.rss_bytes() < 1 << 30, "{kind}");
    }
}
