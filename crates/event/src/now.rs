//! The clocks of the system, or in a simulation those that its run sets for its thread.

use std::sync::LazyLock;
use std::time::Instant;

#[cfg(feature = "simulation")]
use crate::Timestamp;

/// The monotonic clock now.
#[inline]
pub fn instant_now() -> Instant {
    #[cfg(feature = "simulation")]
    if let Some(clocks) = virtual_clocks() {
        return clocks.instant;
    }
    Instant::now()
}

/// A moment of the monotonic clock that stays the same: the first at which one was asked for, or in
/// a simulation the beginning of its run.
pub fn first_instant() -> Instant {
    static FIRST: LazyLock<Instant> = LazyLock::new(Instant::now);
    #[cfg(feature = "simulation")]
    if let Some(clocks) = virtual_clocks() {
        return clocks.first;
    }
    *FIRST
}

/// Reading of both clocks of a simulation.
#[cfg(feature = "simulation")]
#[derive(Clone, Copy, Debug)]
pub struct VirtualClocks {
    /// The monotonic clock at the beginning of the run.
    pub first: Instant,
    /// The monotonic clock.
    pub instant: Instant,
    /// The wall clock.
    pub wall: Timestamp,
}

#[cfg(feature = "simulation")]
thread_local! {
    static VIRTUAL: std::cell::Cell<Option<VirtualClocks>> = const { std::cell::Cell::new(None) };
}

#[cfg(feature = "simulation")]
pub(crate) fn virtual_clocks() -> Option<VirtualClocks> {
    VIRTUAL.get()
}

/// Sets the clocks of this thread; `None`: those of the system.
#[cfg(feature = "simulation")]
pub fn set_virtual_clocks(clocks: Option<VirtualClocks>) {
    VIRTUAL.set(clocks);
}

#[cfg(all(test, feature = "simulation"))]
mod tests {
    use super::*;

    #[test]
    fn a_run_sets_the_clocks_of_its_thread_alone() {
        let (instant, wall) = (instant_now(), Timestamp(7));
        let first = instant;
        set_virtual_clocks(Some(VirtualClocks {
            first,
            instant,
            wall,
        }));
        let told = (first_instant(), instant_now(), Timestamp::now());
        assert_eq!(told, (first, instant, wall));
        set_virtual_clocks(None);
        assert!(Timestamp::now() > wall);
    }
}
