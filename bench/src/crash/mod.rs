//! `kill -9` at random moments, again and again, under RELP, HEC and TCP load: what was
//! acknowledged, or accepted in time, arrives; what arrives twice was in flight.
//!
//! The process of each life is started in the same folder and on the same ports, is looked at
//! through its ledger every few milliseconds, and is killed 20 to 400 ms after it was ready, or
//! while it starts. Senders ([`relp`], [`hec`], [`tcp`]) number their events and connect again; a
//! collector ([`recorder`]) notes every arrival, answers late now and then, and sometimes takes a
//! body and hangs up. After the last kill everything is let drain, and [`judge`] compares.

mod hec;
mod judge;
mod outcome;
mod process;
mod recorder;
pub(crate) mod relp;
mod stage;
mod tcp;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use inrush_harness::child::wait_until;
use inrush_harness::subject::default_binary;
use serde::{Deserialize, Serialize};

use crate::results::Results;
use judge::{CrashVerdict, ProcessLife};
use process::{CrashProcess, CrashSettings, LedgerView};
use recorder::Recorder;

pub(crate) use outcome::{CrashRun, section};
pub(crate) use recorder::mark;
pub(crate) use stage::{Account, EventLane, LaneProtocol, MARK, RunControl};

/// Interval between two looks at the ledger.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Time in which everything must drain after the last kill.
const DRAIN_MAX: Duration = Duration::from_secs(120);

/// Above so many pending events a life is not killed before it has caught up.
const PENDING_MAX: u64 = 60_000;

/// Time that it is given for that.
const CATCH_UP_MAX: Duration = Duration::from_secs(20);

/// Ports to listen on: below those that the kernel gives to connections, or a sender that connects
/// while nobody listens could meet itself.
const PORTS: std::ops::Range<u16> = 12_000..31_000;

/// Lanes of each kind.
const LANES: usize = 2;

/// Settings of a run.
#[derive(Args, Debug)]
pub(crate) struct CrashArgs {
    /// How often the process is killed
    #[arg(long, default_value_t = 300)]
    kills: u32,
    /// The moments of the kills and what the collector does; chosen by the clock if not given
    #[arg(long)]
    seed: Option<u64>,
    /// What is sent
    #[arg(long, default_value = "both")]
    load: CrashLoad,
    /// `queue.durability` of the process
    #[arg(long, default_value = "fsync")]
    durability: Durability,
    /// Where its data is, in a folder of its own: the disk matters
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The program to kill; the one beside this one if not given
    #[arg(long, value_name = "PATH")]
    inrush: Option<PathBuf>,
    /// Print the result as JSON on stdout
    #[arg(long)]
    json: bool,
    /// Where the result is added; a run with the same seed, load and durability is replaced
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// What is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CrashLoad {
    /// RELP alone.
    Relp,
    /// TCP alone.
    Tcp,
    /// Requests to an HTTP Event Collector alone.
    Hec,
    /// RELP and TCP at once.
    #[default]
    Both,
}

/// `queue.durability`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Durability {
    /// Synced.
    #[default]
    Fsync,
    /// Written.
    Os,
}

impl Durability {
    fn text(self) -> &'static str {
        match self {
            Self::Fsync => "fsync",
            Self::Os => "os",
        }
    }
}

/// Runs it; whether everything held.
pub(crate) fn run(args: &CrashArgs) -> Result<bool> {
    let clock = std::time::UNIX_EPOCH.elapsed().map_or(1, |d| d.as_nanos());
    let seed = args.seed.unwrap_or(clock as u64 % 1_000_000);
    let binary = args.inrush.clone().map_or_else(default_binary, Ok)?;
    let base = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let scratch = tempfile::Builder::new()
        .prefix("inrush-crash-")
        .tempdir_in(&base)
        .with_context(|| base.display().to_string())?;
    let dir = scratch.path().to_owned();
    eprintln!(
        "crash: seed {seed}, {} kills, in {}",
        args.kills,
        dir.display()
    );
    let begun = Instant::now();
    let rig = Rig::start(&binary, &dir, args, seed)?;
    let run = rig.run(args).map(|run| CrashRun {
        seconds: begun.elapsed().as_secs_f64(),
        ..run
    });
    let passed = run.as_ref().is_ok_and(CrashRun::passed);
    if !passed {
        eprintln!(
            "crash: seed {seed}: kept for a look: {}",
            scratch.keep().display()
        );
    }
    let run = run.with_context(|| format!("seed {seed}"))?;
    run.tell();
    if args.json {
        inrush_harness::bare::say(&serde_json::to_string(&run)?)?;
    }
    if let Some(out) = &args.out {
        let mut results = Results::load(out)?;
        outcome::add(&mut results.crash, run);
        results.save(out)?;
        crate::experiments::write(
            &out.with_file_name(crate::experiments::PAGE),
            &crate::report::render(&results),
        )?;
    }
    Ok(passed)
}

