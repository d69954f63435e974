//! Time for which a card gathers packets before it interrupts a CPU (kernel:
//! Documentation/networking/ethtool-netlink.rst, `COALESCE_GET`).

use crate::doctor::ethtool::Coalescing;
use crate::doctor::finding::{Finding, Layer, Severity};
use crate::doctor::scene::HostFacts;

/// Microseconds from which a ring of 512 packets is full before the interrupt, at the million
/// packets a second that a busy host takes.
const LONG_US: u64 = 500;

/// Microseconds that the remedy sets: 20,000 interrupts a second at most.
const GOOD_US: u64 = 50;

/// A driver of virtual machines: an interrupt for each packet is most often all that its host
/// offers, and what it costs the host decides.
const VIRTUAL: &str = "virtio_net";

pub(super) fn check(scene: &HostFacts) -> Vec<Finding> {
    let coalescing = |name: &String| {
        let now = scene.card(name)?.coalescing?;
        let folder = scene.interface_folder(name)?;
        let driver = scene.link_name(format!("{folder}/device/driver"));
        Some(finding(name, now, driver.as_deref() == Some(VIRTUAL)))
    };
    scene.interfaces().iter().filter_map(coalescing).collect()
}

fn finding(name: &str, now: Coalescing, is_virtual: bool) -> Finding {
    let Coalescing {
        rx_us,
        rx_frames,
        adaptive,
    } = now;
    let found = format!(
        "{name}: an interrupt after {rx_us} µs or {rx_frames} packets, adaptive {}",
        if adaptive { "on" } else { "off" },
    );
    let finding = Finding::new(format!("nic.coalescing:{name}"), Layer::Nic, found)
        .wanted(format!("adaptive, or some {GOOD_US} µs"))
        .why(
            "An interrupt for each packet takes CPU time from reading them; one that waits too \
             long finds the ring full.",
        );
    let each_packet = !is_virtual && rx_us == 0 && rx_frames <= 1;
    if adaptive || !each_packet && rx_us < LONG_US {
        return finding;
    }
    let command = format!("ethtool -C {name} rx-usecs {GOOD_US}");
    finding.bad(Severity::Info, command)
}
