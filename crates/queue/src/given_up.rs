//! Events that a stop gives up: they were accepted, and the disk, full or failing, did not take
//! them. They have a fate like all others, and are counted before the ledger is read for the last
//! time.

use inrush_event::DropReason;

use crate::cursor::Cursor;
use crate::log::Log;
use crate::state::LogState;

impl Log {
    /// Counts what is not on disk as dropped, once the thread that writes has ended; says how many
    /// events for how many destinations that were. A log in memory does so as it is detached.
    pub fn give_up_unwritten(&self) -> u64 {
        let mut state = self.lock();
        if state.disk.is_none() {
            return 0;
        }
        let Some(from) = first_unwritten(&state) else {
            return 0;
        };
        let (end, mut all) = (state.next_event, 0);
        for slot in &mut state.slots {
            let lost = give_up(&mut slot.cursor, from, end);
            self.ledger
                .post(|| slot.cursor.post_dropped(lost, DropReason::Shutdown));
            all += lost;
        }
        all
    }
}

/// Number of the first event that is not on disk.
fn first_unwritten(state: &LogState) -> Option<u64> {
    let unwritten = state.batches_from(state.durable_end(), 1);
    unwritten.first().map(|batch| batch.first_event)
}

/// Gives up what a cursor has not settled from event `from` on, up to the log's end.
fn give_up(cursor: &mut Cursor, from: u64, end: u64) -> u64 {
    let lost = cursor.give_up_out(from) + cursor.unhanded(from, end);
    // Its place says so: where another destination has got them, they have numbers in the next
    // process too, and would be pending there once more.
    cursor.settle_unhanded(from, end);
    lost
}
