//! The options of the queue.

use std::time::Duration;

use inrush_event::{ByteSize, Period, WhenFull, limits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The queue between sources and destinations: one log on disk for all of them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct QueueOptions {
    /// What an accepted event survives.
    pub durability: Durability,
    /// Disk that events may take while a destination lags, all destinations together. By default a
    /// third of the file system, 10GiB at most, and beyond that what is free but for an eighth (on
    /// one of more than 64GiB for 8GiB or a twentieth, whichever is more): so one that stands still
    /// stops no other before the disk is nearly used. A number that is given is never exceeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = limits::QUEUE_DISK_BYTES_MIN))]
    pub max_bytes: Option<ByteSize>,
    /// Disk that is left to others: below this much free space nothing more is written. On a small
    /// file system, a twentieth of it.
    pub reserve_bytes: ByteSize,
    /// Memory that batches may pin; what is on disk makes room for what is not yet. If not given, a
    /// part of the memory that the process may use, `128MiB` at most: see the guide to sizing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = limits::QUEUE_BYTES_MIN))]
    pub memory_bytes: Option<ByteSize>,
    /// What happens when disk or, with `durability: memory`, memory is used up, for destinations
    /// whose `queue` has no `when_full` of its own.
    pub when_full: WhenFull,
    /// How long the events of a destination that was taken out of the configuration are kept, for
    /// the case that it comes back.
    pub abandoned_after: Period,
    /// Disk that events may take which a destination refused for good. When it is used up, they
    /// stay pending and their destination counts as failed. By default a twentieth of the file
    /// system, 1GiB at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = limits::QUARANTINE_BYTES_MIN))]
    pub quarantine_bytes: Option<ByteSize>,
    /// Bytes of the file system that stay free of what the log takes beyond `max_bytes`; `None`: it
    /// takes nothing beyond, since somebody gave the number, or since the disk is not known.
    #[serde(skip)]
    pub spare_bytes: Option<u64>,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self {
            durability: Durability::default(),
            max_bytes: None,
            reserve_bytes: ByteSize(limits::QUEUE_RESERVE_BYTES_DEFAULT),
            memory_bytes: None,
            when_full: WhenFull::default(),
            abandoned_after: Period(Duration::from_secs(24 * 60 * 60)),
            quarantine_bytes: None,
            spare_bytes: None,
        }
    }
}

/// Parts of a file system that the queue and quarantine take by default, and leave free: with what
/// a store leaves free, half of it.
const QUEUE_PART: u64 = 3;
const QUARANTINE_PART: u64 = 20;
const RESERVE_PART: u64 = 20;

/// Parts of a file system that stay free of what the queue takes beyond its own: more than a store
/// and quarantine leave free by default, so that a store deletes nothing for it.
const SPARE_PART: u64 = 8;
const SPARE_BYTES: u64 = 8 << 30;
const SPARE_PART_LEAST: u64 = 20;

/// Beyond what others leave free, this part of a file system stays free too: for what a store still
/// writes once the sources wait.
const MARGIN_PART: u64 = 40;

impl QueueOptions {
    /// Memory that batches may pin, in bytes.
    pub fn memory_bytes_max(&self) -> u64 {
        self.memory_bytes
            .map_or(limits::QUEUE_BYTES_DEFAULT, |bytes| bytes.0)
    }

    /// These options with what depends on the file system filled in. `total_bytes`: its size, if
    /// that is known. Another that leaves room there says so with [`Self::beside`].
    #[must_use]
    pub fn on_disk_of(mut self, total_bytes: Option<u64>) -> Self {
        let total = total_bytes.unwrap_or(u64::MAX);
        let part = |most: u64, part: u64, least: u64| ByteSize(most.min(total / part).max(least));
        let max_bytes = || {
            let most = limits::QUEUE_DISK_BYTES_DEFAULT;
            part(most, QUEUE_PART, limits::QUEUE_DISK_BYTES_MIN)
        };
        let quarantine_bytes = || {
            let most = limits::QUARANTINE_BYTES_DEFAULT;
            part(most, QUARANTINE_PART, limits::QUARANTINE_BYTES_MIN)
        };
        if self.max_bytes.is_none() {
            self.spare_bytes = total_bytes.map(|total| {
                let spare = SPARE_BYTES.min(total / SPARE_PART);
                spare.max(total / SPARE_PART_LEAST)
            });
        }
        self.max_bytes = Some(self.max_bytes.unwrap_or_else(max_bytes));
        self.quarantine_bytes = Some(self.quarantine_bytes.unwrap_or_else(quarantine_bytes));
        self.reserve_bytes = ByteSize(self.reserve_bytes.0.min(total / RESERVE_PART));
        self
    }

