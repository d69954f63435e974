//! Spread of a network card's interrupts over the CPUs, of which one may take all:
//! `/proc/interrupts`, `/proc/irq/*/smp_affinity_list` and `/sys/class/net/*/queues/rx-*/rps_cpus`
//! (kernel: Documentation/core-api/irq/irq-affinity.rst, Documentation/networking/scaling.rst).

use std::collections::BTreeSet;

use crate::doctor::finding::{Finding, Layer, Severity, total};
use crate::doctor::scene::HostFacts;

/// Interrupts below which nothing is said of how they are spread.
const INTERRUPTS_MIN: u64 = 10_000;

/// Percent of a card's interrupts on one CPU from which it counts as the only one.
const ONE_CPU_PERCENT: u64 = 80;

/// Interrupts of which the allowed CPUs are told.
const SHOWN_MAX: usize = 4;

pub(super) fn check(scene: &HostFacts) -> Vec<Finding> {
    let cpus = scene.cpus();
    let interrupts = scene.need("proc/interrupts");
    let (Some(interrupts), true) = (interrupts, cpus > 1) else {
        return Vec::new();
    };
    let interfaces = scene.interfaces();
    let balanced = scene.runs("irqbalance");
    let of = |name: &String| {
        let interrupts = of_interface(scene, name, &interrupts)?;
        finding(scene, name, cpus, balanced, &interrupts)
    };
    interfaces.iter().filter_map(of).collect()
}

/// The interrupts of one card.
struct Interrupts {
    numbers: Vec<u32>,
    /// Interrupts that each CPU took, in the order of the columns.
    counts: Vec<u64>,
}

/// `None` for a card that has none, as virtual ones: one in a container may be called as the
/// host's card, whose interrupts everybody sees.
fn of_interface(scene: &HostFacts, name: &str, text: &str) -> Option<Interrupts> {
    let card = scene.interface_folder(name)?;
    if scene.names(format!("{card}/device")).is_empty() {
        return None;
    }
    // The card's own; under virtio and the like they are its parent's.
    let folders = ["device/msi_irqs", "device/../msi_irqs"];
    let names = folders.map(|folder| scene.names(format!("{card}/{folder}")));
    let own: BTreeSet<u32> = names.iter().flatten().flat_map(|n| n.parse()).collect();
    let mut lines = text.lines();
    let columns = lines.next()?.split_ascii_whitespace().count();
    let mut all = Interrupts {
        numbers: Vec::new(),
        counts: vec![0; columns],
    };
    for line in lines {
        let Some((number, rest)) = line.split_once(':') else {
            continue;
        };
        let Ok(number) = number.trim().parse::<u32>() else {
            continue;
        };
        let label = rest.split_ascii_whitespace().next_back().unwrap_or("");
        let is_ours = own.contains(&number) || is_of(label, name);
        if !is_ours || !receives(label) {
            continue;
        }
        all.numbers.push(number);
        for (sum, count) in all.counts.iter_mut().zip(rest.split_ascii_whitespace()) {
            *sum = sum.saturating_add(count.parse::<u64>().unwrap_or(0));
        }
    }
    (!all.numbers.is_empty()).then_some(all)
}

