//! A run's figures, what must hold of them, and their section of the page of results.

use std::fmt::Write;

use inrush_harness::measure::ScenarioCheck;
use serde::{Deserialize, Serialize};

use super::judge::{CrashVerdict, PROMISE, SETTLE_MAX};
use super::{CrashArgs, CrashLoad, Durability};

/// Kills that the page asks for, over all its runs in `fsync` mode.
const KILLS_WANTED: u64 = 1_000;

/// One run, in events where nothing else is said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct CrashRun {
    pub(crate) seed: u64,
    pub(crate) load: CrashLoad,
    pub(crate) durability: Durability,
    pub(crate) kills: u64,
    /// Kills before the process was ready.
    pub(crate) early: u64,
    pub(crate) seconds: f64,
    /// Time of its end, RFC 3339.
    pub(crate) ended: String,
    /// Number of looks at the ledger.
    pub(crate) looks: u64,
    /// Looks at which it did not balance.
    pub(crate) unbalanced: u64,
    pub(crate) sent: u64,
    pub(crate) delivered: u64,
    pub(crate) acked: u64,
    pub(crate) acked_lost: u64,
    /// Over TCP, accepted more than 50 ms before a kill.
    pub(crate) owed: u64,
    pub(crate) owed_lost: u64,
    /// Of those, in the life that was not killed.
    #[serde(default)]
    pub(crate) spared_lost: u64,
    /// Over TCP, sent and never delivered.
    pub(crate) gone: u64,
    /// Milliseconds before its kill at which the oldest lost event had been accepted.
    pub(crate) oldest_loss_ms: f64,
    pub(crate) duplicates: u64,
    pub(crate) in_flight: u64,
    pub(crate) unanswered: u64,
    pub(crate) resent: u64,
    pub(crate) unexplained: u64,
    pub(crate) per_kill_max: u64,
    pub(crate) in_flight_max: u64,
    /// The longest time before a kill that a request was answered of which events came again.
    pub(crate) repeated_ms: f64,
    /// Counted as dropped by the process.
    pub(crate) dropped: u64,
    /// Refused over RELP.
    pub(crate) refused: u64,
    /// Arrivals of what nobody sent.
    pub(crate) odd: u64,
    /// The first things that are wrong.
    pub(crate) wrong: Vec<String>,
}

impl CrashRun {
    pub(super) fn new(seed: u64, args: &CrashArgs) -> Self {
        Self {
            seed,
            load: args.load,
            durability: args.durability,
            kills: args.kills.into(),
            ..Self::default()
        }
    }

    pub(super) fn take(&mut self, verdict: &CrashVerdict) {
        let now = jiff::Timestamp::now();
        self.ended = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        self.sent = verdict.sent;
        self.delivered = verdict.delivered;
        self.acked = verdict.acked;
        self.acked_lost = verdict.acked_lost;
        self.owed = verdict.owed;
        self.owed_lost = verdict.owed_lost;
        self.spared_lost = verdict.spared_lost;
        self.gone = verdict.gone;
        self.oldest_loss_ms = verdict.oldest_loss_ms;
        self.duplicates = verdict.duplicates;
        self.in_flight = verdict.in_flight;
        self.unanswered = verdict.unanswered;
        self.resent = verdict.resent;
        self.unexplained = verdict.unexplained;
        self.per_kill_max = verdict.per_kill_max;
        self.in_flight_max = verdict.in_flight_max;
        self.repeated_ms = verdict.repeated_ms;
        self.odd = verdict.unsent;
        self.wrong.extend_from_slice(&verdict.wrong);
    }

    /// True if everything held.
    pub(crate) fn passed(&self) -> bool {
        checks(std::slice::from_ref(self)).iter().all(|c| c.passed)
    }

    /// Tells the person who waits.
    pub(super) fn tell(&self) {
        for check in checks(std::slice::from_ref(self)) {
            let mark = if check.passed { "yes" } else { "NO " };
            eprintln!("  {mark}  {}: {}", check.what, check.found);
        }
        for wrong in &self.wrong {
            eprintln!("  {wrong}");
        }
    }
}

/// Adds a run to those of the page.
pub(super) fn add(runs: &mut Vec<CrashRun>, run: CrashRun) {
    let key = |run: &CrashRun| (run.seed, run.load, run.durability);
    runs.retain(|old| key(old) != key(&run));
    runs.push(run);
}

