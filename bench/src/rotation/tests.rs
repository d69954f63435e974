//! The writer, the rotator and the verdict, held against collectors of which it is known whether
//! they are right: plain copying loops in this process.
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

use clap::ValueEnum;

use super::account::ArrivalAccount;
use super::format::LogFormat;
use super::line::{LineShape, read_line};
use super::log::{LogSettings, NumberedLog};
use super::outcome::RotationRun;
use super::rotator::{LogRotator, locked, prepare};
use super::scheme::RotationScheme;
use super::verdict::RotationVerdict;

/// Mistake of a copying loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mistake {
    None,
    /// Lets go of a file whose name leads elsewhere.
    DropsRotated,
    /// Begins a file again that has another name now.
    ReadsAgain,
    /// Joins pieces whatever stream they are of.
    MixesStreams,
    /// Forgets an open line where a new file begins.
    ForgetsPieces,
}

struct CopiedFile {
    file: File,
    inode: u64,
    at: u64,
    rest: Vec<u8>,
}

/// A collector that reads one name, and by open descriptors what had it before.
struct CopyLoop {
    mistake: Mistake,
    format: LogFormat,
    files: Vec<CopiedFile>,
    open: [Vec<u8>; 2],
    account: ArrivalAccount,
}

impl CopyLoop {
    fn new(format: LogFormat, mistake: Mistake) -> Self {
        Self {
            mistake,
            format,
            files: Vec::new(),
            open: Default::default(),
            account: ArrivalAccount::new(2, 0),
        }
    }

    fn step(&mut self, path: &Path) {
        self.look(path);
        for index in 0..self.files.len() {
            let one = &mut self.files[index];
            let length = one.file.metadata().unwrap().len();
            if length < one.at {
                one.at = 0;
                one.rest.clear();
            }
            let mut bytes = vec![0; (length - one.at) as usize];
            one.file.read_exact_at(&mut bytes, one.at).unwrap();
            one.at = length;
            let mut text = std::mem::take(&mut one.rest);
            text.extend_from_slice(&bytes);
            let mut lines = text.split(|byte| *byte == b'\n');
            let rest = lines.next_back().unwrap().to_vec();
            let lines: Vec<Vec<u8>> = lines.map(<[u8]>::to_vec).collect();
            self.files[index].rest = rest;
            lines.iter().for_each(|line| self.take(line));
        }
    }

    /// Opens what the name leads to.
    fn look(&mut self, path: &Path) {
        let Ok(file) = File::open(path) else { return };
        let inode = file.metadata().unwrap().ino();
        if self.files.iter().any(|one| one.inode == inode) {
            return;
        }
        match self.mistake {
            Mistake::DropsRotated => self.files.clear(),
            Mistake::ReadsAgain => self.files.iter_mut().for_each(|one| one.at = 0),
            Mistake::ForgetsPieces => self.open = Default::default(),
            Mistake::None | Mistake::MixesStreams => {}
        }
        self.files.push(CopiedFile {
            file,
            inode,
            at: 0,
            rest: Vec::new(),
        });
    }

    fn take(&mut self, line: &[u8]) {
        let hole = line.iter().take_while(|byte| **byte == 0).count();
        let line = &line[hole..];
        let (lane, last, piece) = match self.format {
            LogFormat::Lines => (0, true, line.to_vec()),
            LogFormat::Cri => {
                let lane = usize::from(&line[31..37] == b"stderr");
                (lane, line[38] == b'F', line[40..].to_vec())
            }
            LogFormat::Docker => {
                let record: serde_json::Value = serde_json::from_slice(line).unwrap();
                let lane = usize::from(record["stream"] == "stderr");
                let text = record["log"].as_str().unwrap();
                let ended = text.strip_suffix('\n');
                let piece = ended.unwrap_or(text).as_bytes().to_vec();
                (lane, ended.is_some(), piece)
            }
        };
        let lane = match self.mistake {
            Mistake::MixesStreams => 0,
            _ => lane,
        };
        self.open[lane].extend_from_slice(&piece);
        if last {
            let event = std::mem::take(&mut self.open[lane]);
            self.account.take(&[read_line(&event)], Instant::now(), 0);
        }
    }
}

/// Rounds of writing, reading and rotating; the verdict and the rotations.
fn torture(scheme: RotationScheme, format: LogFormat, mistake: Mistake) -> RotationVerdict {
    let dir = tempfile::tempdir().unwrap();
    let path = scheme.file(dir.path(), 0);
    prepare(scheme, &path).unwrap();
    let settings = LogSettings {
        format,
        shape: LineShape {
            bytes: 200,
            long_every: 10,
            long_bytes_max: 50_000,
        },
        append: scheme.appends(),
    };
    let log = Mutex::new(NumberedLog::create(0, path.clone(), settings).unwrap());
    let mut rotator = LogRotator::new(scheme, 3, 7);
    let mut copier = CopyLoop::new(format, mistake);
    for _ in 0..20 {
        locked(&log).write(20).unwrap();
        copier.step(&path);
        locked(&log).write(7).unwrap();
        rotator.rotate(&log).unwrap();
        copier.step(&path);
        // The writer goes on into the renamed file where it has not opened the new one.
        locked(&log).write(5).unwrap();
        if rotator.reopen_at().is_some() {
            rotator.reopen(&log).unwrap();
        }
    }
    locked(&log).finish().unwrap();
    copier.step(&path);
    let log = log.into_inner().unwrap();
    RotationVerdict::of(std::iter::once(&log), &copier.account, &[])
}

