//! Searches in processes of their own: they find what an engine in this process finds, and end at
//! their bounds, whatever they do.
//!
//! A worker is the program that asks, run again; so this test is a program of its own, which serves
//! when it is told to.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

#[allow(dead_code)]
#[path = "../../store/tests/support/disk.rs"]
mod disk;
#[allow(dead_code)]
#[path = "../../query/tests/support/naive.rs"]
mod naive;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use disk::{chunk, files, settle, store_in};
use inrush_query::{self as query, EventColumn};
use inrush_search::worker::{COMMAND, serve};
use inrush_search::{Engine, SearchAnswer, SearchOptions, SearchRequest, WorkerPool};
use inrush_store::reply::{
    SearchError, SearchHit, SearchReply, SearchSummary, StopReason, TableCell,
};
use inrush_store::snapshot::Snapshot;
use inrush_store::{DurableStorage, StorageLocation};
use naive::Cell as Value;
use tempfile::TempDir;

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(COMMAND) {
        return serve();
    }
    let tests: [(&str, fn()); 9] = [
        ("who_waits_holds_no_snapshot", who_waits_holds_no_snapshot),
        (
            "without_memory_it_is_refused_with_a_sentence",
            without_memory_it_is_refused,
        ),
        (
            "workers_find_what_an_engine_finds",
            workers_find_what_an_engine_finds,
        ),
        (
            "what_never_yields_ends_in_time",
            what_never_yields_ends_in_time,
        ),
        (
            "what_takes_all_memory_costs_itself",
            what_takes_all_memory_costs_itself,
        ),
        (
            "an_asker_who_goes_ends_the_worker",
            an_asker_who_goes_ends_the_worker,
        ),
        (
            "what_is_too_long_or_too_deep_is_refused",
            what_is_too_long_or_too_deep_is_refused,
        ),
        (
            "a_worker_that_was_kept_and_died_costs_no_search",
            a_kept_worker_that_died,
        ),
        (
            "a_worker_that_was_kept_searches_on_the_same_threads",
            a_kept_worker_keeps_its_threads,
        ),
    ];
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    for (name, test) in tests {
        if filter
            .as_ref()
            .is_none_or(|filter| name.contains(filter.as_str()))
        {
            test();
            println!("test {name} ... ok");
        }
    }
    ExitCode::SUCCESS
}

fn event(at: usize) -> (u64, naive::Event) {
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
    let event = naive::Event {
        columns: columns.into_iter().collect(),
        fields: [("bytes".to_owned(), at.to_string())].into(),
    };
    (at as u64, settle(event))
}

/// A folder with half of the events in files, and a tail of three chunks.
fn place(events: usize) -> (TempDir, StorageLocation, Snapshot) {
    let folder = tempfile::tempdir().unwrap();
    let home = DurableStorage::folder(folder.path()).unwrap();
    let all: Vec<_> = (0..events).map(event).collect();
    let (stored, tail) = all.split_at(events / 2);
    let chunks = tail.chunks(tail.len().div_ceil(3)).map(chunk).collect();
    let snapshot = store_in(home.storage(), &files(stored, 4000, 1000), chunks);
    (folder, home.reader(), snapshot)
}

#[derive(Debug, Default)]
struct Found {
    events: Vec<SearchHit>,
    rows: Vec<Vec<TableCell>>,
    end: Option<SearchSummary>,
    failure: Option<SearchError>,
}

fn found(mut answer: SearchAnswer) -> Found {
    let mut found = Found::default();
    while let Some(reply) = answer.next_blocking() {
        match reply {
            SearchReply::Event(event) => found.events.push(*event),
            SearchReply::Row(row) => found.rows.push(row.values),
            SearchReply::End(end) => found.end = Some(end),
            SearchReply::Error(failure) => found.failure = Some(failure),
            _ => {}
        }
    }
    found
}

fn workers(options: SearchOptions) -> WorkerPool {
    WorkerPool::start(&options).unwrap()
}

/// The taker of this snapshot.
fn of(snapshot: &Snapshot) -> impl FnOnce() -> Snapshot + Send + use<> {
    let snapshot = snapshot.clone();
    move || snapshot
}

fn options() -> SearchOptions {
    SearchOptions {
        threads: 2,
        ..SearchOptions::default()
    }
}

/// Processes that this one has started and not buried.
fn children() -> Vec<u32> {
    let own = std::process::id().to_string();
    let parent = |stat: &str| -> Option<bool> {
        let (_, rest) = stat.rsplit_once(") ")?;
        Some(rest.split(' ').nth(1)? == own)
    };
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_ours = |pid: &u32| {
        let stat = fs::read_to_string(PathBuf::from(format!("/proc/{pid}/stat")));
        stat.ok().and_then(|stat| parent(&stat)).unwrap_or(false)
    };
    numbers.filter(is_ours).collect()
}

