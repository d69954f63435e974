//! Rotations, as those who rotate do them.
//!
//! # What it guarantees
//! * A generation is noted as gone once no plain name leads to it, and not before.
//! * No rotation loses lines by itself but `copytruncate`, whose lost lines it notes.
//! * A writer never writes into a file without a name: it opens its new one before that.
//!
//! # States
//! Between a rename and the reopening the writer goes on in the renamed file. `reopen_at` says when
//! that ends; who drives the rotator calls `reopen` then.
//!
//! # Limits
//! At most `keep` rotated files at the end of a rotation, and one more while `symlink` switches.
//!
//! # After a crash
//! It is the rotator of a test: its files are those of one run.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use inrush_harness::child::wait;

use super::generation::GoneWay;
use super::log::NumberedLog;
use super::scheme::RotationScheme;

/// Time between a rename by the kubelet and the reopening at most.
const KUBELET_REOPEN_MAX: Duration = Duration::from_millis(200);

/// Time after which a writer that is late opens its new file, at least and at most.
const LATE_REOPEN: std::ops::Range<u64> = 300..3000;

/// Time for which a writer goes on before a truncation at most, milliseconds.
const WINDOW_MS_MAX: u64 = 5;

/// Truncations after which a writer that does not append begins at 0.
const HOLES_MAX: u64 = 4;

/// A file that was rotated away.
struct RotatedFile {
    path: PathBuf,
    /// Place of what stands in it; `None`: nothing, or a copy.
    generation: Option<usize>,
    packed: bool,
}

/// Rotator of one file.
pub(crate) struct LogRotator {
    scheme: RotationScheme,
    /// Rotated files that are kept.
    keep: usize,
    /// The newest first.
    rotated: VecDeque<RotatedFile>,
    /// Time at which the writer opens its new file.
    reopen: Option<Instant>,
    /// Rotations that were made.
    rotations: u64,
    chance: fastrand::Rng,
}

impl LogRotator {
    /// One that keeps so many rotated files; at least one, but for those that keep none.
    pub(crate) fn new(scheme: RotationScheme, keep: usize, seed: u64) -> Self {
        Self {
            scheme,
            keep: keep.max(1),
            rotated: VecDeque::new(),
            reopen: None,
            rotations: 0,
            chance: fastrand::Rng::with_seed(seed),
        }
    }

    /// Time of the reopening that is due; none if none is.
    pub(crate) fn reopen_at(&self) -> Option<Instant> {
        self.reopen
    }

    /// Has the writer open its new file.
    pub(crate) fn reopen(&mut self, log: &Mutex<NumberedLog>) -> Result<()> {
        self.reopen = None;
        let mut log = locked(log);
        self.cut(&mut log)?;
        log.reopen()
    }

    /// Rotates; false where there is nothing to rotate yet: the writer has not opened the new file
    /// (`notifempty`, `missingok`). The kubelet waits for it.
    pub(crate) fn rotate(&mut self, log: &Mutex<NumberedLog>) -> Result<bool> {
        use RotationScheme as S;
        match self.reopen {
            Some(_) if self.scheme == S::Kubelet => self.reopen(log)?,
            Some(_) => return Ok(false),
            None => {}
        }
        match self.scheme {
            S::Kubelet => self.kubelet(log)?,
            S::Docker => self.docker(log)?,
            S::DockerSingle => self.recreate(log)?,
            S::Create | S::CreateLate | S::CreateNever | S::Nocreate => self.numbered(log)?,
            S::Copytruncate | S::CopytruncateHole | S::Copy => self.copied(log)?,
            S::DateextCompress => self.dated(log)?,
            S::Symlink => self.switched(log)?,
            S::Rewrite => self.rewritten(log)?,
            S::Replace => self.replaced(log)?,
        }
        self.rotations += 1;
        Ok(true)
    }

    /// Leaves a line open at every other change of the file.
    fn cut(&mut self, log: &mut NumberedLog) -> Result<()> {
        match self.chance.bool() {
            true => log.cut(),
            false => Ok(()),
        }
    }

    /// The kubelet: what is over goes, what is rotated is compressed, then the file is renamed, and
    /// a while later the runtime opens a new one.
    fn kubelet(&mut self, log: &Mutex<NumberedLog>) -> Result<()> {
        self.trim(log, self.keep - 1)?;
        for index in 0..self.rotated.len() {
            self.pack(log, index)?;
        }
        let path = locked(log).path().clone();
        let now = jiff::Timestamp::now();
        // Names have a resolution of a second: two rotations in one would write over the first.
        let name = (0..).map(|second| {
            let at = now + jiff::SignedDuration::from_secs(second);
            with_ending(&path, &at.strftime(".%Y%m%d-%H%M%S").to_string())
        });
        let rotated = &self.rotated;
        let used = |name: &PathBuf| {
            let packed = with_ending(name, ".gz");
            rotated
                .iter()
                .any(|one| one.path == *name || one.path == packed)
        };
        let name = name.into_iter().find(|name| !used(name));
        self.rename_away(log, name.context("a name")?)?;
        let most = KUBELET_REOPEN_MAX.as_millis() as u64;
        self.reopen = Some(Instant::now() + Duration::from_millis(self.chance.u64(..most)));
        Ok(())
    }

