//! Takes away from files that are there what strangers can do with them.

use std::fs::{self, Metadata};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

use crate::Access;

/// Folders below the one that was named; a loop of links is not followed, a deeper one is not ours.
const DEPTH_MAX: usize = 16;

/// Number of files and folders that were found wider than they should be.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TightenReport {
    /// Files and folders whose mode was changed.
    pub changed: u64,
    /// Those that stay wide, because they belong to another user or cannot be changed.
    pub left: u64,
    /// One of those that stay wide.
    pub example: Option<PathBuf>,
}

/// Takes from a file, or a folder and all in it, the permissions beyond `access`. Links are not
/// followed; what is neither file nor folder is left alone, and so is a folder with a sticky bit.
pub fn tighten(path: &Path, access: &Access) -> TightenReport {
    let mut done = TightenReport::default();
    let mut open = vec![(path.to_owned(), 0)];
    while let Some((path, depth)) = open.pop() {
        let Ok(metadata) = fs::symlink_metadata(&path) else {
            continue;
        };
        done.one(&path, &metadata, access);
        if !metadata.is_dir() || depth == DEPTH_MAX {
            continue;
        }
        let entries = fs::read_dir(&path).into_iter().flatten().flatten();
        open.extend(entries.map(|entry| (entry.path(), depth + 1)));
    }
    done
}

impl TightenReport {
    /// Adds what else was found.
    pub fn add(&mut self, other: Self) {
        self.changed += other.changed;
        self.left += other.left;
        self.example = self.example.take().or(other.example);
    }

    /// Takes from one file or folder what is beyond `access`.
    pub fn one(&mut self, path: &Path, metadata: &Metadata, access: &Access) {
        let allowed = match (metadata.is_file(), metadata.is_dir()) {
            (true, _) => access.file_mode,
            (_, true) if metadata.mode() & 0o1000 == 0 => access.dir_mode,
            _ => return,
        };
        let mode = metadata.mode() & 0o777;
        if mode & !allowed == 0 {
            return;
        }
        let ours = metadata.uid() == geteuid().as_raw();
        let narrow = PermissionsExt::from_mode(metadata.mode() & 0o7000 | mode & allowed);
        if ours && fs::set_permissions(path, narrow).is_ok() {
            self.changed += 1;
        } else {
            self.left += 1;
            self.example.get_or_insert_with(|| path.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_files_and_folders_of_ours_are_narrowed_and_links_are_not_followed() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        let chmod = |name: &str, mode| {
            fs::set_permissions(path(name), PermissionsExt::from_mode(mode)).unwrap();
        };
        let mode = |name: &str| fs::metadata(path(name)).unwrap().mode() & 0o7777;
        fs::create_dir_all(path("data/sub")).unwrap();
        fs::write(path("data/sub/f"), "x").unwrap();
        fs::write(path("outside"), "x").unwrap();
        symlink(path("outside"), path("data/link")).unwrap();
        for (name, wide) in [("data", 0o755), ("data/sub", 0o1777)] {
            chmod(name, wide);
        }
        chmod("data/sub/f", 0o644);
        chmod("outside", 0o644);
        let done = tighten(&path("data"), &Access::PRIVATE);
        assert_eq!((done.changed, done.left), (2, 0));
        assert_eq!((mode("data"), mode("data/sub")), (0o700, 0o1777));
        assert_eq!((mode("data/sub/f"), mode("outside")), (0o600, 0o644));
        assert_eq!(
            tighten(&path("data"), &Access::PRIVATE),
            TightenReport::default()
        );
    }
}
