//! Packets that each network card or its driver lost: `/sys/class/net/*/statistics`
//! (kernel: Documentation/networking/statistics.rst).

use crate::Cause;
use crate::doctor::finding::{Finding, Layer, Severity, loss, total};
use crate::doctor::scene::HostFacts;
use crate::text::softnet;

/// Counters of lost packets, with the end of the finding's id.
const COUNTERS: [(&str, &str); 5] = [
    ("missed", "rx_missed_errors"),
    ("fifo", "rx_fifo_errors"),
    ("over", "rx_over_errors"),
    ("crc", "rx_crc_errors"),
    ("dropped", "rx_dropped"),
];

pub(super) fn check(scene: &HostFacts) -> Vec<Finding> {
    let interfaces = scene.interfaces();
    let stat = scene.text("proc/net/softnet_stat").unwrap_or_default();
    let backlog = total(softnet(&stat).iter().map(|cpu| cpu.dropped));
    interfaces
        .iter()
        .flat_map(|name| interface(scene, name, backlog))
        .collect()
}

/// `backlog` is what the backlogs dropped, which the kernel counts as `rx_dropped` of the interface
/// as well; it is told of as `softnet.backlog`.
fn interface(scene: &HostFacts, name: &str, backlog: u64) -> Vec<Finding> {
    let counter = |file: &str| {
        let value = scene.of_interface(name, &format!("statistics/{file}"))?;
        Some(match file {
            "rx_dropped" => value.saturating_sub(backlog),
            _ => value,
        })
    };
    let Some(packets) = counter("rx_packets") else {
        return Vec::new();
    };
    let lossy = |&(id, file): &(&str, &str)| {
        let lost = counter(file).filter(|lost| *lost > 0)?;
        Some(finding(scene, name, id, file, (lost, packets)))
    };
    let findings: Vec<Finding> = COUNTERS.iter().filter_map(lossy).collect();
    if !findings.is_empty() {
        return findings;
    }
    let found = format!("{name}: {packets} packets received, none lost");
    let fine = Finding::new(format!("nic.loss:{name}"), Layer::Nic, found);
    let fine = fine
        .wanted("no loss")
        .why("What the card loses, no program on this host ever sees, and no ledger can count.");
    vec![fine.lost(Some(0))]
}

fn finding(
    scene: &HostFacts,
    name: &str,
    id: &str,
    file: &str,
    (lost, packets): (u64, u64),
) -> Finding {
    let found = format!("{name}: {file} {lost}, of {packets} packets received");
    let finding = Finding::new(format!("nic.{id}:{name}"), Layer::Nic, found)
        .wanted("no growth under load")
        .why(why(file))
        .lost(Some(lost));
    let severity = match (file, loss(lost, packets)) {
        // It counts packets of protocols that nobody here speaks, too.
        ("rx_dropped", Severity::Critical) => Severity::Warn,
        ("rx_dropped", _) => Severity::Info,
        (_, severity) => severity,
    };
    let command = match id {
        "crc" => format!("ethtool -S {name} | grep -i -E 'crc|err'"),
        "dropped" => format!("ip -s -s link show dev {name}"),
        _ => larger(scene, name),
    };
    finding.bad(severity, command)
}

/// More room in the card: a larger ring, or more of them where it cannot be larger.
fn larger(scene: &HostFacts, name: &str) -> String {
    let card = scene.card(name);
    let more = card.and_then(|card| Some((card.queues.filter(|q| q.now < q.max)?, card)));
    match (card.and_then(|card| card.rx_ring), more) {
        (None, _) => format!("ethtool -G {name} rx 4096"),
        (Some(ring), _) if ring.now < ring.max => format!("ethtool -G {name} rx {}", ring.max),
        (Some(_), Some((queues, card))) => {
            format!("ethtool -L {name} {} {}", card.kind(), queues.max)
        }
        (Some(_), None) => format!("ethtool -S {name} | grep -i -E 'drop|miss|full'"),
    }
}

fn why(file: &str) -> &'static str {
    let known = Cause::ALL.iter().find(|cause| cause.label() == file);
    known.map_or(
        "The card had more packets than room in its ring. Larger rings help (`ethtool -G DEV rx \
         4096`), and more queues (`ethtool -L`).",
        |cause| cause.hint(),
    )
}
