//! Turns of a worker in a simulation: no thread, no socket, and the clocks of the run.

use std::io;
use std::sync::Arc;

use inrush_event::instant_now;
use inrush_ingest::batch_writer::WorkerContext;
use inrush_transport::stream::Connection;
use mio::Events;

use super::StreamLoop;
use crate::connection_limit::ConnectionPermit;
use crate::stream::StreamSource;

impl StreamLoop {
    /// A worker without a thread.
    ///
    /// # Errors
    /// The kernel gives no further descriptor.
    pub(crate) fn alone(doors: WorkerContext, carry_bytes_max: u64) -> io::Result<Self> {
        let (worker, ..) = Self::new(doors, carry_bytes_max)?;
        Ok(worker)
    }

    /// Takes a connection, as from the acceptor.
    pub(crate) fn accept(
        &mut self,
        source: &Arc<StreamSource>,
        connection: Connection,
        place: ConnectionPermit,
    ) {
        source.connections.add(1);
        self.take(source, connection, place);
    }

    /// One turn. `is_ready` is asked of each connection whether it has something.
    pub(crate) fn turn(&mut self, mut is_ready: impl FnMut() -> bool) {
        let mut keys: Vec<usize> = self.slots.iter().map(|(key, _)| key).collect();
        keys.retain(|_| is_ready());
        keys.into_iter().for_each(|key| self.mark_ready(key, false));
        let mut events = Events::with_capacity(1);
        self.mark(&events);
        self.read_round(&mut events);
        self.settle();
        if instant_now() >= self.sweep_at {
            self.sweep();
        }
    }
}