/// Checks of all runs together.
fn checks(runs: &[CrashRun]) -> Vec<ScenarioCheck> {
    let sum = |of: fn(&CrashRun) -> u64| runs.iter().map(of).sum::<u64>();
    let max = |of: fn(&CrashRun) -> f64| runs.iter().map(of).fold(0.0, f64::max);
    let (promise, settle) = (PROMISE.as_millis(), SETTLE_MAX.as_millis());
    let none = |what: &str, bad: u64, of: String| {
        ScenarioCheck::new(what, format!("{bad} of {of}"), bad == 0)
    };
    vec![
        none(
            "no acknowledged event is lost",
            sum(|r| r.acked_lost),
            format!("{} acknowledged", sum(|r| r.acked)),
        ),
        none(
            &format!("no event over TCP that was accepted more than {promise} ms before is lost"),
            sum(|r| r.owed_lost),
            format!(
                "{}; the oldest that was lost had been accepted {:.0} ms before",
                sum(|r| r.owed),
                max(|r| r.oldest_loss_ms)
            ),
        ),
        none(
            "the ledger balances after every restart and at every look",
            sum(|r| r.unbalanced),
            format!("{} looks did not", sum(|r| r.looks)),
        ),
        none(
            &format!(
                "what came twice was in a request open at a kill or answered at most {settle} ms \
                 before, or was sent twice"
            ),
            sum(|r| r.unexplained),
            format!(
                "{} duplicates ({} in flight at a kill, {} sent twice, {} left unanswered by the \
                 collector) unexplained; answered at most {:.1} ms before; at most {} after one kill",
                sum(|r| r.duplicates),
                sum(|r| r.in_flight),
                sum(|r| r.resent),
                sum(|r| r.unanswered),
                max(|r| r.repeated_ms),
                runs.iter().map(|r| r.per_kill_max).max().unwrap_or(0)
            ),
        ),
        ScenarioCheck::new(
            "nothing else is odd",
            format!(
                "{} arrivals of what nobody sent, {} refused, {} faults",
                sum(|r| r.odd),
                sum(|r| r.refused),
                sum(|r| r.wrong.len() as u64)
            ),
            runs.iter()
                .all(|r| r.odd + r.refused == 0 && r.wrong.is_empty()),
        ),
    ]
}

/// The section of the page. Writing to a string cannot fail.
pub(crate) fn section(page: &mut String, runs: &[CrashRun]) {
    if runs.is_empty() {
        return;
    }
    let fsync = runs
        .iter()
        .filter(|run| run.durability == Durability::Fsync);
    let kills: u64 = fsync.map(|run| run.kills).sum();
    let found = format!("{kills} with `durability: fsync`");
    let enough = ScenarioCheck::new("at least 1,000 kills", found, kills >= KILLS_WANTED);
    let checks: Vec<ScenarioCheck> = std::iter::once(enough).chain(checks(runs)).collect();
    let passed = checks.iter().all(|check| check.passed);
    let verdict = if passed { "passed" } else { "failed" };
    let _ = writeln!(
        page,
        "\n## `crash`: {verdict}\n\n`kill -9` at random moments under load, start-up included, and \
         a start in the same folder each time.\n"
    );
    for check in &checks {
        let mark = if check.passed { "yes" } else { "**NO**" };
        let _ = writeln!(page, "- {mark} — {}: {}", check.what, check.found);
    }
    page.push_str(
        "\n| durability | load | seed | kills (starting) | seconds | events sent | acknowledged \
         | TCP accepted in time | TCP never delivered | duplicates: in flight / unanswered / sent \
         twice | after one kill at most (in flight) | dropped |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for run in runs {
        let _ = writeln!(page, "| {} |", row(run).join(" | "));
    }
}

fn row(run: &CrashRun) -> Vec<String> {
    vec![
        run.durability.text().to_owned(),
        format!("{:?}", run.load).to_lowercase(),
        run.seed.to_string(),
        format!("{} ({})", run.kills, run.early),
        format!("{:.0}", run.seconds),
        run.sent.to_string(),
        run.acked.to_string(),
        run.owed.to_string(),
        run.gone.to_string(),
        format!("{} / {} / {}", run.in_flight, run.unanswered, run.resent),
        format!("{} ({})", run.per_kill_max, run.in_flight_max),
        run.dropped.to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(seed: u64, kills: u64) -> CrashRun {
        CrashRun {
            seed,
            kills,
            ..CrashRun::default()
        }
    }

    fn page(runs: &[CrashRun]) -> String {
        let mut page = String::new();
        section(&mut page, runs);
        page
    }

    #[test]
    fn the_page_passes_with_enough_kills_and_nothing_wrong() {
        assert_eq!(page(&[]), "");
        assert!(page(&[run(1, 999)]).contains("`crash`: failed"));
        assert!(page(&[run(1, 999), run(2, 1)]).contains("`crash`: passed"));
    }

    #[test]
    fn each_thing_that_goes_wrong_fails() {
        let breaks: [fn(&mut CrashRun); 7] = [
            |r| r.acked_lost = 1,
            |r| r.owed_lost = 1,
            |r| r.unbalanced = 1,
            |r| r.unexplained = 1,
            |r| r.odd = 1,
            |r| r.refused = 1,
            |r| r.wrong.push(String::new()),
        ];
        assert!(run(1, 5).passed());
        for one in breaks {
            let mut broken = run(1, 5);
            one(&mut broken);
            assert!(!broken.passed(), "{broken:?}");
        }
    }

    #[test]
    fn a_run_that_is_run_again_replaces_itself() {
        let mut runs = vec![run(1, 5), run(2, 5)];
        add(&mut runs, run(1, 7));
        assert_eq!(runs, [run(2, 5), run(1, 7)]);
    }
}
