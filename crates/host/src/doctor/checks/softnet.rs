//! The backlog between driver and sockets: the second column of `/proc/net/softnet_stat`, for each
//! CPU (kernel: net/core/net-procfs.c), and `net.core.netdev_max_backlog`.

use crate::Cause;
use crate::doctor::finding::{Finding, Layer, Severity, loss, total};
use crate::doctor::scene::HostFacts;
use crate::text::{SoftnetCpu, softnet};

/// Packets that a CPU's backlog should hold: 10 ms at a million a second. The kernel's default of
/// 1,000 is from when a gigabit was much.
const BACKLOG: u64 = 10_000;

/// CPUs that are named; the worst.
const SHOWN_MAX: usize = 4;

pub(super) fn check(scene: &HostFacts) -> Vec<Finding> {
    let stat = scene.need("proc/net/softnet_stat");
    let backlog = scene.sysctl("net.core.netdev_max_backlog");
    let cpus = stat.as_deref().map(softnet).unwrap_or_default();
    if cpus.is_empty() && backlog.is_none() {
        return Vec::new();
    }
    let lost = total(cpus.iter().map(|cpu| cpu.dropped));
    let processed = total(cpus.iter().map(|cpu| cpu.processed));
    let found = format!(
        "netdev_max_backlog {}; {}",
        backlog.map_or("unknown".to_owned(), |backlog| backlog.to_string()),
        if cpus.is_empty() {
            "drops unknown".to_owned()
        } else {
            format!(
                "dropped {lost} of {processed} packets{}",
                worst(&cpus, |c| c.dropped)
            )
        },
    );
    let finding = Finding::new("softnet.backlog", Layer::Softnet, found)
        .wanted(format!("netdev_max_backlog of {BACKLOG}, nothing dropped"))
        .why(Cause::SoftnetDropped.hint())
        .lost((!cpus.is_empty()).then_some(lost));
    let short = backlog.is_some_and(|backlog| backlog < BACKLOG);
    let severity = loss(lost, processed);
    vec![match (severity, short) {
        (Severity::Ok, false) => finding,
        (Severity::Ok, true) => finding.raise(Severity::Info, &SETTINGS),
        (severity, true) => finding.raise(severity, &SETTINGS),
        // Another network namespace has the bound of its host, and does not show it.
        (severity, false) if backlog.is_none() => {
            let [(key, value)] = SETTINGS;
            finding.bad(
                severity,
                format!("sysctl -w {key}={value}    # on the host"),
            )
        }
        // Long enough, and full all the same: the CPUs are what is short.
        (severity, false) => finding.bad(severity, "grep . /sys/class/net/*/queues/rx-*/rps_cpus"),
    }]
}

const SETTINGS: [(&str, u64); 1] = [("net.core.netdev_max_backlog", BACKLOG)];

/// The CPUs with most of it, such as `: CPU 3 12, CPU 0 1 and 2 more`; nothing if none has any.
pub(super) fn worst(cpus: &[SoftnetCpu], value: impl Fn(&SoftnetCpu) -> u64) -> String {
    let mut rows: Vec<(u64, u64)> = cpus.iter().map(|cpu| (value(cpu), cpu.cpu)).collect();
    rows.retain(|(value, _)| *value > 0);
    rows.sort_unstable_by_key(|(value, cpu)| (std::cmp::Reverse(*value), *cpu));
    let more = rows.len().saturating_sub(SHOWN_MAX);
    rows.truncate(SHOWN_MAX);
    let words: Vec<String> = rows
        .iter()
        .map(|(v, cpu)| format!("CPU {cpu} {v}"))
        .collect();
    match (words.is_empty(), more) {
        (true, _) => String::new(),
        (false, 0) => format!(": {}", words.join(", ")),
        (false, more) => format!(": {} and {more} more", words.join(", ")),
    }
}
