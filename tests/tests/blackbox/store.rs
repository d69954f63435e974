//! The embedded store as its users meet it: searched at once, exact over kills, read by others.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use inrush_tests::*;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::TCP;
use crate::disk::{grow_disk, on_a_small_disk};

const STORE: &str = "{ type: store }";
/// Written often, in small files, so that kills hit commits and compaction.
const HASTY: &str = "{ type: store, flush_bytes: 1MiB, flush_after: 100ms }";

fn into(store: &str, listen: &str) -> String {
    format!(
        "sources:\n  syslog:\n    type: syslog\n    listen: [{listen}]\n\
         destinations:\n  local: {store}\n"
    )
}

fn again(dir: TempDir, yaml: &str) -> Inrush {
    let dir = Some(dir);
    Inrush::with(
        yaml,
        Options {
            dir,
            ..Options::default()
        },
    )
}

/// The objects of an answer that comes line by line.
pub(crate) fn lines_of(inrush: &Inrush, path: &str) -> Vec<Value> {
    let mut stream = TcpStream::connect(inrush.admin()).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    // Of HTTP/1.0, so that the answer comes as it is and ends with the connection.
    write!(
        stream,
        "GET {path} HTTP/1.0\r\nhost: {}\r\n\r\n",
        inrush.admin()
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(" 200 "), "{path}: {text}");
    body.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn of_type<'a>(answer: &'a [Value], name: &str) -> Vec<&'a Value> {
    answer
        .iter()
        .filter(|object| object["type"] == name)
        .collect()
}

/// The first row of what a statement finds.
pub(crate) fn sql(inrush: &Inrush, statement: &str) -> Value {
    let statement = statement
        .replace(' ', "%20")
        .replace('=', "%3D")
        .replace('\'', "%27");
    let answer = lines_of(inrush, &format!("/api/v1/sql?q={statement}"));
    assert_eq!(of_type(&answer, "error"), Vec::<&Value>::new());
    of_type(&answer, "row")[0]["values"].clone()
}

