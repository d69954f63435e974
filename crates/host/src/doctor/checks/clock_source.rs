//! Clock source that the kernel reads the time from: `/sys/devices/system/clocksource` (kernel:
//! Documentation/timers/timekeeping.rst).

use crate::doctor::finding::{Finding, Layer, Severity};
use crate::doctor::scene::HostFacts;

/// Clocks that are read by a system call into a slow device, microseconds each time.
const SLOW: [&str; 5] = ["hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit"];

const FOLDER: &str = "sys/devices/system/clocksource/clocksource0";

pub(super) fn check(scene: &HostFacts) -> Vec<Finding> {
    let Some(current) = scene.need(&format!("{FOLDER}/current_clocksource")) else {
        return Vec::new();
    };
    let available = scene.text(format!("{FOLDER}/available_clocksource"));
    let available = available.unwrap_or_default();
    let (current, available) = (current.trim(), available.trim());
    let found = format!("{current} (available: {available})");
    let finding = Finding::new("clock.source", Layer::Clock, found)
        .wanted("tsc, kvm-clock or another clock that is read without a system call")
        .why(
            "Every datagram is stamped with the time. A clock that is read from a device makes \
             that a hundred times dearer. If the kernel gave up tsc by itself (`dmesg | grep -i \
             tsc`), mend that first.",
        );
    if !SLOW.contains(&current) {
        return vec![finding];
    }
    let better = available
        .split_ascii_whitespace()
        .find(|name| !SLOW.contains(name));
    vec![match better {
        Some(better) => finding.bad(
            Severity::Warn,
            format!("echo {better} > /{FOLDER}/current_clocksource"),
        ),
        None => finding.bad(Severity::Warn, "dmesg | grep -i -E 'tsc|clocksource'"),
    }]
}
