//! Reading a store to its end: all that is asked for, once, and what could not be read by name.
#![allow(clippy::unwrap_used, missing_docs)]

#[allow(dead_code)]
#[path = "../../store/tests/support/disk.rs"]
mod disk;
#[allow(dead_code)]
#[path = "../../query/tests/support/naive.rs"]
mod naive;

use disk::{chunk, files, in_memory, settle};
use inrush_query::{self as query, EventColumn};
use inrush_search::{Engine, ScanOutput, SearchOptions, StoredEvent};
use inrush_store::snapshot::Snapshot;
use naive::{Cell as Value, Event};

const SECOND: i64 = 1_000_000_000;

/// One a second.
fn lines(count: usize) -> Vec<(u64, Event)> {
    let event = |at: usize| {
        let time = at as i64 * SECOND;
        let text = |column, text: String| (column, Value::Text(text));
        let columns = [
            (EventColumn::Time, Value::Time(time)),
            (EventColumn::Received, Value::Time(time + 5)),
            text(EventColumn::Raw, format!("<34>1 fw{} denied {at}", at % 3)),
            text(EventColumn::Host, format!("fw{}", at % 3)),
            text(EventColumn::Sourcetype, "cisco:asa".to_owned()),
            text(EventColumn::Message, String::new()),
        ];
        settle(Event {
            columns: columns.into_iter().collect(),
            fields: Default::default(),
        })
    };
    (0..).zip((0..count).map(event)).collect()
}

fn engine() -> Engine {
    let options = SearchOptions {
        threads: 2,
        ..SearchOptions::default()
    };
    Engine::start(&options).unwrap()
}

/// The rows, the files that were done with, and the places of those that could not be read.
fn all(
    snapshot: &Snapshot,
    query: &str,
    from: i64,
    to: i64,
) -> (Vec<StoredEvent>, u64, Vec<String>) {
    let engine = engine();
    let scan = engine.scan(snapshot.clone(), query, from, to).unwrap();
    let (mut rows, mut done, mut missing) = (Vec::new(), 0, Vec::new());
    for scanned in scan {
        match scanned {
            ScanOutput::Rows(some) => rows.extend(some),
            ScanOutput::File(n, of) => {
                assert!(n <= of);
                done = n;
            }
            ScanOutput::Missing(aside) => missing.push(aside.path),
            ScanOutput::Failed(why) => panic!("{why}"),
        }
    }
    (rows, done, missing)
}

#[test]
fn everything_that_is_asked_for_comes_once_and_the_oldest_file_first() {
    let written = lines(100);
    let made = files(&written[..80], 20, 8);
    let snapshot = in_memory(&made, vec![chunk(&written[80..])]);
    let (rows, done, missing) = all(&snapshot, "*", i64::MIN, i64::MAX);
    let times: Vec<i64> = rows.iter().map(|row| row.time_ns / SECOND).collect();
    assert_eq!(times, (0..100).collect::<Vec<_>>());
    assert_eq!((done, missing.len()), (4, 0));
    assert_eq!(rows[7].raw, "<34>1 fw1 denied 7");
    assert_eq!(
        (&rows[7].host[..], &rows[7].sourcetype[..]),
        ("fw1", "cisco:asa")
    );
    assert_eq!(rows[7].received_ns, 7 * SECOND + 5);
    let (rows, ..) = all(&snapshot, "host=fw1 denied", 10 * SECOND, 90 * SECOND);
    let times: Vec<i64> = rows.iter().map(|row| row.time_ns / SECOND).collect();
    let wanted: Vec<i64> = (10..90).filter(|at| at % 3 == 1).collect();
    assert_eq!(times, wanted);
}

#[test]
fn a_damaged_file_is_named_and_the_others_are_read() {
    let mut made = files(&lines(100), 20, 8);
    // Within the pages of the second file, behind which its footer is whole.
    made[1].bytes[200..1200].fill(0xff);
    let snapshot = in_memory(&made, Vec::new());
    let (rows, done, missing) = all(&snapshot, "denied", i64::MIN, i64::MAX);
    assert_eq!(missing, [made[1].file.entry.path.clone()]);
    let others = rows
        .iter()
        .filter(|row| !(20..40).contains(&(row.time_ns / SECOND)));
    assert_eq!((others.count(), done), (80, 5));
}

#[test]
fn a_table_is_not_read_to_its_end() {
    let snapshot = in_memory(&files(&lines(9), 20, 8), Vec::new());
    assert!(query::parse("* | count by host").is_ok());
    for query in ["* | count by host", "sorcetype=x"] {
        assert!(engine().scan(snapshot.clone(), query, 0, i64::MAX).is_err());
    }
    // Whoever goes away is not read for.
    drop(engine().scan(snapshot, "*", 0, i64::MAX).unwrap());
}
