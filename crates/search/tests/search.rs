//! Searching: one pass over the pieces finds what the query means, what DataFusion finds, newest
//! first; and nobody can do more than read, or for ever.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../../store/tests/support/disk.rs"]
mod disk;
#[path = "../../query/tests/support/naive.rs"]
mod naive;
#[allow(dead_code)]
#[path = "../../query/tests/support/strategies.rs"]
mod strategies;

use std::sync::Arc;
use std::time::Duration;

use disk::{Written, chunk, files, in_memory, settle, time_of};
use inrush_query as query;
use inrush_query::EventColumn;
use inrush_query::sql::{self, QueryRange};
use inrush_search::{Engine, SearchAnswer, SearchOptions, SearchRequest};
use inrush_store::reply::{
    FieldFacets, SearchError, SearchHit as Shown, SearchReply, SearchSummary, StopReason, TableCell,
};
use inrush_store::snapshot::Snapshot;
use naive::{Cell as Value, Event, meets};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

const GROUP_ROWS: usize = 8;
const FILE_ROWS: usize = 20;

fn engine() -> Engine {
    let options = SearchOptions {
        threads: 2,
        ..SearchOptions::default()
    };
    Engine::start(&options).unwrap()
}

/// What came back.
#[derive(Debug, Default)]
struct Found {
    events: Vec<Shown>,
    rows: Vec<Vec<TableCell>>,
    columns: Vec<String>,
    bars: Vec<u64>,
    fields: Option<FieldFacets>,
    end: Option<SearchSummary>,
    failure: Option<SearchError>,
}

impl Found {
    fn of(mut answer: SearchAnswer) -> Self {
        let mut found = Self::default();
        while let Some(reply) = answer.next_blocking() {
            match reply {
                SearchReply::Event(event) => found.events.push(*event),
                SearchReply::Row(row) => found.rows.push(row.values),
                SearchReply::Table(table) => {
                    found.columns = table.columns.into_iter().map(|c| c.name).collect();
                }
                SearchReply::Histogram(histogram) => found.bars = histogram.counts,
                SearchReply::Fields(fields) => found.fields = Some(fields),
                SearchReply::End(end) => found.end = Some(end),
                SearchReply::Error(failure) => found.failure = Some(failure),
                SearchReply::Plan(_) | SearchReply::Progress(_) => {}
            }
        }
        found
    }

    fn seqs(&self) -> Vec<u64> {
        let seq = |id: &str| u64::from_str_radix(id.rsplit('-').next().unwrap(), 16).unwrap();
        self.events.iter().map(|event| seq(&event.id)).collect()
    }

    fn end(&self) -> &SearchSummary {
        self.end.as_ref().unwrap_or_else(|| panic!("{self:?}"))
    }
}

fn search(engine: &Engine, snapshot: &Snapshot, request: SearchRequest) -> Found {
    let answer = engine.search(snapshot.clone(), request);
    Found::of(answer.unwrap_or_else(|error| panic!("{error}")))
}

fn ask(engine: &Engine, snapshot: &Snapshot, query: &str) -> Found {
    search(engine, snapshot, SearchRequest::new(query))
}

fn run_sql(engine: &Engine, snapshot: &Snapshot, statement: &str) -> Found {
    Found::of(engine.sql(snapshot.clone(), statement, 1000))
}

fn number(cell: &TableCell) -> u64 {
    match cell {
        TableCell::Unsigned(number) => *number,
        other => panic!("{other:?}"),
    }
}

fn numbered(events: Vec<Event>) -> Vec<(u64, Event)> {
    (0..).zip(events.into_iter().map(settle)).collect()
}

