//! From the card to our sockets.

use super::Severity::{Critical, Info, Warn};
use super::*;

#[test]
fn a_card_that_loses_packets_is_named_with_each_counter() {
    let made = Made::good(2);
    made.counter("rx_missed_errors", 50_000)
        .counter("rx_over_errors", 3)
        .counter("rx_crc_errors", 1)
        .counter("rx_dropped", 12);
    let rings = "ethtool -G eth0 rx 4096";
    made.says("nic.missed:eth0", Critical, Some(50_000), rings);
    made.says("nic.over:eth0", Warn, Some(3), rings);
    made.says(
        "nic.crc:eth0",
        Warn,
        Some(1),
        "ethtool -S eth0 | grep -i -E 'crc|err'",
    );
    let look = "ip -s -s link show dev eth0";
    made.says("nic.dropped:eth0", Info, Some(12), look);
    // Healthy hosts have some, but not so many.
    made.counter("rx_dropped", 1_000_000);
    made.says("nic.dropped:eth0", Warn, Some(1_000_000), look);
}

#[test]
fn a_card_that_agreed_on_too_little_is_named_and_a_virtual_one_is_not() {
    let made = Made::good(2);
    let found = made.finding("nic.link:eth0").found;
    assert_eq!(
        found,
        "eth0: driver ixgbe, speed 10000 Mb/s, MTU 1500, 2 receive queues"
    );
    made.write("sys/class/net/eth0/speed", "100\n");
    made.says("nic.link:eth0", Warn, None, "ethtool eth0");
    made.write("sys/class/net/eth0/speed", "-1\n");
    made.is_well("nic.link:eth0");
}

#[test]
fn the_node_of_a_card_is_told_where_there_are_two() {
    let made = Made::good(4);
    let none = |made: &Made| {
        made.report()
            .findings
            .iter()
            .all(|f| f.id != "nic.numa_node:eth0")
    };
    assert!(none(&made));
    let node = |node: u32, list: &str| {
        let file = format!("sys/devices/system/node/node{node}/cpulist");
        made.write(&file, &format!("{list}\n"));
    };
    node(0, "0-3");
    assert!(none(&made));
    node(0, "0-1");
    node(1, "2-3");
    let command = "systemctl set-property inrush.service AllowedCPUs=0-1";
    made.says("nic.numa_node:eth0", Info, None, command);
}

/// All interrupts of all queues on CPU 0.
fn on_one_cpu(made: &Made, cpus: usize, queues: usize) {
    let columns: String = (0..cpus).map(|cpu| format!(" CPU{cpu}")).collect();
    let zeros = " 0".repeat(cpus - 1);
    let lines: String = (0..queues)
        .map(|queue| {
            format!(
                "{}: 70000{zeros} IR-PCI-MSI 1-edge eth0-TxRx-{queue}\n",
                40 + queue
            )
        })
        .collect();
    made.write("proc/interrupts", &format!("{columns}\n{lines}"));
}

#[test]
fn one_cpu_that_takes_all_interrupts_is_named() {
    let made = Made::good(4);
    made.is_well("nic.interrupts:eth0");
    on_one_cpu(&made, 4, 4);
    let command = "systemctl enable --now irqbalance";
    made.says("nic.interrupts:eth0", Warn, None, command);
    let found = made.finding("nic.interrupts:eth0").found;
    assert!(found.contains("100 % of them on CPU 0"), "{found}");
    assert!(found.contains("41 on CPUs 1"), "{found}");
    // It runs, and does not help.
    made.write("proc/812/comm", "irqbalance\n");
    let command = "grep eth0 /proc/interrupts";
    made.says("nic.interrupts:eth0", Warn, None, command);
}

#[test]
fn a_card_with_one_queue_is_spread_by_the_kernel() {
    let made = Made::nothing();
    made.kernel(128).card(1);
    on_one_cpu(&made, 128, 1);
    let file = "/sys/class/net/eth0/queues/rx-0/rps_cpus";
    let command = format!("echo ffffffff,ffffffff,ffffffff,ffffffff > {file}");
    made.says("nic.interrupts:eth0", Info, None, &command);
    made.write(&file[1..], "00000000,0000000f\n");
    made.is_well("nic.interrupts:eth0");
}

