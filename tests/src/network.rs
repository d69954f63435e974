//! Hosts of a network of their own: network namespaces, each with a cable (veth) to one between.
//!
//! # What it guarantees
//! * Nothing of it is seen outside, and its namespaces end with it.
//! * Addresses are those for documentation (RFC 5737).

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use nix::sched::{CloneFlags, setns};

use crate::{is_root, run_ok, tool};

/// Networks of this process so far.
static MADE: AtomicU32 = AtomicU32::new(0);

/// First three bytes of the addresses on the cable of each host.
const CABLES: [[u8; 3]; 2] = [[192, 0, 2], [198, 51, 100]];

/// Hosts on a network.
pub(crate) const HOSTS: usize = CABLES.len();

/// Two hosts, and one between that has a cable to each.
pub struct Network {
    hub: String,
    hosts: [String; HOSTS],
}

impl Network {
    /// Makes it.
    ///
    /// # Errors
    /// Namespaces cannot be made here; the reason.
    pub fn make() -> Result<Self, &'static str> {
        if !is_root() {
            return Err("only root makes network namespaces");
        }
        if tool("ip").is_none() {
            return Err("no ip here: apt install iproute2");
        }
        let own = format!("{}-{}", std::process::id(), MADE.fetch_add(1, SeqCst));
        let network = Self {
            hub: format!("inrush-hub-{own}"),
            hosts: [0, 1].map(|host| format!("inrush-host{host}-{own}")),
        };
        for name in network.names() {
            let mut add = Command::new("ip");
            if !add.args(["netns", "add", name]).status().unwrap().success() {
                return Err("the system gives no network namespace");
            }
            within(name, "ip link set lo up");
        }
        for host in 0..HOSTS {
            network.lay_cable(host);
        }
        Ok(network)
    }

    fn names(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.hub).chain(&self.hosts)
    }

    fn lay_cable(&self, host: usize) {
        let (near, far) = (self.near(host), self.address(host));
        let name = &self.hosts[host];
        let made = format!(
            "ip link add to{host} type veth peer name cable netns {name}; \
             ip addr add {near}/24 dev to{host}; ip link set to{host} up"
        );
        within(&self.hub, &made);
        within(name, &format!("ip addr add {far}/24 dev cable"));
        self.plug(host);
    }

    /// Address of a host, from 0, on its cable.
    pub fn address(&self, host: usize) -> IpAddr {
        let [a, b, c] = CABLES[host];
        Ipv4Addr::new(a, b, c, 2).into()
    }

    /// Address of the host between, on the cable of a host.
    pub fn near(&self, host: usize) -> IpAddr {
        let [a, b, c] = CABLES[host];
        Ipv4Addr::new(a, b, c, 1).into()
    }

    /// Words that begin a command to be run on a host.
    pub fn on_host(&self, host: usize) -> [String; 4] {
        ["ip", "netns", "exec", &self.hosts[host]].map(str::to_owned)
    }

    /// Pulls the cable of a host.
    pub fn cut(&self, host: usize) {
        within(&self.hosts[host], "ip link set cable down");
    }

    /// Plugs the cable in again.
    pub fn plug(&self, host: usize) {
        within(&self.hosts[host], "ip link set cable up");
    }

    /// Does something on a host, on a thread of its own.
    pub fn at_host<T: Send>(&self, host: usize, act: impl FnOnce() -> T + Send) -> T {
        enter(&self.hosts[host], act)
    }

    /// Does something on the host between, with all threads and processes that it starts.
    pub fn at_hub<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        enter(&self.hub, act)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in self.names() {
            if Path::new("/run/netns").join(name).exists() {
                let _ = Command::new("ip").args(["netns", "del", name]).status();
            }
        }
    }
}

/// Runs a line of shell in a namespace.
fn within(name: &str, line: &str) {
    run_ok(Command::new("ip").args(["netns", "exec", name, "sh", "-ec", line]));
}

/// The thread's namespace is its own matter: the other tests of the process stay where they are.
fn enter<T: Send>(name: &str, act: impl FnOnce() -> T + Send) -> T {
    let file = File::open(Path::new("/run/netns").join(name)).unwrap();
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            setns(file, CloneFlags::CLONE_NEWNET).unwrap();
            act()
        });
        thread
            .join()
            .unwrap_or_else(|why| std::panic::resume_unwind(why))
    })
}
