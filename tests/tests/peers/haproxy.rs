//! HAProxy before two collectors: our own client and the OpenTelemetry Collector send through it.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use inrush_tests::*;

use crate::otel;

/// Starts it before these servers; where it listens.
fn start(program: &Path, dir: &Path, servers: &[SocketAddr]) -> (Daemon, SocketAddr) {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let server = |(host, address): (usize, &SocketAddr)| {
        format!(
            "  server host{host} {address} check inter 100ms fall 1 rise 1 \
             on-marked-down shutdown-sessions\n"
        )
    };
    let servers: String = servers.iter().enumerate().map(server).collect();
    let config = format!(
        "defaults\n  mode tcp\n  timeout connect 500ms\n  timeout check 500ms\n  \
         timeout client 1m\n  timeout server 1m\n  option redispatch\n\
         listen hec\n  bind {address}\n  balance roundrobin\n  \
         option httpchk GET /services/collector/health\n{servers}"
    );
    std::fs::write(dir.join("haproxy.cfg"), config).unwrap();
    let libraries = ["x86_64", "aarch64"].map(|machine| {
        let folder = format!("haproxy/usr/lib/{machine}-linux-gnu");
        peer_tool(&folder).unwrap_or_default()
    });
    let mut command = Command::new(program);
    command
        .args(["-db", "-f"])
        .arg(dir.join("haproxy.cfg"))
        .env("LD_LIBRARY_PATH", std::env::join_paths(libraries).unwrap());
    let mut daemon = Daemon::start(&mut command, &dir.join("haproxy.log"));
    daemon.until("it to listen", |_| {
        std::net::TcpStream::connect(address).ok()
    });
    (daemon, address)
}

/// The last that it said of a server; it counts as up until then.
fn is_up(haproxy: &Daemon, host: usize) -> bool {
    let said = haproxy.said();
    let last = |state: &str| said.rfind(&format!("Server hec/host{host} is {state}"));
    last("DOWN") <= last("UP")
}

#[test]
#[ignore = "foreign program: make test-peers"]
fn two_behind_haproxy_lose_nothing_that_they_answered() {
    let (Some(program), Some(collector)) = (
        peer_tool("haproxy/usr/sbin/haproxy"),
        peer_tool("otel/otelcol"),
    ) else {
        skip!("HAProxy or the OpenTelemetry Collector: not installed");
    };
    let network = match Network::make() {
        Ok(network) => network,
        Err(why) => skip!("{why}"),
    };
    let dir = tempfile::tempdir().unwrap();
    network.at_hub(|| {
        let mut pair = Pair::start(&network);
        let (haproxy, to) = start(&program, dir.path(), &pair.addresses());
        let exporter = format!(
            "splunk_hec: {{ endpoint: \"http://{to}/services/collector\", token: {HEC_TOKEN}, \
             timeout: 5s, sending_queue: {{ queue_size: 100000 }}, retry_on_failure: \
             {{ initial_interval: 100ms, max_interval: 1s, max_elapsed_time: 0s }} }}"
        );
        let kept = "keep_alives_enabled: true";
        let (_otel, through) = otel::start(collector, dir.path(), kept, &exporter);
        let acknowledged = HecLoad::start(to, HEC_ACK_TOKEN, &["--ack"]);
        let passed_on = HecLoad::start(through, HEC_TOKEN, &[]);
        pair.suffer(|host| is_up(&haproxy, host));
        let (acknowledged, passed_on) = (acknowledged.end(), passed_on.end());
        pair.await_all_of(&passed_on);
        let arrived = pair.settled();
        arrived.assert_has_all_of(&passed_on);
        arrived.assert_has_all_of(&acknowledged);
        arrived.assert_again_only_for_want_of_an_answer(&acknowledged);
    });
}
