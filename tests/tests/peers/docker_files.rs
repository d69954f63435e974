//! Files of Docker's driver `json-file`, of 50 containers from scratch that rotate at 1 MB.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;

use inrush_tests::*;

use crate::arrivals::{EventFile, counter};
use crate::collector::Collector;
use crate::docker::Docker;
use crate::streams::{SCRIPT, StreamAccount};

/// Containers that write at once.
const CONTAINERS: usize = 50;

/// Gives awk the shell by which it rests.
const SHELL: &str =
    "/busybox mkdir -p /bin; /busybox ln -s /busybox /bin/sh; exec /busybox awk \"$@\"";

/// Lines of each: some 4.5 MB.
const LINES: usize = 1_500;

/// Number of the files that were rotated, and of the logs whose first file is deleted.
fn rotated(containers: &Path) -> (usize, usize) {
    let (mut files, mut deleted) = (0, 0);
    for container in fs::read_dir(containers).unwrap() {
        let folder = container.unwrap().path();
        let id = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let oldest = folder.join(format!("{id}-json.log.2"));
        files += usize::from(oldest.exists());
        let mut line = String::new();
        if let Ok(file) = fs::File::open(oldest) {
            BufReader::new(file).read_line(&mut line).unwrap();
            deleted += usize::from(!line.contains(" 0000000 "));
        }
    }
    (files, deleted)
}

#[test]
#[ignore = "foreign program: make test-peers"]
fn every_line_of_fifty_containers_comes_once_and_whole() {
    let folder = tempfile::tempdir().unwrap();
    let Some(docker) = Docker::start_with_image(folder.path()) else {
        return;
    };
    let containers = folder.path().join("data/containers");
    let include = format!("{}/*/*-json.log", containers.display());
    let source = format!("type: file, format: auto, include: [\"{include}\"]");
    let collector = Collector::start(tempfile::tempdir().unwrap(), &source);
    let inrush = collector.inrush();
    let mut ids = Vec::new();
    for writer in 0..CONTAINERS {
        let mut run = docker.client(&["run", "-d", "--network", "none"]);
        run.args(["--log-driver", "json-file"]);
        run.args(["--log-opt", "max-size=1m", "--log-opt", "max-file=3"]);
        run.args(["busybox:1", "/busybox", "sh", "-c", SHELL, "sh"]);
        run.args(["-v", &format!("w={writer}")]);
        run.args(["-v", &format!("n={LINES}"), "-v", "rest=50000", SCRIPT]);
        ids.push(run_ok(&mut run).trim().to_owned());
    }
    let mut account = StreamAccount::of(inrush, CONTAINERS, LINES);
    EventFile::settle(inrush, || (account.read_on(|_| {}), account.is_complete()));
    let unread = counter(inrush, "inrush_file_rotated_away_unread_bytes_total");
    let faults = account.faults();
    assert!(
        faults.is_empty(),
        "{faults}; {unread} bytes counted as deleted unread\n{}",
        inrush.stderr()
    );
    assert_eq!(unread, 0, "counted as deleted unread, though all came");
    let codes = run_ok(docker.client(&["wait"]).args(&ids));
    assert!(codes.lines().all(|code| code == "0"), "{codes}");
    let (files, deleted) = rotated(&containers);
    assert_eq!(
        (files, deleted),
        (CONTAINERS, CONTAINERS),
        "rotated, deleted"
    );
    let flushed = counter(inrush, "inrush_file_partial_flushed_total");
    assert_eq!(flushed, 0, "pieces of a line were not joined");
}
