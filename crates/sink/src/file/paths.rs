//! A bound for the paths that senders can have made: each is a file, and a folder perhaps, and a
//! file system has a number of both that it cannot exceed.
//!
//! A path counts without its date, for a day after it was last written to, so senders that are
//! there every day keep theirs when others make up names. Of each a hash is remembered, 8 bytes.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use inrush_event::Timestamp;
use nix::sys::statvfs::statvfs;

use crate::status::OverflowCause;

/// Of the inodes of a file system, one part in so many is left for others at most.
const RESERVE_PART: u64 = 20;

/// Inodes that are left for others at most: the store, the queue and an operator need some.
const RESERVE_MAX: u64 = 10_000;

/// Time for which a count of free inodes is believed.
const COUNT_EVERY: Duration = Duration::from_secs(1);

const DAY_NS: i64 = 86_400_000_000_000;

/// The paths that are written to.
pub(super) struct PathLimiter {
    max: usize,
    hasher: RandomState,
    day: i64,
    today: HashSet<u64>,
    /// Written to yesterday, and not today yet.
    yesterday: HashSet<u64>,
    inodes: Inodes,
}

impl PathLimiter {
    /// At most `max` paths below `root`, each of which takes so many inodes at most.
    pub(super) fn new(max: u32, root: &Path, inodes_each: u64) -> Self {
        Self {
            max: max as usize,
            hasher: RandomState::new(),
            day: 0,
            today: HashSet::new(),
            yesterday: HashSet::new(),
            inodes: Inodes {
                root: root.to_owned(),
                each: inodes_each,
                left: 0,
                promised: 0,
                counted: None,
                recounted: false,
            },
        }
    }

    /// Admits events to a path, or says why not. `undated` is the path without its
    /// date; `exists` says whether its file is there already, which takes nothing.
    pub(super) fn admit(
        &mut self,
        undated: &str,
        now: Timestamp,
        exists: impl Fn() -> bool,
    ) -> Result<(), OverflowCause> {
        self.turn(now.0.div_euclid(DAY_NS));
        let hash = self.hasher.hash_one(undated);
        let known = self.today.contains(&hash) || self.yesterday.contains(&hash);
        let full = !known && self.today.len() + self.yesterday.len() >= self.max;
        if (full || self.inodes.short()) && !exists() {
            return Err(match full {
                true => OverflowCause::Paths,
                false => OverflowCause::Inodes,
            });
        }
        if !full && self.today.insert(hash) && !self.yesterday.remove(&hash) {
            self.inodes.take();
        }
        Ok(())
    }

    /// The files of the paths that were admitted are made, or could not be.
    pub(super) fn made(&mut self) {
        self.inodes.promised = 0;
        self.inodes.recounted = false;
    }

    /// Forgets what was not written to for a day.
    fn turn(&mut self, day: i64) {
        if day == self.day {
            return;
        }
        let last = std::mem::take(&mut self.today);
        self.yesterday = match day == self.day + 1 {
            true => last,
            false => HashSet::new(),
        };
        self.day = day;
    }
}

/// The inodes of the file system.
struct Inodes {
    root: PathBuf,
    each: u64,
    /// Inodes that may still be taken before they are counted again.
    left: u64,
    /// Inodes of paths that are admitted and not made yet.
    promised: u64,
    counted: Option<Instant>,
    /// Counted since files were last made.
    recounted: bool,
}

impl Inodes {
    /// True if what is left is the reserve.
    fn short(&mut self) -> bool {
        let old = self.counted.is_none_or(|at| at.elapsed() >= COUNT_EVERY);
        if old || (self.left < self.each && !self.recounted) {
            self.left = spare(&self.root).saturating_sub(self.promised);
            self.counted = Some(Instant::now());
            self.recounted = true;
        }
        self.left < self.each
    }

    fn take(&mut self) {
        self.left = self.left.saturating_sub(self.each);
        self.promised = self.promised.saturating_add(self.each);
    }
}

/// Free inodes beyond the reserve; without end where the file system has no number of them.
fn spare(root: &Path) -> u64 {
    let stat = root
        .ancestors()
        .find_map(|folder| match folder.as_os_str().is_empty() {
            true => None,
            false => statvfs(folder).ok(),
        });
    let Some(stat) = stat.filter(|stat| stat.files() > 0) else {
        return u64::MAX;
    };
    let reserve = (stat.files() / RESERVE_PART).min(RESERVE_MAX);
    stat.files_available().saturating_sub(reserve)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(n: i64) -> Timestamp {
        Timestamp(n * DAY_NS + 1)
    }

    #[test]
    fn beyond_the_limit_new_paths_are_refused_and_known_ones_are_not() {
        let mut paths = PathLimiter::new(2, Path::new("/"), 1);
        let mut admit = |path: &str, at| paths.admit(path, day(at), || false);
        assert_eq!(admit("a", 7), Ok(()));
        assert_eq!(admit("b", 7), Ok(()));
        assert_eq!(admit("c", 7), Err(OverflowCause::Paths));
        assert_eq!(admit("a", 8), Ok(()));
        assert_eq!(
            admit("c", 8),
            Err(OverflowCause::Paths),
            "b is of yesterday"
        );
        assert_eq!(admit("a", 9), Ok(()));
        assert_eq!(admit("c", 9), Ok(()), "b is forgotten, a is not");
        assert_eq!(admit("d", 9), Err(OverflowCause::Paths));
        assert_eq!(admit("d", 99), Ok(()));
    }

    #[test]
    fn a_file_that_is_there_takes_nothing() {
        let mut paths = PathLimiter::new(1, Path::new("/"), 1);
        assert_eq!(paths.admit("a", day(7), || false), Ok(()));
        assert_eq!(paths.admit("b", day(7), || true), Ok(()));
        assert_eq!(
            paths.admit("b", day(7), || false),
            Err(OverflowCause::Paths)
        );
        paths.inodes.each = u64::MAX;
        paths.inodes.left = 0;
        assert_eq!(paths.admit("a", day(7), || true), Ok(()));
        let short = paths.admit("a", day(7), || false);
        assert!(short.is_ok() || short == Err(OverflowCause::Inodes));
    }
}
