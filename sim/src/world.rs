//! Simulation run of the log: one seed chooses every step, fault and crash.
//!
//! # What it guarantees
//! * A seed replays: kinds of steps and the disk's calls are mixed into the report's hash.
//! * After each step the ledger balances for every destination, or the run fails.
//! * A run ends with a kill and a power cut, each followed by the delivery of all owed events.
//!
//! # Limits
//! Without faults, everything is settled within `WIND_DOWN_STEPS` steps, or `COLLECTOR_STEPS`.
//! After `STARTS_MAX` failed starts, the disk gives no errors during one start.
//!
//! # After a crash
//! `restart` opens the log on the same disk. A kill keeps unsynced writes, a power cut may not.

use std::fmt::Write as _;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use inrush_event::{
    BatchPool, ByteSize, DestinationCounters, DropReason, Ledger, RefuseReason, set_virtual_clocks,
};
use inrush_queue::storage::{DiskFaults, VirtualDisk};
use inrush_queue::{Durability, Reclaiming, WhenFull};

use crate::SimTarget;
use crate::collector::CollectorWorld;
use crate::event::{EventGenerator, SOURCES};
use crate::oracle::{CrashKind, Oracle, OracleVerdict, SimStep};
use crate::scenario::{DESTINATIONS_MAX, LogScenario, queue};
use crate::sink::VirtualSink;
use crate::streams::token;
use crate::subject::{LogUnderTest, RoundPhase, cursor_file};

/// Names that destinations may have.
const NAMES: [&str; DESTINATIONS_MAX] = ["alpha", "beta", "gamma", "delta", "new/er"];

/// Steps within which everything must be settled once all faults have stopped.
const WIND_DOWN_STEPS: u32 = 4_000;

/// The same with a collector: few of the steps are its clients', who send and poll one by one.
const COLLECTOR_STEPS: u32 = 3 * WIND_DOWN_STEPS;

/// Times that a start may fail while the disk gives errors.
const STARTS_MAX: u32 = 4;

/// Result of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct SimReport {
    /// Depends on every choice and every result.
    pub hash: u64,
    pub verdict: Option<String>,
    pub trace: String,
    pub counts: SimCounts,
}

/// Counts of what the run was made of.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SimCounts {
    pub steps: u64,
    pub events: u64,
    pub delivered: u64,
    pub repeats: u64,
    pub dropped: u64,
    pub kills: u64,
    pub power_cuts: u64,
    pub disk_errors: u64,
    /// Requests that the collector answered 200.
    pub answered: u64,
    /// Numbers that it reported as true.
    pub acked: u64,
}

impl SimCounts {
    /// Adds those of another run.
    pub(crate) fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.events += other.events;
        self.delivered += other.delivered;
        self.repeats += other.repeats;
        self.dropped += other.dropped;
        self.kills += other.kills;
        self.power_cuts += other.power_cuts;
        self.disk_errors += other.disk_errors;
        self.answered += other.answered;
        self.acked += other.acked;
    }
}

/// A batch that its source has not got rid of.
#[derive(Clone)]
pub(crate) struct UnackedBatch {
    pub(crate) batch: usize,
    pub(crate) source: usize,
    pub(crate) first: u32,
    pub(crate) events: u32,
}

pub(crate) struct LogWorld {
    pub(crate) rng: Rng,
    pub(crate) scenario: LogScenario,
    pub(crate) disk: VirtualDisk,
    pub(crate) ledger: Arc<Ledger>,
    /// `None` only while a new process starts.
    pub(crate) subject: Option<LogUnderTest>,
    pub(crate) round: Option<RoundPhase>,
    pub(crate) reclaiming: Option<Reclaiming>,
    pub(crate) oracle: Oracle,
    pub(crate) maker: EventGenerator,
    pub(crate) sinks: Vec<VirtualSink>,
    pub(crate) offers: Vec<UnackedBatch>,
    /// Choices about streams, in the runs whose sources have some; apart, so that the other runs
    /// go as they did.
    pub(crate) streams: Option<Rng>,
    /// True if something that was not durable may be missing before what is there.
    torn: bool,
    /// The HEC server, in the runs that have one.
    pub(crate) collector: Option<CollectorWorld>,
    pub(crate) counts: SimCounts,
    /// True if sinks and disk behave from now on.
    pub(crate) calm: bool,
    watched: Vec<WatchedDestination>,
    pub(crate) origin: Instant,
    pub(crate) clock: Duration,
    step: SimStep,
    pub(crate) tracing: bool,
    trace: String,
    hash: u64,
}

