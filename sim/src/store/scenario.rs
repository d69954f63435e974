//! The run of the store of one seed.

use std::time::Duration;

use fastrand::Rng;
use inrush_store::{FaultRates, Retention, WriteOptions};

/// Place of the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BackendKind {
    Folder,
    Bucket,
}

/// The parameters of a run.
#[derive(Clone, Debug)]
pub(crate) struct StoreScenario {
    pub(crate) place: BackendKind,
    pub(crate) chances: FaultRates,
    pub(crate) steps: u32,
    /// Bytes that the disk has, in some runs for a while.
    pub(crate) capacity: usize,
    /// True if the wall clock jumps by days, and is set right.
    pub(crate) jumps: bool,
    /// Processes that write, one of them unasked.
    pub(crate) writers: usize,
    /// Chances in a hundred that a start finds the list damaged.
    pub(crate) damage: u8,
    /// Chances in a thousand of a step that a process ends.
    pub(crate) ends: u32,
    /// The same, of retention and merges.
    pub(crate) upkeep: u32,
    pub(crate) options: WriteOptions,
    pub(crate) commits_between: u64,
}

impl StoreScenario {
    /// The scenario of a seed.
    pub(crate) fn new(rng: &mut Rng) -> Self {
        let place = [
            BackendKind::Folder,
            BackendKind::Folder,
            BackendKind::Bucket,
        ][rng.usize(..3)];
        let often = |rng: &mut Rng| [0, 0, 300, 1500, 6000][rng.usize(..5)];
        let chances = FaultRates {
            changes: often(rng),
            syncs: often(rng),
            reads: [0, 0, 0, 300, 1500][rng.usize(..5)],
            after: rng.bool(),
        };
        let jumps = rng.u8(..4) == 0;
        // A run takes two hours at most: where the clock jumps, nothing is ever old.
        let old = Duration::from_secs(if jumps { 24 * 3600 } else { 1200 });
        let retention = Retention {
            age: [None, Some(old)][rng.usize(..2)],
            bytes: [None, None, Some(900)][rng.usize(..3)],
        };
        Self {
            place,
            chances,
            steps: [40, 100, 200][rng.usize(..3)],
            capacity: [usize::MAX, usize::MAX, 4000, 12_000][rng.usize(..4)],
            jumps,
            writers: match place {
                BackendKind::Folder => 1,
                BackendKind::Bucket => rng.usize(1..=2),
            },
            damage: [0, 0, 0, 40][rng.usize(..4)],
            ends: [10, 40, 100][rng.usize(..3)],
            upkeep: [0, 150, 300][rng.usize(..3)],
            options: WriteOptions {
                retention,
                free_bytes: [None, Some(1000), Some(8000)][rng.usize(..3)],
                min_age: old,
                ..WriteOptions::default()
            },
            commits_between: [2, 5, 100][rng.usize(..3)],
        }
    }

    /// Retention may delete what was received before this moment.
    pub(crate) fn old_ns(&self, now_ns: i64) -> i64 {
        let Retention { age, bytes } = self.options.retention;
        if bytes.is_some() {
            return i64::MAX;
        }
        let for_room = (self.place == BackendKind::Folder).then_some(self.options.min_age);
        let ages = age.into_iter().chain(for_room);
        ages.min()
            .map_or(i64::MIN, |age| now_ns - age.as_nanos() as i64)
    }
}
