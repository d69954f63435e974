//! Order of the stop: those who read first, then the queue, then those who deliver.

use std::sync::PoisonError;
use std::thread;
use std::time::{Duration, Instant};

use inrush_event::DropReason;

use super::LEAVING_BOUND;
use crate::destination::Destination;
use crate::stream::StreamWorker;
use crate::topology::{Graph, Shared};
use crate::udp::UdpWorker;

impl Shared {
    pub(super) fn stop(&self) {
        let mut graph = self.graph();
        let deadline = Instant::now() + graph.config.shutdown_timeout.0;
        if let Some(acceptor) = self
            .acceptor
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
        {
            acceptor.stop();
        }
        self.stop_readers(&mut graph, deadline);
        self.log.close();
        self.log.wait_empty(deadline);
        let destinations = std::mem::take(&mut graph.destinations);
        destinations.iter().for_each(Destination::ask_to_stop);
        destinations.into_iter().for_each(Destination::stop);
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
            .map(|source| (source.name.as_str(), &source.zones));
        self.zones.keep(&zones.collect::<Vec<_>>(), sync);
    }

    /// Stops the reading threads. While the queue is full they wait for room; at the deadline it
    /// is closed over them, and what they hold is counted as rejected.
    fn stop_readers(&self, graph: &mut Graph, deadline: Instant) {
        let workers =
            std::mem::take(&mut *self.workers.lock().unwrap_or_else(PoisonError::into_inner));
        workers.iter().for_each(StreamWorker::stop);
        let udp = || {
            graph
                .sources
                .iter()
                .flat_map(|s| &s.listeners)
                .flat_map(|l| &l.udp)
        };
        udp().for_each(UdpWorker::stop);
        let busy = || !workers.iter().all(StreamWorker::ended) || !udp().all(UdpWorker::ended);
        wait_until(deadline, || !busy());
        if busy() || !self.leaving().is_empty() {
            self.log.close();
        }
        wait_until(Instant::now() + LEAVING_BOUND, || {
            self.leaving()
                .iter()
                .all(|(_, listener)| listener.udp.iter().all(UdpWorker::ended))
        });
        self.reap();
        workers.into_iter().for_each(StreamWorker::join);
        self.doors.pool_threads.stop();
        for running in &mut graph.sources {
            for listener in std::mem::take(&mut running.listeners) {
                listener.udp.into_iter().for_each(UdpWorker::join);
                running.source.forget_sockets(listener.bound);
            }
        }
    }
}

/// Waits for something that other threads do, at most until `deadline`.
pub(super) fn wait_until(deadline: Instant, done: impl Fn() -> bool) {
    while !done() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(2));
    }
}
