//! Services of a process around a queue in memory, for tests that run a source on real programs.

#[path = "../../tail/src/harness_tests.rs"]
mod queue;

use std::ops::Deref;
use std::sync::Arc;

use inrush_event::SourceSnapshot;
use inrush_queue::QueueOptions;
use inrush_transport::activation::InheritedSockets;

use self::queue::QueueHarness;
pub(crate) use self::queue::wait_for;
use crate::{Source, SourceServices, WorkerSizes};

/// Process around one source, whose events go to the destination `out`.
pub(crate) struct SourceHarness {
    queue: QueueHarness,
    pub(crate) services: Arc<SourceServices>,
}

impl SourceHarness {
    /// A process with this queue, in memory.
    pub(crate) fn new(queue: QueueOptions) -> Self {
        let queue = QueueHarness::new(queue);
        let sizes = WorkerSizes {
            cores: 1,
            carry_bytes: 16 << 20,
        };
        let sockets = InheritedSockets::default();
        let context = queue.context.clone();
        Self {
            services: SourceServices::new(context, sizes, queue.folder.path(), sockets),
            queue,
        }
    }

    /// Account of the source `name`.
    pub(crate) fn row(&self, name: &str) -> SourceSnapshot {
        let ledger = self.ledger.snapshot();
        assert!(ledger.balanced, "{ledger:#?}");
        ledger.sources[name].clone()
    }
}

impl Deref for SourceHarness {
    type Target = QueueHarness;

    fn deref(&self) -> &QueueHarness {
        &self.queue
    }
}

/// A source that ends with its test.
pub(crate) struct HarnessedSource(pub(crate) Arc<dyn Source>);

impl HarnessedSource {
    /// Ends the source, as a stop of the process does.
    pub(crate) fn stop(&self) {
        self.0.stop();
        wait_for(|| self.0.ended());
    }
}

impl Drop for HarnessedSource {
    fn drop(&mut self) {
        self.0.stop();
    }
}
