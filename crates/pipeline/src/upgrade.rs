//! Changed defaults, told once to each data directory that an earlier version has used.
//!
//! A file below `data_dir` has the names of the changes that were told, one a line. A new directory
//! begins with all of them, so that nothing is told there. A file that cannot be written costs no
//! more than a repeated line in the log.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use inrush_config::Config;
use inrush_files::Access;

/// Name of the file, below `data_dir`.
pub(crate) const FILE: &str = "told";

/// Bytes of that file that are read, at most.
const FILE_BYTES_MAX: u64 = 4096;

/// Name of the change that turned packs on without an option.
const PACKS: &str = "packs-on";

/// Tells the changes that are news to this directory, and notes them. `used`: an earlier process
/// has used the directory.
pub(crate) fn tell(config: &Config, used: bool, access: &Access) {
    let path = config.data_dir.join(FILE);
    let told = inrush_files::read_to_string(&path, FILE_BYTES_MAX).unwrap_or_default();
    if told.lines().any(|name| name == PACKS) {
        return;
    }
    if used && config.packs.enabled {
        tracing::warn!(
            "packs are on by default since this version: products are recognised, and their \
             events get another index and sourcetype; `packs: {{ enabled: false }}` in the \
             configuration turns them off. This is said once"
        );
    }
    if let Err(error) = note(&path, access) {
        tracing::warn!(path = %path.display(), %error, "it cannot be noted what was told");
    }
}

fn note(path: &Path, access: &Access) -> io::Result<()> {
    let mut file = inrush_files::open_own(path, OpenOptions::new().append(true), access)?;
    file.write_all(format!("{PACKS}\n").as_bytes())
}
