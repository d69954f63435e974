//! 10 TiB a day through HEC, evenly, for minutes: CPU, lag, memory.

use std::time::Duration;

use anyhow::Result;
use inrush_harness::lab::{BenchHarness, PeriodicTask};
use inrush_harness::measure::{RunResult, ScenarioCheck, ScenarioResult};
use inrush_harness::sender::Amount;
use inrush_harness::subject::{BenchSubject, SinkProcess, User};
use inrush_harness::threads::{ThreadWatch, none_alone};

use super::hec_server;
use super::noloss::rate_held;
use super::tell;

/// Events of 1 KiB a second that are 10 TiB a day: 121.4 MiB/s.
const RATE: u64 = 124_276;

/// Per cent of one core at most.
const CORE_PCT_MAX: f64 = 30.0;

/// Seconds of event lag (p99) at most.
const LAG_MAX_S: f64 = 1.0;

/// Resident memory at most, MiB.
const RSS_MAX_MIB: f64 = 200.0;

/// Interval at which the threads are looked at.
const STEP: Duration = Duration::from_secs(1);

/// Runs it.
pub(super) fn run(lab: &BenchHarness) -> Result<ScenarioResult> {
    let seconds = lab.terms.steady_seconds;
    let shows = format!(
        "10 TiB a day (121 MiB/s) in requests of 50 events of 1 KiB, HEC in, durable before the \
         answer, HEC out, for {seconds} s"
    );
    tell(&shows);
    let sink = SinkProcess::start(&["--latency"])?;
    let load = &hec_server::LOADS[0];
    let mut inrush = lab.start_inrush(&load.inrush(), Some(&sink), User::Ours)?;
    let mut watch = ThreadWatch::start(inrush.pid())?;
    let mut spans = Vec::new();
    let mut look = || {
        spans.push(watch.look()?);
        Ok(())
    };
    let meanwhile = PeriodicTask {
        every: STEP,
        act: &mut look,
    };
    let mut shape = load.shape();
    shape.rate = RATE;
    let amount = Amount::Number(RATE * seconds);
    let run = lab.measure(&mut inrush, Some(&sink), &shape, amount, Some(meanwhile))?;
    let mut scenario = lab.scenario(&shows);
    scenario.checks = checks(&run);
    scenario.checks.push(none_alone(&spans));
    let load = format!("{}, {RATE}/s, {seconds} s", load.words());
    scenario.add_inrush(load, vec![run]);
    Ok(scenario)
}

fn checks(run: &RunResult) -> Vec<ScenarioCheck> {
    let core_pct = (run.user_us + run.sys_us) / run.seconds / 1e4;
    let lag_s = run.latency.map_or(f64::INFINITY, |lag| lag.p99_us / 1e6);
    vec![
        rate_held(run.offered_rate, RATE),
        ScenarioCheck::new(
            format!("at most {CORE_PCT_MAX} % of one core"),
            format!("{core_pct:.1} %"),
            core_pct <= CORE_PCT_MAX,
        ),
        ScenarioCheck::new(
            format!("p99 of event lag below {LAG_MAX_S} s"),
            format!("{lag_s:.3} s"),
            lag_s < LAG_MAX_S,
        ),
        ScenarioCheck::new(
            format!("resident memory at most {RSS_MAX_MIB} MiB"),
            format!("{:.0} MiB", run.rss_peak_mib),
            run.rss_peak_mib <= RSS_MAX_MIB,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use inrush_harness::sink::Latency;

    fn passed(cpu_us: f64, p99_us: f64, rss_peak_mib: f64) -> Vec<bool> {
        let latency = Latency {
            p99_us,
            ..Latency::default()
        };
        let run = RunResult {
            offered_rate: RATE as f64,
            seconds: 10.0,
            user_us: cpu_us,
            rss_peak_mib,
            latency: Some(latency),
            ..RunResult::default()
        };
        checks(&run).iter().map(|check| check.passed).collect()
    }

    #[test]
    fn each_limit_is_held_by_itself() {
        assert_eq!(passed(3e6, 9e5, 200.0), [true; 4]);
        assert_eq!(passed(3.1e6, 9e5, 200.0), [true, false, true, true]);
        assert_eq!(passed(3e6, 1e6, 200.0), [true, true, false, true]);
        assert_eq!(passed(3e6, 9e5, 201.0), [true, true, true, false]);
    }
}
