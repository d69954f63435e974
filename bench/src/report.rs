//! `bench/RESULTS.md`, written from the JSON and from nothing else.

use std::fmt::Write;

use crate::results::{Cell, Results, Scenario};
use crate::scenario::Name;
use crate::stats::{REFERENCE_US, Spread};
use crate::{crash, faults, versus};

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
    for name in Name::expand(&[]) {
        if let Some(scenario) = results.scenarios.get(&name.text()) {
            section(&mut page, &name.text(), scenario);
        }
    }
    crash::section(&mut page, &results.crash);
    versus::section(&mut page, &results.versus);
    faults::section(&mut page, &results.faults);
    page
}

/// Writing to a string cannot fail, so the results of `writeln!` are left aside throughout.
fn section(page: &mut String, name: &str, scenario: &Scenario) {
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
    let runs = peers.flat_map(|cell| cell.runs.iter().map(|run| (cell.subject.as_str(), run)));
    runs.filter(|(_, run)| !run.noisy)
        .filter_map(|(subject, run)| Some((subject, run.scaled_us?)))
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
    let of = |value: fn(&crate::results::Run) -> f64| {
        Spread::of(&cell.runs.iter().map(value).collect::<Vec<_>>())
    };
    let per = |us: f64, events: u64| us / (events.max(1)) as f64;
    let user = Spread::of(
        &cell
            .runs
            .iter()
            .map(|r| per(r.user_us, r.delivered))
            .collect::<Vec<_>>(),
    );
    let sys = Spread::of(
        &cell
            .runs
            .iter()
            .map(|r| per(r.sys_us, r.delivered))
            .collect::<Vec<_>>(),
    );
    vec![
        cell.subject.clone(),
        cell.load.clone(),
        spread(cell.raw(), 3),
        spread(cell.scaled(), 3),
        spread(cell.ratio(), 2),
        format!("{} / {}", middle(user, 3), middle(sys, 3)),
        spread(cell.rate().map(|events| by(events, 1e3)), 0),
        spread(cell.p99_us().map(|us| by(us, 1e3)), 1),
        spread(cell.disk_rate().map(|bytes| by(bytes, 1e6)), 0),
        middle(of(|run| run.rss_peak_mib), 0),
        spread(of(|run| run.sent.saturating_sub(run.delivered) as f64), 0),
        middle(of(|run| run.sink_pct), 1),
        spread(of(|run| run.others_pct), 1),
        spread(of(|run| run.calibration_ms), 1),
        format!("{} ({})", cell.runs.len(), cell.clean()),
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
    use crate::results::{Check, Run};

    fn results(passed: bool) -> Results {
        let run = |us: f64| Run {
            us_per_event: us,
            scaled_us: Some(us),
            ..Run::default()
        };
        let runs = vec![run(0.2), run(0.4), run(0.3)];
        let cell = Cell {
            subject: "inrush".to_owned(),
            load: "x".to_owned(),
            runs,
        };
        let scenario = Scenario {
            shows: "what it shows".to_owned(),
            cells: vec![cell],
            checks: vec![Check::new("a limit", "0.3", passed)],
            ..Scenario::default()
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
        let run = |us, noisy| Run {
            scaled_us: Some(us),
            noisy,
            ..Run::default()
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
