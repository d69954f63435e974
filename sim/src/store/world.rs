//! Simulation run of the store: one seed chooses every step, fault, crash and clock jump.
//!
//! # What it guarantees
//! * A seed replays: results of steps and calls are mixed into the report's hash.
//! * The oracle looks at the process after each step, and at its files around retention.
//! * A run ends without faults, and fails unless all events are settled and all merges done.
//!
//! # Limits
//! Settling and merging have `WIND_DOWN_STEPS` steps each.
//! After `STARTS_MAX` failed starts, the faults stop until a start succeeds.
//!
//! # After a crash
//! `start` opens the store in a new process; on a damaged list, `mend` runs the repair.

use std::fmt::Write as _;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use inrush_event::Feed;
use inrush_store::steps::{self, SteppedWriter};
use inrush_store::{
    DurableStorage, FaultRates, SimulatedProcess, VirtualBucket, VirtualFolder, rebuild,
};

use super::oracle;
use super::queue::VirtualQueue;
use super::scenario::{BackendKind, StoreScenario};
use crate::world::SimReport;

/// The words of a check.
pub(crate) type StoreVerdict = Result<(), String>;

/// 2026-01-01 00:00 UTC.
const BEGIN_NS: i64 = 1_767_225_600_000_000_000;
const MINUTE_NS: i64 = 60_000_000_000;
const DAY_NS: i64 = 24 * 60 * MINUTE_NS;
/// Steps within which everything must be settled once all faults have stopped.
const WIND_DOWN_STEPS: u32 = 600;
/// Starts that may fail before the faults stop for one.
const STARTS_MAX: u32 = 3;

/// Place of the store.
pub(crate) enum StoreBackend {
    Folder(VirtualFolder),
    Bucket(VirtualBucket),
}

impl StoreBackend {
    fn home(&self, process: &Arc<SimulatedProcess>) -> DurableStorage {
        match self {
            Self::Folder(folder) => {
                DurableStorage::virtual_folder(Arc::new(folder.for_process(process)))
            }
            Self::Bucket(bucket) => {
                DurableStorage::virtual_bucket(Arc::new(bucket.for_process(process)))
            }
        }
    }

    fn set_chances(&self, chances: FaultRates) {
        match self {
            Self::Folder(folder) => folder.set_chances(chances),
            Self::Bucket(bucket) => bucket.set_chances(chances),
        }
    }

    pub(crate) fn peek(&self, path: &str) -> Option<Vec<u8>> {
        match self {
            Self::Folder(folder) => folder.peek(path),
            Self::Bucket(bucket) => bucket.peek(path),
        }
    }

    pub(crate) fn contents(&self) -> Vec<(String, Vec<u8>)> {
        match self {
            Self::Folder(folder) => folder.contents(),
            Self::Bucket(bucket) => bucket.contents(),
        }
    }

    fn damage(&self, path: &str, bytes: Vec<u8>) {
        match self {
            Self::Folder(folder) => folder.damage(path, bytes),
            Self::Bucket(bucket) => bucket.damage(path, bytes),
        }
    }

    fn errors_and_digest(&self) -> (u64, u64) {
        match self {
            Self::Folder(folder) => (folder.errors(), folder.digest()),
            Self::Bucket(bucket) => (bucket.errors(), bucket.digest()),
        }
    }
}

/// A process and its queue.
struct StoreWriter {
    queue: VirtualQueue,
    process: Arc<SimulatedProcess>,
    life: Option<SteppedWriter>,
    /// Events that were there when it opened the store.
    before: u64,
    /// It opened a store that did not know the time, while the clock was wrong.
    blind: bool,
}

struct StoreWorld<'a> {
    rng: Rng,
    scenario: StoreScenario,
    place: StoreBackend,
    writers: Vec<StoreWriter>,
    /// The process that opened the store last: what the others show is of before.
    newest: Option<usize>,
    is_damaged: bool,
    /// A process died within a call.
    has_died: bool,
    /// The list was made anew, and the process that opens it comes next.
    is_repaired: bool,
    /// Files as they once were, for a backup that is put back.
    backup: Vec<(String, Vec<u8>)>,
    /// The time, whatever the wall clock says.
    now: i64,
    /// By how much the wall clock is wrong, and until when.
    off: (i64, i64),
    /// A contradiction that a step was told.
    wrong: Option<String>,
    report: &'a mut SimReport,
    tracing: bool,
    hash: u64,
}

