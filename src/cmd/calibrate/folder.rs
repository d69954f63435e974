//! The folder for what is written while the rate is measured.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use inrush_pipeline::DataDirLock;

/// Prefix of its name; the number of the process follows.
const PREFIX: &str = ".inrush-doctor-";

/// A folder that is removed, with what is in it, when this goes.
pub(super) struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    /// Makes it on the file system of `data_dir`: in it, or in the nearest folder above it that is
    /// there. What killed runs left is removed first.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn make(data_dir: &Path) -> anyhow::Result<Self> {
        let absolute = std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.to_owned());
        let nearest = absolute.ancestors().find(|folder| folder.is_dir());
        let parent = nearest.unwrap_or(Path::new("/"));
        remove_left(parent);
        let path = parent.join(format!("{PREFIX}{}", std::process::id()));
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .with_context(|| {
                let folder = path.display();
                format!("cannot make {folder}; run it as the user that inrush runs as, or as root")
            })?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("inrush: {}: {error}; remove it by hand", self.0.display());
        }
    }
}

/// Removes the folders of processes that are no more.
fn remove_left(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let Some(number) = number.and_then(|number| number.parse::<u32>().ok()) else {
            continue;
        };
        // The process may be in another container, where its number means something else.
        let runs = Path::new(&format!("/proc/{number}")).exists();
        let in_use = ["all", "bare"]
            .iter()
            .any(|one| DataDirLock::is_taken(&entry.path().join(one)));
        if !runs && !in_use {
            // Somebody else's stays: it was not ours to remove.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_and_takes_along_what_a_killed_run_left_but_nothing_else() {
        let above = std::env::temp_dir().join(format!("inrush-folder-{}", std::process::id()));
        // No process has a number above 2^22 (proc(5), pid_max).
        let left = above.join(format!("{PREFIX}4194999"));
        let alive = above.join(format!("{PREFIX}1"));
        for folder in [&left.join("all/queue"), &alive, &above.join("other")] {
            fs::create_dir_all(folder).unwrap();
        }
        let folder = TemporaryFolder::make(&above.join("not/yet")).unwrap();
        assert_eq!(folder.path().parent(), Some(&*above));
        fs::write(folder.path().join("file"), "x").unwrap();
        let path = folder.path().to_owned();
        drop(folder);
        assert!(!path.exists() && !left.exists());
        assert!(alive.exists() && above.join("other").exists());
        fs::remove_dir_all(&above).unwrap();
    }
}
