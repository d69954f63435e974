//! Ways of rotation, and where each has its files.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::format::LogFormat;

/// A way of rotation.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RotationScheme {
    /// Rename to `0.log.YYYYMMDD-HHMMSS`, gzip the older ones, reopen up to 200 ms later.
    #[default]
    Kubelet,
    /// json-file with `max-file`: close, rename `.N-1` to `.N`, create.
    Docker,
    /// json-file with `max-file: 1`: close, unlink, create.
    DockerSingle,
    /// logrotate `create`, a writer that opens the new file at once.
    Create,
    /// The same with a writer that opens it 0.3 to 3 s later.
    CreateLate,
    /// The same with a writer that goes on until its file is to be removed.
    CreateNever,
    /// logrotate `nocreate`: the name is absent for 0.3 to 3 s.
    Nocreate,
    /// logrotate `copytruncate`, a writer that appends.
    Copytruncate,
    /// The same with a writer that does not: a hole of NULs.
    CopytruncateHole,
    /// logrotate `copy`: the file only grows, copies lie beside it.
    Copy,
    /// logrotate `dateext`, `compress` at once.
    DateextCompress,
    /// A link that leads to the newest file.
    Symlink,
    /// Truncated and written from the start.
    Rewrite,
    /// Another file under the same name.
    Replace,
}

impl RotationScheme {
    /// As it is written on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value()
            .map_or(String::new(), |value| value.get_name().to_owned())
    }

    /// Name of file `index`, which collectors look for.
    pub(crate) fn file(self, folder: &Path, index: u32) -> PathBuf {
        let name = match self {
            Self::Kubelet => {
                format!("pods/bench_writer-{index}_00000000-0000-4000-8000-{index:012}/app/0.log")
            }
            Self::Docker | Self::DockerSingle => {
                format!("containers/{index:064x}/{index:064x}-json.log")
            }
            Self::Symlink => format!("app-{index:05}/current"),
            _ => format!("app-{index:05}/app.log"),
        };
        folder.join(name)
    }

    /// Glob of all names that collectors look for.
    pub(crate) fn include(self, folder: &Path) -> String {
        let glob = match self {
            Self::Kubelet => "pods/*/*/*.log",
            Self::Docker | Self::DockerSingle => "containers/*/*-json.log",
            Self::Symlink => "*/current",
            _ => "*/*.log",
        };
        folder.join(glob).display().to_string()
    }

    /// Form of the lines of those who rotate in this way.
    pub(crate) fn format(self) -> LogFormat {
        match self {
            Self::Kubelet => LogFormat::Cri,
            Self::Docker | Self::DockerSingle => LogFormat::Docker,
            _ => LogFormat::Lines,
        }
    }

    /// True if what was not read in time is gone, whoever reads: lines are lost, and of a long one
    /// a part may be left.
    pub(crate) fn truncates(self) -> bool {
        matches!(
            self,
            Self::Copytruncate | Self::CopytruncateHole | Self::Rewrite
        )
    }

    /// True if the writer opens its file for appending.
    pub(crate) fn appends(self) -> bool {
        self != Self::CopytruncateHole && self != Self::Rewrite
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_command_line() {
        assert_eq!(RotationScheme::CopytruncateHole.name(), "copytruncate-hole");
        let file = RotationScheme::Docker.file(Path::new("/d"), 10);
        let id = format!("{:064x}", 10);
        let expected = format!("/d/containers/{id}/{id}-json.log");
        assert_eq!(file.display().to_string(), expected);
    }
}
