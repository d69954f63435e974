//! Offloads by which a card and its driver put packets together before the stack sees them (kernel:
//! Documentation/networking/segmentation-offloads.rst; ethtool-netlink.rst, `FEATURES_GET`).

use crate::doctor::finding::{Finding, Layer, Severity};
use crate::doctor::scene::HostFacts;

/// Offloads that should be on, with the short names of ethtool(8).
const WANTED: [(&str, &str); 2] = [("rx-gro", "gro"), ("rx-checksum", "rx")];

/// One that must not be on where packets are forwarded: it loses what it puts together.
const LRO: (&str, &str) = ("rx-lro", "lro");

pub(super) fn check(scene: &HostFacts) -> Vec<Finding> {
    let forwards = scene.text("proc/sys/net/ipv4/ip_forward");
    let forwards = forwards.is_some_and(|text| text.trim() == "1");
    let one = |name: &String| finding(scene, name, forwards);
    scene.interfaces().iter().filter_map(one).collect()
}

fn finding(scene: &HostFacts, name: &str, forwards: bool) -> Option<Finding> {
    let card = scene.card(name)?;
    let active = card.active.as_ref()?;
    let is_on = |feature: &str| active.iter().any(|name| name == feature);
    let can = |feature: &str| card.switchable.iter().any(|name| name == feature);
    let words = |(feature, short): (&str, &str)| {
        format!("{short} {}", if is_on(feature) { "on" } else { "off" })
    };
    let all = [WANTED[0], WANTED[1], LRO].map(words).join(", ");
    let finding = Finding::new(
        format!("nic.offloads:{name}"),
        Layer::Nic,
        format!("{name}: {all}"),
    )
    .wanted("gro and rx on; lro off where this host forwards packets")
    .why(
        "Packets that are put together go up the stack as one. Without that the same load takes \
         several times the CPU time there.",
    );
    let missing = WANTED
        .iter()
        .filter(|(feature, _)| !is_on(feature) && can(feature));
    let mut changes: Vec<String> = missing.map(|(_, short)| format!("{short} on")).collect();
    if forwards && is_on(LRO.0) {
        changes.push("lro off".to_owned());
    }
    Some(if changes.is_empty() {
        finding
    } else {
        finding.bad(
            Severity::Info,
            format!("ethtool -K {name} {}", changes.join(" ")),
        )
    })
}
