//! The folder in memory: it tears, loses, refuses and forgets as a seed tells it.
//!
//! # What it does to those who use it
//! * **Power cut** ([`VirtualDisk::cut_power`]): of what was not synced each write is kept, lost,
//!   cut short, kept in some of its sectors, or leaves only its length; each name is kept or
//!   undone.
//! * **Process death** ([`VirtualDisk::end_process`]): what was written stays, as in a page cache.
//! * **Death at any call** ([`VirtualDisk::die_after`]): a call is cut short, and every later one
//!   fails without effect until one of the two above. So a step of many calls ends anywhere in it.
//! * **A sync that fails** forgets: of the dirty data each write reached the disk or did not, reads
//!   may or may not go on showing it, and the next sync succeeds without it, as Linux does.
//! * **A write that fails** wrote any part of its bytes. A full disk takes what fits.
//! * **Reads** may fail, or flip a bit. Bits also rot at rest ([`VirtualDisk::rot`]).
//! * Each call takes virtual time ([`VirtualDisk::take_elapsed`]).
//!
//! # What it promises
//! The same calls on the same seed have the same results, and [`VirtualDisk::digest`] tells two
//! histories apart, but for the contents of writes: those may hold the time of day. Handles that
//! a process left behind fail for ever.

mod node;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fastrand::Rng;

use super::{Storage, StorageFile};
use node::{Survival, VirtualInode};

/// A kind of call to the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskCall {
    /// [`Storage::list`]
    List,
    /// [`Storage::create`]
    Create,
    /// [`Storage::open`]
    Open,
    /// [`Storage::remove`]
    Remove,
    /// [`Storage::rename`]
    Rename,
    /// [`Storage::sync_names`]
    SyncNames,
    /// [`Storage::free_bytes`] and [`Storage::total_bytes`]
    FreeBytes,
    /// [`StorageFile::len`]
    Len,
    /// [`StorageFile::read_at`]
    Read,
    /// [`StorageFile::write_at`]
    Write,
    /// [`StorageFile::sync`]
    Sync,
    /// [`StorageFile::set_len`]
    SetLen,
}

impl DiskCall {
    /// Kinds of call.
    pub const COUNT: usize = Self::SetLen as usize + 1;
}

/// Faults that come by chance.
#[derive(Clone, Debug, Default)]
pub struct DiskFaults {
    /// Chances in 65,536 that a call of each kind ([`DiskCall`] in order) fails with EIO.
    pub errors: [u16; DiskCall::COUNT],
    /// Chances in 65,536 that a read returns one flipped bit.
    pub flips: u16,
    /// Nanoseconds that a call takes.
    pub latency_ns: Range<u64>,
}

/// The folder in memory; clones are the same one.
#[derive(Clone)]
pub struct VirtualDisk {
    state: Arc<Mutex<VirtualDiskState>>,
}

struct VirtualDiskState {
    rng: Rng,
    faults: DiskFaults,
    /// Calls that fail once, whatever the chances.
    planned: Vec<DiskCall>,
    capacity: u64,
    /// By number; a handle names its file by it.
    nodes: Vec<VirtualInode>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    unsynced_names: Vec<NameChange>,
    /// Processes that have used this disk; handles of earlier ones are void.
    process: u32,
    /// Calls until the process dies; `None` if it lives on.
    calls_left: Option<u32>,
    dead: bool,
    elapsed_ns: u64,
    digest: u64,
    mark: u64,
    errors_given: u64,
    trace: Option<Vec<String>>,
}

#[derive(Clone)]
enum NameChange {
    Add(String, usize),
    Remove(String),
    Rename(String, String),
}

impl NameChange {
    fn apply(self, names: &mut BTreeMap<String, usize>) {
        match self {
            Self::Add(name, node) => {
                names.insert(name, node);
            }
            Self::Remove(name) => {
                names.remove(&name);
            }
            Self::Rename(from, to) => {
                if let Some(node) = names.remove(&from) {
                    names.insert(to, node);
                }
            }
        }
    }
}

