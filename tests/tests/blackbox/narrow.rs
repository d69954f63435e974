//! Hosts that have less than others, and what only looks like one with more: the process starts,
//! says what it does without, and takes what comes.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use inrush_tests::*;

use crate::load::load;
use crate::{UDP_TCP, to_file};

/// Over TCP, and then as single datagrams: as many as fit the receive buffer that every kernel
/// gives.
const STREAM: usize = 2_000;
const DATAGRAMS: usize = 50;

/// What `udp.receive_buffer` is by default.
const RECEIVE_BUFFER: u64 = 64 << 20;

fn words(wrapper: &[&str]) -> Vec<String> {
    wrapper.iter().map(|word| (*word).to_owned()).collect()
}

/// Whether this host can run something so.
fn can(wrapper: &[String]) -> bool {
    let mut command = Command::new(&wrapper[0]);
    command.args(&wrapper[1..]).arg("true");
    command.output().is_ok_and(|output| output.status.success())
}

/// Starts it so, sends, and gives what it has said.
fn takes_what_comes(wrapper: &[String], global: &str) -> String {
    let options = Options {
        wrapper,
        ..Options::default()
    };
    let yaml = format!("{global}\n{}", to_file(UDP_TCP, ""));
    let inrush = Inrush::with(&yaml, options);
    let mut tcp = Tcp::connect(inrush.address("tcp"));
    tcp.send(lines(0..STREAM));
    send_udp(
        inrush.address("udp"),
        (STREAM..STREAM + DATAGRAMS).map(numbered),
    );
    let events = inrush.collected((STREAM + DATAGRAMS) as u64);
    assert_eq!(events.len(), STREAM + DATAGRAMS);
    inrush.stderr()
}

#[test]
fn one_cpu_is_enough() {
    let wrapper = words(&["taskset", "-c", "0"]);
    if !can(&wrapper) {
        skip!("this host has no taskset");
    }
    takes_what_comes(&wrapper, "workers: auto");
}

#[test]
fn workers_for_128_cpus_are_no_trouble_where_there_are_few() {
    takes_what_comes(&[], "workers: 128");
}

#[test]
fn without_privileges_it_says_how_small_receive_buffers_are() {
    let wrapper = words(&["setpriv", "--inh-caps=-all", "--bounding-set=-all"]);
    if !can(&wrapper) {
        skip!("this host lets nobody give up capabilities, or has no setpriv");
    }
    let said = takes_what_comes(&wrapper, "");
    let max = fs::read_to_string("/proc/sys/net/core/rmem_max").unwrap();
    let small = max.trim().parse::<u64>().unwrap() < RECEIVE_BUFFER;
    let lines = said
        .lines()
        .filter(|line| line.contains("net.core.rmem_max"));
    assert_eq!(lines.count(), usize::from(small), "{said}");
}

/// Where receive buffers are bounded, each of two threads reads many sockets.
#[test]
fn without_privileges_every_sender_keeps_its_order() {
    const SENT: u64 = 40_000;
    let wrapper = words(&["setpriv", "--inh-caps=-all", "--bounding-set=-all"]);
    if !can(&wrapper) {
        skip!("this host lets nobody give up capabilities, or has no setpriv");
    }
    let options = Options {
        wrapper: &wrapper,
        ..Options::default()
    };
    let inrush = Inrush::with(
        &("workers: 4\n".to_owned() + &to_file(UDP_TCP, "")),
        options,
    );
    let number = SENT.to_string();
    let args = [
        "-D",
        "--gso",
        "8",
        "--active-connections",
        "5",
        "--number",
        &number,
    ];
    let (_, report) = load(&inrush, "udp", &args);
    let (ledger, markers) = (&report["verify"]["ledger"], &report["verify"]["markers"]);
    let count = |name: &str| ledger[name].as_u64().unwrap();
    assert_eq!(
        count("received") + count("kernel_dropped"),
        SENT,
        "{report:#}"
    );
    assert_eq!(ledger["unaccounted"], 0, "{report:#}");
    for name in ["out_of_order", "duplicated"] {
        assert_eq!(markers[name], 0, "{report:#}");
    }
    assert_eq!(markers["received"], count("received"), "{report:#}");
    let said = inrush.stderr();
    // How many depends on how far this host's `net.core.rmem_max` is below what is wanted.
    let bounded = said.lines().find(|line| line.contains("net.core.rmem_max"));
    let sockets = bounded.and_then(|line| line.rsplit_once("sockets=")?.1.trim().parse().ok());
    assert_eq!(bounded.is_some(), sockets.is_some(), "{said}");
    assert!(sockets.is_none_or(|n| (4..=128).contains(&n)), "{said}");
}

