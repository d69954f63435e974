//! The batch: one arena of bytes as they came off the wire, and one row an event.
//!
//! A [`BatchBuilder`] is the batch while its one worker fills it: the worker reads from a socket
//! straight into [`BatchBuilder::space`], frames and parses in place, and pushes records. Frozen,
//! it is a [`Batch`] that nobody changes. The buffers return to their [`BatchPool`] when the last
//! reference goes, the most recently used first, so that a hot worker writes into a warm cache.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut, Range};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::batch_times::sums_of;
use crate::{
    Arena, BatchTimes, ClassId, ClassInfo, Origin, Peer, PositionList, Record, SourceInfo, Span,
    StreamPosition, TimeTally, Timestamp, crc32c_append, limits,
};

#[derive(Default)]
struct BatchBuffers {
    /// Zeroed once, so that safe code can read into it.
    arena: Arena,
    records: Vec<Record>,
    origins: Vec<Origin>,
    /// Index of each one in `origins`; used only while filling.
    origin_index: HashMap<Origin, u32>,
}

impl BatchBuffers {
    fn new(arena: Arena) -> Self {
        Self {
            arena,
            records: Vec::new(),
            origins: Vec::new(),
            origin_index: HashMap::new(),
        }
    }
}

/// A pool that keeps fewer free arenas than this lends such as lie in small pages.
const LARGE_PAGES_KEPT: usize = 8;

/// One of so many idle arenas is given back at a time.
const IDLE_KEPT: usize = 8;

/// Lends arenas to workers and takes them back. One for the process; the lock is taken once a
/// batch.
#[derive(Default)]
pub struct BatchPool {
    free: Mutex<FreeBuffers>,
}

#[derive(Default)]
struct FreeBuffers {
    /// The warmest last.
    buffers: Vec<BatchBuffers>,
    /// As few as there have been since the pool was last trimmed.
    least: usize,
    /// Number of free buffers kept at most; `None`: [`limits::POOL_FREE_BATCHES`].
    most: Option<usize>,
}

impl BatchPool {
    /// An empty pool.
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// An empty batch for `source`, with room for a whole read after a partial message of up to
    /// `message_bytes_max`. It takes an arena when the first bytes come: there may be many sources
    /// at which nothing comes. Only arenas for messages of the default length are kept for reuse.
    pub fn lend(
        self: &Arc<Self>,
        source: &Arc<SourceInfo>,
        message_bytes_max: usize,
    ) -> BatchBuilder {
        BatchBuilder {
            buffers: BatchBuffers::new(Arena::default()),
            longer: message_bytes_max.saturating_sub(limits::MESSAGE_BYTES_DEFAULT),
            filled: 0,
            sum: 0,
            summed: 0,
            source: Arc::clone(source),
            received: Timestamp::NONE,
            classes: ClassList::default(),
            positions: PositionList::default(),
            pool: Arc::clone(self),
        }
    }

    /// At least so many bytes for a batch to be read into. What was there before is still there.
    pub fn lend_bytes(self: &Arc<Self>, bytes: usize) -> PooledMemory {
        PooledMemory {
            buffers: self.take(bytes.saturating_sub(limits::ARENA_BYTES)),
            pool: Some(Arc::clone(self)),
        }
    }

    fn free(&self) -> MutexGuard<'_, FreeBuffers> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Buffers whose arena is longer than usual by so many bytes.
    fn take(&self, longer: usize) -> BatchBuffers {
        if longer > 0 {
            // From the heap, which takes the pages that are filled.
            return BatchBuffers::new(vec![0; limits::ARENA_BYTES + longer].into());
        }
        let mut free = self.free();
        let taken = free.buffers.pop();
        free.least = free.least.min(free.buffers.len());
        // Where few are kept memory is short: pages that are not written to are not there then.
        let small = free.most.is_some_and(|most| most < LARGE_PAGES_KEPT);
        drop(free);
        let arena = match small {
            true => Arena::small_paged,
            false => Arena::paged,
        };
        taken.unwrap_or_else(|| BatchBuffers::new(arena(limits::ARENA_BYTES)))
    }

