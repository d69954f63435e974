//! Events that no rule recognised: their kinds, with a sample of each.
//!
//! A kind is a source, a header format and a program. Workers note theirs once an event that fell
//! back, in a short list of their own, and tell all once a batch; which rule came nearest to a
//! sample is found out when somebody asks.
//!
//! # Limits
//! `KINDS_MAX` kinds, the one that was not seen for longest forgotten first; a worker notes
//! `BATCH_KINDS_MAX` of a batch. With the longest samples 2.5 MB. Nothing is kept over a restart.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use inrush_event::{BatchBuilder, Format, Record, Span, Timestamp};
use lru::LruCache;

/// Kinds that are listed, at most: more than anyone writes rules for.
const KINDS_MAX: usize = 1024;

/// Kinds of one batch that are noted, at most: a sender that makes programs up costs no more.
const BATCH_KINDS_MAX: usize = 64;

/// Bytes of a program that tell kinds apart; RFC 5424 section 6.2.5 allows 48.
const PROGRAM_BYTES_MAX: usize = 64;

/// Bytes of a sample: what a rule looks at is at the beginning.
const SAMPLE_BYTES_MAX: usize = 2048;

/// Key of a kind of events.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct UnclassifiedKind {
    /// The name of the source.
    pub source: Arc<str>,
    /// Format of the header.
    pub format: Format,
    /// The program, cut; empty if there is none.
    pub program: Box<[u8]>,
}

/// State of a kind: count, times, sample.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KindStats {
    /// Events since it was first noted.
    pub events: u64,
    /// Time at which the kind was first noted; it begins anew after the kind was forgotten.
    pub first: Timestamp,
    /// Time at which the kind was last noted; of kinds with equal counts the newer is listed first.
    pub last: Timestamp,
    /// Address of the sender of the sample.
    pub sender: Option<IpAddr>,
    /// The first event, cut.
    pub sample: Arc<[u8]>,
}

/// Kinds of events that no rule recognised, for all workers. The lock is taken once a batch that
/// has such events.
pub struct UnclassifiedTable {
    kinds: Mutex<LruCache<UnclassifiedKind, KindStats, RandomState>>,
}

impl UnclassifiedTable {
    /// Empty table for all workers; in a full one the kind not seen for longest makes room.
    pub fn new() -> Arc<Self> {
        let kinds = LruCache::unbounded_with_hasher(RandomState::new());
        Arc::new(Self {
            kinds: Mutex::new(kinds),
        })
    }

    fn kinds(&self) -> MutexGuard<'_, LruCache<UnclassifiedKind, KindStats, RandomState>> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(
        &self,
        kind: UnclassifiedKind,
        events: u64,
        now: Timestamp,
        seen: impl FnOnce() -> KindStats,
    ) {
        let mut kinds = self.kinds();
        if let Some(known) = kinds.get_mut(&kind) {
            known.events += events;
            known.last = now;
            return;
        }
        kinds.put(kind, seen());
        if kinds.len() > KINDS_MAX {
            kinds.pop_lru();
        }
    }

    /// All kinds, those with most events first.
    pub fn list(&self) -> Vec<(UnclassifiedKind, KindStats)> {
        let kinds = self.kinds();
        let mut all: Vec<_> = kinds
            .iter()
            .map(|(k, seen)| (k.clone(), seen.clone()))
            .collect();
        drop(kinds);
        all.sort_by_key(|(_, seen)| std::cmp::Reverse((seen.events, seen.last)));
        all
    }
}

/// A kind in the batch that is being filled.
struct BatchKind {
    format: Format,
    program: Span,
    /// Its first event.
    raw: Span,
    peer: u32,
    events: u64,
}

/// One worker's side: the events of the open batch that fell back.
#[derive(Default)]
pub struct UnclassifiedNotes {
    hasher: RandomState,
    /// Of each row what tells it apart.
    hashes: Vec<u64>,
    rows: Vec<BatchKind>,
    events: u64,
    /// Events of each sender, by its number in the batch.
    by_peer: Vec<u64>,
}

impl UnclassifiedNotes {
    /// Takes note of an event that no rule recognised.
    pub fn note(&mut self, arena: &[u8], record: &Record) {
        self.events += 1;
        let peer = record.peer as usize;
        if self.by_peer.len() <= peer {
            self.by_peer.resize(peer + 1, 0);
        }
        self.by_peer[peer] += 1;
        let program = cut(record.app, PROGRAM_BYTES_MAX);
        let hash = self.hasher.hash_one((program.of(arena), record.format));
        // The last ones first: events of one kind come together.
        match self.hashes.iter().rposition(|known| *known == hash) {
            Some(at) => self.rows[at].events += 1,
            None if self.rows.len() < BATCH_KINDS_MAX => {
                self.hashes.push(hash);
                self.rows.push(BatchKind {
                    format: record.format,
                    program,
                    raw: cut(record.raw, SAMPLE_BYTES_MAX),
                    peer: record.peer,
                    events: 1,
                });
            }
            None => {}
        }
    }

