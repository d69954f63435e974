//! Thousands of connections to a HEC server, most of them idle, and requests of one event.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use inrush_harness::lab::BenchHarness;
use inrush_harness::measure::{ScenarioCheck, ScenarioResult};
use inrush_harness::meter::process_rss_mib;
use inrush_harness::sender::{Amount, HecRequests, LoadShape, Wire};
use inrush_harness::subject::{BenchSubject, SinkProcess, User};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::hec_server;
use super::tell;

/// Connections that have been used once.
const IDLE: usize = 10_000;

/// Connections that send.
const ACTIVE: u64 = 1_000;

/// Memory of an idle connection at most, KiB.
const IDLE_KIB_MAX: f64 = 20.0;

/// Requests a second at least.
const REQUESTS_MIN: f64 = 20_000.0;

/// Descriptors that a process needs beside those of connections or files, amply.
const DESCRIPTORS: u64 = 1_000;

/// Answers that are awaited at once.
const AT_ONCE: usize = 500;

/// Longest wait for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(20);

const HEALTH: &[u8] = b"GET /services/collector/health HTTP/1.1\r\nHost: bench\r\n\r\n";

const ONE_EVENT: HecRequests = HecRequests {
    events: 1,
    gzip: false,
    raw: false,
};

/// Runs it.
pub(super) fn run(lab: &BenchHarness) -> Result<ScenarioResult> {
    let shows = "10,000 idle and 1,000 active connections, requests of one event, HEC in, durable \
                 before the answer, HEC out";
    tell(shows);
    raise_descriptors(IDLE as u64 + ACTIVE)?;
    let sink = SinkProcess::start(&[])?;
    let load = &hec_server::LOADS[0];
    let mut inrush = lab.start_inrush(&load.inrush(), Some(&sink), User::Ours)?;
    let address = inrush.address(Wire::Hec(ONE_EVENT))?;
    let before = process_rss_mib(inrush.pid())?;
    let idle = idle_connections(&address)?;
    let idle_kib = (process_rss_mib(inrush.pid())? - before) * 1024.0 / IDLE as f64;
    tell(&format!("  {idle_kib:.2} KiB an idle connection"));
    let shape = LoadShape {
        wire: Wire::Hec(ONE_EVENT),
        connections: ACTIVE,
        ..load.shape()
    };
    let seconds = lab.terms.seconds.ceil() as u64;
    let amount = Amount::Seconds(seconds);
    let run = lab.measure(&mut inrush, Some(&sink), &shape, amount, None)?;
    tell(&format!("  {:.0} requests/s", run.offered_rate));
    let open = idle.iter().filter(|stream| is_open(stream)).count();
    let mut scenario = lab.scenario(shows);
    scenario.checks = vec![
        ScenarioCheck::new(
            format!("at most {IDLE_KIB_MAX} KiB an idle connection"),
            format!("{idle_kib:.2} KiB"),
            idle_kib <= IDLE_KIB_MAX,
        ),
        ScenarioCheck::new(
            "idle connections stay open",
            format!("{open} of {IDLE}"),
            open == IDLE,
        ),
        ScenarioCheck::new(
            format!("at least {REQUESTS_MIN} requests/s of one event"),
            format!("{:.0}/s", run.offered_rate),
            run.offered_rate >= REQUESTS_MIN,
        ),
    ];
    let load = format!("{ACTIVE} conn beside {IDLE} idle, 1,024 B, 1 a request");
    scenario.add_inrush(load, vec![run]);
    Ok(scenario)
}

/// Raises the limit of open files for this process and for those that it starts, which need so many
/// for connections or files.
pub(super) fn raise_descriptors(number: u64) -> Result<()> {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let needed = number + DESCRIPTORS;
    ensure!(
        most >= needed,
        "the hard limit of open files is {most}, and {needed} are needed: ulimit -Hn"
    );
    setrlimit(Resource::RLIMIT_NOFILE, most, most).context("RLIMIT_NOFILE")
}

/// Connections on each of which one request was answered: nothing of it is an event.
fn idle_connections(address: &str) -> Result<Vec<TcpStream>> {
    let mut all = Vec::with_capacity(IDLE);
    while all.len() < IDLE {
        let from = all.len();
        for _ in 0..AT_ONCE.min(IDLE - from) {
            let mut stream = TcpStream::connect(address)
                .with_context(|| format!("connection {} to {address}", all.len()))?;
            stream.write_all(HEALTH)?;
            all.push(stream);
        }
        for mut stream in &all[from..] {
            stream.set_read_timeout(Some(ANSWER_MAX))?;
            let mut answer = [0; 1024];
            let length = stream.read(&mut answer).context("the answer to a probe")?;
            ensure!(
                answer[..length].starts_with(b"HTTP/1.1 200"),
                "a probe was answered {:?}",
                String::from_utf8_lossy(&answer[..length])
            );
        }
    }
    Ok(all)
}

/// True if the other side has not closed it.
fn is_open(stream: &TcpStream) -> bool {
    let peeked = stream
        .set_nonblocking(true)
        .and_then(|()| stream.peek(&mut [0]));
    peeked.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}
