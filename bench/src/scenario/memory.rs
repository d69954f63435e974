//! Small control groups at full load: the process lives, and accounts for every event.
//!
//! In each group: packs, the store and a collector that is dead; connections with unfinished
//! frames, TCP as fast as it goes, UDP at a fixed rate, and four searches asked again and again.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use inrush_harness::child::{free_port, wait};
use inrush_harness::group::ControlGroup;
use inrush_harness::lab::BenchHarness;
use inrush_harness::measure::{Cell, RunResult, ScenarioCheck, ScenarioResult};
use inrush_harness::meter::{
    Metered, Window, calibrate_ms, process_rss_mib, process_rss_peak_mib, softnet_dropped,
};
use inrush_harness::probe;
use inrush_harness::sender::{self, Amount, LoadShape, Wire};
use inrush_harness::stats::per_event;
use inrush_harness::subject::{BenchSubject, Inrush, SubjectProgress, drain};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::Value;

use super::store::MIXED;
use super::tell;

/// Limits of memory, MiB.
const LIMITS_MIB: [u64; 3] = [128, 256, 512];

/// Connections that each hold a frame that never ends, and its bytes.
const CONNECTIONS: usize = 4500;
const FRAME_BYTES: usize = 60_000;

/// Datagrams a second.
const UDP_RATE: u64 = 20_000;

/// Between two looks at the group.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Long enough for the next look at what the allocator holds free.
const AFTER: Duration = Duration::from_secs(10);

const TEMPLATE: &str = include_str!("../../inrush/memory.yaml");
const STORE: &str = "local";

const SEARCHES: [&str; 4] = [
    "/api/v1/search?q=error%20OR%20host%3Dx&limit=100",
    "/api/v1/search?q=%2A&limit=50",
    "/api/v1/sql?q=select%20host,count(*)%20from%20events%20group%20by%20host",
    "/api/v1/sql?q=select%20count(*)%20from%20events",
];

/// Runs it.
pub(super) fn run(lab: &BenchHarness) -> Result<ScenarioResult> {
    let seconds = lab.terms.memory_seconds;
    let shows = format!(
        "control groups of 128, 256 and 512 MiB for {seconds} s each: packs, store, a dead \
         collector, {CONNECTIONS} connections with unfinished frames of {} kB, TCP as fast as it \
         goes, UDP at {UDP_RATE}/s, four searches without a pause",
        FRAME_BYTES / 1000,
    );
    tell(&shows);
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).context("the limit of open files")?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most).context("the limit of open files")?;
    let mut scenario = lab.scenario(&shows);
    for mib in LIMITS_MIB {
        let (cell, checks) = one(lab, mib, seconds).with_context(|| format!("{mib} MiB"))?;
        for check in &checks {
            tell(&format!("  {}: {}", check.what, check.found));
        }
        scenario.checks.extend(checks);
        scenario.checks.push(cell.accounts());
        scenario.cells.push(cell);
    }
    scenario.ended = lab.scenario(&shows).ended;
    Ok(scenario)
}

/// Peaks that were seen while the load ran.
#[derive(Default)]
struct MemoryPeaks {
    lives: bool,
    rss_mib: f64,
    /// Answers by how they ended.
    answers: BTreeMap<String, u64>,
}

