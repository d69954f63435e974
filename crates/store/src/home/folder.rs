//! A store in a folder. It is written to by `std::fs`, for `object_store` does not sync.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path as FsPath, PathBuf};

use bytes::Bytes;

use super::{Listed, PART, Step};

/// A folder, made if it is not there.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
}

impl Folder {
    pub(super) fn open(folder: &FsPath) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let path = folder.canonicalize()?;
        Ok(Self { path })
    }

    pub(super) fn put(&self, path: &str, bytes: &[u8], step: Step<'_>) -> io::Result<()> {
        let target = self.path.join(path);
        let part = self.write_part(&target, bytes, step)?;
        step()?;
        fs::rename(&part, &target)?;
        sync_folder_of(&target)
    }

    pub(super) fn create(&self, path: &str, bytes: &[u8], step: Step<'_>) -> io::Result<bool> {
        let target = self.path.join(path);
        let part = self.write_part(&target, bytes, step)?;
        step()?;
        let linked = fs::hard_link(&part, &target);
        step()?;
        fs::remove_file(&part)?;
        match linked {
            Ok(()) => sync_folder_of(&target).map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn write_part(&self, target: &FsPath, bytes: &[u8], step: Step<'_>) -> io::Result<PathBuf> {
        let mut part = target.as_os_str().to_owned();
        part.push(PART);
        let part = PathBuf::from(part);
        step()?;
        let mut file = match File::create(&part) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.make_folders(target)?;
                File::create(&part)?
            }
            made => made?,
        };
        let written = step()
            .and_then(|()| file.write_all(bytes))
            .and_then(|()| file.sync_data());
        if let Err(error) = written {
            // What is half there only takes room, on a disk that is perhaps full.
            let _ = step().and_then(|()| fs::remove_file(&part));
            return Err(error);
        }
        Ok(part)
    }

    /// Makes the folders of a file, each durable in the one above.
    fn make_folders(&self, target: &FsPath) -> io::Result<()> {
        let Some(folder) = target.parent() else {
            return Ok(());
        };
        fs::create_dir_all(folder)?;
        let mut made = folder;
        while made != self.path && made.starts_with(&self.path) {
            sync_folder_of(made)?;
            made = made.parent().unwrap_or(&self.path);
        }
        Ok(())
    }

    pub(super) fn rename(&self, from: &str, to: &str, step: Step<'_>) -> io::Result<()> {
        step()?;
        let to = self.path.join(to);
        match fs::rename(self.path.join(from), &to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && to.exists() => Ok(()),
            Err(error) => Err(error),
            Ok(()) => sync_folder_of(&to),
        }
    }

    pub(super) fn delete(&self, path: &str, step: Step<'_>) -> io::Result<()> {
        step()?;
        let target = self.path.join(path);
        match fs::remove_file(&target) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => done?,
        }
        let mut folder = target.parent();
        while let Some(empty) = folder.filter(|f| *f != self.path) {
            if fs::remove_dir(empty).is_err() {
                break;
            }
            folder = empty.parent();
        }
        Ok(())
    }

    pub(super) fn get(&self, path: &str) -> io::Result<Bytes> {
        fs::read(self.path.join(path)).map(Bytes::from)
    }

    pub(super) fn list(&self, folder: &str) -> io::Result<Vec<Listed>> {
        let mut found = Vec::new();
        let mut open = vec![self.path.join(folder)];
        while let Some(folder) = open.pop() {
            let entries = match fs::read_dir(&folder) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                entries => entries?,
            };
            for entry in entries {
                let entry = entry?;
                let path = entry.path();
                if entry.file_type()?.is_dir() {
                    open.push(path);
                } else if let Some(name) = self.name_of(&path) {
                    let bytes = entry.metadata()?.len();
                    found.push(Listed { path: name, bytes });
                }
            }
        }
        Ok(found)
    }

    /// What has a name that is no text is not ours.
    fn name_of(&self, path: &FsPath) -> Option<String> {
        let below = path.strip_prefix(&self.path).ok()?;
        below.to_str().map(str::to_owned)
    }
}

fn sync_folder_of(path: &FsPath) -> io::Result<()> {
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}
