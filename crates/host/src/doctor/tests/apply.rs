//! What `--apply` sets, what it leaves alone, and the way back.

use super::*;

/// A host with two values to raise that are safe, and two that are not.
fn short() -> Made {
    let made = Made::good(2);
    made.sysctl("net.core.netdev_max_backlog", "1000")
        .sysctl("net.ipv4.udp_mem", "1\t2\t3")
        .write(
            "proc/net/snmp6",
            "Ip6ReasmReqds 9\nIp6ReasmFails 9\nIp6ReasmTimeout 0\n",
        )
        .udp(5)
        .sysctl("net.core.rmem_max", "212992");
    made
}

fn now(made: &Made, key: &str) -> String {
    read(&made.root.path().join(scene::sysctl_path(key)))
        .trim()
        .to_owned()
}

/// What is set by the script, a line each.
fn lines(undo: &Path) -> Vec<String> {
    let text = read(undo);
    assert!(text.starts_with("#!/bin/sh\n"), "{text}");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(ToOwned::to_owned).collect()
}

#[test]
fn what_is_safe_is_set_and_can_be_undone() {
    let made = short();
    let undo = made.root.path().join("doctor-undo.sh");
    let applied = made.report().apply(&undo);
    assert_eq!(applied.failed, [""; 0]);
    let changed: Vec<_> = applied
        .changed
        .iter()
        .map(|change| (change.key.as_str(), change.before, change.after))
        .collect();
    assert_eq!(
        changed,
        [
            ("net.core.netdev_max_backlog", 1000, 10_000),
            ("net.core.rmem_max", 212_992, 67_108_864),
        ]
    );
    assert_eq!(now(&made, "net.core.rmem_max"), "67108864");
    assert_eq!(now(&made, "net.ipv6.ip6frag_high_thresh"), "4194304");
    assert_eq!(
        now(&made, "net.ipv4.udp_mem"),
        "1\t2\t3",
        "not of the safe ones"
    );
    assert_eq!(
        lines(&undo),
        [
            "sysctl -w net.core.netdev_max_backlog=1000",
            "sysctl -w net.core.rmem_max=212992",
        ]
    );
    assert_eq!(
        made.report().apply(&undo),
        ApplyResult::default(),
        "nothing is left to do"
    );
}

#[test]
fn a_second_time_keeps_what_was_before_the_first() {
    let made = short();
    let undo = made.root.path().join("doctor-undo.sh");
    made.report().apply(&undo);
    made.sysctl("net.core.rmem_max", "300000");
    made.report().apply(&undo);
    let odd = "sysctl -w net.core.rmem_max=1; reboot\nreboot\nsysctl -w net.core.a`reboot`=1\n";
    fs::write(&undo, format!("{}{odd}", read(&undo))).unwrap();
    made.snmp(&[("ReasmFails", 4)]);
    made.report().apply(&undo);
    assert_eq!(
        lines(&undo),
        [
            "sysctl -w net.core.netdev_max_backlog=1000",
            "sysctl -w net.core.rmem_max=212992",
            "sysctl -w net.ipv4.ipfrag_high_thresh=4194304",
        ]
    );
}

#[test]
fn without_a_way_back_nothing_is_changed() {
    let made = short();
    let applied = made
        .report()
        .apply(&made.root.path().join("not/there/undo.sh"));
    assert!(applied.changed.is_empty());
    let [failed] = &applied.failed[..] else {
        panic!("{applied:?}");
    };
    assert!(failed.starts_with("nothing was changed: "), "{failed}");
    assert_eq!(now(&made, "net.core.rmem_max"), "212992");
}

#[test]
fn what_cannot_be_set_is_said_and_the_rest_is_set() {
    let made = short();
    let report = made.report();
    let backlog = scene::sysctl_path("net.core.netdev_max_backlog");
    fs::remove_file(made.root.path().join(backlog)).unwrap();
    let applied = report.apply(&made.root.path().join("undo.sh"));
    assert_eq!(
        applied.failed,
        ["net.core.netdev_max_backlog: cannot be read"]
    );
    assert_eq!(applied.changed.len(), 1);
    assert_eq!(now(&made, "net.core.rmem_max"), "67108864");
}

#[test]
fn nothing_is_ever_lowered() {
    let made = short();
    let report = made.report();
    made.sysctl("net.core.rmem_max", "999999999");
    let applied = report.apply(&made.root.path().join("undo.sh"));
    assert!(
        applied
            .changed
            .iter()
            .all(|change| change.key != "net.core.rmem_max")
    );
    assert_eq!(now(&made, "net.core.rmem_max"), "999999999");
}

#[test]
fn a_link_in_place_of_the_script_is_not_followed() {
    let made = short();
    let victim = made.root.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    let undo = made.root.path().join("undo.sh");
    for name in ["undo.sh", "undo.sh.new"] {
        std::os::unix::fs::symlink(&victim, made.root.path().join(name)).unwrap();
    }
    made.report().apply(&undo);
    assert_eq!(read(&victim), "precious");
    assert_eq!(lines(&undo).len(), 2);
}