/// Runs a seed to its end; what is known of it is in `report` even if it panics.
pub(crate) fn run(seed: u64, tracing: bool, report: &mut SimReport) {
    // The store draws its writers' numbers from this generator.
    fastrand::seed(seed);
    let mut rng = Rng::with_seed(seed);
    let scenario = StoreScenario::new(&mut rng);
    steps::set_commits_between(scenario.commits_between);
    let place = match scenario.place {
        BackendKind::Folder => StoreBackend::Folder(VirtualFolder::new(rng.u64(..))),
        BackendKind::Bucket => StoreBackend::Bucket(VirtualBucket::new(rng.u64(..))),
    };
    let writer = |number| StoreWriter {
        queue: VirtualQueue::new(number as u64 + 7),
        process: Arc::default(),
        life: None,
        before: 0,
        blind: false,
    };
    let mut world = StoreWorld {
        writers: (0..scenario.writers).map(writer).collect(),
        rng,
        place,
        newest: None,
        is_damaged: false,
        has_died: false,
        is_repaired: false,
        backup: Vec::new(),
        now: BEGIN_NS,
        off: (0, 0),
        wrong: None,
        report,
        tracing,
        hash: seed,
        scenario,
    };
    world.note(|world| format!("seed {seed}: {:?}", world.scenario));
    let verdict = world.live();
    if verdict.is_err() {
        world.note(StoreWorld::listing);
    }
    let (errors, digest) = world.place.errors_and_digest();
    world.mix(digest);
    world.report.counts.disk_errors = errors;
    world.report.hash = world.hash;
    world.report.verdict = verdict.err();
}

