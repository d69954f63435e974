//! A run of the pipeline under a load without bound.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use inrush_config::Config;
use inrush_event::{LedgerSnapshot, Protocol};
use inrush_host::rate::Observation;
use inrush_host::{IdleMeter, usable_cpus};
use inrush_load::{Args, LoadError, LoadReport};
use inrush_pipeline::Pipeline;
use inrush_status::{Admin, StatusReporter};
use inrush_transport::activation::InheritedSockets;

use super::config::DrivenSource;
use super::threads::{LOAD_THREAD, ThreadMonitor};

/// Between two looks at the threads.
const STEP: Duration = Duration::from_millis(20);

/// Timeout until the pipeline has delivered the first event.
const FIRST_MAX: Duration = Duration::from_secs(20);

/// From the first event that is delivered until it is watched: queue and pools are full by then.
const WARM_UP: Duration = Duration::from_secs(1);

/// Parameters that all runs have in common.
pub(super) struct CalibrationRun<'a> {
    pub(super) driven: &'a DrivenSource,
    pub(super) event_bytes: u64,
    pub(super) interrupted: &'a AtomicBool,
}

impl CalibrationRun<'_> {
    /// Runs the pipeline, and watches it for `span` once it is warm.
    ///
    /// # Errors
    /// It cannot be started, nothing can be sent to it, or a signal came.
    pub(super) fn run(&self, config: Config, span: Duration) -> anyhow::Result<Observation> {
        let no_reload = || Err(vec!["not while the rate is measured".to_owned()]);
        let pipeline = Pipeline::start(config, InheritedSockets::default(), Box::new(no_reload))?;
        let observed = self.drive(&pipeline, span);
        pipeline.stop();
        observed
    }

    fn drive(&self, pipeline: &Pipeline, span: Duration) -> anyhow::Result<Observation> {
        let (_, bound) = pipeline
            .listeners()
            .into_iter()
            .next()
            .context("the pipeline does not listen")?;
        let args = self.load(&bound.to_string())?;
        let (stop, admin) = (
            AtomicBool::new(false),
            StatusReporter::new(pipeline.topology()),
        );
        thread::scope(|scope| {
            let named = thread::Builder::new().name(LOAD_THREAD.to_owned());
            let load = named.spawn_scoped(scope, || inrush_load::run_until(&args, &stop))?;
            let sends = || !load.is_finished();
            let observed = self.watch(&*admin, &sends, span);
            stop.store(true, Relaxed);
            let report = load.join();
            match report {
                Ok(report) => said(report).and(observed),
                Err(_) => bail!("the generator failed"),
            }
        })
    }

    fn watch(
        &self,
        admin: &dyn Admin,
        sends: &dyn Fn() -> bool,
        span: Duration,
    ) -> anyhow::Result<Observation> {
        let deadline = Instant::now() + FIRST_MAX;
        while settled(&admin.ledger()) == 0 {
            self.step(sends)?;
            ensure!(
                Instant::now() < deadline,
                "nothing was delivered within {} s",
                FIRST_MAX.as_secs()
            );
        }
        let begin = Instant::now() + WARM_UP;
        while Instant::now() < begin {
            self.step(sends)?;
        }
        let mut idle = IdleMeter::new();
        let mut watched = ThreadMonitor::begin();
        let (before, begin) = (admin.ledger(), Instant::now());
        idle.idle_cpus(begin);
        while begin.elapsed() < span {
            self.step(sends)?;
            watched.look();
        }
        let (after, seconds) = (admin.ledger(), begin.elapsed().as_secs_f64());
        let used = watched.end(seconds);
        let grown =
            |count: fn(&LedgerSnapshot) -> u64| count(&after).saturating_sub(count(&before)) as f64;
        let (taken, queued) = (grown(taken), grown(queued));
        let settled = if queued > 0.0 {
            grown(settled) / queued
        } else {
            1.0
        };
        Ok(Observation {
            seconds,
            taken,
            left: taken * settled,
            threads: used.pipeline,
            ours_seconds: used.ours_seconds,
            generator_busy: used.generator_seconds / seconds,
            cpus: usable_cpus(),
            idle_cpus: idle.idle_cpus(Instant::now()),
        })
    }

    /// Waits a little.
    fn step(&self, sends: &dyn Fn() -> bool) -> anyhow::Result<()> {
        if self.interrupted.load(Relaxed) {
            return Err(super::Interrupted.into());
        }
        ensure!(sends(), "the generator ended too soon");
        thread::sleep(STEP);
        Ok(())
    }

    fn load(&self, target: &str) -> anyhow::Result<Args> {
        // A whole number of CPUs, at least one; 16 connections keep any number of them busy.
        let cpus = usable_cpus().ceil() as u64;
        let connections = (2 * cpus).clamp(4, 16);
        let mut words = vec![
            target.to_owned(),
            "--json".to_owned(),
            "--mixed".to_owned(),
            "--rate=0".to_owned(),
            // More than all that is waited for.
            "--interval=60s".to_owned(),
            "--drain-timeout=1s".to_owned(),
            format!("--size={}", self.event_bytes),
            format!("--threads={}", cpus.div_ceil(4).min(8)),
        ];
        words.push(match self.driven.protocol {
            Protocol::Udp => format!("--source-ports={connections}"),
            _ => format!("--active-connections={connections}"),
        });
        if matches!(self.driven.protocol, Protocol::Tls | Protocol::Relps) {
            words.push("--insecure".to_owned());
        }
        if matches!(self.driven.protocol, Protocol::Relp | Protocol::Relps) {
            words.push("--window=4096".to_owned());
        }
        Args::from_words(words).context("the options of the generator")
    }
}

/// Error of a generator that did not run.
fn said(report: Result<LoadReport, LoadError>) -> anyhow::Result<()> {
    // Its words hold those of its cause already.
    report.map(|_| ()).map_err(anyhow::Error::msg)
}

/// Events that were taken in.
fn taken(ledger: &LedgerSnapshot) -> u64 {
    ledger.sources.values().map(|row| row.received).sum()
}

/// Events that destinations have to deliver, each as often as it has destinations.
fn queued(ledger: &LedgerSnapshot) -> u64 {
    ledger.destinations.values().map(|row| row.accepted).sum()
}

/// Events that they are done with; what is filtered had no destination at all.
fn settled(ledger: &LedgerSnapshot) -> u64 {
    let rows = ledger.destinations.values();
    rows.map(|row| row.delivered + row.quarantined.values().sum::<u64>())
        .sum()
}
