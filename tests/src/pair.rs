//! Two collectors behind a load balancer, on hosts of their own, that forward to one receiver: what
//! is done to them, and what must hold of what arrived.
//!
//! # What it guarantees
//! * Each of the two is cut off, stopped and killed in turn, while all clients send through it and
//!   it has events that it answered and could not deliver. Then events arrive through the other.
//! * A ledger is asked for until all is delivered, and balances at every look.
//! * An event may arrive more than once for two reasons only. Its client got no answer; or its
//!   delivery was the last request on a connection to the receiver, so its answer may be lost.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use inrush_testkit::{Hec, HecRequest, Reply, eventually};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use crate::network::HOSTS;
use crate::{HEC_ACK_TOKEN, HEC_TOKEN, Inrush, Network, Options, binary, json_lines};

/// Port of each collector.
const PORT: u16 = 8088;

/// Requests that must arrive through a collector before it counts as under load.
const UNDER_LOAD: usize = 5;

/// Events that it has answered and not delivered when it is harmed, at least.
const BACKLOG: u64 = 200;

/// An event of `inrush load`: its run, connection and number.
type Marker = (String, u64, u64);

/// Harm that a collector takes.
#[derive(Clone, Copy, Debug)]
enum Harm {
    /// Its cable is pulled.
    Cut,
    /// SIGTERM, and a start.
    Stop,
    /// SIGKILL, and a start.
    Kill,
}

/// Two collectors and their receiver.
pub struct Pair<'a> {
    network: &'a Network,
    receiver: Hec,
    collectors: [Option<Inrush>; HOSTS],
}

impl<'a> Pair<'a> {
    /// Starts all; call it at the hub.
    pub fn start(network: &'a Network) -> Self {
        let receiver = Hec::start_at(SocketAddr::from(([0, 0, 0, 0], 0)));
        let mut pair = Self {
            network,
            receiver,
            collectors: [None, None],
        };
        for host in 0..HOSTS {
            pair.run(host, Options::default());
        }
        pair
    }

    fn run(&mut self, host: usize, options: Options<'_>) {
        let receiver = SocketAddr::new(self.network.near(host), self.receiver.address().port());
        let listen = self.addresses()[host];
        let yaml = format!(
            "sources:\n  hec:\n    type: splunk_hec\n    listen: {listen}\n    tokens:\n      \
             - {{ token: {HEC_TOKEN} }}\n      \
             - {{ token: {HEC_ACK_TOKEN}, ack: delivered }}\n\
             destinations:\n  receiver: {{ type: splunk_hec, \
             endpoints: [\"http://{receiver}\"], token: s3cret }}\n"
        );
        let words = self.network.on_host(host);
        let options = Options {
            wrapper: &words,
            ..options
        };
        self.collectors[host] = Some(Inrush::with(&yaml, options));
    }

    /// Addresses of the collectors.
    pub fn addresses(&self) -> [SocketAddr; HOSTS] {
        [0, 1].map(|host| SocketAddr::new(self.network.address(host), PORT))
    }

    /// Harms each collector in every way, under load; `is_up` is the balancer's opinion of one.
    pub fn suffer(&mut self, is_up: impl Fn(usize) -> bool) {
        for harm in [Harm::Cut, Harm::Stop, Harm::Kill] {
            for host in 0..HOSTS {
                self.await_events_through(host);
                let dir = self.with_backlog(host, |pair| pair.harm(harm, host));
                eventually(&format!("host {host} to be down: {harm:?}"), || {
                    (!is_up(host)).then_some(())
                });
                self.await_events_through(HOSTS - 1 - host);
                self.mend(host, dir);
                eventually(&format!("host {host} to be up: {harm:?}"), || {
                    is_up(host).then_some(())
                });
            }
        }
    }

    /// Does something once a collector has events that it answered and could not deliver: the
    /// receiver is busy for so long.
    fn with_backlog<T>(&mut self, host: usize, act: impl FnOnce(&mut Self) -> T) -> T {
        let busy = Reply::code(503, 9, "Server is busy");
        self.receiver.otherwise(Some(busy));
        let inrush = self.collectors[host].as_ref().unwrap();
        self.network.at_host(host, || {
            inrush.wait_until("a backlog", |ledger| {
                ledger.destinations.values().all(|d| d.pending >= BACKLOG)
            })
        });
        let done = act(self);
        self.receiver.otherwise(None);
        done
    }

    fn harm(&mut self, harm: Harm, host: usize) -> Option<TempDir> {
        let mut taken = || self.collectors[host].take().unwrap();
        match harm {
            Harm::Cut => {
                self.network.cut(host);
                None
            }
            Harm::Stop => {
                let (exit, dir) = taken().stop();
                assert!(exit.status.success(), "{exit:?}");
                Some(dir)
            }
            Harm::Kill => Some(taken().kill().1),
        }
    }

    fn mend(&mut self, host: usize, dir: Option<TempDir>) {
        match dir {
            None => self.network.plug(host),
            dir => self.run(
                host,
                Options {
                    dir,
                    ..Options::default()
                },
            ),
        }
    }

    fn await_events_through(&self, host: usize) {
        let address = self.network.address(host);
        let came = || {
            self.receiver
                .count(|request| request.peer.ip() == address && request.indexed > 0)
        };
        let before = came();
        eventually(&format!("events through host {host}"), || {
            (came() >= before + UNDER_LOAD).then_some(())
        });
    }

