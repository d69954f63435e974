//! Fault series: rounds of fault, recovery and comparison, one after the other in one folder.
//!
//! # What it guarantees
//! * A comparison follows the drain: senders done, nothing pending, the process healthy.
//! * A difference goes into `FaultsRun`. A process that ends by itself, or hangs, is an error.
//! * Every round has lane numbers of its own, so no event is mistaken for that of an earlier round.
//!
//! # States
//! `RoundSeries::round` runs a life under faults, restarts unless that life heals, drains, compares
//! and ends the process.
//!
//! # Limits
//! `DRAIN_MAX` bounds the drain, `SETTLE_MAX` the wait for sums that agree. Lane numbers have two
//! digits, and a round takes two of them: one folder serves for 50 rounds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use inrush_harness::child::{wait, wait_until};
use nix::sys::signal::Signal;
use serde_json::Value;

use super::bucket::Bucket;
use super::commits::Commits;
use super::judge::{self, LaneArrivals};
use super::outcome::FaultsRun;
use super::plan::{Ending, RoundPlan};
use super::process::{FaultsProcess, LOOK_EVERY, SeriesSettings};
use crate::crash::{EventLane, LaneProtocol, RunControl, relp};

/// Time that all events may take to be delivered once nothing fails any more.
const DRAIN_MAX: Duration = Duration::from_secs(90);

/// Time that sums may take to fit.
const SETTLE_MAX: Duration = Duration::from_secs(5);

/// Bytes that the index may have from which retention deletes: less than a round brings.
const BRIEF_BYTES: &str = "64KiB";

/// The index whose events all stay, and the one from which retention deletes.
pub(super) const KEPT: &str = "main";
pub(super) const BRIEF: &str = "brief";

/// Rounds in one folder.
pub(super) struct RoundSeries {
    house: SeriesSettings,
    ports: [u16; 2],
    bucket: Option<Arc<Bucket>>,
    /// Of the folder in the bucket.
    name: String,
    /// Rounds so far.
    rounds: u8,
    /// End of the destination's file before this round.
    tape_from: u64,
    /// Events of each index after the last round.
    kept: u64,
    /// Of the index that retention deletes from: acknowledged so far, and sends.
    brief_acked: u64,
    brief_sent: u64,
    commits: Commits,
}

/// The senders of one round; they end with it.
struct Senders {
    stage: Arc<RunControl>,
    lanes: [Arc<EventLane>; 2],
    threads: Vec<JoinHandle<()>>,
}

impl Drop for Senders {
    fn drop(&mut self) {
        self.stage.end();
    }
}

impl Senders {
    fn start(ids: u8, ports: [u16; 2]) -> Self {
        let stage = Arc::new(RunControl::default());
        let lane = |at: u8| {
            Arc::new(EventLane::new(
                ids + at,
                LaneProtocol::Relp,
                ports[usize::from(at)],
            ))
        };
        let lanes = [lane(0), lane(1)];
        let start = |lane: &Arc<EventLane>| {
            let (lane, stage) = (Arc::clone(lane), Arc::clone(&stage));
            std::thread::spawn(move || relp::run(&lane, &stage))
        };
        Self {
            threads: lanes.iter().map(start).collect(),
            stage,
            lanes,
        }
    }

    fn are_done(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }
}

impl RoundSeries {
    /// In a folder that is empty.
    pub(super) fn new(
        binary: &Path,
        dir: PathBuf,
        ports: [u16; 3],
        bucket: Option<Arc<Bucket>>,
    ) -> Result<Self> {
        std::fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
        let dir = dir.canonicalize()?;
        let name = dir
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let house = SeriesSettings {
            binary: binary.to_owned(),
            dir,
            admin_port: ports[0],
        };
        let series = Self {
            house,
            ports: [ports[1], ports[2]],
            bucket,
            name,
            rounds: 0,
            tape_from: 0,
            kept: 0,
            brief_acked: 0,
            brief_sent: 0,
            commits: Commits::default(),
        };
        let config = series.house.dir.join("inrush.yaml");
        crate::experiments::write(&config, &series.config())?;
        Ok(series)
    }

    fn config(&self) -> String {
        let dir = self.house.dir.display();
        let (admin, [kept, brief]) = (self.house.admin_port, self.ports);
        let place = match &self.bucket {
            None => String::new(),
            Some(bucket) => bucket.place(&self.name),
        };
        format!(
            "data_dir: \"{dir}/data\"\n\
             admin: {{ listen: \"127.0.0.1:{admin}\" }}\n\
             queue: {{ max_bytes: 1GiB }}\n\
             packs: {{ enabled: false }}\n\
             sources:\n  \
               kept: {{ type: syslog, listen: [\"relp://127.0.0.1:{kept}\"] }}\n  \
               brief: {{ type: syslog, listen: [\"relp://127.0.0.1:{brief}\"], \
                         index: {BRIEF} }}\n\
             destinations:\n  \
               local:\n    type: store\n    flush_after: 100ms\n    flush_bytes: 1MiB\n    \
                 indexes: {{ {BRIEF}: {{ bytes: {BRIEF_BYTES} }} }}\n{place}  \
               tape: {{ type: file, path: \"{dir}/tape.jsonl\", fsync: batch }}\n"
        )
    }

