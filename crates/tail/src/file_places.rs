//! Places for log files that are open, for all file sources of the process together.
//!
//! Files wait under their names when there is none: queue, destinations and connections need
//! descriptors too. A file that has lost its name cannot wait, so it may exceed the number.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use inrush_transport::process;

/// Part of the limit of open files that log files may have.
const PART: u64 = 2;

/// Number of places where the limit of open files cannot be told.
const PLACES_DEFAULT: u64 = 512;

/// Places for open log files.
#[derive(Debug)]
pub struct FilePlaces {
    taken: AtomicU64,
    most: AtomicU64,
}

impl Default for FilePlaces {
    /// Half as many places as the process may have open files.
    fn default() -> Self {
        let most = match process::open_files_max() {
            0 => PLACES_DEFAULT,
            limit => (limit / PART).max(1),
        };
        Self {
            taken: AtomicU64::new(0),
            most: AtomicU64::new(most),
        }
    }
}

impl FilePlaces {
    /// All places of the process, free.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Has another number of places.
    pub fn set_most(&self, most: u64) {
        self.most.store(most, Relaxed);
    }

    /// True if a place is free.
    pub fn has_room(&self) -> bool {
        self.taken.load(Relaxed) < self.most.load(Relaxed)
    }
}

/// Places that one source has taken. They are free when it ends.
#[derive(Default, Debug)]
pub(crate) struct TakenPlaces {
    all: Arc<FilePlaces>,
    taken: AtomicU64,
}

impl TakenPlaces {
    /// None yet of all these.
    pub(crate) fn of(all: Arc<FilePlaces>) -> Self {
        Self {
            all,
            taken: AtomicU64::new(0),
        }
    }

    /// True if a place is free.
    pub(crate) fn has_room(&self) -> bool {
        self.all.has_room()
    }

    /// Takes one.
    pub(crate) fn take(&self) {
        self.all.taken.fetch_add(1, Relaxed);
        self.taken.fetch_add(1, Relaxed);
    }

    /// Gives some back.
    pub(crate) fn give_back(&self, places: u64) {
        self.all.taken.fetch_sub(places, Relaxed);
        self.taken.fetch_sub(places, Relaxed);
    }
}

impl Drop for TakenPlaces {
    fn drop(&mut self) {
        let taken = *self.taken.get_mut();
        self.all.taken.fetch_sub(taken, Relaxed);
    }
}
