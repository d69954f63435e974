//! A run's figures, what must hold of them, and their section of the page of results.
//!
//! # What it guarantees
//! * A run passes only if every check holds; a run in which nothing arrived never does.
//! * A loss or a part of a line is excused only by what rotation or a kill takes from any reader.
//! * A run of the same collector, way and load takes the place of the one before.
//!
//! # Limits
//! A count of removed bytes is compared in runs without kills alone: a life takes its count along.

use std::collections::BTreeMap;
use std::fmt::Write;

use inrush_harness::measure::ScenarioCheck;
use serde::{Deserialize, Serialize};

use super::format::LogFormat;
use super::log::LANES;
use super::scheme::RotationScheme;
use super::subject::TailProduct;
use super::verdict::{LostLines, RotationVerdict};

/// Counter that says how many bytes were removed unread.
pub(crate) const REMOVED_BYTES: &str = "rotated_away_unread_bytes";

/// One run, in lines where nothing else is said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RotationRun {
    pub(crate) collector: TailProduct,
    /// Command line, where it is none of the known collectors.
    #[serde(default)]
    pub(crate) command: Option<String>,
    pub(crate) scheme: RotationScheme,
    pub(crate) format: LogFormat,
    /// Load in words.
    pub(crate) load: String,
    /// Time of its end, RFC 3339.
    pub(crate) ended: String,
    pub(crate) seconds: f64,
    pub(crate) rotations: u64,
    pub(crate) kills: u64,
    pub(crate) written: u64,
    /// Lines a second that were written.
    pub(crate) rate: f64,
    pub(crate) distinct: u64,
    pub(crate) lost: LostLines,
    /// Arrivals of a line that had come before and was in flight at a kill.
    pub(crate) in_flight: u64,
    /// Other arrivals of a line that had come before.
    pub(crate) doubled: u64,
    /// Arrivals of a line that had come twice before.
    pub(crate) thrice: u64,
    /// Events that are a part of a line.
    pub(crate) torn: u64,
    /// Events that nobody wrote.
    pub(crate) odd: u64,
    /// Lines behind a later one of their writer in one request.
    pub(crate) disordered: u64,
    pub(crate) after_holes: u64,
    /// Milliseconds from writing to arrival of 99 of 100 lines.
    pub(crate) lag_p99_ms: f64,
    /// Resident memory of the collector at most, MiB.
    pub(crate) rss_mib: f64,
    /// CPU-µs of the collector a line that arrived; the last life alone counts where it was killed.
    pub(crate) us_per_line: f64,
    /// Counters of the collector, summed over its lives as far as they could be asked.
    pub(crate) counters: BTreeMap<String, u64>,
    /// Other things that went wrong.
    pub(crate) wrong: Vec<String>,
}

impl RotationRun {
    /// Takes in the verdict.
    pub(crate) fn take(&mut self, verdict: RotationVerdict) {
        let arrived = verdict.arrived;
        self.written = verdict.written;
        self.lost = verdict.lost;
        self.distinct = arrived.distinct;
        self.in_flight = arrived.in_flight;
        self.doubled = arrived.doubled;
        self.thrice = arrived.thrice;
        self.torn = arrived.torn;
        self.odd = arrived.foreign + verdict.unwritten;
        self.disordered = arrived.disordered;
        self.after_holes = arrived.after_holes;
        self.ended = jiff::Timestamp::now()
            .strftime("%Y-%m-%dT%H:%M:%SZ")
            .to_string();
    }

    /// True if everything held.
    pub(crate) fn passed(&self) -> bool {
        self.checks().iter().all(|check| check.passed)
    }

