//! What the hosts say, held against our own parser, and what a receiver gets of it.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::net::{IpAddr, TcpListener, UdpSocket};

use super::*;
use products::DemoProduct;
use template::MessageTemplate;

fn hosts() -> impl Iterator<Item = (&'static DemoProduct, &'static products::DemoHost)> {
    ALL.iter()
        .flat_map(|product| product.hosts.iter().map(move |host| (*product, host)))
}

/// A receiver on both protocols at one port.
struct Receiver {
    udp: UdpSocket,
    tcp: TcpListener,
}

impl Receiver {
    fn open() -> Self {
        loop {
            let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
            // The port may be taken over UDP: then another.
            if let Ok(udp) = UdpSocket::bind(tcp.local_addr().unwrap()) {
                udp.set_nonblocking(true).unwrap();
                return Self { udp, tcp };
            }
        }
    }

    fn address(&self) -> SocketAddr {
        self.tcp.local_addr().unwrap()
    }

    /// The datagrams that are there, with who sent them.
    fn datagrams(&self) -> Vec<(IpAddr, String)> {
        let mut bytes = [0; 65_536];
        let mut all = Vec::new();
        while let Ok((n, from)) = self.udp.recv_from(&mut bytes) {
            all.push((from.ip(), String::from_utf8(bytes[..n].to_vec()).unwrap()));
        }
        all
    }
}

fn cast(address: SocketAddr) -> DemoFleet {
    DemoFleet::open(address, fastrand::Rng::with_seed(4)).unwrap()
}

#[test]
fn every_template_can_be_read_and_every_name_is_there_once() {
    for product in ALL {
        for line in product.lines {
            assert!(MessageTemplate::read(line.text).is_some(), "{}", line.text);
            assert!(line.severity < 8 && line.weight > 0, "{}", line.text);
        }
        assert!(product.facility < 24);
    }
    let names: BTreeSet<_> = hosts().map(|(_, host)| host.name).collect();
    assert_eq!(names.len(), hosts().count());
    let weights = |filter: fn(&products::DemoHost) -> bool| {
        let some = hosts().filter(|(_, host)| filter(host));
        some.map(|(_, host)| host.weight).sum::<u32>()
    };
    let (all, loudest) = (weights(|_| true), weights(|host| host.name == "ns-1"));
    assert!((0.35..0.5).contains(&(f64::from(loudest) / f64::from(all))));
}

#[test]
fn every_host_arrives_from_an_address_of_its_own_in_its_own_way() {
    let receiver = Receiver::open();
    let mut cast = cast(receiver.address());
    for at in 0..cast.senders.len() {
        cast.say(at);
    }
    cast.finish(Instant::now() + SECOND);
    assert_eq!(cast.sent().0, hosts().count() as u64);
    let streams = hosts().filter(|(product, _)| product.wire != products::WireFraming::Udp);
    let mut from = BTreeSet::new();
    let mut texts = Vec::new();
    let connections: Vec<_> = streams.map(|_| receiver.tcp.accept().unwrap()).collect();
    drop(cast);
    for (mut stream, peer) in connections {
        from.insert(peer.ip());
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        texts.push(text);
    }
    for (peer, text) in receiver.datagrams() {
        from.insert(peer);
        texts.push(text);
    }
    assert_eq!(
        (from.len(), texts.len()),
        (hosts().count(), hosts().count())
    );
    let count = |what: fn(&str) -> bool| texts.iter().filter(|text| what(text)).count();
    let counted =
        |text: &str| text.starts_with(|c: char| c.is_ascii_digit()) && !text.contains('\n');
    assert_eq!(count(counted), 3, "with their length before them");
    assert_eq!(count(|text| text.ends_with('\n')), 6, "lines");
    assert_eq!(count(|text| text.contains(">1 2")), 4, "RFC 5424");
    assert_eq!(count(|text| !text.contains('<')), 1, "the thermometer");
}

