//! Checks beyond the schema: options that need or contradict each other, and files of the world.

use std::net::{IpAddr, SocketAddr};

use inrush_event::{ByteSize, Protocol};
use inrush_sink::SinkConfig;
use inrush_transport::config::ListenAddr;
use inrush_yaml::YamlNode;
use inrush_yaml::{Findings, Location, listed, nearest, quoted};

use super::access;
use super::certificate_files;
use super::clients;
use super::path_conflicts;
use super::place::place;
use super::{Config, SetOptions, SourceOptions};

/// Checks what follows from the text alone.
pub(super) fn check(config: &Config, root: &YamlNode, findings: &mut Findings) {
    access::check(config, root, findings);
    listeners(config, root, findings);
    shape(config, root, findings);
    for (name, source, node) in sources(config, root) {
        tls(name, source, node, findings);
        if let Some(stream) = source.stream() {
            clients::proxies(stream, node, findings);
        }
        if let Err(problem) = source.validate() {
            findings.add(place(node, &problem.path), problem.words);
        }
    }
    backlogs(config, root, findings);
    path_conflicts::check(config, root, findings);
    for (name, destination) in &config.destinations {
        let node = root.get("destinations").and_then(|node| node.get(name));
        for problem in inrush_sink::validate(destination) {
            let at = node.map_or(Location::START, |node| place(node, &problem.key));
            let message = inrush_yaml::redacted(&problem.message, node);
            findings.add(at, format!("`{}` of `{name}`: {message}", problem.key));
        }
    }
}

/// A destination cannot keep more than the whole queue.
fn backlogs(config: &Config, root: &YamlNode, findings: &mut Findings) {
    let written = root.get("queue").and_then(|queue| queue.get("max_bytes"));
    let (Some(_), true) = (written, config.queue.durability.has_disk()) else {
        return;
    };
    let whole = ByteSize(config.queue.disk_bytes());
    for (name, destination) in &config.destinations {
        let Some(own) = destination.queue().max_bytes.filter(|own| own.0 > whole.0) else {
            continue;
        };
        let node = root.get("destinations").and_then(|node| node.get(name));
        let at = node.map_or(Location::START, |node| place(node, "queue.max_bytes"));
        let words = format!(
            "`queue.max_bytes` of `{name}` is {own}, and the whole queue has {whole}; lower it, or \
             raise `queue.max_bytes` beside `destinations`"
        );
        findings.add(at, words);
    }
}

/// Transforms that do something, and routes that lead somewhere.
fn shape(config: &Config, root: &YamlNode, findings: &mut Findings) {
    for (at, options) in config.transforms.iter().enumerate() {
        let nothing = options.set == SetOptions::default();
        let words = match (options.drop, nothing) {
            (false, true) => "does nothing; give `drop: true`, or `set` with what is to be set",
            (true, false) => "drops the event, so that nothing can be set; make two of it",
            _ => continue,
        };
        let name = format!("transforms[{at}]");
        findings.add(place(root, &name), format!("`{name}` {words}"));
    }
    let mut all = None;
    for (at, options) in config.routes.iter().enumerate() {
        let name = format!("routes[{at}]");
        if let Some(first) = all {
            let words = format!("`{name}` is never asked: `routes[{first}]` takes every event");
            findings.add(place(root, &name), words);
        }
        if options.condition.is_none() {
            all = all.or(Some(at));
        }
        let known = || config.destinations.keys().map(String::as_str);
        for (index, to) in options.to.iter().enumerate() {
            if config.destinations.contains_key(to) {
                continue;
            }
            let remedy = match nearest(to, known()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are {}", listed(known(), "and")),
            };
            findings.add(
                place(root, &format!("{name}.to[{index}]")),
                format!("`{name}`: there is no destination {}; {remedy}", quoted(to)),
            );
        }
    }
}

/// Checks what the files that the configuration names hold.
pub(super) fn files(config: &Config, root: &YamlNode, findings: &mut Findings) {
    access::files(config, root, findings);
    for (_, source, node) in sources(config, root) {
        if let Some(tls) = source.tls() {
            certificate_files::server_files(tls, node, findings);
        }
    }
    for (name, destination) in &config.destinations {
        let node = root.get("destinations").and_then(|node| node.get(name));
        if let (SinkConfig::SplunkHec(options), Some(node)) = (destination, node) {
            certificate_files::client_files(&config.data_dir, name, options, node, findings);
        }
    }
}

fn sources<'c>(
    config: &'c Config,
    root: &'c YamlNode,
) -> impl Iterator<Item = (&'c str, &'c dyn SourceOptions, &'c YamlNode)> {
    config.sources.iter().filter_map(|(name, source)| {
        let node = root.get("sources")?.get(name)?;
        Some((name.as_str(), source.options(), node))
    })
}

