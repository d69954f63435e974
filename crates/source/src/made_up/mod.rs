//! Source that makes up records: the least that a source has to be. It is for tests, with the
//! feature `made_up`.

pub mod options;

use std::sync::atomic::{AtomicU64, Ordering};

use inrush_event::Origin;
use inrush_ingest::batch_writer::BatchWriter;
use inrush_ingest::batch_writer::acks::{AckTarget, BatchAcks};
use inrush_ingest::now::Now;

use self::options::MadeUpSource;
use crate::polled::RecordReader;

/// Records whose batches became durable, in the whole process.
pub static ACKNOWLEDGED: AtomicU64 = AtomicU64::new(0);

/// Receiver of all acknowledgements.
const TARGET: AckTarget = AckTarget { key: 0, serial: 0 };

/// Count of the records that were made up.
#[derive(Default)]
pub(crate) struct RecordMaker(u64);

impl RecordReader for RecordMaker {
    type Options = MadeUpSource;

    fn read(&mut self, options: &MadeUpSource, writer: &mut BatchWriter, now: Now) {
        while self.0 < options.records {
            self.0 += 1;
            let text = format!("record {}", self.0);
            let origin = Origin::Unit("made-up".into());
            writer.take_record(text.as_bytes(), &origin, |_, r| r.message = r.raw, now);
            writer.owe(TARGET, self.0, 0);
        }
    }

    fn acknowledge(&mut self, acks: &BatchAcks) {
        let records: u64 = acks.acks.iter().map(|ack| u64::from(ack.count)).sum();
        ACKNOWLEDGED.fetch_add(records, Ordering::AcqRel);
    }
}
