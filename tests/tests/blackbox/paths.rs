//! Paths that events name: senders can make up names, and a file system has a number of files that
//! it cannot exceed.

use std::ops::Range;
use std::path::Path;

use inrush_tests::*;

use crate::TCP;
use crate::disk::{on_a_disk, remount};

fn yaml(destinations: &str) -> String {
    format!(
        "sources:\n  syslog: {{ type: syslog, listen: [{TCP}] }}\ndestinations:\n{destinations}"
    )
}

/// One event of each host.
fn hosts(numbers: Range<usize>) -> String {
    numbers
        .map(|n| format!("<13>1 - h{n} app - - - x\n"))
        .collect()
}

/// The files of a folder, and the lines in them.
fn files(folder: &Path) -> (usize, usize) {
    let entries = std::fs::read_dir(folder).unwrap();
    let lines = |path| std::fs::read_to_string(path).unwrap().lines().count();
    let lines: Vec<usize> = entries.map(|entry| lines(entry.unwrap().path())).collect();
    (lines.len(), lines.iter().sum())
}

#[test]
fn beyond_max_paths_events_go_to_one_file_and_are_counted() {
    let inrush = Inrush::start(&yaml(
        "  out: { type: file, path: \"{dir}/logs/{host}.log\", max_paths: 100 }\n\
         \x20 fixed: { type: file, path: \"{dir}/fixed.log\", max_paths: 1 }\n",
    ));
    let mut tcp = Tcp::connect(inrush.address("tcp"));
    tcp.send(hosts(0..300));
    inrush.conserved(300);
    // Known names keep their files.
    tcp.send(hosts(0..50));
    inrush.conserved(350);
    let logs = inrush.path("logs");
    assert_eq!(files(&logs), (101, 350));
    let other = std::fs::read_to_string(logs.join("other.log")).unwrap();
    assert_eq!(other.lines().count(), 200);
    assert_eq!(inrush.destination_named("out")["overflow"], 200);
    assert_eq!(inrush.destination_named("fixed")["overflow"], 0);
    let metric = "inrush_destination_overflow_events_total{destination=\"out\"} 200";
    assert!(inrush.http("GET", "/metrics").body.contains(metric));
    let flow = inrush.json("/api/v1/flow");
    let alarms = flow["alarms"].as_array().unwrap();
    assert_eq!(alarms.len(), 1, "{alarms:?}");
    assert_eq!(alarms[0]["id"], "overflow-file:out");
    assert_eq!(
        inrush.stderr().matches("`max_paths`").count(),
        1,
        "{}",
        inrush.stderr()
    );
}

/// A flood of names leaves inodes to the store on the same disk.
#[test]
fn made_up_names_leave_inodes_to_others() {
    const NAMES: usize = 5_000;
    let Some(inrush) = on_a_disk(
        "size=512m,nr_inodes=2000",
        &yaml(
            "  out: { type: file, path: \"{dir}/disk/{host}/x.log\" }\n\
             \x20 local: { type: store, path: \"{dir}/disk/store\", flush_after: 100ms }\n",
        ),
    ) else {
        skip!("a small disk cannot be mounted here")
    };
    Tcp::connect(inrush.address("tcp")).send(hosts(0..NAMES));
    inrush.conserved(NAMES as u64);
    let overflow = inrush.destination_named("out")["overflow"]
        .as_u64()
        .unwrap();
    assert!(overflow > NAMES as u64 - 1_000, "{overflow}");
    let alarm = inrush.json("/api/v1/flow")["alarms"].to_string();
    assert!(alarm.contains("df -i"), "{alarm}");
    assert!(
        inrush.destination_named("local")["errors"]
            .as_object()
            .unwrap()
            .is_empty()
    );
}

#[test]
fn without_inodes_a_file_destination_is_held_alone() {
    let Some(inrush) = on_a_disk(
        "size=1m,nr_inodes=1",
        &yaml(
            "  out: { type: file, path: \"{dir}/disk/{host}.log\" }\n\
             \x20 local: { type: store, flush_after: 100ms }\n",
        ),
    ) else {
        skip!("a small disk cannot be mounted here")
    };
    Tcp::connect(inrush.address("tcp")).send(hosts(0..10));
    inrush.wait_until("the store has them", |ledger| {
        ledger.destinations["local"].delivered == 10 && ledger.destinations["out"].pending == 10
    });
    eventually("it says why", || {
        let alarms = inrush.json("/api/v1/flow")["alarms"].to_string();
        (alarms.contains("destination-failing:out") && alarms.contains("df -i")).then_some(())
    });
    remount(&inrush, "remount,nr_inodes=100");
    inrush.conserved(10);
}
