//! Small files in `data_dir` with what was learnt, over a restart.
//!
//! A file is written beside and moved over, so that what is there is whole or of before. Losing it
//! costs what it had, which is learnt again.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde::Serialize;

/// Bytes of a file; `None` if there is none.
///
/// # Errors
/// It cannot be read, or is larger than `bytes_max`.
pub(crate) fn read(path: &Path, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    match inrush_files::read(path, bytes_max) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

/// Error that refuses a file that nobody wrote like this.
pub(crate) fn not_ours() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "not as it was written")
}

/// Replaces a file, whose name ends in `.json`. With `sync` it is on the disk by the end; else the
/// kernel may still hold it.
///
/// # Errors
/// The disk cannot be written; what was there is there still.
pub(crate) fn write(path: &Path, document: &impl Serialize, sync: bool) -> io::Result<()> {
    let new = path.with_extension("json.new");
    let mut out = BufWriter::new(inrush_files::create(&new, &inrush_files::own())?);
    serde_json::to_writer(&mut out, document)?;
    out.flush()?;
    if sync {
        out.get_ref().sync_all()?;
    }
    fs::rename(new, path)
}