    /// The daemon of docker: closes, renames, creates.
    fn docker(&mut self, log: &Mutex<NumberedLog>) -> Result<()> {
        self.trim(log, self.keep - 1)?;
        let mut log = locked(log);
        self.cut(&mut log)?;
        self.shift(log.path())?;
        self.rename_away_locked(&log, with_ending(log.path(), ".1"))?;
        log.reopen()
    }

    /// The daemon of docker that keeps one file alone.
    fn recreate(&mut self, log: &Mutex<NumberedLog>) -> Result<()> {
        let mut log = locked(log);
        self.cut(&mut log)?;
        fs::remove_file(log.path())?;
        let generation = log.generation();
        log.gone(generation, Instant::now(), GoneWay::Unlinked);
        log.reopen()
    }

    /// logrotate without and with `nocreate`, with writers of all kinds.
    fn numbered(&mut self, log: &Mutex<NumberedLog>) -> Result<()> {
        use RotationScheme as S;
        if self.trim(log, self.keep - 1)? {
            // What the writer has just opened stays under its name until the next time.
            return Ok(());
        }
        let path = locked(log).path().clone();
        self.shift(&path)?;
        self.rename_away(log, with_ending(&path, ".1"))?;
        if self.scheme != S::Nocreate {
            File::create(&path)?;
        }
        let now = Instant::now();
        match self.scheme {
            S::Create => self.reopen(log)?,
            S::CreateNever => {}
            _ => self.reopen = Some(now + Duration::from_millis(self.chance.u64(LATE_REOPEN))),
        }
        Ok(())
    }

    /// logrotate `copytruncate`, and `copy`, which truncates nothing.
    fn copied(&mut self, log: &Mutex<NumberedLog>) -> Result<()> {
        self.trim(log, self.keep - 1)?;
        let (path, from, bytes) = {
            let mut log = locked(log);
            self.cut(&mut log)?;
            let bytes = fs::metadata(log.path())?.len();
            (log.path().clone(), log.open_lines(), bytes)
        };
        self.shift(&path)?;
        let copy = with_ending(&path, ".1");
        let mut source = File::open(&path)?.take(bytes);
        io::copy(&mut source, &mut File::create(&copy)?)?;
        self.rotated.push_front(RotatedFile {
            path: copy,
            generation: None,
            packed: false,
        });
        if self.scheme == RotationScheme::Copy {
            return Ok(());
        }
        // The window: the writer goes on until the truncation.
        self.linger();
        let mut log = locked(log);
        log.lose_from(from);
        // Else a file with a hole would grow for ever, and its copies with it.
        let rewind = self.rotations % HOLES_MAX == HOLES_MAX - 1;
        log.truncate(Instant::now(), rewind)
    }

    /// logrotate `dateext`, `compress` without `delaycompress`, a writer that opens at once.
    fn dated(&mut self, log: &Mutex<NumberedLog>) -> Result<()> {
        self.trim(log, self.keep - 1)?;
        let path = locked(log).path().clone();
        let now = jiff::Timestamp::now().as_second();
        let rotations = self.rotations;
        let name = with_ending(&path, &format!("-{now}-{rotations:06}"));
        self.rename_away(log, name)?;
        File::create(&path)?;
        self.reopen(log)?;
        self.pack(log, 0)
    }

    /// A link that leads to the newest file.
    fn switched(&mut self, log: &Mutex<NumberedLog>) -> Result<()> {
        self.trim(log, self.keep)?;
        let mut log = locked(log);
        self.cut(&mut log)?;
        let old = fs::read_link(log.path())?;
        let new = target(log.path(), self.rotations + 1);
        link(&new, log.path())?;
        self.rotated.push_front(RotatedFile {
            path: old,
            generation: Some(log.generation()),
            packed: false,
        });
        log.reopen()
    }

    /// A shell's `>`: cut off and written from the start, a moment after a line was left open.
    fn rewritten(&mut self, log: &Mutex<NumberedLog>) -> Result<()> {
        self.cut(&mut locked(log))?;
        self.linger();
        locked(log).truncate(Instant::now(), true)
    }

