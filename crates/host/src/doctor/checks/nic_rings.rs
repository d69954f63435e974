//! Size of a card's ring for packets that came in, against the largest that it can have (kernel:
//! Documentation/networking/ethtool-netlink.rst, `RINGS_GET`).

use crate::doctor::finding::{Finding, Layer, Severity};
use crate::doctor::scene::HostFacts;

pub(super) fn check(scene: &HostFacts) -> Vec<Finding> {
    let ring = |name: &String| {
        let ring = scene.card(name)?.rx_ring?;
        let found = format!(
            "{name}: the ring holds {} packets of {}",
            ring.now, ring.max
        );
        let finding = Finding::new(format!("nic.rings:{name}"), Layer::Nic, found)
            .wanted(format!("{}, as many as it can", ring.max))
            .why(
                "Packets wait here while the CPU is busy. A small ring is full after a \
                 millisecond of a burst, and the card drops what comes then.",
            );
        Some(if ring.now < ring.max {
            finding.bad(Severity::Info, format!("ethtool -G {name} rx {}", ring.max))
        } else {
            finding
        })
    };
    scene.interfaces().iter().filter_map(ring).collect()
}
