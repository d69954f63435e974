//! The figures of a run, what must hold of them, and their section of the page of results.

use std::collections::BTreeMap;
use std::fmt::Write;

use inrush_harness::measure::ScenarioCheck;
use serde::{Deserialize, Serialize};

use super::StoreMedium;
use super::injected::Traced;
use super::plan::Injection;

/// Rounds that the page asks for.
const ROUNDS_WANTED: u64 = 1_000;

/// Things that are wrong and told one by one.
const TOLD_MAX: usize = 40;

/// One run, in events where nothing else is said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct FaultsRun {
    pub(crate) seed: u64,
    pub(crate) on: StoreMedium,
    /// Rounds that were carried out.
    pub(crate) rounds: u64,
    pub(crate) seconds: f64,
    /// The end, RFC 3339.
    pub(crate) ended: String,
    /// Rounds in which at least one call failed or one answer was bad.
    pub(crate) hit: u64,
    /// Calls that failed and answers that were bad.
    pub(crate) hits: u64,
    /// Lives that were killed at any moment, at the very call that failed, stopped, and that went
    /// on once the faults had ended.
    pub(crate) killed: u64,
    pub(crate) killed_within: u64,
    pub(crate) stopped: u64,
    pub(crate) healed: u64,
    pub(crate) acked: u64,
    /// Acknowledged and not in the store.
    pub(crate) lost_store: u64,
    /// Acknowledged and not in the file.
    pub(crate) lost_file: u64,
    /// In the store more often than they were sent.
    pub(crate) doubled: u64,
    /// In the store twice, for they were sent twice.
    pub(crate) resent: u64,
    /// In the file twice, and once in the store.
    pub(crate) repeated: u64,
    /// Rounds after which the ledger, a count of all events, and what retention took did not fit.
    pub(crate) sums_wrong: u64,
    pub(crate) refused: u64,
    /// Commits, files that were merged, and events that retention took.
    pub(crate) commits: u64,
    pub(crate) merged: u64,
    pub(crate) expired: u64,
    /// Rounds that could not be brought to an end.
    pub(crate) broken: u64,
    /// Number of failures by thread, call and error, or of bad answers.
    pub(crate) faults: BTreeMap<String, u64>,
    /// Number of calls that were seen, by thread and call.
    #[serde(default)]
    pub(crate) seen: BTreeMap<String, u64>,
    /// The first things that are wrong.
    pub(crate) wrong: Vec<String>,
}

impl FaultsRun {
    pub(super) fn tell(&mut self, text: String) {
        if self.wrong.len() < TOLD_MAX {
            self.wrong.push(text);
        }
    }

    pub(super) fn take_traced(&mut self, injection: &Injection, traced: &Traced) {
        self.killed_within += u64::from(traced.killed);
        self.hit += u64::from(!traced.hits.is_empty());
        self.hits += traced.hits.len() as u64;
        for hit in &traced.hits {
            let mut words = hit.split(' ');
            let (thread, call) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
            let key = format!("{thread} {call} {}", injection.failure.name());
            *self.faults.entry(key).or_default() += 1;
        }
        for (call, times) in &traced.seen {
            *self.seen.entry(call.clone()).or_default() += times;
        }
    }

    pub(super) fn take_answers(&mut self, done: Vec<(String, u64)>) {
        self.hit += u64::from(!done.is_empty());
        for (name, times) in done {
            self.hits += times;
            *self.faults.entry(name).or_default() += times;
        }
    }

    /// Adds what another worker found.
    pub(super) fn add(&mut self, other: Self) {
        let sums: [(&mut u64, u64); 19] = [
            (&mut self.rounds, other.rounds),
            (&mut self.hit, other.hit),
            (&mut self.hits, other.hits),
            (&mut self.killed, other.killed),
            (&mut self.killed_within, other.killed_within),
            (&mut self.stopped, other.stopped),
            (&mut self.healed, other.healed),
            (&mut self.acked, other.acked),
            (&mut self.lost_store, other.lost_store),
            (&mut self.lost_file, other.lost_file),
            (&mut self.doubled, other.doubled),
            (&mut self.resent, other.resent),
            (&mut self.repeated, other.repeated),
            (&mut self.sums_wrong, other.sums_wrong),
            (&mut self.refused, other.refused),
            (&mut self.commits, other.commits),
            (&mut self.merged, other.merged),
            (&mut self.expired, other.expired),
            (&mut self.broken, other.broken),
        ];
        for (sum, more) in sums {
            *sum += more;
        }
        for (key, times) in other.faults {
            *self.faults.entry(key).or_default() += times;
        }
        for (key, times) in other.seen {
            *self.seen.entry(key).or_default() += times;
        }
        self.wrong.extend(other.wrong);
    }