#[test]
fn octets_are_counted_rightly() {
    let receiver = Receiver::open();
    let mut cast = cast(receiver.address());
    let at = cast
        .senders
        .iter()
        .position(|one| one.host.name == "dc-1")
        .unwrap();
    (0..50).for_each(|_| cast.say(at));
    cast.finish(Instant::now() + SECOND);
    let streams: Vec<_> = receiver
        .tcp
        .incoming()
        .take(9)
        .map(Result::unwrap)
        .collect();
    drop(cast);
    let read = |mut stream: std::net::TcpStream| {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    let text = streams.into_iter().map(read).find(|text| !text.is_empty());
    let text = text.unwrap();
    let (mut rest, mut messages) = (text.as_str(), 0);
    while !rest.is_empty() {
        let (digits, behind) = rest.split_once(' ').unwrap();
        let (message, behind) = behind.split_at(digits.parse().unwrap());
        let json = message.split_once(" - - ").unwrap().1;
        let event: serde_json::Value = serde_json::from_str(json).unwrap();
        assert_eq!(event["Hostname"], "dc-1.corp.example");
        (rest, messages) = (behind, messages + 1);
    }
    assert_eq!(messages, 50);
}

#[test]
fn a_silent_host_says_nothing_and_a_burst_is_one_hosts() {
    let receiver = Receiver::open();
    let mut cast = cast(receiver.address());
    let said = |cast: &DemoFleet| -> BTreeMap<&str, u64> {
        let row = |sender: &DemoSender| (sender.host.name, sender.sent);
        cast.senders.iter().map(row).collect()
    };
    // At 10 s it talks and there is no burst.
    cast.act(10.0, 1.0, 300.0, u64::MAX);
    let talking = said(&cast);
    assert!(talking["ids-1"] > 0, "{talking:?}");
    // At 100 s it is silent.
    cast.act(100.0, 1.0, 300.0, u64::MAX);
    let silent = said(&cast);
    assert_eq!(talking["ids-1"], silent["ids-1"]);
    assert!(silent["ns-1"] > talking["ns-1"]);
    // At 46 s there is the first burst.
    let before = said(&cast);
    cast.act(46.0, 1.0, 300.0, u64::MAX);
    let after = said(&cast);
    let louder = after.iter().filter(|(name, n)| **n - before[**name] > 500);
    assert_eq!(louder.count(), 1, "{before:?}\n{after:?}");
    let begun = cast.begun;
    cast.act(46.0, 1.0, 300.0, 7);
    assert_eq!(cast.begun, begun + 7, "no more than is left to send");
}

#[test]
fn the_number_is_met_and_a_rate_and_a_plain_target_are_wanted() {
    let receiver = Receiver::open();
    let address = receiver.address();
    let args = |words: &str| Args::from_words(words.split(' ')).unwrap();
    let go = |words: &str| run(&args(words), &AtomicBool::new(false));
    let report = go(&format!(
        "--demo --rate 20000 --number 333 --json {address}"
    ))
    .unwrap();
    assert_eq!(
        (report.sent, report.requested, report.ok()),
        (333, Some(333), true)
    );
    let stopped = run(&args(&format!("--demo {address}")), &AtomicBool::new(true)).unwrap();
    assert_eq!(stopped.sent, 0);
    for words in [
        "--demo --rate 0 h:1",
        "--demo tcp://127.0.0.1:1",
        "--demo udp://127.0.0.1:1",
    ] {
        assert!(matches!(go(words), Err(LoadError::Usage(_))), "{words}");
    }
    for words in [
        "--demo --dgram h:1",
        "--demo --verify x h:1",
        "--demo -P rfc5424 h:1",
    ] {
        assert!(Args::from_words(words.split(' ')).is_err(), "{words}");
    }
}

#[test]
fn where_nothing_listens_that_is_said() {
    let receiver = Receiver::open();
    let address = receiver.address();
    drop(receiver);
    let error = DemoFleet::open(address, fastrand::Rng::with_seed(1))
        .err()
        .unwrap();
    let text = error.to_string();
    assert!(
        text.contains(&address.to_string()) && text.contains("nothing listens"),
        "{text}"
    );
}

#[test]
fn a_receiver_may_be_restarted_under_it() {
    let receiver = Receiver::open();
    let address = receiver.address();
    let mut cast = cast(address);
    let web = cast
        .senders
        .iter()
        .position(|one| one.host.name == "web-1")
        .unwrap();
    drop(receiver);
    // What is written first meets a connection that the other side closed.
    while !cast.senders[web].is_broken() {
        cast.say(web);
        let _ = cast.senders[web].flush();
    }
    cast.senders.truncate(web + 1);
    let others = cast.senders.drain(..web).count();
    assert_eq!((others > 0, cast.mend()), (true, 1), "nothing listens yet");
    let before = (cast.begun, cast.sent());
    cast.say(0);
    assert_eq!(
        (cast.begun, cast.sent()),
        before,
        "nothing is said meanwhile"
    );
    let again = TcpListener::bind(address).unwrap();
    assert_eq!(cast.mend(), 0);
    cast.say(0);
    cast.finish(Instant::now() + SECOND);
    let (mut stream, _) = again.accept().unwrap();
    let sent = cast.sent().0;
    drop(cast);
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert_eq!(sent, before.1.0 + 1, "what was lost counts as not sent");
    assert_eq!(
        text.matches("web-1 nginx: ").count(),
        1,
        "a whole message, and one: {text}"
    );
}