    /// These options where another leaves `least` bytes of the file system of `total` bytes free
    /// beside quarantine: what the queue takes beyond its own makes it delete nothing.
    #[must_use]
    pub fn beside(mut self, least: u64, total: u64) -> Self {
        let left = least.saturating_add(self.quarantine().0);
        let left = left.saturating_add(total / MARGIN_PART);
        self.spare_bytes = self.spare_bytes.map(|spare| spare.max(left));
        self
    }

    /// Disk that events may take however little is free, in bytes.
    pub fn disk_bytes(&self) -> u64 {
        self.max_bytes
            .map_or(limits::QUEUE_DISK_BYTES_DEFAULT, |bytes| bytes.0)
    }

    /// Disk that events may take while `free` bytes of it are free besides the `held` bytes that
    /// they take.
    pub(crate) fn budget(&self, held: u64, free: Option<u64>) -> u64 {
        let beyond = self.spare_bytes.zip(free);
        let beyond = beyond.map(|(spare, free)| held.saturating_add(free.saturating_sub(spare)));
        self.disk_bytes().max(beyond.unwrap_or(0))
    }

    /// Disk that refused events may take.
    pub fn quarantine(&self) -> ByteSize {
        self.quarantine_bytes
            .unwrap_or(ByteSize(limits::QUARANTINE_BYTES_DEFAULT))
    }

    /// The options of the last rounds of a process that stops: what is accepted has a right to all
    /// the disk that there is.
    pub(crate) fn at_stop(mut self) -> Self {
        self.max_bytes = Some(ByteSize(u64::MAX));
        self.reserve_bytes = ByteSize(0);
        self
    }
}

/// What an accepted event survives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// A power cut: written within 50 ms and synced at once, and before it is acknowledged. What
    /// comes while a slow disk syncs is written meanwhile, and synced next.
    #[default]
    Fsync,
    /// The end of the process: written within 50 ms, and before it is acknowledged; the operating
    /// system writes it to the disk when it likes.
    Os,
    /// Nothing: it is kept in memory only.
    Memory,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_given_follows_the_disk() {
        const GIB: u64 = 1 << 30;
        let on = |total| {
            let made = QueueOptions::default().on_disk_of(total);
            (made.disk_bytes(), made.quarantine().0, made.reserve_bytes.0)
        };
        assert_eq!(on(Some(GIB)), (GIB / 3, GIB / 20, GIB / 20));
        assert_eq!(on(Some(1000 * GIB)), (10 * GIB, GIB, GIB / 2));
        assert_eq!(on(None), (10 * GIB, GIB, GIB / 2));
        let least = (
            limits::QUEUE_DISK_BYTES_MIN,
            limits::QUARANTINE_BYTES_MIN,
            50_000,
        );
        assert_eq!(on(Some(1_000_000)), least);
        let given = QueueOptions {
            max_bytes: Some(ByteSize(7 * GIB)),
            ..QueueOptions::default()
        };
        assert_eq!(given.on_disk_of(Some(GIB)).disk_bytes(), 7 * GIB);
    }

    #[test]
    fn what_nobody_gave_goes_on_until_the_disk_is_nearly_used() {
        const GIB: u64 = 1 << 30;
        let on = |total| QueueOptions::default().on_disk_of(Some(total));
        for (total, spare) in [(8, 1), (64, 8), (100, 8), (1000, 50)] {
            assert_eq!(on(total * GIB).spare_bytes, Some(spare * GIB), "{total}");
        }
        let default = on(1000 * GIB);
        assert_eq!(default.budget(10 * GIB, Some(900 * GIB)), 860 * GIB);
        assert_eq!(default.budget(800 * GIB, Some(50 * GIB)), 800 * GIB);
        let own = default.budget(5 * GIB, Some(40 * GIB));
        assert_eq!(own, 10 * GIB, "its own in any case");
        assert_eq!(default.budget(5 * GIB, None), 10 * GIB);
        let given = QueueOptions {
            max_bytes: Some(ByteSize(7 * GIB)),
            ..QueueOptions::default()
        };
        let given = given.on_disk_of(Some(1000 * GIB)).beside(GIB, 1000 * GIB);
        assert_eq!(given.budget(7 * GIB, Some(900 * GIB)), 7 * GIB);
    }

    #[test]
    fn what_others_leave_free_the_queue_leaves_free_too() {
        const GIB: u64 = 1 << 30;
        let spare = |total: u64, least: u64| {
            let options = QueueOptions::default().on_disk_of(Some(total));
            options.beside(least, total).spare_bytes
        };
        // What a store leaves free by default changes nothing.
        for gib in [1, 3, 10, 20, 64, 80, 1000] {
            let total = gib * GIB;
            let least = (4 * GIB).min(total / 20);
            let alone = QueueOptions::default().on_disk_of(Some(total));
            assert_eq!(spare(total, least), alone.spare_bytes, "{gib} GiB");
        }
        assert_eq!(spare(1000 * GIB, 200 * GIB), Some(226 * GIB));
    }
}
