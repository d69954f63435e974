//! Turns of a worker in a simulation: no thread, no socket, and the clocks of the run.

use std::io;
use std::sync::Arc;

use inrush_event::instant_now;
use inrush_ingest::batch_writer::WorkerContext;
use inrush_transport::stream::Connection;
use mio::Events;

use super::StreamLoop;
use crate::connection_limit::ConnectionPermit;
use crate::source::StreamSource;

/// A stream worker without a thread: its owner has it take its turns.
pub struct SimulatedWorker(StreamLoop);

impl SimulatedWorker {
    /// A worker without a connection.
    ///
    /// # Errors
    /// The kernel gives no further descriptor.
    pub fn new(doors: WorkerContext, carry_bytes_max: u64) -> io::Result<Self> {
        let (worker, ..) = StreamLoop::new(doors, carry_bytes_max)?;
        Ok(Self(worker))
    }

    /// Takes a connection, as from the acceptor.
    pub fn accept(
        &mut self,
        source: &Arc<StreamSource>,
        connection: Connection,
        place: ConnectionPermit,
    ) {
        source.connections.add(1);
        self.0.take(source, connection, place);
    }

    /// One turn. `is_ready` is asked of each connection whether it has something.
    pub fn turn(&mut self, mut is_ready: impl FnMut() -> bool) {
        let worker = &mut self.0;
        let mut keys: Vec<usize> = worker.slots.iter().map(|(key, _)| key).collect();
        keys.retain(|_| is_ready());
        for key in keys {
            worker.mark_ready(key, false);
        }
        let mut events = Events::with_capacity(1);
        worker.mark(&events);
        worker.read_round(&mut events);
        worker.settle();
        if instant_now() >= worker.sweep_at {
            worker.sweep();
        }
    }
}