fn found(inrush: &Inrush, query: &str) -> Vec<String> {
    let query = query.replace(' ', "%20").replace('"', "%22");
    let answer = lines_of(
        inrush,
        &format!("/api/v1/search?since=all&limit=1000&q={query}"),
    );
    assert_eq!(of_type(&answer, "error"), Vec::<&Value>::new());
    let events = of_type(&answer, "event");
    let end = of_type(&answer, "end");
    assert_eq!(end[0]["matched"], events.len(), "{answer:?}");
    let counted: u64 = of_type(&answer, "histogram").last().map_or(0, |h| {
        h["counts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|n| n.as_u64().unwrap())
            .sum()
    });
    assert_eq!(
        counted,
        events.len() as u64,
        "the histogram counts what is shown"
    );
    events
        .iter()
        .map(|event| event["msg_id"].as_str().unwrap_or("").to_owned())
        .collect()
}

#[test]
fn an_event_is_found_at_once_from_memory_and_later_from_its_file() {
    let inrush = Inrush::start(&into(STORE, TCP));
    let mut sender = Tcp::connect(inrush.address("tcp"));
    sender.send(lines(0..50));
    sender.send("<13>1 - fw9 app 7 IDX [x@1 user=\"Zoë\"] Access DENIED for root\n");
    let denied = || found(&inrush, "\"access denied\" fields.x@1.user=zoë");
    eventually("the event is found", || (denied() == ["IDX"]).then_some(()));
    assert_eq!(found(&inrush, "host=fw9"), ["IDX"]);
    assert_eq!(found(&inrush, "nothing-like-this"), Vec::<String>::new());
    assert_eq!(
        inrush.ledger().destinations["local"].delivered,
        0,
        "it is in no file yet"
    );
    let (exit, dir) = inrush.stop();
    assert!(exit.stderr.contains("delivered 51"), "{}", exit.stderr);
    let inrush = again(dir, &into(STORE, TCP));
    assert_eq!(
        found(&inrush, "\"access denied\""),
        ["IDX"],
        "now from the file"
    );
    assert_eq!(
        sql(&inrush, "select count(*), count(distinct seq) from events"),
        json!([51, 51])
    );
    let bad = inrush.http("GET", "/api/v1/search?q=host%3D(");
    assert_eq!(bad.status, 400);
    assert!(bad.json()["column"].is_u64(), "{bad:?}");
}

#[test]
fn what_comes_in_can_be_followed() {
    let inrush = Inrush::start(&into(STORE, TCP));
    let mut tail = TcpStream::connect(inrush.admin()).unwrap();
    tail.set_read_timeout(Some(DEADLINE)).unwrap();
    let host = inrush.admin();
    write!(
        tail,
        "GET /api/v1/tail?q=fw1 HTTP/1.0\r\nhost: {host}\r\n\r\n"
    )
    .unwrap();
    let mut text = String::new();
    let mut read_until = |what: &str| {
        let mut byte = [0; 1];
        while !text.contains(what) {
            tail.read_exact(&mut byte).unwrap();
            text.push(char::from(byte[0]));
        }
        text.clone()
    };
    // The first sign of life: it follows from here on.
    read_until("\n:\n");
    let mut sender = Tcp::connect(inrush.address("tcp"));
    sender.send("<13>1 - fw2 app - OTHER - hello\n<13>1 - fw1 app - MINE - hello\n");
    let seen = read_until("\"MINE\"");
    assert!(!seen.contains("OTHER"), "{seen}");
}

/// How often the process is killed: 8 times, or as often as `INRUSH_STORE_KILLS` says.
fn kills() -> u32 {
    let asked = std::env::var("INRUSH_STORE_KILLS").ok();
    asked.map_or(8, |kills| kills.parse().unwrap())
}

/// Besides the events that must be there, others of an index whose old files are always too many:
/// so kills hit ingestion, compaction and retention.
#[test]
fn every_answered_event_is_there_once_over_kills() {
    const EACH: u32 = 300;
    let store = HASTY.replace('}', ", indexes: { junk: { bytes: 20KiB } } }");
    let yaml = into(&store, "relp://127.0.0.1:0").replace(
        "destinations:",
        "  junk:\n    type: syslog\n    listen: [tcp://127.0.0.1:0]\n    index: junk\ndestinations:",
    );
    let (mut dir, mut merged, mut expired) = (None, 0.0, 0.0);
    for life in 0..kills() {
        let inrush = Inrush::with(
            &yaml,
            Options {
                dir,
                ..Options::default()
            },
        );
        let mut junk = Tcp::connect(inrush.address("tcp"));
        let mut relp = Relp::open(inrush.address("relp"));
        let numbers: Vec<u32> = (0..EACH)
            .map(|n| relp.syslog(&format!("<13>1 - h a - L{life}N{n} - {:x<900}", "")))
            .collect();
        junk.send(lines(0..300));
        relp.acked(numbers);
        if life % 2 == 1 {
            // Beyond the next commit, and compaction of what is there.
            inrush.wait_until("delivered", |l| l.destinations["local"].pending == 0);
        }
        // By then there are enough of one size.
        if life % 32 == 31 {
            eventually("small files are merged", || {
                (metric(&inrush, "inrush_store_compacted_files_total") > 0.0).then_some(())
            });
        }
        merged += metric(&inrush, "inrush_store_compacted_files_total");
        expired += metric(&inrush, "inrush_store_expired_events_total");
        dir = Some(inrush.kill().1);
    }
    let inrush = again(dir.unwrap(), &yaml);
    inrush.wait_until("all delivered", |l| l.destinations["local"].pending == 0);
    merged += metric(&inrush, "inrush_store_compacted_files_total");
    let all = u64::from(kills() * EACH);
    let counts = "select count(*), count(distinct seq), count(distinct msg_id) from events";
    let main = format!("{counts} where index = 'main'");
    assert_eq!(sql(&inrush, &main), json!([all, all, all]));
    let everything = sql(&inrush, counts);
    assert_eq!(
        everything[0], everything[1],
        "of the others none is there twice either"
    );
    eprintln!("files merged: {merged}, events expired: {expired}, in the end {everything}");
    let (_, dir) = inrush.stop();
    duckdb_counts(dir.path(), all);
}

/// The sum of all values of a metric.
pub(crate) fn metric(inrush: &Inrush, name: &str) -> f64 {
    let page = inrush.http("GET", "/metrics").body;
    let of = page.lines().filter(|line| line.starts_with(name));
    of.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
        .sum()
}

/// A program that `make test` installs from PyPI.
pub(crate) fn python_tool(name: &str) -> Option<PathBuf> {
    let tools = binary().parent()?.join("../tools/python/bin");
    Some(tools.join(name)).filter(|program| program.is_file())
}

/// What another engine finds in the files, if there is one.
pub(crate) fn duckdb_counts(dir: &Path, events: u64) {
    let Some(python) = python_tool("python") else {
        skip!("no DuckDB here: `make test` installs it from PyPI");
    };
    let script = "import duckdb, sys; print(*duckdb.sql(\"select count(*), count(distinct seq), \
                  count(distinct msg_id), min(length(raw)) from '\" + sys.argv[1] + \
                  \"/data/store/main/**/*.parquet'\").fetchall()[0])";
    let said = run_ok(Command::new(python).args(["-c", script]).arg(dir));
    let counts: Vec<u64> = said
        .split_whitespace()
        .map(|n| n.parse().unwrap())
        .collect();
    assert_eq!(counts[..3], [events; 3]);
    assert!(counts[3] > 900, "{said}");
}

/// Text that no compressor makes much smaller.
fn noise(seed: u64) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        format!("{state:016x}")
    };
    (0..16).map(|_| next()).collect()
}

