//! CPU quota of the control groups, which may hold the process back: `cpu.max` and `cpu.stat` of
//! cgroup v2 (kernel: Documentation/admin-guide/cgroup-v2.rst, "CPU Interface Files"),
//! `cpu.cfs_quota_us` of v1 (Documentation/scheduler/sched-bwc.rst).

use crate::doctor::cgroup::{CgroupHierarchy, CgroupVersion, groups, value};
use crate::doctor::finding::{Finding, Layer, Severity};
use crate::doctor::scene::HostFacts;

/// Percent of its periods in which a group was held back from which it counts as short of CPU.
const THROTTLED_PERCENT: u64 = 10;

/// The tightest bound of CPU time.
struct CpuQuota {
    group: String,
    /// Thousandths of a CPU.
    milli_cpus: u64,
}

pub(super) fn check(scene: &HostFacts) -> Vec<Finding> {
    let Some(CgroupHierarchy { version, folders }) = groups(scene, "cpu") else {
        return Vec::new();
    };
    let bounds = folders
        .iter()
        .filter_map(|group| bound(scene, version, group));
    let Some(bound) = bounds.min_by_key(|bound| bound.milli_cpus) else {
        let found = format!("no bound of CPU time for {}", scene.whose());
        let fine = Finding::new("cpu.cgroup", Layer::Cpu, found);
        return vec![fine.wanted("no bound that is reached").why(WHY)];
    };
    vec![finding(scene, version, &bound)]
}

const WHY: &str = "When the group has used up its share, the kernel stops every thread of it for \
    the rest of the period, up to 100 ms; meanwhile receive buffers fill up and UDP is lost.";

/// The bound of one group; `None` where it has none.
fn bound(scene: &HostFacts, version: CgroupVersion, group: &str) -> Option<CpuQuota> {
    let file = |name: &str| scene.text(format!("{group}/{name}"));
    let text = match version {
        CgroupVersion::Two => file("cpu.max")?,
        CgroupVersion::One => file("cpu.cfs_quota_us")? + " " + &file("cpu.cfs_period_us")?,
    };
    let mut words = text.split_ascii_whitespace();
    // Without a bound it is `max`, or -1.
    let quota: u64 = words.next()?.parse().ok()?;
    let period: u64 = words.next()?.parse().ok()?;
    let milli_cpus = quota.saturating_mul(1000).checked_div(period)?;
    let group = group.to_owned();
    Some(CpuQuota { group, milli_cpus })
}

fn finding(scene: &HostFacts, version: CgroupVersion, bound: &CpuQuota) -> Finding {
    let CpuQuota { group, milli_cpus } = bound;
    let stat = scene.text(format!("{group}/cpu.stat")).unwrap_or_default();
    let number = |name: &str| value(&stat, name).unwrap_or(0);
    let (periods, throttled) = (number("nr_periods"), number("nr_throttled"));
    let (file, none, throttled_us) = match version {
        CgroupVersion::Two => ("cpu.max", "max", number("throttled_usec")),
        CgroupVersion::One => ("cpu.cfs_quota_us", "-1", number("throttled_time") / 1000),
    };
    let found = format!(
        "{file} of /{group} allows {:.2} CPUs to {}; held back in {throttled} of {periods} \
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
    finding.bad(severity, format!("echo {none} > /{group}/{file}"))
}
