//! Checks beyond the schema: options that need or contradict each other, and files of the world.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use inrush_event::{ByteSize, Protocol};
use inrush_sink::splunk_hec::SplunkHecConfig;
use inrush_sink::{Quarantine, Refused, SinkConfig, SinkError};
use inrush_transport::config::{ListenAddr, TlsServerOptions};
use inrush_transport::tls::ServerTls;

use super::access;
use super::clients;
use super::options::{Config, SetOptions, SourceConfig, SyslogSource};
use super::places;
use inrush_yaml::Node;
use inrush_yaml::{Findings, Location, listed, nearest, quoted};

/// Checks what follows from the text alone.
pub(super) fn check(config: &Config, root: &Node, findings: &mut Findings) {
    access::check(config, root, findings);
    listeners(config, root, findings);
    shape(config, root, findings);
    for (name, source, node) in syslog_sources(config, root) {
        tls(name, source, node, findings);
        clients::proxies(&source.stream, node, findings);
        if let Err(error) = source.syslog.validate() {
            findings.add(place(node, error.key), error.to_string());
        }
    }
    backlogs(config, root, findings);
    places::check(config, root, findings);
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
fn backlogs(config: &Config, root: &Node, findings: &mut Findings) {
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
fn shape(config: &Config, root: &Node, findings: &mut Findings) {
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
pub(super) fn files(config: &Config, root: &Node, findings: &mut Findings) {
    access::files(config, root, findings);
    for (_, source, node) in syslog_sources(config, root) {
        if let Some(tls) = &source.tls {
            server_files(tls, node, findings);
        }
    }
    for (name, destination) in &config.destinations {
        let node = root.get("destinations").and_then(|node| node.get(name));
        if let (SinkConfig::SplunkHec(options), Some(node)) = (destination, node) {
            client_files(&config.data_dir, name, options, node, findings);
        }
    }
}

fn syslog_sources<'c>(
    config: &'c Config,
    root: &'c Node,
) -> impl Iterator<Item = (&'c str, &'c SyslogSource, &'c Node)> {
    config.sources.iter().filter_map(|(name, source)| {
        let SourceConfig::Syslog(source) = source;
        Some((name.as_str(), source, root.get("sources")?.get(name)?))
    })
}

/// The place of the value at `path` (`tls.cert_file`, `endpoints[1]`) below `node`, or of the
/// innermost part of it that was written.
pub(crate) fn place(node: &Node, path: &str) -> Location {
    let mut node = node;
    for step in path.split(['.', '[']) {
        let inner = match step.strip_suffix(']') {
            Some(index) => index
                .parse()
                .ok()
                .and_then(|index: usize| node.items().get(index)),
            None => node.get(step),
        };
        match inner {
            Some(inner) => node = inner,
            None => break,
        }
    }
    node.at
}

struct Listener<'c> {
    shown: String,
    owner: &'c str,
    datagrams: bool,
    addr: SocketAddr,
    at: Location,
}

impl Listener<'_> {
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

fn listeners(config: &Config, root: &Node, findings: &mut Findings) {
    let mut all: Vec<Listener<'_>> = vec![Listener {
        shown: config.admin.listen.to_string(),
        owner: "admin",
        datagrams: false,
        addr: config.admin.listen.0,
        at: place(root, "admin.listen"),
    }];
    for (name, source, node) in syslog_sources(config, root) {
        let nodes = node.get("listen").map(Node::items).unwrap_or_default();
        for (ListenAddr { protocol, addr }, node) in source.listen.iter().zip(nodes) {
            let listener = Listener {
                shown: format!("{}://{addr}", protocol.name()),
                owner: name,
                datagrams: *protocol == Protocol::Udp,
                addr: *addr,
                at: node.at,
            };
            if let Some(first) = all.iter().find(|first| first.collides(&listener)) {
                let Listener { shown, owner, .. } = first;
                findings.add(
                    listener.at,
                    format!(
                        "`{}` collides with `{shown}` of `{owner}`; give each its own port",
                        listener.shown
                    ),
                );
            }
            all.push(listener);
        }
    }
}

/// TLS listeners need a certificate, and client certificates an authority.
fn tls(name: &str, source: &SyslogSource, node: &Node, findings: &mut Findings) {
    let first = source
        .listen
        .iter()
        .position(|listen| listen.protocol.is_tls());
    let Some(tls) = &source.tls else {
        if let Some(first) = first {
            let nodes = node.get("listen").map(Node::items).unwrap_or_default();
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

/// Certificate, key and authority of a listener whose options are `node`.
pub(super) fn server_files(tls: &TlsServerOptions, node: &Node, findings: &mut Findings) {
    let mut named = vec![
        ("cert_file", Some(&tls.cert_file)),
        ("key_file", Some(&tls.key_file)),
        ("client_ca_file", tls.client_ca_file.as_ref()),
    ];
    named.extend(tls.crl_files.iter().map(|path| ("crl_files", Some(path))));
    if !all_open(&named, node, findings) {
        return;
    }
    if let Err(error) = ServerTls::load(tls) {
        let (option, path) = (error.option, quoted(&error.path.display().to_string()));
        let message = format!("`{option}` {path} {}", error.problem);
        findings.add(place(node, &format!("tls.{option}")), message);
    }
}

/// Authority, certificate and key towards a collector: opened as the destination would, without
/// starting it.
fn client_files(
    data_dir: &Path,
    name: &str,
    options: &SplunkHecConfig,
    node: &Node,
    findings: &mut Findings,
) {
    let tls = &options.tls;
    let named = [
        ("ca_file", tls.ca_file.as_ref()),
        ("cert_file", tls.cert_file.as_ref()),
        ("key_file", tls.key_file.as_ref()),
    ];
    // What `validate` finds is already reported, and would stop `build` before it reads a file.
    let destination = SinkConfig::SplunkHec(options.clone().into());
    if !all_open(&named, node, findings) || !inrush_sink::validate(&destination).is_empty() {
        return;
    }
    let Err(error) = inrush_sink::build(name, &destination, data_dir, Arc::new(Nowhere)) else {
        return;
    };
    let at_fault = match &error {
        // No fault of the configuration; it will be met again when the sink is to run.
        SinkError::Unstartable(_) => return,
        SinkError::Config(_) => None,
        SinkError::Unreadable { path, .. } | SinkError::BadCertificate { path, .. } => Some(path),
    };
    let option = named
        .iter()
        .find(|(_, path)| path.is_some() && *path == at_fault);
    let option = option.map_or("tls".to_owned(), |(option, _)| format!("tls.{option}"));
    findings.add(
        place(node, &option),
        format!("`{option}` of `{name}`: {error}"),
    );
}

/// Quarantine of a sink that is only looked at: takes nothing.
struct Nowhere;

impl Quarantine for Nowhere {
    fn put(&self, _: &str, _: &[Refused]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// True if every one of these files can be opened; reports each that cannot.
fn all_open(named: &[(&str, Option<&PathBuf>)], node: &Node, findings: &mut Findings) -> bool {
    let mut all = true;
    for (option, path) in named {
        let Some(path) = path else { continue };
        let Err(error) = inrush_files::open_regular(path) else {
            continue;
        };
        all = false;
        let remedy = match error.kind() {
            ErrorKind::NotFound => "check the path; a relative one starts where inrush does",
            ErrorKind::PermissionDenied => "let the user that inrush runs as read it",
            _ => "name a PEM file",
        };
        let path = quoted(&path.display().to_string());
        let message = format!("`{option}` {path} cannot be read: {error}; {remedy}");
        findings.add(place(node, &format!("tls.{option}")), message);
    }
    all
}
