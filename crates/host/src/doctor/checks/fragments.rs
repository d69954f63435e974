//! Datagrams of several packets that were not put together again: `ReasmFails` and `ReasmTimeout`
//! of `/proc/net/snmp` and `snmp6` (RFC 4293; kernel: Documentation/networking/ip-sysctl.rst,
//! `ipfrag_high_thresh`).

use crate::doctor::finding::{Finding, Layer, Severity, loss, size};
use crate::doctor::scene::HostFacts;
use crate::text::{named, snmp};

/// Memory for fragments that wait for the others, in bytes: 32 MiB hold some 20,000 datagrams that
/// are not whole, for 30 s. The kernel's default is 4 MiB.
const HIGH_BYTES: u64 = 32 * 1024 * 1024;

/// Fragments of one protocol.
#[derive(Clone, Copy)]
struct Fragments {
    /// Fragments that came.
    wanted: u64,
    /// Times that one was given up: a datagram counts once, and once for each of its fragments for
    /// which there was no memory at all.
    failed: u64,
    /// Of them those whose other fragments did not come in time.
    late: u64,
}

pub(super) fn check(scene: &HostFacts) -> Vec<Finding> {
    let v4 = scene.need("proc/net/snmp").and_then(|text| {
        let value = |column| snmp(&text, "Ip", column);
        Some(Fragments {
            wanted: value("ReasmReqds")?,
            failed: value("ReasmFails")?,
            late: value("ReasmTimeout")?,
        })
    });
    // A kernel without IPv6 has no such file.
    let v6 = scene.text("proc/net/snmp6").and_then(|text| {
        let value = |column| named(&text, &format!("Ip6{column}"));
        Some(Fragments {
            wanted: value("ReasmReqds")?,
            failed: value("ReasmFails")?,
            late: value("ReasmTimeout")?,
        })
    });
    let v4 = v4.map(|all| finding(scene, "ipv4", "net.ipv4.ipfrag_high_thresh", all));
    let v6 = v6.map(|all| finding(scene, "ipv6", "net.ipv6.ip6frag_high_thresh", all));
    v4.into_iter().chain(v6).collect()
}

fn finding(scene: &HostFacts, protocol: &str, key: &'static str, all: Fragments) -> Finding {
    let high_bytes = scene.sysctl(key);
    let Fragments {
        wanted,
        failed,
        late,
    } = all;
    let found = format!(
        "given up {failed} times, {late} of them because a fragment did not come in time, of \
         {wanted} fragments; {key} {}",
        high_bytes.map_or("unknown".to_owned(), size),
    );
    let finding = Finding::new(format!("kernel.fragments:{protocol}"), Layer::Ip, found)
        .wanted("none given up")
        .lost(Some(failed));
    // Where memory was short, datagrams were given up before their time was over.
    let memory = failed > late;
    let finding = finding.why(if failed == 0 || memory {
        "A message larger than the MTU travels in fragments, and the kernel puts them together in \
         a memory of this size. When that is full, whole messages are lost without a trace \
         elsewhere."
    } else {
        "A message larger than the MTU travels in fragments; one that is lost on the way takes the \
         whole message with it. The way here drops packets or fragments: look at the MTU of the \
         senders, at firewalls between, or have the senders use TCP."
    });
    let severity = loss(failed, wanted);
    match high_bytes {
        _ if severity == Severity::Ok => finding,
        Some(high) if memory && high < HIGH_BYTES => finding.raise(severity, &[(key, HIGH_BYTES)]),
        _ => finding.bad(severity, "nstat -az | grep Reasm"),
    }
}
