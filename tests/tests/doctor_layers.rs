//! `inrush doctor` names the layer at which events are lost: each is provoked in turn, between two
//! hosts that are network namespaces with a cable (veth), and every event that was sent is in the
//! output or in the one counter that the doctor names.
//!
//! A program of tests of its own, since a full backlog is one of a CPU, whoever's packets are in
//! it: the other tests, which count what they send over the loopback, would lose some.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use inrush_tests::*;
use nix::sys::signal::Signal;
use serde_json::Value;

/// What is sent to, over IPv4 only: what IPv6 says by itself would be lost and counted with it.
const PORT: u16 = 5514;

/// One provocation at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Two hosts with a cable between them: `a` sends, `b` receives. They know each other's address on
/// the cable: what waits for ARP is bounded, and what is lost there is no layer's.
struct Hosts {
    a: String,
    b: String,
    /// Behind `b`, for a test that makes it.
    c: String,
    _alone: MutexGuard<'static, ()>,
}

/// Where namespaces cannot be made, with the reason.
fn hosts() -> Result<Hosts, &'static str> {
    if !is_root() {
        return Err("only root makes network namespaces");
    }
    if tool("ip").is_none() || tool("tc").is_none() {
        return Err("no ip or tc here: apt install iproute2");
    }
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let own = std::process::id();
    let hosts = Hosts {
        a: format!("inrush-a-{own}"),
        b: format!("inrush-b-{own}"),
        c: format!("inrush-c-{own}"),
        _alone: alone,
    };
    for name in [&hosts.a, &hosts.b] {
        if !Command::new("ip")
            .args(["netns", "add", name])
            .status()
            .unwrap()
            .success()
        {
            return Err("the system gives no network namespace");
        }
        within(name, "sysctl -qw net.ipv6.conf.all.disable_ipv6=1");
        within(name, "ip link set lo up");
    }
    let (a, b) = (&hosts.a, &hosts.b);
    within(
        a,
        &format!(
            "ip link add wire-a address 02:00:00:00:00:01 type veth \
             peer name wire-b address 02:00:00:00:00:02 netns {b}"
        ),
    );
    within(
        a,
        "ip addr add 192.0.2.1/24 dev wire-a; ip link set wire-a up; \
         ip neigh add 192.0.2.2 lladdr 02:00:00:00:00:02 dev wire-a",
    );
    within(
        b,
        "ip addr add 192.0.2.2/24 dev wire-b; ip link set wire-b up; \
         ip neigh add 192.0.2.1 lladdr 02:00:00:00:00:01 dev wire-b",
    );
    Ok(hosts)
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in [&self.a, &self.b, &self.c] {
            if !Path::new("/run/netns").join(name).exists() {
                continue;
            }
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}

/// Runs a line of shell on a host, with its own `/sys`.
fn within(host: &str, line: &str) -> String {
    run_ok(Command::new("ip").args(["netns", "exec", host, "sh", "-ec", line]))
}

/// `inrush` receives on a host, with these options for UDP, into `out.jsonl`.
fn receiver(host: &str, udp: &str) -> Inrush {
    let yaml = format!(
        "data_dir: \"{{dir}}/data\"\nsources:\n  syslog:\n    type: syslog\n    \
         listen: [udp://0.0.0.0:{PORT}]\n    udp: {udp}\n\
         destinations:\n  out: {{ type: file, path: \"{{dir}}/out.jsonl\" }}\n"
    );
    let words = ["ip", "netns", "exec", host].map(str::to_owned);
    let options = Options {
        wrapper: &words,
        ..Options::default()
    };
    Inrush::with(&yaml, options)
}

/// Sends so many messages from `a` to `b` as fast as it goes.
fn send(hosts: &Hosts, number: u64, options: &str) {
    send_to(hosts, "192.0.2.2", number, options);
}

fn send_to(hosts: &Hosts, address: &str, number: u64, options: &str) {
    let binary = binary();
    let binary = binary.display();
    let line = format!(
        "taskset -c 0 {binary} load udp://{address}:{PORT} --rate 0 --number {number} {options}"
    );
    within(&hosts.a, &line);
}

/// Waits until so many events are in the output, and sees that no more are.
fn await_events(inrush: &Inrush, events: u64) {
    let count = || u64::try_from(inrush.events_so_far("out.jsonl").len()).unwrap();
    eventually(&format!("{events} events in the output"), || {
        (count() >= events).then_some(())
    });
    assert_eq!(count(), events);
}

/// What `inrush doctor --json` says on a host.
fn doctor(host: &str, config: &Path) -> Vec<Value> {
    let (binary, config) = (binary(), config.display());
    let line = format!("{} doctor --no-rate --json -c {config}", binary.display());
    let report: Value = serde_json::from_str(&within(host, &line)).unwrap();
    report["findings"].as_array().unwrap().clone()
}

