//! The source beside a real journald, in a mount namespace of its own, and its `journalctl`.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::*;

const JOURNALD: &str = "/lib/systemd/systemd-journald";

/// Lines that are written at once.
const STEP: u64 = 500;

/// Mounts an empty `/run`, and configures a journal in it that drops nothing by itself.
const NAMESPACE: &str = "mount --make-rprivate /
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/journal /run/log/journal
printf '[Journal]\\nStorage=volatile\\nReadKMsg=no\\nRateLimitBurst=0\\nForwardToSyslog=no\\n\
RuntimeMaxUse=200M\\nAudit=no\\n' >/run/journald.conf
mount --bind /run/journald.conf /etc/systemd/journald.conf
echo ready
exec sleep 100000";

/// A process that ends with the test.
struct Helper(Child);

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A journal that nobody else writes to.
struct RealJournal {
    journald: Helper,
    holder: Helper,
}

/// A journald in the namespace of that process.
fn journald(holder: &Helper) -> Option<Helper> {
    let pid = holder.0.id().to_string();
    let mut daemon = Command::new("nsenter");
    daemon.args(["-t", &pid, "-m", JOURNALD]);
    let daemon = daemon.stdin(Stdio::null()).stdout(Stdio::null());
    daemon.stderr(Stdio::null()).spawn().ok().map(Helper)
}

impl RealJournal {
    /// `None` where something for it is missing.
    fn start() -> Option<Self> {
        let mut namespace = Command::new("unshare");
        namespace.args(["-m", "sh", "-ec", NAMESPACE]);
        let namespace = namespace.stdin(Stdio::null()).stderr(Stdio::null());
        let mut holder = Helper(namespace.stdout(Stdio::piped()).spawn().ok()?);
        let mut said = String::new();
        let mut reader = BufReader::new(holder.0.stdout.take()?);
        if reader.read_line(&mut said).ok()? == 0 || !Path::new(JOURNALD).is_file() {
            return None;
        }
        let journald = journald(&holder)?;
        let journal = Self { journald, holder };
        journal.await_socket();
        let tools = "command -v journalctl systemd-cat seq >/dev/null; echo $?";
        (journal.shell(tools).trim() == "0").then_some(journal)
    }

    /// Waits until somebody can write to it.
    fn await_socket(&self) {
        wait_for(|| self.shell("echo probe | systemd-cat; echo $?").trim() == "0");
    }

    /// Kills journald, and starts another one in its place.
    fn replace_journald(&mut self) {
        self.journald = journald(&self.holder).unwrap();
        self.await_socket();
    }

    /// Output of a script beside it.
    fn shell(&self, script: &str) -> String {
        let pid = self.holder.0.id().to_string();
        let mut command = Command::new("nsenter");
        command.args(["-t", &pid, "-m", "sh", "-c", script]);
        let done = command.output().unwrap();
        String::from_utf8(done.stdout).unwrap()
    }

    /// Writes lines of these numbers, and begins a new file behind them.
    fn write(&self, first: u64, last: u64) {
        let cat = format!("seq -f 'line %.0f' {first} {last} | systemd-cat -t numbers");
        self.shell(&cat);
        let tail = "journalctl --quiet -t numbers -n 1 -o cat";
        wait_for(|| self.shell(tail).trim() == format!("line {last}"));
        self.shell(&format!("kill -USR2 {}", self.journald.0.id()));
    }

    /// Number of its last entry: journald counts them from 1.
    fn last_number(&self) -> u64 {
        let entry = self.shell("journalctl --quiet -n 1 -o export");
        let cursor = entry
            .lines()
            .find_map(|line| line.strip_prefix("__CURSOR="));
        let place = JournalPlace::of(cursor.unwrap().as_bytes()).unwrap();
        place.number.unwrap().number
    }

    /// A program that is its `journalctl`.
    fn program(&self, folder: &Path) -> PathBuf {
        let path = folder.join("journalctl");
        let pid = self.holder.0.id();
        let script = format!("#!/bin/sh\nexec nsenter -t {pid} -m journalctl \"$@\"\n");
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }
}

impl Bench {
    fn start_beside(&self, program: &Path) -> Running {
        let options = JournaldSource {
            directory: None,
            journalctl: program.to_owned(),
            ..self.options(serde_json::json!({}))
        };
        let started = options.start("journal", &self.0.services, &self.0.known);
        Running(HarnessedSource(started.unwrap().source))
    }

    /// The numbers of lines up to this one, as they come.
    fn lines_to(&self, last: u64) -> Vec<u64> {
        let mut lines = Vec::new();
        while lines.last() != Some(&last) {
            let events = self.events(1);
            let number = |text: &String| text.strip_prefix("line ")?.parse::<u64>().ok();
            lines.extend(events.iter().filter_map(number));
        }
        lines
    }
}

/// Kills the `journalctl` that reads, if it runs at the moment.
fn kill_reader() {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    for task in tasks.flatten() {
        let children = std::fs::read_to_string(task.path().join("children"));
        for id in children.unwrap_or_default().split_whitespace() {
            let name = std::fs::read_to_string(format!("/proc/{id}/comm"));
            if name.is_ok_and(|name| name.trim() == "journalctl") {
                Command::new("kill").args(["-KILL", id]).status().unwrap();
            }
        }
    }
}

#[test]
fn a_real_journal_is_read_once_over_kills_and_counted_where_it_is_deleted() {
    let Some(mut journal) = RealJournal::start() else {
        eprintln!("SKIPPED: needs root, unshare, nsenter, systemd-journald and journalctl");
        return;
    };
    let bench = Bench::new(&[]);
    let program = journal.program(bench.0.folder.path());
    journal.write(1, STEP);
    let mut running = bench.start_beside(&program);
    assert_eq!(bench.lines_to(STEP), (1..=STEP).collect::<Vec<_>>());
    let mut last = STEP;
    for round in 0..6 {
        thread::scope(|scope| {
            let writer = scope.spawn(|| journal.write(last + 1, last + STEP));
            while !writer.is_finished() {
                kill_reader();
                thread::yield_now();
            }
        });
        if round % 2 == 0 {
            running.stop();
            running = bench.start_beside(&program);
        }
        let lines = bench.lines_to(last + STEP);
        assert_eq!(lines, (last + 1..=last + STEP).collect::<Vec<_>>());
        last += STEP;
    }
    assert!(running.restarts("killed") >= 1.0);
    journal.replace_journald();
    journal.write(last + 1, last + STEP);
    let lines = bench.lines_to(last + STEP);
    assert_eq!(lines, (last + 1..=last + STEP).collect::<Vec<_>>());
    last += STEP;
    assert_eq!((running.gaps(), bench.lost("deleted")), (0.0, 0));
    wait_for(|| bench.row().received >= journal.last_number());
    running.stop();
    journal.write(last + 1, last + STEP);
    journal.shell("journalctl --quiet --rotate && journalctl --quiet --vacuum-files=1");
    journal.write(last + STEP + 1, last + 2 * STEP);
    let running = bench.start_beside(&program);
    let lines = bench.lines_to(last + 2 * STEP);
    assert_eq!(
        lines,
        (last + STEP + 1..=last + 2 * STEP).collect::<Vec<_>>()
    );
    assert_eq!(running.gaps(), 1.0);
    let lost = bench.lost("deleted");
    assert!(lost >= STEP, "{lost}");
    wait_for(|| bench.row().received + lost >= journal.last_number());
    assert_eq!(bench.row().received + lost, journal.last_number());
}
