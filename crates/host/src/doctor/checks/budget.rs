//! Budget of a CPU for packets that it takes off a card at once: `net.core.netdev_budget` and
//! `net.core.netdev_budget_usecs`, and the third column of `/proc/net/softnet_stat`, which counts
//! how often that was too little (kernel: Documentation/admin-guide/sysctl/net.rst).

use super::softnet::worst;
use crate::doctor::finding::{Finding, Layer, Severity, total};
use crate::doctor::scene::HostFacts;
use crate::text::softnet;

/// Packets at once: twice the kernel's default.
const BUDGET: u64 = 600;

/// Microseconds at once: the kernel's default at 250 ticks a second.
const BUDGET_US: u64 = 8000;

/// Packets for each of which one stop is too often. A stop is no loss: the rest is taken in the
/// next round, a little later.
const PACKETS_PER_STOP: u64 = 10_000;

pub(super) fn check(scene: &HostFacts) -> Vec<Finding> {
    let Some(stat) = scene.need("proc/net/softnet_stat") else {
        return Vec::new();
    };
    let cpus = softnet(&stat);
    let stops = total(cpus.iter().map(|cpu| cpu.time_squeeze));
    let processed = total(cpus.iter().map(|cpu| cpu.processed));
    let budget = scene.sysctl("net.core.netdev_budget");
    let budget_us = scene.sysctl("net.core.netdev_budget_usecs");
    let words = |value: Option<u64>| value.map_or("unknown".to_owned(), |v| v.to_string());
    let found = format!(
        "netdev_budget {}, netdev_budget_usecs {}; stopped with packets left {stops} times in \
         {processed} packets{}",
        words(budget),
        words(budget_us),
        worst(&cpus, |cpu| cpu.time_squeeze),
    );
    let finding = Finding::new("softnet.budget", Layer::Softnet, found)
        .wanted(format!("less than one stop in {PACKETS_PER_STOP} packets"))
        .why(
            "A CPU that has to stop leaves packets in the card's ring until its next turn. That \
             is no loss yet; when the ring fills up meanwhile, it is.",
        );
    if stops.saturating_mul(PACKETS_PER_STOP) <= processed {
        return vec![finding];
    }
    let short = |key, now: Option<u64>, want| (now? < want).then_some((key, want));
    let settings: Vec<(&'static str, u64)> = [
        short("net.core.netdev_budget", budget, BUDGET),
        short("net.core.netdev_budget_usecs", budget_us, BUDGET_US),
    ]
    .into_iter()
    .flatten()
    .collect();
    vec![if settings.is_empty() {
        finding.bad(Severity::Warn, "grep -E 'CPU|eth|virtio' /proc/interrupts")
    } else {
        finding.raise(Severity::Warn, &settings)
    }]
}