/// True if an interrupt named like `eth0` or `eth0-TxRx-3` is of this interface.
fn is_of(label: &str, interface: &str) -> bool {
    let rest = label.strip_prefix(interface);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// True if it may be for packets that come in: drivers name those that are for others.
fn receives(label: &str) -> bool {
    let label = label.to_ascii_lowercase();
    let sends = label.contains("output") || label.contains("tx") && !label.contains("txrx");
    !sends && !label.ends_with("config")
}

fn finding(
    scene: &HostFacts,
    name: &str,
    cpus: usize,
    balanced: bool,
    interrupts: &Interrupts,
) -> Option<Finding> {
    let counts = interrupts.counts.iter().enumerate();
    let (busiest, most) = counts.max_by_key(|(cpu, count)| (**count, usize::MAX - cpu))?;
    let total = total(interrupts.counts.iter().copied());
    let percent = most.saturating_mul(100).checked_div(total).unwrap_or(0);
    let found = format!(
        "{name}: {total} interrupts on {} lines, {percent} % of them on CPU {busiest}; \
         allowed: {}; irqbalance {}",
        interrupts.numbers.len(),
        allowed(scene, &interrupts.numbers),
        if balanced { "runs" } else { "is not seen here" },
    );
    let finding = Finding::new(format!("nic.interrupts:{name}"), Layer::Nic, found)
        .wanted("the card's interrupts on several CPUs")
        .why(
            "The CPU that takes the interrupts also carries the packets up to the sockets. When \
             it is the only one it is full first, and the card drops what it does not fetch.",
        );
    if total < INTERRUPTS_MIN || percent < ONE_CPU_PERCENT {
        return Some(finding);
    }
    let queues = scene.names(format!("sys/class/net/{name}/queues"));
    let single = queues.iter().filter(|q| q.starts_with("rx-")).count() <= 1;
    Some(if single && spread_by_kernel(scene, name) {
        finding
    } else if single {
        let file = format!("/sys/class/net/{name}/queues/rx-0/rps_cpus");
        finding.bad(Severity::Info, format!("echo {} > {file}", cpu_mask(cpus)))
    } else if balanced {
        finding.bad(Severity::Warn, format!("grep {name} /proc/interrupts"))
    } else {
        finding.bad(Severity::Warn, "systemctl enable --now irqbalance")
    })
}

/// True if packets of the only queue are spread over CPUs in software (RPS).
fn spread_by_kernel(scene: &HostFacts, name: &str) -> bool {
    let mask = scene.text(format!("sys/class/net/{name}/queues/rx-0/rps_cpus"));
    mask.is_some_and(|mask| {
        mask.bytes()
            .any(|byte| matches!(byte, b'1'..=b'9' | b'a'..=b'f'))
    })
}

fn allowed(scene: &HostFacts, numbers: &[u32]) -> String {
    let one = |number: &u32| {
        let list = scene.text(format!("proc/irq/{number}/smp_affinity_list"))?;
        Some(format!("{number} on CPUs {}", list.trim()))
    };
    let shown: Vec<String> = numbers.iter().take(SHOWN_MAX).filter_map(one).collect();
    match (shown.is_empty(), numbers.len().saturating_sub(SHOWN_MAX)) {
        (true, _) => "unknown".to_owned(),
        (false, 0) => shown.join(", "),
        (false, more) => format!("{} and {more} more", shown.join(", ")),
    }
}

/// The first `cpus` CPUs as the kernel reads them: hexadecimal, with a comma every 32.
fn cpu_mask(cpus: usize) -> String {
    let full = cpus / 32;
    let rest = cpus % 32;
    let mut words = Vec::with_capacity(full + 1);
    if rest > 0 {
        words.push(format!("{:x}", (1_u64 << rest) - 1));
    }
    words.extend(std::iter::repeat_n("ffffffff".to_owned(), full));
    words.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_as_the_kernel_reads_them() {
        assert_eq!(cpu_mask(1), "1");
        assert_eq!(cpu_mask(6), "3f");
        assert_eq!(cpu_mask(32), "ffffffff");
        assert_eq!(cpu_mask(36), "f,ffffffff");
        assert_eq!(cpu_mask(128), "ffffffff,ffffffff,ffffffff,ffffffff");
    }

    #[test]
    fn an_interrupt_is_found_by_the_name_of_its_card() {
        assert!(is_of("eth0", "eth0") && is_of("eth0-TxRx-3", "eth0"));
        assert!(!is_of("eth01", "eth0") && !is_of("veth0", "eth0"));
        assert!(
            ["eth0-TxRx-3", "virtio2-input.0", "eth0-rx-1"]
                .iter()
                .all(|l| receives(l))
        );
        let others = ["virtio2-output.0", "virtio2-config", "eth0-tx-1"];
        assert!(!others.iter().any(|label| receives(label)));
    }
}