/// A destination whose account is checked.
struct WatchedDestination {
    counters: Arc<DestinationCounters>,
    cursor_file: String,
}

/// Runs a seed to its end; what is known of it is in `report` even if it panics.
pub(crate) fn run(
    seed: u64,
    (subject, tracing): (SimTarget, bool),
    pool: &Arc<BatchPool>,
    origin: Instant,
    report: &mut SimReport,
) {
    // The log takes its identity from this generator.
    fastrand::seed(seed);
    let mut world = LogWorld::new(seed, tracing, pool, origin);
    let verdict = panic::catch_unwind(AssertUnwindSafe(|| {
        if subject == SimTarget::Hec {
            world.add_collector(pool)?;
        }
        world.live()
    }));
    set_virtual_clocks(None);
    world.trace_disk();
    world.mix(world.disk.digest());
    world.counts.disk_errors = world.disk.errors_given();
    for destination in world.oracle.destinations.values() {
        world.counts.repeats += destination.repeats();
        world.counts.dropped += destination.dropped();
    }
    *report = SimReport {
        hash: world.hash,
        verdict: None,
        trace: world.trace,
        counts: world.counts,
    };
    match verdict {
        Ok(verdict) => report.verdict = verdict.err(),
        Err(panic) => panic::resume_unwind(panic),
    }
}

impl LogWorld {
    fn new(seed: u64, tracing: bool, pool: &Arc<BatchPool>, origin: Instant) -> Self {
        let mut rng = Rng::with_seed(seed);
        let scenario = LogScenario::new(&mut rng);
        let disk = VirtualDisk::new(rng.u64(..));
        disk.set_capacity(scenario.disk_bytes);
        if tracing {
            disk.start_trace();
        }
        let mut oracle = Oracle::new(scenario.options.durability);
        let streams = seed.is_multiple_of(2).then(|| Rng::with_seed(!seed));
        // The file of positions has segments synced; one that fails takes what only the page cache
        // had.
        let forgets = streams.is_some() && scenario.forgets_unsynced();
        oracle.unsound_reads = scenario.has_unsound_reads() || forgets;
        let mut world = Self {
            rng,
            disk,
            oracle,
            ledger: Ledger::new(),
            subject: None,
            round: None,
            reclaiming: None,
            maker: EventGenerator::new(seed, pool),
            sinks: Vec::new(),
            offers: Vec::new(),
            streams,
            torn: false,
            collector: None,
            counts: SimCounts::default(),
            calm: false,
            watched: Vec::new(),
            origin,
            clock: Duration::ZERO,
            step: 0,
            tracing,
            trace: String::new(),
            hash: seed,
            scenario,
        };
        world.note(|world| format!("seed {seed}: {:?}", world.scenario));
        world
    }

    /// Has a collector take events too. The log has room for a full batch then, and its
    /// destinations stay.
    fn add_collector(&mut self, pool: &Arc<BatchPool>) -> OracleVerdict {
        let scenario = &mut self.scenario;
        scenario.for_collector(&mut self.rng);
        self.disk.set_capacity(scenario.disk_bytes);
        self.oracle = Oracle::new(scenario.options.durability);
        self.oracle.unsound_reads = scenario.has_unsound_reads();
        self.streams = None;
        let collector = CollectorWorld::new(&mut self.rng, pool);
        self.collector = Some(collector.map_err(|error| error.to_string())?);
        self.note(|world| format!("for a collector: {:?}", world.scenario));
        Ok(())
    }