fn losses(findings: &[Value]) -> BTreeMap<String, u64> {
    let lossy = findings.iter().filter_map(|finding| {
        let lost = finding["lost_now"].as_u64()?;
        Some((finding["id"].as_str()?.to_owned(), lost))
    });
    lossy.collect()
}

/// The only finding that counts more lost than before, and how many more.
#[track_caller]
fn grown<'a>(before: &[Value], after: &'a [Value]) -> (&'a Value, u64) {
    let was = losses(before);
    let mut more: Vec<(String, u64)> = losses(after)
        .into_iter()
        .map(|(id, lost)| {
            (
                id.clone(),
                lost - was.get(&id).copied().unwrap_or(0).min(lost),
            )
        })
        .collect();
    more.retain(|(_, lost)| *lost > 0);
    let [(id, lost)] = &more[..] else {
        panic!("not one layer: {more:?}\n{after:#?}");
    };
    let finding = after.iter().find(|finding| finding["id"] == id.as_str());
    (finding.unwrap(), *lost)
}

/// Whether nothing more is lost than before.
#[track_caller]
fn nothing_grown(before: &[Value], after: &[Value]) {
    let was = losses(before);
    for (id, lost) in losses(after) {
        assert!(
            was.get(&id).is_some_and(|was| *was >= lost),
            "{id} {lost}: {after:#?}"
        );
    }
}

/// That a finding is of this layer and bad, and the command that it gives.
#[track_caller]
fn remedy(finding: &Value, id: &str, layer: &str) -> String {
    assert_eq!(finding["id"], id, "{finding:#}");
    assert_eq!(finding["layer"], layer, "{finding:#}");
    let severity = finding["severity"].as_str().unwrap();
    assert!(matches!(severity, "critical" | "warn"), "{finding:#}");
    finding["command"].as_str().unwrap().to_owned()
}

/// A process that reads nothing, and a buffer that is soon full.
#[test]
fn a_full_socket_buffer() {
    const SENT: u64 = 20_000;
    let hosts = match hosts() {
        Ok(hosts) => hosts,
        Err(why) => skip!("{why}"),
    };
    let inrush = receiver(&hosts.b, "{ receive_buffer: 64KiB, sockets: 1 }");
    let config = inrush.path("inrush.yaml");
    let before = doctor(&hosts.b, &config);
    inrush.signal(Signal::SIGSTOP);
    send(&hosts, SENT, "--size 400");
    let after = doctor(&hosts.b, &config);
    inrush.signal(Signal::SIGCONT);
    let (finding, lost) = grown(&before, &after);
    let command = remedy(finding, &format!("socket.drops:{PORT}"), "socket");
    let named = format!("inrush top --once -c {}", config.display());
    assert_eq!(command, named);
    assert!(lost < SENT, "{finding:#}");
    await_events(&inrush, SENT - lost);
}

/// The CPU that the packets are handed to has more to do for each than the one that sends, so that
/// they wait in its backlog. No setting of the host is touched.
#[test]
fn a_full_backlog() {
    const SENT: u64 = 12_000;
    const FILTERS: u32 = 5_000;
    let cpus = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    if cpus.trim() == "0" {
        skip!("with one CPU packets go the whole way before the next is sent");
    }
    let hosts = match hosts() {
        Ok(hosts) => hosts,
        Err(why) => skip!("{why}"),
    };
    // As many sockets as fill the backlog, for what waits counts against the sender's buffer; and
    // bursts that are cut before the cable, so that the backlog holds packets and no bursts.
    within(&hosts.a, "ip link set wire-a gso_max_segs 1");
    within(
        &hosts.b,
        "echo 2 > /sys/class/net/wire-b/queues/rx-0/rps_cpus",
    );
    let inrush = receiver(&hosts.b, "{ sockets: 1 }");
    let filters: String = (0..FILTERS)
        .map(|n| {
            let address = format!("198.51.{}.{}", n / 256 % 256, n % 256);
            format!(
                "filter add dev wire-b ingress protocol ip pref 1 u32 match ip src {address} \
                 flowid 1:1\n"
            )
        })
        .collect();
    let batch = inrush.path("filters");
    std::fs::write(&batch, filters).unwrap();
    within(&hosts.b, "tc qdisc add dev wire-b clsact");
    within(&hosts.b, &format!("tc -batch {}", batch.display()));
    let config = inrush.path("inrush.yaml");
    let before = doctor(&hosts.b, &config);
    send(&hosts, SENT, "--size 120 --gso 60 --active-connections 16");
    let after = doctor(&hosts.b, &config);
    let (finding, lost) = grown(&before, &after);
    let command = remedy(finding, "softnet.backlog", "softnet");
    // The bound is the host's, which a namespace does not show.
    assert!(
        command.starts_with("sysctl -w net.core.netdev_max_backlog="),
        "{command}"
    );
    await_events(&inrush, SENT - lost);
}

