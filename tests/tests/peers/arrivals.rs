//! Numbered lines that a foreign program writes, and what has arrived of them.
//!
//! An event that a destination wrote again after `kill -9` has the receive time of the first one:
//! it was accepted once. A line that was accepted twice has two receive times. That is right only
//! for what was in flight at a kill: delivered, and not yet on disk.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use inrush_tests::{DEADLINE, Inrush, eventually};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// `out.jsonl`, which is read while it is written.
pub(crate) struct EventFile {
    path: PathBuf,
    offset: u64,
}

impl EventFile {
    /// The file of a process, from its beginning.
    pub(crate) fn of(inrush: &Inrush) -> Self {
        Self {
            path: inrush.path("out.jsonl"),
            offset: 0,
        }
    }

    /// Hands on the events that were added, up to the last whole line. Returns their number. A
    /// line that `kill -9` has torn is none: its event is written again.
    pub(crate) fn read_on(&mut self, mut take: impl FnMut(&Value)) -> usize {
        let Ok(mut file) = File::open(&self.path) else {
            return 0;
        };
        file.seek(SeekFrom::Start(self.offset)).unwrap();
        let mut reader = BufReader::with_capacity(1 << 20, file);
        let (mut line, mut events) = (Vec::new(), 0);
        while reader.read_until(b'\n', &mut line).unwrap() > 0 && line.ends_with(b"\n") {
            self.offset += line.len() as u64;
            if let Ok(event) = serde_json::from_slice(&line) {
                take(&event);
                events += 1;
            }
            line.clear();
        }
        events
    }

    /// Calls `step` until it says that all is there, or until nothing has come for the deadline;
    /// `step` returns the number of events that came, and if all is there.
    pub(crate) fn settle(inrush: &Inrush, mut step: impl FnMut() -> (usize, bool)) {
        let mut end = Instant::now() + DEADLINE;
        while Instant::now() < end {
            match step() {
                (_, true) => break,
                (0, false) => std::thread::sleep(Duration::from_millis(50)),
                _ => end = Instant::now() + DEADLINE,
            }
        }
        inrush.wait_until("all is delivered", |ledger| {
            ledger.destinations["out"].pending == 0
        });
        step();
    }
}

/// Lines that have arrived, so far.
pub(crate) struct Arrivals {
    file: EventFile,
    /// Beginning of every line; others are not ours.
    start: &'static str,
    /// Receive times of each line.
    seen: HashMap<String, Vec<Timestamp>>,
    /// Times at which the process was killed.
    kills: Vec<Timestamp>,
}

/// Longest time from the receipt of an event until it is on disk: 50 ms on a disk that is idle.
const IN_FLIGHT: SignedDuration = SignedDuration::from_secs(1);

/// Receive time of an event.
pub(crate) fn received(event: &Value) -> Timestamp {
    event["received"].as_str().unwrap().parse().unwrap()
}

/// True if a line that was accepted at these times was accepted once, but for a copy that was in
/// flight at a kill.
pub(crate) fn is_once(times: &[Timestamp], kills: &[Timestamp]) -> bool {
    let mut times = times.to_vec();
    times.sort();
    times.windows(2).all(|pair| {
        let mut kills = kills.iter();
        kills.any(|kill| {
            pair[0] <= *kill && *kill <= pair[1] && kill.duration_since(pair[0]) <= IN_FLIGHT
        })
    })
}

/// Faults of the lines.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) lost: Vec<String>,
    pub(crate) doubled: Vec<String>,
    pub(crate) foreign: Vec<String>,
}

impl Verdict {
    /// A few of each kind, for the message of a failed test.
    fn short(&self) -> String {
        let few = |lines: &[String]| {
            let few = lines.iter().take(5);
            let few = few.map(|line| line.chars().take(60).collect::<String>());
            format!("{} {:?}", lines.len(), few.collect::<Vec<_>>())
        };
        format!(
            "lost {}, doubled {}, foreign {}",
            few(&self.lost),
            few(&self.doubled),
            few(&self.foreign)
        )
    }
}

impl Arrivals {
    /// Nothing was read yet. Lines that begin in another way are passed over.
    pub(crate) fn of(inrush: &Inrush, start: &'static str) -> Self {
        Self {
            file: EventFile::of(inrush),
            start,
            seen: HashMap::new(),
            kills: Vec::new(),
        }
    }

    /// Reads what was added. Returns the number of events.
    pub(crate) fn read_on(&mut self) -> usize {
        let (seen, start) = (&mut self.seen, self.start);
        self.file.read_on(|event| {
            let text = event["message"].as_str().unwrap();
            if !text.starts_with(start) {
                return;
            }
            let received = received(event);
            let times = seen.entry(text.to_owned()).or_default();
            if !times.contains(&received) {
                times.push(received);
            }
        })
    }

    /// The process was killed then.
    pub(crate) fn note_kill(&mut self, at: Timestamp) {
        self.kills.push(at);
    }

    /// True if the line has arrived, so far.
    pub(crate) fn has(&self, line: &str) -> bool {
        self.seen.contains_key(line)
    }

    /// Waits until all of these have arrived.
    pub(crate) fn await_all(&mut self, what: &str, lines: &[String]) {
        eventually(what, || {
            self.read_on();
            lines.iter().all(|line| self.has(line)).then_some(())
        });
    }

    /// Waits until all of these lines have arrived, and all that was read is delivered, or until
    /// nothing comes any more; then compares.
    pub(crate) fn settle(&mut self, inrush: &Inrush, written: &[String]) -> Verdict {
        EventFile::settle(inrush, || {
            let events = self.read_on();
            (events, written.iter().all(|line| self.has(line)))
        });
        self.verdict(written)
    }

    /// Compares with what was written: each line once.
    fn verdict(&self, written: &[String]) -> Verdict {
        let mut left = self.seen.clone();
        let mut verdict = Verdict::default();
        for line in written {
            match left.remove(line) {
                None => verdict.lost.push(line.clone()),
                Some(times) if !is_once(&times, &self.kills) => verdict.doubled.push(line.clone()),
                Some(_) => {}
            }
        }
        verdict.foreign = left.into_keys().collect();
        verdict
    }
}

/// Fails unless nothing is wrong.
pub(crate) fn assert_each_once(what: &str, verdict: &Verdict, inrush: &Inrush) {
    assert!(
        *verdict == Verdict::default(),
        "{what}: {}\n{}",
        verdict.short(),
        inrush.stderr()
    );
}

/// A counter of the process, all of its labels together.
pub(crate) fn counter(inrush: &Inrush, name: &str) -> u64 {
    let page = inrush.http("GET", "/metrics").body;
    let lines = page.lines().filter(|line| line.starts_with(name));
    let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    values.sum::<f64>() as u64
}
