//! Collectors of files: what a line costs from the head and at the tail, what open files cost that
//! nobody writes, and how soon a line of a quiet or a new file arrives.

mod idle;
mod lag;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use inrush_harness::child::{ChildProcess, wait};
use inrush_harness::lab::BenchHarness;
use inrush_harness::measure::{Cell, RunResult, ScenarioCheck, ScenarioResult};
use inrush_harness::meter::{Metered, Window, calibrate_ms, process_rss_peak_mib};
use inrush_harness::sender::Wire;
use inrush_harness::stats::per_event;
use inrush_harness::subject::{BenchSubject, SinkProcess, SubjectProgress, drain, ledger_at};

use super::cost::bare_arm;
use super::rounds::{Arm, limit, rounds};
use super::tell;
use crate::crash::free_ports;
use crate::rotation::{
    LineShape, LogField, LogFormat, LogSettings, NumberedLog, RotationScheme, TailPlaces,
    TailProduct, WriteRate,
};

/// Files of the load.
const FILES: u32 = 16;

/// Lines of each from the head.
const HEAD_LINES: u64 = 20_000;

/// Lines a second of each at the tail.
const LIVE_RATE: u64 = 500;

/// CPU-µs that a line may cost from the head, durable.
const HEAD_LIMIT_US: f64 = 2.0;

/// CPU-µs that a line may cost at the tail.
const LIVE_LIMIT_US: f64 = 3.0;

/// MiB a second that are read from the head at least.
const HEAD_MIB_MIN: f64 = 250.0;

/// Resident memory at most, MiB.
const RSS_MAX_MIB: f64 = 120.0;

/// Time that a collector is given to start before a load begins.
const START: Duration = Duration::from_secs(2);

/// Lines of all loads: CRI of 1 KiB, none of them long.
const SETTINGS: LogSettings = LogSettings {
    format: LogFormat::Cri,
    shape: LineShape {
        bytes: 1024,
        long_every: 0,
        long_bytes_max: 0,
    },
    append: true,
};

/// Layout of all loads: `app-N/app.log`.
const LAYOUT: RotationScheme = RotationScheme::Create;

/// Runs it.
pub(super) fn run(lab: &BenchHarness) -> Result<ScenarioResult> {
    let shows = "collectors of files: CRI lines of 1 KiB to a HEC endpoint without gzip, from the \
                 head and at the tail, idle files, quiet files beside a loud one, new files";
    tell(shows);
    let head = HeadFiles::write(lab)?;
    let products = products(lab);
    let mut arms = Vec::new();
    for product in &products {
        let once = || head.run(lab, *product);
        arms.push(Arm::new(subject(*product), head.words(), once));
        let once = || live(lab, *product);
        arms.push(Arm::new(subject(*product), live_words(), once));
    }
    let (bare, cells) = rounds(lab, bare_arm(lab)?, arms, 2)?;
    let mut scenario = lab.scenario(shows);
    let versions = products.iter().filter_map(|product| product.version());
    scenario.versions.extend(versions);
    if let [head_cell, live_cell, ..] = &cells[..] {
        scenario.checks.extend(head_checks(head_cell, &head));
        scenario
            .checks
            .push(named(limit(live_cell, LIVE_LIMIT_US), live_cell));
        scenario.checks.push(live_cell.accounts());
    }
    scenario.cells.push(bare);
    scenario.cells.extend(cells);
    scenario.checks.extend(idle::checks(lab)?);
    scenario.checks.extend(lag::checks(lab)?);
    Ok(scenario)
}

/// Inrush first, the bare tail, and the peers that are there.
fn products(lab: &BenchHarness) -> Vec<TailProduct> {
    let mut all = vec![TailProduct::Inrush, TailProduct::Bare];
    for peer in [TailProduct::Otel, TailProduct::FluentBit] {
        match peer.setup(Path::new("")) {
            Ok(_) if lab.terms.peers => all.push(peer),
            Ok(_) => {}
            Err(error) => tell(&format!("  {error}")),
        }
    }
    all
}