/// Lines of firewalls, one a second.
fn lines(count: usize) -> Vec<(u64, Event)> {
    let event = |at: usize| {
        let raw = format!("<34>1 fw{} Deny tcp src 10.0.0.{at} access denied", at % 3);
        let time = at as i64 * 1_000_000_000;
        let columns = [
            (EventColumn::Time, Value::Time(time)),
            (EventColumn::Received, Value::Time(time)),
            (EventColumn::Raw, Value::Text(raw)),
            (EventColumn::Host, Value::Text(format!("fw{}", at % 3))),
            (EventColumn::Sourcetype, Value::Text("cisco:asa".to_owned())),
            (EventColumn::Message, Value::Text(String::new())),
            (EventColumn::Severity, Value::Code((at % 8) as u8)),
        ];
        Event {
            columns: columns.into_iter().collect(),
            fields: [("bytes".to_owned(), at.to_string())].into(),
        }
    };
    numbered((0..count).map(event).collect())
}

/// Most of the lines in files, the last in a tail of two chunks.
fn store_of(lines: &[(u64, Event)]) -> Snapshot {
    let (stored, tail) = lines.split_at(lines.len() * 4 / 5);
    let made = files(stored, FILE_ROWS, GROUP_ROWS);
    let (one, other) = tail.split_at(tail.len() / 2);
    let chunks = [one, other].into_iter().filter(|events| !events.is_empty());
    in_memory(&made, chunks.map(chunk).collect())
}

#[test]
fn the_newest_come_first_and_the_rest_is_counted() {
    let engine = engine();
    let snapshot = store_of(&lines(100));
    let mut request = SearchRequest::new("denied host=fw1");
    request.limit = Some(7);
    let found = search(&engine, &snapshot, request);
    assert_eq!(found.seqs(), [97, 94, 91, 88, 85, 82, 79]);
    assert_eq!(found.end().matched, 33);
    assert_eq!(found.end().stopped, Some(StopReason::Limit));
    assert_eq!(found.bars.iter().sum::<u64>(), 33);
    let event = &found.events[0];
    assert_eq!(event.time_ns, "97000000000");
    assert_eq!(event.host.as_deref(), Some("fw1"));
    assert!(event.raw.as_ref().unwrap().contains("10.0.0.97 "));
    assert_eq!(event.fields["bytes"], "97");
    let fields = found.fields.unwrap();
    let host = fields
        .fields
        .iter()
        .find(|field| field.name == "host")
        .unwrap();
    assert_eq!(host.distinct, 1);
    assert!(fields.fields.iter().any(|field| field.name == "bytes"));
}

#[test]
fn without_a_condition_nothing_but_what_is_shown_is_read() {
    let engine = engine();
    let snapshot = store_of(&lines(1000));
    let mut request = SearchRequest::new("*");
    request.limit = Some(10);
    request.buckets = 1;
    request.fields = false;
    let found = search(&engine, &snapshot, request);
    assert_eq!(found.end().matched, 1000);
    assert_eq!(found.bars, [1000]);
    assert_eq!(found.seqs(), (990..1000).rev().collect::<Vec<_>>());
    // The tail, and the few pieces that threads took before it was known that nobody needs them.
    assert!(found.end().cost.events_scanned <= 300, "{:?}", found.end());
}

#[test]
fn a_range_of_time_has_its_beginning_and_not_its_end() {
    let engine = engine();
    let snapshot = store_of(&lines(100));
    for limit in [0, 5, 100] {
        let mut request = SearchRequest::new("denied");
        request.from_ns = 17_000_000_000;
        request.to_ns = 83_000_000_000;
        request.limit = Some(limit);
        let found = search(&engine, &snapshot, request);
        assert_eq!(found.end().matched, 66);
        assert_eq!(found.bars.iter().sum::<u64>(), 66);
        let newest: Vec<u64> = (17..83).rev().take(limit as usize).collect();
        assert_eq!(found.seqs(), newest);
    }
}

#[test]
fn tables_come_with_their_histogram() {
    let engine = engine();
    let snapshot = store_of(&lines(100));
    let found = ask(&engine, &snapshot, "denied | count by host");
    assert_eq!(found.columns, ["host", "count"]);
    let rows: Vec<(TableCell, u64)> = found
        .rows
        .iter()
        .map(|row| (row[0].clone(), number(&row[1])))
        .collect();
    let host = |name: &str| TableCell::Text(name.to_owned());
    assert_eq!(
        rows,
        [(host("fw0"), 34), (host("fw1"), 33), (host("fw2"), 33)]
    );
    assert_eq!(found.end().matched, 100);
    assert_eq!(found.bars.iter().sum::<u64>(), 100);
    assert_eq!(found.end().stopped, None);
}

