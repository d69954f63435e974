//! What one seed's run of the store is like.

use std::time::Duration;

use fastrand::Rng;
use inrush_store::{Chances, Retention, WriteOptions};

/// Where the store lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Where {
    Folder,
    Bucket,
}

/// The parameters of a run.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) place: Where,
    pub(crate) chances: Chances,
    pub(crate) steps: u32,
    /// Bytes that the disk has, in some runs for a while.
    pub(crate) capacity: usize,
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

impl Scenario {
    /// The scenario of a seed.
    pub(crate) fn new(rng: &mut Rng) -> Self {
        let place = [Where::Folder, Where::Folder, Where::Bucket][rng.usize(..3)];
        let often = |rng: &mut Rng| [0, 0, 300, 1500, 6000][rng.usize(..5)];
        let chances = Chances {
            changes: often(rng),
            syncs: often(rng),
            reads: [0, 0, 0, 300, 1500][rng.usize(..5)],
            after: rng.bool(),
        };
        let retention = Retention {
            age: [None, Some(Duration::from_secs(3600))][rng.usize(..2)],
            bytes: [None, None, Some(900)][rng.usize(..3)],
        };
        Self {
            place,
            chances,
            steps: [40, 100, 200][rng.usize(..3)],
            capacity: [usize::MAX, usize::MAX, 4000][rng.usize(..3)],
            writers: match place {
                Where::Folder => 1,
                Where::Bucket => rng.usize(1..=2),
            },
            damage: [0, 0, 0, 40][rng.usize(..4)],
            ends: [10, 40, 100][rng.usize(..3)],
            upkeep: [0, 150, 300][rng.usize(..3)],
            options: WriteOptions {
                retention,
                ..WriteOptions::default()
            },
            commits_between: [2, 5, 100][rng.usize(..3)],
        }
    }
}
