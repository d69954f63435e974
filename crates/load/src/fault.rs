//! Faults while messages flowed: counted by kind, the first of each kind in words.

use std::collections::BTreeMap;
use std::io;

use nix::errno::Errno;

/// Counted errors.
#[derive(Clone, Default, Debug)]
pub(crate) struct Faults(BTreeMap<&'static str, (u64, String)>);

impl Faults {
    /// Counts one error of a system call.
    pub(crate) fn io(&mut self, error: &io::Error, hint: &str) {
        let words = if hint.is_empty() {
            error.to_string()
        } else {
            format!("{error}; {hint}")
        };
        self.add(kind(error), words);
    }

    /// Counts one error of `kind`; `words` are kept if it is the first.
    pub(crate) fn add(&mut self, kind: &'static str, words: impl Into<String>) {
        self.0.entry(kind).or_insert_with(|| (0, words.into())).0 += 1;
    }

    /// Adds what another has counted.
    pub(crate) fn merge(&mut self, other: Self) {
        for (kind, (count, words)) in other.0 {
            self.0.entry(kind).or_insert((0, words)).0 += count;
        }
    }

    /// Kind, count and first words.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, u64, &str)> {
        self.0
            .iter()
            .map(|(kind, (count, words))| (*kind, *count, words.as_str()))
    }
}

/// The word in the report for an error of the kernel.
pub(crate) fn kind(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ConnectionReset => "reset",
        io::ErrorKind::BrokenPipe => "closed_by_peer",
        io::ErrorKind::ConnectionRefused => "refused",
        io::ErrorKind::TimedOut => "timed_out",
        io::ErrorKind::InvalidData => "tls",
        _ => match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::ENOBUFS) => "no_buffers",
            Some(Errno::EMSGSIZE) => "too_large",
            Some(Errno::EHOSTUNREACH | Errno::ENETUNREACH) => "unreachable",
            Some(Errno::EPERM | Errno::EACCES) => "forbidden",
            _ => "other",
        },
    }
}