#[test]
fn one_cpu_has_nobody_to_share_interrupts_with() {
    let made = Made::good(1);
    on_one_cpu(&made, 1, 1);
    let report = made.report();
    assert!(
        report
            .findings
            .iter()
            .all(|f| f.id != "nic.interrupts:eth0")
    );
}

#[test]
fn a_full_backlog_is_counted_by_cpu_and_raised() {
    let made = Made::good(2);
    made.is_well("softnet.backlog");
    made.sysctl("net.core.netdev_max_backlog", "1000");
    let command = "sysctl -w net.core.netdev_max_backlog=10000";
    made.says("softnet.backlog", Info, Some(0), command);
    // 0xff of the second CPU, as the file has it.
    made.softnet(&[(1_000_000, 0, 0), (1_000_000, 255, 0)]);
    made.says("softnet.backlog", Warn, Some(255), command);
    let found = made.finding("softnet.backlog").found;
    assert!(
        found.ends_with("dropped 255 of 2000000 packets: CPU 1 255"),
        "{found}"
    );
    made.softnet(&[(10_000, 0, 0), (10_000, 255, 0)]);
    made.says("softnet.backlog", Critical, Some(255), command);
    // It cannot be raised any more: work has to be spread.
    made.sysctl("net.core.netdev_max_backlog", "10000");
    let command = "grep . /sys/class/net/*/queues/rx-*/rps_cpus";
    made.says("softnet.backlog", Critical, Some(255), command);
    // Another network namespace does not show the bound.
    let bound = scene::sysctl_path("net.core.netdev_max_backlog");
    fs::remove_file(made.root.path().join(bound)).unwrap();
    let command = "sysctl -w net.core.netdev_max_backlog=10000    # on the host";
    made.says("softnet.backlog", Critical, Some(255), command);
}

#[test]
fn of_128_cpus_the_worst_are_named() {
    let made = Made::good(128);
    let cpus: Vec<_> = (0..128).map(|cpu| (1_000_000, cpu, 0)).collect();
    made.softnet(&cpus);
    let found = made.finding("softnet.backlog").found;
    let end = ": CPU 127 127, CPU 126 126, CPU 125 125, CPU 124 124 and 123 more";
    assert!(found.ends_with(end), "{found}");
}

#[test]
fn a_cpu_that_stops_too_often_gets_a_larger_budget() {
    let made = Made::good(2);
    made.is_well("softnet.budget");
    made.sysctl("net.core.netdev_budget_usecs", "2000");
    made.softnet(&[(1_000_000, 0, 500), (1_000_000, 0, 0)]);
    let command = "sysctl -w net.core.netdev_budget=600 net.core.netdev_budget_usecs=8000";
    made.says("softnet.budget", Warn, None, command);
    let found = made.finding("softnet.budget").found;
    assert!(
        found.contains("500 times") && found.ends_with("CPU 0 500"),
        "{found}"
    );
    made.sysctl("net.core.netdev_budget", "900");
    let command = "sysctl -w net.core.netdev_budget_usecs=8000";
    made.says("softnet.budget", Warn, None, command);
}

#[test]
fn fragments_that_found_no_memory_are_told_from_those_that_did_not_come() {
    let made = Made::good(2);
    made.is_well("kernel.fragments:ipv4");
    made.snmp(&[("ReasmFails", 40), ("ReasmTimeout", 5)]);
    let command = "sysctl -w net.ipv4.ipfrag_high_thresh=33554432";
    made.says("kernel.fragments:ipv4", Warn, Some(40), command);
    made.snmp(&[
        ("ReasmFails", 40),
        ("ReasmTimeout", 40),
        ("ReasmReqds", 100),
    ]);
    made.says(
        "kernel.fragments:ipv4",
        Critical,
        Some(40),
        "nstat -az | grep Reasm",
    );
    let why = made.finding("kernel.fragments:ipv4").why;
    assert!(why.contains("MTU of the senders"), "{why}");
    let v6 = "Ip6ReasmReqds 10\nIp6ReasmFails 9\nIp6ReasmTimeout 0\n";
    made.write("proc/net/snmp6", v6);
    let command = "sysctl -w net.ipv6.ip6frag_high_thresh=33554432";
    made.says("kernel.fragments:ipv6", Critical, Some(9), command);
}

