//! Creates files and folders that nobody else can read.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use nix::sys::stat::{Mode, umask};

use crate::Access;

/// Times that a file may be deleted and made by others between two calls of ours.
const RACES_MAX: usize = 16;

/// Takes from all files that this process makes, by whatever way, what others could do with them.
/// It is the net below the rest of this crate: libraries create files too.
pub fn keep_private() {
    umask(Mode::from_bits_truncate(0o077));
}

/// Creates or empties a file for writing, as [`File::create`] does.
///
/// # Errors
/// It cannot be created, or not be given to owner or group; then it is removed again.
pub fn create(path: &Path, access: &Access) -> io::Result<File> {
    open(path, OpenOptions::new().write(true).truncate(true), access)
}

/// Creates a file that must not be there.
///
/// # Errors
/// There is one ([`ErrorKind::AlreadyExists`]), or as for [`create`].
pub fn create_new(path: &Path, options: &OpenOptions, access: &Access) -> io::Result<File> {
    let mut options = options.clone();
    let file = options.create_new(true).mode(0o600).open(path)?;
    match access.give_file(&file) {
        Ok(()) => Ok(file),
        Err(error) => {
            let _ = fs::remove_file(path);
            Err(error)
        }
    }
}

/// Opens a file as `options` say, which need write or append; makes it if it is not there.
///
/// # Errors
/// As for [`create`].
pub fn open(path: &Path, options: &OpenOptions, access: &Access) -> io::Result<File> {
    let mut raced = ErrorKind::NotFound.into();
    for _ in 0..RACES_MAX {
        match options.open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            opened => return opened,
        }
        match create_new(path, options, access) {
            // Since a moment, or a link that leads nowhere.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => raced = error,
            made => return made,
        }
    }
    Err(raced)
}

/// Creates a folder and those above it, as [`fs::create_dir_all`] does.
///
/// # Errors
/// One cannot be created, or not be given to owner or group.
pub fn create_dir_all(path: &Path, access: &Access) -> io::Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    match make_dir(path, access) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        made => return made,
    }
    if let Some(above) = path.parent() {
        create_dir_all(above, access)?;
    }
    make_dir(path, access)
}

fn make_dir(path: &Path, access: &Access) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => access.give_folder(path),
        Err(_) if path.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Write;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn what_is_created_is_private_or_as_was_said_and_what_is_there_stays() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("a/b");
        create_dir_all(&folder, &Access::PRIVATE).unwrap();
        create(&folder.join("f"), &Access::PRIVATE).unwrap();
        assert_eq!(mode(&home.path().join("a")), 0o700);
        assert_eq!(mode(&folder), 0o700);
        assert_eq!(mode(&folder.join("f")), 0o600);
        let wide = Access {
            file_mode: 0o664,
            dir_mode: 0o775,
            ..Access::PRIVATE
        };
        create_dir_all(&folder.join("c/d"), &wide).unwrap();
        let path = folder.join("c/d/g");
        open(&path, OpenOptions::new().append(true), &wide).unwrap();
        assert_eq!(mode(&folder.join("c/d")), 0o775);
        assert_eq!(mode(&path), 0o664);
        fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        let mut again = open(&path, OpenOptions::new().append(true), &wide).unwrap();
        again.write_all(b"x").unwrap();
        assert_eq!((mode(&path), again.metadata().unwrap().len()), (0o640, 1));
        let kind = |made: io::Result<File>| made.unwrap_err().kind();
        let options = OpenOptions::new().write(true).clone();
        let taken = create_new(&path, &options, &wide);
        assert_eq!(kind(taken), ErrorKind::AlreadyExists);
        symlink("nowhere/at/all", folder.join("link")).unwrap();
        assert!(create(&folder.join("link"), &wide).is_err());
    }
}
