//! Parts of the process that sources share: the writers' context, places for connections, sockets
//! from systemd, and threads that all sources of one type share.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use inrush_ingest::batch_writer::WorkerContext;
use inrush_stream::StreamRuntime;
pub use inrush_stream::WorkerSizes;
use inrush_stream::connection_limit::ConnectionLimiter;
use inrush_tail::file_places::FilePlaces;
use inrush_transport::activation::InheritedSockets;
use inrush_transport::config::ListenAddr;

/// Threads that all sources of one type share, such as those that read stream connections.
pub trait SharedThreads: Any + Send + Sync {
    /// Takes no more connections.
    fn stop_accepting(&self) {}

    /// Asks the threads to take in what has been sent, and to end.
    fn stop(&self);

    /// True if all have ended.
    fn ended(&self) -> bool;

    /// Waits for them.
    fn join(&self);
}

impl SharedThreads for StreamRuntime {
    fn stop_accepting(&self) {
        Self::stop_accepting(self);
    }

    fn stop(&self) {
        Self::stop(self);
    }

    fn ended(&self) -> bool {
        Self::ended(self)
    }

    fn join(&self) {
        Self::join(self);
    }
}

/// Threads of one type of sources, and the same as what the pipeline stops.
type Shared = (Arc<dyn Any + Send + Sync>, Arc<dyn SharedThreads>);

/// Parts of the process that sources share.
pub struct SourceServices {
    /// Context of batch writers.
    pub context: WorkerContext,
    /// Places for connections.
    pub connections: Arc<ConnectionLimiter>,
    /// Places for open log files.
    pub files: Arc<FilePlaces>,
    /// Sizes of the threads that read.
    pub sizes: WorkerSizes,
    /// Folder for what is kept over a restart.
    pub data_dir: PathBuf,
    inherited: Mutex<InheritedSockets>,
    shared: Mutex<HashMap<TypeId, Shared>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SourceServices {
    /// Services without a thread yet.
    pub fn new(
        context: WorkerContext,
        sizes: WorkerSizes,
        data_dir: &Path,
        inherited: InheritedSockets,
    ) -> Arc<Self> {
        Arc::new(Self {
            context,
            connections: ConnectionLimiter::new(),
            files: FilePlaces::new(),
            sizes,
            data_dir: data_dir.to_owned(),
            inherited: Mutex::new(inherited),
            shared: Mutex::default(),
        })
    }

    /// The threads of one type, started with the first source that asks for them.
    ///
    /// # Errors
    /// They cannot be started.
    pub(crate) fn shared<T: SharedThreads>(
        &self,
        start: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<Arc<T>> {
        let mut shared = lock(&self.shared);
        let known = shared.get(&TypeId::of::<T>());
        if let Some(known) = known.and_then(|(any, _)| Arc::clone(any).downcast().ok()) {
            return Ok(known);
        }
        let new = Arc::new(start()?);
        shared.insert(
            TypeId::of::<T>(),
            (Arc::clone(&new) as _, Arc::clone(&new) as _),
        );
        Ok(new)
    }

    /// The acceptor and the stream workers, started with the first source that asks for them.
    ///
    /// # Errors
    /// They cannot be started.
    pub(crate) fn streams(&self) -> io::Result<Arc<StreamRuntime>> {
        self.shared(|| StreamRuntime::start(&self.context, self.sizes, &self.connections))
    }

    /// All threads that sources share.
    pub fn threads(&self) -> Vec<Arc<dyn SharedThreads>> {
        let shared = lock(&self.shared);
        shared
            .values()
            .map(|(_, threads)| Arc::clone(threads))
            .collect()
    }

    /// Sockets of an address that systemd passed.
    pub(crate) fn inherited(&self, address: &ListenAddr) -> Vec<socket2::Socket> {
        lock(&self.inherited).take(address)
    }
}
