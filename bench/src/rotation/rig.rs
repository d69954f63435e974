//! One run: the files, the collector and its lives, the account.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use inrush_harness::child::{ChildProcess, wait};
use inrush_harness::meter::{process_rss_peak_mib, tree_cpu};
use inrush_harness::stats::per_event;
use tempfile::TempDir;

use super::RotationArgs;
use super::account::{ArrivalAccount, SETTLE};
use super::collector::LineCollector;
use super::counters::LifeCounters;
use super::field::{LogField, RotatePlan, WriteRate};
use super::log::LANES;
use super::outcome::RotationRun;
use super::rotator::locked;
use super::scheme::RotationScheme;
use super::subject::{TailPlaces, TailSetup};
use super::verdict::RotationVerdict;
use crate::crash::free_ports;

/// Ports for the collector's API, below those that the kernel gives to connections.
pub(crate) const PORTS: Range<u16> = 12_000..31_000;

/// Time after its start in which a collector may not yet have opened a file.
const START_GRACE: Duration = Duration::from_secs(1);

/// Time after the last line in which one may come twice.
const TWICE_MAX: Duration = Duration::from_secs(1);

/// Interval between two looks at the collector.
const LOOK: Duration = Duration::from_millis(100);

/// Looks between two questions for its counters.
const COUNTERS_EVERY: u32 = 20;

/// Everything around the collector.
pub(super) struct RotationRig<'a> {
    args: &'a RotationArgs,
    setup: TailSetup,
    places: TailPlaces,
    field: LogField,
    sink: Arc<LineCollector>,
    counters: LifeCounters,
    /// Spans for which the collector cannot be blamed.
    downs: Vec<Range<Instant>>,
    chance: fastrand::Rng,
    run: RotationRun,
    /// The files' and the collector's folder.
    _folders: [TempDir; 2],
}

/// A life of the collector.
struct CollectorLife {
    process: ChildProcess,
    cpu_us: f64,
    arrived: u64,
}

impl<'a> RotationRig<'a> {
    /// Runs it.
    ///
    /// # Errors
    /// The collector cannot be started or ends by itself, or a file cannot be written.
    pub(super) fn run(args: &'a RotationArgs, scheme: RotationScheme) -> Result<RotationRun> {
        let begun = Instant::now();
        let mut rig = Self::new(args, scheme)?;
        let mut life = rig.start()?;
        let plan = RotatePlan {
            scheme,
            keep: args.keep,
            every: args.rotate.clone(),
        };
        let rate = WriteRate {
            rate: args.rate,
            burst: args.burst,
            burst_for: Duration::from_secs(args.burst_seconds),
            burst_every: Duration::from_secs(args.burst_every),
        };
        rig.field.begin(rate, Some(plan));
        rig.lives(&mut life)?;
        let written = rig.field.finish()?;
        rig.run.rate = written as f64 / args.seconds as f64;
        rig.drain(&mut life, written)?;
        rig.end(&mut life)?;
        rig.run.seconds = begun.elapsed().as_secs_f64();
        Ok(rig.judged())
    }

    fn new(args: &'a RotationArgs, scheme: RotationScheme) -> Result<Self> {
        let folder = |base| {
            let mut made = tempfile::Builder::new();
            made.prefix("inrush-rotation-")
                .tempdir_in(base)
                .context("a folder")
        };
        let folders = [folder(&args.logs)?, folder(&args.dir)?];
        let account = ArrivalAccount::new(args.files * LANES, 0);
        let (sink, sink_port) = LineCollector::start(account, args.sink_rate)?;
        let files = folders[0].path();
        let places = TailPlaces {
            dir: folders[1].path().to_owned(),
            include: scheme.include(files),
            format: args.format(scheme),
            sink_port,
            admin_port: free_ports(PORTS).next().context("no free port")?,
        };
        let run = RotationRun {
            collector: args.collector,
            command: args.command.clone(),
            scheme,
            format: args.format(scheme),
            load: args.load(),
            ..RotationRun::default()
        };
        Ok(Self {
            field: LogField::create(files, 0..args.files, scheme, args.settings(scheme))?,
            setup: args.setup()?,
            places,
            sink,
            counters: LifeCounters::default(),
            downs: Vec::new(),
            chance: fastrand::Rng::with_seed(args.seconds),
            run,
            args,
            _folders: folders,
        })
    }

