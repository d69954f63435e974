//! Programs that others wrote, against the built binary: clients of HEC and a load balancer before
//! it, a server behind.
//!
//! `make test-peers` installs them below `target/tools/peers` and runs these tests; `cargo test`
//! leaves them out. A program that could not be had is said, and its test skipped. Clients send
//! through a recorder: with `INRUSH_RECORD=1` their requests are kept in `tests/data/hec-requests`,
//! which `blackbox::hec_recorded` replays in every `make test`. Clients from PyPI, and curl, are in
//! `blackbox::hec_clients`.
#![allow(clippy::unwrap_used)]

mod camel;
mod docker;
mod haproxy;
mod npm;
mod otel;
mod syslog_ng;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use inrush_tests::peer_tool;

/// A program of a Debian package: unpacked by `make test-peers`, else that of the system.
fn debian_tool(path: &str) -> Option<PathBuf> {
    let name = Path::new(path).file_name().unwrap().to_str().unwrap();
    peer_tool(&format!("debian/{path}")).or_else(|| inrush_tests::tool(name))
}

/// `LD_LIBRARY_PATH` for such a program.
fn debian_libraries() -> OsString {
    let folders = [
        "usr/lib/syslog-ng",
        "usr/lib/x86_64-linux-gnu",
        "lib/x86_64-linux-gnu",
        "usr/lib/aarch64-linux-gnu",
        "lib/aarch64-linux-gnu",
    ];
    let folders = folders.map(|folder| format!("debian/{folder}"));
    std::env::join_paths(folders.iter().filter_map(|folder| peer_tool(folder))).unwrap()
}
