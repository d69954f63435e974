//! The result of a comparison, and its section of the page of results.

use std::fmt::Write;

use inrush_harness::stats::{Spread, median};
use serde::{Deserialize, Serialize};

/// Ratio of instructions an event that is allowed.
const INSTRUCTIONS_MAX: f64 = 1.02;

/// One load under both builds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct VersusRow {
    scenario: String,
    subject: String,
    load: String,
    unit: Unit,
    before: f64,
    now: f64,
    /// The new build over the old one, by round.
    ratio: Spread,
    /// The second run of the old build over its first, by round; one where nothing differs.
    itself: Spread,
    /// The end, RFC 3339.
    ended: String,
}

/// The figure that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Unit {
    /// CPU-µs an event.
    Cpu,
    /// Instructions an event.
    Instructions,
}

impl VersusRow {
    /// CPU-µs an event: of the old build, the new one and the old one again, by round.
    pub(super) fn cpu(
        scenario: &str,
        subject: &str,
        load: &str,
        rounds: &[[f64; 3]],
    ) -> Option<Self> {
        Self::new(Unit::Cpu, [scenario, subject, load], rounds)
    }

    /// Instructions an event, in the same order.
    pub(super) fn instructions(way: &str, load: &str, rounds: &[[f64; 3]]) -> Option<Self> {
        Self::new(Unit::Instructions, [way, "inrush", load], rounds)
    }

    fn new(unit: Unit, [scenario, subject, load]: [&str; 3], rounds: &[[f64; 3]]) -> Option<Self> {
        let of = |figure: fn(&[f64; 3]) -> f64| rounds.iter().map(figure).collect::<Vec<_>>();
        Some(Self {
            scenario: scenario.to_owned(),
            subject: subject.to_owned(),
            load: load.to_owned(),
            unit,
            before: median(&of(|[first, _, again]| (first + again) / 2.0))?,
            now: median(&of(|[_, now, _]| *now))?,
            ratio: Spread::of(&of(|[first, now, again]| 2.0 * now / (first + again)))?,
            itself: Spread::of(&of(|[first, _, again]| again / first))?,
            ended: jiff::Timestamp::now()
                .strftime("%Y-%m-%dT%H:%M:%SZ")
                .to_string(),
        })
    }

    /// The key that tells it from others.
    pub(super) fn title(&self) -> (Unit, &str, &str, &str) {
        (self.unit, &self.scenario, &self.subject, &self.load)
    }

    /// True if the new build costs no more: 2 % of the instructions, or what the old build differs
    /// from itself in CPU.
    pub(super) fn passes(&self) -> bool {
        match self.unit {
            Unit::Instructions => self.ratio.median <= INSTRUCTIONS_MAX,
            Unit::Cpu => {
                let apart = |ratio: f64| (ratio - 1.0).abs();
                let itself = apart(self.itself.min).max(apart(self.itself.max));
                self.ratio.median <= 1.0 + itself
            }
        }
    }

    /// The line of a terminal.
    pub(super) fn line(&self) -> String {
        let mark = if self.passes() { "yes" } else { "NO " };
        let Self {
            scenario,
            subject,
            load,
            before,
            now,
            ..
        } = self;
        let unit = self.unit.text();
        format!(
            "  {mark}  {scenario}, {subject}, {load}: {before:.3} -> {now:.3} {unit}, {}; the old \
             build against itself {}",
            self.ratio.text(),
            self.itself.text()
        )
    }
}

impl Unit {
    const fn text(self) -> &'static str {
        match self {
            Self::Cpu => "CPU-µs an event",
            Self::Instructions => "instructions an event",
        }
    }
}

/// The section of the page; nothing if nothing was compared.
pub(crate) fn section(page: &mut String, rows: &[VersusRow]) {
    if rows.is_empty() {
        return;
    }
    // Writing to a string does not fail.
    let _ = write!(
        page,
        "\n## This build against the one of before\n\n`inrush-bench versus --before PATH NAME…`: a \
         round is the old build, the new one, the old one again. CPU may differ by what the old \
         build differs from itself; instructions (by valgrind) by 2 %.\n\n\
         | scenario | load | before | now | unit | ratio | old against itself | ended | |\n\
         |---|---|---|---|---|---|---|---|---|\n"
    );
    for row in rows {
        let VersusRow {
            scenario,
            subject,
            load,
            before,
            now,
            ended,
            ..
        } = row;
        let mark = if row.passes() { "yes" } else { "**no**" };
        let _ = writeln!(
            page,
            "| {scenario}, {subject} | {load} | {before:.3} | {now:.3} | {} | {} | {} | {ended} | \
             {mark} |",
            row.unit.text(),
            row.ratio.text(),
            row.itself.text()
        );
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn more_than_the_old_build_differs_from_itself_fails() {
        let row = |now| {
            VersusRow::cpu("a", "inrush", "b", &[[1.0, now, 1.04], [1.0, now, 0.99]]).unwrap()
        };
        assert!(row(1.03).passes());
        assert!(!row(1.08).passes());
        let counted = |now| VersusRow::instructions("a", "b", &[[100.0, now, 104.0]]).unwrap();
        assert!(counted(104.0).passes());
        assert!(!counted(105.0).passes());
        assert_eq!(
            VersusRow::instructions("a", "b", &[]),
            None,
            "nothing was counted"
        );
    }
}