#[test]
fn a_receive_buffer_that_is_not_granted_is_named() {
    let made = Made::good(2);
    made.is_well("socket.receive_buffer");
    made.sysctl("net.core.rmem_max", "212992");
    // The process passes the limit.
    made.is_well("socket.receive_buffer");
    made.write("proc/4711/status", "CapEff:\t0000000000000400\n");
    let command = "sysctl -w net.core.rmem_max=67108864";
    made.says("socket.receive_buffer", Warn, None, command);
    let finding = made.finding("socket.receive_buffer");
    assert!(finding.found.contains("212992 (208 KiB)"), "{finding:?}");
    assert!(finding.wanted.contains("67108864 (64 MiB)"), "{finding:?}");
}

#[test]
fn without_a_process_the_doctors_own_rights_say_less() {
    let made = Made::nothing();
    made.kernel(2);
    made.sysctl("net.core.rmem_max", "212992");
    let command = "sysctl -w net.core.rmem_max=67108864";
    made.write("proc/self/status", "CapEff:\t000001ffffffffff\n");
    made.says("socket.receive_buffer", Info, None, command);
    made.write("proc/self/status", "CapEff:\t0000000000000000\n");
    made.says("socket.receive_buffer", Warn, None, command);
}

#[test]
fn what_our_sockets_dropped_is_critical() {
    let made = Made::good(2);
    made.is_well("socket.drops:5514");
    made.udp(77);
    made.says("socket.drops:5514", Critical, Some(77), "inrush top --once");
    made.sysctl("net.core.rmem_max", "212992");
    let command = "sysctl -w net.core.rmem_max=67108864";
    made.says("socket.drops:5514", Critical, Some(77), command);
}

#[test]
fn a_port_without_a_socket_is_named() {
    let mut made = Made::good(2);
    made.ask.udp[0].port = 514;
    made.says("socket.drops:514", Warn, None, "ss -lunp 'sport = :514'");
    made.ask.udp[0].port = 0;
    let report = made.report();
    assert!(
        report
            .findings
            .iter()
            .all(|f| !f.id.starts_with("socket.drops"))
    );
}

#[test]
fn what_others_lost_is_told_apart_from_ours() {
    let made = Made::good(2);
    made.is_well("socket.others_full");
    made.udp(77).snmp(&[("RcvbufErrors", 77), ("InErrors", 77)]);
    made.is_well("socket.others_full");
    made.snmp(&[("RcvbufErrors", 100), ("InErrors", 100)]);
    let command = "nstat -az UdpRcvbufErrors Udp6RcvbufErrors";
    made.says("socket.others_full", Warn, Some(23), command);
}

#[test]
fn wrong_checksums_are_named() {
    let made = Made::good(2);
    made.snmp(&[("InCsumErrors", 4)]);
    made.write("proc/net/snmp6", "Udp6InCsumErrors 3\n");
    let command = "nstat -az UdpInCsumErrors Udp6InCsumErrors";
    made.says("socket.checksums", Warn, Some(7), command);
}

#[test]
fn the_kernels_bound_for_all_udp_sockets_must_hold_ours() {
    let made = Made::good(2);
    made.is_well("socket.udp_memory");
    // 2 sockets of 64 MiB, which the kernel doubles, are 65,536 pages.
    made.sysctl("net.ipv4.udp_mem", "10000\t20000\t65535");
    let command = "sysctl -w net.ipv4.udp_mem='32768 49152 65536'";
    made.says("socket.udp_memory", Info, Some(0), command);
    made.snmp(&[("MemErrors", 6)]);
    made.says("socket.udp_memory", Critical, Some(6), command);
    made.sysctl("net.ipv4.udp_mem", "10000\t20000\t65536");
    made.says("socket.udp_memory", Warn, Some(6), "nstat -az UdpMemErrors");
}

