//! Survey of the files that a source would read, without starting it: for the doctor.
//!
//! # What it guarantees
//! * Nothing is read of a file, and nothing is changed. A file is opened as the reader opens it,
//!   so that a pipe cannot hold it up.
//!
//! # Limits
//! [`NAMES_MAX`] names; [`LISTED_MAX`] of each kind of finding are kept, the others are counted.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use inrush_transport::files::glob::GlobSet;
use inrush_transport::files::tail_file::{AllowedRoots, FileSystemKind, PathRefusal, TailFile};
use inrush_transport::files::walk::{NamedEntry, TreeWalk, WalkItem};
use inrush_transport::files::watch::InotifyWatcher;

/// Names that a survey looks at.
pub const NAMES_MAX: u64 = 200_000;

/// Paths of a kind that are kept.
pub const LISTED_MAX: usize = 20;

/// A path, and what is the matter with it in words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SurveyedPath {
    /// The path.
    pub path: PathBuf,
    /// The reason in words, without a full stop.
    pub reason: String,
}

/// Paths of one kind of finding.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SurveyedPaths {
    /// The first of them.
    pub listed: Vec<SurveyedPath>,
    /// All of them.
    pub count: u64,
}

impl SurveyedPaths {
    fn push(&mut self, path: &Path, reason: impl ToString) {
        self.count += 1;
        if self.listed.len() < LISTED_MAX {
            self.listed.push(SurveyedPath {
                path: path.to_owned(),
                reason: reason.to_string(),
            });
        }
    }
}

/// Files that a source would read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FileSurvey {
    /// Folders that would be watched.
    pub folders: u64,
    /// Files that match and can be opened.
    pub files: u64,
    /// Files and folders that cannot be opened.
    pub denied: SurveyedPaths,
    /// Names that match and are passed over: pipes, links out of the allowed folders.
    pub skipped: SurveyedPaths,
    /// Folders that must be polled.
    pub polled: SurveyedPaths,
    /// Patterns of `include` that match nothing.
    pub unmatched: Vec<String>,
    /// True if there are more names than are looked at.
    pub is_partial: bool,
    /// Reason that this user cannot have one more watch of inotify now.
    pub no_watch: Option<String>,
}

/// A survey under way.
struct FileSurveyor {
    survey: FileSurvey,
    roots: Arc<AllowedRoots>,
    /// Patterns that have matched nothing yet.
    patterns: Vec<(String, GlobSet)>,
    names: u64,
}

impl FileSurvey {
    /// Looks at the files that patterns match.
    ///
    /// # Errors
    /// A pattern is none, in words.
    pub fn of(
        include: &[String],
        exclude: &[String],
        follow_outside: bool,
    ) -> Result<Self, String> {
        let fault = |(pattern, fault)| format!("`{pattern}`: {fault}");
        let globs = Arc::new(GlobSet::new(include, exclude).map_err(fault)?);
        let one = |pattern: &String| {
            let set = GlobSet::new(std::slice::from_ref(pattern), &[]).map_err(fault)?;
            Ok::<_, String>((pattern.clone(), set))
        };
        let patterns = include.iter().map(one).collect::<Result<Vec<_>, _>>()?;
        let roots = Arc::new(AllowedRoots::new(globs.prefixes(), follow_outside));
        let mut walk = TreeWalk::new(Arc::clone(&globs), Arc::clone(&roots));
        for root in globs.roots() {
            walk.push_root(root);
        }
        let mut surveyor = FileSurveyor {
            survey: Self::default(),
            roots,
            patterns,
            names: 0,
        };
        surveyor.walk(&mut walk);
        let mut survey = surveyor.survey;
        survey.unmatched = surveyor
            .patterns
            .into_iter()
            .map(|(text, _)| text)
            .collect();
        if survey.is_partial {
            survey.unmatched.clear();
        }
        survey.no_watch = no_watch();
        Ok(survey)
    }
}