    /// Lets the writer go on for a moment.
    fn linger(&mut self) {
        wait(Duration::from_millis(self.chance.u64(..WINDOW_MS_MAX)));
    }

    /// An editor, or `mv new old`: another file under the same name.
    fn replaced(&mut self, log: &Mutex<NumberedLog>) -> Result<()> {
        let mut log = locked(log);
        self.cut(&mut log)?;
        let new = with_ending(log.path(), ".new");
        File::create(&new)?;
        fs::rename(&new, log.path())?;
        let generation = log.generation();
        log.gone(generation, Instant::now(), GoneWay::Unlinked);
        log.reopen()
    }

    fn rename_away(&mut self, log: &Mutex<NumberedLog>, name: PathBuf) -> Result<()> {
        let log = locked(log);
        self.rename_away_locked(&log, name)
    }

    fn rename_away_locked(&mut self, log: &NumberedLog, name: PathBuf) -> Result<()> {
        fs::rename(log.path(), &name).with_context(|| name.display().to_string())?;
        // A writer that did not open the file that is renamed now stands in one rotated before.
        let known = |generation| {
            let mut all = self.rotated.iter();
            all.any(|one| one.generation == Some(generation))
        };
        let generation = Some(log.generation()).filter(|generation| !known(*generation));
        self.rotated.push_front(RotatedFile {
            path: name,
            generation,
            packed: false,
        });
        Ok(())
    }

    /// Moves the numbers of rotated files up by one.
    fn shift(&mut self, path: &Path) -> Result<()> {
        let count = self.rotated.len();
        for (index, one) in self.rotated.iter_mut().enumerate().rev() {
            let packed = if one.packed { ".gz" } else { "" };
            let name = with_ending(path, &format!(".{}{packed}", index + 2));
            fs::rename(&one.path, &name)
                .with_context(|| format!("{} of {count}", one.path.display()))?;
            one.path = name;
        }
        Ok(())
    }

    /// Removes the oldest until so many are left. A writer that still writes into one of them opens
    /// its new file first, for what it would write there nobody could read: then it is true.
    fn trim(&mut self, log: &Mutex<NumberedLog>, keep: usize) -> Result<bool> {
        let mut reopened = false;
        while self.rotated.len() > keep {
            let Some(oldest) = self.rotated.pop_back() else {
                break;
            };
            let is_open = oldest.generation == Some(locked(log).generation());
            if is_open {
                self.reopen(log)?;
                reopened = true;
            }
            fs::remove_file(&oldest.path).with_context(|| oldest.path.display().to_string())?;
            if let Some(generation) = oldest.generation {
                locked(log).gone(generation, Instant::now(), GoneWay::Unlinked);
            }
        }
        Ok(reopened)
    }

    /// Compresses a rotated file as the kubelet does: beside it, renamed, then the plain one goes.
    fn pack(&mut self, log: &Mutex<NumberedLog>, index: usize) -> Result<()> {
        let one = &mut self.rotated[index];
        if one.packed {
            return Ok(());
        }
        let (beside, packed) = (
            with_ending(&one.path, ".tmp"),
            with_ending(&one.path, ".gz"),
        );
        let mut gzip = GzEncoder::new(File::create(&beside)?, Compression::fast());
        io::copy(&mut File::open(&one.path)?, &mut gzip)?;
        gzip.finish()?;
        fs::rename(&beside, &packed)?;
        fs::remove_file(&one.path)?;
        (one.path, one.packed) = (packed, true);
        if let Some(generation) = one.generation {
            locked(log).gone(generation, Instant::now(), GoneWay::Unlinked);
        }
        Ok(())
    }
}

/// Prepares the folder of a file whose name is `path`, so that its writer can open it.
pub(crate) fn prepare(scheme: RotationScheme, path: &Path) -> Result<()> {
    let folder = path.parent().context("a folder")?;
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    match scheme {
        RotationScheme::Symlink => link(&target(path, 0), path),
        _ => Ok(()),
    }
}

/// File that a link leads to after so many rotations.
fn target(link: &Path, rotations: u64) -> PathBuf {
    with_ending(link, &format!(".{rotations:08}"))
}

/// Has the link lead to a new file.
fn link(to: &Path, link: &Path) -> Result<()> {
    File::create(to).with_context(|| to.display().to_string())?;
    let beside = with_ending(link, ".link");
    std::os::unix::fs::symlink(to, &beside).with_context(|| beside.display().to_string())?;
    fs::rename(&beside, link).with_context(|| link.display().to_string())
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// The file and its writer, which no other thread uses meanwhile.
pub(crate) fn locked(log: &Mutex<NumberedLog>) -> MutexGuard<'_, NumberedLog> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}