#[test]
fn queues_that_drop_are_named_with_their_interface() {
    let mut made = Made::good(2);
    made.is_well("kernel.qdisc");
    made.write("sys/class/net/eth0/ifindex", "7\n");
    let queue = |kind: &str, dropped: u64| queues::QueueingDiscipline {
        interface: 7,
        kind: kind.to_owned(),
        packets: 100_000,
        dropped,
    };
    made.told.queues = Ok(vec![queue("mq", 0), queue("fq_codel", 5)]);
    let command = "tc -s -d qdisc show dev eth0";
    made.says("kernel.qdisc:eth0", Warn, Some(5), command);
    made.told.queues = Ok(vec![queue("pfifo_fast", 5)]);
    let command = "ip link set dev eth0 txqueuelen 10000";
    made.says("kernel.qdisc:eth0", Warn, Some(5), command);
    made.told.queues = Ok(vec![queue("clsact", 500)]);
    let command = "tc -s filter show dev eth0 ingress";
    made.says("kernel.qdisc:eth0", Critical, Some(500), command);
    let stranger = queues::QueueingDiscipline {
        interface: 8,
        ..queue("fq", 1)
    };
    made.told.queues = Ok(vec![stranger]);
    assert!(
        made.finding("kernel.qdisc:interface 8")
            .found
            .contains("fq dropped 1")
    );
    made.told.queues = Err("forbidden".to_owned());
    let report = made.report();
    assert!(
        report
            .findings
            .iter()
            .all(|f| !f.id.starts_with("kernel.qdisc"))
    );
    let hidden = made.finding("host.unread").found;
    assert_eq!(hidden, "queueing disciplines (forbidden)");
}

#[test]
fn what_a_backlog_dropped_is_not_told_of_as_the_cards() {
    let made = Made::good(2);
    made.softnet(&[(10_000, 200, 0), (10_000, 55, 0)]);
    made.counter("rx_dropped", 255);
    assert_eq!(made.finding("softnet.backlog").lost_now, Some(255));
    made.is_well("nic.loss:eth0");
    made.counter("rx_dropped", 260);
    let look = "ip -s -s link show dev eth0";
    made.says("nic.dropped:eth0", Info, Some(5), look);
}

/// A `/sys` that shows `eth0`, in a namespace that has `odd0` in its place.
#[test]
fn interfaces_of_another_namespace_are_not_told_of_as_ours() {
    use netlink_packet_route::link::Stats64;

    let mut made = Made::good(4);
    on_one_cpu(&made, 4, 4);
    made.write("sys/class/net/eth0/ifindex", "2\n");
    made.counter("rx_missed_errors", 50_000);
    let mut statistics = Stats64::default();
    (statistics.rx_packets, statistics.rx_fifo_errors) = (1_000_000, 7);
    let link = |index: u64, name: &str| links::NetworkInterface {
        index,
        name: name.to_owned(),
        mtu: 1280,
        loopback: name == "lo",
        statistics,
        ..links::NetworkInterface::default()
    };
    made.told.links = Ok(vec![link(1, "lo"), link(2, "odd0")]);
    let queue = queues::QueueingDiscipline {
        interface: 2,
        kind: "pfifo".to_owned(),
        packets: 100,
        dropped: 9,
    };
    made.told.queues = Ok(vec![queue]);
    let command = "tc qdisc replace dev odd0 root pfifo limit 10000";
    made.says("kernel.qdisc:odd0", Warn, Some(9), command);
    made.says("nic.fifo:odd0", Warn, Some(7), "ethtool -G odd0 rx 4096");
    assert_eq!(
        made.finding("nic.link:odd0").found,
        "odd0: driver none (virtual), speed unknown, MTU 1280, 0 receive queues"
    );
    let findings = made.report().findings;
    assert!(findings.iter().all(|f| !f.id.ends_with(":eth0")));
    let hidden = made.finding("host.unread").found;
    assert!(hidden.contains("another network namespace"), "{hidden}");
    // The same names and numbers are the same namespace.
    made.told.links = Ok(vec![link(2, "eth0")]);
    made.finding("nic.missed:eth0");
    made.told.links = Ok(vec![link(3, "eth0")]);
    assert!(
        made.report()
            .findings
            .iter()
            .all(|f| f.id != "nic.missed:eth0")
    );
}

/// A container's `eth0` is no card, though the host's interrupts of an `eth0` are seen in it.
#[test]
fn interrupts_of_the_hosts_card_are_not_those_of_a_virtual_one() {
    let made = Made::good(4);
    on_one_cpu(&made, 4, 4);
    fs::remove_dir_all(made.root.path().join("sys/class/net/eth0/device")).unwrap();
    let interrupts = |f: &Finding| f.id == "nic.interrupts:eth0";
    assert!(!made.report().findings.iter().any(interrupts));
}