impl VirtualDisk {
    /// An empty folder without limits or faults; all chance comes from `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            state: Arc::new(Mutex::new(VirtualDiskState {
                rng: Rng::with_seed(seed),
                faults: DiskFaults::default(),
                planned: Vec::new(),
                capacity: u64::MAX,
                nodes: Vec::new(),
                names: BTreeMap::new(),
                durable_names: BTreeMap::new(),
                unsynced_names: Vec::new(),
                process: 0,
                calls_left: None,
                dead: false,
                elapsed_ns: 0,
                digest: seed,
                mark: 0,
                errors_given: 0,
                trace: None,
            })),
        }
    }

    fn lock(&self) -> MutexGuard<'_, VirtualDiskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets what goes wrong from now on.
    pub fn set_faults(&self, faults: DiskFaults) {
        self.lock().faults = faults;
    }

    /// Makes the next call of this kind fail.
    pub fn fail_next(&self, call: DiskCall) {
        self.lock().planned.push(call);
    }

    /// Sets how many bytes all files together may have; more than that is not cut back.
    pub fn set_capacity(&self, bytes: u64) {
        self.lock().capacity = bytes;
    }

    /// Ends the process within the call after `calls` more of those that change something.
    pub fn die_after(&self, calls: u32) {
        self.lock().calls_left = Some(calls);
    }

    /// True if the process died under [`Self::die_after`]; nothing it does counts any more.
    pub fn is_dead(&self) -> bool {
        self.lock().dead
    }

    /// The process ends, the machine runs on: what was written stays readable.
    pub fn end_process(&self) {
        let mut state = self.lock();
        state.next_process();
        state.note("end process", 0, 0);
    }

    /// The machine loses power: what was not synced is kept, lost or torn.
    pub fn cut_power(&self) {
        let mut state = self.lock();
        state.next_process();
        let survival = Survival::of_power_cut(&mut state.rng);
        let VirtualDiskState { rng, nodes, .. } = &mut *state;
        for node in nodes {
            node.cut_power(survival, rng);
        }
        for change in std::mem::take(&mut state.unsynced_names) {
            if survival.name_survives(&mut state.rng) {
                change.apply(&mut state.durable_names);
            }
        }
        state.names = state.durable_names.clone();
        state.note("cut power", 0, 0);
    }

    /// Flips one bit of one file, on the disk and in the cache; says of which file, and where.
    pub fn rot(&self) -> Option<(String, u64)> {
        let mut state = self.lock();
        let VirtualDiskState {
            rng, names, nodes, ..
        } = &mut *state;
        let index = rng.usize(..names.len().max(1));
        let (name, node) = names.iter().nth(index)?;
        let (name, number) = (name.clone(), *node);
        let offset = nodes[number].rot(rng)?;
        state.note("rot", number as u64, offset);
        Some((name, offset))
    }

    /// The time that calls took since this was last asked.
    pub fn take_elapsed(&self) -> Duration {
        Duration::from_nanos(std::mem::take(&mut self.lock().elapsed_ns))
    }

    /// A number that depends on every call so far and on its result.
    pub fn digest(&self) -> u64 {
        self.lock().digest
    }

    /// Errors that it gave so far, those of a full disk included.
    pub fn errors_given(&self) -> u64 {
        self.lock().errors_given
    }

    /// Sets the time, in steps of the caller, that [`Self::durable_since`] speaks of.
    pub fn set_mark(&self, mark: u64) {
        self.lock().mark = mark;
    }

    /// The mark of the last write to the file that went well and was then synced, if the name is
    /// durable too: this and what was written before survives everything but rot.
    pub fn durable_since(&self, name: &str) -> Option<u64> {
        let state = self.lock();
        let node = state.durable_names.get(name)?;
        state.nodes[*node].synced_mark
    }

    /// Says that a sync of the file begins, which runs later: [`Self::durable_since`] counts what
    /// was written before now, though the sync may keep more.
    pub fn begin_sync(&self, name: &str) {
        let mut state = self.lock();
        if let Some(node) = state.names.get(name).copied() {
            state.nodes[node].begin_sync();
        }
    }

    /// The mark of the last write to the file that went well. What is written once more, as it was
    /// and where it was, counts from the first time.
    pub fn written_since(&self, name: &str) -> Option<u64> {
        let state = self.lock();
        let node = state.names.get(name)?;
        state.nodes[*node].written_mark
    }

    /// The bytes of all files that have a name.
    pub fn used_bytes(&self) -> u64 {
        self.lock().used_bytes()
    }

    /// Keeps a line for each call from now on.
    pub fn start_trace(&self) {
        self.lock().trace = Some(Vec::new());
    }

    /// The lines kept since this was last asked.
    pub fn take_trace(&self) -> Vec<String> {
        self.lock()
            .trace
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    fn handle(&self, state: &VirtualDiskState, node: usize) -> Arc<dyn StorageFile> {
        Arc::new(VirtualFile {
            state: Arc::clone(&self.state),
            process: state.process,
            node,
        })
    }
}

