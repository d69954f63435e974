//! NUMA placement: the threads of a node stay on its processors, with arenas in its memory.
//!
//! A thread that reads, parses and recognises touches each byte several times. Where memory is
//! near to some processors and far from others, it stays on one node, and its arenas come from
//! there and go back there. Inside a node it goes where the scheduler has room for it. Threads of
//! the pool help whoever needs it, and destinations take from all: they are free.

use std::io;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use inrush_event::BatchPool;
use inrush_transport::nodes::NumaNodes;

/// The nodes, and the arenas of each.
pub struct NumaPlacement {
    nodes: NumaNodes,
    pools: Vec<Arc<BatchPool>>,
}

impl NumaPlacement {
    /// With `pool` as that of the first node.
    pub fn new(nodes: NumaNodes, pool: Arc<BatchPool>) -> Arc<Self> {
        let others = (1..nodes.count()).map(|_| BatchPool::new());
        let pools: Vec<_> = std::iter::once(pool).chain(others).collect();
        if pools.len() > 1 {
            let nodes = pools.len();
            tracing::info!(
                nodes,
                "NUMA: threads that take events in stay on one node each"
            );
        }
        Arc::new(Self { nodes, pools })
    }

    /// The arenas of the `number`-th worker's node.
    pub fn pool(&self, number: usize) -> Arc<BatchPool> {
        Arc::clone(&self.pools[number % self.pools.len()])
    }

    /// Starts a thread on the `number`-th worker's node. It has its name and its processors when
    /// this returns, so that whoever looks at a process that is ready sees both.
    ///
    /// # Errors
    /// The kernel gives no further thread.
    pub fn spawn(
        self: &Arc<Self>,
        number: usize,
        thread: thread::Builder,
        run: impl FnOnce() + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        let near = Arc::clone(self);
        let (placed, is_placed) = mpsc::sync_channel(1);
        let thread = thread.spawn(move || {
            near.nodes.keep(number);
            // There is room for it, and whoever started the thread waits.
            placed.send(()).ok();
            run();
        })?;
        // An error is a thread that has ended already, which its handle says.
        is_placed.recv().ok();
        Ok(thread)
    }

    /// Keeps at most so many free arenas, all nodes together.
    pub fn keep_free(&self, arenas: usize) {
        let each = arenas.div_ceil(self.pools.len());
        self.pools.iter().for_each(|pool| pool.keep_free(each));
    }

    /// Gives arenas back that nobody needed of late.
    pub fn trim(&self) {
        self.pools.iter().for_each(|pool| pool.trim());
    }
}
