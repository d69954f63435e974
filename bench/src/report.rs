//! `bench/RESULTS.md`, written from the JSON and from nothing else.

use std::fmt::Write;

use inrush_harness::measure::{Cell, ScenarioResult};
use inrush_harness::stats::{REFERENCE_US, Spread};

use crate::results::Results;
use crate::scenario::ScenarioName;
use crate::{crash, faults, rotation, versus};

const HEAD: &str = "\
# Results

Written by `inrush-bench report` from the JSON that `inrush-bench run` leaves; do not edit.
`bench/README.md` says what each experiment shows and how the limits are read.

A figure is the median (lowest–highest) of the runs of one cell. CPU-µs per event is the user and
system time of the receiving process alone, from before the load until all is drained, over the
events that it took. *Scaled* is the same in the state of the host in which the bare TCP loop costs";

/// The whole page.
pub(crate) fn render(results: &Results) -> String {
    let mut page = format!("{HEAD} {REFERENCE_US} µs.\n");
    for name in ScenarioName::expand(&[]) {
        if let Some(scenario) = results.scenarios.get(&name.text()) {
            section(&mut page, &name.text(), scenario);
        }
    }
    crash::section(&mut page, &results.crash);
    versus::section(&mut page, &results.versus);
    faults::section(&mut page, &results.faults);
    rotation::section(&mut page, &results.rotation);
    page
}

/// Writing to a string cannot fail, so the results of `writeln!` are left aside throughout.
fn section(page: &mut String, name: &str, scenario: &ScenarioResult) {
    let verdict = if scenario.passed() {
        "passed"
    } else {
        "failed"
    };
    let _ = writeln!(
        page,
        "\n## `{name}`: {verdict}\n\n{}.\n",
        capital(&scenario.shows)
    );
    for check in &scenario.checks {
        let mark = if check.passed { "yes" } else { "**NO**" };
        let colon = if check.found.is_empty() { "" } else { ": " };
        let _ = writeln!(page, "- {mark} — {}{colon}{}", check.what, check.found);
    }
    if !scenario.cells.is_empty() {
        table(page, &scenario.cells);
    }
    if let Some((subject, us)) = best_peer(&scenario.cells) {
        let _ = writeln!(
            page,
            "\nThe lowest clean figure of a peer, scaled: {us:.3} ({subject})."
        );
    }
    let machine = &scenario.machine;
    let _ = writeln!(
        page,
        "\n{}: {} × {}, {:.0} GiB, Linux {}, rmem_default {}, rmem_max {}; {}.",
        scenario.ended,
        machine.cores,
        machine.cpu,
        machine.memory_gib,
        machine.kernel,
        machine.rmem_default,
        machine.rmem_max,
        scenario.versions.join(", "),
    );
}

/// The peer to beat: of all clean runs the one with the lowest scaled figure.
fn best_peer(cells: &[Cell]) -> Option<(&str, f64)> {
    let peers = cells
        .iter()
        .filter(|cell| !cell.subject.starts_with("inrush"));
    peers
        .filter_map(|cell| Some((cell.subject.as_str(), cell.figures().best_scaled?)))
        .min_by(|a, b| a.1.total_cmp(&b.1))
}

fn table(page: &mut String, cells: &[Cell]) {
    page.push_str(
        "\n| subject | load | CPU-µs per event | scaled | × bare | user / sys | k events/s \
         | p99 ms | disk MB/s | RSS MiB | lost | sink % | others % | calibration ms \
         | runs (clean) |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for cell in cells {
        let _ = writeln!(page, "| {} |", row(cell).join(" | "));
    }
}

fn row(cell: &Cell) -> Vec<String> {
    let figures = cell.figures();
    vec![
        cell.subject.clone(),
        cell.load.clone(),
        spread(figures.raw, 3),
        spread(figures.scaled, 3),
        spread(figures.ratio, 2),
        format!("{} / {}", middle(figures.user, 3), middle(figures.sys, 3)),
        spread(figures.rate.map(|events| by(events, 1e3)), 0),
        spread(figures.p99_us.map(|us| by(us, 1e3)), 1),
        spread(figures.disk_rate.map(|bytes| by(bytes, 1e6)), 0),
        middle(figures.rss_mib, 0),
        spread(figures.lost, 0),
        middle(figures.sink_pct, 1),
        spread(figures.others_pct, 1),
        spread(figures.calibration_ms, 1),
        format!("{} ({})", figures.runs, figures.clean),
    ]
}

/// In units of so many.
fn by(spread: Spread, unit: f64) -> Spread {
    Spread {
        median: spread.median / unit,
        min: spread.min / unit,
        max: spread.max / unit,
        n: spread.n,
    }
}

fn middle(value: Option<Spread>, digits: usize) -> String {
    value.map_or("–".to_owned(), |spread| {
        format!("{:.digits$}", spread.median)
    })
}

fn spread(value: Option<Spread>, digits: usize) -> String {
    value.map_or("–".to_owned(), |s| match s.n {
        1 => format!("{:.digits$}", s.median),
        _ => format!(
            "{:.digits$} ({:.digits$}–{:.digits$})",
            s.median, s.min, s.max
        ),
    })
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use inrush_harness::measure::{RunResult, ScenarioCheck};

    fn results(passed: bool) -> Results {
        let run = |us: f64| RunResult {
            us_per_event: us,
            scaled_us: Some(us),
            ..RunResult::default()
        };
        let runs = vec![run(0.2), run(0.4), run(0.3)];
        let cell = Cell::new("inrush", "x", runs);
        let scenario = ScenarioResult {
            shows: "what it shows".to_owned(),
            cells: vec![cell],
            checks: vec![ScenarioCheck::new("a limit", "0.3", passed)],
            ..ScenarioResult::default()
        };
        Results {
            scenarios: [("tcp10".to_owned(), scenario)].into(),
            ..Results::default()
        }
    }

    #[test]
    fn a_cell_is_a_median_with_its_range() {
        let page = render(&results(true));
        assert!(page.contains("## `tcp10`: passed"), "{page}");
        assert!(page.contains("| inrush | x | 0.300 (0.200–0.400) | 0.300 (0.200–0.400) | – |"));
    }

    #[test]
    fn the_lowest_figure_of_a_peer_counts_unless_its_run_was_noisy() {
        let mut results = results(true);
        let run = |us, noisy| RunResult {
            scaled_us: Some(us),
            noisy,
            ..RunResult::default()
        };
        let runs = vec![run(2.5, false), run(2.0, false), run(1.0, true)];
        let peer = Cell {
            subject: "syslog-ng".to_owned(),
            runs,
            ..Cell::default()
        };
        let scenario = results.scenarios.get_mut("tcp10");
        scenario
            .into_iter()
            .for_each(|s| s.cells.push(peer.clone()));
        assert!(render(&results).contains("scaled: 2.000 (syslog-ng)."));
    }

    #[test]
    fn what_failed_is_said_in_the_heading_and_at_the_check() {
        let page = render(&results(false));
        assert!(page.contains("## `tcp10`: failed") && page.contains("**NO** — a limit: 0.3"));
    }

    #[test]
    fn a_scenario_without_checks_has_not_passed() {
        let mut results = results(true);
        results
            .scenarios
            .values_mut()
            .for_each(|scenario| scenario.checks.clear());
        assert!(render(&results).contains("`tcp10`: failed"));
    }
}