    pub(super) fn rounds(&self) -> u8 {
        self.rounds
    }

    pub(super) fn dir(&self) -> &Path {
        &self.house.dir
    }

    /// One round; what was wrong is in `run`.
    pub(super) fn round(&mut self, plan: &RoundPlan, run: &mut FaultsRun) -> Result<()> {
        let senders = Senders::start(2 * self.rounds, self.ports);
        self.rounds += 1;
        let mut process = self.under_faults(plan, &senders, run)?;
        let done = self.settle(&mut process, &senders, plan, run);
        if done.is_err() {
            // What it said is wanted now more than ever.
            process.end(Signal::SIGKILL)?;
            self.keep_log(&process.said())?;
        }
        done
    }

    /// Has everything delivered, and compares.
    fn settle(
        &mut self,
        process: &mut FaultsProcess,
        senders: &Senders,
        plan: &RoundPlan,
        run: &mut FaultsRun,
    ) -> Result<()> {
        senders.stage.call_last();
        if let Some(bucket) = &self.bucket {
            bucket.heal();
        }
        drained(process, senders)?;
        if let Some(bucket) = &self.bucket {
            run.take_answers(bucket.done());
        }
        let faults = senders
            .lanes
            .iter()
            .flat_map(|lane| lane.account().faults.clone());
        run.wrong.extend(faults);
        self.judge(process, senders, run)?;
        // A start behind a stop and a start behind a kill see other folders.
        let signal = match plan.life_ms % 2 {
            0 => Signal::SIGTERM,
            _ => Signal::SIGKILL,
        };
        process.end(signal)?;
        if let Some(traced) = process.traced()? {
            run.take_traced(&plan.injection, &traced);
        }
        self.keep_log(&process.said())
    }

    /// The life in which something fails, and the start after it. Returns the process that is to
    /// deliver everything.
    fn under_faults(
        &self,
        plan: &RoundPlan,
        senders: &Senders,
        run: &mut FaultsRun,
    ) -> Result<FaultsProcess> {
        let traced = self.bucket.is_none();
        if let Some(bucket) = &self.bucket {
            bucket.begin(&plan.answers);
        }
        senders.stage.next_life();
        let mut process = self.house.start(traced.then_some(&plan.injection))?;
        process.ready()?;
        let end = Instant::now() + Duration::from_millis(plan.life_ms);
        while Instant::now() < end && process.runs() {
            wait_until(end.min(Instant::now() + LOOK_EVERY));
        }
        let runs = process.runs();
        if plan.ending == Ending::Heal && runs {
            run.healed += 1;
            return Ok(process);
        }
        match plan.ending {
            Ending::Stop => {
                run.stopped += 1;
                process.end(Signal::SIGTERM)?;
            }
            Ending::Kill | Ending::Heal => {
                run.killed += 1;
                process.end(Signal::SIGKILL)?;
            }
        }
        let traced = process.traced()?;
        self.keep_log(&process.said())?;
        ensure!(
            runs || traced.as_ref().is_some_and(|traced| traced.killed),
            "it ended by itself"
        );
        if let Some(traced) = traced {
            run.take_traced(&plan.injection, &traced);
        }
        senders.stage.next_life();
        let mut process = self.house.start(None)?;
        process.ready()?;
        Ok(process)
    }

    /// Adds what a life said to the log beside its data.
    fn keep_log(&self, said: &[String]) -> Result<()> {
        use std::io::Write;
        let file = self.house.dir.join("inrush.log");
        let mut log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(file)?;
        writeln!(log, "-- round {}\n{}", self.rounds, said.join("\n"))?;
        Ok(())
    }

    /// Compares what was acknowledged with what is there.
    fn judge(
        &mut self,
        process: &FaultsProcess,
        senders: &Senders,
        run: &mut FaultsRun,
    ) -> Result<()> {
        let tape = self.tape()?;
        let mut copies_kept = 0;
        for (lane, index) in senders.lanes.iter().zip([KEPT, BRIEF]) {
            let account = lane.account().clone();
            let found = LaneArrivals {
                stored: stored(process, lane.id)?,
                taped: tape.get(&lane.id).cloned().unwrap_or_default(),
            };
            copies_kept += if index == KEPT { found.copies() } else { 0 };
            run.acked += account.acked.iter().filter(|acked| **acked).count() as u64;
            run.refused += account.refused;
            judge::lane(index, &account, &found, run);
            if index == BRIEF {
                self.brief_acked += account.acked.iter().filter(|acked| **acked).count() as u64;
                self.brief_sent += account
                    .sends
                    .iter()
                    .map(|sends| u64::from(*sends))
                    .sum::<u64>();
            }
        }
        self.judge_sums(process, copies_kept, run)
    }

