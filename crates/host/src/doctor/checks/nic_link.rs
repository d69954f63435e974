//! Each network card: driver, speed, size of packets, queues, and the NUMA node that it hangs on.
//! What has no file, such as its rings, is looked at in `nic_rings` and those beside it.

use crate::doctor::finding::{Finding, Layer, Severity};
use crate::doctor::scene::HostFacts;

/// Mb/s below which a card has most likely agreed on less than it can.
const SPEED_MIN: u64 = 1000;

pub(super) fn check(scene: &HostFacts) -> Vec<Finding> {
    let interfaces = scene.interfaces();
    let up = |name: &&String| !scene.is_down(name);
    interfaces
        .iter()
        .filter(up)
        .flat_map(|name| [Some(link(scene, name)), node(scene, name)])
        .flatten()
        .collect()
}

fn link(scene: &HostFacts, name: &str) -> Finding {
    let folder = scene.interface_folder(name);
    let driver = folder
        .as_ref()
        .and_then(|f| scene.link_name(format!("{f}/device/driver")));
    let hardware = driver.is_some();
    // A virtual card has none, and a file that says -1 or cannot be read.
    let speed = scene.of_interface(name, "speed");
    let queues = folder.map(|folder| scene.names(format!("{folder}/queues")));
    let queues = queues.unwrap_or_default();
    let queues = queues.iter().filter(|queue| queue.starts_with("rx-"));
    let found = format!(
        "{name}: driver {}, speed {}, MTU {}, {} receive queues",
        driver.as_deref().unwrap_or("none (virtual)"),
        speed.map_or("unknown".to_owned(), |speed| format!("{speed} Mb/s")),
        scene
            .of_interface(name, "mtu")
            .map_or("unknown".to_owned(), |mtu| mtu.to_string()),
        queues.count(),
    );
    let finding = Finding::new(format!("nic.link:{name}"), Layer::Nic, found)
        .wanted(format!("at least {SPEED_MIN} Mb/s"))
        .why(
            "A card that agreed on less than it can (a bad cable, a switch port set by hand) \
             fills up long before this host does; what is over is lost at the switch, unseen.",
        );
    match speed {
        Some(speed) if hardware && speed < SPEED_MIN => {
            finding.bad(Severity::Warn, format!("ethtool {name}"))
        }
        _ => finding,
    }
}

/// Nothing where all memory is equally near.
fn node(scene: &HostFacts, name: &str) -> Option<Finding> {
    let is_node = |name: &&String| {
        let number = name.strip_prefix("node");
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let nodes = scene.names("sys/devices/system/node");
    let nodes = nodes.iter().filter(is_node).count();
    let node = scene.of_interface(name, "device/numa_node")?;
    if nodes < 2 {
        return None;
    }
    let list = scene.text(format!("sys/devices/system/node/node{node}/cpulist"))?;
    let list = list.trim();
    let found = format!("{name} is on NUMA node {node} of {nodes}, CPUs {list}");
    let finding = Finding::new(format!("nic.numa_node:{name}"), Layer::Nic, found)
        .wanted("the process on the CPUs of the card's node, if they are enough")
        .why(
            "A packet that is read on the other node crosses the link between the sockets, which \
             costs CPU time and loses nothing.",
        );
    Some(finding.bad(
        Severity::Info,
        format!("systemctl set-property inrush.service AllowedCPUs={list}"),
    ))
}
