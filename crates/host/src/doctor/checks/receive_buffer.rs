//! Bound of the receive buffer that UDP sockets ask for: `net.core.rmem_max`, past which only
//! `CAP_NET_ADMIN` goes (socket(7), `SO_RCVBUFFORCE`).

use crate::doctor::finding::{Finding, Layer, Severity, size};
use crate::doctor::scene::HostFacts;

/// The bit of `CAP_NET_ADMIN` in `CapEff` of `/proc/PID/status` (linux/capability.h).
const CAP_NET_ADMIN: u32 = 12;

pub(super) fn check(scene: &HostFacts) -> Vec<Finding> {
    let sources = scene.ask.udp.iter();
    let Some(largest) = sources.max_by_key(|udp| udp.receive_buffer_bytes) else {
        return Vec::new();
    };
    let Some(max) = scene.sysctl("net.core.rmem_max") else {
        return Vec::new();
    };
    let default = scene.sysctl("net.core.rmem_default");
    let wanted = largest.receive_buffer_bytes;
    let privileged = privileged(scene);
    let found = format!(
        "net.core.rmem_max {max} ({}), rmem_default {}; {} {} CAP_NET_ADMIN",
        size(max),
        default.map_or("unknown".to_owned(), size),
        scene.whose(),
        if privileged { "has" } else { "has no" },
    );
    let finding = Finding::new("socket.receive_buffer", Layer::Socket, found)
        .wanted(format!(
            "net.core.rmem_max of {wanted} ({}), what `udp.receive_buffer` of source {} asks for, \
             or CAP_NET_ADMIN; rmem_default does not matter",
            size(wanted),
            largest.source,
        ))
        .why(
            "The buffer is what bridges a pause of the process. The default holds a few \
             milliseconds of a busy firewall; what comes beyond is lost. Restart inrush \
             afterwards: a socket keeps the buffer that it was opened with.",
        );
    let severity = match (scene.process, privileged) {
        _ if max >= wanted => return vec![finding],
        (Some(_), true) => return vec![finding],
        // We have it; whether the service will, nobody knows.
        (None, true) => Severity::Info,
        (_, false) => Severity::Warn,
    };
    vec![finding.raise(severity, &[("net.core.rmem_max", wanted)])]
}

fn privileged(scene: &HostFacts) -> bool {
    let status = scene.of_process("status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    bits.is_some_and(|bits| bits & (1 << CAP_NET_ADMIN) != 0)
}