#[test]
fn a_plain_copying_loop_passes_every_way() {
    for scheme in RotationScheme::value_variants() {
        for format in [LogFormat::Cri, LogFormat::Docker, LogFormat::Lines] {
            let verdict = torture(*scheme, format, Mistake::None);
            let what = format!("{scheme:?} {format:?} {verdict:?}");
            let arrived = verdict.arrived;
            assert!(verdict.written >= 20 * 32, "{what}");
            assert_eq!(verdict.lost.unexcused() + verdict.lost.down, 0, "{what}");
            assert_eq!((arrived.doubled, arrived.disordered), (0, 0), "{what}");
            if !scheme.truncates() {
                assert_eq!(arrived.distinct, verdict.written, "{what}");
            }
            let mut run = RotationRun {
                scheme: *scheme,
                rotations: 20,
                ..RotationRun::default()
            };
            run.take(verdict);
            assert!(run.passed(), "{what}");
        }
    }
}

#[test]
fn a_loop_that_drops_a_rotated_file_is_caught() {
    use RotationScheme as S;
    let ways = [
        S::Kubelet,
        S::Docker,
        S::DockerSingle,
        S::CreateLate,
        S::Symlink,
        S::Replace,
    ];
    for scheme in ways {
        let verdict = torture(scheme, LogFormat::Cri, Mistake::DropsRotated);
        // Of each round at least what was written between its last look and the rotation.
        assert!(verdict.lost.unexcused() >= 20 * 5, "{scheme:?} {verdict:?}");
        assert!(verdict.lost.removed_bytes > 0, "{scheme:?}");
        assert_eq!(verdict.lost.told.len(), 20, "{scheme:?}");
    }
}

#[test]
fn a_loop_that_reads_a_rotated_file_again_is_caught() {
    let verdict = torture(RotationScheme::Docker, LogFormat::Cri, Mistake::ReadsAgain);
    assert_eq!(verdict.lost.unexcused(), 0);
    assert!(verdict.arrived.doubled > 100, "{verdict:?}");
    assert!(verdict.arrived.thrice > 100, "{verdict:?}");
}

#[test]
fn gaps_are_those_of_files_that_went_while_the_collector_was_down() {
    let verdict = |downs: &[std::ops::Range<Instant>]| {
        let dir = tempfile::tempdir().unwrap();
        let scheme = RotationScheme::DockerSingle;
        let path = scheme.file(dir.path(), 0);
        prepare(scheme, &path).unwrap();
        let settings = LogSettings {
            format: LogFormat::Lines,
            shape: LineShape {
                bytes: 200,
                long_every: 0,
                long_bytes_max: 0,
            },
            append: true,
        };
        let log = Mutex::new(NumberedLog::create(0, path.clone(), settings).unwrap());
        let mut rotator = LogRotator::new(scheme, 1, 1);
        let mut copier = CopyLoop::new(LogFormat::Lines, Mistake::None);
        for is_read in [true, false, false, true, false, true] {
            locked(&log).write(5).unwrap();
            if is_read {
                copier.step(&path);
            }
            rotator.rotate(&log).unwrap();
        }
        RotationVerdict::of(
            std::iter::once(&log.into_inner().unwrap()),
            &copier.account,
            downs,
        )
        .lost
    };
    let always = Instant::now()..Instant::now() + std::time::Duration::from_secs(3600);
    let lost = verdict(&[always]);
    assert_eq!((lost.down, lost.gaps), (15, 2), "{lost:?}");
    let lost = verdict(&[]);
    assert_eq!((lost.gone, lost.gaps), (15, 0), "{lost:?}");
}

#[test]
fn pieces_of_two_streams_in_one_line_are_caught() {
    for format in [LogFormat::Cri, LogFormat::Docker] {
        let verdict = torture(RotationScheme::Docker, format, Mistake::MixesStreams);
        assert!(verdict.arrived.torn > 0, "{format:?} {verdict:?}");
    }
}

#[test]
fn a_line_cut_by_a_rotation_is_missed_by_a_loop_that_forgets_its_begin() {
    for scheme in [RotationScheme::Kubelet, RotationScheme::Docker] {
        let verdict = torture(scheme, LogFormat::Cri, Mistake::ForgetsPieces);
        // The end of the line comes alone: it is none of ours, and the line is lost.
        assert!(verdict.arrived.foreign > 0, "{scheme:?} {verdict:?}");
        assert!(verdict.lost.unexcused() > 0, "{scheme:?} {verdict:?}");
    }
}

#[test]
fn what_a_rotation_loses_by_itself_is_told_apart() {
    // A reader that comes only after each truncation reads nothing: all has an excuse or a cause.
    let dir = tempfile::tempdir().unwrap();
    let scheme = RotationScheme::Copytruncate;
    let path = scheme.file(dir.path(), 0);
    prepare(scheme, &path).unwrap();
    let settings = LogSettings {
        format: LogFormat::Lines,
        shape: LineShape {
            bytes: 200,
            long_every: 0,
            long_bytes_max: 0,
        },
        append: true,
    };
    let log = Mutex::new(NumberedLog::create(0, path, settings).unwrap());
    let mut rotator = LogRotator::new(scheme, 2, 1);
    locked(&log).write(50).unwrap();
    rotator.rotate(&log).unwrap();
    let log = log.into_inner().unwrap();
    let account = ArrivalAccount::new(2, 0);
    let verdict = RotationVerdict::of(std::iter::once(&log), &account, &[]);
    let lost = &verdict.lost;
    assert_eq!((lost.window, lost.fresh, lost.unexcused()), (0, 50, 0));
    assert_eq!(lost.removed_bytes, 0, "what is truncated is not removed");
}
