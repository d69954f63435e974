//! A collector in a simulation: the product's own connections, acknowledgements and stream worker,
//! without a thread, on sockets in memory and on the clocks of the run.
//!
//! # After a crash
//! The simulation drops it. Nothing is handed on then, as when a process is killed.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use inrush_ingest::batch_writer::WorkerContext;
use inrush_ingest::enrichment::Enrichment;
use inrush_stream::connection_limit::{AddressLimit, ConnectionLimiter};
use inrush_stream::{SimulatedWorker, StreamSource};
use inrush_transport::stream::Connection;
use inrush_transport::virtual_socket::VirtualSocket;

use super::options::SplunkHecSource;
use super::running;
use super::settings::HecShared;

/// Bytes that unfinished requests of all connections may have.
const CARRY_BYTES: u64 = 64 << 20;

/// A collector that runs step by step.
pub struct SimulatedCollector {
    shared: Arc<HecShared>,
    streams: Arc<StreamSource>,
    connections: Arc<ConnectionLimiter>,
    worker: SimulatedWorker,
}

impl SimulatedCollector {
    /// Starts the collector `name`.
    ///
    /// # Errors
    /// In words: options that cannot be used, or no descriptor.
    pub fn start(
        name: &str,
        options: &SplunkHecSource,
        context: WorkerContext,
        data_dir: &Path,
        known: &Enrichment,
    ) -> Result<Self, String> {
        let (shared, streams) = running::open(name, options, &context, data_dir, known)?;
        let worker = SimulatedWorker::new(context, CARRY_BYTES);
        Ok(Self {
            shared,
            streams,
            connections: ConnectionLimiter::new(),
            worker: worker.map_err(|error| error.to_string())?,
        })
    }

    /// Accepts a connection of `peer`.
    pub fn accept(&mut self, socket: VirtualSocket, peer: IpAddr) {
        let connection = Connection::simulated(socket, peer);
        let number = self.streams.number();
        // Never refused: there is no bound.
        if let Ok(place) = self.connections.take(0, number, peer, AddressLimit::NONE) {
            self.worker.accept(&self.streams, connection, place);
        }
    }

    /// One turn of its worker. `is_ready` is asked of each connection whether it has something.
    pub fn turn(&mut self, is_ready: impl FnMut() -> bool) {
        self.worker.turn(is_ready);
    }

    /// Looks after what time changes, once a second.
    pub fn tick(&self) {
        self.shared.tick();
    }
}
