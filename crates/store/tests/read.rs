//! Reading: what was written comes back, what is left out cannot matter, and a file on a hostile
//! disk costs itself.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "support/disk.rs"]
mod disk;
#[path = "../../query/tests/support/naive.rs"]
mod naive;
#[allow(dead_code)]
#[path = "../../query/tests/support/strategies.rs"]
mod strategies;

use std::sync::Arc;

use arrow_array::RecordBatch;
use disk::{Written, batch, chunk, files, in_memory, settle, store_in, time_of};
use futures::executor::block_on;
use inrush_query::{self as query, EventColumn, sql, text};
use inrush_store::read::{
    ColumnProjection, DataFileReader, FooterCache, PruningFilter, ReadError, ReadMeter, Selection,
    TextEncoding,
};
use inrush_store::read::{candidates, table};
use inrush_store::reply::{EVENT_COLUMNS, events};
use inrush_store::snapshot::Snapshot;
use naive::{Cell, Event, meets};
use object_store::local::LocalFileSystem;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// Rows of a row group and of a file here: few, so that there are several of each.
const GROUP_ROWS: usize = 8;
const FILE_ROWS: usize = 20;

fn reader(snapshot: &Snapshot) -> DataFileReader {
    let footers = Arc::new(FooterCache::new(1 << 20));
    DataFileReader::of(snapshot, footers, Arc::new(ReadMeter::default()))
}

/// The numbers of the events in the pieces that are left for `wanted`, its time applied.
async fn read(snapshot: &Snapshot, wanted: &PruningFilter) -> Result<Vec<u64>, ReadError> {
    let files = reader(snapshot);
    let (found, mut pieces) = candidates(snapshot, wanted);
    for file in &found {
        pieces.extend(files.pieces(file, wanted).await?);
    }
    let columns = ColumnProjection::named(EVENT_COLUMNS);
    let mut seqs = Vec::new();
    for piece in &pieces {
        let within = files.in_time(piece, wanted).await?;
        let mut batches = files.read(piece, &columns, within.as_ref()).await?;
        while let Some(batch) = batches.next().await {
            seqs.extend(seqs_of(&batch?));
        }
    }
    seqs.sort_unstable();
    Ok(seqs)
}

fn seqs_of(batch: &RecordBatch) -> Vec<u64> {
    let seq = |id: &str| u64::from_str_radix(id.rsplit('-').next().unwrap(), 16).unwrap();
    events(batch).map(|event| seq(&event.id)).collect()
}

fn numbered(events: Vec<Event>) -> Vec<(u64, Event)> {
    let settled = events.into_iter().map(settle);
    (0..).zip(settled).collect()
}

/// Some lines of firewalls, one a second.
fn lines(count: usize) -> Vec<(u64, Event)> {
    let event = |at: usize| {
        let raw = format!("<34>1 fw{} Deny tcp src 10.0.0.{at} access denied", at % 3);
        let columns = [
            (EventColumn::Time, Cell::Time(at as i64)),
            (EventColumn::Received, Cell::Time(at as i64)),
            (EventColumn::Raw, Cell::Text(raw)),
            (EventColumn::Host, Cell::Text(format!("fw{}", at % 3))),
            (EventColumn::Message, Cell::Text(String::new())),
            (EventColumn::Severity, Cell::Code(4)),
        ];
        Event {
            columns: columns.into_iter().collect(),
            fields: [("user".to_owned(), format!("u{at}"))].into(),
        }
    };
    numbered((0..count).map(event).collect())
}

#[test]
fn what_was_written_comes_back() {
    let written = lines(50);
    let (stored, tail) = written.split_at(40);
    let snapshot = in_memory(&files(stored, FILE_ROWS, GROUP_ROWS), vec![chunk(tail)]);
    let wanted = PruningFilter::default();
    let files = reader(&snapshot);
    let columns = ColumnProjection::named(EVENT_COLUMNS);
    let found = block_on(async {
        let (found, mut pieces) = candidates(&snapshot, &wanted);
        for file in &found {
            pieces.extend(files.pieces(file, &wanted).await.unwrap());
        }
        let mut shown = Vec::new();
        for piece in &pieces {
            let mut batches = files.read(piece, &columns, None).await.unwrap();
            while let Some(batch) = batches.next().await {
                shown.extend(events(&batch.unwrap()));
            }
        }
        shown
    });
    assert_eq!(found.len(), 50);
    for event in found {
        let seq = u64::from_str_radix(event.id.rsplit('-').next().unwrap(), 16).unwrap();
        let (_, expected) = &written[seq as usize];
        assert_eq!(event.time_ns, seq.to_string());
        assert_eq!(event.raw.as_deref(), Some(expected.raw()));
        assert!(event.raw.unwrap().ends_with(&event.message.unwrap()));
        assert_eq!(event.host, Some(format!("fw{}", seq % 3)));
        assert_eq!(event.severity, Some(4));
        assert_eq!((event.facility, event.vendor), (None, None));
        assert_eq!(event.fields, expected.fields);
    }
}

