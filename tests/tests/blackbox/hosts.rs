//! Hosts that events do not name: what their sender called itself, and what DNS has for it.

use std::net::{SocketAddr, UdpSocket};

use inrush_tests::*;
use serde_json::Value;

use crate::{TCP, UDP_TCP, to_file};

/// TCP behind a PROXY header, so that senders have any address, with DNS.
fn with_dns(dns: &Dns, more: &str) -> String {
    let server = dns.address();
    let source = to_file(TCP, "stream: { proxy_protocol: required }");
    format!(
        "{source}hosts:\n  reverse_dns: {{ enabled: true, timeout: 60s, servers: [\"{server}\"] }}\n\
         {more}"
    )
}

/// Sends one message from that address.
fn from(inrush: &Inrush, ip: &str, message: &str) {
    let family = if ip.contains(':') { "TCP6" } else { "TCP4" };
    let own = if ip.contains(':') { "::1" } else { "127.0.0.1" };
    let header = format!("PROXY {family} {ip} {own} 56324 514\r\n");
    let mut connection = Tcp::connect(inrush.address("tcp"));
    connection.send(header).send(format!("{message}\n"));
}

/// A message of a host; `-` is none.
fn of(host: &str, n: usize) -> String {
    format!("<134>1 2026-03-04T05:06:07Z {host} app - ID{n} - number {n}")
}

/// The hosts of the first `n` events, by the number of the message; where none is known it is the
/// sender's address.
fn hosts(inrush: &Inrush, n: u64) -> Vec<Value> {
    let mut events = inrush.collected(n);
    let number = |event: &Value| {
        event["msg_id"].as_str().unwrap()[2..]
            .parse::<usize>()
            .unwrap()
    };
    events.sort_by_key(number);
    events
        .into_iter()
        .map(|event| event["host"].clone())
        .collect()
}

/// The value of a metric, with its labels as they are shown.
fn metric(inrush: &Inrush, name: &str) -> u64 {
    let page = inrush.http("GET", "/metrics").body;
    let line = page
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0, |value| value.parse().unwrap())
}

/// Waits until DNS was asked for that many senders, with that outcome.
fn looked_up(inrush: &Inrush, outcome: &str, n: u64) {
    let name = format!("inrush_reverse_dns_lookups_total{{outcome=\"{outcome}\"}}");
    eventually(&name, || (metric(inrush, &name) >= n).then_some(()));
}

/// Lets in the event `n` of a sender that nobody has asked for, and waits until it is the `found`th
/// with a name: questions go out one behind the other, so whoever was to be asked for was.
fn ask_for_one_more(inrush: &Inrush, dns: &Dns, n: usize, found: u64) {
    inrush.conserved(n as u64);
    dns.say("192.0.2.250", DnsReply::Name("last".into()));
    from(inrush, "192.0.2.250", &of("-", n));
    looked_up(inrush, "found", found);
}

#[test]
fn dns_names_later_events_and_the_first_does_not_wait() {
    let dns = Dns::start();
    dns.say("192.0.2.7", DnsReply::Name("fw1.example.com".into()));
    dns.say("2001:db8::7", DnsReply::Name("fw6.example.com".into()));
    dns.hold(true);
    let inrush = Inrush::start(&with_dns(&dns, ""));
    from(&inrush, "192.0.2.7", &of("-", 0));
    from(&inrush, "2001:db8::7", &of("2001:db8::1", 1));
    inrush.conserved(2);
    let answered = "inrush_reverse_dns_lookups_total{outcome=\"found\"}";
    assert_eq!(
        metric(&inrush, answered),
        0,
        "both are through without an answer"
    );
    dns.hold(false);
    looked_up(&inrush, "found", 2);
    from(&inrush, "192.0.2.7", &of("-", 2));
    from(&inrush, "192.0.2.7", &of("192.0.2.7", 3));
    from(&inrush, "2001:db8::7", &of("-", 4));
    from(&inrush, "192.0.2.7", &of("own", 5));
    let hosts = hosts(&inrush, 6);
    assert_eq!(hosts[..2], ["192.0.2.7", "2001:db8::1"]);
    assert_eq!(hosts[2..], ["fw1", "fw1", "fw6", "own"]);
    assert_eq!(dns.asked("192.0.2.7"), 1);
    let given = "inrush_names_given_events_total{origin=\"dns\"}";
    assert_eq!(metric(&inrush, given), 3);
}

