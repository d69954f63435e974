//! Number of files and connections that the process may have open: `/proc/PID/limits` (proc(5),
//! getrlimit(2) `RLIMIT_NOFILE`). A start raises the soft limit to the hard one, so that the hard
//! one counts.

use crate::doctor::finding::{Finding, Layer, Severity};
use crate::doctor::scene::HostFacts;

/// Files beside connections: segments, the store's files, destinations, sockets that listen.
const FILES: u64 = 1024;

pub(super) fn check(scene: &HostFacts) -> Vec<Finding> {
    let limits = scene.of_process("limits");
    let Some(hard) = limits.as_deref().and_then(hard_limit) else {
        return Vec::new();
    };
    let wanted = scene.ask.connections.saturating_add(FILES);
    let number = match hard {
        u64::MAX => "unlimited".to_owned(),
        hard => hard.to_string(),
    };
    let found = format!("at most {number} open files for {}", scene.whose());
    let finding = Finding::new("limits.open_files", Layer::Limits, found)
        .wanted(format!(
            "{wanted}: {} connections of all listeners, and {FILES} files",
            scene.ask.connections
        ))
        .why(
            "Each connection is an open file. At the limit no further sender can connect, and no \
             new segment of the queue can be opened.",
        );
    if hard >= wanted {
        return vec![finding];
    }
    vec![match scene.process {
        Some(process) => finding.bad(
            Severity::Warn,
            format!("prlimit --pid {process} --nofile={wanted}:{wanted}"),
        ),
        // The service may have another one than this shell.
        None => finding.bad(Severity::Info, format!("ulimit -Hn {wanted}")),
    }]
}

/// The hard limit of open files; `u64::MAX` where there is none.
fn hard_limit(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_ascii_whitespace().nth(1)? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}