    /// Things that must hold.
    pub(crate) fn checks(&self) -> Vec<ScenarioCheck> {
        let none = |what: &str, bad: u64, of: String| {
            ScenarioCheck::new(what, format!("{bad} of {of}"), bad == 0)
        };
        let lost = &self.lost;
        let mut checks = vec![
            none(
                "no line is lost that could be read",
                lost.unexcused(),
                format!(
                    "{} written ({} in files that went while it ran, {} in files that are there); \
                     excused: {} by the rotation itself, {} just before a truncation, {} in files \
                     that went while it was down",
                    self.written, lost.gone, lost.unread, lost.window, lost.fresh, lost.down
                ),
            ),
            none(
                "a line comes twice only if it was in flight at a kill, and never three times",
                self.doubled + self.thrice,
                format!(
                    "{} arrivals; {} in flight, {} three times",
                    self.distinct + self.in_flight + self.doubled,
                    self.in_flight,
                    self.thrice
                ),
            ),
            ScenarioCheck::new(
                "long lines come whole, but for those of which a truncation or the loss of a file \
                 took a part",
                format!("{} parts of {} arrivals", self.torn, self.distinct),
                self.torn <= self.parts_max(),
            ),
            ScenarioCheck::new(
                "lines of a container are in order in each request",
                format!("{} of {}", self.disordered, self.distinct),
                self.disordered == 0 || !self.is_in_order(),
            ),
            ScenarioCheck::new(
                "nothing else is odd",
                format!(
                    "{} events nobody wrote, {} faults",
                    self.odd,
                    self.wrong.len()
                ),
                self.odd <= self.parts_max() && self.wrong.is_empty() && self.distinct > 0,
            ),
        ];
        checks.extend(self.counted());
        checks
    }

    /// True if lines of all files of a writer come in order. Plain files are read side by side,
    /// since they may have two writers at once.
    fn is_in_order(&self) -> bool {
        match self.format {
            LogFormat::Cri | LogFormat::Docker => true,
            LogFormat::Lines => false,
        }
    }

    /// Parts of lines that may come alone: for each truncation one of each lane, its begin or its
    /// end; and as many as there are gaps of files that went while the collector was down.
    fn parts_max(&self) -> u64 {
        let cut = match self.scheme.truncates() {
            true => self.rotations * u64::from(LANES),
            false => 0,
        };
        cut + self.lost.gaps
    }

    /// Check that the collector's own count of what was removed unread is the truth. A life that
    /// was killed takes its count along: then there is none.
    fn counted(&self) -> Option<ScenarioCheck> {
        let counted = *self.counters.get(REMOVED_BYTES)?;
        let removed = self.lost.removed_bytes;
        let check = ScenarioCheck::new(
            format!("`{REMOVED_BYTES}` is what was removed unread"),
            format!("{counted} counted, {removed} in truth"),
            counted == removed,
        );
        (self.kills == 0).then_some(check)
    }

    /// Tells the person who waits.
    pub(crate) fn tell(&self) {
        for check in self.checks() {
            let mark = if check.passed { "yes" } else { "NO " };
            eprintln!("  {mark}  {}: {}", check.what, check.found);
        }
        for text in self.lost.told.iter().chain(&self.wrong) {
            eprintln!("  {text}");
        }
        for (name, count) in &self.counters {
            eprintln!("  counter {name}: {count}");
        }
    }

    /// Key that tells it from others.
    fn key(&self) -> (String, RotationScheme, LogFormat, &str) {
        (self.subject(), self.scheme, self.format, &self.load)
    }

    fn subject(&self) -> String {
        self.command
            .clone()
            .unwrap_or_else(|| self.collector.name())
    }
}

/// Adds a run to those of the page.
pub(crate) fn add(runs: &mut Vec<RotationRun>, run: RotationRun) {
    runs.retain(|old| old.key() != run.key());
    runs.push(run);
    runs.sort_by(|a, b| a.key().cmp(&b.key()));
}

/// The section of the page. Writing to a string cannot fail.
pub(crate) fn section(page: &mut String, runs: &[RotationRun]) {
    if runs.is_empty() {
        return;
    }
    let ours = || {
        let known = |run: &&RotationRun| run.command.is_none();
        let ours = runs.iter().filter(known);
        ours.filter(|run| run.collector == TailProduct::Inrush)
    };
    let passed = ours().count() > 0 && ours().all(RotationRun::passed);
    let verdict = if passed { "passed" } else { "failed" };
    let _ = writeln!(
        page,
        "\n## `rotation`: {verdict}\n\nNumbered lines in files that are rotated in every way, the \
         collector killed and started again; the verdict is that of Inrush's runs.\n"
    );
    for run in ours().filter(|run| !run.passed()) {
        for check in run.checks().iter().filter(|check| !check.passed) {
            let (scheme, what, found) = (run.scheme.name(), &check.what, &check.found);
            let _ = writeln!(page, "- **NO** — {scheme}, {what}: {found}");
        }
    }
    page.push_str(
        "\n| collector | rotation | format | load | rotations | kills | lines written | lost \
         | excused: by rotation / just before a truncation / while down | twice: in flight / other \
         | parts | p99 ms | RSS MiB | CPU-µs a line | ended |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for run in runs {
        let _ = writeln!(page, "| {} |", row(run).join(" | "));
    }
}