/// Tries to watch a folder that is there everywhere.
fn no_watch() -> Option<String> {
    let watched = InotifyWatcher::new(1).and_then(|mut one| one.watch_folder(Path::new("/")));
    watched.err().map(|refusal| refusal.to_string())
}

impl FileSurveyor {
    fn walk(&mut self, walk: &mut TreeWalk) {
        let mut folder = PathBuf::new();
        while let Some(item) = walk.step() {
            if self.names >= NAMES_MAX {
                self.survey.is_partial = true;
                return;
            }
            self.names += 1;
            match item {
                WalkItem::Folder(visit) => {
                    folder = visit.path.to_path_buf();
                    self.folder(&folder);
                }
                WalkItem::Entry(name, NamedEntry::File { .. }) => self.file(&folder.join(name)),
                WalkItem::Entry(_, NamedEntry::Folder(visit)) => {
                    walk.push(visit);
                }
                WalkItem::Entry(name, NamedEntry::Refused(refusal)) => {
                    self.refused(&folder.join(name), &refusal);
                }
                WalkItem::Entry(_, NamedEntry::Nothing) | WalkItem::End(None) => {}
                WalkItem::End(Some(refusal)) => self.refused(&folder, &refusal),
            }
        }
    }

    fn folder(&mut self, path: &Path) {
        let Ok(kind) = FileSystemKind::of_path(path) else {
            return;
        };
        self.survey.folders += 1;
        if kind.needs_polling() {
            let words = "its file system does not notify of changes";
            self.survey.polled.push(path, words);
        }
    }

    fn file(&mut self, path: &Path) {
        self.patterns.retain(|(_, set)| !set.matches(path));
        match TailFile::open(path, &self.roots) {
            Ok(_) => self.survey.files += 1,
            Err(refusal) => self.refused(path, &refusal),
        }
    }

    fn refused(&mut self, path: &Path, refusal: &PathRefusal) {
        use PathRefusal::{Denied, Failed, Gone, NoDescriptor, TooMany};
        match refusal {
            Gone => {}
            Denied | Failed(_) | NoDescriptor | TooMany => self.survey.denied.push(path, refusal),
            _ => self.survey.skipped.push(path, refusal),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_survey_counts_what_matches_and_names_what_is_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("a/b")).unwrap();
        for name in ["a/1.log", "a/b/2.log", "a/b/3.txt"] {
            fs::write(at(name), "x\n").unwrap();
        }
        let _socket = UnixListener::bind(at("a/s.log")).unwrap();
        symlink("/etc/hostname", at("a/out.log")).unwrap();
        let pattern = |tail: &str| format!("{}/{tail}", dir.path().display());
        let include = [
            pattern("a/**/*.log"),
            pattern("none/*.log"),
            pattern("a/*.gz"),
        ];
        let survey = FileSurvey::of(&include, &[], false).unwrap();
        assert_eq!((survey.folders, survey.files), (2, 2));
        assert_eq!(survey.unmatched, include[1..]);
        let mut skipped = survey.skipped.listed.clone();
        skipped.sort_by(|a, b| a.path.cmp(&b.path));
        assert_eq!(skipped[0].path, at("a/out.log"));
        assert!(skipped[0].reason.contains("follow_outside"), "{skipped:?}");
        assert_eq!(skipped[1].reason, "it is a socket");
        assert_eq!((survey.skipped.count, survey.denied.count), (2, 0));
        assert_eq!((survey.is_partial, survey.no_watch), (false, None));
        let survey = FileSurvey::of(&include, &[pattern("a/b/*")], true).unwrap();
        assert_eq!(
            (survey.files, survey.skipped.count),
            (2, 1),
            "followed, and excluded"
        );
        assert!(FileSurvey::of(&["a[".to_owned()], &[], false).is_err());
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut paths = SurveyedPaths::default();
        for number in 0..50 {
            paths.push(Path::new("/x"), number);
        }
        assert_eq!((paths.count, paths.listed.len()), (50, LISTED_MAX));
    }
}
