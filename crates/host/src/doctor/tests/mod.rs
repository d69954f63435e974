//! The checks over hosts that the tests made up: a folder with a `/proc` and a `/sys` in it.
#![allow(clippy::unwrap_used)]

mod apply;
mod asked;
mod below;
mod cards;
mod files;
mod network;
mod report;

use std::fs;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use super::probe::{DiskProbe, FreeSpace};
use super::*;

const MIB: u64 = 1024 * 1024;
const GIB: u64 = 1024 * MIB;

/// A host, good until a test makes it worse.
struct Made {
    root: TempDir,
    ask: HostRequirements,
    disk: DiskProbe,
    told: told::NetlinkFacts,
}

impl Made {
    /// A host without any file.
    fn nothing() -> Self {
        let root = tempfile::tempdir().unwrap();
        Self {
            ask: HostRequirements {
                data_dir: root.path().join("data"),
                udp: vec![UdpRequirement {
                    source: "syslog".to_owned(),
                    port: 5514,
                    sockets: 2,
                    receive_buffer_bytes: 64 * MIB,
                }],
                tcp: vec![TcpRequirement {
                    source: "hec".to_owned(),
                    port: 8088,
                    backlog: 4096,
                }],
                connections: 32_768,
                queue_memory_bytes: 128 * MIB,
                queue_disk_bytes: 10 * GIB,
                reserve_bytes: 512 * MIB,
                ..HostRequirements::default()
            },
            disk: DiskProbe {
                folder: "/data/inrush".into(),
                space: Some(FreeSpace {
                    free_bytes: 100 * GIB,
                    total_bytes: 200 * GIB,
                }),
                queue_bytes: GIB,
                syncs: Ok(vec![Duration::from_millis(1); 16]),
            },
            told: told::NetlinkFacts {
                queues: Err("not asked".to_owned()),
                links: Err("not asked".to_owned()),
                cards: Err("not asked".to_owned()),
            },
            root,
        }
    }

    /// A host as it should be, on which process 4711 is ours.
    fn good(cpus: usize) -> Self {
        let mut made = Self::nothing();
        made.told.queues = Ok(Vec::new());
        made.told.cards = Ok(Vec::new());
        made.kernel(cpus)
            .card(cpus)
            .udp(0)
            .tcp(0, 0, 0)
            .process()
            .below();
        made
    }

