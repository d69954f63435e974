//! Frequency governor of the CPUs: `scaling_governor` (kernel:
//! Documentation/admin-guide/pm/cpufreq.rst). A virtual machine shows none.

use std::collections::BTreeMap;

use crate::doctor::finding::{Finding, Layer, Severity};
use crate::doctor::scene::HostFacts;
use crate::text::cpu_list;

/// Drivers whose `powersave` follows the load, as other governors do.
const DYNAMIC: [&str; 3] = ["intel_pstate", "amd-pstate-epp", "amd-pstate"];

pub(super) fn check(scene: &HostFacts) -> Vec<Finding> {
    let Some(online) = scene.text("sys/devices/system/cpu/online") else {
        return Vec::new();
    };
    let of = |cpu: usize, file: &str| {
        let text = scene.text(format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/{file}"))?;
        Some(text.trim().to_owned())
    };
    let mut governors: BTreeMap<String, usize> = BTreeMap::new();
    for governor in cpu_list(&online)
        .iter()
        .filter_map(|cpu| of(*cpu, "scaling_governor"))
    {
        *governors.entry(governor).or_default() += 1;
    }
    if governors.is_empty() {
        return Vec::new();
    }
    let driver = of(0, "scaling_driver").unwrap_or_default();
    let words = governors
        .iter()
        .map(|(name, cpus)| format!("{name} on {cpus} CPUs"));
    let words: Vec<String> = words.collect();
    let found = format!("{}, driver {driver}", words.join(", "));
    let finding = Finding::new("cpu.governor", Layer::Cpu, found)
        .wanted("performance")
        .why(
            "A CPU that was slowed down while idle takes milliseconds to come back to speed, and \
             a burst arrives in less. `powersave` of some drivers never comes back at all.",
        );
    let slow = governors.contains_key("powersave") && !DYNAMIC.contains(&driver.as_str());
    let fast = governors.keys().all(|name| name == "performance");
    vec![match (slow, fast) {
        (true, _) => finding.bad(Severity::Warn, COMMAND),
        (false, false) => finding.bad(Severity::Info, COMMAND),
        (false, true) => finding,
    }]
}

const COMMAND: &str = "cpupower frequency-set -g performance";
