//! Chances and calling processes, shared by the virtual folder and the virtual bucket.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};

use fastrand::Rng;

/// Chances of faults in calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct FaultRates {
    /// Chances in 65,536 that a call which changes something fails.
    pub changes: u16,
    /// Chances in 65,536 that a sync fails.
    pub syncs: u16,
    /// Chances in 65,536 that a call which reads fails.
    pub reads: u16,
    /// True if a call that failed may have had its effect.
    pub after: bool,
}

/// The process that calls.
#[derive(Debug)]
pub struct SimulatedProcess {
    dead: AtomicBool,
    /// Calls that change something until it dies.
    left: AtomicI64,
    /// Such calls so far.
    pub calls: AtomicU64,
}

impl Default for SimulatedProcess {
    fn default() -> Self {
        Self {
            dead: AtomicBool::new(false),
            left: AtomicI64::new(i64::MAX),
            calls: AtomicU64::new(0),
        }
    }
}

/// Kind of a call: it reads, changes or syncs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CallKind {
    Read,
    Change,
    Sync,
}

/// Outcome of a call.
#[derive(Debug)]
pub(super) enum SimulatedOutcome {
    /// It is carried out.
    Done,
    /// It is not, and says so.
    Refused(io::Error),
    /// It is, or not, and says that it is not.
    Doubtful(io::Error),
}

impl SimulatedProcess {
    /// From now on every call of it fails without effect.
    pub fn kill(&self) {
        self.dead.store(true, Relaxed);
    }

    /// Has it die within a later call that changes something.
    pub fn die_after(&self, calls: i64) {
        self.left.store(calls, Relaxed);
    }

    /// True if it has died.
    pub fn is_dead(&self) -> bool {
        self.dead.load(Relaxed)
    }

    pub(super) fn course(
        &self,
        rng: &mut Rng,
        chances: &FaultRates,
        kind: CallKind,
    ) -> SimulatedOutcome {
        let dead = || io::Error::other("the process is dead");
        if self.is_dead() {
            return SimulatedOutcome::Refused(dead());
        }
        if kind != CallKind::Read {
            self.calls.fetch_add(1, Relaxed);
            if self.left.fetch_sub(1, Relaxed) <= 0 {
                self.kill();
                return SimulatedOutcome::Doubtful(dead());
            }
        }
        let chance = match kind {
            CallKind::Read => chances.reads,
            CallKind::Change => chances.changes,
            CallKind::Sync => chances.syncs,
        };
        if chance == 0 || rng.u16(..) >= chance {
            return SimulatedOutcome::Done;
        }
        const EIO: i32 = 5;
        const EMFILE: i32 = 24;
        const ENOSPC: i32 = 28;
        let code = match kind {
            CallKind::Sync => EIO,
            CallKind::Read => [EIO, EMFILE][rng.usize(..2)],
            CallKind::Change => [EIO, EMFILE, ENOSPC][rng.usize(..3)],
        };
        let error = io::Error::from_raw_os_error(code);
        match kind != CallKind::Read && chances.after && rng.bool() {
            true => SimulatedOutcome::Doubtful(error),
            false => SimulatedOutcome::Refused(error),
        }
    }
}