fn eventually(what: &str, probe: impl Fn() -> bool) {
    let since = Instant::now();
    while !probe() {
        assert!(since.elapsed() < Duration::from_secs(30), "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

const COUNT: &str = "SELECT count(*) FROM events";

fn counts(workers: &WorkerPool, place: &(TempDir, StorageLocation, Snapshot), events: u64) {
    let (_, reader, snapshot) = place;
    let found = found(workers.sql(reader.clone(), of(snapshot), COUNT, 10));
    assert_eq!(found.rows, [[TableCell::Unsigned(events)]], "{found:?}");
}

/// A text of ten times as many letters for each level.
fn long(letter: char, levels: usize) -> String {
    let ten = letter.to_string().repeat(10);
    let nest = |inner: String, _| format!("replace({inner}, '{letter}', '{ten}')");
    (0..levels).fold(format!("'{ten}'"), nest)
}

fn never_yields() -> String {
    format!("SELECT levenshtein({}, {})", long('a', 5), long('b', 5))
}

fn workers_find_what_an_engine_finds() {
    let (_folder, reader, snapshot) = place(20_000);
    let workers = workers(options());
    let engine = Engine::start(&options()).unwrap();
    for query in [
        "denied host=fw1",
        "10.0.0.77 -host=fw0",
        "* | count by host",
        "severity<=err | count, avg(bytes), max(bytes) by host",
        "nothing",
        "* | sort -bytes | head 7",
    ] {
        let request = SearchRequest::new(query);
        let near = found(engine.search(snapshot.clone(), request.clone()).unwrap());
        let far = workers.search(reader.clone(), of(&snapshot), request);
        let far = found(far.unwrap());
        assert_eq!(near.events, far.events, "{query}");
        assert_eq!(near.rows, far.rows, "{query}");
        let matched = |found: &Found| found.end.as_ref().map(|end| end.matched);
        assert!(matched(&near).is_some());
        assert_eq!(matched(&near), matched(&far), "{query}");
    }
    for statement in [
        COUNT,
        "SELECT host, sum(CAST(fields['bytes'] AS BIGINT)) / 7.0 FROM events GROUP BY 1 ORDER BY 1",
        "SELECT * FROM events ORDER BY time DESC LIMIT 3",
        "SELECT message, raw FROM events WHERE raw LIKE '%.77 %' ORDER BY time",
        "SELECT nothing FROM events",
        "DROP TABLE events",
    ] {
        let near = found(engine.sql(snapshot.clone(), statement, 1000));
        let far = found(workers.sql(reader.clone(), of(&snapshot), statement, 1000));
        assert_eq!(near.rows, far.rows, "{statement}");
        assert_eq!(near.failure, far.failure, "{statement}");
    }
}

fn what_never_yields_ends_in_time() {
    let place = place(100);
    let workers = workers(SearchOptions {
        time_max: Duration::from_secs(3),
        ..options()
    });
    let hog = workers.sql(place.1.clone(), of(&place.2), never_yields(), 10);
    // Others are answered meanwhile.
    counts(&workers, &place, 100);
    let found = found(hog);
    let end = found.end.as_ref().unwrap_or_else(|| panic!("{found:?}"));
    assert_eq!(end.stopped, Some(StopReason::Time));
    assert!(end.elapsed_ms >= 2500, "{end:?}");
    counts(&workers, &place, 100);
}

fn who_waits_holds_no_snapshot() {
    let place = place(100);
    let workers = workers(SearchOptions {
        searches_max: 1,
        ..options()
    });
    let (sender, taken) = std::sync::mpsc::channel();
    let snapshot = |number: usize| {
        let (snapshot, sender) = (place.2.clone(), sender.clone());
        move || {
            let _ = sender.send(number);
            snapshot
        }
    };
    let hog = workers.sql(place.1.clone(), snapshot(1), never_yields(), 10);
    assert_eq!(taken.recv(), Ok(1));
    let next = workers.sql(place.1.clone(), snapshot(2), COUNT, 10);
    // Until the first one ends it has no turn.
    eventually("the first one runs", || !children().is_empty());
    assert!(taken.try_recv().is_err());
    drop(hog);
    let found = found(next);
    assert_eq!(found.rows, [[TableCell::Unsigned(100)]], "{found:?}");
    assert_eq!(taken.recv(), Ok(2));
}

fn without_memory_it_is_refused() {
    let place = place(1);
    let workers = workers(SearchOptions {
        memory_bytes: 10 << 20,
        ..options()
    });
    let found = found(workers.sql(place.1.clone(), of(&place.2), COUNT, 10));
    let failure = found.failure.as_ref();
    let failure = failure.unwrap_or_else(|| panic!("{found:?}"));
    let said = "there is no memory to search with: 10 MiB of the limit";
    assert!(failure.message.starts_with(said), "{failure:?}");
}

fn what_takes_all_memory_costs_itself() {
    let place = place(2000);
    let memory_bytes = 96 << 20;
    let workers = workers(SearchOptions {
        memory_bytes,
        ..options()
    });
    let crossed = "FROM events a, events b, (SELECT raw FROM events LIMIT 100) c";
    let statements = [
        format!("SELECT length({})", long('a', 9)),
        format!("SELECT array_agg(a.raw || b.raw || c.raw) {crossed}"),
        format!("SELECT length(string_agg(a.raw || b.raw || c.raw, ',')) {crossed}"),
        format!("SELECT DISTINCT a.raw || b.raw || c.raw {crossed}"),
        format!("SELECT a.raw || b.raw || c.raw AS r {crossed} ORDER BY r LIMIT 1000000"),
    ];
    for statement in statements {
        let answer = workers.sql(place.1.clone(), of(&place.2), statement.clone(), 10);
        let found = found(answer);
        let end = found
            .end
            .as_ref()
            .unwrap_or_else(|| panic!("{statement}: {found:?}"));
        assert_eq!(end.stopped, Some(StopReason::Memory), "{statement}");
        // What was taken between two looks is less than the half.
        let most = memory_bytes as u64 / 2 * 3;
        assert!(end.cost.memory_bytes <= most, "{statement}: {end:?}");
        counts(&workers, &place, 2000);
    }
}

fn an_asker_who_goes_ends_the_worker() {
    let place = place(100);
    let workers = workers(options());
    let hog = |_| workers.sql(place.1.clone(), of(&place.2), never_yields(), 10);
    let hogs: Vec<SearchAnswer> = (0..3).map(hog).collect();
    eventually("three workers", || children().len() == 3);
    drop(hogs);
    eventually("no worker", || children().is_empty());
    counts(&workers, &place, 100);
    drop(workers);
    eventually("no worker at the end", || children().is_empty());
}

fn what_is_too_long_or_too_deep_is_refused() {
    let place = place(100);
    let workers = workers(options());
    let deep = |open: &str, close: &str| {
        let (open, close) = (open.repeat(2000), close.repeat(2000));
        format!("SELECT {open}1{close}")
    };
    let statements = [
        deep("(", ")"),
        deep("abs(", ")"),
        deep("- ", ""),
        deep("1+", ""),
        format!("SELECT '{}'", "x".repeat(70_000)),
    ];
    for statement in statements {
        let answer = workers.sql(place.1.clone(), of(&place.2), statement.clone(), 10);
        let found = found(answer);
        let answered = found.failure.is_some() || !found.rows.is_empty();
        assert!(answered, "{}: {found:?}", &statement[..30]);
        counts(&workers, &place, 100);
    }
}

fn a_kept_worker_that_died() {
    let place = place(100);
    let workers = workers(options());
    counts(&workers, &place, 100);
    eventually("the worker is kept", || children().len() == 1);
    for pid in children() {
        let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
    counts(&workers, &place, 100);
}

/// The threads of a process that search, and the `nice` of each: field 19, see proc(5).
fn searching_threads(pid: u32) -> Vec<(String, i32)> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let mut found: Vec<_> = threads
        .filter_map(|thread| {
            let stat = fs::read_to_string(thread.ok()?.path().join("stat")).ok()?;
            let (before, after) = stat.split_once(") ")?;
            let (id, name) = before.split_once(" (")?;
            let nice = after.split(' ').nth(19 - 3)?.parse().ok()?;
            (name == "search-0").then(|| (id.to_owned(), nice))
        })
        .collect();
    found.sort();
    found
}

/// Threads of a tokio runtime cost a search of one millisecond as much again; and what is polite
/// twice waits for everybody.
fn a_kept_worker_keeps_its_threads() {
    let (place, workers) = (place(60), workers(options()));
    counts(&workers, &place, 60);
    let own = rustix::process::getpriority_process(None).unwrap();
    let [kept] = children()[..] else { panic!() };
    let before = searching_threads(kept);
    assert_eq!(before.len(), 1, "{before:?}");
    assert_eq!(
        before[0].1,
        own + SearchOptions::default().nice,
        "{before:?}"
    );
    // Where it has not said yet that it is done, another one is asked.
    (0..3).for_each(|_| counts(&workers, &place, 60));
    assert_eq!(searching_threads(kept), before);
}
