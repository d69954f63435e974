//! Searches that mean harm, and pages that would have a browser send them: the process goes on,
//! counts everything, and answers the next search.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use inrush_tests::*;

use crate::TCP;

/// Events that each test sends.
const EVENTS: usize = 5_000;

/// Memory of the receiving process at most: what it has without any search, and some.
const RSS_MAX: u64 = 256 << 20;

fn stored() -> Inrush {
    let inrush = Inrush::start(&format!(
        "sources:\n  syslog:\n    type: syslog\n    listen: [{TCP}]\n\
         destinations:\n  local: {{ type: store }}\n"
    ));
    Tcp::connect(inrush.address("tcp")).send(lines(0..EVENTS));
    eventually("all are searchable", || {
        let body = sql(&inrush, "select count(*) from events").body;
        body.contains(&counted(EVENTS)).then_some(())
    });
    inrush
}

fn counted(events: usize) -> String {
    format!("\"values\":[{events}]")
}

fn encoded(text: &str) -> String {
    let byte = |b: u8| match b {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(b).to_string(),
        b => format!("%{b:02x}"),
    };
    text.bytes().map(byte).collect()
}

fn sql(inrush: &Inrush, statement: &str) -> HttpAnswer {
    inrush.http("GET", &format!("/api/v1/sql?q={}", encoded(statement)))
}

/// A text of ten times as many letters for each level.
fn long(letter: char, levels: usize) -> String {
    let ten = letter.to_string().repeat(10);
    let nest = |inner: String, _| format!("replace({inner},'{letter}','{ten}')");
    (0..levels).fold(format!("'{ten}'"), nest)
}

/// A statement that never yields.
fn hog() -> String {
    format!("select levenshtein({},{})", long('a', 5), long('b', 5))
}

