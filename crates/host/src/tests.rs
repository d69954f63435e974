//! The formats with odd and hostile text, and the reader over a tree of files that the test made.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use tempfile::TempDir;

use crate::text::{SoftnetCpu, named, number, resident_bytes, schedstat, snmp, softnet, stat};
use crate::{Cause, Host, HostReading};

const SNMP: &str = "\
Ip: Forwarding DefaultTTL
Ip: 2 64
Tcp: RtoAlgorithm MaxConn
Tcp: 1 -1
Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors
Udp: 1000 7 30 5 20 0 10
UdpLite: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors
UdpLite: 9 9 9 9 9
";

#[test]
fn columns_of_snmp_are_found_by_name() {
    assert_eq!(snmp(SNMP, "Udp", "RcvbufErrors"), Some(20));
    assert_eq!(snmp(SNMP, "Udp", "NoPorts"), Some(7));
    assert_eq!(snmp(SNMP, "UdpLite", "RcvbufErrors"), Some(9));
    assert_eq!(snmp(SNMP, "Tcp", "MaxConn"), None, "-1 is no count");
    assert_eq!(snmp(SNMP, "Udp", "MemErrors"), None, "an older kernel");
    assert_eq!(snmp(SNMP, "Ud", "NoPorts"), None);
    // The table in two parts, as `TcpExt` was on some kernels.
    let parts = "TcpExt: A B\nTcpExt: 1 2\nTcpExt: ListenDrops\nTcpExt: 5\n";
    assert_eq!(snmp(parts, "TcpExt", "ListenDrops"), Some(5));
    for odd in [
        "",
        "Udp:",
        "Udp: NoPorts",
        "Udp: NoPorts\nUdp:",
        "Udp: InDatagrams NoPorts\nUdp: 1",
        "Udp: NoPorts\nUdp: 99999999999999999999",
        "Udp: NoPorts\nUdp: 0x10",
        "Udp NoPorts\nUdp 1",
    ] {
        assert_eq!(snmp(odd, "Udp", "NoPorts"), None, "{odd:?}");
    }
}

#[test]
fn snmp6_has_a_name_and_a_value_a_line() {
    let text = "Udp6InDatagrams                 \t46\nUdp6RcvbufErrors \t3\nUdp6NoPorts\n";
    assert_eq!(named(text, "Udp6RcvbufErrors"), Some(3));
    assert_eq!(named(text, "Udp6NoPorts"), None);
    assert_eq!(named(text, "Udp6"), None);
}

#[test]
fn softnet_is_read_on_kernels_of_every_width() {
    let cpu = |cpu, processed, dropped, time_squeeze| SoftnetCpu {
        cpu,
        processed,
        dropped,
        time_squeeze,
    };
    // Linux 2.6: nine columns; 6.x: fifteen, and the CPU's number in the thirteenth.
    let nine = "0000a 00000001 00000002 0 0 0 0 0 0\n0b 03 04 0 0 0 0 0 0\n";
    assert_eq!(softnet(nine), [cpu(0, 10, 1, 2), cpu(1, 11, 3, 4)]);
    let fifteen = "0d315d3b ffffffff 00000043 0 0 0 0 0 0 0 0 0 00000002 0 0\n\
                   0d22cf54 00000000 00000039 0 0 0 0 0 0 0 0 0 0000000a 0 0\n";
    assert_eq!(
        softnet(fifteen),
        [
            cpu(2, 0x0d31_5d3b, 0xffff_ffff, 0x43),
            cpu(10, 0x0d22_cf54, 0, 0x39)
        ]
    );
    assert_eq!(softnet("\n1 2\nx y z\n-1 2 3\n1 2 3\n"), [cpu(4, 1, 2, 3)]);
}

