//! The real logrotate, in all its ways, and a writer of numbered lines.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use inrush_tests::*;

use crate::arrivals::{Arrivals, assert_each_once, counter};
use crate::collector::Collector;
use crate::unpacked;

/// Lines that are written between two of them, at least.
const LINES: usize = 400;

/// Rest of the writer after each group of lines.
const PACE: Duration = Duration::from_millis(2);

/// Lines of a group.
const GROUP: usize = 4;

/// A way to rotate.
#[derive(Clone, Copy)]
struct Scheme {
    /// Directives of logrotate.
    directives: &'static [&'static str],
    /// Names that are collected.
    include: &'static str,
    /// True if the writer opens its file anew after a rotation.
    reopens: bool,
    /// True if the writer appends wherever the end of the file is.
    appends: bool,
    /// True if the collector may be killed right after a rotation: what was rotated is there.
    keeps: bool,
    /// True if the collector is killed between two rotations.
    kills: bool,
    /// Number of rotations.
    rotations: usize,
    /// True if lines may get lost in logrotate itself.
    loses: bool,
}

/// The default of logrotate, with a writer that follows its signal.
const CREATE: Scheme = Scheme {
    directives: &["create 0640", "rotate 50"],
    include: "*.log",
    reopens: true,
    appends: true,
    keeps: true,
    kills: true,
    rotations: 8,
    loses: false,
};

const COPYTRUNCATE: Scheme = Scheme {
    directives: &["copytruncate", "rotate 50"],
    reopens: false,
    keeps: false,
    loses: true,
    ..CREATE
};

/// Text of a line.
fn line(number: usize) -> String {
    format!("line {number} of a program that logs, {number:x}")
}

/// A program that logs.
struct LogWriter {
    stop: Arc<AtomicBool>,
    written: Arc<Mutex<usize>>,
    thread: Option<thread::JoinHandle<()>>,
}

fn open(path: &Path, scheme: Scheme) -> File {
    let mut options = OpenOptions::new();
    options
        .create(true)
        .write(true)
        .append(scheme.appends)
        .truncate(false)
        .open(path)
        .unwrap()
}

impl LogWriter {
    fn start(dir: &Path, scheme: Scheme) -> Self {
        let (stop, written) = (Arc::<AtomicBool>::default(), Arc::<Mutex<usize>>::default());
        let (path, signal) = (dir.join("logs/app.log"), dir.join("signal"));
        let mut file = open(&path, scheme);
        let (stops, count) = (Arc::clone(&stop), Arc::clone(&written));
        let thread = thread::spawn(move || {
            while !stops.load(Ordering::Relaxed) {
                if scheme.reopens && fs::remove_file(&signal).is_ok() {
                    file = open(&path, scheme);
                }
                let mut count = count.lock().unwrap();
                writeln!(file, "{}", line(*count)).unwrap();
                *count += 1;
                let rests = count.is_multiple_of(GROUP);
                drop(count);
                if rests {
                    thread::sleep(PACE);
                }
            }
        });
        let thread = Some(thread);
        Self {
            stop,
            written,
            thread,
        }
    }

    fn written(&self) -> usize {
        *self.written.lock().unwrap()
    }

    /// Ends it; the lines that it wrote.
    fn finish(mut self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
        (0..self.written()).map(line).collect()
    }
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// logrotate and its configuration.
struct Rotator {
    program: PathBuf,
    dir: PathBuf,
}

impl Rotator {
    fn new(program: PathBuf, dir: &Path, scheme: Scheme) -> Self {
        let mut text = format!("{}/logs/app.log {{\n", dir.display());
        for directive in scheme.directives {
            writeln!(text, "  {directive}").unwrap();
        }
        let signal = dir.join("signal");
        writeln!(text, "  postrotate\n    touch {}", signal.display()).unwrap();
        text += "  endscript\n}\n";
        fs::write(
            dir.join("logrotate.conf"),
            text.replace("{dir}", dir.to_str().unwrap()),
        )
        .unwrap();
        Self {
            program,
            dir: dir.to_owned(),
        }
    }

    /// Names and inodes below the folder of logs and that of old ones, and the size of the log.
    fn state(&self) -> (HashSet<PathBuf>, u64) {
        let entries = ["logs", "old"].map(|name| fs::read_dir(self.dir.join(name)).unwrap());
        let names = entries
            .into_iter()
            .flatten()
            .map(|entry| entry.unwrap().path());
        let now = fs::metadata(self.dir.join("logs/app.log"));
        use std::os::unix::fs::MetadataExt;
        (names.collect(), now.map_or(0, |now| now.ino()))
    }

    /// Rotates once. Names with a date are free once a second.
    fn rotate(&self) {
        let before = self.state();
        eventually("a rotation", || {
            let mut command = Command::new(&self.program);
            command.env("LD_LIBRARY_PATH", crate::libraries("logrotate"));
            command.arg("-f").arg("-s").arg(self.dir.join("state"));
            let done = command
                .arg(self.dir.join("logrotate.conf"))
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&done.stderr);
            assert!(
                done.status.success() || said.contains("already exists"),
                "{said}"
            );
            (self.state() != before).then_some(())
        });
    }
}

