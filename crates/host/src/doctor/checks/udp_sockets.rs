//! Datagrams that the kernel dropped at our own sockets: `/proc/net/udp` and `udp6`, the last
//! column (kernel: net/ipv4/udp.c, `udp4_format_sock`).

use crate::doctor::finding::{Finding, Layer, Severity, size};
use crate::doctor::scene::{HostFacts, UdpRequirement};

/// The sockets of one port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Sockets {
    pub(super) count: u64,
    /// Bytes that wait to be read.
    pub(super) waiting_bytes: u64,
    /// Datagrams dropped because the buffer was full, since the socket was opened.
    pub(super) dropped: u64,
}

pub(super) fn check(scene: &HostFacts) -> Vec<Finding> {
    let Some(table) = table(scene) else {
        return Vec::new();
    };
    let mut ports: Vec<u16> = Vec::new();
    let mut findings = Vec::new();
    for udp in scene.ask.udp.iter().filter(|udp| udp.port != 0) {
        if !ports.contains(&udp.port) {
            ports.push(udp.port);
            findings.push(finding(scene, udp, of_port(&table, udp.port)));
        }
    }
    findings
}

/// All UDP sockets; `None` where IPv4's cannot be read.
pub(super) fn table(scene: &HostFacts) -> Option<String> {
    let v4 = scene.need("proc/net/udp")?;
    let v6 = scene.text("proc/net/udp6").unwrap_or_default();
    Some(format!("{v4}\n{v6}"))
}

/// The sockets of a port, whatever their address.
pub(super) fn of_port(table: &str, port: u16) -> Sockets {
    let mut all = Sockets::default();
    for (waiting_bytes, dropped) in table.lines().filter_map(|line| socket(line, port)) {
        all.count += 1;
        all.waiting_bytes = all.waiting_bytes.saturating_add(waiting_bytes);
        all.dropped = all.dropped.saturating_add(dropped);
    }
    all
}

/// Bytes that wait and datagrams dropped, if the line is of a socket on this port.
fn socket(line: &str, port: u16) -> Option<(u64, u64)> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let (_, of) = words.get(1)?.rsplit_once(':')?;
    if u16::from_str_radix(of, 16).ok()? != port {
        return None;
    }
    let (_, waiting) = words.get(4)?.split_once(':')?;
    Some((
        u64::from_str_radix(waiting, 16).ok()?,
        words.get(12)?.parse().ok()?,
    ))
}

fn finding(scene: &HostFacts, udp: &UdpRequirement, sockets: Sockets) -> Finding {
    let port = udp.port;
    let id = format!("socket.drops:{port}");
    if sockets.count == 0 {
        let found = format!("nobody listens at UDP port {port}");
        let finding = Finding::new(id, Layer::Socket, found)
            .wanted(format!("a socket of source {}", udp.source))
            .why("While nothing listens, what senders send there is refused and gone.");
        let severity = match scene.process {
            Some(_) => Severity::Warn,
            None => Severity::Info,
        };
        return finding.bad(severity, format!("ss -lunp 'sport = :{port}'"));
    }
    let found = format!(
        "source {}, UDP port {port}: {} sockets dropped {} datagrams since they were opened; {} \
         wait to be read",
        udp.source,
        sockets.count,
        sockets.dropped,
        size(sockets.waiting_bytes),
    );
    let finding = Finding::new(id, Layer::Socket, found)
        .wanted("nothing dropped")
        .why(
            "The receive buffer was full: it is too small, or the process is held up, by a slow \
             destination or for want of CPU. The ledger counts these as `kernel_dropped`.",
        )
        .lost(Some(sockets.dropped));
    if sockets.dropped == 0 {
        return finding;
    }
    let max = scene.sysctl("net.core.rmem_max");
    if max.is_some_and(|max| max < udp.receive_buffer_bytes) {
        let wanted = udp.receive_buffer_bytes;
        return finding.raise(Severity::Critical, &[("net.core.rmem_max", wanted)]);
    }
    finding.bad(Severity::Critical, "inrush top --once")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_found_by_their_port_and_odd_lines_are_passed_over() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt \
             uid  timeout inode ref pointer drops\n\
             1: 00000000:158A 00000000:0000 07 00000000:00000A00 00:00000000 00000000 0 0 1 2 f 7\n\
             2: 0100007F:158A 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 1 2 f 1\n\
             3: 00000000:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 1 2 f 9\n\
             4: 00000000:158A 00000000:0000 07\n\
             :158A\n";
        let both = Sockets {
            count: 2,
            waiting_bytes: 0xa00,
            dropped: 8,
        };
        assert_eq!(of_port(table, 5514), both);
        assert_eq!(of_port(table, 514), Sockets::default());
    }
}
