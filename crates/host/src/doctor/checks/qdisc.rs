//! Packets that were dropped while they waited to leave an interface, or when they came in: the
//! queueing disciplines (tc(8)).

use crate::doctor::finding::{Finding, Layer, Severity, loss, total};
use crate::doctor::queues::QueueingDiscipline;
use crate::doctor::scene::HostFacts;
use crate::files::INTERFACES_MAX;

/// Disciplines that let only so many bytes a second pass.
const LIMITS_RATE: [&str; 5] = ["tbf", "htb", "hfsc", "cake", "netem"];

/// Packets that a queue should hold.
const LENGTH: u32 = 10_000;

pub(super) fn check(scene: &HostFacts) -> Vec<Finding> {
    let queues = match &scene.told.queues {
        Ok(queues) => queues,
        Err(error) => {
            scene.hidden(format!("queueing disciplines ({error})"));
            return Vec::new();
        }
    };
    let lossy = queues.iter().filter(|queue| queue.dropped > 0);
    let findings: Vec<Finding> = lossy
        .take(INTERFACES_MAX)
        .map(|queue| finding(queue, &scene.interface_name(queue.interface)))
        .collect();
    if !findings.is_empty() {
        return findings;
    }
    let packets = total(queues.iter().map(|queue| queue.packets));
    let found = format!(
        "{} queues, {packets} packets passed, none dropped",
        queues.len()
    );
    let fine = Finding::new("kernel.qdisc", Layer::Qdisc, found).wanted("no loss");
    vec![fine.why(WHY).lost(Some(0))]
}

const WHY: &str = "Packets wait here before they leave. What is dropped of ours on its way to a \
    destination TCP sends again, later; UDP is gone. A queue of another host or container, or of a \
    bridge, may be one that events pass on their way to us.";

fn finding(queue: &QueueingDiscipline, name: &str) -> Finding {
    let QueueingDiscipline {
        kind,
        packets,
        dropped,
        ..
    } = queue;
    let found = format!("{name}: {kind} dropped {dropped}, {packets} packets passed");
    let id = format!("kernel.qdisc:{name}");
    let finding = Finding::new(id, Layer::Qdisc, found)
        .wanted("nothing dropped")
        .lost(Some(*dropped));
    let severity = match loss(*dropped, *packets) {
        Severity::Critical if !comes_in(kind) => Severity::Warn,
        severity => severity,
    };
    if comes_in(kind) {
        let why = "A filter or a policer drops packets as they come in, before any socket sees \
            them: a firewall, a rate limit, or somebody's BPF program.";
        let command = format!("tc -s filter show dev {name} ingress");
        return finding.why(why).bad(severity, command);
    }
    let command = remedy(kind, name);
    finding.why(WHY).bad(severity, command)
}

/// The command that takes away what dropped.
fn remedy(kind: &str, name: &str) -> String {
    if LIMITS_RATE.contains(&kind) {
        // Nobody has one by chance: somebody wanted the rate to be bounded.
        return format!("tc qdisc del dev {name} root    # takes away the bound of the rate");
    }
    match kind {
        "pfifo_fast" => format!("ip link set dev {name} txqueuelen {LENGTH}"),
        // Their length was fixed when they were made.
        "pfifo" | "bfifo" => format!("tc qdisc replace dev {name} root pfifo limit {LENGTH}"),
        _ => format!("tc -s -d qdisc show dev {name}"),
    }
}

/// True if the discipline is for packets that come in.
fn comes_in(kind: &str) -> bool {
    matches!(kind, "ingress" | "clsact")
}
