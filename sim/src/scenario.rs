//! Parameters of one seed's run. Each kind of trouble is in some runs only: with all of them at
//! once, each would hide what the others lead to.

use std::time::Duration;

use fastrand::Rng;
use inrush_event::{ByteSize, DestinationQueue, Period, limits};
use inrush_queue::storage::{DiskCall, DiskFaults};
use inrush_queue::{Durability, QueueOptions, WhenFull};

/// Budgets of disk; segments are an eighth of it.
const MAX_BYTES: [u64; 4] = [1 << 14, 1 << 15, 1 << 17, 1 << 20];

/// Bytes of a disk that stay free where the log goes on beyond its budget; half of the runs never
/// do.
const SPARE_BYTES: [Option<u64>; 4] = [None, None, Some(1 << 14), Some(1 << 17)];

/// Destinations that there are names for.
pub(crate) const DESTINATIONS_MAX: usize = 5;

/// Chances in a thousand that a step is of a kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Weights {
    pub append: u32,
    pub write: u32,
    pub sink: u32,
    pub idle: u32,
    pub reconfigure: u32,
    pub resize_disk: u32,
    pub end: u32,
    pub rot: u32,
}

/// The parameters of a run.
#[derive(Clone, Debug)]
pub(crate) struct LogScenario {
    pub options: QueueOptions,
    pub weights: Weights,
    pub faults: DiskFaults,
    pub steps: u32,
    pub destinations: usize,
    /// The limits of destinations, by the order of their names.
    pub queues: [DestinationQueue; DESTINATIONS_MAX],
    /// Bytes that the disk has.
    pub disk_bytes: u64,
    /// Sinks fail this often, in a hundred.
    pub sink_trouble: u8,
    pub bits_flip: bool,
    pub batch_events_max: u32,
}

impl LogScenario {
    /// The scenario of a seed.
    pub(crate) fn new(rng: &mut Rng) -> Self {
        let bits_flip = rng.u8(..12) == 0;
        let options = options(rng);
        // The disk must hold what memory holds, and any batch, or nothing could ever be written.
        let small = options.disk_bytes() < MAX_BYTES[2];
        let queues = match rng.bool() {
            true => std::array::from_fn(|_| queue(rng, &options)),
            false => Default::default(),
        };
        Self {
            options,
            queues,
            weights: weights(rng, bits_flip),
            faults: faults(rng, bits_flip),
            steps: [60, 150, 300][rng.usize(..3)],
            destinations: rng.usize(1..=3),
            disk_bytes: [u64::MAX, 1 << 19, 1 << 18][rng.usize(..3)],
            sink_trouble: [0, 10, 40][rng.usize(..3)],
            bits_flip,
            batch_events_max: match small {
                true => rng.u32(1..=4),
                false => [1, 4, 16][rng.usize(..3)],
            },
        }
    }

    /// The same with a collector: it takes a request while there is room for a full batch, and what
    /// it tells of destinations is checked while they stay.
    pub(crate) fn for_collector(&mut self, rng: &mut Rng) {
        let full = limits::BATCH_FLUSH_BYTES as u64;
        self.options.max_bytes = Some(ByteSize(full * [2, 4, 16][rng.usize(..3)]));
        let rooms = [None, Some(1 << 13), Some(1 << 15), Some(1 << 17)];
        for queue in &mut self.queues {
            queue.max_bytes = rooms[rng.usize(..4)].map(|room| ByteSize(full + room));
        }
        if rng.bool() {
            self.options.memory_bytes = Some(ByteSize(64 << 20));
        }
        self.disk_bytes = self.disk_bytes.max(full * 2);
        self.weights.append *= 3;
        self.weights.reconfigure = 0;
        self.weights.rot = 0;
        self.bits_flip = false;
        self.faults.flips = 0;
    }

    /// True if what is read may be other than what was written.
    pub(crate) fn has_unsound_reads(&self) -> bool {
        let reads = [
            DiskCall::List,
            DiskCall::Open,
            DiskCall::Len,
            DiskCall::Read,
        ];
        let fails = |call: &DiskCall| self.faults.errors[*call as usize] > 0;
        self.bits_flip || reads.iter().any(fails)
    }

