//! Parsing and classification of a batch as a task of the pool.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::source::{IngestSettings, IngestSource};
use super::{EventProcessor, OpenBatch, WorkerContext};
use crate::now::Now;
use crate::pool::PoolTask;

/// Sources of which a thread knows the rules, at most.
const SOURCES_MAX: usize = 8;

/// A batch that is to be parsed and classified.
pub struct BatchTask {
    pub(super) open: OpenBatch,
    pub(super) doors: WorkerContext,
    pub(super) source: Arc<IngestSource>,
    pub(super) generation: u64,
    pub(super) settings: Arc<IngestSettings>,
    pub(super) now: Now,
}

/// A batch that was parsed and classified.
pub struct FinishedBatch {
    pub(super) open: OpenBatch,
    /// True if all is known of it. Else nothing is, because it has parts of events: only the
    /// worker, which has all batches, can put those together.
    pub(super) whole: bool,
    pub(super) took: Duration,
    /// True if a thread of the pool did it, false if its worker did.
    pub(super) elsewhere: bool,
}

impl PoolTask for BatchTask {
    type Done = FinishedBatch;
    type Memory = ProcessorCache;

    fn run(mut self, studies: &mut ProcessorCache) -> FinishedBatch {
        let began = Instant::now();
        let study = studies.of(&self);
        let whole = study.whole(&mut self.open, self.now);
        FinishedBatch {
            open: self.open,
            whole,
            took: began.elapsed(),
            elsewhere: true,
        }
    }
}

/// Studies that one thread has ready, one for each source, the last used last.
#[derive(Default)]
pub struct ProcessorCache(Vec<(u64, Arc<IngestSource>, EventProcessor)>);

impl ProcessorCache {
    fn of(&mut self, task: &BatchTask) -> &mut EventProcessor {
        let same =
            |known: &(u64, Arc<IngestSource>, EventProcessor)| Arc::ptr_eq(&known.1, &task.source);
        let known = self.0.iter().position(same).map(|at| self.0.remove(at));
        let known = known.filter(|known| known.0 == task.generation);
        let known = known.unwrap_or_else(|| {
            let study = EventProcessor::new(&task.doors, &task.source, &task.settings);
            (task.generation, Arc::clone(&task.source), study)
        });
        if self.0.len() >= SOURCES_MAX {
            self.0.remove(0);
        }
        self.0.push(known);
        let last = self.0.len() - 1;
        &mut self.0[last].2
    }
}