#[test]
fn the_times_of_a_thread_are_found_behind_any_name() {
    let line = "7 (a) b) (c) R 1 1 1 0 -1 4194304 98 0 0 0 12 30 0 0 20 0 1 0 46799";
    assert_eq!(stat(line), Some(420_000_000));
    assert_eq!(stat("7 (a) R 1 1 1 0 -1 4194304 98 0 0 0 12"), None);
    assert_eq!(
        stat(&line.replace("12 30", "18446744073709551615 30")),
        None
    );
    assert_eq!(stat("no brackets"), None);
    assert_eq!(schedstat("724861 364678 3\n"), Some(724_861));
    assert_eq!(schedstat(""), None);
    assert_eq!(
        resident_bytes("Name:\tx\nVmRSS:\t   12 kB\n"),
        Some(12 * 1024)
    );
    assert_eq!(resident_bytes("VmRSS:\n"), None);
    assert_eq!(resident_bytes("VmRSS: 18446744073709551615 kB"), None);
    assert_eq!(
        (number("12\n"), number("-3\n"), number("")),
        (Some(12), None, None)
    );
}

proptest! {
    #[test]
    fn no_text_makes_a_parser_panic(text in ".{0,200}|([A-Za-z0-9:() -]{0,40}\n){0,8}") {
        let _ = (snmp(&text, "Udp", "a"), named(&text, "a"), softnet(&text), stat(&text));
        let _ = (schedstat(&text), resident_bytes(&text), number(&text));
    }
}

/// A tree of files that stands for `/`.
struct Tree(TempDir);

impl Tree {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, path: &str, text: &str) -> &Self {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn interface(&self, name: &str, missed: u64, dropped: u64) -> &Self {
        let folder = format!("sys/class/net/{name}/statistics");
        self.write(
            &format!("{folder}/rx_missed_errors"),
            &format!("{missed}\n"),
        )
        .write(&format!("{folder}/rx_dropped"), &format!("{dropped}\n"))
    }

    fn hardware(&self, name: &str) -> &Self {
        self.write(&format!("sys/class/net/{name}/device/vendor"), "0x1af4\n")
    }

    fn thread(&self, number: u64, name: &str, used_ns: u64) -> &Self {
        let folder = format!("proc/self/task/{number}");
        self.write(&format!("{folder}/comm"), &format!("{name}\n"))
            .write(&format!("{folder}/schedstat"), &format!("{used_ns} 5 6\n"))
    }