#[test]
fn local_files_are_read_where_they_lie() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Arc::new(LocalFileSystem::new_with_prefix(folder.path()).unwrap());
    let written = lines(50);
    let snapshot = store_in(storage, &files(&written, FILE_ROWS, GROUP_ROWS), Vec::new());
    let all: Vec<u64> = (0..50).collect();
    assert_eq!(
        block_on(read(&snapshot, &PruningFilter::default())).unwrap(),
        all
    );
    let wanted = PruningFilter {
        needles: vec!["10.0.0.31 access".to_owned()],
        ..PruningFilter::default()
    };
    let group: Vec<u64> = (28..36).collect();
    assert_eq!(block_on(read(&snapshot, &wanted)).unwrap(), group);
}

#[test]
fn rows_are_read_by_their_numbers() {
    let written = lines(40);
    for (stored, tail) in [(40, 0), (0, 40)] {
        let made = files(&written[..stored], 40, 40);
        let tail = (tail > 0).then(|| chunk(&written));
        let snapshot = in_memory(&made, tail.into_iter().collect());
        let files = reader(&snapshot);
        let wanted = PruningFilter::default();
        let rows = block_on(async {
            let (found, mut pieces) = candidates(&snapshot, &wanted);
            for file in &found {
                pieces.extend(files.pieces(file, &wanted).await.unwrap());
            }
            let some = Selection::of([0, 3, 4, 39]);
            let columns = ColumnProjection::named(["seq"]);
            let mut batches = files.read(&pieces[0], &columns, Some(&some)).await.unwrap();
            let batch = batches.next().await.unwrap().unwrap();
            assert!(batches.next().await.is_none());
            seqs_of(&batch)
        });
        assert_eq!(rows, [0, 3, 4, 39]);
    }
}

#[test]
fn texts_that_are_grouped_can_stay_in_their_dictionaries() {
    let written = lines(40);
    let snapshot = in_memory(&files(&written, 40, 40), Vec::new());
    let files = reader(&snapshot);
    let host = table().index_of("host").unwrap();
    let columns = ColumnProjection::new(&[host], TextEncoding::Dictionaries);
    let batch = block_on(async {
        let (found, _) = candidates(&snapshot, &PruningFilter::default());
        let pieces = files
            .pieces(&found[0], &PruningFilter::default())
            .await
            .unwrap();
        let mut batches = files.read(&pieces[0], &columns, None).await.unwrap();
        batches.next().await.unwrap().unwrap()
    });
    assert_eq!(batch.schema(), *columns.schema());
    assert_eq!(batch.num_rows(), 40);
}

/// Whatever is left out does not matter: an event that a query means is in what is read, and its
/// time is wanted. (That much is left out, `the_needle_of_a_wide_file_leaves_few_blocks` shows.)
#[test]
fn leaving_out_never_loses_an_event() {
    const QUERIES: u32 = 300;
    let met = std::cell::Cell::new(0);
    let times = || prop_oneof![Just(i64::MIN), 0..5_i64, Just(i64::MAX)];
    let strategy = (
        strategies::query(),
        vec(strategies::event(), 1..60),
        0..20_usize,
        times(),
        times(),
    );
    TestRunner::new(Config::with_cases(QUERIES))
        .run(&strategy, |(query, made, tail, from_ns, to_ns)| {
            let made = numbered(made);
            let (stored, tail) = made.split_at(made.len().saturating_sub(tail));
            let tail = (!tail.is_empty()).then(|| chunk(tail));
            let written = files(stored, FILE_ROWS, GROUP_ROWS);
            let snapshot = in_memory(&written, tail.into_iter().collect());
            let range = sql::QueryRange {
                from_ns,
                to_ns,
                limit: 10,
            };
            let wanted = PruningFilter::of(&sql::translate(&query, &range), &range);
            let found = block_on(read(&snapshot, &wanted)).unwrap();
            for (seq, event) in &made {
                let read = found.binary_search(seq).is_ok();
                if !wanted.has(time_of(event)) {
                    prop_assert!(!read, "{seq} is not within the time");
                } else if meets(&query.filter, event) {
                    met.set(met.get() + 1);
                    prop_assert!(read, "{seq} is lost");
                }
            }
            Ok(())
        })
        .unwrap();
    assert!(met.get() > 0);
}

