//! Files and answers that the other checks needed and could not read: in one finding, for in a
//! container it is a lot.

use crate::doctor::finding::{Finding, Layer, Severity};
use crate::doctor::scene::HostFacts;

pub(super) fn check(scene: &HostFacts) -> Vec<Finding> {
    let unread = scene.unread();
    if unread.is_empty() {
        return Vec::new();
    }
    // What is not seen of the network may hide a loss; the rest hides a setting.
    let network = |what: &String| what.contains("/net");
    let severity = match unread.iter().any(network) {
        true => Severity::Warn,
        false => Severity::Info,
    };
    let finding = Finding::new("host.unread", Layer::Kernel, unread.join(", "))
        .wanted("everything can be read")
        .why(
            "What cannot be read is not judged: a container hides it, or this kernel has none. \
             Run the doctor on the host itself, or in a container with the host's network.",
        );
    vec![finding.bad(
        severity,
        "ls -ld /proc/net /proc/sys/net/core /sys/class/net",
    )]
}
