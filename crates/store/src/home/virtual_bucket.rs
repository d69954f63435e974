//! A bucket in memory: a request is carried out or not, its answer is lost, or it is carried out
//! later, even when the process that sent it has died.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use fastrand::Rng;

use super::objects::BucketIo;
use super::simulated::{CallKind, FaultRates, SimulatedOutcome, SimulatedProcess};
use super::{CreateError, CreateOutcome, ListedObject};

/// A bucket in memory, as one process sees it; clones are the same.
#[derive(Clone, Debug)]
pub struct VirtualBucket {
    objects: Arc<Mutex<BucketState>>,
    process: Arc<SimulatedProcess>,
}

#[derive(Debug)]
struct BucketState {
    rng: Rng,
    chances: FaultRates,
    objects: BTreeMap<String, Bytes>,
    /// Requests on their way.
    late: Vec<BucketRequest>,
    errors: u64,
    delayed: u64,
    digest: u64,
}

#[derive(Clone, Debug)]
enum BucketRequest {
    Put(String, Bytes),
    Create(String, Bytes),
    Copy(String, String),
    Delete(String),
}

impl BucketState {
    fn carry_out(&mut self, request: BucketRequest) -> io::Result<()> {
        match request {
            BucketRequest::Put(path, bytes) => {
                self.objects.insert(path, bytes);
            }
            BucketRequest::Create(path, bytes) => {
                if self.objects.contains_key(&path) {
                    return Err(io::ErrorKind::AlreadyExists.into());
                }
                self.objects.insert(path, bytes);
            }
            BucketRequest::Copy(from, to) => {
                let found = self.objects.get(&from).cloned();
                let bytes = found.ok_or(io::ErrorKind::NotFound)?;
                self.objects.insert(to, bytes);
            }
            BucketRequest::Delete(path) => {
                self.objects.remove(&path).ok_or(io::ErrorKind::NotFound)?;
            }
        }
        Ok(())
    }

    fn late_one(&mut self) {
        if !self.late.is_empty() && self.rng.u8(..8) == 0 {
            let at = self.rng.usize(..self.late.len());
            let request = self.late.swap_remove(at);
            // Nobody waits for its answer.
            let _ = self.carry_out(request);
        }
    }

    fn mix(&mut self, word: u64) {
        let mixed = (self.digest ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.digest = mixed ^ (mixed >> 29);
    }
}

impl VirtualBucket {
    /// An empty bucket.
    pub fn new(seed: u64) -> Self {
        let all = BucketState {
            rng: Rng::with_seed(seed),
            chances: FaultRates::default(),
            objects: BTreeMap::new(),
            late: Vec::new(),
            errors: 0,
            delayed: 0,
            digest: seed,
        };
        Self {
            objects: Arc::new(Mutex::new(all)),
            process: Arc::default(),
        }
    }

    /// The same bucket for a new process.
    pub fn for_process(&self, process: &Arc<SimulatedProcess>) -> Self {
        Self {
            objects: Arc::clone(&self.objects),
            process: Arc::clone(process),
        }
    }

    /// Sets the chances of faults from now on.
    pub fn set_chances(&self, chances: FaultRates) {
        self.all().chances = chances;
    }

    /// Has every request that is on its way arrive, or be lost.
    pub fn settle_down(&self) {
        let mut all = self.all();
        while let Some(request) = all.late.pop() {
            if all.rng.bool() {
                // Nobody waits for its answer.
                let _ = all.carry_out(request);
            }
        }
    }

    /// All objects.
    pub fn contents(&self) -> Vec<(String, Vec<u8>)> {
        let all = self.all();
        let object = |(path, bytes): (&String, &Bytes)| (path.clone(), bytes.to_vec());
        all.objects.iter().map(object).collect()
    }

    /// The bytes of an object, whatever the chances.
    pub fn peek(&self, path: &str) -> Option<Vec<u8>> {
        self.all().objects.get(path).map(|bytes| bytes.to_vec())
    }

