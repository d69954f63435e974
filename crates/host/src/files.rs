//! The files under a root: `/` for this host, a folder with a made-up `/proc` and `/sys` in tests.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Bytes of a file that are read: `softnet_stat` of 4,096 CPUs has half of it.
pub const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Network interfaces that are looked at, in the order of their names.
pub const INTERFACES_MAX: usize = 64;

/// Entries of a folder that are looked at: more than processes run on a large host.
const ENTRIES_MAX: usize = 65_536;

/// Root folder that files are read under.
#[derive(Clone, Debug)]
pub(crate) struct HostFiles {
    root: PathBuf,
}

impl HostFiles {
    pub(crate) fn at(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    /// A path under the root; `path` has no slash at its beginning.
    pub(crate) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join(path)
    }

    /// A file's text, up to [`FILE_BYTES_MAX`].
    pub(crate) fn read(&self, path: impl AsRef<Path>) -> io::Result<String> {
        let file = File::open(self.path(path))?;
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A file's text; `None` if it cannot be read.
    pub(crate) fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        self.read(path).ok()
    }

    /// The names in a folder, sorted; none if it cannot be read.
    pub(crate) fn names(&self, path: impl AsRef<Path>) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(path)) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .take(ENTRIES_MAX)
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort_unstable();
        names
    }

    /// The interfaces that have hardware below them. In a container none has: there it is all but
    /// the loopback, which cannot lose what it does not carry.
    pub(crate) fn interfaces(&self) -> Vec<String> {
        let folder = self.path("sys/class/net");
        let mut names = self.names("sys/class/net");
        names.retain(|name| name != "lo" && folder.join(name).join("statistics").is_dir());
        let is_hardware = |name: &String| folder.join(name).join("device").exists();
        if names.iter().any(is_hardware) {
            names.retain(is_hardware);
        }
        names.truncate(INTERFACES_MAX);
        names
    }
}