fn row(run: &RotationRun) -> Vec<String> {
    let lost = &run.lost;
    vec![
        run.subject(),
        run.scheme.name(),
        run.format.name().to_owned(),
        run.load.clone(),
        run.rotations.to_string(),
        run.kills.to_string(),
        run.written.to_string(),
        lost.unexcused().to_string(),
        format!("{} / {} / {}", lost.window, lost.fresh, lost.down),
        format!("{} / {}", run.in_flight, run.doubled + run.thrice),
        run.torn.to_string(),
        format!("{:.0}", run.lag_p99_ms),
        format!("{:.0}", run.rss_mib),
        format!("{:.2}", run.us_per_line),
        run.ended.clone(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(scheme: RotationScheme) -> RotationRun {
        RotationRun {
            scheme,
            written: 10,
            distinct: 10,
            ..RotationRun::default()
        }
    }

    #[test]
    fn each_thing_that_goes_wrong_fails_and_what_is_excused_does_not() {
        let mut excused = run(RotationScheme::Kubelet);
        (excused.lost.window, excused.lost.fresh, excused.lost.down) = (1, 2, 3);
        (excused.in_flight, excused.after_holes) = (4, 5);
        assert!(excused.passed());
        let breaks: [fn(&mut RotationRun); 9] = [
            |run| run.lost.gone = 1,
            |run| run.lost.unread = 1,
            |run| run.doubled = 1,
            |run| run.thrice = 1,
            |run| run.torn = 1,
            |run| run.odd = 1,
            |run| run.disordered = 1,
            |run| run.distinct = 0,
            |run| run.wrong.push(String::new()),
        ];
        for one in breaks {
            let mut broken = run(RotationScheme::Kubelet);
            one(&mut broken);
            assert!(!broken.passed(), "{broken:?}");
        }
    }

    #[test]
    fn parts_of_lines_are_excused_by_truncations_and_lost_files_alone() {
        let mut cut = run(RotationScheme::Rewrite);
        (cut.rotations, cut.torn, cut.odd) = (1, 2, 2);
        assert!(cut.passed());
        cut.torn = 3;
        assert!(!cut.passed());
        (cut.torn, cut.odd, cut.scheme) = (1, 0, RotationScheme::Docker);
        assert!(!cut.passed());
        (cut.odd, cut.lost.down, cut.lost.gaps) = (1, 9, 1);
        assert!(cut.passed());
        cut.odd = 2;
        assert!(!cut.passed());
    }

    #[test]
    fn plain_files_may_come_side_by_side() {
        let mut mixed = run(RotationScheme::CreateLate);
        mixed.disordered = 1;
        for (format, passed) in [
            (LogFormat::Lines, true),
            (LogFormat::Cri, false),
            (LogFormat::Docker, false),
        ] {
            mixed.format = format;
            assert_eq!(mixed.passed(), passed, "{format:?}");
        }
    }

    #[test]
    fn a_count_of_removed_bytes_is_held_against_the_truth_unless_lives_were_killed() {
        let mut counted = run(RotationScheme::Kubelet);
        counted.counters.insert(REMOVED_BYTES.to_owned(), 5);
        assert!(!counted.passed());
        counted.lost.removed_bytes = 5;
        assert!(counted.passed());
        (counted.kills, counted.lost.removed_bytes) = (1, 6);
        assert!(counted.passed());
    }

    #[test]
    fn a_run_that_is_run_again_replaces_itself_and_peers_do_not_fail_the_page() {
        let mut runs = Vec::new();
        add(&mut runs, run(RotationScheme::Docker));
        add(&mut runs, run(RotationScheme::Docker));
        let mut peer = run(RotationScheme::Docker);
        (peer.collector, peer.lost.gone) = (TailProduct::Otel, 7);
        add(&mut runs, peer);
        assert_eq!(runs.len(), 2);
        let mut page = String::new();
        section(&mut page, &runs);
        assert!(page.contains("`rotation`: passed") && page.contains("| otel | docker |"));
        runs[0].lost.gone = 1;
        page.clear();
        section(&mut page, &runs);
        assert!(page.contains("`rotation`: failed") && page.contains("**NO** — docker"));
    }
}