/// Asks and does not read the answer.
fn ask(inrush: &Inrush, statement: &str) -> TcpStream {
    let request = format!(
        "GET /api/v1/sql?q={} HTTP/1.1\r\nhost: localhost\r\n\r\n",
        encoded(statement)
    );
    let mut stream = TcpStream::connect(inrush.admin()).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

/// The processes that search for this one.
fn workers(inrush: &Inrush) -> Vec<u32> {
    let parent = inrush.pid().to_string();
    let child = |stat: String| -> Option<u32> {
        let (pid, _) = stat.split_once(' ')?;
        let (_, rest) = stat.rsplit_once(") ")?;
        (rest.split(' ').nth(1)? == parent).then(|| pid.parse().ok())?
    };
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let stats = processes.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    stats.filter_map(child).collect()
}

/// All is as it was: another search, and every event.
fn goes_on(inrush: &Inrush, after: &str) {
    let answer = sql(inrush, "select count(*) from events");
    assert!(
        answer.body.contains(&counted(EVENTS)),
        "{after}: {answer:?}"
    );
    assert!(
        inrush.rss_bytes() < RSS_MAX,
        "{after}: {}",
        inrush.rss_bytes()
    );
}

#[test]
fn searches_for_all_memory_end_and_cost_nobody_else() {
    let inrush = stored();
    let statements = [
        format!("select length({})", long('a', 9)),
        "select array_agg(a.raw||b.raw) from events a, events b".to_owned(),
        "select length(string_agg(a.raw||b.raw,',')) from events a, events b".to_owned(),
        "select distinct a.raw||b.raw from events a, events b".to_owned(),
        "select sum(length(x)) from (select string_agg(raw,'') over (order by raw) x \
         from events)"
            .to_owned(),
    ];
    for statement in statements {
        let body = sql(&inrush, &statement).body;
        assert!(
            body.contains("\"stopped\":\"memory\""),
            "{statement}: {body}"
        );
        goes_on(&inrush, &statement);
    }
    inrush.conserved(EVENTS as u64);
    assert!(inrush.ledger().balanced);
}

#[test]
fn a_search_that_never_yields_ends_with_its_asker() {
    let inrush = stored();
    let hog = hog();
    let before = workers(&inrush).len();
    let hogs: Vec<TcpStream> = (0..6).map(|_| ask(&inrush, &hog)).collect();
    eventually("six searches run", || {
        (workers(&inrush).len() >= before.max(6)).then_some(())
    });
    goes_on(&inrush, "while they run");
    drop(hogs);
    // Two may be kept for the next searches.
    eventually("nothing of them runs", || {
        (workers(&inrush).len() <= 2).then_some(())
    });
    goes_on(&inrush, "when their askers have gone");
    assert!(inrush.ledger().balanced);
}

#[test]
fn workers_end_with_the_process_that_started_them() {
    let inrush = stored();
    // One without a search may have ended already; one that never yields has not.
    let _asker = ask(&inrush, &hog());
    eventually("it searches", || {
        (workers(&inrush).len() == 1).then_some(())
    });
    let mine = workers(&inrush);
    inrush.kill();
    eventually("it has ended", || {
        // One that nobody has waited for has no program any more.
        let runs = |pid: &u32| fs::read_link(format!("/proc/{pid}/exe")).is_ok();
        (!mine.iter().any(runs)).then_some(())
    });
}

/// The status of a request with these header lines.
fn status(address: SocketAddr, line: &str, headers: &str) -> u16 {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let request = format!(
        "{line} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-length: 0\r\n{headers}\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    for name in [
        "x-frame-options: DENY",
        "cross-origin-resource-policy: same-origin",
        "cross-origin-opener-policy: same-origin",
        "frame-ancestors 'none'",
    ] {
        assert!(text.contains(name), "{line}: {text}");
    }
    text[9..12].parse().unwrap()
}

#[test]
fn no_page_of_another_site_reaches_the_api_in_any_mode() {
    let inrush = stored();
    let address = inrush.admin();
    let paths = [
        "/api/v1/sql?q=select%201",
        "/api/v1/search?q=x",
        "/api/v1/ledger",
        "/metrics",
        "/healthz",
        "/ledger",
    ];
    for (mode, dest) in [
        ("navigate", "document"),
        ("navigate", "iframe"),
        ("navigate", "object"),
        ("no-cors", "image"),
        ("no-cors", "empty"),
        ("cors", "empty"),
        ("websocket", "websocket"),
    ] {
        for site in ["cross-site", "same-site"] {
            let headers = format!(
                "sec-fetch-site: {site}\r\nsec-fetch-mode: {mode}\r\nsec-fetch-dest: {dest}\r\n"
            );
            for path in paths {
                let got = status(address, &format!("GET {path}"), &headers);
                assert_eq!(got, 403, "{site} {mode} {dest} {path}");
            }
            let post = status(address, "POST /api/v1/reload", &headers);
            assert_eq!(post, 403, "{site} {mode} {dest}");
        }
    }
    let evil = "referer: http://evil.example/\r\n";
    assert_eq!(status(address, "GET /api/v1/sql?q=select%201", evil), 403);
    for path in paths {
        assert_eq!(
            status(address, &format!("GET {path}"), ""),
            200,
            "curl {path}"
        );
    }
    let link = "sec-fetch-site: cross-site\r\nsec-fetch-mode: navigate\r\n\
                sec-fetch-dest: document\r\n";
    assert_ne!(
        status(address, "GET /", link),
        403,
        "a link to the dashboard"
    );
}

#[test]
fn a_browser_asks_nothing_for_a_page_of_another_site() {
    let Some(chromium) = tool("chromium") else {
        skip!("chromium is not installed");
    };
    let inrush = stored();
    let address = inrush.admin();
    let folder = tempfile::tempdir().unwrap();
    let target = format!("http://{address}/api/v1/sql?q=select%204711");
    let page = format!(
        "<iframe src=\"{target}\"></iframe><img src=\"{target}\"><script src=\"{target}\"></script>\
         <object data=\"{target}\"></object><form id=f action=\"{target}\" target=g></form>\
         <iframe name=g></iframe><script>f.submit();fetch('{target}',{{mode:'no-cors'}})</script>"
    );
    fs::write(folder.path().join("page.html"), page).unwrap();
    let log = folder.path().join("net.json");
    run_ok(
        Command::new(chromium)
            .args(["--headless=new", "--no-sandbox", "--disable-gpu"])
            .arg(format!(
                "--user-data-dir={}",
                folder.path().join("p").display()
            ))
            .args(["--virtual-time-budget=3000", "--dump-dom"])
            .arg(format!("--log-net-log={}", log.display()))
            .arg(format!(
                "file://{}",
                folder.path().join("page.html").display()
            )),
    );
    // It has the heads of all answers.
    let heads = String::from_utf8_lossy(&fs::read(log).unwrap()).into_owned();
    let answers = |status: &str| heads.matches(&format!("HTTP/1.1 {status}")).count();
    assert!(answers("403") > 0, "the browser asked nothing");
    assert_eq!(answers("200"), 0);
    goes_on(&inrush, "the browser");
}