/// A bound of the rate on the way out; without it all arrives.
#[test]
fn a_queueing_discipline_that_drops() {
    const SENT: u64 = 2_000;
    let hosts = match hosts() {
        Ok(hosts) => hosts,
        Err(why) => skip!("{why}"),
    };
    let inrush = receiver(&hosts.b, "{ sockets: 1 }");
    let config = inrush.path("inrush.yaml");
    within(
        &hosts.a,
        "tc qdisc add dev wire-a root tbf rate 10mbit burst 4000 limit 8000",
    );
    let before = doctor(&hosts.a, &config);
    send(&hosts, SENT, "--size 400");
    let after = doctor(&hosts.a, &config);
    let (finding, lost) = grown(&before, &after);
    let command = remedy(finding, "kernel.qdisc:wire-a", "qdisc");
    await_events(&inrush, SENT - lost);
    within(&hosts.a, &command);
    let before = doctor(&hosts.a, &config);
    send(&hosts, SENT, "--size 400");
    nothing_grown(&before, &doctor(&hosts.a, &config));
    await_events(&inrush, 2 * SENT - lost);
}

/// No memory for fragments; with as much as the doctor says all arrives.
#[test]
fn fragments_without_memory() {
    const SENT: u64 = 500;
    let hosts = match hosts() {
        Ok(hosts) => hosts,
        Err(why) => skip!("{why}"),
    };
    within(&hosts.a, "ip link set wire-a mtu 1280");
    let inrush = receiver(&hosts.b, "{ sockets: 1 }");
    let low = "net.ipv4.ipfrag_low_thresh=0";
    within(
        &hosts.b,
        &format!("sysctl -qw {low} net.ipv4.ipfrag_high_thresh=0"),
    );
    let config = inrush.path("inrush.yaml");
    let before = doctor(&hosts.b, &config);
    send(&hosts, SENT, "--size 3000");
    let after = doctor(&hosts.b, &config);
    let (finding, lost) = grown(&before, &after);
    let command = remedy(finding, "kernel.fragments:ipv4", "ip");
    assert_eq!(command, "sysctl -w net.ipv4.ipfrag_high_thresh=33554432");
    // The kernel counts each of the three fragments of a message.
    assert_eq!(lost, 3 * SENT);
    within(&hosts.b, &command);
    let before = doctor(&hosts.b, &config);
    send(&hosts, SENT, "--size 3000");
    nothing_grown(&before, &doctor(&hosts.b, &config));
    await_events(&inrush, SENT);
}

/// Fragments that the way loses: the host that receives says so, the one whose queue drops them
/// says that, and neither says the other's.
#[test]
fn fragments_lost_on_the_way() {
    const SENT: u64 = 500;
    let hosts = match hosts() {
        Ok(hosts) => hosts,
        Err(why) => skip!("{why}"),
    };
    within(&hosts.a, "ip link set wire-a mtu 1280");
    within(
        &hosts.a,
        "tc qdisc add dev wire-a root tbf rate 10mbit burst 4000 limit 8000",
    );
    // Seconds that a fragment waits for the others.
    within(&hosts.b, "sysctl -qw net.ipv4.ipfrag_time=1");
    let inrush = receiver(&hosts.b, "{ sockets: 1 }");
    let config = inrush.path("inrush.yaml");
    let (before_a, before_b) = (doctor(&hosts.a, &config), doctor(&hosts.b, &config));
    send(&hosts, SENT, "--size 3000");
    // Before the first fragment comes none waits either.
    eventually("fragments to be given up, and none to wait", || {
        let line = "awk '/^Ip: [0-9]/ { print $17 }' /proc/net/snmp; grep FRAG: /proc/net/sockstat";
        let text = within(&hosts.b, line);
        let none_waits = text.trim().ends_with("inuse 0 memory 0");
        (none_waits && !text.starts_with("0\n")).then_some(())
    });
    let (after_a, after_b) = (doctor(&hosts.a, &config), doctor(&hosts.b, &config));
    let (queue, _) = grown(&before_a, &after_a);
    remedy(queue, "kernel.qdisc:wire-a", "qdisc");
    let (fragments, lost) = grown(&before_b, &after_b);
    let command = remedy(fragments, "kernel.fragments:ipv4", "ip");
    assert_eq!(command, "nstat -az | grep Reasm");
    let why = fragments["why"].as_str().unwrap();
    assert!(why.contains("lost on the way"), "{fragments:#}");
    // Those of which no fragment came are in the queue's count alone.
    let arrived = u64::try_from(inrush.events_so_far("out.jsonl").len()).unwrap();
    assert!(
        lost > 0 && arrived + lost <= SENT,
        "{arrived} {fragments:#}"
    );
}