    /// Puts other bytes in place of an object's, or makes one of them.
    pub fn damage(&self, path: &str, bytes: Vec<u8>) {
        self.all().objects.insert(path.to_owned(), bytes.into());
    }

    /// Errors that it gave.
    pub fn errors(&self) -> u64 {
        self.all().errors
    }

    /// Requests that were carried out later, or never.
    pub fn delayed(&self) -> u64 {
        self.all().delayed
    }

    /// Tells two histories apart.
    pub fn digest(&self) -> u64 {
        self.all().digest
    }

    fn all(&self) -> MutexGuard<'_, BucketState> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, request: BucketRequest) -> io::Result<()> {
        let mut all = self.all();
        let all = &mut *all;
        all.late_one();
        let course = self
            .process
            .course(&mut all.rng, &all.chances, CallKind::Change);
        match course {
            SimulatedOutcome::Done => {
                let done = all.carry_out(request);
                all.mix(u64::from(done.is_ok()));
                done
            }
            SimulatedOutcome::Refused(_) => {
                all.errors += 1;
                Err(io::Error::other("503"))
            }
            SimulatedOutcome::Doubtful(_) => {
                all.errors += 1;
                match all.rng.u8(..3) {
                    0 => {}
                    1 => {
                        // Its answer is lost.
                        let _ = all.carry_out(request);
                    }
                    _ => {
                        all.delayed += 1;
                        all.late.push(request);
                    }
                }
                Err(io::Error::other("no answer"))
            }
        }
    }

    fn ask<T>(&self, about: impl FnOnce(&mut BucketState) -> io::Result<T>) -> io::Result<T> {
        let mut all = self.all();
        let all = &mut *all;
        all.late_one();
        match self
            .process
            .course(&mut all.rng, &all.chances, CallKind::Read)
        {
            SimulatedOutcome::Done => about(all),
            SimulatedOutcome::Refused(_) | SimulatedOutcome::Doubtful(_) => {
                all.errors += 1;
                Err(io::Error::other("503"))
            }
        }
    }
}

impl BucketIo for VirtualBucket {
    fn put(&self, path: &str, bytes: Bytes) -> io::Result<()> {
        self.send(BucketRequest::Put(path.to_owned(), bytes))
    }

    fn create(&self, path: &str, bytes: Bytes) -> Result<CreateOutcome, CreateError> {
        match self.send(BucketRequest::Create(path.to_owned(), bytes)) {
            Ok(()) => Ok(CreateOutcome::Made),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(CreateOutcome::Taken),
            Err(error) => Err(CreateError::Unknown(error)),
        }
    }

    fn copy(&self, from: &str, to: &str) -> io::Result<()> {
        match self.send(BucketRequest::Copy(from.to_owned(), to.to_owned())) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.ask(|all| match all.objects.contains_key(to) {
                    true => Ok(()),
                    false => Err(io::ErrorKind::NotFound.into()),
                })
            }
            done => done,
        }
    }

    fn delete(&self, path: &str) -> io::Result<()> {
        match self.send(BucketRequest::Delete(path.to_owned())) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    fn get(&self, path: &str, bytes_max: u64) -> io::Result<Bytes> {
        self.ask(|all| match all.objects.get(path) {
            Some(bytes) if bytes.len() as u64 > bytes_max => {
                Err(io::Error::new(io::ErrorKind::InvalidData, "too long"))
            }
            Some(bytes) => Ok(bytes.clone()),
            None => Err(io::ErrorKind::NotFound.into()),
        })
    }

    fn list(&self, folder: &str) -> io::Result<Vec<ListedObject>> {
        self.ask(|all| {
            let below = all
                .objects
                .iter()
                .filter(|(path, _)| path.starts_with(folder));
            let listed = below.map(|(path, bytes)| ListedObject {
                path: path.clone(),
                bytes: bytes.len() as u64,
            });
            Ok(listed.collect())
        })
    }
}
