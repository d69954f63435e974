//! Pause frames by which a card asks the switch to wait when its ring is full (IEEE 802.3x; kernel:
//! Documentation/networking/ethtool-netlink.rst, `PAUSE_GET`).

use crate::doctor::ethtool::Pause;
use crate::doctor::finding::{Finding, Layer, Severity};
use crate::doctor::scene::HostFacts;

pub(super) fn check(scene: &HostFacts) -> Vec<Finding> {
    let pause = |name: &String| Some(finding(name, scene.card(name)?.pause?));
    scene.interfaces().iter().filter_map(pause).collect()
}

fn finding(name: &str, pause: Pause) -> Finding {
    let word = |on: bool| if on { "on" } else { "off" };
    let found = format!(
        "{name}: asks the other end to wait: {}, waits itself: {}; asked {} times",
        word(pause.sends),
        word(pause.obeys),
        pause
            .sent
            .map_or("an unknown number of".to_owned(), |sent| sent.to_string()),
    );
    let finding = Finding::new(format!("nic.pause:{name}"), Layer::Nic, found)
        .wanted("the other end never asked to wait")
        .why(
            "While the card holds the switch up, packets wait there; when the switch is full it \
             drops them, and no counter of this host shows it. It means that this host takes \
             packets off the card too slowly.",
        );
    match pause.sent {
        Some(sent) if sent > 0 => {
            finding.bad(Severity::Warn, format!("ethtool -S {name} | grep -i pause"))
        }
        _ => finding,
    }
}
