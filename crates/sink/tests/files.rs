//! The `file`, `stdout` and `blackhole` sinks on a real file system.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use common::{MemoryFeed, MemoryQuarantine, WHEN, batch, start, until};
use inrush_event::{Batch, ByteSize, Period, RefuseReason};
use inrush_sink::file::{Compression, FileConfig, FileFormat, FsyncPolicy};
use inrush_sink::{ErrorReason, Sink, SinkConfig, SinkStatus, build};

fn raw(path: impl Into<String>) -> FileConfig {
    FileConfig {
        format: FileFormat::Raw,
        ..FileConfig::new(path)
    }
}

fn open(config: &FileConfig, folder: &Path) -> (Box<dyn Sink>, Arc<SinkStatus>) {
    let quarantine = Arc::new(MemoryQuarantine::default());
    build(
        "tape",
        &SinkConfig::File(config.clone()),
        folder,
        quarantine,
    )
    .unwrap()
}

/// Writes the batches and lets the sink finish.
fn write(config: &FileConfig, folder: &Path, batches: &[Arc<Batch>]) -> Arc<MemoryFeed> {
    let feed = MemoryFeed::of(batches);
    let (sink, _) = open(config, folder);
    sink.run(Arc::<MemoryFeed>::clone(&feed));
    feed
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_relative_path_lies_under_the_data_directory_and_is_appended_to() {
    let folder = tempfile::tempdir().unwrap();
    let config = raw("local/{index}.log");
    write(
        &config,
        folder.path(),
        &[batch("main", 0, &[b"one", b"two"])],
    );
    write(&config, folder.path(), &[batch("main", 0, &[b"three"])]);
    let text = fs::read_to_string(folder.path().join("local/main.log")).unwrap();
    assert_eq!(text, "one\ntwo\nthree\n");
}

#[test]
fn json_is_the_default_format() {
    let folder = tempfile::tempdir().unwrap();
    write(
        &FileConfig::new("a.jsonl"),
        folder.path(),
        &[batch("main", 0, &[b"x\"y"])],
    );
    let text = fs::read_to_string(folder.path().join("a.jsonl")).unwrap();
    let event: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(event["raw"], "x\"y");
}

#[test]
fn a_torn_last_line_is_ended_first() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.log"), "whole\ntor").unwrap();
    write(
        &raw("a.log"),
        folder.path(),
        &[batch("main", 0, &[b"next"])],
    );
    let text = fs::read_to_string(folder.path().join("a.log")).unwrap();
    assert_eq!(text, "whole\ntor\nnext\n");
}

#[test]
fn hostile_host_names_stay_in_the_folder_and_few_files_are_open() {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("data");
    let mut hosts: Vec<Vec<u8>> = (0..500)
        .map(|n| format!("host{n}|x").into_bytes())
        .collect();
    hosts.push(b"../../escape|x".to_vec());
    hosts.push(b"/etc/passwd|x".to_vec());
    hosts.push(b"..|x".to_vec());
    hosts.push([vec![b'h'; 5000], b"|x".to_vec()].concat());
    let texts: Vec<&[u8]> = hosts.iter().map(Vec::as_slice).collect();
    let config = FileConfig {
        max_open_files: 4,
        ..raw("{host}/x.log")
    };
    let feed = write(
        &config,
        &folder,
        &[batch("main", 0, &texts), batch("main", 1, &texts)],
    );
    assert_eq!(feed.delivered().len(), 2 * texts.len());
    assert_eq!(names(outer.path()), ["data"]);
    assert_eq!(names(&folder).len(), texts.len());
    let all = names(&folder)
        .into_iter()
        .map(|n| fs::read(folder.join(n).join("x.log")).unwrap().len());
    let written: usize = texts.iter().map(|text| 2 * (text.len() + 1)).sum();
    assert_eq!(all.sum::<usize>(), written);
}

#[test]
fn a_path_that_is_too_long_is_refused_and_quarantined() {
    let folder = tempfile::tempdir().unwrap();
    let long = [vec![b'h'; 300], b"|x".to_vec()].concat();
    let feed = MemoryFeed::of(&[batch("main", 0, &[b"a|x", &long, b"b|x"])]);
    let quarantine = Arc::new(MemoryQuarantine::default());
    let keep = Arc::<MemoryQuarantine>::clone(&quarantine);
    let config = SinkConfig::File(raw("{host}{host}.log"));
    let (sink, _) = build("tape", &config, folder.path(), keep).unwrap();
    sink.run(Arc::<MemoryFeed>::clone(&feed));
    assert_eq!(feed.delivered(), ["a|x", "b|x"]);
    assert_eq!(feed.refused().len(), 1);
    assert_eq!(
        quarantine.kept.lock().unwrap()[0].2.reason,
        RefuseReason::UnsafePath
    );
}