const fn subject(product: TailProduct) -> &'static str {
    match product {
        TailProduct::Inrush => "inrush, fsync",
        TailProduct::Bare => "bare tail",
        TailProduct::Otel => "OTel, file_storage",
        TailProduct::FluentBit => "Fluent Bit, db",
    }
}

fn head_checks(cell: &Cell, head: &HeadFiles) -> Vec<ScenarioCheck> {
    let rate = cell.rate().map_or(0.0, |rate| rate.median);
    let mib = rate * head.bytes as f64 / head.lines as f64 / f64::from(1 << 20);
    let rss = cell.figures().rss_mib.map_or(f64::INFINITY, |rss| rss.max);
    vec![
        named(limit(cell, HEAD_LIMIT_US), cell),
        ScenarioCheck::new(
            format!("at least {HEAD_MIB_MIN} MiB/s from the head"),
            format!("{mib:.0} MiB/s"),
            mib >= HEAD_MIB_MIN,
        ),
        ScenarioCheck::new(
            format!("resident memory at most {RSS_MAX_MIB} MiB from the head"),
            format!("{rss:.0} MiB"),
            rss <= RSS_MAX_MIB,
        ),
        cell.accounts(),
    ]
}

/// A check that says of which load it is.
fn named(mut check: ScenarioCheck, cell: &Cell) -> ScenarioCheck {
    check.what = format!("{} ({})", check.what, cell.load);
    check
}

/// Files that are written once, and given to each collector anew.
struct HeadFiles {
    files: Vec<PathBuf>,
    lines: u64,
    bytes: u64,
}

impl HeadFiles {
    fn write(lab: &BenchHarness) -> Result<Self> {
        let folder = lab.dir("files-head")?;
        let (mut files, mut bytes) = (Vec::new(), 0);
        for index in 0..FILES {
            let path = folder.join(format!("{index:05}.log"));
            let mut log = NumberedLog::create(index, path.clone(), SETTINGS)?;
            log.write(HEAD_LINES)?;
            bytes += log.bytes();
            files.push(path);
        }
        let lines = u64::from(FILES) * HEAD_LINES;
        Ok(Self {
            files,
            lines,
            bytes,
        })
    }

    fn words(&self) -> String {
        format!("from the head, {FILES} × {HEAD_LINES}, CRI, 1,024 B")
    }

    /// The files get a name that the collector looks for once it runs.
    fn run(&self, lab: &BenchHarness, product: TailProduct) -> Result<RunResult> {
        let folder = lab.dir("files")?;
        let include = folder.join("*.log").display().to_string();
        let subject = TailSubject::start(lab, product, include, &[])?;
        subject.metered(|| {
            for file in &self.files {
                let name = file.file_name().context("a name")?;
                fs::hard_link(file, folder.join(name))?;
            }
            Ok(self.lines)
        })
    }
}

fn live_words() -> String {
    format!("at the tail, {FILES} × {LIVE_RATE}/s, CRI, 1,024 B")
}

/// Files that are written while they are read.
fn live(lab: &BenchHarness, product: TailProduct) -> Result<RunResult> {
    let folder = lab.dir("files")?;
    let mut field = LogField::create(&folder, 0..FILES, LAYOUT, SETTINGS)?;
    let subject = TailSubject::start(lab, product, LAYOUT.include(&folder), &["--latency"])?;
    let seconds = lab.terms.seconds;
    subject.metered(|| {
        field.begin(WriteRate::even(LIVE_RATE), None);
        wait(Duration::from_secs_f64(seconds));
        field.finish()
    })
}

/// A collector before a sink in a process of its own, whose count is the account.
struct TailSubject {
    process: ChildProcess,
    sink: SinkProcess,
    /// API of Inrush.
    admin: Option<String>,
}

