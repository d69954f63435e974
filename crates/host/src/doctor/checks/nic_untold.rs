//! Settings that the drivers of cards do not tell: in one line, for a virtual card has none of
//! them.

use crate::doctor::ethtool::NicSettings;
use crate::doctor::finding::{Finding, Layer};
use crate::doctor::scene::HostFacts;

pub(super) fn check(scene: &HostFacts) -> Vec<Finding> {
    if let Err(error) = &scene.told.cards {
        scene.hidden(format!("rings and offloads of /sys/class/net ({error})"));
        return Vec::new();
    }
    let nothing = NicSettings::default();
    let interfaces = scene.interfaces();
    let silent: Vec<String> = interfaces
        .iter()
        .filter_map(|name| {
            let untold = untold(scene.card(name).unwrap_or(&nothing));
            (!untold.is_empty()).then(|| format!("{name}: {}", untold.join(", ")))
        })
        .collect();
    if silent.is_empty() {
        return Vec::new();
    }
    let found = format!("not told by the driver of {}", silent.join("; of "));
    let finding = Finding::new("nic.untold", Layer::Nic, found)
        .wanted("nothing: what a card does not have cannot be set")
        .why("A virtual card has no ring or cable of its own; its host's card has.");
    vec![finding]
}

fn untold(card: &NicSettings) -> Vec<&'static str> {
    let parts = [
        ("rings", card.rx_ring.is_none()),
        ("queues", card.queues.is_none()),
        ("coalescing", card.coalescing.is_none()),
        ("offloads", card.active.is_none()),
        ("pause frames", card.pause.is_none()),
    ];
    let missing = parts.into_iter().filter(|(_, missing)| *missing);
    missing.map(|(name, _)| name).collect()
}
