//! A disk whose syncs wait for a gate.

use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use inrush_queue::storage::{DiskStorage, Storage, StorageFile};

/// Longest wait for a sync.
const WAIT: Duration = Duration::from_secs(10);

/// Holds every sync while it is closed.
#[derive(Default)]
pub(crate) struct Gate {
    /// True if it is closed, and the number of those that wait.
    state: Mutex<(bool, usize)>,
    changed: Condvar,
    /// Name of the thread that came last.
    thread: Mutex<String>,
}

impl Gate {
    pub(crate) fn set_closed(&self, closed: bool) {
        self.state.lock().unwrap().0 = closed;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let name = std::thread::current().name().map(str::to_owned);
        *self.thread.lock().unwrap() = name.unwrap_or_default();
        let mut state = self.state.lock().unwrap();
        state.1 += 1;
        self.changed.notify_all();
        let mut state = self.changed.wait_while(state, |state| state.0).unwrap();
        state.1 -= 1;
    }

    /// Name of the thread that came last.
    pub(crate) fn thread(&self) -> String {
        self.thread.lock().unwrap().clone()
    }

    pub(crate) fn await_waiting(&self) {
        let state = self.state.lock().unwrap();
        let none = |state: &mut (bool, usize)| state.1 == 0;
        let waited = self.changed.wait_timeout_while(state, WAIT, none).unwrap();
        assert!(!waited.1.timed_out(), "nothing is synced");
    }
}

/// A real folder on a disk that takes as long to sync as the gate says.
pub(crate) struct SlowDisk(DiskStorage, Arc<Gate>);

struct SlowFile(Arc<dyn StorageFile>, Arc<Gate>);

impl SlowDisk {
    pub(crate) fn new(disk: DiskStorage, gate: Arc<Gate>) -> Self {
        Self(disk, gate)
    }

    fn slow(&self, file: Arc<dyn StorageFile>) -> Arc<dyn StorageFile> {
        Arc::new(SlowFile(file, Arc::clone(&self.1)))
    }
}

impl Storage for SlowDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }
    fn create(&self, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        self.0.create(name).map(|file| self.slow(file))
    }
    fn open(&self, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        self.0.open(name).map(|file| self.slow(file))
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }
    fn sync_names(&self) -> io::Result<()> {
        self.0.sync_names()
    }
    fn free_bytes(&self) -> io::Result<u64> {
        self.0.free_bytes()
    }
    fn total_bytes(&self) -> io::Result<u64> {
        self.0.total_bytes()
    }
}

impl StorageFile for SlowFile {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }
    fn write_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()> {
        self.0.write_at(parts, offset)
    }
    fn flush(&self) -> io::Result<()> {
        self.0.flush()
    }
    fn sync(&self) -> io::Result<()> {
        self.1.pass();
        self.0.sync()
    }
    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }
}