    /// Keeps at most so many free arenas from now on, and never more than
    /// [`limits::POOL_FREE_BATCHES`].
    pub fn keep_free(&self, arenas: usize) {
        let most = arenas.min(limits::POOL_FREE_BATCHES);
        let mut free = self.free();
        free.most = Some(most);
        free.least = free.least.min(most);
        free.buffers.truncate(most);
    }

    /// Gives a part of what has lain idle since the last time back to the system. To be called once
    /// a second: what a surge every few seconds needs is kept.
    pub fn trim(&self) {
        let mut free = self.free();
        let idle = free.least;
        let gone: Vec<BatchBuffers> = free.buffers.drain(..idle.div_ceil(IDLE_KEPT)).collect();
        free.least = free.buffers.len();
        drop(free);
        drop(gone);
    }

    fn take_back(&self, mut buffers: BatchBuffers) {
        if buffers.arena.len() != limits::ARENA_BYTES {
            return;
        }
        // What a flood of tiny messages or of senders grew beyond measure is not kept.
        if buffers.records.capacity() > 2 * limits::BATCH_FLUSH_RECORDS {
            buffers.records = Vec::new();
        }
        if buffers.origins.capacity() > limits::PEERS_KEPT {
            buffers.origins = Vec::new();
            buffers.origin_index = HashMap::new();
        }
        buffers.records.clear();
        buffers.origins.clear();
        buffers.origin_index.clear();
        let mut free = self.free();
        if free.buffers.len() < free.most.unwrap_or(limits::POOL_FREE_BATCHES) {
            free.buffers.push(buffers);
        }
    }
}

/// Memory of a batch. What a pool has lent goes back to it in the end.
#[derive(Default)]
pub struct PooledMemory {
    buffers: BatchBuffers,
    pool: Option<Arc<BatchPool>>,
}

impl PooledMemory {
    /// A vector for rows, with the capacity of an earlier batch; the second call gives a new one.
    pub fn take_records(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.buffers.records)
    }
}

impl From<Vec<u8>> for PooledMemory {
    fn from(bytes: Vec<u8>) -> Self {
        Self {
            buffers: BatchBuffers::new(bytes.into()),
            pool: None,
        }
    }
}

impl Deref for PooledMemory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffers.arena
    }
}

impl DerefMut for PooledMemory {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.buffers.arena
    }
}

impl Drop for PooledMemory {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.take() {
            pool.take_back(std::mem::take(&mut self.buffers));
        }
    }
}

/// A batch that one worker is filling.
pub struct BatchBuilder {
    /// Without an arena until there is something to be filled in.
    buffers: BatchBuffers,
    /// Bytes that the arena has for messages beyond the default length.
    longer: usize,
    filled: usize,
    /// CRC-32C of the arena up to `summed`.
    sum: u32,
    summed: usize,
    source: Arc<SourceInfo>,
    received: Timestamp,
    classes: ClassList,
    pub(crate) positions: PositionList,
    pool: Arc<BatchPool>,
}

/// Classes of the events of a batch that is being filled.
#[derive(Default)]
pub struct ClassList(Vec<Arc<ClassInfo>>);

impl ClassList {
    /// Classes so far.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there is none yet.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of a class in this batch; new ones are added. The last ones are tried first,
    /// since events of one kind come together.
    pub fn number(&mut self, class: &Arc<ClassInfo>) -> ClassId {
        let known = self.0.iter().rposition(|known| Arc::ptr_eq(known, class));
        let index = known.unwrap_or_else(|| {
            self.0.push(Arc::clone(class));
            self.0.len() - 1
        });
        ClassId(u16::try_from(index + 1).unwrap_or_default())
    }
}

/// Parts of a batch that is being filled.
pub struct FilledParts<'a> {
    /// The arena in use.
    pub arena: &'a [u8],
    /// The rows.
    pub records: &'a mut Vec<Record>,
    /// The classes.
    pub classes: &'a mut ClassList,
}

impl BatchBuilder {
    /// Bytes in use.
    pub fn filled(&self) -> usize {
        self.filled
    }