#[test]
fn every_function_of_the_language_is_one_that_the_engine_has() {
    let engine = engine();
    let snapshot = store_of(&lines(100));
    let query = "* | count, sum(bytes), avg(bytes), min(bytes), max(bytes), p50(bytes), \
                 p90(bytes), p95(bytes), p99(bytes), dc(bytes), max(time)";
    let found = ask(&engine, &snapshot, query);
    let row = &found
        .rows
        .first()
        .unwrap_or_else(|| panic!("{:?}", found.failure));
    assert_eq!(row[0], TableCell::Unsigned(100));
    assert_eq!(row[1], TableCell::Double(4950.0));
    assert_eq!(row[9], TableCell::Unsigned(100));
    assert_eq!(row[10], TableCell::Text("99000000000".to_owned()));
    for query in [
        "* | top 3 host",
        "* | count by 1m",
        "* | count, avg(bytes) by host, 5m | sort -avg(bytes) | head 2",
        "host=fw* | count by bytes | sort -bytes",
        "fw?0*denied message=*denied severity<=err bytes>=5 -user=* facility!=local0",
    ] {
        let found = ask(&engine, &snapshot, query);
        assert_eq!(found.failure, None, "{query}");
    }
}

/// The count by a text that files have as a dictionary, beside the same count in a form that
/// DataFusion does itself.
#[test]
fn texts_are_counted_from_their_dictionaries() {
    let engine = engine();
    let mut lines = lines(300);
    for (_, event) in lines.iter_mut().step_by(7) {
        event.columns.remove(&EventColumn::Host);
    }
    let snapshot = store_of(&lines);
    for condition in [
        "TRUE",
        "time >= TIMESTAMP '1970-01-01T00:00:17Z'",
        "host = 'fw1'",
    ] {
        let count = |by: &str| {
            let statement = format!(
                "SELECT {by}, count(*) FROM events WHERE {condition} GROUP BY 1 ORDER BY 1"
            );
            run_sql(&engine, &snapshot, &statement)
        };
        let (own, plain) = (count("host"), count("concat(host, '')"));
        assert!(!own.rows.is_empty() && own.failure.is_none(), "{own:?}");
        let counted = |found: &Found| -> Vec<u64> {
            let counts = found.rows.iter().map(|row| number(&row[1]));
            counts.collect()
        };
        let mut sums = (counted(&own), counted(&plain));
        sums.0.sort_unstable();
        sums.1.sort_unstable();
        assert_eq!(sums.0, sums.1, "{condition}");
    }
    let found = run_sql(
        &engine,
        &snapshot,
        "EXPLAIN SELECT host, count(*) FROM events GROUP BY host",
    );
    let plan = format!("{:?}", found.rows);
    assert!(plan.contains("CountExec: by=host"), "{plan}");
    let found = run_sql(
        &engine,
        &snapshot,
        "EXPLAIN SELECT raw, count(*) FROM events GROUP BY raw",
    );
    assert!(!format!("{:?}", found.rows).contains("CountExec"));
    let found = ask(&engine, &snapshot, "* | top 2 host");
    assert_eq!(found.rows.len(), 2);
}

#[test]
fn events_in_an_order_of_their_own_have_their_names_too() {
    let engine = engine();
    let snapshot = store_of(&lines(100));
    let found = ask(&engine, &snapshot, "denied | sort bytes | head 3");
    assert_eq!(found.seqs(), [0, 1, 2]);
    assert_eq!(found.end().matched, 100);
    assert!(found.events[2].raw.as_ref().unwrap().contains("10.0.0.2 "));
}

#[test]
fn a_query_that_cannot_be_read_points_at_the_place() {
    let engine = engine();
    let snapshot = store_of(&lines(1));
    let asked = engine.search(snapshot, SearchRequest::new("sorcetype=x"));
    let error = asked.unwrap_err();
    assert_eq!((error.column, error.length), (1, 9));
}

