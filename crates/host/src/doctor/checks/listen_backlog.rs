//! Connections that wait to be accepted: the queue of each of our listeners in `/proc/net/tcp` and
//! `tcp6` (kernel: net/ipv4/tcp_ipv4.c, `get_tcp4_sock`: `rx_queue` of a listener), and the host's
//! `ListenOverflows` and `ListenDrops` in `/proc/net/netstat`.
//!
//! # Limits
//! The bound of a queue is the smaller of what a listener asks for and `net.core.somaxconn`
//! (listen(2)). A socket of systemd may have a smaller one: `Backlog=` of its unit.

use crate::doctor::finding::{Finding, Layer, Severity};
use crate::doctor::scene::{HostFacts, TcpRequirement};
use crate::text::snmp;

/// State of a socket that listens (kernel: include/net/tcp_states.h, `TCP_LISTEN`).
const LISTENS: &str = "0A";

const SOMAXCONN: &str = "net.core.somaxconn";

const WHY: &str = "Where the queue is full, the kernel drops the connection; the client tries \
    again after a second and more, or gives up.";

pub(super) fn check(scene: &HostFacts) -> Vec<Finding> {
    let tcp = &scene.ask.tcp;
    let Some(most) = tcp.iter().map(|one| one.backlog).max() else {
        return Vec::new();
    };
    let bound = scene.sysctl(SOMAXCONN);
    let mut findings: Vec<Finding> = overflows(scene, bound, most).into_iter().collect();
    let Some(table) = table(scene) else {
        return findings;
    };
    let mut ports: Vec<u16> = Vec::new();
    for one in tcp.iter().filter(|one| one.port != 0) {
        if !ports.contains(&one.port) {
            ports.push(one.port);
            findings.extend(of_listener(scene, one, &table, bound));
        }
    }
    findings
}

/// All TCP sockets; `None` where IPv4's cannot be read.
fn table(scene: &HostFacts) -> Option<String> {
    let v4 = scene.need("proc/net/tcp")?;
    let v6 = scene.text("proc/net/tcp6").unwrap_or_default();
    Some(format!("{v4}\n{v6}"))
}

/// Connections that wait at each listener of a port.
fn waiting(table: &str, port: u16) -> Vec<u64> {
    let listener = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let (_, of) = words.get(1)?.rsplit_once(':')?;
        let ours = u16::from_str_radix(of, 16).ok()? == port && *words.get(3)? == LISTENS;
        let (_, waiting) = words.get(4)?.split_once(':')?;
        ours.then(|| u64::from_str_radix(waiting, 16).ok())?
    };
    table.lines().filter_map(listener).collect()
}

/// The queue of one listener; nothing where it does not run.
fn of_listener(
    scene: &HostFacts,
    tcp: &TcpRequirement,
    table: &str,
    bound: Option<u64>,
) -> Option<Finding> {
    let (port, source) = (tcp.port, &tcp.source);
    let id = format!("tcp.backlog:{port}");
    let Some(waiting) = waiting(table, port).into_iter().max() else {
        scene.process?;
        let found = format!("nobody listens at TCP port {port}");
        let finding = Finding::new(id, Layer::Socket, found)
            .wanted(format!("a socket of source {source}"))
            .why("While nothing listens, clients cannot connect.");
        return Some(finding.bad(Severity::Warn, format!("ss -ltnp 'sport = :{port}'")));
    };
    let most = bound.map_or(tcp.backlog, |bound| bound.min(tcp.backlog));
    let found = format!(
        "source {source}, TCP port {port}: {waiting} of at most {most} connections wait to be \
         accepted"
    );
    let finding = Finding::new(id, Layer::Socket, found)
        .wanted("less than half of the queue")
        .why(WHY);
    let severity = match waiting {
        // The kernel takes one more than the bound (`sk_acceptq_is_full`).
        waiting if waiting >= most => Severity::Critical,
        waiting if waiting >= most / 2 => Severity::Warn,
        _ => return Some(finding),
    };
    Some(finding.bad(severity, "inrush top --once"))
}

/// Connections that found a queue full, since the start of the host.
fn overflows(scene: &HostFacts, bound: Option<u64>, most: u64) -> Option<Finding> {
    let text = scene.need("proc/net/netstat")?;
    let value = |column| snmp(&text, "TcpExt", column);
    let (overflows, drops) = (value("ListenOverflows")?, value("ListenDrops"));
    // Those that found the queue full are among the drops.
    let others = drops.unwrap_or(0).saturating_sub(overflows);
    let bound_words = bound.map_or_else(|| "unknown".to_owned(), |bound| bound.to_string());
    let found = format!(
        "{overflows} connections found the queue of a listener full, and {others} were dropped \
         for other reasons, of any process on this host; {SOMAXCONN} {bound_words}"
    );
    let finding = Finding::new("tcp.listen_overflows", Layer::Socket, found)
        .wanted(format!("none, and {SOMAXCONN} {most} or more"))
        .why(WHY)
        .lost(Some(overflows));
    let is_small = bound.is_some_and(|bound| bound < most);
    Some(match (is_small, overflows) {
        (false, 0) => finding,
        (true, 0) => finding.raise(Severity::Info, &[(SOMAXCONN, most)]),
        (true, _) => finding.raise(Severity::Warn, &[(SOMAXCONN, most)]),
        (false, _) => finding.bad(Severity::Warn, "nstat -az TcpExtListenOverflows; ss -ltn"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_told_from_connections_and_odd_lines_are_passed_over() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr\n\
             0: 0100007F:1F98 00000000:0000 0A 00000000:00000003 00:00000000\n\
             1: 0100007F:1F98 0100007F:9C40 01 00000000:00000999 00:00000000\n\
             2: 00000000000000000000000000000000:1F98 0:0 0A 00000000:00000011 00:0\n\
             3: 0100007F:0016 00000000:0000 0A 00000000:00000080 00:00000000\n\
             4: 0100007F:1F98 00000000:0000 0A\n\
             :1F98 0A\n";
        assert_eq!(waiting(table, 8088), [3, 0x11]);
        assert!(waiting(table, 8089).is_empty());
    }
}
