//! UDP: the default configuration beside the best one that a grid search finds, both at once.
//!
//! Two processes run at the same time on the same cores, each with a sender of its own at the same
//! rate: the default, and a point of the grid. A host that is slower in one second than in the next
//! is so for both, which no number of turns makes up for: by turns the same two differ by a quarter
//! from one round to the next, at once by a few per cent. What is compared is CPU-µs per event, at
//! a rate that leaves little of the cores free and at which nothing is lost: what a host can take
//! is its cores divided by that.
//!
//! Each point is tried once, the best few again, and the best of them once more in rounds that had
//! no part in its choice: the best of many is always in part the luckiest.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use inrush_harness::child::wait_until;
use inrush_harness::lab::BenchHarness;
use inrush_harness::measure::{Cell, RunResult, ScenarioCheck, ScenarioResult};
use inrush_harness::meter::{Cpu, calibrate_ms, process_cpu, process_rss_peak_mib};
use inrush_harness::sender::{self, Amount, LoadShape, Sending, Wire};
use inrush_harness::stats::{Spread, median, per_event};
use inrush_harness::subject::{BenchSubject, Inrush, SubjectProgress, drain};

use super::grid::{DEFAULT, FINALISTS, PART_MIN};
use super::{REFERENCE, tell};

/// Senders, and messages a second that they send together to each of the two: as many as two cores
/// bear, senders included. Many sockets cost the generator more.
const LOADS: [(u64, u64); 2] = [(1, 200_000), (64, 150_000)];

/// From the begin of the load until it is measured: what adapts itself has done so.
const SETTLES: Duration = Duration::from_millis(1500);

/// Time for which it is measured, at least.
const LASTS_MIN: Duration = Duration::from_secs(4);

const TEMPLATE: &str = include_str!("../../inrush/grid-udp.yaml");

/// One configuration.
struct UdpPoint {
    name: String,
    template: String,
}

/// The grid: the default first.
fn points() -> Vec<UdpPoint> {
    let point = |name: String, workers: &str, udp: &str| UdpPoint {
        name,
        template: TEMPLATE.replace("@WORKERS@", workers).replace("@UDP@", udp),
    };
    let mut points = vec![point(DEFAULT.to_owned(), "auto", "")];
    for workers in ["1", "2"] {
        for sockets in [1, 2, 4] {
            for balance in ["ordered", "random"] {
                for buffer in ["1MiB", "64MiB"] {
                    let udp =
                        format!("sockets: {sockets}, balance: {balance}, receive_buffer: {buffer}");
                    points.push(point(format!("workers: {workers}, {udp}"), workers, &udp));
                }
            }
        }
    }
    points
}

/// Runs it with one sender and with 64.
pub(super) fn run(lab: &BenchHarness) -> Result<ScenarioResult> {
    let shows = "the default configuration beside the best that a grid search finds, both at once, \
                 UDP, 800 B, packs on";
    tell(shows);
    let mut scenario = lab.scenario(shows);
    let points = points();
    for (senders, rate) in LOADS {
        let search = UdpGrid {
            lab,
            points: &points,
            senders,
            rate,
        };
        let (cells, checks) = search.run()?;
        scenario.cells.extend(cells);
        scenario.checks.extend(checks);
    }
    scenario.ended = lab.scenario(shows).ended;
    Ok(scenario)
}

/// One load.
struct UdpGrid<'a> {
    lab: &'a BenchHarness,
    points: &'a [UdpPoint],
    senders: u64,
    rate: u64,
}

/// Runs of a point, and their CPU beside the default's.
#[derive(Default)]
struct PointRuns {
    runs: Vec<RunResult>,
    /// CPU of the point as a part of the default's beside it, a round each.
    parts: Vec<f64>,
}

