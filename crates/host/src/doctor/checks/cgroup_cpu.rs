//! Whether a control group holds the process back: `cpu.max` and `cpu.stat` of cgroup v2
//! (kernel: Documentation/admin-guide/cgroup-v2.rst, "CPU Interface Files").

use crate::doctor::cgroup::{levels, value};
use crate::doctor::finding::{Finding, Layer, Severity};
use crate::doctor::scene::Scene;

/// Percent of its periods in which a group was held back from which it counts as short of CPU.
const THROTTLED_PERCENT: u64 = 10;

/// The tightest bound of CPU time.
struct Bound {
    group: String,
    /// Thousandths of a CPU.
    milli_cpus: u64,
}

pub(super) fn check(scene: &Scene) -> Vec<Finding> {
    let levels = levels(scene);
    if levels.is_empty() {
        return Vec::new();
    }
    let bounds = levels.iter().filter_map(|group| bound(scene, group));
    let Some(bound) = bounds.min_by_key(|bound| bound.milli_cpus) else {
        let found = format!("no bound of CPU time for {}", scene.whose());
        let fine = Finding::new("cpu.cgroup", Layer::Cpu, found);
        return vec![fine.wanted("no bound that is reached").why(WHY)];
    };
    vec![finding(scene, &bound)]
}

const WHY: &str = "When the group has used up its share, the kernel stops every thread of it for \
    the rest of the period, up to 100 ms; meanwhile receive buffers fill up and UDP is lost.";

/// The bound of one group; `None` where it has none.
fn bound(scene: &Scene, group: &str) -> Option<Bound> {
    let text = scene.text(format!("{group}/cpu.max"))?;
    let mut words = text.split_ascii_whitespace();
    let quota: u64 = words.next()?.parse().ok()?;
    let period: u64 = words.next()?.parse().ok()?;
    let milli_cpus = quota.saturating_mul(1000).checked_div(period)?;
    let group = group.to_owned();
    Some(Bound { group, milli_cpus })
}

fn finding(scene: &Scene, bound: &Bound) -> Finding {
    let Bound { group, milli_cpus } = bound;
    let stat = scene.text(format!("{group}/cpu.stat")).unwrap_or_default();
    let periods = value(&stat, "nr_periods").unwrap_or(0);
    let throttled = value(&stat, "nr_throttled").unwrap_or(0);
    let throttled_us = value(&stat, "throttled_usec").unwrap_or(0);
    let found = format!(
        "cpu.max of /{group} allows {:.2} CPUs to {}; held back in {throttled} of {periods} \
         periods, {:.1} s in all",
        *milli_cpus as f64 / 1000.0,
        scene.whose(),
        throttled_us as f64 / 1e6,
    );
    let finding = Finding::new("cpu.cgroup", Layer::Cpu, found)
        .wanted("a bound that is not reached, or none")
        .why(WHY);
    let severity = match throttled {
        0 => return finding,
        _ if throttled.saturating_mul(100) >= periods.saturating_mul(THROTTLED_PERCENT) => {
            Severity::Critical
        }
        _ => Severity::Warn,
    };
    finding.bad(severity, format!("echo max > /{group}/cpu.max"))
}
