//! The published test of a node: containers of docker that each write 1,000 lines a second, and a
//! collector that a control group holds to one CPU; then to a fifth of one, which it has to tell.

mod docker;
pub(crate) mod writer;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use inrush_harness::child::{ChildProcess, wait};
use inrush_harness::group::CpuGroup;
use inrush_harness::lab::BenchHarness;
use inrush_harness::measure::{Cell, RunResult, ScenarioCheck, ScenarioResult};
use inrush_harness::meter::{Window, calibrate_ms, process_rss_peak_mib};
use inrush_harness::sink::Latency;
use inrush_harness::stats::per_event;
use inrush_harness::subject::{READY_LINE, RUN_WORDS};

use super::tell;
use crate::crash::free_ports;
use crate::rotation::{ArrivalAccount, LineCollector, LogFormat, TailPlaces, TailSetup};
use docker::DockerDaemon;

/// Containers of each run.
const CONTAINERS: [u32; 3] = [10, 20, 40];

/// Lines a second of each.
const RATE: u64 = 1000;

/// Thousandths of a CPU that the collector may use.
const CPU: u64 = 1000;

/// The same where it is to be held back.
const LITTLE_CPU: u64 = 200;

/// Seconds from writing to arrival of 99 of 100 lines at most.
const LAG_MAX_S: f64 = 5.0;

/// Time for which nothing may arrive before what is missing counts as lost.
const STILL_MAX: Duration = Duration::from_secs(15);

/// Alarm of a process that is held back.
const ALARM: &str = "cpu-throttled";

/// Interval between two looks for it.
const LOOK: Duration = Duration::from_secs(1);

/// Runs it.
pub(super) fn run(lab: &BenchHarness) -> Result<ScenarioResult> {
    let seconds = lab.terms.node_seconds;
    let shows = format!(
        "the published test of a node: 10, 20 and 40 containers of docker, {RATE} lines of 1 KiB a \
         second each, for {seconds} s, a collector that may use one CPU, and a fifth of one"
    );
    tell(&shows);
    let mut scenario = lab.scenario(&shows);
    for containers in CONTAINERS {
        let node = NodeLoad {
            containers,
            milli_cpus: CPU,
        };
        let figures = node.run(lab).with_context(|| node.words())?;
        let check = node.lag(&figures);
        tell(&format!("  {}: {}", check.what, check.found));
        scenario.checks.push(check);
        let cell = Cell::new("inrush, 1 CPU", node.words(), vec![figures.run]);
        scenario.checks.push(cell.accounts());
        scenario.cells.push(cell);
    }
    let most = CONTAINERS.into_iter().max().unwrap_or_default();
    let node = NodeLoad {
        containers: most,
        milli_cpus: LITTLE_CPU,
    };
    let figures = node.run(lab).with_context(|| node.words())?;
    scenario.checks.push(node.told(&figures));
    Ok(scenario)
}

/// Load of a run, and what the collector may use.
#[derive(Clone, Copy)]
struct NodeLoad {
    containers: u32,
    milli_cpus: u64,
}

/// Figures of a run.
struct NodeFigures {
    run: RunResult,
    /// CPU time of the collector, per cent of one core.
    core_pct: f64,
    /// Periods in which the collector was held back, and all of them.
    throttled: (u64, u64),
    /// True if the collector raised the alarm.
    alarmed: bool,
}

impl NodeLoad {
    fn words(&self) -> String {
        let cpus = self.milli_cpus as f64 / 1000.0;
        format!("{} containers × {RATE}/s, {cpus} CPU", self.containers)
    }

    fn run(&self, lab: &BenchHarness) -> Result<NodeFigures> {
        let seconds = lab.terms.node_seconds;
        let folder_of = |name| -> Result<_> { Ok(lab.dir(name)?.canonicalize()?) };
        let mut docker = DockerDaemon::start(&folder_of("docker")?)?;
        let group = CpuGroup::new(self.milli_cpus)?;
        let account = ArrivalAccount::new(self.containers, 0);
        let (collector, port) = LineCollector::start(account, 0)?;
        let mut subject = NodeSubject::start(lab, &docker, &group, port)?;
        let folder = folder_of("writers")?;
        for writer in 0..self.containers {
            let words = format!(
                "container-writer --writer {writer} --rate {RATE} --seconds {seconds} --folder \
                 /folder"
            );
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            docker.run(&folder, &words)?;
        }
        let calibration_ms = calibrate_ms();
        let window = Window::open(subject.process.pid(), None)?;
        fs::write(folder.join(writer::GO), "").context("the begin")?;
        let alarmed = subject.watch(Duration::from_secs(seconds))?;
        docker.wait()?;
        let written = written(&folder, self.containers)?;
        let arrived = collector.settle(written, STILL_MAX);
        let metered = window.close()?;
        let counts = collector.account().counts();
        let odd = counts.doubled + counts.thrice + counts.torn + counts.foreign;
        let wrong = format!("{arrived} of {written} lines arrived, {odd} doubled, torn or odd");
        let run = RunResult {
            sent: written,
            offered_rate: written as f64 / seconds as f64,
            delivered: arrived,
            unaccounted: written as i64 - arrived as i64,
            seconds: metered.wall.as_secs_f64(),
            user_us: metered.cpu.user_us,
            sys_us: metered.cpu.sys_us,
            us_per_event: per_event(metered.cpu.total_us(), arrived).unwrap_or_default(),
            rss_peak_mib: process_rss_peak_mib(subject.process.pid())?,
            calibration_ms,
            disk_bytes: metered.disk_bytes,
            write_calls: metered.write_calls,
            steal_pct: metered.steal_pct,
            latency: latency(&collector.account()),
            wrong: (arrived != written || odd > 0).then_some(wrong),
            ..RunResult::default()
        };
        let core_pct = 100.0 * metered.cpu.total_us() / 1e6 / metered.wall.as_secs_f64();
        let throttled = group.throttled()?;
        Ok(NodeFigures {
            run,
            core_pct,
            throttled,
            alarmed,
        })
    }