    /// Compares the sums. Upkeep goes on meanwhile, so that they may be of two moments: what is
    /// wrong stays wrong.
    fn judge_sums(
        &mut self,
        process: &FaultsProcess,
        copies_kept: u64,
        run: &mut FaultsRun,
    ) -> Result<()> {
        let deadline = Instant::now() + SETTLE_MAX;
        loop {
            let wrong = self.wrong_sums(process, self.kept + copies_kept, run)?;
            if wrong.is_empty() {
                break;
            }
            if Instant::now() > deadline {
                run.sums_wrong += 1;
                wrong.into_iter().for_each(|text| run.tell(text));
                break;
            }
            wait(LOOK_EVERY);
        }
        self.kept += copies_kept;
        Ok(())
    }

    fn wrong_sums(
        &mut self,
        process: &FaultsProcess,
        kept_expected: u64,
        run: &mut FaultsRun,
    ) -> Result<Vec<String>> {
        let count = |of: &str| process.number(&format!("select count(*) from events{of}"));
        let all = count("")?;
        let kept = count(&format!(" where \"index\" = '{KEPT}'"))?;
        let taken = match &self.bucket {
            None => self
                .commits
                .read_folder(&self.house.dir.join("data/store/_log"))?,
            Some(bucket) => self.commits.read_bucket(bucket, &self.name)?,
        };
        run.merged += taken.merged;
        run.expired += taken.expired;
        run.commits += taken.commits;
        let mut wrong = judge::ledger(&process.ledger()?, all);
        let (brief, taken_kept) = self.commits.taken();
        if kept != kept_expected || taken_kept > 0 {
            wrong.push(format!(
                "{kept} events in {KEPT}, {kept_expected} were there; retention took {taken_kept}"
            ));
        }
        let (there, acked, sent) = (all.saturating_sub(kept), self.brief_acked, self.brief_sent);
        if !(acked..=sent).contains(&(there + brief)) {
            wrong.push(format!(
                "{BRIEF}: {there} there and {brief} taken by retention; {acked} acknowledged, \
                 {sent} sent"
            ));
        }
        Ok(wrong)
    }

    /// Events of each lane that the file got in this round, with how often.
    fn tape(&mut self) -> Result<BTreeMap<u8, BTreeMap<u32, u32>>> {
        use std::io::{ErrorKind, Read, Seek, SeekFrom};
        let file = self.house.dir.join("tape.jsonl");
        let mut file = match std::fs::File::open(&file) {
            // No event was sent before the kill.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeMap::new()),
            opened => opened.with_context(|| file.display().to_string())?,
        };
        file.seek(SeekFrom::Start(self.tape_from))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        self.tape_from += bytes.len() as u64;
        let mut found: BTreeMap<u8, BTreeMap<u32, u32>> = BTreeMap::new();
        for (lane, numbers) in judge::marks(&bytes) {
            *found.entry(lane).or_default().entry(numbers).or_default() += 1;
        }
        Ok(found)
    }

    /// Has the program itself look at every byte of the store.
    pub(super) fn verify(&self) -> Result<()> {
        if self.bucket.is_some() {
            return Ok(());
        }
        let done = std::process::Command::new(&self.house.binary)
            .args(["store", "verify", "-c"])
            .arg(self.house.dir.join("inrush.yaml"))
            .output()?;
        let said = String::from_utf8_lossy(&done.stdout);
        let more = String::from_utf8_lossy(&done.stderr);
        ensure!(done.status.success(), "store verify: {said}{more}");
        Ok(())
    }
}

/// Waits until everything sent is answered and delivered.
fn drained(process: &mut FaultsProcess, senders: &Senders) -> Result<()> {
    let deadline = Instant::now() + DRAIN_MAX;
    loop {
        let ledger = process.ledger()?;
        let destinations = ledger["destinations"].as_object();
        let pending = destinations
            .into_iter()
            .flatten()
            .any(|(_, account)| account["pending"].as_u64() != Some(0));
        // A store that is being opened has no account, and nothing pending perhaps.
        let open = ledger["destinations"]["local"]["stored"].is_object();
        if senders.are_done() && !pending && open && process.is_healthy()? {
            return Ok(());
        }
        let sent = senders.are_done();
        if Instant::now() > deadline {
            let said = process.destinations()?;
            anyhow::bail!("not drained; senders ended: {sent}; {ledger}; {said}");
        }
        ensure!(process.runs(), "it ended by itself");
        wait(LOOK_EVERY);
    }
}

/// Events of a lane that the store has, with how often.
fn stored(process: &FaultsProcess, lane: u8) -> Result<BTreeMap<u32, u32>> {
    let mark = crate::crash::MARK;
    let rows = process.sql(&format!(
        "select substr(raw, strpos(raw, '{mark}') + {}, 10) as n, count(*) from events \
         where raw like '%{mark}{lane:02}-%' group by 1",
        mark.len() + 3
    ))?;
    let mut found = BTreeMap::new();
    for row in rows {
        let number = row
            .first()
            .and_then(Value::as_str)
            .and_then(|n| n.parse().ok());
        let times = row.get(1).and_then(Value::as_u64);
        let (Some(number), Some(times)) = (number, times) else {
            anyhow::bail!("a row like {row:?}");
        };
        found.insert(number, u32::try_from(times)?);
    }
    Ok(found)
}