fn one(lab: &BenchHarness, mib: u64, seconds: u64) -> Result<(Cell, Vec<ScenarioCheck>)> {
    let group = ControlGroup::new(mib << 20)?;
    let template = TEMPLATE.replace("@DEAD@", &free_port()?.to_string());
    let mut inrush = lab.start_inrush_within(&template, &group)?.watching(STORE);
    let pid = inrush.pid();
    let calibration_ms = calibrate_ms();
    let backlog = softnet_dropped()?;
    let window = Window::open(pid, None)?;
    let held = unfinished(&inrush.address(Wire::Tcp)?)?;
    let (seen, sent, offered_rate) = load(lab, &mut inrush, seconds)?;
    let killed = group.killed()?;
    let what = |what: &str| format!("{mib} MiB: {what}");
    let lives = ScenarioCheck::new(
        what("the same process lives, and the kernel has killed none in the group"),
        match seen.lives {
            true => format!("process {pid}, {killed} killed"),
            false => format!("ended: {}; {killed} killed", inrush.last_words()),
        },
        seen.lives && killed == 0,
    );
    let mut cell = Cell::new(
        "inrush",
        format!("{mib} MiB, TCP 4 conn full rate, UDP {UDP_RATE}/s, 300 B, {seconds} s"),
        Vec::new(),
    );
    if !seen.lives {
        return Ok((cell, vec![lives]));
    }
    // A frame that does not end is an event when it is given up, or with its connection.
    drop(held);
    let sent = sent + CONNECTIONS as u64;
    let last = drain(&mut inrush, sent)?;
    let metered = window.close()?;
    let peak_mib = group.peak_bytes()? >> 20;
    wait(AFTER);
    let after = process_rss_mib(pid)?;
    let answered = answered(&seen.answers);
    let words: Vec<String> = seen
        .answers
        .iter()
        .map(|(how, n)| format!("{how}: {n}"))
        .collect();
    let mut run = accounted(&metered, &last, sent);
    (run.offered_rate, run.calibration_ms) = (offered_rate, calibration_ms);
    run.rss_peak_mib = process_rss_peak_mib(pid)?;
    run.wrong = wrong(&inrush.ledger()?, sent, softnet_dropped()? - backlog);
    cell.runs.push(run);
    let memory = format!(
        "group {peak_mib} MiB, resident {:.0} MiB with pages of the program; {after:.0} MiB after",
        seen.rss_mib
    );
    let checks = vec![
        lives,
        ScenarioCheck::new(what("memory at most"), memory, peak_mib <= mib),
        ScenarioCheck::new(
            what("searches are answered"),
            words.join(", "),
            answered > 0,
        ),
    ];
    Ok((cell, checks))
}

/// The measurement until all of `sent` events were drained.
fn accounted(metered: &Metered, last: &SubjectProgress, sent: u64) -> RunResult {
    RunResult {
        sent,
        delivered: last.delivered,
        kernel_dropped: last.kernel_dropped,
        unaccounted: last.unaccounted(sent),
        seconds: metered.wall.as_secs_f64(),
        user_us: metered.cpu.user_us,
        sys_us: metered.cpu.sys_us,
        us_per_event: per_event(metered.cpu.total_us(), last.delivered).unwrap_or_default(),
        others_pct: metered.others_pct,
        steal_pct: metered.steal_pct,
        disk_bytes: metered.disk_bytes,
        ..RunResult::default()
    }
}

/// Connections, each with a frame that does not end.
fn unfinished(address: &str) -> Result<Vec<TcpStream>> {
    let frame = [b"<13>".as_slice(), &vec![b'x'; FRAME_BYTES]].concat();
    let open = |_| {
        let mut stream = TcpStream::connect(address).context("a connection")?;
        stream.write_all(&frame).context("an unfinished frame")?;
        Ok(stream)
    };
    (0..CONNECTIONS).map(open).collect()
}

/// Sends over TCP and UDP while searches are asked; how many events, and how many a second.
fn load(lab: &BenchHarness, inrush: &mut Inrush, seconds: u64) -> Result<(MemoryPeaks, u64, f64)> {
    let shapes = [
        LoadShape { rate: 0, ..MIXED },
        LoadShape {
            wire: Wire::Udp,
            connections: 1,
            rate: UDP_RATE,
            ..MIXED
        },
    ];
    let mut senders = Vec::new();
    for shape in &shapes {
        let address = inrush.address(shape.wire)?;
        let amount = Amount::Seconds(seconds);
        senders.push(sender::start(&lab.inrush, &address, shape, amount, None)?);
    }
    let over = AtomicBool::new(false);
    let admin = inrush.admin().to_owned();
    let mut seen = MemoryPeaks::default();
    thread::scope(|scope| {
        let (over, admin) = (&over, admin.as_str());
        let asking = SEARCHES.map(|path| scope.spawn(move || ask(admin, path, over)));
        let watched = watch(inrush, &mut seen, seconds);
        over.store(true, Relaxed);
        for thread in asking {
            add(&mut seen.answers, thread)?;
        }
        watched
    })?;
    if !seen.lives {
        return Ok((seen, 0, 0.0));
    }
    let (mut events, mut rate) = (0, 0.0);
    for sender in senders {
        let sent = sender.finish()?;
        ensure!(!sent.is_broken, "the generator saw {:?}", sent.errors);
        // What was cut short is an event when its connection ends.
        events += sent.events + sent.cut_short;
        rate += sent.rate;
    }
    Ok((seen, events, rate))
}

