//! Datagrams that UDP lost on the whole host, whoever they were meant for: `Udp:` of
//! `/proc/net/snmp`, and `snmp6` (RFC 4113; kernel: Documentation/networking/snmp_counter.rst).

use super::udp_sockets::{of_port, table};
use crate::doctor::finding::{Finding, Layer, Severity, loss, total};
use crate::doctor::scene::HostFacts;
use crate::text::{named, snmp};

pub(super) fn check(scene: &HostFacts) -> Vec<Finding> {
    let Some(v4) = scene.need("proc/net/snmp") else {
        return Vec::new();
    };
    let v6 = scene.text("proc/net/snmp6").unwrap_or_default();
    let sum = |column: &str| {
        let v6 = named(&v6, &format!("Udp6{column}")).unwrap_or(0);
        Some(snmp(&v4, "Udp", column)?.saturating_add(v6))
    };
    let Some(received) = sum("InDatagrams") else {
        return Vec::new();
    };
    let full = sum("RcvbufErrors").map(|count| others_full(scene, count, received));
    let damaged = sum("InCsumErrors").map(|count| damaged(count, received));
    full.into_iter().chain(damaged).collect()
}

fn others_full(scene: &HostFacts, count: u64, received: u64) -> Finding {
    let table = table(scene).unwrap_or_default();
    let ports = scene.ask.udp.iter().filter(|udp| udp.port != 0);
    let mut ports: Vec<u16> = ports.map(|udp| udp.port).collect();
    ports.sort_unstable();
    ports.dedup();
    let ours = total(ports.iter().map(|port| of_port(&table, *port).dropped));
    let others = count.saturating_sub(ours);
    let found = format!(
        "RcvbufErrors {count} since the host started, {ours} of them at sockets of ours that are \
         open now"
    );
    let finding = Finding::new("socket.others_full", Layer::Socket, found)
        .wanted("none beside those of our own sockets, which are told of by themselves")
        .why(
            "Full receive buffers of other processes, or of an inrush that ran before. If it does \
             not grow, it is the past.",
        )
        .lost(Some(others));
    match loss(others, received) {
        Severity::Ok => finding,
        _ => finding.bad(Severity::Warn, "nstat -az UdpRcvbufErrors Udp6RcvbufErrors"),
    }
}

fn damaged(count: u64, received: u64) -> Finding {
    let found = format!("InCsumErrors {count}, of {received} datagrams received");
    let finding = Finding::new("socket.checksums", Layer::Socket, found)
        .wanted("none")
        .why(
            "Datagrams whose checksum is wrong: damaged on the way, or sent by a virtual machine \
             or a card that leaves the checksum to hardware that does not do it.",
        )
        .lost(Some(count));
    match loss(count, received) {
        Severity::Ok => finding,
        severity => finding.bad(severity, "nstat -az UdpInCsumErrors Udp6InCsumErrors"),
    }
}
