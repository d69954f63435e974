//! All checks together: good hosts, hosts that hide everything, and the two outputs.

use proptest::prelude::*;

use super::*;
use crate::rate::RateBottleneck;

fn text(report: &DoctorReport) -> String {
    let mut out = Vec::new();
    report.write(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn a_good_host_has_nothing_to_complain_of_whatever_its_size() {
    for cpus in [1, 2, 128] {
        let report = Made::good(cpus).report();
        let bad: Vec<_> = report
            .findings
            .iter()
            .filter(|f| f.severity > Severity::Ok)
            .collect();
        assert!(bad.is_empty(), "{cpus} CPUs: {bad:#?}");
        assert!(report.findings.len() >= 15, "{:#?}", report.findings);
        assert!(text(&report).starts_with("0 critical, 0 warnings, 0 notes, "));
    }
}

#[test]
fn a_host_that_hides_everything_is_one_finding() {
    let mut made = Made::nothing();
    made.disk.space = None;
    let report = made.report();
    let ids: Vec<_> = report
        .findings
        .iter()
        .map(|finding| finding.id.as_str())
        .collect();
    assert_eq!(ids, ["host.unread", "disk.sync"]);
    let finding = &report.findings[0];
    assert_eq!(finding.severity, Severity::Warn);
    for part in [
        "/proc/net/softnet_stat (no such file)",
        "/proc/net/udp (",
        "/proc/sys/net/core/rmem_max (",
        "/sys/class/net (",
        "queueing disciplines (not asked)",
    ] {
        assert!(
            finding.found.contains(part),
            "no {part} in {}",
            finding.found
        );
    }
}

#[test]
fn a_container_without_the_network_is_judged_by_the_rest() {
    let made = Made::good(2);
    for folder in ["proc/net", "proc/sys/net", "sys/class/net"] {
        fs::remove_dir_all(made.root.path().join(folder)).unwrap();
    }
    assert_eq!(made.finding("host.unread").severity, Severity::Warn);
    made.is_well("memory.bound");
    made.is_well("clock.source");
}

#[test]
fn a_host_without_control_groups_only_misses_them() {
    let made = Made::good(2);
    fs::remove_dir_all(made.root.path().join("sys/fs")).unwrap();
    let finding = made.finding("host.unread");
    assert_eq!(finding.severity, Severity::Info);
    assert_eq!(finding.found, "/sys/fs/cgroup (no control groups)");
    made.is_well("memory.bound");
}

#[test]
fn the_worst_comes_first_and_then_the_order_of_an_events_way() {
    let made = Made::good(2);
    made.udp(5).sysctl("net.core.netdev_max_backlog", "1000");
    made.counter("rx_missed_errors", 1);
    let report = made.report();
    let ids: Vec<_> = report
        .findings
        .iter()
        .map(|finding| finding.id.as_str())
        .collect();
    assert_eq!(
        ids[..3],
        ["socket.drops:5514", "nic.missed:eth0", "softnet.backlog"]
    );
    assert!(report.findings[3..].is_sorted_by_key(|finding| finding.layer));
}

#[test]
fn the_json_has_these_keys_and_no_others() {
    let made = Made::good(2);
    made.udp(5);
    let json = serde_json::to_value(made.report()).unwrap();
    let keys: Vec<_> = json.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["findings", "safe_rate"]);
    assert!(json["safe_rate"].is_null());
    let first = serde_json::to_string(&made.report().findings[0]).unwrap();
    let names = [
        "id", "layer", "severity", "found", "wanted", "why", "command", "lost_now",
    ];
    let places: Vec<_> = names
        .map(|name| first.find(&format!("\"{name}\":")).unwrap())
        .into();
    assert!(places.is_sorted(), "{first}");
    let first = &json["findings"][0];
    assert_eq!(first.as_object().unwrap().len(), names.len());
    assert_eq!(first["layer"], "socket");
    assert_eq!(first["severity"], "critical");
    assert_eq!(first["lost_now"], 5);
}

#[test]
fn the_text_shows_what_to_copy_and_stays_within_its_columns() {
    let made = Made::good(128);
    made.udp(5).sysctl("net.core.rmem_max", "212992");
    let text = text(&made.report());
    let (head, rest) = text.split_once("\n\n").unwrap();
    assert!(head.starts_with("1 critical, 0 warnings"), "{text}");
    assert!(rest.starts_with("CRITICAL  socket.drops:5514  (socket)\n  found   source syslog"));
    let command = "\n  run     sysctl -w net.core.rmem_max=67108864\n";
    assert!(rest.contains(command), "{text}");
    assert!(
        rest.contains("\n  lost    5 since the counter began\n"),
        "{text}"
    );
    assert!(
        text.contains("\nAS IT SHOULD BE\n  nic.loss:eth0  "),
        "{text}"
    );
    let wide = text.lines().find(|line| line.chars().count() > 100);
    assert_eq!(wide, None);
}

#[test]
fn every_finding_is_said_in_whole_sentences() {
    let made = Made::good(2);
    made.udp(5).counter("rx_missed_errors", 1);
    for finding in made.report().findings {
        assert!(finding.why.ends_with('.'), "{finding:#?}");
        assert!(
            !finding.found.is_empty() && !finding.wanted.is_empty(),
            "{finding:#?}"
        );
        let bad = finding.severity > Severity::Ok;
        assert_eq!(bad, finding.command.is_some(), "{finding:#?}");
    }
}

/// Files that every check reads, to be filled with rubbish.
const FILES: &[&str] = &[
    "proc/net/softnet_stat",
    "proc/net/snmp",
    "proc/net/snmp6",
    "proc/net/udp",
    "proc/interrupts",
    "proc/meminfo",
    "proc/4711/limits",
    "proc/4711/cgroup",
    "proc/4711/status",
    "proc/self/mountinfo",
    "proc/sys/net/core/rmem_max",
    "proc/sys/net/ipv4/udp_mem",
    "sys/devices/system/cpu/online",
    "sys/fs/cgroup/cpu.max",
    "sys/fs/cgroup/cpu.stat",
    "sys/fs/cgroup/memory.max",
    "sys/class/net/eth0/statistics/rx_missed_errors",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn rubbish_in_a_file_is_no_reason_to_panic(
        file in proptest::sample::select(FILES),
        text in prop_oneof![
            any::<String>(),
            "[0-9a-fA-F:, \n-]{0,200}",
            "((ffffffffffffffff |18446744073709551615 ){9,15}\n){2,4}",
            "( 1: 0:158A 0:0 7 0:ffffffffffffffff 0 0 0 0 0 0 0 18446744073709551615\n){2,3}",
            "( CPU0 CPU1\n)( 4[01]: (18446744073709551615 ){2}eth0\n){2,3}",
            "(Udp: [A-Za-z ]{0,30}\n|Udp: [0-9 ]{0,60}\n|18446744073709551615[ \n]){0,9}",
        ],
    ) {
        let made = Made::good(2);
        made.write(file, &text);
        let report = made.report();
        super::report::text(&report);
    }
}

#[test]
fn the_rate_is_said_below_the_counts_or_a_finding_says_why_not() {
    let mut report = Made::good(2).report();
    let rate = SafeRate {
        events_per_second: 412_345,
        event_bytes: 800,
        limited_by: RateBottleneck::Fsync,
        costs: vec![
            (RateBottleneck::Parse, 1_500),
            (RateBottleneck::Classify, 0),
        ],
        at_least: false,
    };
    report.set_safe_rate(Ok(rate));
    let text = text(&report);
    let said = "safe rate: ≈ 410,000 events/s of 800 B with this configuration, limited by fsync";
    assert_eq!(text.lines().nth(1), Some(said), "{text}");
    assert!(text.contains("\n           1.50 µs of CPU an event: parse 1.50\n"));
    let json = serde_json::to_value(&report).unwrap();
    let wanted = serde_json::json!(
        {"events_per_second": 412_345, "event_bytes": 800, "limited_by": "fsync"}
    );
    assert_eq!(json["safe_rate"], wanted);

    let mut without = Made::good(2).report();
    without.set_safe_rate(Err(UnmeasuredReason::Running));
    let worst = &without.findings[0];
    assert_eq!(
        (worst.id.as_str(), worst.severity),
        ("cpu.safe_rate", Severity::Info)
    );
    let json = serde_json::to_value(&without).unwrap();
    assert!(json["safe_rate"].is_null());
}