    fn open(&self, now: Instant) -> Host {
        Host::at(self.path(), now)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Counts by cause and interface.
fn counts(reading: &HostReading) -> Vec<(Cause, &str, u64)> {
    reading
        .losses
        .iter()
        .map(|loss| (loss.cause, loss.device.as_deref().unwrap_or(""), loss.count))
        .collect()
}

#[test]
fn only_hardware_counts_where_there_is_any() {
    let tree = Tree::new();
    tree.interface("eth0", 5, 6).hardware("eth0");
    tree.interface("docker0", 1, 1).interface("lo", 1, 259);
    tree.write("sys/class/net/bonding_masters", "\n");
    let start = Instant::now();
    let mut host = tree.open(start);
    tree.interface("eth0", 8, 6).interface("docker0", 100, 100);
    let reading = host.read_at(start + Duration::from_secs(1));
    assert_eq!(
        counts(&reading),
        [
            (Cause::NicMissed, "eth0", 3),
            (Cause::NicDropped, "eth0", 0)
        ]
    );
}

#[test]
fn in_a_container_every_interface_counts_but_the_loopback() {
    let tree = Tree::new();
    tree.interface("eth0", 0, 6).interface("lo", 1, 259);
    let start = Instant::now();
    let mut host = tree.open(start);
    tree.interface("eth0", 0, 9).interface("lo", 2, 999);
    let reading = host.read_at(start);
    assert_eq!(
        counts(&reading),
        [
            (Cause::NicMissed, "eth0", 0),
            (Cause::NicDropped, "eth0", 3)
        ]
    );
}

#[test]
fn counters_of_the_kernel_count_from_our_start_and_each_datagram_once() {
    let tree = Tree::new();
    tree.write("proc/net/snmp", SNMP)
        .write(
            "proc/net/snmp6",
            "Udp6InErrors 4\nUdp6RcvbufErrors 4\nUdp6NoPorts 0\n",
        )
        .write(
            "proc/net/netstat",
            "TcpExt: ListenOverflows ListenDrops\nTcpExt: 2 3\n",
        )
        .write("proc/net/softnet_stat", "1 ffffffff 2\n1 5 0\n");
    let start = Instant::now();
    let mut host = tree.open(start);
    let grown = SNMP.replace("1000 7 30 5 20", "2000 8 45 5 32");
    tree.write("proc/net/snmp", &grown)
        .write(
            "proc/net/snmp6",
            "Udp6InErrors 6\nUdp6RcvbufErrors 5\nUdp6NoPorts 0\n",
        )
        .write(
            "proc/net/netstat",
            "TcpExt: ListenOverflows ListenDrops\nTcpExt: 4 6\n",
        )
        .write("proc/net/softnet_stat", "1 00000001 4\n1 6 1\n");
    let reading = host.read_at(start + Duration::from_secs(1));
    assert_eq!(
        counts(&reading),
        [
            (Cause::SoftnetDropped, "", 3),
            (Cause::UdpReceiveBuffer, "", 13),
            (Cause::UdpOther, "", 4),
            (Cause::UdpNoPorts, "", 1),
            (Cause::ListenOverflows, "", 2),
            (Cause::ListenOther, "", 1),
        ]
    );
    assert_eq!(reading.time_squeeze, Some(3));
}

#[test]
fn what_cannot_be_read_is_left_out() {
    let tree = Tree::new();
    let start = Instant::now();
    let mut host = tree.open(start);
    assert_eq!(host.read_at(start), HostReading::default());
    // It turns up later: counted from then on.
    tree.write("proc/net/snmp", SNMP);
    let first = host.read_at(start);
    assert!(
        counts(&first).contains(&(Cause::UdpReceiveBuffer, "", 0)),
        "{first:?}"
    );
    tree.write("proc/net/snmp", &SNMP.replace("5 20 0", "5 21 0"));
    let second = host.read_at(start);
    assert!(
        counts(&second).contains(&(Cause::UdpReceiveBuffer, "", 1)),
        "{second:?}"
    );
}

#[test]
fn threads_are_measured_between_two_readings() {
    const SECOND: u64 = 1_000_000_000;
    let tree = Tree::new();
    tree.thread(10, "inrush", SECOND).thread(9, "stream-0", 0);
    tree.thread(11, "gone", 5)
        .write("proc/self/status", "VmRSS:\t 2 kB\n");
    let start = Instant::now();
    let mut host = tree.open(start);
    tree.thread(10, "inrush", SECOND + SECOND / 4)
        .thread(9, "stream-0", 2 * SECOND)
        .thread(12, "to-splunk", SECOND / 500);
    fs::remove_dir_all(tree.path().join("proc/self/task/11")).unwrap();
    // Without schedstat, in steps of 10 ms.
    tree.write("proc/self/task/13/comm", "old kernel\n");
    tree.write(
        "proc/self/task/13/stat",
        "13 (x) R 1 1 1 0 -1 4 9 0 0 0 50 50 0 0\n",
    );
    let reading = host.read_at(start + Duration::from_secs(2));
    let shown: Vec<_> = reading
        .threads
        .iter()
        .map(|thread| (thread.name.as_str(), thread.cpu_percent))
        .collect();
    assert_eq!(
        shown,
        [
            ("stream-0", 100.0),
            ("inrush", 12.5),
            ("to-splunk", 0.1),
            ("old kernel", 50.0),
        ]
    );
    assert_eq!(reading.resident_bytes, Some(2048));
    assert_eq!(
        host.read_at(start + Duration::from_secs(2)).threads[0].cpu_percent,
        0.0
    );
}

#[test]
fn this_host_can_be_read() {
    let mut host = Host::open();
    let reading = host.read();
    assert!(!reading.threads.is_empty());
    assert!(reading.resident_bytes.is_some_and(|bytes| bytes > 0));
}