impl StoreWorld<'_> {
    fn note(&mut self, text: impl FnOnce(&Self) -> String) {
        if self.tracing {
            let text = text(self);
            // Writing to a string does not fail.
            let _ = writeln!(self.report.trace, "{text}");
        }
    }

    /// The names there, for a trace.
    fn listing(&self) -> String {
        let file = |(path, bytes): (String, Vec<u8>)| match inrush_store::plain::parse(&bytes) {
            Some(rows) => format!("  {path}: {rows:?}"),
            None => format!("  {path}: {}", String::from_utf8_lossy(&bytes).trim_end()),
        };
        let files = self.place.contents().into_iter().map(file);
        files.collect::<Vec<_>>().join("\n")
    }

    fn mix(&mut self, word: u64) {
        self.hash = (self.hash ^ word)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(23);
    }

    /// Has time pass; sometimes somebody sets the wall clock wrong, and then right.
    fn turn_clocks(&mut self, passed: i64) {
        self.now += passed;
        if self.off.0 != 0 && self.now >= self.off.1 {
            self.off = (0, 0);
        } else if self.scenario.jumps && self.off.0 == 0 && self.rng.u8(..30) == 0 {
            let days = [-400, -60, -2, 2, 60, 400][self.rng.usize(..6)];
            let lasts = self.rng.i64(0..40) * MINUTE_NS;
            self.off = (days * DAY_NS, self.now + lasts);
            self.note(|_| format!("the clock jumps by {days} days"));
        }
        let steady = Duration::from_nanos((self.now - BEGIN_NS) as u64);
        steps::set_clocks(self.wall(), steady);
        let lives = self
            .writers
            .iter()
            .filter_map(|writer| writer.life.as_ref());
        lives.for_each(SteppedWriter::look_at_clocks);
    }

    /// Time by the wall clock.
    fn wall(&self) -> i64 {
        self.now + self.off.0
    }

    fn live(&mut self) -> StoreVerdict {
        self.turn_clocks(0);
        self.place.set_chances(self.scenario.chances);
        for _ in 0..self.scenario.steps {
            let passed = self.rng.i64(0..MINUTE_NS);
            self.turn_clocks(passed);
            self.report.counts.steps += 1;
            let at = self.rng.usize(..self.writers.len());
            if self.writers[at].life.is_none() {
                self.start(at)?;
            }
            self.step(at)?;
            self.after(at)?;
        }
        self.wind_down()?;
        if let StoreBackend::Folder(folder) = &self.place {
            folder.cut_power();
            self.report.counts.power_cuts += 1;
            self.end_of(0, true);
            self.wind_down()?;
        }
        Ok(())
    }

    /// One step of a process, or of its end.
    fn step(&mut self, at: usize) -> StoreVerdict {
        let die = self.rng.u32(..1000) < self.scenario.ends;
        if die {
            match self.rng.u8(..4) {
                0 => self.end(at, false),
                1 => self.end(at, true),
                2 => {
                    let calls = self.rng.i64(0..12);
                    self.writers[at].process.die_after(calls);
                }
                _ => self.die_in_commit(at),
            }
            return Ok(());
        }
        if self.scenario.capacity < usize::MAX && self.rng.u8(..20) == 0 {
            let capacity = [self.scenario.capacity, usize::MAX][self.rng.usize(..2)];
            if let StoreBackend::Folder(folder) = &self.place {
                folder.set_capacity(capacity);
            }
        }
        match self.rng.u32(..1000) < self.scenario.upkeep {
            true => self.upkeep(at),
            false => {
                self.feed(at);
                Ok(())
            }
        }
    }

    /// Has a process die within the commit that comes next, of events or of a merge, or within
    /// the writing of its files.
    fn die_in_commit(&mut self, at: usize) {
        let calls = self.rng.i64(0..16);
        let StoreWriter {
            queue,
            life,
            process,
            ..
        } = &mut self.writers[at];
        let Some(life) = life else { return };
        process.die_after(calls);
        let done = match life.is_merging() {
            true => life.end_merge(),
            false => {
                life.seal();
                let written = life.write(queue);
                written.and_then(|_| life.make(queue)).map(|_| ())
            }
        };
        self.told(at, "die in a commit", &done);
    }

    /// Steps of the queue, of the thread that takes and of the one that writes.
    fn feed(&mut self, at: usize) {
        let (choice, count) = (self.rng.u8(..10), self.rng.u32(1..5));
        let (now, wall) = (self.now, self.wall());
        let StoreWriter {
            queue, life, blind, ..
        } = &mut self.writers[at];
        let Some(life) = life else { return };
        let mut counted = 0;
        let done: io::Result<bool> = match choice {
            0 => {
                queue.append(count, wall, now, *blind && wall != now);
                counted = u64::from(count);
                Ok(true)
            }
            1 => {
                queue.sync();
                Ok(true)
            }
            2 => {
                queue.save();
                Ok(true)
            }
            3 | 4 => {
                let offered = queue.offer(count);
                if let Some(one) = &offered {
                    let events = one.events.clone();
                    life.take(queue, one.position, one.origin, events, one.received);
                }
                Ok(offered.is_some())
            }
            5 => Ok(life.seal()),
            6 | 7 => life.write(queue),
            _ => life.make(queue),
        };
        self.report.counts.events += counted;
        let words = [
            "append", "sync", "save", "take", "take", "seal", "write", "write",
        ];
        let word = words.get(usize::from(choice)).unwrap_or(&"make");
        self.told(at, word, &done);
    }

    fn told<T: std::fmt::Debug>(&mut self, at: usize, what: &str, done: &io::Result<T>) {
        if let Err(error) = done
            && error.kind() == io::ErrorKind::AlreadyExists
            && self.newest == Some(at)
        {
            self.wrong = Some(format!("{what}: nobody else writes, but: {error}"));
        }
        self.mix(u64::from(done.is_ok()) + ((at as u64) << 8));
        self.note(|_| format!("{at}: {what}: {done:?}"));
    }

    /// Steps of the thread for upkeep.
    fn upkeep(&mut self, at: usize) -> StoreVerdict {
        let choice = self.rng.u8(..8);
        let quiet = [0, 60 * MINUTE_NS][self.rng.usize(..2)];
        let now = self.wall() + quiet;
        let Some(life) = &mut self.writers[at].life else {
            return Ok(());
        };
        if life.is_merging() {
            let done = life.end_merge();
            self.told(at, "end of a merge", &done);
            return Ok(());
        }
        match choice {
            0..4 => {
                let done = life.begin_merge(now);
                self.told(at, "merge", &done);
            }
            4 | 5 => {
                life.bury();
                self.told(at, "bury", &Ok(()));
            }
            _ => self.retain(at)?,
        }
        Ok(())
    }

    fn retain(&mut self, at: usize) -> StoreVerdict {
        let queues: Vec<&VirtualQueue> = self.writers.iter().map(|writer| &writer.queue).collect();
        let Some(life) = &self.writers[at].life else {
            return Ok(());
        };
        if self.newest != Some(at) {
            // What it lists may be gone; nothing of this is committed.
            let done = life.retain();
            self.told(at, "retain, fenced", &done);
            return Ok(());
        }
        // Or what it takes from a commit in doubt could not be told.
        if life.resolve().is_err() || self.writers[at].process.is_dead() {
            return Ok(());
        }
        let (place, is_damaged) = (&self.place, self.is_damaged);
        let listed = || oracle::listed(life, place, is_damaged);
        let files = listed();
        let before = oracle::held(place, &queues, &files)?;
        let bytes: std::collections::BTreeMap<String, Vec<u8>> = files
            .iter()
            .filter_map(|path| Some((path.clone(), place.peek(path)?)))
            .collect();
        let expired = || life.store().account().expired.iter().sum::<u64>();
        let counted = expired();
        let done = life.retain();
        let after = oracle::held(place, &queues, &listed())?;
        let (gone, counted) = (
            before.difference(&after).count() as u64,
            expired() - counted,
        );
        if gone != counted && !is_damaged {
            return Err(format!(
                "retention deletes {gone} events and counts {counted}"
            ));
        }
        let old_ns = self.scenario.old_ns(self.now);
        for (queue, event) in before.difference(&after) {
            queues[*queue].retained(*event, true, old_ns);
        }
        for path in life.doubted() {
            let of = |end: &str| bytes.get(&format!("{path}{end}"));
            let Some(bytes) = of("").or_else(|| of(".tmp")) else {
                continue;
            };
            for (log, epoch, seq, _) in inrush_store::plain::parse(bytes).unwrap_or_default() {
                let queue = queues.iter().find(|queue| queue.log() == log);
                if let Some((queue, event)) = queue.and_then(|q| Some((q, q.index(epoch, seq)?))) {
                    queue.retained(event, false, old_ns);
                }
            }
        }
        self.told(at, "retain", &done);
        Ok(())
    }

    /// Looks at everything after a step.
    fn after(&mut self, at: usize) -> StoreVerdict {
        if self.writers[at].process.is_dead() {
            self.has_died = true;
            self.end(at, false);
        }
        if let Some(wrong) = self.wrong.take() {
            return Err(wrong);
        }
        let queues: Vec<&VirtualQueue> = self.writers.iter().map(|writer| &writer.queue).collect();
        if let Some(wrong) = queues.iter().find_map(|queue| queue.wrong()) {
            return Err(wrong);
        }
        let Some(life) = &self.writers[at].life else {
            return Ok(());
        };
        if self.newest == Some(at) {
            oracle::look(life, &self.place, &queues, self.is_damaged)?;
        }
        oracle::count(life, self.writers[at].before)
    }

    /// Ends a process; with it the machine, if the power is cut.
    fn end(&mut self, at: usize, power_cut: bool) {
        let power_cut = match &self.place {
            StoreBackend::Folder(folder) if power_cut => {
                self.writers[at].process.kill();
                folder.cut_power();
                true
            }
            _ => false,
        };
        self.report.counts.kills += u64::from(!power_cut);
        self.report.counts.power_cuts += u64::from(power_cut);
        self.end_of(at, power_cut);
    }

    fn end_of(&mut self, at: usize, power_cut: bool) {
        self.note(|_| format!("{at}: end, power cut: {power_cut}"));
        let writer = &mut self.writers[at];
        writer.process.kill();
        writer.life = None;
        if self.scenario.damage > 0 && self.backup.len() < 20 {
            let name = |path: &str| path.strip_suffix(".tmp").unwrap_or(path).to_owned();
            let files = self.place.contents().into_iter();
            let files = files.map(|(path, bytes)| (name(&path), bytes));
            let is_whole = |bytes: &[u8]| inrush_store::plain::parse(bytes).is_some();
            let files = files.filter(|(path, bytes)| path.ends_with(".parquet") && is_whole(bytes));
            self.backup.extend(files);
        }
        let writer = &mut self.writers[at];
        writer.queue.restart(power_cut);
        if self.newest == Some(at) {
            self.newest = None;
        }
    }

    /// Starts a process: the faults stop if it cannot otherwise.
    fn start(&mut self, at: usize) -> StoreVerdict {
        if self.rng.u8(..100) < self.scenario.damage {
            self.damage();
        }
        if self.rng.u8(..100) < self.scenario.damage {
            self.put_back();
        }
        let mut tries = 0;
        loop {
            tries += 1;
            let process = Arc::new(SimulatedProcess::default());
            if tries > STARTS_MAX {
                self.place.set_chances(FaultRates::default());
                if let StoreBackend::Folder(folder) = &self.place {
                    folder.set_capacity(usize::MAX);
                }
            } else if self.rng.u32(..1000) < self.scenario.ends * 2 {
                process.die_after(self.rng.i64(0..25));
            }
            self.writers[at].process = Arc::clone(&process);
            self.newest = None;
            let kept = self.place.peek(steps::CLOCK);
            self.writers[at].blind = kept.is_none() && self.off.0 != 0;
            let spans = kept.map_or_else(Vec::new, |bytes| steps::spans_kept(&bytes));
            let is_known = |stamp| spans.iter().any(|span| span.has(stamp));
            match self.writers[at].blind {
                // It takes the wrong time for the right one, now and after a restart.
                true => self.writers[at].queue.excuse_all(),
                false => self.writers[at].queue.excuse(is_known),
            }
            let opened =
                SteppedWriter::open(self.place.home(&process), self.scenario.options.clone());
            self.note(|_| format!("{at}: open: {:?}", opened.as_ref().err()));
            self.note(Self::listing);
            match opened {
                Ok(life) => {
                    let writer = &mut self.writers[at];
                    writer.before = life.store().levels().events;
                    writer.life = Some(life);
                    self.newest = Some(at);
                    self.place.set_chances(self.scenario.chances);
                    if self.cuts_at_start() {
                        self.skip_and_cut(at)?;
                        tries = 0;
                        continue;
                    }
                    return self.after(at);
                }
                Err(error) => self.mend(at, &process, &error, tries)?,
            }
        }
    }

    /// Deeds of the operator where the store does not open.
    fn mend(
        &mut self,
        at: usize,
        process: &Arc<SimulatedProcess>,
        error: &io::Error,
        tries: u32,
    ) -> StoreVerdict {
        if process.is_dead() {
            self.report.counts.kills += 1;
            if self.rng.bool() {
                self.end(at, true);
            }
        } else if error.kind() == io::ErrorKind::InvalidData && self.is_damaged {
            let home = self.place.home(process);
            let repaired = rebuild::repair(home, &mut |_, _| ());
            self.note(|_| format!("{at}: repair: {repaired:?}"));
            match repaired {
                Ok(_) => self.is_repaired = true,
                Err(_) if process.is_dead() && self.rng.bool() => self.end(at, true),
                Err(_) => {}
            }
        } else if error.kind() == io::ErrorKind::InvalidData || tries > STARTS_MAX + 20 {
            return Err(format!("the store does not open: {error}"));
        }
        Ok(())
    }

    /// True if the power is cut before anything else of a new process reaches the disk.
    fn cuts_at_start(&mut self) -> bool {
        let is_repaired = std::mem::take(&mut self.is_repaired);
        let has_died = std::mem::take(&mut self.has_died);
        let one_in = if is_repaired || has_died { 2 } else { 12 };
        self.scenario.ends > 0 && self.rng.u8(..one_in) == 0
    }

    /// A settled store, and then a power cut.
    fn skip_and_cut(&mut self, at: usize) -> StoreVerdict {
        let StoreWriter { queue, life, .. } = &mut self.writers[at];
        let Some(life) = life else { return Ok(()) };
        queue.sync();
        while let Some(one) = queue.offer(u32::MAX) {
            life.take(queue, one.position, one.origin, one.events, one.received);
        }
        queue.save();
        self.after(at)?;
        self.end(at, true);
        Ok(())
    }

    /// Damages an object of the log.
    fn damage(&mut self) {
        // Two writers do not stop for it.
        if self.writers.iter().any(|writer| writer.life.is_some()) {
            return;
        }
        let contents = self.place.contents();
        let is_log = |path: &str| path.ends_with(".commit") || path.ends_with(".full");
        let log: Vec<_> = contents.iter().filter(|(path, _)| is_log(path)).collect();
        let last = log.len().saturating_sub(1);
        let which = [last, self.rng.usize(..=last)][self.rng.usize(..2)];
        let Some((path, bytes)) = log.get(which) else {
            return;
        };
        let mut bytes = bytes.clone();
        match self.rng.u8(..3) {
            0 => bytes.truncate(self.rng.usize(..bytes.len().max(1))),
            _ if bytes.is_empty() => {}
            _ => {
                let at = self.rng.usize(..bytes.len());
                bytes[at] ^= 1 << self.rng.u8(..8);
            }
        }
        self.is_damaged = true;
        self.note(|_| format!("damage: {path}"));
        self.place.damage(path, bytes);
    }

    /// Somebody puts a file back from a backup.
    fn put_back(&mut self) {
        if self.writers.iter().any(|writer| writer.life.is_some()) {
            return;
        }
        let Some(last) = self.backup.len().checked_sub(1) else {
            return;
        };
        let at = [last, self.rng.usize(..=last)][self.rng.usize(..2)];
        let (path, bytes) = self.backup.swap_remove(at);
        self.is_damaged = true;
        self.note(|_| format!("put back: {path}"));
        self.place.damage(&path, bytes);
    }

    /// All faults stop; everything must be settled within so many steps, by one process after the
    /// other, and be there when all have been started again.
    fn wind_down(&mut self) -> StoreVerdict {
        self.scenario.chances = FaultRates::default();
        self.scenario.ends = 0;
        self.scenario.damage = 0;
        self.scenario.jumps = false;
        self.off.1 = self.now;
        self.place.set_chances(FaultRates::default());
        match &self.place {
            StoreBackend::Folder(folder) => folder.set_capacity(usize::MAX),
            StoreBackend::Bucket(bucket) => bucket.settle_down(),
        }
        for at in 0..self.writers.len() {
            if self.rng.bool() || self.writers.len() > 1 || self.writers[at].life.is_none() {
                self.end_of(at, false);
                self.start(at)?;
            }
            self.writers[at].process.die_after(i64::MAX);
            self.deliver_all(at)?;
            self.tidy(at)?;
            if let Some(life) = self.writers[at].life.take() {
                life.stop(&self.writers[at].queue);
            }
            self.end_of(at, false);
            self.start(at)?;
            let Some(life) = &self.writers[at].life else {
                continue;
            };
            oracle::names(life, &self.place, self.is_damaged)?;
        }
        let told =
            |writer: &StoreWriter| writer.queue.events().iter().filter(|e| e.told).count() as u64;
        self.report.counts.delivered = self.writers.iter().map(told).sum();
        Ok(())
    }

    fn deliver_all(&mut self, at: usize) -> StoreVerdict {
        for _ in 0..WIND_DOWN_STEPS {
            self.turn_clocks(1_000_000);
            let StoreWriter { queue, life, .. } = &mut self.writers[at];
            let Some(life) = life else {
                return Err("the process ended by itself".to_owned());
            };
            queue.sync();
            if queue.is_done() && life.is_idle() {
                return Ok(());
            }
            if let Some(one) = queue.offer(u32::MAX) {
                life.take(queue, one.position, one.origin, one.events, one.received);
            }
            life.seal();
            let feed: &dyn Feed = queue;
            let written = life.write(feed);
            let made = life.make(feed);
            self.note(|_| format!("{at}: write {written:?}, make {made:?}"));
            self.after(at)?;
        }
        Err(format!("not settled within {WIND_DOWN_STEPS} steps"))
    }

    /// Merges all that can be merged, and deletes what is no longer needed.
    fn tidy(&mut self, at: usize) -> StoreVerdict {
        let later = self.wall() + 60 * MINUTE_NS;
        for _ in 0..WIND_DOWN_STEPS {
            let Some(life) = &mut self.writers[at].life else {
                return Err("the process ended by itself".to_owned());
            };
            life.end_merge().map_err(|error| error.to_string())?;
            let more = life.begin_merge(later).map_err(|error| error.to_string())?;
            life.bury();
            if !more {
                let life = &self.writers[at].life;
                let Some(life) = life else { return Ok(()) };
                oracle::names(life, &self.place, self.is_damaged).or_else(|wrong| {
                    // The next start gives files their names.
                    match wrong.contains("is not in the list") && !wrong.contains(".tmp") {
                        true => Err(wrong),
                        false => Ok(()),
                    }
                })?;
                return self.after(at);
            }
            self.after(at)?;
        }
        Err(format!("not merged within {WIND_DOWN_STEPS} steps"))
    }
}