    /// True if everything held.
    pub(crate) fn passed(&self) -> bool {
        checks(std::slice::from_ref(self))
            .iter()
            .all(|check| check.passed)
    }

    /// Tells the person who waits.
    pub(super) fn say(&self) {
        for check in checks(std::slice::from_ref(self)) {
            let mark = if check.passed { "yes" } else { "NO " };
            eprintln!("  {mark}  {}: {}", check.what, check.found);
        }
        for wrong in &self.wrong {
            eprintln!("  {wrong}");
        }
    }
}

/// Adds a run to those of the page; one of the same seed and place is replaced.
pub(super) fn add(runs: &mut Vec<FaultsRun>, run: FaultsRun) {
    runs.retain(|old| (old.seed, old.on) != (run.seed, run.on));
    runs.push(run);
}

/// Checks of all runs together.
fn checks(runs: &[FaultsRun]) -> Vec<ScenarioCheck> {
    let sum = |of: fn(&FaultsRun) -> u64| runs.iter().map(of).sum::<u64>();
    let none = |what: &str, bad: u64, of: String| {
        ScenarioCheck::new(what, format!("{bad} of {of}"), bad == 0)
    };
    let acked = || format!("{} acknowledged", sum(|r| r.acked));
    vec![
        none(
            "no acknowledged event is missing in the store",
            sum(|r| r.lost_store),
            acked(),
        ),
        none(
            "no acknowledged event is missing in the file",
            sum(|r| r.lost_file),
            acked(),
        ),
        none(
            "no event is in the store more often than it was sent",
            sum(|r| r.doubled),
            format!(
                "{} ({} are twice, for they were sent again after a kill; {} are once more in the \
                 file)",
                sum(|r| r.acked),
                sum(|r| r.resent),
                sum(|r| r.repeated)
            ),
        ),
        none(
            "the ledger balances after every round, and a count of all events says the same",
            sum(|r| r.sums_wrong),
            format!(
                "{} rounds; retention took {} events",
                sum(|r| r.rounds),
                sum(|r| r.expired)
            ),
        ),
        ScenarioCheck::new(
            "nothing else is odd",
            format!(
                "{} rounds without an end, {} refused, {} things told",
                sum(|r| r.broken),
                sum(|r| r.refused),
                sum(|r| r.wrong.len() as u64)
            ),
            runs.iter()
                .all(|r| r.broken + r.refused == 0 && r.wrong.is_empty()),
        ),
    ]
}

/// The section of the page. Writing to a string cannot fail.
pub(crate) fn section(page: &mut String, runs: &[FaultsRun]) {
    if runs.is_empty() {
        return;
    }
    let rounds: u64 = runs.iter().map(|run| run.rounds).sum();
    let enough = ScenarioCheck::new(
        "at least 1,000 rounds",
        rounds.to_string(),
        rounds >= ROUNDS_WANTED,
    );
    let checks: Vec<ScenarioCheck> = std::iter::once(enough).chain(checks(runs)).collect();
    let passed = checks.iter().all(|check| check.passed);
    let verdict = if passed { "passed" } else { "failed" };
    let _ = writeln!(
        page,
        "\n## `faults`: {verdict}\n\nSystem calls of the store that fail (EIO, ENOSPC, EMFILE; \
         before they are carried out, after, half done) and answers of a bucket that are lost, \
         each with `kill -9`, under RELP load; then a start without them.\n"
    );
    for check in &checks {
        let mark = if check.passed { "yes" } else { "**NO**" };
        let _ = writeln!(page, "- {mark} — {}: {}", check.what, check.found);
    }
    page.push_str(
        "\n| store | seed | rounds (with a fault) | faults | killed (at the call) / stopped / went \
         on | seconds | acknowledged | commits | files merged | taken by retention |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    for run in runs {
        let _ = writeln!(page, "| {} |", row(run).join(" | "));
    }
    for run in runs {
        let _ = writeln!(page, "\nOn {}: {}.", run.on.text(), faults(run));
    }
}

fn row(run: &FaultsRun) -> Vec<String> {
    vec![
        run.on.text().to_owned(),
        run.seed.to_string(),
        format!("{} ({})", run.rounds, run.hit),
        run.hits.to_string(),
        format!(
            "{} ({}) / {} / {}",
            run.killed, run.killed_within, run.stopped, run.healed
        ),
        format!("{:.0}", run.seconds),
        run.acked.to_string(),
        run.commits.to_string(),
        run.merged.to_string(),
        run.expired.to_string(),
    ]
}

/// Number of failures by call, its errors together.
fn faults(run: &FaultsRun) -> String {
    let all = run
        .faults
        .iter()
        .map(|(name, times)| format!("{name} {times}"));
    all.collect::<Vec<_>>().join(", ")
}