/// Everything around the process, and what is noted of it.
struct Rig {
    house: CrashSettings,
    stage: Arc<RunControl>,
    lanes: Vec<Arc<EventLane>>,
    senders: Vec<JoinHandle<()>>,
    recorder: Arc<Recorder>,
    chance: fastrand::Rng,
    lives: Vec<ProcessLife>,
    looks: u64,
    pending: u64,
    /// Counted as dropped by the lives, at their last look.
    dropped: u64,
    wrong: Vec<String>,
    run: CrashRun,
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.stage.end();
    }
}

impl Rig {
    fn start(binary: &Path, dir: &Path, args: &CrashArgs, seed: u64) -> Result<Self> {
        let stage = Arc::new(RunControl::default());
        let (recorder, sink_port) = Recorder::start(seed, &stage)?;
        let kinds: &[LaneProtocol] = match args.load {
            CrashLoad::Relp => &[LaneProtocol::Relp],
            CrashLoad::Tcp => &[LaneProtocol::Tcp],
            CrashLoad::Hec => &[LaneProtocol::Hec],
            CrashLoad::Both => &[LaneProtocol::Relp, LaneProtocol::Tcp],
        };
        let mut ports = free_ports(PORTS);
        let mut port = || ports.next().context("no free port");
        let mut lanes = Vec::new();
        for kind in kinds.iter().flat_map(|kind| [*kind; LANES]) {
            lanes.push(Arc::new(EventLane::new(lanes.len() as u8, kind, port()?)));
        }
        let house = CrashSettings {
            binary: binary
                .canonicalize()
                .with_context(|| binary.display().to_string())?,
            dir: dir.to_owned(),
            admin_port: port()?,
            sink_port,
            durability: args.durability,
        };
        let start = |lane: &Arc<EventLane>| {
            let (lane, stage) = (Arc::clone(lane), Arc::clone(&stage));
            std::thread::spawn(move || match lane.kind {
                LaneProtocol::Relp => relp::run(&lane, &stage),
                LaneProtocol::Tcp => tcp::run(&lane, &stage),
                LaneProtocol::Hec => hec::run(&lane, &stage),
            })
        };
        Ok(Self {
            senders: lanes.iter().map(start).collect(),
            run: CrashRun::new(seed, args),
            chance: fastrand::Rng::with_seed(seed),
            house,
            stage,
            lanes,
            recorder,
            lives: Vec::new(),
            looks: 0,
            pending: 0,
            dropped: 0,
            wrong: Vec::new(),
        })
    }

    fn run(mut self, args: &CrashArgs) -> Result<CrashRun> {
        let begun = Instant::now();
        for kill in 1..=args.kills {
            self.live_and_die()?;
            if kill % 25 == 0 || kill == args.kills {
                let (seconds, pending) = (begun.elapsed().as_secs_f64(), self.pending);
                let requests = self.recorder.requests().len();
                eprintln!(
                    "crash: {kill} kills, {seconds:.0} s, {requests} requests, {pending} pending"
                );
            }
        }
        self.drain()?;
        Ok(self.judged())
    }

    /// One life, ended by `kill -9`.
    fn live_and_die(&mut self) -> Result<()> {
        // A collector that takes nothing for a whole life leaves a backlog for the next one.
        self.stage.set_dead(self.chance.u32(..100) < 8);
        let (early, moment) = (self.chance.u32(..100) < 15, self.chance.u64(20..400));
        let mut life = self.begin();
        let mut process = self.house.start(life.number, &self.lanes)?;
        if early {
            let span = Duration::from_millis(moment / 8);
            wait_until(Instant::now() + span);
            self.run.early += 1;
        } else {
            process.ready()?;
            let end = Instant::now() + Duration::from_millis(moment);
            self.watch(&mut process, &mut life, end)?;
        }
        ensure!(process.runs(), "life {}: it ended by itself", life.number);
        let (at, said) = process.kill();
        life.killed = Some(at);
        self.keep_log(life.number, &said)?;
        self.lives.push(life);
        Ok(())
    }