    /// Records so far.
    pub fn len(&self) -> usize {
        self.buffers.records.len()
    }

    /// True if there is no record yet.
    pub fn is_empty(&self) -> bool {
        self.buffers.records.is_empty()
    }

    /// The bytes in use.
    pub fn bytes(&self) -> &[u8] {
        &self.buffers.arena[..self.filled]
    }

    /// The room that is left; read into it, then call [`Self::advance`].
    pub fn space(&mut self) -> &mut [u8] {
        if self.buffers.arena.is_empty() {
            self.buffers = self.pool.take(self.longer);
        }
        &mut self.buffers.arena[self.filled..]
    }

    /// Takes the first `n` bytes of [`Self::space`] into use.
    ///
    /// # Panics
    /// If there is less room than that.
    pub fn advance(&mut self, n: usize) {
        assert!(n <= self.buffers.arena.len() - self.filled);
        self.filled += n;
    }

    /// Gives back the bytes from `offset` on, which no record may point into.
    pub fn truncate(&mut self, offset: usize) {
        self.filled = self.filled.min(offset);
        if self.summed > offset {
            (self.sum, self.summed) = (0, 0);
        }
    }

    /// Bytes that the checksum of the arena does not cover.
    pub fn unsummed(&self) -> usize {
        self.filled - self.summed
    }

    /// Has the checksum of the arena cover what is filled, for a batch that will be written to
    /// disk: now its bytes are in the processor's cache, later they are not.
    pub fn sum_up(&mut self) {
        let new = &self.buffers.arena[self.summed..self.filled];
        self.sum = crc32c_append(self.sum, new);
        self.summed = self.filled;
    }