    /// True if a sync may fail of what counts without one.
    pub(crate) fn forgets_unsynced(&self) -> bool {
        let fails = self.faults.errors[DiskCall::Sync as usize] > 0;
        fails && self.options.durability == Durability::Os
    }

    /// Policy of a destination that has no room.
    pub(crate) fn when_full(&self, destination: usize) -> WhenFull {
        let own = self.queues[destination].when_full;
        own.unwrap_or(self.options.when_full)
    }
}

/// The limits of a destination.
pub(crate) fn queue(rng: &mut Rng, options: &QueueOptions) -> DestinationQueue {
    let room = match options.durability.has_disk() {
        true => options.disk_bytes(),
        false => options.memory_bytes_max(),
    };
    let max_bytes = [None, Some(room / 2), Some(room / 4), Some(room / 16)];
    let policies = [WhenFull::Block, WhenFull::DropOldest, WhenFull::DropNewest];
    DestinationQueue {
        max_bytes: max_bytes[rng.usize(..4)].map(ByteSize),
        when_full: policies.get(rng.usize(..4)).copied(),
    }
}

fn options(rng: &mut Rng) -> QueueOptions {
    let durability = match rng.u8(..10) {
        0 => Durability::Memory,
        1 | 2 => Durability::Os,
        _ => Durability::Fsync,
    };
    let when_full = match rng.u8(..5) {
        0 => WhenFull::DropOldest,
        1 => WhenFull::DropNewest,
        _ => WhenFull::Block,
    };
    let max_bytes = MAX_BYTES[rng.usize(..4)];
    QueueOptions {
        durability,
        when_full,
        memory_bytes: Some(ByteSize(rng.u64(4_000..max_bytes.min(MAX_BYTES[2]) / 2))),
        max_bytes: Some(ByteSize(max_bytes)),
        reserve_bytes: ByteSize(0),
        abandoned_after: Period(Duration::from_secs([0, 86_400][rng.usize(..2)])),
        quarantine_bytes: Some(ByteSize(0)),
        spare_bytes: SPARE_BYTES[rng.usize(..4)],
    }
}

fn weights(rng: &mut Rng, bits_flip: bool) -> Weights {
    let often = [4, 12][rng.usize(..2)];
    let mut some = |chance: u8, weight: u32| match rng.u8(..100) < chance {
        true => weight,
        false => 0,
    };
    Weights {
        end: some(75, often),
        reconfigure: some(30, 12),
        resize_disk: some(30, 12),
        rot: if bits_flip { some(70, 8) } else { 0 },
        append: 250,
        write: [150, 400][rng.usize(..2)],
        sink: [100, 300, 600][rng.usize(..3)],
        idle: 50,
    }
}

fn faults(rng: &mut Rng, bits_flip: bool) -> DiskFaults {
    let mut faults = DiskFaults {
        latency_ns: 1_000..3_000_000,
        ..DiskFaults::default()
    };
    if rng.bool() {
        for call in [
            DiskCall::Write,
            DiskCall::Sync,
            DiskCall::SyncNames,
            DiskCall::Create,
        ] {
            faults.errors[call as usize] = rng.u16(..6_000);
        }
    }
    if rng.u8(..5) == 0 {
        for call in [
            DiskCall::Remove,
            DiskCall::Rename,
            DiskCall::SetLen,
            DiskCall::FreeBytes,
        ] {
            faults.errors[call as usize] = rng.u16(..12_000);
        }
    }
    if rng.u8(..5) == 0 {
        for call in [
            DiskCall::List,
            DiskCall::Open,
            DiskCall::Len,
            DiskCall::Read,
        ] {
            faults.errors[call as usize] = rng.u16(..3_000);
        }
    }
    if bits_flip {
        faults.flips = rng.u16(..2_000);
    }
    faults
}