fn decoded(path: &Path) -> String {
    let bytes = fs::read(path).unwrap();
    let mut text = String::new();
    match path.extension().and_then(|e| e.to_str()) {
        Some("gz") => flate2::read::GzDecoder::new(&bytes[..])
            .read_to_string(&mut text)
            .unwrap(),
        Some("zst") => zstd::Decoder::new(&bytes[..])
            .unwrap()
            .read_to_string(&mut text)
            .unwrap(),
        _ => (&bytes[..]).read_to_string(&mut text).unwrap(),
    };
    text
}

#[test]
fn files_rotate_by_size_and_read_back_whole_whatever_the_compression() {
    for (compression, end) in [
        (Compression::None, "Z"),
        (Compression::Gzip, ".gz"),
        (Compression::Zstd, ".zst"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut config = FileConfig {
            compression,
            ..raw("a.log")
        };
        config.rotate.max_bytes = Some(ByteSize(1024));
        let lines: Vec<String> = (0..10).map(|n| format!("{n}{}", "x".repeat(600))).collect();
        let batches: Vec<_> = lines
            .iter()
            .map(|l| batch("main", 0, &[l.as_bytes()]))
            .collect();
        write(&config, folder.path(), &batches);
        let names = names(folder.path());
        assert_eq!(names.len(), 10, "{names:?}");
        assert!(names[1].contains(end), "{names:?}");
        let mut back: Vec<String> = names
            .iter()
            .map(|n| decoded(&folder.path().join(n)))
            .collect();
        back.sort();
        let want: Vec<String> = lines.iter().map(|line| format!("{line}\n")).collect();
        assert_eq!(back, want);
    }
}

#[test]
fn only_the_newest_rotated_files_are_kept_and_strangers_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    for name in [
        "a.log.bak",
        "a.log.20200101T000000Z.gz.tmp",
        "a.log.20200101T000000Z.gz",
    ] {
        fs::write(folder.path().join(name), "old").unwrap();
    }
    let mut config = FileConfig {
        keep_files: Some(2),
        ..raw("a.log")
    };
    config.rotate.max_bytes = Some(ByteSize(1024));
    let line = "x".repeat(1000);
    let batches: Vec<_> = (0..6)
        .map(|_| batch("main", 0, &[line.as_bytes()]))
        .collect();
    write(&config, folder.path(), &batches);
    let names = names(folder.path());
    assert_eq!(names.len(), 4, "{names:?}");
    assert!(names.contains(&"a.log.bak".to_owned()) && names.contains(&"a.log".to_owned()));
    assert!(
        !names.iter().any(|name| name.contains("20200101")),
        "{names:?}"
    );
}

#[test]
fn a_file_of_an_earlier_period_is_rotated_before_it_is_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.log");
    fs::write(&path, "yesterday\n").unwrap();
    let old = std::time::UNIX_EPOCH + Duration::from_secs(WHEN.0 as u64 / 1_000_000_000);
    fs::File::open(&path).unwrap().set_modified(old).unwrap();
    let mut config = raw("a.log");
    config.rotate.every = Some(Period(Duration::from_secs(86_400)));
    write(&config, folder.path(), &[batch("main", 0, &[b"today"])]);
    assert_eq!(fs::read_to_string(&path).unwrap(), "today\n");
    let names = names(folder.path());
    assert_eq!(names.len(), 2);
    assert_eq!(
        fs::read_to_string(folder.path().join(&names[1])).unwrap(),
        "yesterday\n"
    );
}

#[test]
fn every_fsync_policy_writes_the_same() {
    for fsync in [
        FsyncPolicy::Never,
        FsyncPolicy::Interval,
        FsyncPolicy::Batch,
    ] {
        let folder = tempfile::tempdir().unwrap();
        let config = FileConfig {
            fsync,
            ..raw("a.log")
        };
        write(
            &config,
            folder.path(),
            &[batch("main", 0, &[b"one"]), batch("main", 1, &[b"two"])],
        );
        assert_eq!(
            fs::read_to_string(folder.path().join("a.log")).unwrap(),
            "one\ntwo\n"
        );
    }
}

