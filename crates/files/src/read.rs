//! Bounded reading of files that others wrote.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::OFlag;

use crate::Access;

/// Reads a regular file of at most `bytes_max` bytes.
///
/// # Errors
/// It cannot be read, is no regular file, or is larger: the message says so, without the path.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    read_up_to(&open_regular(path)?, bytes_max)
}

/// The same as text.
///
/// # Errors
/// As for [`read`], or it is not UTF-8.
pub fn read_to_string(path: &Path, bytes_max: u64) -> io::Result<String> {
    String::from_utf8(read(path, bytes_max)?).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let text = format!("is not UTF-8: the byte at offset {at} begins no character");
        io::Error::new(ErrorKind::InvalidData, text)
    })
}

/// Opens a regular file for reading, and nothing that could make its reader wait.
///
/// # Errors
/// It cannot be opened, or is no regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    // Without it a pipe is waited for until somebody writes to it.
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    regular(options.read(true).custom_flags(flags.bits()).open(path)?)
}

/// Opens a file of ours as `options` say, which need write; makes it if it is not there. Nothing
/// that stands in its place makes its reader wait.
///
/// # Errors
/// As for [`create`](crate::create), or it is no regular file.
pub fn open_own(path: &Path, options: &OpenOptions, access: &Access) -> io::Result<File> {
    let mut options = options.clone();
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    regular(crate::open(
        path,
        options.custom_flags(flags.bits()),
        access,
    )?)
}

fn regular(file: File) -> io::Result<File> {
    let metadata = file.metadata()?;
    match metadata.is_file() {
        true => Ok(file),
        false => Err(invalid(format!(
            "is a {}, not a regular file",
            kind(&metadata)
        ))),
    }
}

/// Opens a file that a command line names: a regular one, or a pipe that the shell handed over
/// (`/dev/stdin`, `<(command)`). A pipe in a folder would be waited for.
///
/// # Errors
/// As for [`open_regular`].
pub fn open_given(path: &Path) -> io::Result<File> {
    match path == Path::new("/dev/stdin") || path.starts_with("/dev/fd") {
        true => File::open(path),
        false => open_regular(path),
    }
}

/// Reads an open file from where it is, at most `bytes_max` bytes.
///
/// # Errors
/// It cannot be read, or has more.
pub fn read_up_to(mut file: &File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let len = file.metadata()?.len();
    if len > bytes_max {
        return Err(too_large(len, bytes_max));
    }
    let mut bytes = Vec::with_capacity(len as usize + 1);
    let read = (&mut file).take(bytes_max + 1).read_to_end(&mut bytes)?;
    match read as u64 > bytes_max {
        true => Err(too_large(read as u64, bytes_max)),
        false => Ok(bytes),
    }
}

fn too_large(len: u64, bytes_max: u64) -> io::Error {
    let text =
        format!("has {len} bytes or more; at most {bytes_max} are read of a file of its kind");
    io::Error::new(ErrorKind::FileTooLarge, text)
}

fn invalid(text: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, text)
}

fn kind(metadata: &Metadata) -> &'static str {
    let kind = metadata.file_type();
    if kind.is_dir() {
        "folder"
    } else if kind.is_fifo() {
        "pipe"
    } else if kind.is_socket() {
        "socket"
    } else {
        "device"
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_would_not_end_is_refused_and_named() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        nix::unistd::mkfifo(&path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let sparse = File::create(path("sparse")).unwrap();
        sparse.set_len(20 << 30).unwrap();
        std::fs::write(path("text"), b"abc\xff").unwrap();
        let said = |path: &Path| read(path, 4).unwrap_err().to_string();
        assert!(said(&path("pipe")).contains("is a pipe"));
        assert!(said(home.path()).contains("is a folder"));
        assert!(said(Path::new("/dev/zero")).contains("is a device"));
        assert!(said(&path("sparse")).contains("has 21474836480 bytes"));
        assert!(read(&path("text"), 3).is_err());
        assert_eq!(read(&path("text"), 4).unwrap(), b"abc\xff");
        let error = read_to_string(&path("text"), 4).unwrap_err().to_string();
        assert!(error.contains("offset 3"), "{error}");
    }

    #[test]
    fn a_file_that_says_it_is_empty_is_read_up_to_the_limit() {
        // Files of the kernel have no length; this one has more than ten bytes.
        assert!(read(Path::new("/proc/self/status"), 10).is_err());
        assert!(read(Path::new("/proc/self/status"), 1 << 20).unwrap().len() > 10);
    }
}