/// Bytes of files are turned over at random: nothing but a fault or rows may come of it.
#[test]
fn a_damaged_file_is_a_fault_and_never_a_panic() {
    let written = lines(40);
    let whole = &files(&written, 40, 16)[0];
    let strategy = (
        vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        0..3_u8,
    );
    let faults = std::cell::Cell::new(0);
    // The hook would print each panic of a decoder that is caught.
    std::panic::set_hook(Box::new(|_| {}));
    TestRunner::new(Config::with_cases(400))
        .run(&strategy, |(changes, how)| {
            let mut bytes = whole.bytes.clone();
            for (at, byte) in &changes {
                let from = if how == 0 { bytes.len() / 2 } else { 0 };
                let at = from + at.index(bytes.len() - from);
                bytes[at] ^= byte | 1;
            }
            if how == 2 {
                bytes.truncate(changes[0].0.index(bytes.len()));
            }
            let file = Arc::clone(&whole.file);
            let snapshot = in_memory(&[Written { file, bytes }], Vec::new());
            match block_on(read(&snapshot, &PruningFilter::default())) {
                Ok(seqs) => prop_assert!(seqs.len() <= 40),
                Err(ReadError::Damaged(why)) => {
                    prop_assert!(!why.is_empty());
                    faults.set(faults.get() + 1);
                }
                Err(ReadError::Unreachable(why)) => prop_assert!(false, "{why}"),
            }
            Ok(())
        })
        .unwrap();
    drop(std::panic::take_hook());
    assert!(faults.get() > 100, "{}", faults.get());
}

#[test]
fn a_file_that_is_not_there_or_another_is_damaged() {
    let written = lines(40);
    let made = files(&written, 20, 16);
    let snapshot = in_memory(&made[..1], Vec::new());
    let other = Written {
        file: Arc::clone(&made[1].file),
        bytes: files(&written[..3], 20, 16).remove(0).bytes,
    };
    for bytes in [Some(other.bytes), Some(Vec::new()), None] {
        if let Some(bytes) = bytes {
            let put = object_store::ObjectStoreExt::put(
                &snapshot.storage,
                &made[1].file.location,
                bytes.into(),
            );
            block_on(put).unwrap();
        } else {
            let gone =
                object_store::ObjectStoreExt::delete(&snapshot.storage, &made[1].file.location);
            block_on(gone).unwrap();
        }
        let files = reader(&snapshot);
        let pieces = block_on(files.pieces(&made[1].file, &PruningFilter::default()));
        assert!(matches!(pieces, Err(ReadError::Damaged(_))), "{pieces:?}");
    }
}

#[test]
fn the_needle_of_a_wide_file_leaves_few_blocks() {
    let events: Vec<(u64, Event)> = lines(20_000)
        .into_iter()
        .map(|(seq, mut event)| {
            let raw = if seq == 12_345 {
                "the only Wanted-Needle there is".to_owned()
            } else {
                format!("line {seq} of many others that are alike")
            };
            event.columns.insert(EventColumn::Raw, Cell::Text(raw));
            (seq, settle(event))
        })
        .collect();
    assert_eq!(batch(&events).num_rows(), 20_000);
    let snapshot = in_memory(&files(&events, 20_000, 20_000), Vec::new());
    let wanted = PruningFilter {
        needles: vec![text::fold("WANTED-needle")],
        ..PruningFilter::default()
    };
    let found = block_on(read(&snapshot, &wanted)).unwrap();
    let block: Vec<u64> = (8192..16_384).collect();
    assert_eq!(found, block);
    let query = query::parse("Wanted-Needle").unwrap();
    assert!(meets(&query.filter, &events[12_345].1));
}