    /// Waits until everything has arrived that a load knows to be taken by whoever passes it on.
    pub fn await_all_of(&self, load: &EndedLoad) {
        eventually("all events at the receiver", || {
            let arrived = Arrived::of(&self.receiver.requests());
            arrived.missing(load).is_empty().then_some(())
        });
    }

    /// Waits until the ledgers of both have nothing pending; what arrived by then.
    pub fn settled(&self) -> Arrived {
        for (host, inrush) in self.collectors.iter().enumerate() {
            let inrush = inrush.as_ref().unwrap();
            let ledger = self.network.at_host(host, || {
                inrush.wait_until("all to be delivered", |ledger| {
                    ledger.destinations.values().all(|d| d.pending == 0)
                })
            });
            for source in ledger.sources.values() {
                assert_eq!(source.received, source.accepted, "{ledger:#?}");
            }
            for destination in ledger.destinations.values() {
                let (accepted, delivered) = (destination.accepted, destination.delivered);
                assert_eq!(accepted, delivered, "{ledger:#?}");
            }
        }
        Arrived::of(&self.receiver.requests())
    }
}

/// Events at the receiver: for each of its arrivals, whether it was in the last request on its
/// connection.
pub struct Arrived(HashMap<Marker, Vec<bool>>);

impl Arrived {
    fn of(requests: &[HecRequest]) -> Self {
        let mut last_on = HashMap::new();
        for (place, request) in requests.iter().enumerate() {
            last_on.insert(request.peer, place);
        }
        let mut arrivals: HashMap<Marker, Vec<bool>> = HashMap::new();
        for (place, request) in requests.iter().enumerate() {
            let is_last = last_on[&request.peer] == place;
            for event in &request.events[..request.indexed] {
                arrivals.entry(marker(event)).or_default().push(is_last);
            }
        }
        Self(arrivals)
    }

    /// Events of a load that were acknowledged and are not here.
    fn missing<'l>(&self, load: &'l EndedLoad) -> Vec<&'l Marker> {
        let is_missing = |marker: &&Marker| !self.0.contains_key(*marker);
        load.acked.iter().filter(is_missing).collect()
    }

    /// Asserts that everything is here that this load knows to be taken.
    pub fn assert_has_all_of(&self, load: &EndedLoad) {
        let (acked, report) = (load.acked.len(), &load.report);
        let missing = self.missing(load);
        assert!(acked > 0, "{report:#}");
        assert!(
            missing.is_empty(),
            "{} of {acked} acknowledged events are lost, {:?} the first; {report:#}",
            missing.len(),
            missing[0],
        );
    }

    /// Asserts that nothing is here again but what this load has sent again, or what the receiver
    /// got again because its answer was lost.
    pub fn assert_again_only_for_want_of_an_answer(&self, load: &EndedLoad) {
        let unexplained = |all: &Vec<bool>| {
            let before = &all[..all.len() - 1];
            before.iter().filter(|is_last| !**is_last).count() as u64
        };
        let run = load.report["run"].as_str().unwrap();
        let own = self.0.iter().filter(|(marker, _)| marker.0 == run);
        let again: u64 = own.map(|(_, all)| unexplained(all)).sum();
        let resent = load.report["answers"]["resent"].as_u64().unwrap();
        assert!(again <= resent, "{again} came again; {:#}", load.report);
    }
}

/// `… seq=0000000042 conn=07 run=5eed0001 …`
fn marker(event: &Value) -> Marker {
    let text = event["event"].as_str().unwrap();
    let value = |key: &str| {
        let words = text.split(' ');
        let mut found = words.filter_map(|word| word.strip_prefix(key));
        found.next().unwrap_or_else(|| panic!("no {key} in {text}"))
    };
    let number = |key: &str| value(key).parse().unwrap();
    (value("run=").to_owned(), number("conn="), number("seq="))
}

/// `inrush load` to a collector, until it is ended.
pub struct HecLoad {
    child: Child,
    dir: TempDir,
}

impl HecLoad {
    /// Starts it: four connections, each made again when it breaks.
    pub fn start(to: SocketAddr, token: &str, more: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new(binary());
        command
            .args(["load", &format!("hec://{token}@{to}"), "--json"])
            .args(["--rate", "500", "--interval", "1h", "--drain-timeout", "5s"])
            .args(["--active-connections", "4", "--reconnect"])
            .args(["--events-per-request", "20", "--acked-file"])
            .arg(dir.path().join("acked"))
            .args(more);
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self { child, dir }
    }

    /// Ends it as Ctrl-C does; its account.
    pub fn end(self) -> EndedLoad {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGINT).unwrap();
        let output = self.child.wait_with_output().unwrap();
        EndedLoad {
            report: serde_json::from_slice(&output.stdout).unwrap(),
            acked: acked(&self.dir.path().join("acked")),
        }
    }
}

/// Account of a load.
pub struct EndedLoad {
    /// Its report.
    pub report: Value,
    /// Events that were acknowledged; without `--ack`, those that were answered.
    acked: Vec<Marker>,
}

fn acked(file: &Path) -> Vec<Marker> {
    let mut all = Vec::new();
    for line in json_lines(file) {
        let (run, connection) = (line["run"].as_str().unwrap(), &line["conn"]);
        for range in line["acked"].as_array().unwrap() {
            let end = |place: usize| range[place].as_u64().unwrap();
            let numbers = end(0)..=end(1);
            all.extend(numbers.map(|n| (run.to_owned(), connection.as_u64().unwrap(), n)));
        }
    }
    all
}