/// Two processors that say that they are two nodes: each worker stays on one.
#[test]
fn on_two_numa_nodes_workers_stay_on_one_each() {
    let allowed = allowed_cpus("self");
    let (Some(first), Some(last)) = (allowed.first(), allowed.last()) else {
        panic!("no processor")
    };
    let nodes = tempfile::tempdir().unwrap();
    fs::write(nodes.path().join("online"), "0-1\n").unwrap();
    for (node, cpu) in [(0, first), (1, last)] {
        let node = nodes.path().join(format!("node{node}"));
        fs::create_dir(&node).unwrap();
        fs::write(node.join("cpulist"), format!("{cpu}\n")).unwrap();
    }
    let folder = nodes.path().display();
    let mount = format!("mount --bind {folder} /sys/devices/system/node && exec \"$@\"");
    let wrapper = words(&["unshare", "-m", "sh", "-ec", &mount, "sh"]);
    if first == last || !can(&wrapper) {
        skip!("one processor, or this host lets nobody mount");
    }
    let options = Options {
        wrapper: &wrapper,
        ..Options::default()
    };
    let inrush = Inrush::with(
        &("workers: 4\n".to_owned() + &to_file(UDP_TCP, "")),
        options,
    );
    let tasks = fs::read_dir(format!("/proc/{}/task", inrush.pid())).unwrap();
    let mut stays = BTreeMap::new();
    for task in tasks {
        let task = task.unwrap().path();
        let name = fs::read_to_string(task.join("comm")).unwrap();
        let cpus = allowed_cpus(&format!(
            "{}/task/{}",
            inrush.pid(),
            task.file_name().unwrap().display()
        ));
        stays
            .entry(name.trim().to_owned())
            .or_insert_with(Vec::new)
            .push(cpus);
    }
    for (name, cpu) in [
        ("stream-0", first),
        ("stream-1", last),
        ("stream-2", first),
        ("stream-3", last),
    ] {
        assert_eq!(stays[name], [[*cpu]], "{stays:?}");
    }
    // Two sockets' threads.
    let mut udp = stays["udp-syslog"].clone();
    udp.sort();
    assert_eq!(udp, [[*first], [*last]], "{stays:?}");
    let mut tcp = Tcp::connect(inrush.address("tcp"));
    tcp.send(lines(0..STREAM));
    inrush.collected(STREAM as u64);
}

/// The processors that a process or thread may use.
fn allowed_cpus(id: &str) -> Vec<usize> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let ranges = list.unwrap().trim().split(',').map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        first.parse().unwrap()..=last.parse().unwrap()
    });
    ranges.flatten().collect()
}

#[test]
fn a_container_that_hides_proc_net_is_no_trouble() {
    let hide = "mount -t tmpfs none /proc/$$/net && exec \"$@\"";
    let wrapper = words(&["unshare", "-m", "sh", "-ec", hide, "sh"]);
    if !can(&wrapper) {
        skip!("this host lets nobody hide /proc/net");
    }
    takes_what_comes(&wrapper, "");
}

#[test]
fn a_container_without_time_zones_knows_them() {
    let hide = "mount -t tmpfs none /usr/share/zoneinfo && exec \"$@\"";
    let wrapper = words(&["unshare", "-m", "sh", "-ec", hide, "sh"]);
    if !can(&wrapper) {
        skip!("this host lets nobody hide /usr/share/zoneinfo");
    }
    let options = Options {
        wrapper: &wrapper,
        ..Options::default()
    };
    let yaml = to_file(UDP_TCP, "timezone: America/New_York")
        + "packs:\n  enabled: true\n  inline: |\n    about: a zone\n    rules:\n      \
           - { name: east, stage: hint, when: { host: east }, set: { zone: Asia/Kathmandu } }\n";
    let inrush = Inrush::with(&yaml, options);
    send_udp(
        inrush.address("udp"),
        [
            "<13>2026-07-01 08:00:00 h1 app: x",
            "<13>2026-07-01 08:00:00 east app: x",
        ],
    );
    let mut times: Vec<_> = inrush
        .collected(2)
        .iter()
        .map(|event| event["time"].as_str().unwrap()[..19].to_owned())
        .collect();
    times.sort();
    assert_eq!(times, ["2026-07-01T02:15:00", "2026-07-01T12:00:00"]);
}
