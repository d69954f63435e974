//! Programs of other people, where they are installed.

use std::path::PathBuf;
use std::process::Command;

use crate::binary;

/// The program on the PATH or in the folders that hold daemons; `None` if it is not installed.
pub fn tool(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// A program that `make test-peers` has installed below `target/tools/peers`, by its path there;
/// `None` if it could not be had.
pub fn peer_tool(path: &str) -> Option<PathBuf> {
    let file = binary().parent()?.join("../tools/peers").join(path);
    file.exists().then(|| file.canonicalize().unwrap())
}

/// Whether we may do what only root may.
pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Runs a program to its end.
///
/// # Panics
/// If it fails, with what it said.
pub fn run_ok(command: &mut Command) -> String {
    let done = command.output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(
        done.status.success(),
        "{command:?}: {}\n{said}",
        done.status
    );
    String::from_utf8_lossy(&done.stdout).into_owned()
}