/// Outcome of a call to the disk.
#[derive(PartialEq)]
enum CallOutcome {
    Well,
    Fails,
}

impl VirtualDiskState {
    fn next_process(&mut self) {
        self.process += 1;
        self.dead = false;
        self.calls_left = None;
        self.nodes.iter_mut().for_each(VirtualInode::end_process);
    }

    /// Puts a fact into the digest.
    fn mix(&mut self, words: [u64; 3]) {
        /// 2^64 divided by the golden ratio: spreads every bit over the upper half.
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        for word in words {
            self.digest = (self.digest.rotate_left(23) ^ word).wrapping_mul(SPREAD);
        }
    }

    fn note(&mut self, what: &str, a: u64, b: u64) {
        self.mix([what.len() as u64, a, b]);
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{what} {a} {b}"));
        }
    }

    /// Decides how a call goes, and accounts for its time.
    fn begin(&mut self, call: DiskCall, a: u64, b: u64) -> io::Result<CallOutcome> {
        if self.dead {
            return Err(eio());
        }
        let latency = self.faults.latency_ns.clone();
        if !latency.is_empty() {
            self.elapsed_ns += self.rng.u64(latency);
        }
        let changes = !matches!(
            call,
            DiskCall::List | DiskCall::Open | DiskCall::FreeBytes | DiskCall::Len | DiskCall::Read
        );
        let mut course = CallOutcome::Well;
        let chance = self.faults.errors[call as usize];
        if let Some(planned) = self.planned.iter().position(|next| *next == call) {
            self.planned.swap_remove(planned);
            course = CallOutcome::Fails;
        } else if chance > 0 && self.rng.u16(..) < chance {
            course = CallOutcome::Fails;
        }
        if changes && let Some(left) = &mut self.calls_left {
            self.dead = *left == 0;
            *left = left.saturating_sub(1);
        }
        if self.dead {
            course = CallOutcome::Fails;
        }
        if course == CallOutcome::Fails {
            self.errors_given += 1;
        }
        self.mix([
            (call as u64) << 1 | u64::from(course == CallOutcome::Fails),
            a,
            b,
        ]);
        if let Some(trace) = &mut self.trace {
            let end = match course {
                CallOutcome::Well => "",
                CallOutcome::Fails if self.dead => ": the process dies",
                CallOutcome::Fails => ": EIO",
            };
            trace.push(format!("  {call:?} {a} {b}{end}"));
        }
        Ok(course)
    }

    /// As [`Self::begin`], for calls that do nothing at all when they fail.
    fn whole(&mut self, call: DiskCall, a: u64, b: u64) -> io::Result<()> {
        match self.begin(call, a, b)? {
            CallOutcome::Well => Ok(()),
            CallOutcome::Fails => Err(eio()),
        }
    }

    fn node_of(&self, name: &str) -> io::Result<usize> {
        let node = self.names.get(name).copied();
        node.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn used_bytes(&self) -> u64 {
        self.names
            .values()
            .map(|node| self.nodes[*node].len())
            .sum()
    }

    fn change_name(&mut self, change: NameChange) {
        change.clone().apply(&mut self.names);
        self.unsynced_names.push(change);
    }

    /// Bytes that still fit, of `bytes` more.
    fn room_for(&self, bytes: u64) -> u64 {
        bytes.min(self.capacity.saturating_sub(self.used_bytes()))
    }
}