    /// Copies bytes in at the end.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.space()[..bytes.len()].copy_from_slice(bytes);
        self.filled += bytes.len();
    }

    /// Copies bytes in at the end, into a larger arena if there is no room.
    pub fn append(&mut self, bytes: &[u8]) {
        if self.space().len() < bytes.len() {
            let length = (self.filled + bytes.len()) * 3 / 2;
            let mut larger = vec![0; length];
            larger[..self.filled].copy_from_slice(&self.buffers.arena[..self.filled]);
            self.buffers.arena = larger.into();
        }
        self.extend(bytes);
    }

    /// [`ClassList::number`] of a class.
    pub fn class(&mut self, class: &Arc<ClassInfo>) -> ClassId {
        self.classes.number(class)
    }

    /// The rows.
    pub fn records(&self) -> &[Record] {
        &self.buffers.records
    }

    /// The rows, to be changed or taken out.
    pub fn records_mut(&mut self) -> &mut Vec<Record> {
        &mut self.buffers.records
    }

    /// The source of the events.
    pub fn source(&self) -> &Arc<SourceInfo> {
        &self.source
    }

    /// The classes so far; [`Record::class`] counts them from 1.
    pub fn classes(&self) -> &[Arc<ClassInfo>] {
        &self.classes.0
    }

    /// The origin of that number.
    pub fn origin_at(&self, index: u32) -> Option<&Origin> {
        self.buffers.origins.get(index as usize)
    }

    /// The sender of that number, if it is a peer.
    pub fn peer_at(&self, index: u32) -> Option<&Peer> {
        self.origin_at(index).and_then(Origin::peer)
    }

    /// The arena in use and the rows, both at once, for a parser that fills rows in place.
    pub fn parts(&mut self) -> (&[u8], &mut Vec<Record>) {
        (
            &self.buffers.arena[..self.filled],
            &mut self.buffers.records,
        )
    }

    /// The same, with the classes.
    pub fn filled_parts(&mut self) -> FilledParts<'_> {
        FilledParts {
            arena: &self.buffers.arena[..self.filled],
            records: &mut self.buffers.records,
            classes: &mut self.classes,
        }
    }

    /// The index of `origin` in this batch; new ones are added. The last one is tried first, since
    /// events of one origin come together.
    pub fn origin(&mut self, origin: &Origin) -> u32 {
        let BatchBuffers {
            origins,
            origin_index,
            ..
        } = &mut self.buffers;
        if origins.last() == Some(origin) {
            return origins.len() as u32 - 1;
        }
        if let Some(known) = origin_index.get(origin) {
            return *known;
        }
        let index = origins.len() as u32;
        origins.push(origin.clone());
        origin_index.insert(origin.clone(), index);
        index
    }

    /// [`Self::origin`] of a peer.
    pub fn peer(&mut self, peer: Peer) -> u32 {
        self.origin(&Origin::Peer(peer))
    }

    /// Time at which the bytes of its first event were read.
    pub fn received(&self) -> Timestamp {
        self.received
    }

    /// Stamps the batch with the time of a read. The first one counts that brought an event which
    /// is still in the batch: what was read before may have been the start of one.
    pub fn stamp(&mut self, now: Timestamp) {
        if self.is_empty() || !self.received.is_some() {
            self.received = now;
        }
    }

    /// Ends the filling. `sequence` counts the batches of the source, without gaps.
    ///
    /// A sparse batch is copied into buffers of its own size ([`limits::BATCH_COPY_BYTES`]) and
    /// the arena goes straight back to the pool.
    pub fn freeze(self, sequence: u64) -> Batch {
        self.freeze_and_tally(sequence, &mut TimeTally::default())
    }

    /// [`Self::freeze`], which counts in `lags` how old each event was at its receipt.
    pub fn freeze_and_tally(self, sequence: u64, lags: &mut TimeTally) -> Batch {
        let Self {
            mut buffers,
            filled,
            sum,
            summed,
            source,
            received,
            classes,
            positions,
            pool,
            ..
        } = self;
        if filled < limits::BATCH_COPY_BYTES {
            let exact = BatchBuffers {
                arena: buffers.arena[..filled].to_vec().into(),
                records: buffers.records.as_slice().to_vec(),
                origins: buffers.origins.as_slice().to_vec(),
                origin_index: HashMap::new(),
            };
            pool.take_back(std::mem::replace(&mut buffers, exact));
        }
        // Summed here, where the rows are warm: a destination that settles a batch without reading
        // it would fetch them all into another core's cache.
        let (raw_bytes, times) = sums_of(&buffers.records, &classes.0, lags);
        Batch {
            raw_bytes,
            times,
            lent: PooledMemory {
                buffers,
                pool: Some(pool),
            },
            start: 0,
            filled,
            arena_sum: (summed == filled).then_some(sum),
            source,
            sequence,
            received,
            classes: classes.0,
            positions: positions.freeze(),
            only: None,
            destinations: None,
        }
    }
}

/// A frozen batch: shared by `Arc`, never changed.
pub struct Batch {
    lent: PooledMemory,
    /// Offset of its bytes in the arena, and their number.
    start: usize,
    filled: usize,
    source: Arc<SourceInfo>,
    sequence: u64,
    received: Timestamp,
    classes: Vec<Arc<ClassInfo>>,
    pub(crate) positions: Option<Arc<[StreamPosition]>>,
    only: Option<Arc<str>>,
    destinations: Option<Arc<[String]>>,
    raw_bytes: u64,
    pub(crate) times: BatchTimes,
    arena_sum: Option<u32>,
}

/// Parts of a batch, for one that is read back from storage.
pub struct BatchParts {
    /// Memory that holds the bytes of all events.
    pub memory: PooledMemory,
    /// Range of those bytes in the memory: spans count from its beginning.
    pub arena: Range<usize>,
    /// The events.
    pub records: Vec<Record>,
    /// Origins that [`Record::peer`] points to.
    pub origins: Vec<Origin>,
    /// Classes of the events, by [`Record::class`].
    pub classes: Vec<Arc<ClassInfo>>,
    /// The source that it came from.
    pub source: Arc<SourceInfo>,
    /// The number of the batch within its source.
    pub sequence: u64,
    /// Time at which its first bytes were read.
    pub received: Timestamp,
    /// The one destination that it is for; `None`: for all of them.
    pub only: Option<Arc<str>>,
    /// The destinations that routes chose; `None`: all of them.
    pub destinations: Option<Arc<[String]>>,
}