/// All lines in the files that are there at the end.
fn lines_in_files(dir: &Path) -> HashSet<String> {
    let mut lines = HashSet::new();
    for folder in ["logs", "old"] {
        for entry in fs::read_dir(dir.join(folder)).unwrap() {
            let mut bytes = Vec::new();
            let mut file = File::open(entry.unwrap().path()).unwrap();
            file.read_to_end(&mut bytes).unwrap();
            let text = String::from_utf8_lossy(&bytes);
            lines.extend(text.lines().map(|line| line.trim_matches('\0').to_owned()));
        }
    }
    lines
}

/// Rotates while the writer writes and the collector is killed, then compares.
fn every_line_once(scheme: Scheme) -> Option<Collector> {
    let Some(program) = unpacked("logrotate", "usr/sbin/logrotate") else {
        eprintln!("SKIPPED: logrotate: apt-get did not fetch it");
        return None;
    };
    let dir = tempfile::tempdir().unwrap();
    for folder in ["logs", "old"] {
        fs::create_dir(dir.path().join(folder)).unwrap();
    }
    let rotator = Rotator::new(program, dir.path(), scheme);
    let writer = LogWriter::start(dir.path(), scheme);
    let source = format!("type: file, include: [\"{{dir}}/logs/{}\"]", scheme.include);
    let mut collector = Collector::start(dir, &source);
    let mut arrivals = Arrivals::of(collector.inrush(), "");
    let mut rotated_at = 0;
    for round in 0..scheme.rotations {
        eventually("lines", || {
            (writer.written() >= rotated_at + LINES).then_some(())
        });
        if !scheme.loses {
            let before: Vec<String> = (0..rotated_at).map(line).collect();
            arrivals.await_all("lines of before", &before);
        }
        if scheme.kills && round % 2 == 1 {
            arrivals.note_kill(collector.replace());
        }
        let now = [line(writer.written())];
        arrivals.await_all("a line of now", &now);
        rotator.rotate();
        rotated_at = writer.written();
        if scheme.keeps && round % 4 == 2 {
            arrivals.note_kill(collector.replace());
        }
    }
    let last = [line(writer.written())];
    arrivals.await_all("a line of the end", &last);
    let mut written = writer.finish();
    if scheme.loses {
        let there = lines_in_files(&rotator.dir);
        written.retain(|line| there.contains(line) || arrivals.has(line));
    }
    let verdict = arrivals.settle(collector.inrush(), &written);
    assert_each_once(
        &format!("{:?}", scheme.directives),
        &verdict,
        collector.inrush(),
    );
    Some(collector)
}

macro_rules! schemes {
    ($($name:ident: $scheme:expr;)*) => {$(
        #[test]
        #[ignore = "foreign program: make test-peers"]
        fn $name() {
            every_line_once($scheme);
        }
    )*};
}

schemes! {
    create: CREATE;
    create_with_all_names: Scheme { include: "*", ..CREATE };
    compress: Scheme {
        directives: &["create 0640", "compress", "rotate 3"],
        include: "*",
        keeps: false,
        ..CREATE
    };
    delaycompress: Scheme {
        directives: &["create 0640", "compress", "delaycompress", "rotate 3"],
        include: "*",
        ..CREATE
    };
    dateext: Scheme {
        directives: &["create 0640", "dateext", "dateformat -%Y%m%d-%s", "rotate 50"],
        include: "*",
        ..CREATE
    };
    dateext_before_the_extension: Scheme {
        directives: &[
            "create 0640",
            "dateext",
            "dateformat -%Y%m%d-%s",
            "extension .log",
            "rotate 50",
        ],
        ..CREATE
    };
    nocreate: Scheme { directives: &["nocreate", "rotate 50"], ..CREATE };
    olddir: Scheme {
        directives: &["create 0640", "olddir {dir}/old", "rotate 50"],
        keeps: false,
        ..CREATE
    };
    a_writer_that_never_reopens: Scheme { reopens: false, ..CREATE };
    a_writer_that_never_reopens_a_file_that_is_deleted: Scheme {
        directives: &["create 0640", "rotate 2"],
        reopens: false,
        keeps: false,
        kills: false,
        ..CREATE
    };
    copytruncate: COPYTRUNCATE;
    copytruncate_with_all_names: Scheme { include: "*", ..COPYTRUNCATE };
    copytruncate_before_the_extension: Scheme {
        directives: &[
            "copytruncate",
            "dateext",
            "dateformat -%Y%m%d-%s",
            "extension .log",
            "rotate 50",
        ],
        ..COPYTRUNCATE
    };
    copy: Scheme {
        directives: &["copy", "rotate 50"],
        include: "*",
        reopens: false,
        ..CREATE
    };
}

#[test]
#[ignore = "foreign program: make test-peers"]
fn the_hole_before_a_writer_that_does_not_append_is_skipped() {
    let scheme = Scheme {
        appends: false,
        rotations: 1,
        ..COPYTRUNCATE
    };
    if let Some(collector) = every_line_once(scheme) {
        let skipped = counter(collector.inrush(), "inrush_file_hole_skipped_total");
        assert!(skipped >= 1, "{skipped}");
    }
}