    /// Forgets what was noted.
    pub fn forget(&mut self) {
        self.hashes.clear();
        self.rows.clear();
        self.events = 0;
        self.by_peer.clear();
    }

    /// Events of each sender, by its number in the batch, and forgets them.
    pub fn take_by_peer(&mut self) -> impl Iterator<Item = (usize, u64)> {
        self.by_peer.drain(..).enumerate()
    }

    /// Tells all of them, and forgets them; says how many events they were.
    pub fn tell(
        &mut self,
        unknown: &UnclassifiedTable,
        builder: &BatchBuilder,
        now: Timestamp,
    ) -> u64 {
        self.hashes.clear();
        for row in self.rows.drain(..) {
            let arena = builder.bytes();
            let kind = UnclassifiedKind {
                source: builder.source().name.as_str().into(),
                format: row.format,
                program: row.program.of(arena).into(),
            };
            unknown.note(kind, row.events, now, || KindStats {
                events: row.events,
                first: now,
                last: now,
                sender: builder.peer_at(row.peer).map(|peer| peer.ip),
                sample: row.raw.of(arena).into(),
            });
        }
        std::mem::take(&mut self.events)
    }
}

fn cut(span: Span, most: usize) -> Span {
    Span::new(span.start(), span.start() + span.len().min(most))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use inrush_event::{Anomalies, BatchPool, SourceInfo};

    use super::*;

    fn builder() -> BatchBuilder {
        let source = Arc::new(SourceInfo {
            name: "syslog".into(),
            index: "main".into(),
            sourcetype: "syslog".into(),
        });
        BatchPool::new().lend(&source, 64 * 1024)
    }

    /// Has an event with this program fall back; the program is its whole text.
    fn fall(fallen: &mut UnclassifiedNotes, builder: &mut BatchBuilder, program: &str) {
        let start = builder.filled();
        builder.append(program.as_bytes());
        let span = Span::new(start, builder.filled());
        let mut record = Record::unparsed(span, Timestamp(0), 0, Anomalies::NONE);
        record.app = span;
        fallen.note(builder.bytes(), &record);
    }

    #[test]
    fn a_kind_is_counted_over_batches_and_keeps_its_first_event() {
        let (unknown, mut fallen, mut builder) = (
            UnclassifiedTable::new(),
            UnclassifiedNotes::default(),
            builder(),
        );
        for program in ["b", "a", "b"] {
            fall(&mut fallen, &mut builder, program);
        }
        assert_eq!(fallen.tell(&unknown, &builder, Timestamp(1)), 3);
        fall(&mut fallen, &mut builder, "b");
        assert_eq!(fallen.tell(&unknown, &builder, Timestamp(2)), 1);
        assert_eq!(fallen.tell(&unknown, &builder, Timestamp(3)), 0);
        let all = unknown.list();
        let shown: Vec<_> = all
            .iter()
            .map(|(kind, seen)| (&*kind.program, seen.events, seen.first.0, seen.last.0))
            .collect();
        assert_eq!(shown, [(&b"b"[..], 3, 1, 2), (&b"a"[..], 1, 1, 1)]);
        assert_eq!(&*all[0].1.sample, b"b");
        assert_eq!(&*all[0].0.source, "syslog");
    }

    #[test]
    fn made_up_programs_take_bounded_memory() {
        let (unknown, mut fallen, mut builder) = (
            UnclassifiedTable::new(),
            UnclassifiedNotes::default(),
            builder(),
        );
        let mut sent = 0;
        for batch in 0..=KINDS_MAX / BATCH_KINDS_MAX {
            for n in 0..BATCH_KINDS_MAX + 9 {
                let long = "x".repeat(3000);
                fall(&mut fallen, &mut builder, &format!("{batch}-{n}-{long}"));
                sent += 1;
            }
            sent -= fallen.tell(&unknown, &builder, Timestamp(batch as i64));
        }
        assert_eq!(sent, 0, "all are counted");
        let all = unknown.list();
        assert_eq!(all.len(), KINDS_MAX);
        assert!(all.iter().all(|(kind, seen)| {
            kind.program.len() <= PROGRAM_BYTES_MAX && seen.sample.len() <= SAMPLE_BYTES_MAX
        }));
        let oldest = all.iter().map(|(_, seen)| seen.first.0).min();
        assert_eq!(oldest, Some(1), "those of the first batch are forgotten");
    }
}