impl From<BatchParts> for Batch {
    fn from(parts: BatchParts) -> Self {
        let lags = &mut TimeTally::default();
        let (raw_bytes, times) = sums_of(&parts.records, &parts.classes, lags);
        let mut lent = parts.memory;
        lent.buffers.records = parts.records;
        lent.buffers.origins = parts.origins;
        Self {
            raw_bytes,
            times,
            lent,
            start: parts.arena.start,
            filled: parts.arena.len(),
            arena_sum: None,
            source: parts.source,
            sequence: parts.sequence,
            received: parts.received,
            classes: parts.classes,
            positions: None,
            only: parts.only,
            destinations: parts.destinations,
        }
    }
}

impl Batch {
    /// The arena that all spans point into.
    pub fn bytes(&self) -> &[u8] {
        &self.lent[self.start..self.start + self.filled]
    }

    /// CRC-32C of [`Self::bytes`], if whoever filled the batch has summed it up.
    pub fn arena_sum(&self) -> Option<u32> {
        self.arena_sum
    }

    /// The events, in the order of their arrival on each connection.
    pub fn records(&self) -> &[Record] {
        &self.lent.buffers.records
    }

    /// Events in the batch.
    pub fn len(&self) -> usize {
        self.lent.buffers.records.len()
    }

    /// True if the batch has no event.
    pub fn is_empty(&self) -> bool {
        self.lent.buffers.records.is_empty()
    }

    /// The origins that [`Record::peer`] points to.
    pub fn origins(&self) -> &[Origin] {
        &self.lent.buffers.origins
    }

    /// The origin of a record.
    pub fn origin(&self, record: &Record) -> Option<&Origin> {
        self.lent.buffers.origins.get(record.peer as usize)
    }

    /// The sender of a record, if its origin is a peer.
    pub fn peer(&self, record: &Record) -> Option<&Peer> {
        self.origin(record).and_then(Origin::peer)
    }

    /// Classes of its events; [`Record::class`] counts them from 1.
    pub fn classes(&self) -> &[Arc<ClassInfo>] {
        &self.classes
    }

    /// Class of a record; `None` if it was not recognised.
    pub fn class(&self, record: &Record) -> Option<&Arc<ClassInfo>> {
        self.classes
            .get(usize::from(record.class.0).wrapping_sub(1))
    }

    /// The source that it came from.
    pub fn source(&self) -> &Arc<SourceInfo> {
        &self.source
    }

    /// The number of this batch within its source, without gaps.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Time at which its first bytes were read.
    pub fn received(&self) -> Timestamp {
        self.received
    }

    /// The one destination that it is for, if it was sent again from quarantine; `None`: it is for
    /// all of them.
    pub fn only(&self) -> Option<&str> {
        self.only.as_deref()
    }

    /// The destinations that routes chose for it; `None`: all of them.
    pub fn destinations(&self) -> Option<&[String]> {
        self.destinations.as_deref()
    }

    /// Has it be for these destinations only.
    pub fn route(&mut self, destinations: Arc<[String]>) {
        self.destinations = Some(destinations);
    }

    /// The bytes of a span.
    pub fn get(&self, span: Span) -> &[u8] {
        span.of(self.bytes())
    }

    /// Bytes of all raw records.
    pub fn raw_bytes(&self) -> u64 {
        self.raw_bytes
    }