    /// Starts the collector; it is not to be blamed until shortly after it is ready.
    fn start(&mut self) -> Result<CollectorLife> {
        let down = Instant::now();
        self.sink.account().start();
        let process = self.setup.start(&self.places)?;
        self.downs.push(down..Instant::now() + START_GRACE);
        Ok(CollectorLife {
            cpu_us: tree_cpu(process.pid())?.total_us(),
            arrived: self.sink.account().counts().distinct,
            process,
        })
    }

    /// Lives of the collector until the last line is written.
    fn lives(&mut self, life: &mut CollectorLife) -> Result<()> {
        let end = Instant::now() + Duration::from_secs(self.args.seconds);
        let every = Duration::from_secs(self.args.kill_every);
        let mut kill = Instant::now() + every;
        let mut looks = 0;
        while Instant::now() < end {
            wait(LOOK);
            self.look(life)?;
            looks += 1;
            if looks % COUNTERS_EVERY == 0 {
                self.counters.look(self.places.admin_port);
            }
            if !every.is_zero() && Instant::now() >= kill {
                self.kill(life)?;
                kill += every;
            }
        }
        Ok(())
    }

    fn look(&mut self, life: &mut CollectorLife) -> Result<()> {
        if !life.process.runs() {
            let said = life.process.last_lines();
            bail!("the collector has ended by itself: {}", said.join("\n"));
        }
        if self.field.has_failed() {
            self.field.finish()?;
        }
        Ok(())
    }

    /// Kills it, and starts it again a while later.
    fn kill(&mut self, life: &mut CollectorLife) -> Result<()> {
        self.end(life)?;
        let killed = Instant::now();
        self.sink.account().kill(killed);
        life.process.kill();
        self.counters.end_life();
        wait(self.args.down.pick(&mut self.chance));
        *life = self.start()?;
        if let Some(last) = self.downs.last_mut() {
            // What it had read of a file that went was not yet on disk.
            last.start = killed.checked_sub(SETTLE).unwrap_or(killed);
        }
        self.run.kills += 1;
        Ok(())
    }

    /// Waits until all has arrived, or nothing arrives any more.
    fn drain(&mut self, life: &mut CollectorLife, written: u64) -> Result<()> {
        let still_max = Duration::from_secs(self.args.still);
        let (mut last, mut moved) = (0, Instant::now());
        loop {
            self.look(life)?;
            let arrived = self.sink.account().counts().distinct;
            if arrived != last {
                (last, moved) = (arrived, Instant::now());
            }
            let still = moved.elapsed();
            if still > still_max || (arrived >= written && still > TWICE_MAX) {
                return Ok(());
            }
            wait(LOOK);
        }
    }

    /// Notes the figures of a life that is about to end.
    fn end(&mut self, life: &mut CollectorLife) -> Result<()> {
        let pid = life.process.pid();
        self.counters.look(self.places.admin_port);
        self.run.rss_mib = self.run.rss_mib.max(process_rss_peak_mib(pid)?);
        let lines = self.sink.account().counts().distinct - life.arrived;
        let cpu_us = tree_cpu(pid)?.total_us() - life.cpu_us;
        self.run.us_per_line = per_event(cpu_us, lines).unwrap_or(0.0);
        Ok(())
    }

    fn judged(self) -> RotationRun {
        let mut run = self.run;
        let logs: Vec<_> = self.field.logs().iter().map(|log| locked(log)).collect();
        let account = self.sink.account();
        let verdict = RotationVerdict::of(logs.iter().map(|log| &**log), &account, &self.downs);
        let lag_us = account.lags().quantile_us(990);
        run.take(verdict);
        run.lag_p99_ms = lag_us.unwrap_or(0.0) / 1e3;
        run.rotations = self.field.rotations();
        run.counters = self.counters.sums();
        run
    }
}