    fn live(&mut self) -> OracleVerdict {
        self.start()?;
        for name in &NAMES[..self.scenario.destinations] {
            self.add_destination(name);
        }
        self.disk.set_faults(self.scenario.faults.clone());
        for _ in 0..self.scenario.steps {
            self.one_step()?;
            self.after_step()?;
        }
        self.wind_down()?;
        for end in [CrashKind::Killed, CrashKind::PowerCut] {
            self.restart(end)?;
            self.wind_down()?;
        }
        self.oracle.judge()
    }

    /// The time, as the log is told it.
    pub(crate) fn now(&self) -> Instant {
        self.origin + self.clock
    }

    /// A new moment; what happens after it is later for the oracle and for the disk.
    pub(crate) fn tick(&mut self) -> SimStep {
        self.step += 1;
        self.disk.set_mark(self.step);
        self.set_clocks();
        self.step
    }

    fn mix(&mut self, word: u64) {
        self.hash = (self.hash.rotate_left(17) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    /// Notes what happened: into the hash its length and the step, into the trace its words.
    pub(crate) fn note(&mut self, words: impl FnOnce(&Self) -> String) {
        self.mix(self.step);
        if self.tracing {
            self.trace_disk();
            let line = words(self);
            let _ = writeln!(self.trace, "{:>5} {:>9.3?} {line}", self.step, self.clock);
        }
    }

    fn trace_disk(&mut self) {
        for line in self.disk.take_trace() {
            let _ = writeln!(self.trace, "{:17}{line}", "");
        }
    }

    fn one_step(&mut self) -> OracleVerdict {
        let weights = self.scenario.weights.clone();
        let kinds = [
            weights.append,
            weights.write,
            weights.sink,
            weights.idle,
            weights.reconfigure,
            weights.resize_disk,
            weights.end,
            weights.rot,
        ];
        let mut at = self.rng.u32(..kinds.iter().sum::<u32>());
        let mut kind = 0;
        while at >= kinds[kind] {
            at -= kinds[kind];
            kind += 1;
        }
        self.mix(kind as u64);
        match kind {
            0 if self.collector.is_some() && self.rng.u8(..8) > 0 => self.collector_step(),
            0 => self.append_step(),
            1 => self.writer_step(),
            2 => self.sink_step(),
            3 => self.idle_step(),
            4 => self.reconfigure_step(),
            5 => self.resize_disk_step(),
            6 => self.end_step(),
            _ => self.rot_step(),
        }
    }

    fn idle_step(&mut self) -> OracleVerdict {
        self.clock += match self.collector.is_some() && self.rng.u8(..32) == 0 {
            true => Duration::from_secs(self.rng.u64(1..700)),
            false => Duration::from_millis(self.rng.u64(1..200)),
        };
        Ok(())
    }

    fn resize_disk_step(&mut self) -> OracleVerdict {
        let used = self.disk.used_bytes();
        let capacity = match self.rng.u8(..3) {
            0 => used + self.rng.u64(..4_000),
            1 => used.saturating_sub(self.rng.u64(..4_000)),
            _ => self.scenario.disk_bytes,
        };
        self.disk.set_capacity(capacity);
        self.note(|_| format!("the disk has {capacity} bytes, {used} in use"));
        Ok(())
    }

    /// Ends the process: now, or within a call that it makes later.
    fn end_step(&mut self) -> OracleVerdict {
        if self.rng.bool() {
            let calls = self.rng.u32(..12);
            self.disk.die_after(calls);
            self.note(|_| format!("the process will die after {calls} calls"));
            return Ok(());
        }
        let end = self.some_end();
        self.restart(end)
    }

    fn some_end(&mut self) -> CrashKind {
        match self.rng.bool() {
            true => CrashKind::Killed,
            false => CrashKind::PowerCut,
        }
    }

    fn rot_step(&mut self) -> OracleVerdict {
        let place = self.disk.rot();
        self.note(|_| format!("a bit flips at {place:?}"));
        Ok(())
    }

    /// Moves the clock on after every step, and checks what is durable and the ledger.
    fn after_step(&mut self) -> OracleVerdict {
        self.counts.steps += 1;
        if self.disk.is_dead() {
            let end = self.some_end();
            return self.restart(end);
        }
        self.clock += self.disk.take_elapsed() + Duration::from_micros(self.rng.u64(..2_000));
        let Some(subject) = &self.subject else {
            return Ok(());
        };
        self.oracle.durable(subject.durable_end());
        self.check_ledger()
    }

    /// Every event that a destination was to have is delivered, quarantined, dropped or pending.
    fn check_ledger(&mut self) -> OracleVerdict {
        for WatchedDestination {
            counters,
            cursor_file,
        } in &self.watched
        {
            let name = &counters.name;
            let quarantined = RefuseReason::ALL
                .iter()
                .map(|r| counters.quarantined(*r).get());
            let dropped = |reason: &DropReason| counters.dropped(*reason).get();
            let all_dropped: u64 = DropReason::ALL.iter().map(dropped).sum();
            let ended = counters.delivered.get() + quarantined.sum::<u64>() + all_dropped;
            let (accepted, pending) = (counters.accepted.get(), counters.pending.get());
            if accepted != ended.wrapping_add(pending) {
                return Err(format!(
                    "{name}: accepted {accepted} ≠ ended {ended} + pending {pending}"
                ));
            }
            if DropReason::ALL.iter().any(|one| dropped(one) > accepted) {
                return Err(format!("{name}: accepted {accepted}, and dropped more"));
            }
            let kept = all_dropped - dropped(&DropReason::Removed);
            let Some(fact) = self.oracle.destinations.get_mut(name) else {
                continue;
            };
            fact.recorded(self.disk.written_since(cursor_file));
            if kept == fact.dropped_now() {
                continue;
            }
            if self.tracing {
                let of = |reason: &DropReason| (reason.name(), dropped(reason));
                let reasons: Vec<_> = DropReason::ALL.iter().map(of).collect();
                let _ = writeln!(self.trace, "{:17}{name} has dropped {reasons:?}", "");
            }
            // What a dying process took for lost is not.
            let counted = self.oracle.count_dropped(name, kept);
            counted.or_else(|wrong| {
                if self.disk.is_dead() {
                    Ok(())
                } else {
                    Err(wrong)
                }
            })?;
        }
        Ok(())
    }

    /// Every destination of this run has its counters in every process.
    fn watch(&mut self) {
        let watched = |name: &String| WatchedDestination {
            counters: self.ledger.destination(name),
            cursor_file: cursor_file(name),
        };
        self.watched = self.oracle.destinations.keys().map(watched).collect();
    }

    /// Ends the process and starts a new one.
    fn restart(&mut self, mut end: CrashKind) -> OracleVerdict {
        loop {
            self.restart_once(end)?;
            if !self.disk.is_dead() {
                return Ok(());
            }
            end = self.some_end();
        }
    }

    fn restart_once(&mut self, end: CrashKind) -> OracleVerdict {
        self.note(|_| format!("{end:?}"));
        // Counted before the death, even if the step that it came in was not looked at.
        self.check_ledger()?;
        self.end_collector(end)?;
        self.subject = None;
        self.round = None;
        self.reclaiming = None;
        for sink in &mut self.sinks {
            sink.hand.clear();
        }
        self.end_process(end);
        self.start()?;
        self.attach_all();
        Ok(())
    }

    fn end_process(&mut self, end: CrashKind) {
        let disk = &self.disk;
        let synced = |name: &str| disk.durable_since(&cursor_file(name));
        self.oracle.process_ended(end, synced);
        let os = self.scenario.options.durability == Durability::Os;
        // Whole segments may be missing then, and nothing tells.
        self.oracle.unsound_reads |= os && self.streams.is_some() && end == CrashKind::PowerCut;
        self.torn |= end == CrashKind::PowerCut || self.disk.errors_given() > 0;
        match end {
            CrashKind::Killed => {
                self.counts.kills += 1;
                self.disk.end_process();
            }
            CrashKind::PowerCut => {
                self.counts.power_cuts += 1;
                self.disk.cut_power();
            }
        }
    }

    fn start(&mut self) -> OracleVerdict {
        for attempt in 0.. {
            self.tick();
            self.ledger = Ledger::new();
            self.watch();
            if attempt == STARTS_MAX {
                self.disk.set_faults(DiskFaults::default());
            } else if !self.calm && self.scenario.weights.end > 0 && self.rng.u8(..8) == 0 {
                self.disk.die_after(self.rng.u32(..8));
            }
            let errors = self.disk.errors_given();
            let opened = LogUnderTest::open(&self.disk, &self.scenario.options, &self.ledger);
            let dead = self.disk.is_dead();
            match opened {
                Ok(subject) if !dead => {
                    self.oracle.process_began(subject.durable_end());
                    self.subject = Some(subject);
                    break;
                }
                Err(error) if !dead && self.disk.errors_given() == errors => {
                    return Err(format!("it does not start: {error}"));
                }
                Err(error) if attempt == STARTS_MAX => {
                    return Err(format!("it does not start: {error}"));
                }
                Ok(_) | Err(_) => {}
            }
            self.note(|_| "the start failed".to_owned());
            let end = if dead {
                self.some_end()
            } else {
                CrashKind::Killed
            };
            self.end_process(end);
        }
        if !self.calm {
            self.disk.set_faults(self.scenario.faults.clone());
        }
        self.find_positions()?;
        self.start_collector()
    }

    /// Checks the positions that the log has of the streams of sources.
    fn find_positions(&mut self) -> OracleVerdict {
        let torn = std::mem::take(&mut self.torn);
        let Some(subject) = self.subject.as_ref().filter(|_| self.streams.is_some()) else {
            return Ok(());
        };
        if !self.scenario.options.durability.has_disk() {
            self.oracle.streams.forget();
            return Ok(());
        }
        for source in SOURCES {
            let found = subject.log().positions(source);
            if self.tracing {
                let tokens: Vec<_> = found.iter().map(|one| (one.stream, token(one))).collect();
                let _ = writeln!(self.trace, "{:17}{source} is read to {tokens:?}", "");
            }
            self.oracle.positions_found(source, &found, torn)?;
        }
        Ok(())
    }

    /// Attaches what is configured, and tells the log of what is not any more.
    fn attach_all(&mut self) {
        let Some(subject) = &self.subject else { return };
        for name in subject.names() {
            if !self.sinks.iter().any(|sink| sink.name == name) {
                subject.detach(&name);
            }
        }
        for index in 0..self.sinks.len() {
            let counters = self.ledger.destination(&self.sinks[index].name);
            subject.attach(&counters, self.sinks[index].queue);
        }
    }

    /// A destination comes into the configuration.
    pub(crate) fn add_destination(&mut self, name: &str) {
        self.tick();
        let counters = self.ledger.destination(name);
        let index = NAMES.iter().position(|known| *known == name).unwrap_or(0);
        let queue = self.scenario.queues[index];
        if let Some(subject) = &self.subject {
            subject.attach(&counters, queue);
        }
        self.oracle
            .attach(name, self.scenario.when_full(index) != WhenFull::Block);
        self.watch();
        self.sinks.push(VirtualSink::new(name, queue));
        self.note(|_| format!("{name} is attached"));
    }

    fn reconfigure_step(&mut self) -> OracleVerdict {
        let name = NAMES[self.rng.usize(..NAMES.len())];
        match self.sinks.iter().position(|sink| sink.name == name) {
            None => self.add_destination(name),
            Some(index) if self.sinks.len() > 1 => {
                self.tick();
                self.sinks.swap_remove(index);
                if let Some(subject) = &self.subject {
                    subject.detach(name);
                }
                self.oracle.detach(name);
                self.note(|_| format!("{name} is detached"));
            }
            Some(_) if self.rng.bool() => self.change_queue(name),
            Some(_) => {
                let bytes = self.rng.u64(4_000..16_000);
                self.scenario.options.memory_bytes = Some(ByteSize(bytes));
                if let Some(subject) = &self.subject {
                    subject.reconfigure(&self.scenario.options);
                }
                self.note(|_| format!("memory is {bytes} bytes now"));
            }
        }
        Ok(())
    }

    /// Another limit, or another policy, for one destination.
    fn change_queue(&mut self, name: &str) {
        self.tick();
        let changed = queue(&mut self.rng, &self.scenario.options);
        for (index, _) in NAMES.iter().enumerate().filter(|(_, one)| **one == name) {
            self.scenario.queues[index] = changed;
            let drops = self.scenario.when_full(index) != WhenFull::Block;
            self.oracle.attach(name, drops);
        }
        for sink in self.sinks.iter_mut().filter(|sink| sink.name == name) {
            sink.queue = changed;
        }
        if let Some(subject) = &self.subject {
            subject.limit(name, changed);
        }
        self.note(|_| format!("the queue of {name} is {changed:?} now"));
    }

    /// All faults stop: everything that is owed must be delivered, and nothing else.
    fn wind_down(&mut self) -> OracleVerdict {
        self.calm = true;
        self.disk.set_faults(DiskFaults::default());
        self.disk.set_capacity(u64::MAX);
        self.note(|_| "faults stop".to_owned());
        // What is abandoned and kept would fill the disk.
        let names = self.subject.as_ref().map(LogUnderTest::names);
        for name in names.unwrap_or_default() {
            if !self.sinks.iter().any(|sink| sink.name == name) {
                self.add_destination(&name);
            }
        }
        let steps = match self.collector {
            Some(_) => COLLECTOR_STEPS,
            None => WIND_DOWN_STEPS,
        };
        for round in 0..steps {
            if self.disk.is_dead() {
                let end = self.some_end();
                self.restart(end)?;
            }
            match round % 3 {
                0 if !self.offers.is_empty() => self.append_step()?,
                0 if self.collector.is_some() => self.collector_step()?,
                1 => self.writer_step()?,
                _ => self.sink_step()?,
            }
            self.clock += Duration::from_millis(20);
            self.after_step()?;
            if round % 16 == 15 && self.is_quiet() {
                return self.rest();
            }
        }
        Err(format!(
            "no progress: {} batches wait at sources, {} are not durable, pending {:?}; {}",
            self.offers.len(),
            self.oracle.not_durable(),
            self.pending(),
            self.collector
                .as_ref()
                .map_or_else(String::new, CollectorWorld::wants)
        ))
    }

    fn is_quiet(&self) -> bool {
        let delivered = self.pending().iter().all(|(_, pending)| *pending == 0);
        let quiet = self.collector.as_ref().is_none_or(CollectorWorld::is_quiet);
        delivered && quiet && self.offers.is_empty() && self.oracle.not_durable() == 0
    }

    fn pending(&self) -> Vec<(String, u64)> {
        let of = |sink: &VirtualSink| {
            let counters = self.ledger.destination(&sink.name);
            (sink.name.clone(), counters.pending.get())
        };
        self.sinks.iter().map(of).collect()
    }

    /// Has the writer run with nothing to do, and then judges the run.
    fn rest(&mut self) -> OracleVerdict {
        for _ in 0..12 {
            self.writer_step()?;
            self.clock += Duration::from_millis(500);
            self.after_step()?;
        }
        self.disk.die_after(u32::MAX);
        self.oracle.judge()
    }
}