impl PointRuns {
    /// Median part of the rounds from number `from` on; a point that loses events is no better.
    fn part(&self, from: usize) -> f64 {
        let lost = self.runs.iter().any(|run| run.kernel_dropped > 0);
        let part = median(&self.parts[from.min(self.parts.len())..]);
        part.filter(|_| !lost).unwrap_or(f64::INFINITY)
    }
}

impl UdpGrid<'_> {
    fn run(&self) -> Result<(Vec<Cell>, [ScenarioCheck; 2])> {
        let mut found: Vec<PointRuns> = self.points.iter().map(|_| PointRuns::default()).collect();
        for at in 1..self.points.len() {
            self.round(at, &mut found)?;
        }
        let mut order: Vec<usize> = (1..self.points.len()).collect();
        order.sort_by(|a, b| found[*a].part(0).total_cmp(&found[*b].part(0)));
        order.truncate(FINALISTS);
        for _ in 0..self.lab.terms.runs {
            for at in &order {
                self.round(*at, &mut found)?;
            }
        }
        let best = order.into_iter();
        let best = best.min_by(|a, b| found[*a].part(1).total_cmp(&found[*b].part(1)));
        let best = best.context("a grid of one point")?;
        let tried = found[best].parts.len();
        for _ in 0..self.lab.terms.runs {
            self.round(best, &mut found)?;
        }
        let checks = self.checks(best, &found, tried);
        let cells = self
            .points
            .iter()
            .zip(found)
            .map(|(point, found)| Cell::new(point.name.clone(), self.load(), found.runs));
        Ok((cells.collect(), checks))
    }

    fn load(&self) -> String {
        format!("{} senders, {}/s beside as many", self.senders, self.rate)
    }

    /// Checks of the rounds of the best point from number `from` on.
    fn checks(&self, best: usize, found: &[PointRuns], from: usize) -> [ScenarioCheck; 2] {
        let parts = Spread::of(&found[best].parts[from..]);
        let name = &self.points[best].name;
        let words = |part: &Spread| {
            format!(
                "{:.3} ({:.3} to {:.3}, {} rounds) of `{name}`, the best of {} points",
                part.median,
                part.min,
                part.max,
                part.n,
                self.points.len()
            )
        };
        let reaches = ScenarioCheck::new(
            format!(
                "the default reaches {PART_MIN} of the best, in events for each CPU-µs ({})",
                self.load()
            ),
            parts.as_ref().map_or("no figure".to_owned(), words),
            parts.is_some_and(|part| part.median >= PART_MIN),
        );
        let default = &found[0].runs;
        let lost: u64 = default.iter().map(|run| run.kernel_dropped).sum();
        let lossless = ScenarioCheck::new(
            format!("the default loses nothing ({})", self.load()),
            format!("{lost} lost in {} runs", default.len()),
            lost == 0,
        );
        tell(&format!("  {}: {}", reaches.what, reaches.found));
        tell(&format!("  {}: {}", lossless.what, lossless.found));
        [reaches, lossless]
    }

    /// The default and a point beside each other.
    fn round(&self, at: usize, found: &mut [PointRuns]) -> Result<()> {
        // Who is started first changes.
        let default_first = found[at].parts.len().is_multiple_of(2);
        let order = if default_first { [0, at] } else { [at, 0] };
        let [first, second] = self.both(order.map(|at| &self.points[at]))?;
        let (default, other) = if default_first {
            (first, second)
        } else {
            (second, first)
        };
        let part = other.us_per_event / default.us_per_event;
        tell(&format!(
            "  {part:.3} × the default's CPU, {} and {} lost: {}",
            default.kernel_dropped, other.kernel_dropped, self.points[at].name
        ));
        found[0].runs.push(default);
        found[at].runs.push(other);
        found[at].parts.push(part);
        Ok(())
    }

    fn both(&self, points: [&UdpPoint; 2]) -> Result<[RunResult; 2]> {
        let calibration_ms = calibrate_ms();
        let lasts = Duration::from_secs_f64(self.lab.terms.seconds).max(LASTS_MIN);
        let [one, two] = points;
        let mut sides = [
            self.start("one", one, lasts)?,
            self.start("two", two, lasts)?,
        ];
        let begun = sides[1].sending.begun;
        wait_until(begun + SETTLES);
        for side in &mut sides {
            side.before = Some(side.look()?);
        }
        wait_until(begun + SETTLES + lasts);
        let [one, two] = &mut sides;
        let after = [one.look()?, two.look()?];
        let [one, two] = sides;
        let [now_one, now_two] = after;
        let run = |side: PairedProcess, now| side.run(now, calibration_ms);
        Ok([run(one, now_one)?, run(two, now_two)?])
    }

    fn start(&self, name: &str, point: &UdpPoint, lasts: Duration) -> Result<PairedProcess> {
        let inrush = self.lab.start_inrush_in(name, &point.template)?;
        let address = inrush.address(Wire::Udp)?;
        let shape = LoadShape {
            wire: Wire::Udp,
            connections: self.senders,
            rate: self.rate,
            burst: 8,
            ..REFERENCE
        };
        let amount = Amount::Seconds((SETTLES + lasts).as_secs() + 2);
        let sending = sender::start(&self.lab.inrush, &address, &shape, amount, None)?;
        Ok(PairedProcess {
            inrush,
            sending,
            before: None,
        })
    }
}