    /// Adds what a life said to the log beside its data, for those who look for a reason.
    fn keep_log(&self, life: u32, said: &[String]) -> Result<()> {
        let file = self.house.dir.join("inrush.log");
        let mut log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(file)?;
        writeln!(log, "life {life}\n{}", said.join("\n"))?;
        Ok(())
    }

    fn begin(&self) -> ProcessLife {
        ProcessLife {
            number: self.stage.next_life(),
            killed: None,
            looks: Vec::new(),
        }
    }

    /// Looks at the ledger until `end`, or, after it has been left behind too far, until it has
    /// caught up.
    fn watch(
        &mut self,
        process: &mut CrashProcess,
        life: &mut ProcessLife,
        end: Instant,
    ) -> Result<()> {
        let mut last;
        loop {
            let next = Instant::now() + LOOK_EVERY;
            last = self.look(process, life)?;
            let now = Instant::now();
            let behind = self.pending > PENDING_MAX && now < end + CATCH_UP_MAX;
            if now >= end && !behind {
                break;
            }
            if now >= end {
                self.stage.set_dead(false);
            }
            wait_until(if behind { next } else { next.min(end) });
        }
        self.dropped += last.dropped;
        Ok(())
    }

    fn look(&mut self, process: &mut CrashProcess, life: &mut ProcessLife) -> Result<LedgerView> {
        let (at, look) = process
            .look()
            .with_context(|| format!("life {}", life.number))?;
        self.looks += 1;
        self.pending = look.pending;
        if !look.balanced {
            self.run.unbalanced += 1;
            self.wrong
                .push(format!("life {}: not balanced: {}", life.number, look.text));
        }
        if look.quarantined > 0 {
            self.wrong
                .push(format!("life {}: quarantined: {}", life.number, look.text));
        }
        let of = |lane: &Arc<EventLane>| look.accepted.get(&lane.source()).copied().unwrap_or(0);
        life.looks.push((at, self.lanes.iter().map(of).collect()));
        Ok(look)
    }

    /// The last life: what is unanswered is answered, what is pending is delivered.
    fn drain(&mut self) -> Result<()> {
        self.stage.set_dead(false);
        let mut life = self.begin();
        let mut process = self.house.start(life.number, &self.lanes)?;
        process.ready()?;
        let deadline = Instant::now() + DRAIN_MAX;
        // A while of load, so that the last kill is not special.
        self.watch(&mut process, &mut life, Instant::now() + 20 * LOOK_EVERY)?;
        self.stage.call_last();
        loop {
            let look = self.look(&mut process, &mut life)?;
            let sent = self.senders.iter().all(JoinHandle::is_finished);
            if sent && look.pending == 0 && self.all_accepted(&life) {
                self.dropped += look.dropped;
                break;
            }
            let (text, now) = (&look.text, Instant::now());
            ensure!(now < deadline, "not drained; senders ended: {sent}; {text}");
            wait_until(now + LOOK_EVERY);
        }
        self.lives.push(life);
        Ok(())
    }

    /// True if the last life has accepted what was sent to it over TCP.
    fn all_accepted(&self, life: &ProcessLife) -> bool {
        let Some((_, accepted)) = life.looks.last() else {
            return false;
        };
        self.lanes.iter().zip(accepted).all(|(lane, accepted)| {
            let account = lane.account();
            let base = account
                .bases
                .iter()
                .find(|(number, _)| *number == life.number);
            base.is_none_or(|(_, base)| account.sends.len() as u64 - u64::from(*base) <= *accepted)
        })
    }

    fn judged(mut self) -> CrashRun {
        let mut run = std::mem::take(&mut self.run);
        let lane = |lane: &Arc<EventLane>| judge::LaneAccount {
            kind: lane.kind,
            account: lane.account().clone(),
        };
        let lanes: Vec<judge::LaneAccount> = self.lanes.iter().map(lane).collect();
        let verdict = CrashVerdict::of(&lanes, &self.lives, &self.recorder.requests());
        run.take(&verdict);
        run.looks = self.looks;
        run.dropped = self.dropped;
        run.odd = self.recorder.odd();
        run.refused = lanes.iter().map(|lane| lane.account.refused).sum();
        run.wrong.append(&mut self.wrong);
        for lane in lanes {
            run.wrong.extend(lane.account.faults);
        }
        run
    }
}

/// Ports that nobody listens on now.
pub(crate) fn free_ports(of: std::ops::Range<u16>) -> impl Iterator<Item = u16> {
    let from = fastrand::u16(of.clone());
    let all = (from..of.end).chain(of.start..from);
    all.filter(|port| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok())
}
