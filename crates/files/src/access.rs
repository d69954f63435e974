//! Owner, group and mode of what is created: who may read and write it.

use std::fs::File;
use std::io;
use std::os::unix::fs::{PermissionsExt, fchown};
use std::path::Path;
use std::sync::{PoisonError, RwLock};

use nix::unistd::{Group, User};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::FileMode;

/// Permissions of what nobody else may read.
const FILE_MODE: u32 = 0o600;
const DIR_MODE: u32 = 0o700;

/// Owner, group and mode of what is created. By default nobody else may read it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// Permissions of files.
    pub file_mode: u32,
    /// Permissions of folders.
    pub dir_mode: u32,
    /// Number of the user; the process's own if `None`.
    pub owner: Option<u32>,
    /// Number of the group; the process's own if `None`.
    pub group: Option<u32>,
}

impl Access {
    /// `0600` for files, `0700` for folders.
    pub const PRIVATE: Self = Self {
        file_mode: FILE_MODE,
        dir_mode: DIR_MODE,
        owner: None,
        group: None,
    };

    /// Gives a file that was just made what is more than private.
    pub(crate) fn give_file(&self, file: &File) -> io::Result<()> {
        if self.owner.is_some() || self.group.is_some() {
            fchown(file, self.owner, self.group).map_err(|error| self.refused(&error))?;
        }
        if self.file_mode != FILE_MODE {
            file.set_permissions(PermissionsExt::from_mode(self.file_mode))?;
        }
        Ok(())
    }

    /// The same for a folder.
    pub(crate) fn give_folder(&self, folder: &Path) -> io::Result<()> {
        if self.owner.is_some() || self.group.is_some() {
            std::os::unix::fs::chown(folder, self.owner, self.group)
                .map_err(|error| self.refused(&error))?;
        }
        if self.dir_mode != DIR_MODE {
            std::fs::set_permissions(folder, PermissionsExt::from_mode(self.dir_mode))?;
        }
        Ok(())
    }

    fn refused(&self, error: &io::Error) -> io::Error {
        let of = |what: &str, id: Option<u32>| id.map(|id| format!("{what} {id}"));
        let wanted: Vec<String> = [of("owner", self.owner), of("group", self.group)]
            .into_iter()
            .flatten()
            .collect();
        let text = format!("cannot give it to {}: {error}", wanted.join(", "));
        io::Error::new(error.kind(), text)
    }
}

impl Default for Access {
    fn default() -> Self {
        Self::PRIVATE
    }
}

/// Of everything that the process writes for itself: queue, store, quarantine.
static OWN: RwLock<Access> = RwLock::new(Access::PRIVATE);

/// The access of what the process writes for itself, as its umask would be: queue, store,
/// quarantine and what was learnt. A destination's files have their own.
pub fn own() -> Access {
    *OWN.read().unwrap_or_else(PoisonError::into_inner)
}

/// Sets [`own`], once the configuration is known.
pub fn set_own(access: Access) {
    *OWN.write().unwrap_or_else(PoisonError::into_inner) = access;
}

/// Owner, group and permissions of new files and folders.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AccessOptions {
    /// User that owns them: a name or a number. Only root may give files away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Group that they belong to: a name or a number. The process must be in it, or be root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Permissions of files in octal. Without it `0600`: nobody else reads them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_mode: Option<FileMode>,
    /// Permissions of folders in octal. Without it `0700`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir_mode: Option<FileMode>,
}

impl AccessOptions {
    /// True if nothing is given.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The numbers of owner and group, and the modes.
    ///
    /// # Errors
    /// A name that the system does not know: the key, and what is wrong with it.
    pub fn resolve(&self) -> Result<Access, (&'static str, String)> {
        let user = |name: &str| Ok(User::from_name(name)?.map(|user| user.uid.as_raw()));
        let group = |name: &str| Ok(Group::from_name(name)?.map(|group| group.gid.as_raw()));
        let mode = |mode: Option<FileMode>, default| mode.map_or(default, |mode| mode.0);
        Ok(Access {
            file_mode: mode(self.file_mode, FILE_MODE),
            dir_mode: mode(self.dir_mode, DIR_MODE),
            owner: number("owner", "user", self.owner.as_deref(), user)?,
            group: number("group", "group", self.group.as_deref(), group)?,
        })
    }

    /// Options that cannot work on any host: keys with what is wrong.
    pub fn problems(&self) -> Vec<(&'static str, String)> {
        let mut problems = Vec::new();
        if self.file_mode.is_some_and(|mode| mode.0 & 0o600 != 0o600) {
            let text = "must let its owner read and write: 6 as its first digit".to_owned();
            problems.push(("file_mode", text));
        }
        if self.dir_mode.is_some_and(|mode| mode.0 & 0o700 != 0o700) {
            let text = "must let its owner do everything: 7 as its first digit".to_owned();
            problems.push(("dir_mode", text));
        }
        problems
    }
}

fn number(
    key: &'static str,
    kind: &str,
    given: Option<&str>,
    look_up: impl FnOnce(&str) -> nix::Result<Option<u32>>,
) -> Result<Option<u32>, (&'static str, String)> {
    let Some(name) = given else {
        return Ok(None);
    };
    if let Ok(number) = name.parse() {
        return Ok(Some(number));
    }
    match look_up(name) {
        Ok(Some(number)) => Ok(Some(number)),
        Ok(None) => Err((key, format!("there is no {kind} `{name}` on this host"))),
        Err(error) => Err((key, format!("{kind} `{name}`: {}", error.desc()))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_become_numbers_and_unknown_ones_are_named() {
        let options = AccessOptions {
            owner: Some("root".into()),
            group: Some("4711".into()),
            file_mode: Some(FileMode(0o640)),
            dir_mode: None,
        };
        let access = options.resolve().unwrap();
        assert_eq!((access.owner, access.group), (Some(0), Some(4711)));
        assert_eq!((access.file_mode, access.dir_mode), (0o640, 0o700));
        let unknown = AccessOptions {
            group: Some("no such group".into()),
            file_mode: Some(FileMode(0o044)),
            ..AccessOptions::default()
        };
        let keys: Vec<_> = unknown.problems().into_iter().map(|p| p.0).collect();
        assert_eq!(keys, ["file_mode"]);
        let (key, message) = unknown.resolve().unwrap_err();
        assert_eq!(key, "group");
        assert!(message.contains("no such group"), "{message}");
    }
}