#[test]
fn a_full_disk_holds_events_that_can_be_searched_all_the_while() {
    const SENT: u64 = 20_000;
    let store = "{ type: store, path: \"{dir}/disk/store\", free: 0B, flush_after: 200ms }";
    let Some(inrush) = on_a_small_disk(&into(store, TCP)) else {
        skip!("a small disk cannot be mounted here")
    };
    let mut tcp = Tcp::connect(inrush.address("tcp"));
    for n in 0..SENT {
        tcp.send(format!("<13>1 - h a - N{n} - {}\n", noise(n)));
    }
    eventually("the full disk to be noticed", || {
        (inrush.destination()["errors"]["disk_full"].as_u64()? >= 1).then_some(())
    });
    inrush.wait_until("all accepted", |l| l.sources["syslog"].accepted == SENT);
    let row = &inrush.ledger().destinations["local"];
    assert!(row.pending > 0 && row.dropped.is_empty() && row.quarantined.is_empty());
    let counts = "select count(*), count(distinct msg_id) from events";
    eventually("all are found, from files and from memory", || {
        (sql(&inrush, counts) == json!([SENT, SENT])).then_some(())
    });
    grow_disk(&inrush);
    inrush.wait_until("all delivered", |l| {
        l.destinations["local"].delivered == SENT && l.destinations["local"].pending == 0
    });
    assert_eq!(sql(&inrush, counts), json!([SENT, SENT]));
}

#[test]
fn a_damaged_file_is_an_alarm_and_costs_only_itself() {
    let inrush = Inrush::start(&into(HASTY, TCP));
    let mut tcp = Tcp::connect(inrush.address("tcp"));
    let mut sent = 0;
    let mut send_and_wait = || {
        tcp.send(lines(sent..sent + 100));
        sent += 100;
        inrush.wait_until("delivered", |l| {
            l.destinations["local"].delivered == sent as u64
        });
    };
    send_and_wait();
    let folder = inrush.path("data/store/main");
    let mut open = vec![folder];
    let mut files = Vec::new();
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => open.push(path),
                false => files.push(path),
            }
        }
    }
    // One file, or two where the hour has just changed.
    for file in &files {
        let length = std::fs::metadata(file).unwrap().len() as usize;
        std::fs::write(file, vec![0xff; length]).unwrap();
    }
    send_and_wait();
    assert_eq!(
        sql(&inrush, "select count(distinct msg_id) from events"),
        json!([100]),
        "the others are found"
    );
    assert_eq!(
        metric(&inrush, "inrush_store_bad_files"),
        files.len() as f64
    );
    let stored = inrush.stored("local");
    assert_eq!((stored.unreadable, stored.searchable), (100, 100));
    let flow = inrush.json("/api/v1/flow");
    assert_eq!(flow["alarms"][0]["id"], "store-unreadable:local", "{flow}");
    assert_eq!(flow["alarms"][0]["severity"], "warning");
}

#[test]
fn every_value_of_a_repeated_parameter_is_found() {
    let inrush = Inrush::start(&into(STORE, TCP));
    let params = "[sc@2620 uid=\"aaaa\" uid=\"Bbbb\" uid=\"c*c\" n=\"1\"]\
                  [origin ip=\"192.0.2.1\" ip=\"192.0.2.129\"]";
    let lines = [
        format!("<134>1 - gw1 CheckPoint - ID1 {params} x\n"),
        "<134>1 - gw1 CheckPoint - ID2 [sc@2620 uid=\"aaaa\" n=\"2\"] x\n".to_owned(),
        "<134>1 - gw1 CheckPoint - ID3 - x\n".to_owned(),
    ];
    Tcp::connect(inrush.address("tcp")).send(lines.concat());
    inrush.wait_until("delivered", |l| l.destinations["local"].delivered == 3);
    for (query, wanted) in [
        ("\"sc@2620.uid\"=aaaa", 2),
        ("\"sc@2620.uid\"=bbbb", 1),
        ("\"sc@2620.uid\"=BBBB", 1),
        ("\"sc@2620.uid\"=b*", 1),
        ("\"sc@2620.uid\"=\"c*c\"", 1),
        ("\"sc@2620.uid\"=(x OR bbbb)", 1),
        ("\"sc@2620.uid\"!=bbbb", 1),
        ("-\"sc@2620.uid\"=bbbb", 2),
        ("\"sc@2620.uid\"=*", 2),
        ("\"sc@2620.uid\"=bbb", 0),
        ("\"origin.ip\"=192.0.2.1", 1),
        ("\"origin.ip\"=192.0.2.129", 1),
        ("\"origin.ip\"=192.0.2.*", 1),
        ("\"sc@2620.n\"%3E1", 1),
    ] {
        assert_eq!(found(&inrush, query).len(), wanted, "{query}");
    }
}