#[test]
fn what_has_no_name_is_not_asked_for_again_at_once() {
    let dns = Dns::start();
    dns.say("192.0.2.7", DnsReply::NoName);
    dns.say("192.0.2.8", DnsReply::Name("a\"b.example.com".into()));
    let inrush = Inrush::start(&with_dns(&dns, ""));
    from(&inrush, "192.0.2.7", &of("-", 0));
    from(&inrush, "192.0.2.8", &of("192.0.2.8", 1));
    looked_up(&inrush, "none", 1);
    looked_up(&inrush, "bad_name", 1);
    from(&inrush, "192.0.2.7", &of("-", 2));
    from(&inrush, "192.0.2.8", &of("192.0.2.8", 3));
    ask_for_one_more(&inrush, &dns, 4, 1);
    let hosts = hosts(&inrush, 5);
    assert_eq!(
        hosts[..4],
        ["192.0.2.7", "192.0.2.8", "192.0.2.7", "192.0.2.8"]
    );
    assert_eq!((dns.asked("192.0.2.7"), dns.asked("192.0.2.8")), (1, 1));
}

#[test]
fn a_server_that_never_answers_loses_and_delays_nothing() {
    const SENDERS: u64 = 200;
    let dns = Dns::start();
    let inrush = Inrush::start(&with_dns(&dns, ""));
    for sender in 0..SENDERS {
        let ip = format!("198.51.100.{sender}");
        let three = [of("-", 0), of(&ip, 1), of("-", 2)].join("\n");
        from(&inrush, &ip, &three);
    }
    inrush.conserved(3 * SENDERS);
    let failed = "inrush_reverse_dns_lookups_total{outcome=\"failed\"}";
    assert_eq!(
        metric(&inrush, failed),
        0,
        "no lookup was given up before all had come through"
    );
    // Which senders are the first of those that it has room for depends on the workers.
    eventually("the server to be asked", || {
        let asked = |sender| dns.asked(&format!("198.51.100.{sender}")) > 0;
        (0..SENDERS).any(asked).then_some(())
    });
}

/// A datagram from one of loopback's addresses.
fn datagram(from: &str, to: SocketAddr, message: &str) {
    let socket = UdpSocket::bind((from, 0)).unwrap();
    socket.send_to(message.as_bytes(), to).unwrap();
}

const REMEMBERING: &str = "hosts: { remember_names: true }\n";

#[test]
fn a_sender_is_called_what_it_called_itself_unless_it_passes_others_on() {
    let transform = "transforms: [{ match: \"host == 'fw2'\", set: { index: \"'named'\" } }]\n";
    let yaml = format!("{}{REMEMBERING}{transform}", to_file(UDP_TCP, ""));
    let inrush = Inrush::start(&yaml);
    let to = inrush.address("udp");
    datagram("127.0.0.2", to, &of("192.0.2.2", 0));
    datagram("127.0.0.2", to, &of("fw2", 1));
    datagram("127.0.0.3", to, &of("db1", 2));
    inrush.conserved(3);
    datagram("127.0.0.3", to, &of("db2", 3));
    inrush.conserved(4);
    datagram("127.0.0.2", to, &of("192.0.2.2", 4));
    datagram("127.0.0.2", to, &of("-", 5));
    datagram("127.0.0.3", to, &of("192.0.2.3", 6));
    datagram("127.0.0.3", to, &of("-", 7));
    datagram("127.0.0.4", to, &of("192.0.2.4", 8));
    let hosts = hosts(&inrush, 9);
    assert_eq!(
        hosts[1..7],
        ["fw2", "db1", "db2", "fw2", "fw2", "192.0.2.3"]
    );
    assert_eq!(hosts[7..], ["127.0.0.3", "192.0.2.4"]);
    let events = inrush.events("out.jsonl");
    let named = events.iter().filter(|event| event["index"] == "named");
    assert_eq!(named.count(), 3, "transforms see the name");
    assert_eq!(metric(&inrush, "inrush_names_remembered_senders"), 3);
}

#[test]
fn a_table_comes_before_a_name_of_its_own_and_that_before_dns() {
    let dns = Dns::start();
    for ip in ["192.0.2.7", "192.0.2.8", "192.0.2.9"] {
        dns.say(ip, DnsReply::Name("dns.example.com".into()));
    }
    let table = "packs:\n  enabled: true\n  inline: |\n    about: hosts\n    rules:\n      \
        - { name: t, stage: hint, when: { sender: 192.0.2.7, host: '' }, set: { host: table } }\n";
    let yaml = with_dns(&dns, table).replace("hosts:\n", "hosts:\n  remember_names: true\n");
    let inrush = Inrush::start(&yaml);
    from(&inrush, "192.0.2.7", &of("own7", 0));
    from(&inrush, "192.0.2.8", &of("own8", 1));
    from(&inrush, "192.0.2.9", &of("-", 2));
    looked_up(&inrush, "found", 1);
    inrush.conserved(3);
    for (n, ip) in ["192.0.2.7", "192.0.2.8", "192.0.2.9"]
        .into_iter()
        .enumerate()
    {
        from(&inrush, ip, &of("-", 3 + n));
    }
    ask_for_one_more(&inrush, &dns, 6, 2);
    assert_eq!(hosts(&inrush, 7)[3..6], ["table", "own8", "dns"]);
    assert_eq!((dns.asked("192.0.2.7"), dns.asked("192.0.2.8")), (0, 0));
}