#[test]
fn how_many_there_are_is_known_without_reading() {
    let engine = engine();
    let snapshot = store_of(&lines(100));
    let found = run_sql(&engine, &snapshot, "SELECT count(*) FROM events");
    assert_eq!(found.rows, [[TableCell::Unsigned(100)]]);
    assert_eq!(found.end().cost.bytes_scanned, 0);
}

#[test]
fn sql_reads_and_does_nothing_else() {
    let engine = engine();
    let snapshot = store_of(&lines(20));
    let allowed = [
        "SELECT host, count(*) FROM events WHERE has(raw, 'DENY') GROUP BY 1",
        "SELECT message, fields['bytes'] FROM events ORDER BY time DESC LIMIT 3",
        "EXPLAIN SELECT * FROM events",
        "DESCRIBE events",
        "SHOW TABLES",
        "WITH a AS (SELECT host FROM events) SELECT * FROM a JOIN events b ON a.host = b.host",
        "SELECT abs(-1), round(1.5), regexp_like('a', 'b')",
        "SELECT count(*) FROM events WHERE raw ILIKE '%deny%' AND time > now() - INTERVAL '5 minutes'",
    ];
    for statement in allowed {
        let found = run_sql(&engine, &snapshot, statement);
        assert_eq!(found.failure, None, "{statement}");
    }
    let refused = [
        "COPY events TO '/tmp/inrush-copy.csv'",
        "CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '/etc/passwd'",
        "CREATE TABLE x AS SELECT 1",
        "CREATE VIEW x AS SELECT 1",
        "DROP TABLE events",
        "INSERT INTO events SELECT * FROM events",
        "DELETE FROM events",
        "SET datafusion.execution.batch_size = 1",
        "PREPARE x AS SELECT 1",
        "BEGIN",
        "SELECT * FROM '/etc/passwd'",
        "SELECT 1; SELECT 2",
        "SELECT repeat('x', 2000000000)",
        "SELECT range(1, 2000000000)",
        "SELECT * FROM generate_series(1, 10)",
        "WITH RECURSIVE a AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM a) SELECT * FROM a",
        "SELECT",
        "",
        "not sql at all",
        "SELECT no_such_column FROM events",
    ];
    for statement in refused {
        let found = run_sql(&engine, &snapshot, statement);
        let failure = found.failure.unwrap_or_else(|| panic!("{statement} ran"));
        assert!(!failure.message.is_empty() && !failure.message.contains('\n'));
    }
}

#[test]
fn a_statement_gives_so_many_rows_and_says_that_there_are_more() {
    let engine = engine();
    let snapshot = store_of(&lines(100));
    let found = Found::of(engine.sql(snapshot.clone(), "SELECT seq FROM events", 10));
    assert_eq!(found.rows.len(), 10);
    assert_eq!(found.end().stopped, Some(StopReason::Limit));
    let found = Found::of(engine.sql(snapshot, "SELECT seq FROM events", 100));
    assert_eq!((found.rows.len(), found.end().stopped), (100, None));
}

#[test]
fn what_needs_too_much_memory_is_stopped_and_says_its_cost() {
    let options = SearchOptions {
        threads: 2,
        memory_bytes: 200_000,
        ..SearchOptions::default()
    };
    let engine = Engine::start(&options).unwrap();
    let snapshot = store_of(&lines(2000));
    let statement = "SELECT raw, count(*) FROM events GROUP BY raw ORDER BY 2, 1";
    let found = run_sql(&engine, &snapshot, statement);
    assert_eq!(found.end().stopped, Some(StopReason::Memory), "{found:?}");
    let cost = found.end().cost;
    assert!(cost.memory_bytes > 0 && cost.events_scanned > 0, "{cost:?}");
    let found = run_sql(&engine, &snapshot, "SELECT count(*) FROM events");
    assert_eq!(
        found.rows,
        [[TableCell::Unsigned(2000)]],
        "memory is given back"
    );
}