#[test]
fn what_bounds_the_rate_is_taken_away_and_what_is_short_made_longer() {
    let mut made = Made::good(2);
    made.write("sys/class/net/eth0/ifindex", "7\n");
    for (kind, command) in [
        (
            "tbf",
            "tc qdisc del dev eth0 root    # takes away the bound of the rate",
        ),
        ("bfifo", "tc qdisc replace dev eth0 root pfifo limit 10000"),
        ("fq", "tc -s -d qdisc show dev eth0"),
    ] {
        made.told.queues = Ok(vec![queues::QueueingDiscipline {
            interface: 7,
            kind: kind.to_owned(),
            packets: 100,
            dropped: 1,
        }]);
        made.says("kernel.qdisc:eth0", Warn, Some(1), command);
        assert_eq!(made.finding("kernel.qdisc:eth0").layer, Layer::Qdisc);
    }
}

#[test]
fn packets_too_large_for_the_way_on_are_named_with_the_interface() {
    let mut made = Made::good(1);
    let snmp = |made: &Made, failed: u64| {
        let names = "Forwarding ForwDatagrams OutRequests FragFails";
        made.write(
            "proc/net/snmp",
            &format!("Ip: {names}\nIp: 1 90000 10000 {failed}\n"),
        );
    };
    snmp(&made, 0);
    made.is_well("kernel.too_big:ipv4");
    snmp(&made, 100);
    // One interface alone shows no difference.
    let look = "nstat -az | grep -E 'FragFails|TooBig'";
    made.says("kernel.too_big:ipv4", Warn, Some(100), look);
    assert_eq!(made.finding("kernel.too_big:ipv4").layer, Layer::Ip);
    let other = "sys/class/net/eth1";
    made.write(&format!("{other}/mtu"), "1000\n")
        .write(&format!("{other}/device/x"), "")
        .write(&format!("{other}/statistics/rx_packets"), "0\n");
    let command = "ip link set dev eth1 mtu 1500";
    made.says("kernel.too_big:ipv4", Warn, Some(100), command);
    let v6 = "Ip6InTooBigErrors 3\nIp6OutRequests 9000\nIp6OutForwDatagrams 0\nIp6FragFails 4\n";
    made.write("proc/net/snmp6", v6);
    made.says("kernel.too_big:ipv6", Warn, Some(3), command);
    // Fragments that a queue dropped are counted with it.
    made.told.queues = Ok(vec![queues::QueueingDiscipline {
        interface: 7,
        kind: "tbf".to_owned(),
        packets: 100,
        dropped: 100,
    }]);
    made.is_well("kernel.too_big:ipv4");
}

#[test]
fn a_listener_whose_queue_fills_is_named() {
    let made = Made::good(2);
    made.is_well("tcp.backlog:8088");
    let found = made.finding("tcp.backlog:8088").found;
    assert_eq!(
        found,
        "source hec, TCP port 8088: 0 of at most 4096 connections wait to be accepted"
    );
    let command = "inrush top --once";
    made.tcp(2048, 0, 0);
    made.says("tcp.backlog:8088", Warn, None, command);
    made.tcp(4097, 0, 0);
    made.says("tcp.backlog:8088", Critical, None, command);
    // The smaller bound counts.
    made.tcp(128, 0, 0).sysctl("net.core.somaxconn", "128");
    made.says("tcp.backlog:8088", Critical, None, command);
    made.write("proc/net/tcp", " sl local_address\n");
    made.says("tcp.backlog:8088", Warn, None, "ss -ltnp 'sport = :8088'");
}

#[test]
fn connections_that_found_a_queue_full_are_counted() {
    let made = Made::good(2);
    made.is_well("tcp.listen_overflows");
    made.tcp(0, 7, 9);
    let command = "nstat -az TcpExtListenOverflows; ss -ltn";
    made.says("tcp.listen_overflows", Warn, Some(7), command);
    let found = made.finding("tcp.listen_overflows").found;
    assert!(found.starts_with("7 connections found the queue of a listener full, and 2 were"));
    let command = "sysctl -w net.core.somaxconn=4096";
    made.sysctl("net.core.somaxconn", "128");
    made.says("tcp.listen_overflows", Warn, Some(7), command);
    made.tcp(0, 0, 0);
    made.says("tcp.listen_overflows", Info, Some(0), command);
}
