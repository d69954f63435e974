//! Programs that others wrote, against the built binary: clients of HEC and a load balancer before
//! it, a server behind, and those that write or rotate the files that it reads.
//!
//! `make test-peers` installs them below `target/tools/peers` and runs these tests; `cargo test`
//! leaves them out. A program that could not be had is said, and its test skipped. Clients send
//! through a recorder: with `INRUSH_RECORD=1` their requests are kept in `tests/data/hec-requests`,
//! which `blackbox::hec_recorded` replays in every `make test`. Clients from PyPI, and curl, are in
//! `blackbox::hec_clients`.
#![allow(clippy::unwrap_used)]

mod arrivals;
mod camel;
mod cluster;
mod collector;
mod docker;
mod docker_files;
mod haproxy;
mod images;
mod journald;
mod kubernetes;
mod logrotate;
mod npm;
mod otel;
mod rotations;
mod streams;
mod syslog_ng;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use inrush_tests::peer_tool;

/// A program of a Debian package that `make test-peers` has unpacked into this folder, else that
/// of the system.
fn unpacked(folder: &str, path: &str) -> Option<PathBuf> {
    let name = Path::new(path).file_name().unwrap().to_str().unwrap();
    peer_tool(&format!("{folder}/{path}")).or_else(|| inrush_tests::tool(name))
}

/// [`unpacked`] into the folder of most programs.
fn debian_tool(path: &str) -> Option<PathBuf> {
    unpacked("debian", path)
}

/// `LD_LIBRARY_PATH` for a program of this folder.
fn libraries(folder: &str) -> OsString {
    let paths = [
        "usr/lib/syslog-ng",
        "usr/lib/x86_64-linux-gnu",
        "lib/x86_64-linux-gnu",
        "usr/lib/aarch64-linux-gnu",
        "lib/aarch64-linux-gnu",
    ];
    let paths = paths.map(|path| format!("{folder}/{path}"));
    std::env::join_paths(paths.iter().filter_map(|path| peer_tool(path))).unwrap()
}

/// [`libraries`] of most programs.
fn debian_libraries() -> OsString {
    libraries("debian")
}
