//! The journal of systemd, read by the built binary.

use inrush_tests::*;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::store::lines_of;

/// Lines that are written in each part of a test.
const LINES: u64 = 10_000;

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
