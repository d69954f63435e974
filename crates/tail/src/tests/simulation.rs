//! Writers, rotators, the finder, the reader and crashes as actors in any order, step by step: each
//! line comes once, but for those that were deleted before they were read.
//!
//! The files and the notices of the kernel are real; the threads are stepped, and the reader's
//! clock is the simulation's.

mod copies;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::sync::mpsc::{self, Sender};

use inrush_event::Timestamp;
use inrush_ingest::batch_writer::source::IngestSource;
use inrush_ingest::now::Now;
use inrush_transport::files::identity::FileIdentity;
use proptest::sample::Index;

use super::super::counts::SharedCounts;
use super::super::finder::{FIRST_START, FileFinder, first_start};
use super::super::position::LogPosition;
use super::super::running::{note_first_start, settings};
use super::super::tail::{LogReader, ReaderHandle, TailOrder};
use super::super::workload::SourceDesk;
use super::*;

/// Logs of a simulation.
const LOGS: [&str; 3] = ["a", "b", "c"];

/// Steps after which nothing moves any more, if no step before has brought anything.
const QUIET_STEPS: usize = 8;

/// A step of an actor. One that is not possible changes nothing.
#[derive(Clone, Debug)]
enum SimStep {
    /// A line is written to a log, under its name.
    Write(usize),
    /// The writer of a log writes on into the file that was renamed last.
    WriteOld(usize),
    /// A log is renamed; the next line makes a new file.
    Rename(usize),
    /// Its generations are renamed, each to the next number, as logrotate does. The third one goes.
    Shift(usize),
    /// The last rename of a log is undone, as the kubelet does.
    RenameBack(usize),
    /// A log has another name that matches.
    RenameElsewhere(usize),
    /// A file is deleted.
    Delete(Index),
    /// The finder takes in what has happened.
    Find,
    /// The reader reads.
    Read,
    /// Time passes, in milliseconds.
    Pass(u64),
    /// The process is killed, and started.
    Crash,
    /// The process is stopped, and started.
    Restart,
}

fn step() -> impl Strategy<Value = SimStep> {
    let log = || 0..LOGS.len();
    prop_oneof![
        12 => log().prop_map(SimStep::Write),
        4 => log().prop_map(SimStep::WriteOld),
        3 => log().prop_map(SimStep::Rename),
        3 => log().prop_map(SimStep::Shift),
        1 => log().prop_map(SimStep::RenameBack),
        1 => log().prop_map(SimStep::RenameElsewhere),
        1 => any::<Index>().prop_map(SimStep::Delete),
        8 => Just(SimStep::Find),
        8 => Just(SimStep::Read),
        4 => prop::sample::select(vec![40, 600, 3_000, 10_000]).prop_map(SimStep::Pass),
        1 => Just(SimStep::Crash),
        1 => Just(SimStep::Restart),
    ]
}

/// A process: a finder and a reader.
struct SimProcess {
    finder: FileFinder,
    reader: LogReader,
    to_reader: ReaderHandle,
    counts: SharedCounts,
    _orders: Sender<TailOrder>,
}

struct FileSimulation {
    source: TestSource,
    process: Option<SimProcess>,
    /// Time that has passed beyond that of the host.
    passed: Duration,
    /// Number of the next line of each log, of its next generation.
    next: [usize; LOGS.len()],
    generations: usize,
    /// Name of the file that was renamed last, and of its log.
    renamed: BTreeMap<usize, (PathBuf, PathBuf)>,
    /// Lines of each file that is there, by inode.
    lines: BTreeMap<u64, Vec<String>>,
    written: BTreeSet<String>,
    /// Lines that were deleted before they came.
    deleted: BTreeSet<String>,
    /// Number of files that were deleted.
    deletions: u64,
    /// Files that were rotated before they had a position, when a process ended.
    blind: BTreeSet<u64>,
}

impl FileSimulation {
    fn new(options: &str) -> Self {
        let mut simulation = Self {
            source: TestSource::prepared(options, None),
            process: None,
            passed: Duration::ZERO,
            next: [0; LOGS.len()],
            generations: 0,
            renamed: BTreeMap::new(),
            lines: BTreeMap::new(),
            written: BTreeSet::new(),
            deleted: BTreeSet::new(),
            deletions: 0,
            blind: BTreeSet::new(),
        };
        simulation.start();
        simulation
    }

