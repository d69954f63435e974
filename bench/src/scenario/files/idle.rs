//! Files that are open and that nobody writes.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use inrush_harness::child::wait;
use inrush_harness::lab::BenchHarness;
use inrush_harness::measure::ScenarioCheck;
use inrush_harness::meter::{process_rss_mib, tree_cpu};
use inrush_harness::subject::BenchSubject;

use super::super::hec_connections::raise_descriptors;
use super::{LAYOUT, RSS_MAX_MIB, SETTINGS, TailSubject, tell};
use crate::rotation::{NumberedLog, TailProduct};

/// Files of a large node.
const NODE_FILES: u32 = 1_500;

/// Files that are idle.
const IDLE_FILES: u32 = 10_000;

/// Per cent of a core that they may cost.
const IDLE_PCT_MAX: f64 = 1.0;

/// Memory of an idle file at most, KiB.
const FILE_KIB_MAX: f64 = 2.0;

/// Time for which idle CPU is metered.
const SPAN: Duration = Duration::from_secs(20);

/// Time after the last line in which work behind it may go on.
const SETTLE: Duration = Duration::from_secs(3);

/// Time in which one line of each file must arrive.
const ARRIVE_MAX: Duration = Duration::from_secs(120);

/// Figures of idle files.
struct IdleFigures {
    node_rss_mib: f64,
    file_kib: f64,
    core_pct: f64,
}

/// Measures, and holds it against the limits.
pub(super) fn checks(lab: &BenchHarness) -> Result<Vec<ScenarioCheck>> {
    raise_descriptors(u64::from(IDLE_FILES))?;
    let folder = lab.dir("files")?;
    let product = TailProduct::Inrush;
    let mut subject = TailSubject::start(lab, product, LAYOUT.include(&folder), &[])?;
    let pid = subject.pid();
    add(&folder, 0..NODE_FILES, &mut subject)?;
    let node_rss_mib = process_rss_mib(pid)?;
    add(&folder, NODE_FILES..IDLE_FILES, &mut subject)?;
    let grown_mib = process_rss_mib(pid)? - node_rss_mib;
    let (before, begun) = (tree_cpu(pid)?, Instant::now());
    wait(SPAN);
    let used_us = tree_cpu(pid)?.since(before).total_us();
    let figures = IdleFigures {
        node_rss_mib,
        file_kib: grown_mib * 1024.0 / f64::from(IDLE_FILES - NODE_FILES),
        core_pct: 100.0 * used_us / begun.elapsed().as_secs_f64() / 1e6,
    };
    tell(&format!(
        "  idle: {:.2} % of a core, {:.2} KiB a file",
        figures.core_pct, figures.file_kib
    ));
    Ok(figures.checks())
}

/// Writes files of one line each, and waits until all lines arrived.
fn add(folder: &Path, files: std::ops::Range<u32>, subject: &mut TailSubject) -> Result<()> {
    let due = u64::from(files.end);
    for index in files {
        let path = LAYOUT.file(folder, index);
        crate::rotation::prepare(LAYOUT, &path)?;
        NumberedLog::create(index, path, SETTINGS)?.write(1)?;
    }
    let deadline = Instant::now() + ARRIVE_MAX;
    loop {
        let arrived = subject.progress()?.delivered;
        if arrived >= due {
            break;
        }
        let now = Instant::now();
        ensure!(now < deadline, "{arrived} of {due} lines arrived");
        wait(Duration::from_millis(100));
    }
    wait(SETTLE);
    Ok(())
}

impl IdleFigures {
    fn checks(&self) -> Vec<ScenarioCheck> {
        vec![
            ScenarioCheck::new(
                format!("resident memory at most {RSS_MAX_MIB} MiB with {NODE_FILES} files"),
                format!("{:.0} MiB", self.node_rss_mib),
                self.node_rss_mib <= RSS_MAX_MIB,
            ),
            ScenarioCheck::new(
                format!("at most {FILE_KIB_MAX} KiB an idle file"),
                format!("{:.2} KiB of {IDLE_FILES}", self.file_kib),
                self.file_kib <= FILE_KIB_MAX,
            ),
            ScenarioCheck::new(
                format!("{IDLE_FILES} idle files cost at most {IDLE_PCT_MAX} % of a core"),
                format!("{:.2} %", self.core_pct),
                self.core_pct <= IDLE_PCT_MAX,
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_is_held_by_itself() {
        let passed = |node_rss_mib, file_kib, core_pct| {
            let figures = IdleFigures {
                node_rss_mib,
                file_kib,
                core_pct,
            };
            figures
                .checks()
                .iter()
                .map(|check| check.passed)
                .collect::<Vec<_>>()
        };
        assert_eq!(passed(120.0, 2.0, 1.0), [true; 3]);
        assert_eq!(passed(121.0, 2.0, 1.0), [false, true, true]);
        assert_eq!(passed(120.0, 2.1, 1.0), [true, false, true]);
        assert_eq!(passed(120.0, 2.0, 1.1), [true, true, false]);
    }
}
