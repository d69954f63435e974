//! The kernel's own bound for all UDP sockets together, in pages: `net.ipv4.udp_mem`, and
//! `MemErrors` of `/proc/net/snmp` (kernel: Documentation/networking/ip-sysctl.rst).

use crate::doctor::finding::{Finding, Layer, Severity, size};
use crate::doctor::scene::HostFacts;
use crate::text::snmp;

pub(super) fn check(scene: &HostFacts) -> Vec<Finding> {
    let asked = scene.ask.receive_bytes();
    let text = scene.need("proc/sys/net/ipv4/udp_mem");
    let last = text
        .as_deref()
        .and_then(|text| text.split_ascii_whitespace().next_back());
    let Some(pages) = last.and_then(|pages| pages.parse::<u64>().ok()) else {
        return Vec::new();
    };
    let lost = scene.need("proc/net/snmp");
    // Kernels before 5.10 do not count it.
    let lost = lost.and_then(|text| snmp(&text, "Udp", "MemErrors"));
    let bound = pages.saturating_mul(scene.page_bytes);
    let found = format!(
        "net.ipv4.udp_mem allows {}, our receive buffers take up to {}; MemErrors {}",
        size(bound),
        size(asked),
        lost.map_or("not counted".to_owned(), |lost| lost.to_string()),
    );
    let finding = Finding::new("socket.udp_memory", Layer::Socket, found)
        .wanted("room for our receive buffers when all are full")
        .why(
            "When all UDP sockets of the host together reach this bound, the kernel drops \
             datagrams although our buffers have room.",
        )
        .lost(lost);
    let want = asked.div_ceil(scene.page_bytes.max(1));
    let command = format!(
        "sysctl -w net.ipv4.udp_mem='{} {} {want}'",
        want / 2,
        want / 4 * 3
    );
    vec![match lost {
        Some(lost) if lost > 0 && bound < asked => finding.bad(Severity::Critical, command),
        Some(lost) if lost > 0 => finding.bad(Severity::Warn, "nstat -az UdpMemErrors"),
        _ if bound < asked => finding.bad(Severity::Info, command),
        _ => finding,
    }]
}
