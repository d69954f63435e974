//! Listeners: the default ports, those of one product, and the simple ones.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::environment::EnvFile;
use crate::yaml::quoted;

/// Endings of a listener's variable, each with its protocol here and true if that is TLS.
const KINDS: [(&str, &str, bool); 7] = [
    ("_RFC6587_NOPARSE_PORT", "tcp", false),
    ("_RFC5426_PORT", "udp", false),
    ("_RFC6587_PORT", "tcp", false),
    ("_RFC5425_PORT", "tls", true),
    ("_UDP_PORT", "udp", false),
    ("_TCP_PORT", "tcp", false),
    ("_TLS_PORT", "tls", true),
];

/// Writes `sources:`.
pub(crate) fn write(env: &mut EnvFile, out: &mut String) {
    let tls = env.says_yes("SC4S_SOURCE_TLS_ENABLE");
    let listeners = listeners(env, tls);
    let zone = env
        .take("SC4S_DEFAULT_TIMEZONE")
        .filter(|zone| zone != "GMT")
        .unwrap_or_else(|| "UTC".to_owned());
    let proxied = env.says_yes("SC4S_SOURCE_PROXYCONNECT");
    out.push_str("sources:\n");
    for (id, mut addresses) in listeners {
        addresses.sort();
        addresses.dedup();
        write_source(&id, &addresses, &zone, proxied, out);
    }
    for protocol in ["TCP", "TLS"] {
        let name = format!("SC4S_SOURCE_{protocol}_MAX_CONNECTIONS");
        if env.take(&name).is_some() {
            env.note(
                name,
                "not carried over: 16,384 connections on each listener",
            );
        }
    }
}

/// The addresses of each listener, by its id.
fn listeners(env: &mut EnvFile, tls: bool) -> BTreeMap<String, Vec<String>> {
    let mut listeners: BTreeMap<String, Vec<String>> = BTreeMap::new();
    listeners.insert("DEFAULT".to_owned(), Vec::new());
    let mut given = Vec::new();
    for (end, protocol, secure) in KINDS {
        for (variable, id) in env.between("SC4S_LISTEN_", end) {
            let ports = env.take(&variable).unwrap_or_default();
            if id == "DEFAULT" {
                given.push(end);
            }
            if secure && !tls {
                env.note(
                    variable,
                    "SC4S_SOURCE_TLS_ENABLE is not yes, so it was not open there either",
                );
                continue;
            }
            let ports = ports.split(',').map(str::trim);
            for port in ports.filter(|port| !port.is_empty()) {
                match port.parse::<u16>() {
                    Ok(port) if port > 0 => {
                        let address = format!("{protocol}://0.0.0.0:{port}");
                        listeners.entry(id.clone()).or_default().push(address);
                    }
                    _ => env.note(variable.clone(), format!("`{port}` is no port")),
                }
            }
        }
    }
    defaults(
        &given,
        tls,
        listeners.entry("DEFAULT".to_owned()).or_default(),
    );
    listeners
}

/// The source of a listener.
fn write_source(id: &str, addresses: &[String], zone: &str, proxied: bool, out: &mut String) {
    let secure = addresses.iter().any(|address| address.starts_with("tls:"));
    let listen: Vec<String> = addresses.iter().map(|address| quoted(address)).collect();
    // Writing to a text cannot fail.
    let _ = writeln!(
        out,
        "  {}:\n    type: syslog\n    listen: [{}]",
        id.to_ascii_lowercase(),
        listen.join(", ")
    );
    if let Some(product) = product(id) {
        let _ = writeln!(out, "    product: {}", quoted(&product));
    }
    if zone != "UTC" {
        let _ = writeln!(out, "    timezone: {}", quoted(zone));
    }
    out.push_str("    guess_timezone: true\n");
    if secure {
        out.push_str(
            "    tls: { cert_file: /opt/sc4s/tls/server.pem, key_file: /opt/sc4s/tls/server.key }\n",
        );
    }
    if proxied && addresses.iter().any(|address| !address.starts_with("udp:")) {
        out.push_str("    stream: { proxy_protocol: required }\n");
    }
}

/// The ports that are open without being named.
fn defaults(given: &[&str], tls: bool, addresses: &mut Vec<String>) {
    let ports = [
        ("_UDP_PORT", "udp://0.0.0.0:514", false),
        ("_TCP_PORT", "tcp://0.0.0.0:514", false),
        ("_TLS_PORT", "tls://0.0.0.0:6514", true),
        ("_RFC5426_PORT", "udp://0.0.0.0:601", false),
        ("_RFC6587_PORT", "tcp://0.0.0.0:601", false),
        ("_RFC5425_PORT", "tls://0.0.0.0:5425", true),
    ];
    for (variable, address, secure) in ports {
        if !given.contains(&variable) && (tls || !secure) {
            addresses.push(address.to_owned());
        }
    }
}

/// Vendor and product of a listener: the first two words of its name.
fn product(id: &str) -> Option<String> {
    let name = id
        .strip_prefix("SIMPLE_")
        .unwrap_or(id)
        .to_ascii_lowercase();
    let mut words = name.split('_');
    let (vendor, product) = (words.next()?, words.next()?);
    Some(format!("{vendor}/{product}"))
}
