//! Black-box tests: the built binary, real sockets, one module a topic.
//!
//! Every test counts: what was sent is what the ledger says and what came out.
#![allow(clippy::unwrap_used)]

mod activation;
mod answers;
mod backlog;
mod bench;
mod bounded;
mod check_connect;
mod clients;
mod closes;
mod config;
mod conventions;
mod dashboard;
mod disk;
mod doctor;
mod doctor_destinations;
mod doctor_rate;
mod doors;
mod files;
mod files_content;
mod files_tools;
mod first_screen;
mod flow;
mod framing;
mod groups;
mod groups_sc4s;
mod hardship;
mod health;
mod hec;
mod hec_answers;
mod hec_balanced;
mod hec_clients;
mod hec_fates;
mod hec_flight;
mod hec_forwarded;
mod hec_http2;
mod hec_long;
mod hec_pipelined;
mod hec_probe;
mod hec_recorded;
mod hec_room;
mod hec_server;
mod hec_tls;
mod hec_tokens;
mod hec_tools;
mod hostile;
mod hosts;
mod journald;
mod kubernetes_events;
mod kubernetes_recorded;
mod lifecycle;
mod load;
mod memory;
mod migrate_collectors;
mod monitoring;
mod narrow;
mod one_configuration;
mod packs;
mod paths;
mod peers;
mod permits;
mod proxy;
mod queue;
mod queue_tools;
mod relp;
mod replay;
mod room;
mod roundtrip;
mod sc4s;
mod sc4s_hostile;
mod search;
mod searches;
mod shape;
mod slow_destination;
mod store;
mod store_faults;
mod store_s3;
mod strangers;
mod texts;
mod times;
mod tls;
mod top;
mod unknown;
mod workloads;

/// A syslog source on `listen` (addresses without brackets around the list) with more options
/// (`key: value` lines), written to `out.jsonl`.
fn to_file(listen: &str, options: &str) -> String {
    let options = options.replace('\n', "\n    ");
    format!(
        "sources:\n  syslog:\n    type: syslog\n    listen: [{listen}]\n    {options}\n\
         destinations:\n  out: {{ type: file, path: \"{{dir}}/out.jsonl\" }}\n"
    )
}

/// The default of most tests: UDP and TCP on loopback.
const UDP_TCP: &str = "udp://127.0.0.1:0, tcp://127.0.0.1:0";
const TCP: &str = "tcp://127.0.0.1:0";

/// Whether this host has IPv6 on loopback.
fn has_ipv6() -> bool {
    std::net::TcpListener::bind("[::1]:0").is_ok()
}
