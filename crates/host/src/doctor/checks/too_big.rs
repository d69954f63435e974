//! Packets that were larger than the MTU of the way on and must not be cut: `FragFails` of
//! `/proc/net/snmp`, and `InTooBigErrors` of `snmp6` (RFC 4293, RFC 1191, RFC 8201).

use crate::doctor::finding::{Finding, Layer, Severity, loss, total};
use crate::doctor::scene::HostFacts;
use crate::text::{named, snmp};

pub(super) fn check(scene: &HostFacts) -> Vec<Finding> {
    // It also counts packets of which a queueing discipline dropped a fragment, as often as that
    // one does at most; they are told of as `kernel.qdisc`.
    let queues = scene.told.queues.as_deref().unwrap_or_default();
    let queued = total(queues.iter().map(|queue| queue.dropped));
    let v4 = scene.need("proc/net/snmp").and_then(|text| {
        let value = |column| snmp(&text, "Ip", column);
        let passed = value("OutRequests")?.saturating_add(value("ForwDatagrams")?);
        let failed = value("FragFails")?.saturating_sub(queued);
        Some(finding(scene, "ipv4", failed, passed))
    });
    // A kernel without IPv6 has no such file. A router never cuts packets there.
    let v6 = scene.text("proc/net/snmp6").and_then(|text| {
        let value = |column| named(&text, &format!("Ip6{column}"));
        let passed = value("OutRequests")?.saturating_add(value("OutForwDatagrams")?);
        Some(finding(scene, "ipv6", value("InTooBigErrors")?, passed))
    });
    v4.into_iter().chain(v6).collect()
}

fn finding(scene: &HostFacts, protocol: &str, failed: u64, passed: u64) -> Finding {
    let mut mtus: Vec<(u64, String)> = scene
        .interfaces()
        .into_iter()
        .filter_map(|name| Some((scene.of_interface(&name, "mtu")?, name)))
        .collect();
    mtus.sort_unstable();
    let words: Vec<String> = mtus
        .iter()
        .map(|(mtu, name)| format!("{name} {mtu}"))
        .collect();
    let found = format!(
        "{failed} packets were larger than the MTU of their way on and must not be cut, of \
         {passed} sent or passed on; MTU of {}",
        words.join(", "),
    );
    let finding = Finding::new(format!("kernel.too_big:{protocol}"), Layer::Ip, found)
        .wanted("none; the same MTU all along the way")
        .why(
            "The sender is told and sends smaller ones, if a firewall lets the ICMP message \
             through; if not, its large messages are lost each time, and small ones arrive.",
        )
        .lost(Some(failed));
    let severity = match loss(failed, passed) {
        Severity::Critical => Severity::Warn,
        severity => severity,
    };
    match (mtus.first(), mtus.last()) {
        _ if severity == Severity::Ok => finding,
        (Some((small, name)), Some((large, _))) if small < large => {
            finding.bad(severity, format!("ip link set dev {name} mtu {large}"))
        }
        _ => finding.bad(severity, "nstat -az | grep -E 'FragFails|TooBig'"),
    }
}
