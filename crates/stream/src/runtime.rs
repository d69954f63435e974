//! Threads that all sources of connections share: the acceptor and the stream workers.
//!
//! # States
//! Running; stopping, after [`StreamRuntime::stop`], until [`StreamRuntime::ended`]; joined.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use inrush_ingest::batch_writer::WorkerContext;
use inrush_transport::config::ListenAddr;

use super::acceptor::{Acceptor, StreamListener};
use super::source::StreamSource;
use super::worker::{StreamWorker, WorkerHandle};
use crate::connection_limit::ConnectionLimiter;

/// Cores that take events in, and the memory of each for what connections have it keep.
#[derive(Clone, Copy, Debug)]
pub struct WorkerSizes {
    /// Cores that take events in.
    pub cores: usize,
    /// Bytes for unfinished frames, of each core.
    pub carry_bytes: u64,
}

/// The acceptor and the stream workers.
pub struct StreamRuntime {
    workers: Mutex<Vec<StreamWorker>>,
    /// For orders to the workers while the above is being joined.
    handles: Vec<WorkerHandle>,
    acceptor: Mutex<Option<Acceptor>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl StreamRuntime {
    /// Starts the workers and the acceptor.
    ///
    /// # Errors
    /// A thread cannot be started, or the kernel gives no descriptor.
    pub fn start(
        context: &WorkerContext,
        sizes: WorkerSizes,
        connections: &Arc<ConnectionLimiter>,
    ) -> io::Result<Self> {
        let start = |number| {
            let context = context.clone().of_worker(number);
            StreamWorker::start(number, context, sizes.carry_bytes)
        };
        let workers = (0..sizes.cores)
            .map(start)
            .collect::<io::Result<Vec<_>>>()?;
        let handles: Vec<WorkerHandle> = workers.iter().map(StreamWorker::handle).collect();
        let acceptor = Acceptor::start(handles.clone(), Arc::clone(connections))?;
        Ok(Self {
            workers: Mutex::new(workers),
            handles,
            acceptor: Mutex::new(Some(acceptor)),
        })
    }

    /// Takes connections of a listener from now on.
    pub(crate) fn listen(&self, listener: StreamListener) {
        self.with_acceptor(|acceptor| acceptor.listen(listener));
    }

    /// Closes a listener; returns when its address is free.
    pub(crate) fn close(&self, configured: ListenAddr) {
        self.with_acceptor(|acceptor| acceptor.close(configured));
    }

    /// Has the connections of a source read for the last time, and closed.
    pub fn forget(&self, source: &Arc<StreamSource>) {
        self.handles.iter().for_each(|worker| worker.forget(source));
    }

    /// True if a worker or the acceptor has ended by a fault.
    pub fn is_dead(&self) -> bool {
        let worker = lock(&self.workers).iter().any(StreamWorker::ended);
        worker || lock(&self.acceptor).as_ref().is_some_and(Acceptor::ended)
    }

    fn with_acceptor(&self, order: impl FnOnce(&Acceptor)) {
        if let Some(acceptor) = lock(&self.acceptor).as_ref() {
            order(acceptor);
        }
    }

    /// Closes all listeners, and waits for the acceptor.
    pub fn stop_accepting(&self) {
        if let Some(acceptor) = lock(&self.acceptor).take() {
            acceptor.stop();
        }
    }

    /// Asks the workers to take in what their connections have sent, and to end.
    pub fn stop(&self) {
        lock(&self.workers).iter().for_each(StreamWorker::stop);
    }

    /// True if all workers have ended.
    pub fn ended(&self) -> bool {
        lock(&self.workers).iter().all(StreamWorker::ended)
    }

    /// Waits for the workers.
    pub fn join(&self) {
        let workers = std::mem::take(&mut *lock(&self.workers));
        workers.into_iter().for_each(StreamWorker::join);
    }
}