/// A way on with a smaller MTU than the way before it, and packets that must not be cut: the host
/// between says so, until its MTU is as large.
#[test]
fn packets_too_large_for_the_way_on() {
    const SENT: u64 = 200;
    const FAR: &str = "198.51.100.2";
    let hosts = match hosts() {
        Ok(hosts) => hosts,
        Err(why) => skip!("{why}"),
    };
    let Hosts { a, b, c, .. } = &hosts;
    run_ok(Command::new("ip").args(["netns", "add", c]));
    within(
        b,
        &format!(
            "ip link add wire-c address 02:00:00:00:00:03 type veth \
             peer name wire-d address 02:00:00:00:00:04 netns {c}"
        ),
    );
    within(
        b,
        "ip addr add 198.51.100.1/24 dev wire-c; ip link set wire-c up mtu 1000; \
         ip neigh add 198.51.100.2 lladdr 02:00:00:00:00:04 dev wire-c; \
         sysctl -qw net.ipv4.ip_forward=1",
    );
    within(
        c,
        "ip link set lo up; ip addr add 198.51.100.2/24 dev wire-d; ip link set wire-d up; \
         ip route add default via 198.51.100.1",
    );
    within(a, "ip route add default via 192.0.2.2");
    let inrush = receiver(c, "{ sockets: 1 }");
    let config = inrush.path("inrush.yaml");
    let before = doctor(b, &config);
    send_to(&hosts, FAR, SENT, "--size 1400");
    let after = doctor(b, &config);
    let (finding, lost) = grown(&before, &after);
    let command = remedy(finding, "kernel.too_big:ipv4", "ip");
    assert_eq!(command, "ip link set dev wire-c mtu 1500");
    // The sender was told, and cut the others itself.
    await_events(&inrush, SENT - lost);
    within(b, &command);
    within(a, "ip route flush cache");
    let before = doctor(b, &config);
    send_to(&hosts, FAR, SENT, "--size 1400");
    nothing_grown(&before, &doctor(b, &config));
    await_events(&inrush, 2 * SENT - lost);
}

/// In a plain `unshare -n`, `/sys` is of the namespace outside: its interfaces are not ours.
#[test]
fn names_are_those_of_the_namespace_that_the_doctor_runs_in() {
    if !is_root() || tool("ip").is_none() || tool("unshare").is_none() {
        skip!("only root makes network namespaces, with iproute2 and util-linux");
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let binary = binary();
    let binary = binary.display();
    let line = format!(
        "ip link add odd0 type veth peer name odd1; ip link set odd1 up; ip link set odd0 up\n\
         ip addr add 192.0.2.1/24 dev odd0\n\
         ip neigh add 192.0.2.2 lladdr 02:00:00:00:00:02 dev odd0\n\
         tc qdisc add dev odd0 root tbf rate 1mbit burst 2000 limit 3000\n\
         {binary} load udp://192.0.2.2:{PORT} --rate 0 --number 500 --size 1000 >&2\n\
         {binary} doctor --no-rate --json"
    );
    let output = run_ok(
        Command::new("unshare")
            .args(["-n", "sh", "-ec", &line])
            .current_dir(dir.path()),
    );
    let report: Value = serde_json::from_str(&output).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let queue = |finding: &&Value| finding["id"] == "kernel.qdisc:odd0";
    let queue = findings
        .iter()
        .find(queue)
        .unwrap_or_else(|| panic!("{findings:#?}"));
    assert!(queue["lost_now"].as_u64().unwrap() > 0, "{queue:#}");
    let outside = std::fs::read_dir("/sys/class/net").unwrap();
    for name in outside.map(|entry| entry.unwrap().file_name().into_string().unwrap()) {
        let ours = |finding: &Value| {
            finding["id"]
                .as_str()
                .unwrap()
                .ends_with(&format!(":{name}"))
        };
        assert!(!findings.iter().any(ours), "{name}: {findings:#?}");
    }
    let hidden = findings
        .iter()
        .find(|finding| finding["id"] == "host.unread")
        .unwrap();
    assert!(
        hidden["found"]
            .as_str()
            .unwrap()
            .contains("another network namespace"),
        "{hidden:#}"
    );
}
