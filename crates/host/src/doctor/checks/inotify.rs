//! Watches and instances of inotify that file sources need (inotify(7),
//! `/proc/sys/fs/inotify/`): both have a limit for each user, which other programs use too.

use crate::doctor::finding::{Finding, Layer, Severity, total};
use crate::doctor::scene::HostFacts;

const WATCHES: &str = "fs.inotify.max_user_watches";
const INSTANCES: &str = "fs.inotify.max_user_instances";

/// Watches for other programs of the user.
const OTHERS_WATCHES: u64 = 8192;

/// Instances for other programs of the user: systemd, container runtimes, kubelet.
const OTHERS_INSTANCES: u64 = 64;

pub(super) fn check(scene: &HostFacts) -> Vec<Finding> {
    if scene.ask.files.is_empty() {
        return Vec::new();
    }
    let watches = scene.sysctl(WATCHES).map(|limit| watches(scene, limit));
    let instances = scene.sysctl(INSTANCES).map(|limit| instances(scene, limit));
    watches.into_iter().chain(instances).collect()
}

fn watches(scene: &HostFacts, limit: u64) -> Finding {
    let needed = total(scene.ask.files.iter().map(|one| one.folders + one.files));
    let wanted = needed.saturating_mul(2).saturating_add(OTHERS_WATCHES);
    let refusal = scene.ask.files.iter().find_map(|one| one.no_watch.as_ref());
    let found = match refusal {
        Some(words) => format!("{WATCHES}={limit}, and one more cannot be had: {words}"),
        None => format!("{WATCHES}={limit}"),
    };
    let finding = Finding::new("files.watches", Layer::Limits, found)
        .wanted(format!(
            "{wanted} or more: twice the {needed} folders and files of now, and {OTHERS_WATCHES} \
             for other programs of the user"
        ))
        .why(
            "Silent files and their folders have a watch each. What has none is polled: its \
             lines come up to `poll_interval` late, and a file that lives for a shorter time is \
             missed.",
        );
    let worth = wanted.max(limit.saturating_mul(2)).next_power_of_two();
    match refusal {
        Some(_) => finding.bad(Severity::Warn, command(WATCHES, worth)),
        None if limit < needed => finding.bad(Severity::Warn, command(WATCHES, worth)),
        None if limit < wanted => finding.bad(Severity::Info, command(WATCHES, worth)),
        None => finding,
    }
}

fn instances(scene: &HostFacts, limit: u64) -> Finding {
    let needed = scene.ask.files.len() as u64;
    let wanted = needed.saturating_add(OTHERS_INSTANCES);
    let finding = Finding::new(
        "files.instances",
        Layer::Limits,
        format!("{INSTANCES}={limit}"),
    )
    .wanted(format!(
        "{wanted} or more: one for each file source, and {OTHERS_INSTANCES} for other programs of \
         the user"
    ))
    .why("Without an instance all files of a source are polled.");
    match limit < wanted {
        true => finding.bad(
            Severity::Warn,
            command(INSTANCES, wanted.next_power_of_two()),
        ),
        false => finding,
    }
}

/// The line that raises a limit now. `--apply` sets no limit of file watches: a pod's node is
/// not ours.
fn command(key: &str, value: u64) -> String {
    format!("sysctl -w {key}={value}    # and in /etc/sysctl.d, for the next start")
}