fn watch(inrush: &mut Inrush, seen: &mut MemoryPeaks, seconds: u64) -> Result<()> {
    let begun = Instant::now();
    seen.lives = inrush.runs();
    while seen.lives && begun.elapsed() < Duration::from_secs(seconds) {
        seen.rss_mib = seen
            .rss_mib
            .max(process_rss_mib(inrush.pid()).unwrap_or(0.0));
        wait(LOOK_EVERY);
        seen.lives = inrush.runs();
    }
    Ok(())
}

type AnswerCounts = BTreeMap<String, u64>;

/// Asks again and again; how the answers ended.
fn ask(admin: &str, path: &str, over: &AtomicBool) -> AnswerCounts {
    let mut answers = AnswerCounts::new();
    while !over.load(Relaxed) {
        let how = match probe::end(admin, path) {
            Ok(end) => match end["stopped"].as_str() {
                None => ANSWERED.to_owned(),
                Some(why) => format!("ended at {why}"),
            },
            // What the addresses are is of no use here.
            Err(error) => error.root_cause().to_string(),
        };
        *answers.entry(how).or_default() += 1;
    }
    answers
}

const ANSWERED: &str = "answered";

fn answered(answers: &AnswerCounts) -> u64 {
    let whole = [ANSWERED, "ended at limit"];
    whole.iter().filter_map(|how| answers.get(*how)).sum()
}

fn add(all: &mut AnswerCounts, thread: ScopedJoinHandle<'_, AnswerCounts>) -> Result<()> {
    let answers = thread
        .join()
        .map_err(|_| anyhow::anyhow!("a search panicked"))?;
    for (how, count) in answers {
        *all.entry(how).or_default() += count;
    }
    Ok(())
}

/// Differences of a ledger from what was sent. The dead collector may have all of it pending, or
/// dropped beyond its budget; packs may have events filtered. Of the datagrams as many may be in no
/// socket's count as the kernel dropped for a full `backlog`: those of TCP are sent again.
fn wrong(ledger: &Value, sent: u64, backlog: u64) -> Option<String> {
    let source = &ledger["sources"]["syslog"];
    let count = |key: &str| source[key].as_u64().unwrap_or(0);
    let store = &ledger["destinations"][STORE];
    let (received, dropped) = (count("received"), count("kernel_dropped"));
    let mut wrong = Vec::new();
    if ledger["balanced"] != Value::Bool(true) {
        wrong.push("not balanced".to_owned());
    }
    let missing = sent.checked_sub(received + dropped);
    if missing.is_none_or(|missing| missing > backlog) {
        wrong.push(format!(
            "received {received} + kernel_dropped {dropped} is not {sent}, and {backlog} packets \
             were lost before any socket (softnet backlog)"
        ));
    }
    if store["pending"].as_u64() != Some(0) {
        wrong.push(format!("the store has {} pending", store["pending"]));
    }
    (!wrong.is_empty()).then(|| wrong.join("; "))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn ledger(received: u64, dropped: u64, pending: u64) -> Value {
        json!({
            "balanced": true,
            "sources": {"syslog": {"received": received, "kernel_dropped": dropped}},
            "destinations": {"local": {"pending": pending}, "dead": {"pending": received}},
        })
    }

    #[test]
    fn the_dead_collector_may_have_all_pending_and_the_store_nothing() {
        assert_eq!(wrong(&ledger(7, 3, 0), 10, 0), None);
        assert!(wrong(&ledger(7, 3, 1), 10, 0).unwrap().contains("pending"));
        assert!(
            wrong(&ledger(7, 2, 0), 10, 0)
                .unwrap()
                .contains("is not 10")
        );
        assert!(
            wrong(&ledger(7, 2, 0), 11, 1)
                .unwrap()
                .contains("is not 11")
        );
        assert!(
            wrong(&ledger(7, 4, 0), 10, 1)
                .unwrap()
                .contains("is not 10")
        );
        assert_eq!(wrong(&ledger(7, 2, 0), 10, 1), None);
        let mut unbalanced = ledger(7, 3, 0);
        unbalanced["balanced"] = json!(false);
        assert_eq!(wrong(&unbalanced, 10, 0).unwrap(), "not balanced");
    }

    #[test]
    fn only_whole_answers_count() {
        let answers = |how: &str| AnswerCounts::from([(how.to_owned(), 3)]);
        assert_eq!(answered(&answers("answered")), 3);
        assert_eq!(answered(&answers("ended at limit")), 3);
        assert_eq!(answered(&answers("ended at memory")), 0);
    }
}
