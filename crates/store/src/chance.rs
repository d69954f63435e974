//! What a process draws and what its clock says: the one place where the simulation decides
//! instead.

#[cfg(not(feature = "simulation"))]
use inrush_event::Timestamp;

#[cfg(feature = "simulation")]
pub use simulated::{set_clock, set_commits_between};

/// The time.
#[cfg(not(feature = "simulation"))]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

/// A number that no other process draws.
#[cfg(not(feature = "simulation"))]
pub(crate) fn number() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

/// Commits after which all is told again; or a tenth of the files, where that is more.
#[cfg(not(feature = "simulation"))]
pub(crate) fn commits_between() -> u64 {
    COMMITS_BETWEEN
}

const COMMITS_BETWEEN: u64 = 100;

#[cfg(feature = "simulation")]
pub(crate) use simulated::{commits_between, now, number};

/// The name of a new file: when, by which writer, and which of its files. Names tell nothing of the
/// order of events; two writers of one bucket on one millisecond must not draw the same.
pub(crate) fn file_name(writer: u64, number: u64) -> String {
    let ms = now().0 / 1_000_000;
    format!("{ms:013}-{writer:016x}-{number}")
}

#[cfg(feature = "simulation")]
mod simulated {
    use std::cell::Cell;

    use inrush_event::Timestamp;

    thread_local! {
        static CLOCK: Cell<Option<i64>> = const { Cell::new(None) };
        static BETWEEN: Cell<u64> = const { Cell::new(super::COMMITS_BETWEEN) };
    }

    /// From now on this thread's clock says so (nanoseconds since 1970), and what it draws is
    /// `fastrand`'s, seeded by the caller.
    pub fn set_clock(now_ns: i64) {
        CLOCK.set(Some(now_ns));
    }

    pub(crate) fn now() -> Timestamp {
        CLOCK.get().map_or_else(Timestamp::now, Timestamp)
    }

    /// From now on this thread tells all again after so many commits.
    pub fn set_commits_between(commits: u64) {
        BETWEEN.set(commits);
    }

    pub(crate) fn commits_between() -> u64 {
        BETWEEN.get()
    }

    pub(crate) fn number() -> u64 {
        fastrand::u64(..)
    }
}
