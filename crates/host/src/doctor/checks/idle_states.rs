//! Deepest idle state of the CPUs: `/sys/devices/system/cpu/cpu0/cpuidle` (kernel:
//! Documentation/admin-guide/pm/cpuidle.rst). A virtual machine shows none.

use crate::doctor::finding::{Finding, Layer, Severity};
use crate::doctor::scene::HostFacts;
use crate::text::number;

/// Microseconds to wake up that are too many: in 100 µs a card at 10 Gb/s receives more packets
/// of 64 bytes than fit into half of a ring of 256.
const WAKE_US_MAX: u64 = 100;

pub(super) fn check(scene: &HostFacts) -> Vec<Finding> {
    // All CPUs have the same ones, but for hosts of two kinds of cores.
    let folder = "sys/devices/system/cpu/cpu0/cpuidle";
    let of = |state: &str, file: &str| scene.text(format!("{folder}/{state}/{file}"));
    let allowed = |state: &String| {
        let disabled = of(state, "disable").and_then(|text| number(&text));
        let latency_us = number(&of(state, "latency")?)?;
        let name = of(state, "name")?.trim().to_owned();
        (disabled.unwrap_or(0) == 0).then_some((latency_us, name))
    };
    let states = scene.names(folder);
    let Some((latency_us, name)) = states.iter().filter_map(allowed).max() else {
        return Vec::new();
    };
    let found = format!("deepest idle state {name}, {latency_us} µs to wake up from");
    let finding = Finding::new("cpu.idle_states", Layer::Cpu, found)
        .wanted(format!("less than {WAKE_US_MAX} µs"))
        .why(
            "The first packets after a pause wait in the card until a CPU is awake. With small \
             rings that loses the beginning of a burst; it costs nothing but power to forbid it.",
        );
    vec![if latency_us < WAKE_US_MAX {
        finding
    } else {
        finding.bad(
            Severity::Info,
            format!("cpupower idle-set -D {WAKE_US_MAX}"),
        )
    }]
}