    fn write(&self, path: &str, text: &str) -> &Self {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn sysctl(&self, key: &str, value: &str) -> &Self {
        self.write(&scene::sysctl_path(key), &format!("{value}\n"))
    }

    fn kernel(&self, cpus: usize) -> &Self {
        self.sysctl("net.core.rmem_max", "67108864")
            .sysctl("net.core.rmem_default", "212992")
            .sysctl("net.core.somaxconn", "4096")
            .sysctl("net.core.netdev_max_backlog", "10000")
            .sysctl("net.core.netdev_budget", "300")
            .sysctl("net.core.netdev_budget_usecs", "8000")
            .sysctl("net.ipv4.ipfrag_high_thresh", "4194304")
            .sysctl("net.ipv6.ip6frag_high_thresh", "4194304")
            .sysctl("net.ipv4.udp_mem", "190000\t250000\t380000");
        self.softnet(&vec![(1_000_000, 0, 3); cpus]);
        self.write(
            "sys/devices/system/cpu/online",
            &format!("0-{}\n", cpus - 1),
        )
        .write("proc/meminfo", "MemTotal:  8000000 kB\n")
        .snmp(&[]);
        let clock = "sys/devices/system/clocksource/clocksource0";
        self.write(&format!("{clock}/current_clocksource"), "tsc\n")
            .write(
                &format!("{clock}/available_clocksource"),
                "tsc hpet acpi_pm \n",
            )
    }

    /// Packets taken, dropped and left of each CPU.
    fn softnet(&self, cpus: &[(u64, u64, u64)]) -> &Self {
        let line = |(cpu, (taken, dropped, left)): (usize, &(u64, u64, u64))| {
            format!("{taken:08x} {dropped:08x} {left:08x} 0 0 0 0 0 0 0 0 0 {cpu:08x} 0 0\n")
        };
        let text: String = cpus.iter().enumerate().map(line).collect();
        self.write("proc/net/softnet_stat", &text)
    }

    /// `/proc/net/snmp` with these values, and 0 or a million where none is given.
    fn snmp(&self, values: &[(&str, u64)]) -> &Self {
        let value = |name: &str, fine: u64| {
            let given = values.iter().find(|(given, _)| *given == name);
            given.map_or(fine, |(_, value)| *value).to_string()
        };
        let ip = ["ReasmTimeout", "ReasmReqds", "ReasmFails"];
        let udp = [
            "InDatagrams",
            "InErrors",
            "RcvbufErrors",
            "InCsumErrors",
            "MemErrors",
        ];
        let fine = |name: &str| match name {
            "ReasmReqds" | "InDatagrams" => 1_000_000,
            _ => 0,
        };
        let mut text = String::new();
        for (table, names) in [("Ip", &ip[..]), ("Udp", &udp[..])] {
            let numbers: Vec<String> = names.iter().map(|name| value(name, fine(name))).collect();
            text += &format!(
                "{table}: {}\n{table}: {}\n",
                names.join(" "),
                numbers.join(" ")
            );
        }
        self.write("proc/net/snmp", &text)
    }

    /// A card with as many queues and interrupts as there are CPUs, each on its own.
    fn card(&self, cpus: usize) -> &Self {
        for (file, value) in [("mtu", "1500"), ("speed", "10000"), ("operstate", "up")] {
            self.write(&format!("sys/class/net/eth0/{file}"), &format!("{value}\n"));
        }
        self.write("sys/class/net/eth0/device/numa_node", "0\n");
        let driver = self.root.path().join("sys/class/net/eth0/device/driver");
        if !driver.is_symlink() {
            std::os::unix::fs::symlink("../../drivers/ixgbe", driver).unwrap();
        }
        self.counter("rx_packets", 10_000_000);
        let mut text = "      ".to_owned();
        (0..cpus).for_each(|cpu| text += &format!(" CPU{cpu}"));
        for queue in 0..cpus {
            let queues = format!("sys/class/net/eth0/queues/rx-{queue}");
            self.write(&format!("{queues}/rps_cpus"), "00000000,00000000\n");
            text += &format!("\n {}:", 40 + queue);
            (0..cpus).for_each(|cpu| text += if cpu == queue { " 50000" } else { " 0" });
            text += &format!(" IR-PCI-MSI 1-edge eth0-TxRx-{queue}");
            let list = format!("proc/irq/{}/smp_affinity_list", 40 + queue);
            self.write(&list, &format!("{queue}\n"));
        }
        text += "\nNMI: 0 Non-maskable interrupts\n";
        self.write("proc/interrupts", &text)
    }

    fn counter(&self, name: &str, value: u64) -> &Self {
        let file = format!("sys/class/net/eth0/statistics/{name}");
        self.write(&file, &format!("{value}\n"))
    }

    /// Two sockets of ours, the second of which has lost `dropped`.
    fn udp(&self, dropped: u64) -> &Self {
        let socket = |dropped: u64| {
            format!(
                " 1: 00000000:158A 00000000:0000 07 00000000:00000000 00:00000000 00000000 \
                 0 0 77 2 0000000000000000 {dropped}\n"
            )
        };
        let text = format!(" sl local_address\n{}{}", socket(0), socket(dropped));
        self.write("proc/net/udp", &text)
    }

    /// A listener of ours at which so many connections wait, on a host with so many overflows and
    /// drops.
    fn tcp(&self, waiting: u64, overflows: u64, drops: u64) -> &Self {
        let line = format!(
            " 0: 00000000:1F98 00000000:0000 0A 00000000:{waiting:08X} 00:00000000 00000000 0 0 7\n"
        );
        let netstat = format!(
            "TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 0 {overflows} {drops}\n"
        );
        self.write("proc/net/tcp", &format!(" sl local_address\n{line}"))
            .write("proc/net/netstat", &netstat)
    }

    /// Our process, with `CAP_NET_ADMIN`.
    fn process(&self) -> &Self {
        self.write("data/owner.pid", "4711\n")
            .write("proc/4711/comm", "inrush\n")
            .write(
                "proc/4711/status",
                "Name:\tinrush\nCapEff:\t0000000000001000\n",
            )
            .write("proc/4711/cgroup", "0::/system.slice/inrush.service\n")
            .limits("proc/4711", "65536")
    }

    fn limits(&self, folder: &str, hard: &str) -> &Self {
        let text = format!(
            "Limit          Soft Limit  Hard Limit  Units\n\
             Max open files 1024        {hard}      files\n"
        );
        self.write(&format!("{folder}/limits"), &text)
    }

    /// What is below: control groups, memory, disk.
    fn below(&self) -> &Self {
        for group in ["", "/system.slice", "/system.slice/inrush.service"] {
            let controllers = format!("sys/fs/cgroup{group}/cgroup.controllers");
            self.write(&controllers, "cpu memory\n");
        }
        self.write(
            "sys/kernel/mm/transparent_hugepage/enabled",
            "always [madvise] never\n",
        )
        .mount("/", "ext4")
    }

    /// A line of `mountinfo` for `/`, and one for `point`.
    fn mount(&self, point: &str, kind: &str) -> &Self {
        let line = |point: &str, kind: &str| {
            format!("30 1 254:0 / {point} rw,relatime shared:1 - {kind} /dev/vda rw\n")
        };
        let text = format!("{}{}", line("/", "ext4"), line(point, kind));
        self.write("proc/self/mountinfo", &text)
    }

    /// A file in the folder of our process's control group.
    fn group(&self, file: &str, text: &str) -> &Self {
        let folder = "sys/fs/cgroup/system.slice/inrush.service";
        self.write(&format!("{folder}/{file}"), text)
    }

    fn report(&self) -> DoctorReport {
        let root = self.root.path();
        let (ask, disk, told) = (self.ask.clone(), self.disk.clone(), self.told.clone());
        let scene = HostFacts::new(root, ask, disk, told, 4096);
        examine_scene(root, &scene)
    }

    /// The finding with this id, which there must be.
    fn finding(&self, id: &str) -> Finding {
        let report = self.report();
        let found = report.findings.iter().find(|finding| finding.id == id);
        found
            .unwrap_or_else(|| panic!("no {id} in {:#?}", report.findings))
            .clone()
    }

    /// Severity and lost packets of the finding with this id, and its command.
    #[track_caller]
    fn says(&self, id: &str, severity: Severity, lost: Option<u64>, command: &str) {
        let finding = self.finding(id);
        assert_eq!(finding.severity, severity, "{finding:#?}");
        assert_eq!(finding.lost_now, lost, "{finding:#?}");
        assert_eq!(finding.command.as_deref(), Some(command), "{finding:#?}");
    }

    /// Severity of the finding with this id, and its command if it has one.
    #[track_caller]
    fn answers(&self, id: &str, severity: Severity, command: Option<&str>) {
        let finding = self.finding(id);
        assert_eq!(finding.severity, severity, "{finding:#?}");
        assert_eq!(finding.command.as_deref(), command, "{finding:#?}");
    }

    /// The finding with this id has nothing to complain of.
    #[track_caller]
    fn is_well(&self, id: &str) {
        let finding = self.finding(id);
        assert_eq!(finding.severity, Severity::Ok, "{finding:#?}");
        assert_eq!(finding.command, None, "{finding:#?}");
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}