/// One of the two processes, and its sender.
struct PairedProcess {
    inrush: Inrush,
    sending: Sending,
    before: Option<ProgressSample>,
}

/// CPU time and progress of a process at a moment.
struct ProgressSample {
    at: Instant,
    cpu: Cpu,
    progress: SubjectProgress,
}

impl PairedProcess {
    fn look(&mut self) -> Result<ProgressSample> {
        Ok(ProgressSample {
            at: Instant::now(),
            progress: self.inrush.progress()?,
            cpu: process_cpu(self.inrush.pid())?,
        })
    }

    /// Run from the look before until `now`. It ends once all that was sent has come to its end.
    fn run(mut self, now: ProgressSample, calibration_ms: f64) -> Result<RunResult> {
        let before = self.before.take().context("it was not looked at")?;
        let sent = self.sending.finish()?;
        let last = drain(&mut self.inrush, sent.events)?;
        let wrong = self.inrush.wrong(&last, sent.events);
        let cpu = now.cpu.since(before.cpu);
        let delivered = now.progress.delivered - before.progress.delivered;
        Ok(RunResult {
            sent: sent.events,
            offered_rate: sent.rate,
            delivered,
            kernel_dropped: last.kernel_dropped,
            unaccounted: last.unaccounted(sent.events),
            seconds: now.at.duration_since(before.at).as_secs_f64(),
            user_us: cpu.user_us,
            sys_us: cpu.sys_us,
            us_per_event: per_event(cpu.total_us(), delivered).context("nothing was delivered")?,
            rss_peak_mib: process_rss_peak_mib(self.inrush.pid())?,
            calibration_ms,
            wrong,
            ..RunResult::default()
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_default_is_the_first_point_and_sets_nothing() {
        let points = points();
        assert_eq!((points.len(), points[0].name.as_str()), (25, DEFAULT));
        assert!(points[0].template.contains("udp: {  }"));
        let left = |point: &UdpPoint| point.template.contains("@UDP@");
        assert!(!points.iter().any(left));
    }

    #[test]
    fn a_point_that_loses_events_is_no_better() {
        let mut found = PointRuns {
            runs: vec![RunResult::default(), RunResult::default()],
            parts: vec![1.0, 0.5],
        };
        assert_eq!((found.part(0), found.part(1)), (0.75, 0.5));
        found.runs[0].kernel_dropped = 1;
        assert_eq!(found.part(1), f64::INFINITY);
        assert_eq!(PointRuns::default().part(0), f64::INFINITY);
    }
}