    fn now(&self) -> Now {
        let mut now = Now::read();
        now.instant += self.passed;
        now.since = now.instant;
        now
    }

    fn start(&mut self) {
        let source = &self.source;
        let context = source.harness.context.clone();
        let positions = source.harness.log.positions("files");
        let settings = settings(info(), &source.options, &source.harness.known).unwrap();
        let started = first_start(&positions).unwrap_or_else(|| {
            let now = Timestamp::now();
            note_first_start(&source.harness.log, &settings.info, now);
            now
        });
        let ingest = IngestSource::new("files", settings, &source.harness.ledger);
        let counts: SharedCounts = Arc::default();
        let (orders, ordered) = mpsc::channel();
        let (reports, reported) = mpsc::channel();
        let begin = (started, &positions[..]);
        let (services, options) = (&source.services, &source.options);
        let open =
            |wake| SourceDesk::open(options, &services.context, &services.clusters, "h", wake);
        let board = Arc::default();
        let finder = FileFinder::new(&source.options, (&counts, &board), begin, reported, open);
        let mut finder = finder.unwrap();
        let pair = (ordered, reports);
        let carry = 16 << 20;
        let shared = Arc::clone(&counts);
        let reader = LogReader::new(context, ingest, shared, pair, Box::new(|| ()), carry);
        let to_reader = ReaderHandle {
            orders: orders.clone(),
            thread: std::thread::current(),
        };
        finder.begin(&to_reader);
        self.process = Some(SimProcess {
            finder,
            reader,
            to_reader,
            counts,
            _orders: orders,
        });
        // What is renamed to a name that does not match before any folder is watched is not seen.
        self.find();
    }

    fn path(&self, log: usize) -> PathBuf {
        self.source.path(&format!("{}.log", LOGS[log]))
    }

    fn write_to(&mut self, log: usize, path: &Path) {
        let line = format!("{}{}", LOGS[log], self.next[log]);
        self.next[log] += 1;
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .unwrap();
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
        let inode = file.metadata().unwrap().ino();
        if !self.lines.contains_key(&inode) {
            self.blind.remove(&inode);
        }
        if self.blind.contains(&inode) {
            self.deleted.insert(line.clone());
        }
        self.lines.entry(inode).or_default().push(line.clone());
        self.written.insert(line);
    }

    fn rename(&mut self, log: usize, from: &Path, to: &Path) {
        if from.exists() {
            self.delete(to);
            fs::rename(from, to).unwrap();
            self.renamed.insert(log, (to.to_owned(), from.to_owned()));
        }
    }

    fn delete(&mut self, path: &Path) {
        let Ok(found) = fs::metadata(path) else {
            return;
        };
        fs::remove_file(path).unwrap();
        self.deletions += 1;
        let lines = self.lines.remove(&found.ino()).unwrap_or_default();
        self.deleted.extend(lines);
    }

    /// A process ends. A file has no log yet if none of its lines has come: under a name that does
    /// not match nobody looks for it then, unless it came behind a file that has a position.
    fn end_blind(&mut self) {
        let named: BTreeSet<u64> = self
            .files()
            .iter()
            .filter(|path| path.extension().is_some_and(|end| end == "log"))
            .map(|path| fs::metadata(path).unwrap().ino())
            .collect();
        let came: BTreeSet<&String> = self.source.texts.iter().collect();
        let led_to = self.led_to();
        let named: BTreeSet<u64> = named.union(&led_to).copied().collect();
        for (inode, lines) in &self.lines {
            if !named.contains(inode) && !lines.iter().any(|line| came.contains(line)) {
                self.deleted.extend(lines.iter().cloned());
                self.blind.insert(*inode);
            }
        }
    }

    /// Files with names of older generations that came behind the last file of a position.
    fn led_to(&self) -> BTreeSet<u64> {
        let positions = self.source.harness.log.positions("files");
        let positions = positions.iter().filter(|one| one.stream != FIRST_START);
        let positions: Vec<LogPosition> = positions
            .filter_map(|one| LogPosition::decode(&one.state))
            .collect();
        let is_behind = |path: &PathBuf| {
            let name = path.as_os_str().as_bytes();
            let born = FileIdentity::of(&File::open(path).unwrap())
                .unwrap()
                .birth_ns;
            positions.iter().any(|position| {
                let last = position.generations.last().unwrap().identity.birth_ns;
                let rest = name.strip_prefix(&position.path[..]);
                rest.is_some_and(|rest| rest.starts_with(b".")) && born > last
            })
        };
        let led_to = self.files().into_iter().filter(is_behind);
        led_to
            .map(|path| fs::metadata(path).unwrap().ino())
            .collect()
    }

