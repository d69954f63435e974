//! Order of the stop: those who read first, then the queue, then those who deliver.

use std::sync::PoisonError;
use std::thread;
use std::time::{Duration, Instant};

use inrush_event::DropReason;

use crate::destination::RunningDestination;
use crate::topology::{self, RunningGraph, Topology};

impl Topology {
    pub(super) fn stop(&self) {
        let mut graph = self.graph();
        let deadline = Instant::now() + graph.config.shutdown_timeout.0;
        for threads in self.services.threads() {
            threads.stop_accepting();
        }
        self.stop_readers(&mut graph, deadline);
        self.log.close();
        self.log.wait_empty(deadline);
        let destinations = std::mem::take(&mut graph.destinations);
        destinations
            .iter()
            .for_each(RunningDestination::ask_to_stop);
        destinations.into_iter().for_each(RunningDestination::stop);
        for name in self.log.names() {
            self.log.detach(&name, DropReason::Shutdown);
        }
        let writer = self
            .writer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if writer.is_some_and(|writer| writer.join().is_err()) {
            tracing::error!("the queue's thread ended by a fault");
        }
        self.log.give_up_unwritten();
        self.log.save_cursors();
        self.given_up.tell(&self.ledger.snapshot());
        self.keep_learnt(true);
    }

    /// Writes down what was learnt of senders. With `sync` it is on the disk by the end.
    pub(crate) fn keep_learnt(&self, sync: bool) {
        if let Some(names) = self.live_names() {
            names.keep(sync);
        }
        let sources = self.live_sources();
        let zones = sources
            .iter()
            .map(|source| (source.ingest().name.as_str(), &source.ingest().zones));
        self.zones.keep(&zones.collect::<Vec<_>>(), sync);
    }

    /// Stops the reading threads. While the queue is full they wait for room; at the deadline it
    /// is closed over them, and what they hold is counted as rejected.
    fn stop_readers(&self, graph: &mut RunningGraph, deadline: Instant) {
        let threads = self.services.threads();
        threads.iter().for_each(|threads| threads.stop());
        graph
            .sources
            .iter()
            .for_each(|running| running.source.stop());
        let ended = || {
            let sources = graph.sources.iter();
            let threads = threads.iter().all(|threads| threads.ended());
            threads
                && sources
                    .map(|running| &running.source)
                    .all(|one| one.ended())
        };
        wait_until(deadline, ended);
        self.log.close();
        threads.iter().for_each(|threads| threads.join());
        self.services.context.pool_threads.stop();
        for source in std::mem::take(&mut *topology::lock(&self.leaving)) {
            source.join();
        }
        for running in &graph.sources {
            running.source.join();
        }
    }
}

/// Waits for something that other threads do, at most until `deadline`.
fn wait_until(deadline: Instant, done: impl Fn() -> bool) {
    while !done() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(2));
    }
}
