//! A real journald: 100,000 entries under rotation and vacuum, with kills of both sides.

use std::time::{Duration, Instant};

use inrush_tests::*;
use tempfile::TempDir;

/// Entries that are written in all.
const ENTRIES: u64 = 100_000;

/// Entries of a step.
const STEP: u64 = 5_000;

/// Files that a vacuum leaves.
const VACUUM: &str = "journalctl --quiet --rotate && journalctl --quiet --vacuum-files=2";

/// The two numbers of a query with one row; none while there is nothing to search.
fn row(inrush: &Inrush, query: &str) -> [u64; 2] {
    let query = query.replace(' ', "+");
    let answer = inrush.http("GET", &format!("/api/v1/sql?q={query}")).body;
    let mut lines = answer
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let row = lines.find(|line: &serde_json::Value| line["type"] == "row");
    [0, 1].map(|at| {
        let row = row.as_ref();
        row.and_then(|row| row["values"][at].as_u64()).unwrap_or(0)
    })
}

fn lost(inrush: &Inrush) -> u64 {
    let ledger = inrush.ledger();
    let row = ledger.sources.get("journal");
    row.and_then(|row| row.lost_upstream.get("deleted").copied())
        .unwrap_or(0)
}

/// Waits until it is so; fails with what there was instead.
fn until_balanced(probe: impl Fn() -> Result<u64, String>) -> u64 {
    let end = Instant::now() + DEADLINE;
    loop {
        match probe() {
            Ok(lost) => return lost,
            Err(words) => assert!(Instant::now() < end, "not every entry once: {words}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Inrush beside a journal, and what it has counted as lost before it was killed.
struct Reader {
    inrush: Option<Inrush>,
    lost_before: u64,
}

impl Reader {
    fn start(journal: &Journal, dir: Option<TempDir>) -> Self {
        Self {
            inrush: Some(journal.inrush(dir)),
            lost_before: 0,
        }
    }

    fn inrush(&self) -> &Inrush {
        self.inrush.as_ref().unwrap()
    }

    fn kill(&mut self) -> TempDir {
        self.lost_before += lost(self.inrush());
        self.inrush.take().unwrap().kill().1
    }

    /// Waits until every entry of the journal is in the store or counted as deleted; entries that
    /// were deleted unread, so far.
    fn account(&self, journal: &Journal) -> u64 {
        let lost = until_balanced(|| {
            let all = row(self.inrush(), "select count(*),1 from events")[0];
            let lost = self.lost_before + lost(self.inrush());
            let last = journal.last_number();
            match all + lost == last {
                true => Ok(lost),
                false => Err(format!("{all} stored, {lost} deleted unread, of {last}")),
            }
        });
        let query = "select count(*),count(distinct raw) from events where app='numbers'";
        let numbers = row(self.inrush(), query);
        assert_eq!(numbers[0], numbers[1], "an entry came twice");
        lost
    }
}

#[test]
#[ignore = "foreign program: make test-peers"]
fn every_entry_comes_once_or_is_counted_over_rotation_vacuum_and_kills() {
    let Some(mut journal) = Journal::start() else {
        skip!("needs root, unshare, nsenter, systemd-journald, journalctl and systemd-cat");
    };
    let mut reader = Reader::start(&journal, None);
    for step in 0..ENTRIES / STEP {
        let (first, last) = (step * STEP + 1, (step + 1) * STEP);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| journal.write(first, last));
            match step % 4 {
                // Vacuum while entries are written and read: some may go unread.
                1 => {
                    while !writer.is_finished() {
                        journal.shell(VACUUM);
                    }
                }
                2 => {
                    let dir = reader.kill();
                    reader.inrush = Some(journal.inrush(Some(dir)));
                }
                _ => {}
            }
        });
        reader.account(&journal);
        if step % 5 == 3 {
            journal.kill_journald();
            journal.replace_journald();
            reader.account(&journal);
        }
    }
    // Deleted while nobody reads.
    let before = reader.account(&journal);
    let dir = reader.kill();
    journal.write(ENTRIES + 1, ENTRIES + STEP);
    journal.shell("journalctl --quiet --rotate && journalctl --quiet --vacuum-files=1");
    journal.write(ENTRIES + STEP + 1, ENTRIES + STEP + 100);
    reader.inrush = Some(journal.inrush(Some(dir)));
    let deleted = reader.account(&journal) - before;
    assert!(deleted > 0, "the vacuum has deleted nothing");
    eprintln!("journald: {before} entries deleted unread under way, then {deleted}");
}
