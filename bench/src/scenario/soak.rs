//! 500,000 events a second over TCP for minutes: memory stays small, and flat.

use std::time::Duration;

use anyhow::Result;
use inrush_harness::lab::{BenchHarness, PeriodicTask};
use inrush_harness::measure::{ScenarioCheck, ScenarioResult};
use inrush_harness::meter::process_rss_mib;
use inrush_harness::sender::{Amount, LoadShape};
use inrush_harness::stats::{Spread, growth};
use inrush_harness::subject::{BenchSubject, User};

use super::noloss::rate_held;
use super::{REFERENCE, tell};

const RATE: u64 = 500_000;

/// Resident memory that it must stay under, MiB.
const RSS_MAX_MIB: f64 = 150.0;

/// The last quarter may lie above the second by this part and still be called flat: an arena more
/// or less is not a leak, and a leak of 1 % a minute is seen after ten.
const GROWTH_MAX: f64 = 0.05;

/// Runs it.
pub(super) fn run(lab: &BenchHarness) -> Result<ScenarioResult> {
    let seconds = lab.terms.soak_minutes * 60;
    let shows = format!(
        "TCP at 500,000/s for {} minutes, queue in memory: memory",
        lab.terms.soak_minutes
    );
    tell(&shows);
    let template = include_str!("../../inrush/tcp-blackhole.yaml");
    let mut inrush = lab.start_inrush(template, None, User::Ours)?;
    let pid = inrush.pid();
    let mut rss = Vec::new();
    let mut sample = || {
        rss.push(process_rss_mib(pid)?);
        if rss.len() % 60 == 0 {
            tell(&format!(
                "  {} min: {:.1} MiB",
                rss.len() / 60,
                rss[rss.len() - 1]
            ));
        }
        Ok(())
    };
    let meanwhile = PeriodicTask {
        every: Duration::from_secs(1),
        act: &mut sample,
    };
    let shape = LoadShape {
        rate: RATE,
        ..REFERENCE
    };
    let run = lab.measure(
        &mut inrush,
        None,
        &shape,
        Amount::Number(RATE * seconds),
        Some(meanwhile),
    )?;
    let mut scenario = lab.scenario(&shows);
    scenario.checks = checks(&rss);
    scenario.checks.push(rate_held(run.offered_rate, RATE));
    let load = format!("500,000/s, 10 conn, 800 B, {seconds} s");
    scenario.add_inrush(load, vec![run]);
    Ok(scenario)
}

fn checks(rss: &[f64]) -> Vec<ScenarioCheck> {
    let spread = Spread::of(rss);
    let most = spread.map_or(f64::INFINITY, |spread| spread.max);
    let levels = spread.map_or("no sample".to_owned(), |s| {
        format!("{:.1} MiB (median {:.1}, {} samples)", s.max, s.median, s.n)
    });
    let grown = growth(rss);
    let rise = grown.map_or("too few samples".to_owned(), |part| {
        format!("{:+.1} %", part * 100.0)
    });
    vec![
        ScenarioCheck::new(
            format!("resident memory under {RSS_MAX_MIB} MiB"),
            levels,
            most < RSS_MAX_MIB,
        ),
        ScenarioCheck::new(
            "flat: the last quarter against the second",
            rise,
            grown.is_some_and(|part| part <= GROWTH_MAX),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::checks;

    fn passed(rss: &[f64]) -> Vec<bool> {
        checks(rss).iter().map(|check| check.passed).collect()
    }

    #[test]
    fn small_and_flat_passes_and_neither_alone() {
        assert_eq!(passed(&[40.0; 60]), [true, true]);
        assert_eq!(passed(&[160.0; 60]), [false, true]);
        let growing: Vec<f64> = (0..60).map(|second| 40.0 + f64::from(second)).collect();
        assert_eq!(passed(&growing), [true, false]);
        assert_eq!(passed(&[]), [false, false]);
    }
}