impl Storage for VirtualDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut state = self.lock();
        state.whole(DiskCall::List, 0, 0)?;
        let flat = |name: &&String| !name.contains('/');
        let mut names: Vec<String> = state.names.keys().filter(flat).cloned().collect();
        state.rng.shuffle(&mut names);
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        let mut state = self.lock();
        let number = state.nodes.len();
        state.whole(DiskCall::Create, number as u64, 0)?;
        if state.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if state.room_for(1) == 0 {
            state.errors_given += 1;
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.nodes.push(VirtualInode::default());
        state.change_name(NameChange::Add(name.to_owned(), number));
        if let Some(trace) = &mut state.trace {
            trace.push(format!("    {name} is {number}"));
        }
        Ok(self.handle(&state, number))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        let mut state = self.lock();
        let node = state.node_of(name);
        let number = node.as_ref().map_or(u64::MAX, |node| *node as u64);
        state.whole(DiskCall::Open, number, 0)?;
        Ok(self.handle(&state, node?))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.lock();
        let node = state.node_of(name);
        let number = node.as_ref().map_or(u64::MAX, |node| *node as u64);
        state.whole(DiskCall::Remove, number, 0)?;
        node?;
        state.change_name(NameChange::Remove(name.to_owned()));
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.lock();
        let node = state.node_of(from);
        let number = node.as_ref().map_or(u64::MAX, |node| *node as u64);
        state.whole(DiskCall::Rename, number, to.len() as u64)?;
        node?;
        state.change_name(NameChange::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
        let mut state = self.lock();
        let changes = state.unsynced_names.len() as u64;
        match state.begin(DiskCall::SyncNames, changes, 0)? {
            CallOutcome::Well => {
                for change in std::mem::take(&mut state.unsynced_names) {
                    change.apply(&mut state.durable_names);
                }
                Ok(())
            }
            CallOutcome::Fails => Err(eio()),
        }
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let mut state = self.lock();
        state.whole(DiskCall::FreeBytes, 0, 0)?;
        Ok(state.capacity.saturating_sub(state.used_bytes()))
    }

    fn total_bytes(&self) -> io::Result<u64> {
        let mut state = self.lock();
        state.whole(DiskCall::FreeBytes, 1, 0)?;
        Ok(state.capacity)
    }
}

/// One process's hold on a file.
struct VirtualFile {
    state: Arc<Mutex<VirtualDiskState>>,
    process: u32,
    node: usize,
}

impl VirtualFile {
    fn lock(&self) -> io::Result<MutexGuard<'_, VirtualDiskState>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.process != self.process {
            return Err(eio());
        }
        Ok(state)
    }
}

impl StorageFile for VirtualFile {
    fn len(&self) -> io::Result<u64> {
        let mut state = self.lock()?;
        state.whole(DiskCall::Len, self.node as u64, 0)?;
        Ok(state.nodes[self.node].len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.lock()?;
        state.whole(DiskCall::Read, self.node as u64, offset)?;
        let read = state.nodes[self.node].read_at(buffer, offset);
        let flips = state.faults.flips;
        if read > 0 && flips > 0 && state.rng.u16(..) < flips {
            let (byte, bit) = (state.rng.usize(..read), state.rng.u8(..8));
            buffer[byte] ^= 1 << bit;
            state.note("flipped on read", offset + byte as u64, u64::from(bit));
        }
        Ok(read)
    }

    fn write_at(&self, parts: &[&[u8]], offset: u64) -> io::Result<()> {
        let mut bytes = parts.concat();
        let mut state = self.lock()?;
        let course = state.begin(DiskCall::Write, self.node as u64, offset)?;
        state.note("bytes", bytes.len() as u64, 0);
        let grows = (offset + bytes.len() as u64).saturating_sub(state.nodes[self.node].len());
        let room = state.room_for(grows);
        let mut end = Ok(());
        let mark = state.mark;
        let mark = state.nodes[self.node].meant(offset, &bytes, mark);
        if course == CallOutcome::Fails {
            bytes.truncate(state.rng.usize(..=bytes.len()));
            end = Err(eio());
        } else if room < grows {
            bytes.truncate(bytes.len() - (grows - room).min(bytes.len() as u64) as usize);
            state.errors_given += 1;
            state.note("disk full", room, grows);
            end = Err(io::ErrorKind::StorageFull.into());
        }
        let mark = end.is_ok().then_some(mark);
        state.nodes[self.node].write(offset, bytes, mark);
        end
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.lock()?;
        let course = state.begin(DiskCall::Sync, self.node as u64, 0)?;
        let dead = state.dead;
        let VirtualDiskState { nodes, rng, .. } = &mut *state;
        let node = &mut nodes[self.node];
        match course {
            CallOutcome::Well => {
                node.sync();
                Ok(())
            }
            CallOutcome::Fails => {
                // A death leaves the dirty pages to what comes next.
                if !dead {
                    node.forget_dirty(rng);
                }
                Err(eio())
            }
        }
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.lock()?;
        state.whole(DiskCall::SetLen, self.node as u64, bytes)?;
        let grows = bytes.saturating_sub(state.nodes[self.node].len());
        if state.room_for(grows) < grows {
            state.errors_given += 1;
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.nodes[self.node].set_len(bytes);
        Ok(())
    }
}

fn eio() -> io::Error {
    io::Error::from_raw_os_error(nix::libc::EIO)
}