    /// Bytes of memory that the batch pins: arena, rows and senders.
    pub fn memory_bytes(&self) -> u64 {
        (self.lent.buffers.arena.memory_bytes()
            + self.lent.buffers.records.capacity() * size_of::<Record>()
            + self.lent.buffers.origins.capacity() * size_of::<Origin>()
            + self.position_bytes()
            + limits::BATCH_OVERHEAD_BYTES) as u64
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::Anomalies;
    use crate::Protocol;

    pub(crate) fn source() -> Arc<SourceInfo> {
        Arc::new(SourceInfo {
            name: "syslog".into(),
            index: "main".into(),
            sourcetype: "syslog".into(),
        })
    }

    pub(crate) fn push(builder: &mut BatchBuilder, text: &[u8]) {
        let start = builder.filled();
        builder.extend(text);
        let span = Span::new(start, builder.filled());
        let (_, records) = builder.parts();
        records.push(Record::unparsed(span, Timestamp(1), 0, Anomalies::NONE));
    }

    #[test]
    fn a_sparse_batch_pins_only_what_it_holds() {
        let pool = BatchPool::new();
        let mut builder = pool.lend(&source(), limits::MESSAGE_BYTES_DEFAULT);
        push(&mut builder, b"hello");
        let batch = builder.freeze(0);
        assert_eq!(batch.get(batch.records()[0].raw), b"hello");
        assert!(batch.memory_bytes() < 1024, "{}", batch.memory_bytes());
    }

    #[test]
    fn a_batch_is_as_old_as_its_first_event() {
        let mut builder = BatchPool::new().lend(&source(), limits::MESSAGE_BYTES_DEFAULT);
        // The start of an event, whose end comes with the next read.
        builder.stamp(Timestamp(1));
        builder.stamp(Timestamp(5));
        push(&mut builder, b"whole");
        builder.stamp(Timestamp(9));
        assert_eq!(builder.freeze(0).received(), Timestamp(5));
    }

    #[test]
    fn what_nobody_needed_since_the_last_trim_goes_back_to_the_system() {
        let pool = BatchPool::new();
        let filled = || {
            let mut builder = pool.lend(&source(), limits::MESSAGE_BYTES_DEFAULT);
            push(&mut builder, &[b'x'; limits::BATCH_COPY_BYTES]);
            builder.freeze(0)
        };
        drop([filled(), filled(), filled()]);
        pool.trim();
        assert_eq!(pool.free().buffers.len(), 3, "all were in use");
        drop(filled());
        pool.trim();
        assert_eq!(pool.free().buffers.len(), 2, "one of the two others goes");
        pool.trim();
        pool.trim();
        assert_eq!(pool.free().buffers.len(), 0);
    }

    #[test]
    fn a_batch_knows_the_checksum_of_its_arena_if_all_of_it_was_summed_up() {
        let pool = BatchPool::new();
        let filled = |sum: fn(&mut BatchBuilder)| {
            let mut builder = pool.lend(&source(), limits::MESSAGE_BYTES_DEFAULT);
            push(&mut builder, b"first ");
            builder.sum_up();
            push(&mut builder, b"second");
            sum(&mut builder);
            builder.freeze(0).arena_sum()
        };
        let whole = Some(crate::crc32c(b"first second"));
        assert_eq!(filled(|_| {}), None);
        assert_eq!(filled(BatchBuilder::sum_up), whole);
        let cut = filled(|builder| {
            builder.truncate(3);
            builder.extend(b"st second");
            builder.sum_up();
        });
        assert_eq!(cut, whole);
    }

    #[test]
    fn a_full_batch_gives_its_arena_back_when_the_last_reference_goes() {
        let pool = BatchPool::new();
        let mut builder = pool.lend(&source(), limits::MESSAGE_BYTES_DEFAULT);
        push(&mut builder, &vec![b'x'; limits::ARENA_BYTES / 2]);
        let batch = Arc::new(builder.freeze(0));
        let second = Arc::clone(&batch);
        drop(batch);
        assert_eq!(pool.free().buffers.len(), 0);
        drop(second);
        assert_eq!(pool.free().buffers.len(), 1);
        assert!(
            pool.lend(&source(), limits::MESSAGE_BYTES_DEFAULT)
                .is_empty(),
            "a lent batch starts empty"
        );
    }

    #[test]
    fn senders_are_listed_once() {
        let pool = BatchPool::new();
        let mut builder = pool.lend(&source(), limits::MESSAGE_BYTES_DEFAULT);
        let peer = |last| Peer {
            ip: IpAddr::from([127, 0, 0, last]),
            local_port: 514,
            protocol: Protocol::Udp,
            client: None,
        };
        assert_eq!(builder.peer(peer(1)), 0);
        assert_eq!(builder.peer(peer(2)), 1);
        assert_eq!(builder.peer(peer(1)), 0);
    }
}