    /// The lag of a run beside its limit.
    fn lag(&self, figures: &NodeFigures) -> ScenarioCheck {
        let lag_s = figures
            .run
            .latency
            .map_or(f64::INFINITY, |lag| lag.p99_us / 1e6);
        let what = format!("{}: p99 of lag below {LAG_MAX_S} s", self.words());
        ScenarioCheck::new(
            what,
            format!("{lag_s:.3} s; {}", figures.words()),
            lag_s < LAG_MAX_S,
        )
    }

    /// The alarm of a run that was to be held back.
    fn told(&self, figures: &NodeFigures) -> ScenarioCheck {
        let what = format!("{}: the alarm `{ALARM}` is raised", self.words());
        let raised = if figures.alarmed {
            "raised"
        } else {
            "not raised"
        };
        ScenarioCheck::new(
            what,
            format!("{raised}; {}", figures.words()),
            figures.alarmed,
        )
    }
}

impl NodeFigures {
    fn words(&self) -> String {
        let mib = self.run.offered_rate * writer::LINE_BYTES as f64 / f64::from(1 << 20);
        let (throttled, periods) = self.throttled;
        format!(
            "{mib:.1} MiB/s written, {} of {} lines arrived, {:.0} % of a core, {:.0} MiB, held \
             back in {throttled} of {periods} periods",
            self.run.delivered, self.run.sent, self.core_pct, self.run.rss_peak_mib
        )
    }
}

/// The collector, in its control group.
struct NodeSubject {
    process: ChildProcess,
    /// Address of its API.
    admin: String,
}

impl NodeSubject {
    fn start(
        lab: &BenchHarness,
        docker: &DockerDaemon,
        group: &CpuGroup,
        sink_port: u16,
    ) -> Result<Self> {
        let places = TailPlaces {
            dir: lab.dir("collector")?,
            include: docker.include(),
            format: LogFormat::Docker,
            sink_port,
            admin_port: free_ports(crate::rotation::PORTS)
                .next()
                .context("no free port")?,
        };
        let template = include_str!("../../../inrush/node.yaml");
        let template = template.replace("@DOCKER@", &docker.root());
        let program = lab.inrush.display().to_string();
        let [run, config] = RUN_WORDS;
        let mut words = group.words().to_vec();
        words.extend([&program, run, config, "@CONFIG@"].map(str::to_owned));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let process = TailSetup::new(&words, &template, Some(READY_LINE)).start(&places)?;
        let admin = format!("http://127.0.0.1:{}", places.admin_port);
        Ok(Self { process, admin })
    }

    /// Looks for the alarm for so long; true once it was there. A look may fail, since a collector
    /// that is held back answers late.
    fn watch(&mut self, span: Duration) -> Result<bool> {
        let end = Instant::now() + span;
        let mut alarmed = false;
        while Instant::now() < end {
            anyhow::ensure!(self.process.runs(), "the collector has ended by itself");
            let flow = inrush_harness::http::get(&format!("{}/api/v1/flow", self.admin));
            alarmed |= flow.is_ok_and(|flow| is_alarmed(&flow));
            wait(LOOK);
        }
        Ok(alarmed)
    }
}

/// True if a flow has the alarm.
fn is_alarmed(flow: &str) -> bool {
    let flow: serde_json::Value = serde_json::from_str(flow).unwrap_or_default();
    let alarms = flow["alarms"].as_array();
    alarms.is_some_and(|alarms| alarms.iter().any(|alarm| alarm["id"] == ALARM))
}

/// Lines that all writers have left in their files.
fn written(folder: &Path, writers: u32) -> Result<u64> {
    let count = |writer: u32| {
        let file = folder.join(writer.to_string());
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        text.parse::<u64>()
            .with_context(|| file.display().to_string())
    };
    (0..writers).map(count).sum()
}

fn latency(account: &ArrivalAccount) -> Option<Latency> {
    let lags = account.lags();
    Some(Latency {
        p50_us: lags.quantile_us(500)?,
        p99_us: lags.quantile_us(990)?,
        samples: lags.samples() as usize,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_held_against_its_lag_and_a_slow_one_against_the_alarm() {
        let node = NodeLoad {
            containers: 10,
            milli_cpus: CPU,
        };
        let figures = |p99_us, alarmed| NodeFigures {
            run: RunResult {
                latency: Some(Latency {
                    p50_us: 1.0,
                    p99_us,
                    samples: 1,
                }),
                ..RunResult::default()
            },
            core_pct: 1.0,
            throttled: (1, 2),
            alarmed,
        };
        assert!(node.lag(&figures(4.9e6, false)).passed);
        assert!(!node.lag(&figures(5.0e6, false)).passed);
        assert!(node.told(&figures(0.0, true)).passed);
        assert!(!node.told(&figures(0.0, false)).passed);
        let nothing = NodeFigures {
            run: RunResult::default(),
            ..figures(0.0, false)
        };
        assert!(!node.lag(&nothing).passed);
        assert!(is_alarmed(
            r#"{"alarms":[{"id":"x"},{"id":"cpu-throttled"}]}"#
        ));
        assert!(!is_alarmed(r#"{"alarms":[{"id":"x"}]}"#) && !is_alarmed("cut off"));
    }
}