    fn shift(&mut self, log: usize) {
        let name = |number: usize| match number {
            0 => self.path(log),
            number => self.path(log).with_extension(format!("log.{number}")),
        };
        let names: Vec<PathBuf> = (0..=3).map(name).collect();
        for number in (0..3).rev() {
            self.rename(log, &names[number], &names[number + 1]);
        }
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.source.harness.folder.path()).unwrap();
        let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }

    fn take(&mut self, step: &SimStep) {
        self.generations += 1;
        match step {
            SimStep::Write(log) => self.write_to(*log, &self.path(*log)),
            SimStep::WriteOld(log) => {
                if let Some((old, _)) = self.renamed.get(log).filter(|(old, _)| old.exists()) {
                    self.write_to(*log, &old.clone());
                }
            }
            SimStep::Rename(log) => {
                let to = format!("log.20261128-{:03}", self.generations);
                let from = self.path(*log);
                self.rename(*log, &from, &from.with_extension(to));
            }
            SimStep::Shift(log) => self.shift(*log),
            SimStep::RenameBack(log) => {
                let back = self.renamed.remove(log);
                if let Some((from, to)) = back.filter(|(_, to)| !to.exists()) {
                    self.rename(*log, &from, &to);
                }
            }
            SimStep::RenameElsewhere(log) => {
                let name = format!("{}x{}.log", LOGS[*log], self.generations);
                self.rename(*log, &self.path(*log), &self.source.path(&name));
            }
            SimStep::Delete(which) => {
                let files = self.files();
                if !files.is_empty() {
                    let path: &PathBuf = which.get(&files);
                    self.delete(path);
                }
            }
            SimStep::Find => self.find(),
            SimStep::Read => drop(self.read()),
            SimStep::Pass(millis) => self.passed += Duration::from_millis(*millis),
            SimStep::Crash => {
                // What is in no batch is lost; what is in one has come.
                self.process = None;
                self.deliver();
                self.end_blind();
                self.start();
            }
            SimStep::Restart => {
                let now = self.now();
                if let Some(process) = self.process.take() {
                    process.reader.close(now);
                }
                self.deliver();
                self.end_blind();
                self.start();
            }
        }
    }

    fn find(&mut self) {
        let now = self.now().instant;
        if let Some(process) = &mut self.process {
            process.finder.step(&process.to_reader, now);
        }
    }

    fn read(&mut self) -> bool {
        let now = self.now();
        let process = self.process.as_mut();
        process.is_some_and(|process| process.reader.step(now))
    }

    fn deliver(&mut self) -> bool {
        let before = self.source.texts.len();
        while self.source.take(Duration::ZERO) {}
        self.source.texts.len() > before
    }

    /// All that is left is read: no actor does anything more.
    fn settle(&mut self) {
        let mut quiet = 0;
        while quiet < QUIET_STEPS {
            // Halves of renames are waited for by the clock of the host.
            self.passed += Duration::from_secs(2);
            self.find();
            while self.read() {}
            let now = self.now();
            let more = self
                .process
                .as_mut()
                .is_some_and(|one| one.reader.step(now));
            quiet = if self.deliver() || more { 0 } else { quiet + 1 };
        }
    }

    fn check(mut self, steps: &[SimStep]) -> Result<(), TestCaseError> {
        for step in steps {
            self.take(step);
        }
        self.settle();
        let mut seen = BTreeSet::new();
        for text in &self.source.texts {
            prop_assert!(seen.insert(text.clone()), "{} came twice", text);
            prop_assert!(self.written.contains(text), "{} was not written", text);
        }
        let missing: Vec<_> = self.written.difference(&seen).collect();
        let lost: Vec<_> = missing
            .into_iter()
            .filter(|line| !self.deleted.contains(*line))
            .collect();
        prop_assert!(lost.is_empty(), "lost: {:?}", lost);
        let missed = self.missed();
        prop_assert!(missed <= self.deletions, "missed: {}", missed);
        Ok(())
    }

    /// Generations that the process counts as deleted before they could be opened.
    fn missed(&self) -> u64 {
        let counts = self.process.as_ref().map(|process| &process.counts);
        counts.map_or(0, |counts| counts.missed_generations.get())
    }
}

