//! Preview of events: the batch that a decoder would fill, without a worker, a queue or counts.
//!
//! # What it guarantees
//! * The decoder gets the intake that it gets in a worker, so nothing is decoded in another way.
//! * Headers are read and nothing more: packs, host names and transforms are the caller's to run.
//! * What is counted or learnt goes into a ledger and a source of its own, which end with it.

use std::sync::Arc;

use inrush_event::{Batch, BatchPool, Ledger, Origin, Timestamp};

use super::decoded::NamedClasses;
use super::intake::{FrameIntake, FrameOrigin};
use super::open_batch::OpenBatch;
use super::processor::EventProcessor;
use super::source::{IngestSettings, IngestSource};

/// Shows bytes to a decoder, and gives the events that it takes.
pub struct EventPreview {
    pool: Arc<BatchPool>,
    settings: IngestSettings,
    named: NamedClasses,
    study: EventProcessor,
    batches: u64,
}

impl EventPreview {
    /// As a source with these settings would take events.
    pub fn new(settings: IngestSettings) -> Self {
        let ledger = Ledger::new();
        let source = IngestSource::new(&settings.info.name, settings.clone(), &ledger);
        Self {
            pool: BatchPool::new(),
            named: NamedClasses::default(),
            study: EventProcessor::of_headers(&ledger, &source, &settings),
            batches: 0,
            settings,
        }
    }

    /// Shows `bytes`, which came from `origin` at `received`, to `decode`. Returns the events that
    /// it took, in a batch of their own, and its result.
    pub fn show<T>(
        &mut self,
        bytes: &[u8],
        origin: &Origin,
        received: Timestamp,
        decode: impl FnOnce(&[u8], &mut FrameIntake<'_>) -> T,
    ) -> (Batch, T) {
        self.named.begin();
        self.batches += 1;
        let lent = self.pool.lend(&self.settings.info, 0);
        let mut open = OpenBatch::new(lent);
        open.builder.stamp(received);
        open.builder.append(bytes);
        let from = FrameOrigin {
            ip: origin.ip(),
            peer: open.builder.origin(origin),
            received,
        };
        let (study, named) = (&mut self.study, &mut self.named);
        let mut intake = FrameIntake::new(&mut open, study, false, named, from);
        let arena = intake.arena;
        let result = decode(arena, &mut intake);
        intake.end();
        open.settle_texts();
        (open.builder.freeze(self.batches), result)
    }
}
