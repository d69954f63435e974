//! The journal of systemd: a real journald in a mount namespace of its own, and its `journalctl`.

use std::path::Path;
use std::process::Command;

use inrush_tests::*;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::store::lines_of;

const JOURNALD: &str = "/lib/systemd/systemd-journald";

/// Lines that are written in each part of a test.
const LINES: u64 = 10_000;

/// Mounts an empty `/run`, and configures a journal in it that drops nothing by itself.
const NAMESPACE: &str = "mount --make-rprivate /
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/journal /run/log/journal
printf '[Journal]\\nStorage=volatile\\nReadKMsg=no\\nRateLimitBurst=0\\nForwardToSyslog=no\\n\
RuntimeMaxUse=200M\\nAudit=no\\n' >/run/journald.conf
mount --bind /run/journald.conf /etc/systemd/journald.conf
echo holder $$
exec sleep 100000";

/// A journal that no one else writes to.
struct Journal {
    /// Process that keeps the namespace.
    holder: String,
    pid: Pid,
    _journald: Daemon,
    _holder: Daemon,
    _folder: TempDir,
}

/// The number behind `word` in what a program said.
fn number(daemon: &mut Daemon, word: &str) -> String {
    daemon.until(word, |said| {
        let line = said.lines().find_map(|line| line.strip_prefix(word))?;
        Some(line.trim().to_owned())
    })
}