impl TailSubject {
    fn start(
        lab: &BenchHarness,
        product: TailProduct,
        include: String,
        sink: &[&str],
    ) -> Result<Self> {
        let sink = SinkProcess::start(sink)?;
        let places = places(lab, include, sink.port)?;
        let process = product.setup(&lab.inrush)?.start(&places)?;
        wait(START);
        let admin = format!("http://127.0.0.1:{}", places.admin_port);
        Ok(Self {
            process,
            sink,
            admin: (product == TailProduct::Inrush).then_some(admin),
        })
    }

    /// Meters a load, which says how many lines it was, until all is drained.
    fn metered(mut self, load: impl FnOnce() -> Result<u64>) -> Result<RunResult> {
        let calibration_ms = calibrate_ms();
        let window = Window::open(self.pid(), Some(self.sink.pid()))?;
        let sent = load()?;
        let last = drain(&mut self, sent)?;
        let metered = window.close()?;
        let run = result(&metered, sent, last.delivered)?;
        Ok(RunResult {
            calibration_ms,
            rss_peak_mib: process_rss_peak_mib(self.pid())?,
            latency: self.sink.counts()?.latency,
            wrong: self.wrong_of(&last, sent)?,
            ..run
        })
    }

    fn wrong_of(&self, last: &SubjectProgress, sent: u64) -> Result<Option<String>> {
        let missing = last.unaccounted(sent);
        if missing != 0 {
            return Ok(Some(format!("{missing} of {sent} lines missing")));
        }
        let ledger = self.admin.as_deref().map(ledger_at).transpose()?;
        let unbalanced = ledger.filter(|ledger| ledger["balanced"] != true);
        Ok(unbalanced.map(|ledger| format!("not balanced: {ledger}")))
    }
}

impl BenchSubject for TailSubject {
    fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// It listens nowhere.
    fn address(&self, _: Wire) -> Result<String> {
        Ok(String::new())
    }

    fn progress(&mut self) -> Result<SubjectProgress> {
        Ok(SubjectProgress {
            delivered: self.sink.counts()?.events,
            ..SubjectProgress::default()
        })
    }
}

fn result(metered: &Metered, sent: u64, delivered: u64) -> Result<RunResult> {
    let us_per_event = per_event(metered.cpu.total_us(), delivered);
    Ok(RunResult {
        sent,
        delivered,
        unaccounted: sent as i64 - delivered as i64,
        seconds: metered.wall.as_secs_f64(),
        user_us: metered.cpu.user_us,
        sys_us: metered.cpu.sys_us,
        us_per_event: us_per_event.context("nothing arrived")?,
        sink_pct: metered.helper_pct,
        sender_pct: metered.ours_pct,
        disk_bytes: metered.disk_bytes,
        write_calls: metered.write_calls,
        others_pct: metered.others_pct,
        steal_pct: metered.steal_pct,
        noisy: metered.noisy(),
        ..RunResult::default()
    })
}

/// Places of a fresh collector.
fn places(lab: &BenchHarness, include: String, sink_port: u16) -> Result<TailPlaces> {
    let ports = crate::rotation::PORTS;
    Ok(TailPlaces {
        dir: lab.dir("collector")?,
        include,
        format: SETTINGS.format,
        sink_port,
        admin_port: free_ports(ports).next().context("no free port")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_and_memory_are_held_against_their_limits() {
        let head = HeadFiles {
            files: Vec::new(),
            lines: 1000,
            bytes: 1 << 20,
        };
        let passed = |seconds, rss_peak_mib| {
            let run = RunResult {
                delivered: 1000,
                seconds,
                rss_peak_mib,
                scaled_us: Some(1.9),
                ..RunResult::default()
            };
            let cell = Cell::new("inrush", "x", vec![run]);
            let checks = head_checks(&cell, &head);
            checks.iter().map(|check| check.passed).collect::<Vec<_>>()
        };
        assert_eq!(passed(0.004, 120.0), [true; 4]);
        assert_eq!(passed(0.005, 120.0), [true, false, true, true]);
        assert_eq!(passed(0.004, 121.0), [true, true, false, true]);
    }
}