#[test]
fn a_relay_does_not_give_its_name_to_the_addresses_behind_it() {
    let inrush = Inrush::start(&format!("{}{REMEMBERING}", to_file(UDP_TCP, "")));
    let to = inrush.address("udp");
    for (n, host) in ["192.0.2.1", "192.0.2.2", "relay"].into_iter().enumerate() {
        datagram("127.0.0.2", to, &of(host, n));
        inrush.conserved(n as u64 + 1);
    }
    datagram("127.0.0.2", to, &of("192.0.2.1", 3));
    assert_eq!(hosts(&inrush, 4)[3], "192.0.2.1");
}

#[test]
fn a_known_relay_is_not_looked_up_for_what_it_passes_on() {
    let dns = Dns::start();
    dns.say("192.0.2.7", DnsReply::Name("relay.example.com".into()));
    let yaml = with_dns(&dns, "").replace("hosts:\n", "hosts:\n  remember_names: true\n");
    let inrush = Inrush::start(&yaml);
    for (n, host) in ["fw1", "fw2", "192.0.2.1"].into_iter().enumerate() {
        from(&inrush, "192.0.2.7", &of(host, n));
        inrush.conserved(n as u64 + 1);
    }
    ask_for_one_more(&inrush, &dns, 3, 1);
    assert_eq!(hosts(&inrush, 4)[..3], ["fw1", "fw2", "192.0.2.1"]);
    assert_eq!(dns.asked("192.0.2.7"), 0);
}

/// Starts where another one ended, lets a nameless event in, and says what it was called.
fn named_after(yaml: &str, dir: tempfile::TempDir, events: u64) -> (Value, Inrush) {
    let options = Options {
        dir: Some(dir),
        ..Options::default()
    };
    let inrush = Inrush::with(yaml, options);
    datagram(
        "127.0.0.2",
        inrush.address("udp"),
        &of("-", events as usize),
    );
    inrush.conserved(1);
    let events = inrush.events("out.jsonl");
    (events.last().unwrap()["host"].clone(), inrush)
}

#[test]
fn names_outlive_a_restart_if_they_are_to() {
    let yaml = format!("{}{REMEMBERING}", to_file(UDP_TCP, ""));
    let inrush = Inrush::start(&yaml);
    datagram("127.0.0.2", inrush.address("udp"), &of("fw2", 0));
    inrush.conserved(1);
    let (_, dir) = inrush.stop();
    let (host, inrush) = named_after(&yaml, dir, 1);
    assert_eq!(host, "fw2");
    let (_, dir) = inrush.stop();
    let forgetful = yaml.replace("names: true", "names: true, keep_names: false");
    let (host, inrush) = named_after(&forgetful, dir, 2);
    assert_eq!(
        (host, inrush.path("data/names.json").exists()),
        ("127.0.0.2".into(), false)
    );
    let (_, dir) = inrush.stop();
    std::fs::write(dir.path().join("data/names.json"), "{\"version\":1,\"sen").unwrap();
    let (host, inrush) = named_after(&yaml, dir, 3);
    assert_eq!(host, "127.0.0.2");
    assert!(
        inrush
            .stderr()
            .contains("the names of senders cannot be read"),
        "{}",
        inrush.stderr()
    );
}

#[test]
fn a_reload_switches_names_on_and_keeps_what_is_known() {
    let plain = to_file(UDP_TCP, "");
    let inrush = Inrush::start(&plain);
    let to = inrush.address("udp");
    datagram("127.0.0.2", to, &of("fw2", 0));
    inrush.conserved(1);
    inrush.rewrite(&format!("{plain}{REMEMBERING}"));
    assert_eq!(inrush.reload().json()["changed"][0], "hosts");
    datagram("127.0.0.2", to, &of("-", 1));
    datagram("127.0.0.2", to, &of("fw2", 2));
    inrush.conserved(3);
    inrush.rewrite(&format!("{plain}{REMEMBERING}packs: {{ enabled: true }}\n"));
    assert_eq!(inrush.reload().status, 200);
    datagram("127.0.0.2", to, &of("-", 3));
    let hosts = hosts(&inrush, 4);
    assert_eq!(hosts[1..], ["127.0.0.2", "fw2", "fw2"]);
}