#[test]
fn what_takes_too_long_is_stopped() {
    let options = SearchOptions {
        threads: 2,
        time_max: Duration::from_millis(1),
        ..SearchOptions::default()
    };
    let engine = Engine::start(&options).unwrap();
    let snapshot = store_of(&lines(2000));
    let statement = "SELECT count(*) FROM events a, events b, events c WHERE a.raw < b.raw";
    let found = run_sql(&engine, &snapshot, statement);
    assert_eq!(found.end().stopped, Some(StopReason::Time), "{found:?}");
}

#[test]
fn whoever_goes_away_is_not_searched_for() {
    let options = SearchOptions {
        threads: 2,
        searches_max: 1,
        ..SearchOptions::default()
    };
    let engine = Engine::start(&options).unwrap();
    let snapshot = store_of(&lines(2000));
    let statement = "SELECT count(*) FROM events a, events b, events c WHERE a.raw < b.raw";
    let endless = engine.sql(snapshot.clone(), statement, 10);
    drop(endless);
    // Its turn comes only when the other is gone.
    let found = run_sql(&engine, &snapshot, "SELECT count(*) FROM events");
    assert_eq!(found.rows, [[TableCell::Unsigned(2000)]]);
}

/// With as many turns as long searches, the short one would wait for an hour.
#[test]
fn a_short_search_waits_for_no_long_one() {
    let options = SearchOptions {
        threads: 2,
        time_max: Duration::from_secs(3600),
        ..SearchOptions::default()
    };
    let engine = Engine::start(&options).unwrap();
    let snapshot = store_of(&lines(2000));
    let statement = "SELECT count(*) FROM events a, events b, events c WHERE a.raw < b.raw";
    let endless: Vec<_> = (0..8)
        .map(|_| engine.sql(snapshot.clone(), statement, 10))
        .collect();
    let found = run_sql(&engine, &snapshot, "SELECT count(*) FROM events");
    assert_eq!(found.rows, [[TableCell::Unsigned(2000)]]);
    drop(endless);
}

#[test]
fn a_damaged_file_costs_itself_and_is_named() {
    let engine = engine();
    let written = lines(100);
    let mut made = files(&written, FILE_ROWS, GROUP_ROWS);
    // Within the pages of the second file, behind which its footer is whole.
    made[1].bytes[200..1200].fill(0xff);
    let snapshot = in_memory(&made, Vec::new());
    let found = ask(&engine, &snapshot, "denied");
    let path = &made[1].file.entry.path;
    assert_eq!(found.end().set_aside[0].path, *path, "{found:?}");
    assert!(made[1].file.is_bad());
    let others: Vec<u64> = (40..100).rev().chain((0..20).rev()).collect();
    let shown: Vec<u64> = found.seqs();
    let of_others: Vec<u64> = shown
        .into_iter()
        .filter(|s| !(20..40).contains(s))
        .collect();
    assert_eq!(of_others, others);
    // It is passed over from now on, by SQL too.
    let found = run_sql(&engine, &snapshot, "SELECT count(*) FROM events");
    assert_eq!(found.rows, [[TableCell::Unsigned(80)]]);
    assert!(found.end().set_aside.is_empty());
}

#[test]
fn sql_passes_a_damaged_file_over_as_well() {
    let engine = engine();
    let written = lines(100);
    let mut made = files(&written, FILE_ROWS, GROUP_ROWS);
    let end = made[3].bytes.len();
    made[3].bytes[end - 4..].fill(0);
    let snapshot = in_memory(&made, Vec::new());
    let statement = "SELECT count(*) FROM events WHERE has(raw, 'denied')";
    let found = run_sql(&engine, &snapshot, statement);
    assert_eq!(found.rows, [[TableCell::Unsigned(80)]], "{found:?}");
    assert_eq!(found.end().set_aside.len(), 1);
}