impl Journal {
    /// `None` where something is missing for it.
    fn start() -> Option<Self> {
        let needed = ["unshare", "nsenter", "mount", "journalctl", "systemd-cat"].map(tool);
        if !is_root() || needed.contains(&None) || !Path::new(JOURNALD).is_file() {
            return None;
        }
        let allowed = Command::new("unshare").args(["-m", "true"]).status();
        if !allowed.is_ok_and(|status| status.success()) {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let mut namespace = Command::new("unshare");
        namespace.args(["-m", "sh", "-ec", NAMESPACE]);
        let mut keeper = Daemon::start(&mut namespace, &folder.path().join("holder"));
        let holder = number(&mut keeper, "holder ");
        let mut command = Command::new("nsenter");
        let script = format!("echo journald $$; exec {JOURNALD}");
        command.args(["-t", &holder, "-m", "sh", "-c", &script]);
        let mut journald = Daemon::start(&mut command, &folder.path().join("journald"));
        let pid = number(&mut journald, "journald ").parse().unwrap();
        let journal = Self {
            holder,
            pid: Pid::from_raw(pid),
            _journald: journald,
            _holder: keeper,
            _folder: folder,
        };
        eventually("journald's socket", || {
            let there = journal.shell("test -S /run/systemd/journal/stdout && echo yes || echo no");
            (there.trim() == "yes").then_some(())
        });
        Some(journal)
    }

    /// Runs a script beside it.
    fn shell(&self, script: &str) -> String {
        let mut command = Command::new("nsenter");
        run_ok(command.args(["-t", &self.holder, "-m", "sh", "-ec", script]))
    }

    /// Writes lines of these numbers, a step of which its files are rotated in between.
    fn write(&self, first: u64, last: u64) {
        let pid = self.pid;
        std::thread::scope(|scope| {
            let cat = format!("seq -f 'line %.0f' {first} {last} | systemd-cat -t numbers");
            let writer = scope.spawn(move || self.shell(&cat));
            while !writer.is_finished() {
                kill(pid, Signal::SIGUSR2).unwrap();
                self.shell("journalctl --no-pager --quiet -n 1 >/dev/null");
            }
        });
        // What systemd-cat has written journald may still have to take.
        eventually("the last line in the journal", || {
            let script = "journalctl --no-pager --quiet -t numbers -n 1 -o cat";
            (self.shell(script).trim() == format!("line {last}")).then_some(())
        });
    }

    /// Number of its last entry: journald counts them from 1.
    fn last_number(&self) -> u64 {
        let script = "journalctl --no-pager --quiet -n 1 -o export";
        let entry = self.shell(script);
        let cursor = entry
            .lines()
            .find_map(|line| line.strip_prefix("__CURSOR="));
        let mut parts = cursor.unwrap().split(';');
        let number = parts.find_map(|part| part.strip_prefix("i="));
        u64::from_str_radix(number.unwrap(), 16).unwrap()
    }

    /// Starts Inrush beside it.
    fn inrush(&self, dir: Option<TempDir>) -> Inrush {
        let wrapper = ["nsenter", "-t", &self.holder, "-m"].map(str::to_owned);
        let yaml = "sources:\n  journal: { type: journald, start_at: beginning }\n\
            destinations:\n  local: { type: store, flush_bytes: 1MiB, flush_after: 100ms }\n";
        let options = Options {
            wrapper: &wrapper,
            dir,
            ..Options::default()
        };
        Inrush::with(yaml, options)
    }
}

/// Lines of the writer that a search finds, and how many of them differ.
fn found(inrush: &Inrush) -> (u64, u64) {
    let query = "/api/v1/sql?q=select+count(*),count(distinct+raw)+from+events+where+app='numbers'";
    let answer = lines_of(inrush, query);
    let row = answer
        .iter()
        .find(|object| object["type"] == "row")
        .unwrap();
    let value = |at: usize| row["values"][at].as_u64().unwrap();
    (value(0), value(1))
}

/// Waits until a search finds so many lines, each once.
fn await_lines(inrush: &Inrush, lines: u64) {
    let all = eventually("all lines", || {
        Some(found(inrush)).filter(|(n, _)| *n >= lines)
    });
    assert_eq!(all, (lines, lines));
}

/// The `journalctl` that an Inrush runs.
fn reader_of(inrush: &Inrush) -> Pid {
    eventually("a journalctl", || {
        let pid = inrush.pid();
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
        let children = |task: std::fs::DirEntry| {
            std::fs::read_to_string(task.path().join("children")).unwrap_or_default()
        };
        let all: Vec<String> = tasks.flatten().map(children).collect();
        let mut ids = all.iter().flat_map(|ids| ids.split_whitespace());
        let is_reader = |id: &&str| {
            let name = std::fs::read_to_string(format!("/proc/{id}/comm"));
            name.is_ok_and(|name| name.trim() == "journalctl")
        };
        ids.find(is_reader)?.parse().ok().map(Pid::from_raw)
    })
}

/// True once a process has ended, whoever has to reap it.
fn has_ended(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().unwrap_or_default();
    state.is_empty() || state.starts_with('Z')
}

#[test]
fn every_entry_comes_once_over_rotation_and_kills() {
    let Some(journal) = Journal::start() else {
        skip!("needs root, unshare, nsenter, systemd-journald, journalctl and systemd-cat");
    };
    journal.write(1, LINES);
    let inrush = journal.inrush(None);
    await_lines(&inrush, LINES);
    // Kills while lines come: of the reader, of Inrush with its reader, and of Inrush again.
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| journal.write(LINES + 1, 2 * LINES));
        for _ in 0..3 {
            let reader = reader_of(&inrush);
            let _ = kill(reader, Signal::SIGKILL);
            eventually("its end", || has_ended(reader).then_some(()));
        }
        writer.join().unwrap();
    });
    await_lines(&inrush, 2 * LINES);
    let reader = reader_of(&inrush);
    let (_, dir) = inrush.kill();
    eventually("the end of the reader", || has_ended(reader).then_some(()));
    let mut dir = Some(dir);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| journal.write(2 * LINES + 1, 3 * LINES));
        for _ in 0..2 {
            let inrush = journal.inrush(dir.take());
            // Something of it is read by then.
            inrush.wait_until("entries", |ledger| {
                ledger
                    .sources
                    .get("journal")
                    .is_some_and(|row| row.received > 0)
            });
            dir = Some(inrush.kill().1);
        }
        writer.join().unwrap();
    });
    let inrush = journal.inrush(dir);
    await_lines(&inrush, 3 * LINES);
    let ledger = inrush.ledger();
    assert_eq!(ledger.sources["journal"].lost_upstream.get("deleted"), None);
}

#[test]
fn entries_that_vacuum_deletes_unread_are_counted_to_the_last_one() {
    let Some(journal) = Journal::start() else {
        skip!("needs root, unshare, nsenter, systemd-journald, journalctl and systemd-cat");
    };
    journal.write(1, 1000);
    let inrush = journal.inrush(None);
    await_lines(&inrush, 1000);
    let read = |inrush: &Inrush, until: u64| {
        let ledger = inrush.wait_until("all entries", |ledger| {
            let row = &ledger.sources["journal"];
            let lost = row.lost_upstream.get("deleted").copied().unwrap_or(0);
            row.received + lost >= until
        });
        let row = &ledger.sources["journal"];
        (row.received, row.lost_upstream.get("deleted").copied())
    };
    let before = journal.last_number();
    assert_eq!(read(&inrush, before), (before, None));
    let (_, dir) = inrush.stop();
    journal.write(1001, 3000);
    journal.shell("journalctl --quiet --rotate && journalctl --quiet --vacuum-files=1");
    journal.write(3001, 3100);
    let all = journal.last_number() - before;
    let inrush = journal.inrush(Some(dir));
    let (received, lost) = read(&inrush, all);
    let lost = lost.unwrap();
    assert_eq!(received + lost, all);
    assert!(
        lost > 0 && received >= 100,
        "{received} received, {lost} lost"
    );
}