#[test]
fn a_full_disk_holds_its_events_and_no_others_and_recovers_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let full = folder.path().join("full.log");
    std::os::unix::fs::symlink("/dev/full", &full).unwrap();
    let config = FileConfig {
        fsync_interval: Period(Duration::from_millis(10)),
        ..raw("{host}.log")
    };
    let feed = MemoryFeed::of(&[batch("main", 0, &[b"full|1", b"ok|1", b"full|2", b"ok|2"])]);
    let (sink, status) = open(&config, folder.path());
    let sink = start(sink, &feed);
    until("the disk is full", || {
        status.errors(ErrorReason::DiskFull) > 1
    });
    assert_eq!(feed.delivered(), ["ok|1", "ok|2"]);
    assert!(!status.healthy());
    fs::remove_file(&full).unwrap();
    sink.join().unwrap();
    assert!(status.healthy());
    assert_eq!(feed.delivered().len(), 4);
    let mut lines: Vec<String> = fs::read_to_string(&full)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    lines.sort();
    assert_eq!(lines, ["full|1", "full|2"], "each once");
}

/// The limit of a file's size is the one way to have a real write fail half-way without being
/// root. It is a property of a process, so the test runs itself again under a shell that sets it.
const INNER: &str = "INRUSH_TEST_FILE_LIMIT";

#[test]
fn a_write_that_fails_half_way_leaves_nothing_behind() {
    if let Some(folder) = std::env::var_os(INNER) {
        return half_way(&PathBuf::from(folder));
    }
    let folder = tempfile::tempdir().unwrap();
    let name = "a_write_that_fails_half_way_leaves_nothing_behind";
    let output = Command::new("sh")
        .args([
            "-c",
            "trap '' XFSZ; ulimit -S -f 16; exec \"$0\" --exact --nocapture \"$1\"",
        ])
        .arg(std::env::current_exe().unwrap())
        .arg(name)
        .env(INNER, folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
}

fn half_way(folder: &Path) {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (limit, most) = getrlimit(Resource::RLIMIT_FSIZE).unwrap();
    let line = "x".repeat(limit as usize / 4 * 3);
    let feed = Arc::new(MemoryFeed::default());
    let (sink, status) = open(&raw("a.log"), folder);
    let sink = start(sink, &feed);
    feed.push(&batch("main", 0, &[line.as_bytes()]));
    until("the first is written", || feed.pending() == 0);
    feed.push(&batch("main", 1, &[line.as_bytes()]));
    feed.close();
    until("the second failed twice", || {
        status.errors(ErrorReason::Io) > 1
    });
    let length = fs::metadata(folder.join("a.log")).unwrap().len();
    assert!(
        length == line.len() as u64 + 1 || length == limit,
        "cut, or about to be: {length}"
    );
    setrlimit(Resource::RLIMIT_FSIZE, most, most).unwrap();
    sink.join().unwrap();
    let text = fs::read_to_string(folder.join("a.log")).unwrap();
    assert_eq!(text, format!("{line}\n{line}\n"));
}

#[test]
fn a_file_that_was_moved_away_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.log");
    let config = FileConfig {
        fsync_interval: Period(Duration::from_millis(10)),
        ..raw("a.log")
    };
    let feed = Arc::new(MemoryFeed::default());
    let (sink, _) = open(&config, folder.path());
    let sink = start(sink, &feed);
    feed.push(&batch("main", 0, &[b"one"]));
    until("written", || feed.pending() == 0);
    fs::rename(&path, folder.path().join("moved")).unwrap();
    until("made anew", || {
        feed.push(&batch("main", 0, &[b"two"]));
        until("written", || feed.pending() == 0);
        path.exists()
    });
    feed.close();
    sink.join().unwrap();
    assert!(fs::read_to_string(&path).unwrap().starts_with("two\n"));
}

#[test]
fn the_blackhole_takes_everything() {
    let feed = MemoryFeed::of(&[batch("main", 0, &[b"a", b"b"]), batch("main", 1, &[b"c"])]);
    let quarantine = Arc::new(MemoryQuarantine::default());
    let config = SinkConfig::Blackhole(Default::default());
    let (sink, status) = build("null0", &config, Path::new("."), quarantine).unwrap();
    sink.run(Arc::<MemoryFeed>::clone(&feed));
    assert_eq!(feed.delivered(), ["a", "b", "c"]);
    assert_eq!(status.requests(), 2);
    assert!(status.last_success().is_some());
}
