//! Killed with a large backlog and started again: how soon it accepts, how fast it then drains.

use std::fs::File;
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use inrush_harness::child::{free_port, wait};
use inrush_harness::lab::BenchHarness;
use inrush_harness::measure::{ScenarioCheck, ScenarioResult};
use inrush_harness::sender::{self, Amount, Wire};
use inrush_harness::subject::{BenchSubject, Inrush, SinkProcess, SubjectProgress, User, drain};
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::sys::statvfs::statvfs;

use super::dead::EVENT_BYTES;
use super::{REFERENCE, tell};

/// Within so many seconds it must have accepted an event.
const SECONDS_MAX: f64 = 2.0;

/// Disk that is left to others, in bytes.
const SPARE_BYTES: u64 = 4 << 30;

/// A queue that does not grow for so long is written.
const SETTLED: Duration = Duration::from_secs(1);

/// Time for which the answer to one event is waited for.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Runs it.
pub(super) fn run(lab: &BenchHarness) -> Result<ScenarioResult> {
    let shows = format!(
        "killed with {} GiB of backlog, started again",
        lab.terms.gib
    );
    tell(&shows);
    let port = free_port()?;
    let template = include_str!("../../inrush/startup.yaml").replace("@SINK@", &port.to_string());
    let sent = fill(lab, &template)?;
    let on_disk = lab.queue_bytes()?;
    forget_cached(lab)?;
    tell(&format!(
        "  {sent} events, {:.2} GB, killed",
        on_disk as f64 / 1e9
    ));
    let begun = Instant::now();
    let (config, dir) = (lab.inrush_config(), lab.inrush_dir());
    let mut inrush = Inrush::start(&lab.inrush, Some(&config), &dir, User::Ours)?;
    let ready = begun.elapsed().as_secs_f64();
    let accepted = first_accepted(&inrush, begun)?;
    tell(&format!(
        "  ready after {ready:.3} s, accepted after {accepted:.3} s"
    ));
    let begun = Instant::now();
    let sink = SinkProcess::start(&[&format!("--listen=127.0.0.1:{port}")])?;
    let all = sent + 1;
    let last = drain(&mut inrush, all)?;
    let seconds = begun.elapsed().as_secs_f64();
    let arrived = sink.counts()?.events;
    let mut scenario = lab.scenario(&shows);
    scenario.checks = vec![
        ScenarioCheck::new(
            format!("ready, and an event accepted, within {SECONDS_MAX:.0} s"),
            format!(
                "{ready:.2} s and {accepted:.2} s, {:.2} GB in the queue, out of the page cache",
                on_disk as f64 / 1e9
            ),
            ready.max(accepted) <= SECONDS_MAX && on_disk >= sent * REFERENCE.size,
        ),
        drained(&last, all, arrived, seconds),
    ];
    drop(inrush);
    lab.clear_inrush_dir()?;
    Ok(scenario)
}

/// Leaves a backlog behind, and a process that was killed. Returns how many events it took.
fn fill(lab: &BenchHarness, template: &str) -> Result<u64> {
    let bytes = lab.terms.gib << 30;
    let free = statvfs(lab.inrush_dir().parent().context("scratch")?)?;
    let free = free.blocks_available() * free.fragment_size();
    ensure!(
        free > bytes + SPARE_BYTES,
        "{:.1} GB are free: say --gib or --scratch",
        free as f64 / 1e9
    );
    let inrush = lab.start_inrush(template, None, User::Ours)?;
    let address = inrush.address(Wire::Tcp)?;
    let amount = Amount::Number(bytes / EVENT_BYTES);
    let sent = sender::start(&lab.inrush, &address, &REFERENCE, amount, None)?.finish()?;
    let deadline = Instant::now() + ANSWER_MAX;
    while accepted(&inrush)? < sent.events {
        ensure!(
            Instant::now() < deadline,
            "not all of {} were accepted",
            sent.events
        );
        wait(Duration::from_millis(20));
    }
    // What memory holds while the disk is the limit is written when nothing is added any more.
    let mut before = 0;
    while before != lab.queue_bytes()? {
        before = lab.queue_bytes()?;
        wait(SETTLED);
    }
    inrush.kill();
    Ok(sent.events)
}

/// Has the kernel forget what it has cached of the queue, as after a power cut.
fn forget_cached(lab: &BenchHarness) -> Result<()> {
    for file in lab.queue_files()? {
        let file = File::open(&file).with_context(|| file.display().to_string())?;
        file.sync_all()?;
        posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?;
    }
    Ok(())
}

fn accepted(inrush: &Inrush) -> Result<u64> {
    let ledger = inrush.ledger()?;
    ledger["sources"]["syslog"]["accepted"]
        .as_u64()
        .context("the ledger has no source")
}

/// Sends one event; seconds since `begun` when it was accepted.
fn first_accepted(inrush: &Inrush, begun: Instant) -> Result<f64> {
    let before = accepted(inrush)?;
    let mut peer = TcpStream::connect(inrush.address(Wire::Tcp)?)?;
    peer.write_all(b"<13>Nov 22 01:02:03 host app: after the start\n")?;
    while accepted(inrush)? == before {
        ensure!(begun.elapsed() < ANSWER_MAX, "the event was not accepted");
        wait(Duration::from_millis(5));
    }
    Ok(begun.elapsed().as_secs_f64())
}

fn drained(last: &SubjectProgress, all: u64, arrived: u64, seconds: f64) -> ScenarioCheck {
    let balanced = last.ledger.as_ref().is_some_and(|l| l["balanced"] == true);
    ScenarioCheck::new(
        "the backlog arrived, once, and the ledger balances",
        format!(
            "{arrived} of {all} in {seconds:.1} s: {:.0}/s, {:.0} MB/s of the queue",
            arrived as f64 / seconds,
            (arrived * EVENT_BYTES) as f64 / seconds / 1e6
        ),
        arrived == all && last.delivered == all && last.pending == 0 && balanced,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backlog_that_came_twice_or_not_at_all_is_seen() {
        let ledger = Some(serde_json::json!({ "balanced": true }));
        let last = SubjectProgress {
            delivered: 10,
            ledger,
            ..SubjectProgress::default()
        };
        assert!(drained(&last, 10, 10, 1.0).passed);
        assert!(!drained(&last, 10, 11, 1.0).passed);
        assert!(!drained(&last, 11, 11, 1.0).passed);
        assert!(!drained(&SubjectProgress::default(), 0, 0, 1.0).passed);
    }
}