/// Plain files, held for half an hour, whatever becomes of their names.
const HELD: &str = r#"{"include": ["{dir}/*.log"], "host": "h", "poll_interval": "1s"}"#;

/// Plain files, closed as soon as their names are gone, and found again.
const FOUND_AGAIN: &str = r#"{"include": ["{dir}/*.log"], "host": "h", "rotate_hold": "0s",
    "poll_interval": "1s"}"#;

/// Rotated files match too.
const ALL_NAMES: &str = r#"{"include": ["{dir}/*.log*"], "host": "h", "rotate_hold": "5s",
    "poll_interval": "1s"}"#;

#[test]
fn a_file_that_is_renamed_twice_before_the_next_one_comes_is_read() {
    use SimStep::{Find, Shift, Write};
    let steps = [Write(1), Shift(1), Shift(1), Write(0), Write(1), Find];
    FileSimulation::new(HELD).check(&steps).unwrap();
}

#[test]
fn a_file_is_found_by_the_last_name_that_it_lost() {
    use SimStep::{Find, Read, Rename, RenameBack, RenameElsewhere, Restart, Write, WriteOld};
    let steps = [
        Write(2),
        RenameElsewhere(2),
        Find,
        RenameBack(2),
        Rename(2),
        Find,
        Read,
        WriteOld(2),
        Restart,
    ];
    FileSimulation::new(FOUND_AGAIN).check(&steps).unwrap();
}

#[test]
fn a_file_is_found_by_its_inode_after_two_renames_that_nobody_saw() {
    use SimStep::{Crash, Pass, Read, Rename, RenameBack, RenameElsewhere, Write, WriteOld};
    let steps = [
        Write(2),
        RenameElsewhere(2),
        Crash,
        Read,
        RenameBack(2),
        Pass(40),
        Read,
        WriteOld(2),
        Rename(2),
        Crash,
    ];
    FileSimulation::new(FOUND_AGAIN).check(&steps).unwrap();
}

/// The file of `c` has the inode of that of `b`, and often its birth.
#[test]
fn a_file_that_was_renamed_unseen_and_has_the_inode_of_another_is_read() {
    use SimStep::{Find, Read, Rename, Write};
    let mut simulation = FileSimulation::new(FOUND_AGAIN);
    for step in [Write(1), Rename(1), Write(0), Find, Read, Read] {
        simulation.take(&step);
    }
    let (closed, _) = simulation.renamed[&1].clone();
    simulation.delete(&closed);
    simulation.check(&[Write(2), Rename(2)]).unwrap();
}

/// The log of a container that is rotated three times while nobody looks; one older file is kept.
#[test]
fn no_event_is_joined_over_a_generation_that_nobody_opened() {
    let options = HELD.replace("\"host\"", "\"format\": \"cri\", \"host\"");
    let mut simulation = FileSimulation::new(&options);
    let (log, older) = (simulation.path(0), simulation.source.path("a.log.1"));
    fs::write(&log, cri("stdout", "P", "begun, ")).unwrap();
    simulation.find();
    simulation.read();
    for text in ["deleted", "end", "next"] {
        simulation.source.tick();
        fs::rename(&log, &older).unwrap();
        fs::write(&log, cri("stdout", "F", text)).unwrap();
    }
    simulation.settle();
    assert_eq!(simulation.source.texts, ["begun, ", "end", "next"]);
    assert_eq!(simulation.missed(), 1);
    // What was opened in time is joined, and counts nowhere.
    for (tag, text) in [("P", "one "), ("F", "event")] {
        simulation.source.tick();
        fs::rename(&log, &older).unwrap();
        fs::write(&log, cri("stdout", tag, text)).unwrap();
        simulation.find();
    }
    simulation.settle();
    assert_eq!(simulation.source.texts[3..], ["one event"]);
    assert_eq!(simulation.missed(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn each_line_comes_once(steps in prop::collection::vec(step(), 1..120)) {
        FileSimulation::new(HELD).check(&steps)?;
    }

    #[test]
    fn each_line_of_a_file_that_is_closed_comes_once(
        steps in prop::collection::vec(step(), 1..120),
    ) {
        FileSimulation::new(FOUND_AGAIN).check(&steps)?;
    }

    #[test]
    fn each_line_comes_once_under_names_that_match(
        steps in prop::collection::vec(step(), 1..120),
    ) {
        FileSimulation::new(ALL_NAMES).check(&steps)?;
    }
}
