//! Random numbers and clocks of a process: the one place where the simulation decides instead.

#[cfg(not(feature = "simulation"))]
use inrush_event::Timestamp;
#[cfg(not(feature = "simulation"))]
pub(crate) use inrush_event::steady;

#[cfg(feature = "simulation")]
pub use simulated::{set_clocks, set_commits_between};

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
pub(crate) use simulated::{commits_between, now, number, steady};

/// The name of a new file: when, by which writer, and which of its files. Names tell nothing of the
/// order of events; two writers of one bucket on one millisecond must not draw the same.
pub(crate) fn file_name(writer: u64, number: u64) -> String {
    let ms = now().0 / 1_000_000;
    format!("{ms:013}-{writer:016x}-{number}")
}

#[cfg(feature = "simulation")]
mod simulated {
    use std::cell::Cell;
    use std::time::Duration;

    use inrush_event::Timestamp;

    thread_local! {
        static CLOCKS: Cell<Option<(i64, Duration)>> = const { Cell::new(None) };
        static BETWEEN: Cell<u64> = const { Cell::new(super::COMMITS_BETWEEN) };
    }

    /// From now on this thread's wall clock says so (nanoseconds since 1970), and its steady one;
    /// what it draws is `fastrand`'s, seeded by the caller.
    pub fn set_clocks(now_ns: i64, steady: Duration) {
        CLOCKS.set(Some((now_ns, steady)));
    }

    pub(crate) fn now() -> Timestamp {
        let clocks = CLOCKS.get();
        clocks.map_or_else(Timestamp::now, |(now_ns, _)| Timestamp(now_ns))
    }

    pub(crate) fn steady() -> Duration {
        let clocks = CLOCKS.get();
        clocks.map_or_else(inrush_event::steady, |(_, steady)| steady)
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
