//! The steps that the store's threads take, one by one, for the simulation: the product's own code
//! but for the threads.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use inrush_event::{BatchOrigin, ClockLag, Feed};

use crate::care;
use crate::covered::DedupSet;
use crate::home::DurableStorage;
use crate::options::WriteOptions;
use crate::plain;
use crate::store::{PreparedCommit, Store};
use crate::upkeep::{self, CompactionMerge};
use crate::writer::{self, FlushBuffer, OfferedEvents, PendingFlush};

pub use crate::chance::{set_clocks, set_commits_between};

/// File with the time that a store last believed.
pub const CLOCK: &str = care::CLOCK;

/// The spans in which the clock was behind, as these bytes of [`CLOCK`] have them.
pub fn spans_kept(bytes: &[u8]) -> Vec<ClockLag> {
    care::spans_kept(bytes)
}

/// A process that has a store open for writing.
pub struct SteppedWriter {
    store: Arc<Store>,
    options: WriteOptions,
    before: DedupSet,
    open: FlushBuffer,
    writing: Option<(PendingFlush, Option<Arc<PreparedCommit>>)>,
    merge: Option<Arc<PreparedCommit>>,
}

impl SteppedWriter {
    /// Opens the store.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open(home: DurableStorage, options: WriteOptions) -> io::Result<Self> {
        let store = Store::open(home)?;
        Ok(Self {
            before: store.covered(),
            store,
            options,
            open: FlushBuffer::default(),
            writing: None,
            merge: None,
        })
    }

    /// The store.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Takes events from the queue.
    pub fn take(
        &mut self,
        feed: &dyn Feed,
        position: u64,
        origin: BatchOrigin,
        events: Range<u32>,
        received: i64,
    ) {
        let offer = OfferedEvents {
            position,
            origin,
            events,
        };
        let rows = |events: Range<u32>| {
            let row = |n: u32| {
                let seq = origin.first_event + u64::from(n);
                (origin.log, origin.epoch, seq, received)
            };
            let rows: Vec<plain::PlainRow> = events.map(row).collect();
            Some((plain::chunk(&rows).ok()?, rows.len() as u64))
        };
        writer::take_new(
            &self.store,
            &self.before,
            feed,
            &offer,
            &mut self.open,
            rows,
        );
    }

    /// Hands what was taken to the one that writes, if it has nothing to do; says whether it did.
    pub fn seal(&mut self) -> bool {
        if self.writing.is_some() || self.open.is_empty() {
            return false;
        }
        let open = std::mem::take(&mut self.open);
        self.writing = Some((PendingFlush::new(open), None));
        true
    }

    /// True if everything that was taken is settled.
    pub fn is_idle(&self) -> bool {
        self.writing.is_none() && self.open.is_empty()
    }

    /// Writes the files of what is sealed, if the queue holds it durably; says whether there was
    /// anything to do.
    ///
    /// # Errors
    /// They are not written.
    pub fn write(&mut self, feed: &dyn Feed) -> io::Result<bool> {
        let Some((writing, prepared @ None)) = &mut self.writing else {
            return Ok(false);
        };
        if writing.last().is_some_and(|last| !feed.durable(last)) {
            return Ok(false);
        }
        *prepared = Some(writing.prepare(&self.store, &self.options)?);
        Ok(true)
    }

    /// Commits what is written, and settles it.
    ///
    /// # Errors
    /// It is not known to be made.
    pub fn make(&mut self, feed: &dyn Feed) -> io::Result<bool> {
        let Some((_, Some(prepared))) = &self.writing else {
            return Ok(false);
        };
        PendingFlush::make(&self.store, prepared)?;
        if let Some((writing, _)) = self.writing.take() {
            writing.settle(feed, true);
        }
        Ok(true)
    }

    /// Reads what is worth a merge and writes it; says whether there is any.
    ///
    /// # Errors
    /// Nothing is written.
    pub fn begin_merge(&mut self, now_ns: i64) -> io::Result<bool> {
        if self.merge.is_some() {
            return Ok(true);
        }
        match upkeep::merge_if_room(&self.store, &self.options, now_ns)? {
            CompactionMerge::Nothing => Ok(false),
            CompactionMerge::Again => Ok(true),
            CompactionMerge::Of(files, encoded) => {
                let change = upkeep::merge_change(&files, encoded);
                self.merge = Some(self.store.prepare(change)?);
                Ok(true)
            }
        }
    }

    /// Commits the merge that was begun.
    ///
    /// # Errors
    /// It is not known to be made.
    pub fn end_merge(&mut self) -> io::Result<()> {
        match self.merge.take() {
            Some(merge) => self.store.commit_prepared(&merge),
            None => Ok(()),
        }
    }

    /// True if a merge was begun: then nothing else of upkeep may be done.
    pub fn is_merging(&self) -> bool {
        self.merge.is_some()
    }

    /// Makes the commit whose outcome is not known.
    ///
    /// # Errors
    /// It is not known still.
    pub fn resolve(&self) -> io::Result<()> {
        self.store.resolve()
    }

    /// The files that a commit removes whose outcome is not known, unless it is a merge.
    pub fn doubted(&self) -> Vec<String> {
        self.store.doubted_removals()
    }

    /// Deletes what is too old or too much.
    ///
    /// # Errors
    /// Less was deleted than was wanted.
    pub fn retain(&self) -> io::Result<()> {
        upkeep::tidy(&self.store, &self.options).map(|_| ())
    }

    /// Looks at the clocks, as the thread for upkeep does in each of its rounds.
    pub fn look_at_clocks(&self) {
        self.store.care.time();
        self.store.care.keep_time(self.store.home(), false);
    }

    /// Deletes removed files.
    pub fn bury(&self) {
        self.store.bury();
    }

    /// Ends as the product does when it is told to: what is not committed is put back.
    pub fn stop(self, feed: &dyn Feed) {
        if let Some((writing, _)) = self.writing {
            writing.settle(feed, false);
        }
        PendingFlush::new(self.open).settle(feed, false);
        self.store.care.keep_time(self.store.home(), true);
        self.store.drop_tail();
    }
}