struct ConfiguredListener<'c> {
    shown: String,
    owner: &'c str,
    datagrams: bool,
    /// `None` for what serves HTTP alone.
    protocol: Option<Protocol>,
    addr: SocketAddr,
    at: Location,
}

impl ConfiguredListener<'_> {
    /// Adds it to `all`; a collision with one of them is a finding.
    fn join(self, all: &mut Vec<Self>, findings: &mut Findings) {
        if let Some(first) = all.iter().find(|first| first.collides(&self)) {
            let remedy = first.remedy(&self);
            let ConfiguredListener { shown, owner, .. } = first;
            let words = format!(
                "`{}` collides with `{shown}` of `{owner}`; {remedy}",
                self.shown
            );
            findings.add(self.at, words);
        }
        all.push(self);
    }

    /// Remedy for two that collide. Of two of one source and protocol, the one for all
    /// addresses takes the traffic of both.
    fn remedy(&self, other: &Self) -> String {
        let same = self.owner == other.owner && self.protocol == other.protocol;
        let all = |one: &Self| one.addr.ip().is_unspecified();
        let (wide, narrow) = match all(other) && (other.addr.is_ipv6() || !all(self)) {
            true => (other, self),
            false => (self, other),
        };
        if self.protocol.is_none() || !same || !all(wide) {
            return "give each its own port".to_owned();
        }
        match wide.shown == narrow.shown {
            true => "remove one of the two".to_owned(),
            false => format!(
                "`{}` alone takes both: remove `{}`",
                wide.shown, narrow.shown
            ),
        }
    }

    /// True if the kernel cannot bind both: same port and kind of socket, overlapping addresses.
    fn collides(&self, other: &Self) -> bool {
        let (ours, theirs) = (self.addr, other.addr);
        let everything = |ip: IpAddr| ip.is_unspecified();
        // [::] takes IPv4 too; 0.0.0.0 takes no IPv6.
        let covers = |a: IpAddr, b: IpAddr| everything(a) && (a.is_ipv6() || b.is_ipv4());
        self.datagrams == other.datagrams
            && ours.port() == theirs.port()
            && ours.port() != 0
            && (ours.ip() == theirs.ip()
                || covers(ours.ip(), theirs.ip())
                || covers(theirs.ip(), ours.ip()))
    }
}

fn listeners(config: &Config, root: &YamlNode, findings: &mut Findings) {
    let mut all: Vec<ConfiguredListener<'_>> = vec![ConfiguredListener {
        shown: config.admin.listen.to_string(),
        owner: "admin",
        datagrams: false,
        protocol: None,
        addr: config.admin.listen.0,
        at: place(root, "admin.listen"),
    }];
    if let Some(health) = &config.health {
        let listener = ConfiguredListener {
            shown: health.listen.to_string(),
            owner: "health",
            datagrams: false,
            protocol: None,
            addr: health.listen.0,
            at: place(root, "health.listen"),
        };
        listener.join(&mut all, findings);
    }
    for (name, source, node) in sources(config, root) {
        let listen = source.listen();
        for (ListenAddr { protocol, addr }, node) in listen.iter().zip(listen_nodes(node)) {
            let listener = ConfiguredListener {
                shown: format!("{}://{addr}", protocol.name()),
                owner: name,
                datagrams: *protocol == Protocol::Udp,
                protocol: Some(*protocol),
                addr: *addr,
                at: node.at,
            };
            listener.join(&mut all, findings);
        }
    }
}

/// The way in which the addresses of a source are written: one, or a list.
fn listen_nodes(source: &YamlNode) -> &[YamlNode] {
    let listen = source.get("listen");
    listen.map_or(&[], |listen| match listen.items() {
        [] => std::slice::from_ref(listen),
        items => items,
    })
}

/// TLS listeners need a certificate, and client certificates an authority.
fn tls(name: &str, source: &dyn SourceOptions, node: &YamlNode, findings: &mut Findings) {
    let first = source
        .listen()
        .iter()
        .position(|listen| listen.protocol.is_tls());
    let Some(tls) = source.tls() else {
        if let Some(first) = first {
            let nodes = listen_nodes(node);
            let at = nodes.get(first).map_or(node.at, |listen| listen.at);
            let remedy = "add `tls: { cert_file: …, key_file: … }`";
            findings.add(
                at,
                format!("`{name}` listens for TLS without a certificate; {remedy}"),
            );
        }
        return;
    };
    clients::client_certificates(tls, node, findings);
}