/// One pass, DataFusion and the naive telling agree: which events, how many, in which order.
#[test]
fn one_pass_finds_what_sql_finds_and_what_the_query_means() {
    const QUERIES: u32 = 150;
    let engine = engine();
    let matched = std::cell::Cell::new(0);
    let times = || prop_oneof![Just(i64::MIN), 0..5_i64, Just(i64::MAX)];
    let strategy = (
        strategies::expr(),
        vec(strategies::event(), 1..60),
        0..20_usize,
        times(),
        times(),
        1..30_u64,
    );
    TestRunner::new(Config::with_cases(QUERIES))
        .run(&strategy, |(filter, made, tail, from_ns, to_ns, limit)| {
            let query = query::Query {
                filter,
                stages: Vec::new(),
            };
            let made = numbered(made);
            let (stored, tail) = made.split_at(made.len().saturating_sub(tail));
            let tail = (!tail.is_empty()).then(|| chunk(tail));
            let written = files(stored, FILE_ROWS, GROUP_ROWS);
            let snapshot = in_memory(&written, tail.into_iter().collect());
            let within = |time: i64| from_ns <= time && (time < to_ns || to_ns == i64::MAX);
            let mut expected: Vec<(i64, u64)> = made
                .iter()
                .filter(|(_, event)| within(time_of(event)) && meets(&query.filter, event))
                .map(|(seq, event)| (time_of(event), *seq))
                .collect();
            expected.sort_unstable();
            expected.reverse();

            let mut request = SearchRequest::new(query.to_string());
            (request.from_ns, request.to_ns, request.limit) = (from_ns, to_ns, Some(limit));
            let found = search(&engine, &snapshot, request);
            prop_assert_eq!(found.end().matched, expected.len() as u64);
            prop_assert_eq!(found.bars.iter().sum::<u64>(), expected.len() as u64);
            let shown = found
                .events
                .iter()
                .map(|e| e.time_ns.parse::<i64>().unwrap());
            let newest = expected.iter().map(|(time, _)| *time).take(limit as usize);
            prop_assert_eq!(shown.collect::<Vec<_>>(), newest.collect::<Vec<_>>());
            let all: std::collections::BTreeSet<u64> = expected.iter().map(|e| e.1).collect();
            let seqs: std::collections::BTreeSet<u64> = found.seqs().into_iter().collect();
            prop_assert!(seqs.is_subset(&all) && seqs.len() == found.events.len());

            let range = QueryRange {
                from_ns,
                to_ns,
                limit: 1000,
            };
            let predicate = sql::translate(&query, &range).predicate;
            let statement = format!("SELECT seq FROM events WHERE {predicate}");
            let found = run_sql(&engine, &snapshot, &statement);
            let rows: std::collections::BTreeSet<u64> =
                found.rows.iter().map(|row| number(&row[0])).collect();
            prop_assert_eq!(&rows, &all, "{:?}", found.failure);
            matched.set(matched.get() + expected.len());
            Ok(())
        })
        .unwrap();
    assert!(matched.get() > QUERIES as usize, "{}", matched.get());
}

/// Files are damaged at random: the search ends, and finds nothing that is not there.
#[test]
fn damage_anywhere_ends_in_an_answer() {
    let engine = engine();
    let written = lines(60);
    let strategy = vec((any::<prop::sample::Index>(), any::<u8>()), 1..6);
    std::panic::set_hook(Box::new(|_| {}));
    let aside = std::cell::Cell::new(0);
    TestRunner::new(Config::with_cases(100))
        .run(&strategy, |changes| {
            let mut made = files(&written, FILE_ROWS, GROUP_ROWS);
            for (at, byte) in changes {
                let at = at.index(made[1].bytes.len());
                made[1].bytes[at] ^= byte | 1;
            }
            let others = made.into_iter().enumerate().map(|(at, written)| Written {
                file: Arc::clone(&written.file),
                bytes: if at == 2 { Vec::new() } else { written.bytes },
            });
            let snapshot = in_memory(&others.collect::<Vec<_>>(), Vec::new());
            let found = ask(&engine, &snapshot, "denied fw");
            let end = found.end();
            prop_assert!(end.matched >= 20 && end.matched <= 40, "{end:?}");
            aside.set(aside.get() + end.set_aside.len());
            Ok(())
        })
        .unwrap();
    drop(std::panic::take_hook());
    assert!(aside.get() > 100, "{}", aside.get());
}
