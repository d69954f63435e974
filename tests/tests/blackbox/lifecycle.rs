//! Start, reload, stop: no socket is closed and no event lost.

use std::sync::mpsc::sync_channel;

use inrush_tests::*;
use nix::sys::signal::Signal;

use crate::{TCP, UDP_TCP, to_file};

#[test]
fn a_reload_changes_the_destination_and_keeps_the_connections() {
    let inrush = Inrush::start(&to_file(UDP_TCP, ""));
    let mut tcp = Tcp::connect(inrush.address("tcp"));
    tcp.send(numbered(1) + "\n");
    inrush.conserved(1);
    inrush.rewrite(&to_file(UDP_TCP, "").replace("out.jsonl", "moved.jsonl"));
    let answer = inrush.reload();
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(
        !answer.json()["changed"].as_array().unwrap().is_empty(),
        "{answer:?}"
    );
    tcp.send(numbered(2) + "\n");
    send_udp(inrush.address("udp"), [numbered(3)]);
    inrush.conserved(3);
    assert_eq!(field(&inrush.events("out.jsonl"), "msg_id"), ["ID1"]);
    assert_eq!(
        sorted(field(&inrush.events("moved.jsonl"), "msg_id")),
        ["ID2", "ID3"]
    );
    assert!(tcp.is_open());
}

#[test]
fn a_reload_without_a_change_changes_nothing() {
    let inrush = Inrush::start(&to_file(TCP, ""));
    let answer = inrush.reload();
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json()["changed"], serde_json::json!([]));
}

#[test]
fn a_bad_configuration_is_refused_and_the_old_one_goes_on() {
    let inrush = Inrush::start(&to_file(TCP, ""));
    inrush.rewrite(&to_file(TCP, "lisen: []"));
    let answer = inrush.reload();
    assert_eq!(answer.status, 400);
    let problems = answer.json()["problems"].to_string();
    assert!(problems.contains("inrush.yaml:5:5"), "{problems}");
    Tcp::connect(inrush.address("tcp")).send(numbered(1) + "\n");
    inrush.conserved(1);
}

#[test]
fn a_sighup_is_a_reload() {
    let inrush = Inrush::start(&to_file(TCP, ""));
    inrush.rewrite(&to_file(TCP, "").replace("out.jsonl", "moved.jsonl"));
    inrush.signal(Signal::SIGHUP);
    eventually("the reload to be counted", || {
        let page = inrush.http("GET", "/metrics").body;
        let counts = |line: &str| line.starts_with("inrush_config_reloads_total");
        page.lines()
            .any(|line| counts(line) && line.ends_with(" 1"))
            .then_some(())
    });
    Tcp::connect(inrush.address("tcp")).send(numbered(1) + "\n");
    inrush.conserved(1);
    assert_eq!(inrush.events("moved.jsonl").len(), 1);
}

#[test]
fn listeners_come_and_go_by_reload() {
    let inrush = Inrush::start(&to_file(TCP, ""));
    let mut kept = Tcp::connect(inrush.address("tcp"));
    inrush.rewrite(&to_file(UDP_TCP, ""));
    assert_eq!(inrush.reload().status, 200);
    let listeners = inrush.source()["listeners"].clone();
    let udp = listeners
        .as_array()
        .unwrap()
        .iter()
        .find_map(|l| l.as_str()?.strip_prefix("udp://"));
    send_udp(udp.unwrap().parse().unwrap(), [numbered(1)]);
    kept.send(numbered(2) + "\n");
    inrush.conserved(2);
}

#[test]
fn reloads_under_load_lose_nothing_and_double_nothing() {
    const RELOADS: usize = 20;
    const SENDERS: usize = 2;
    const EACH: usize = 1000;
    let inrush = Inrush::start(&to_file(TCP, ""));
    let to = inrush.address("tcp");
    std::thread::scope(|scope| {
        // Each sender sends one portion while one reload runs, all on one connection.
        let senders: Vec<_> = (0..SENDERS)
            .map(|sender| {
                let (go, may_go) = sync_channel(1);
                scope.spawn(move || {
                    let mut tcp = Tcp::connect(to);
                    for first in may_go {
                        tcp.send(lines(first..first + EACH));
                    }
                    assert!(tcp.is_open(), "sender {sender}");
                });
                go
            })
            .collect();
        for reload in 0..RELOADS {
            for (sender, go) in senders.iter().enumerate() {
                go.send((sender * RELOADS + reload) * EACH).unwrap();
            }
            let name = format!("out{}.jsonl", reload % 2);
            inrush.rewrite(&to_file(TCP, "").replace("out.jsonl", &name));
            assert_eq!(inrush.reload().status, 200);
        }
    });
    let sent = SENDERS * RELOADS * EACH;
    inrush.conserved(sent as u64);
    let files = ["out.jsonl", "out0.jsonl", "out1.jsonl"];
    let ids: Vec<_> = files
        .iter()
        .flat_map(|f| field(&inrush.events(f), "msg_id"))
        .collect();
    assert_eq!(ids.len(), sent);
    let mut ids = sorted(ids);
    ids.dedup();
    assert_eq!(ids.len(), sent, "each event once");
}

#[test]
fn sigterm_delivers_what_was_accepted() {
    const SENT: u64 = 5_000;
    let inrush = Inrush::start(&to_file(TCP, ""));
    let mut tcp = Tcp::connect(inrush.address("tcp"));
    tcp.send(lines(0..SENT as usize));
    inrush.wait_until("all received", |l| l.sources["syslog"].received == SENT);
    let (exit, dir) = inrush.stop();
    assert_eq!(exit.status.code(), Some(0), "{}", exit.stderr);
    assert_eq!(json_lines(&dir.path().join("out.jsonl")).len() as u64, SENT);
}

#[test]
fn a_dead_destination_does_not_keep_the_process_alive() {
    let yaml = to_file(TCP, "").replace(
        "{ type: file, path: \"{dir}/out.jsonl\" }",
        "{ type: splunk_hec, endpoints: [\"http://127.0.0.1:1\"], token: t }",
    ) + "shutdown_timeout: 1s\nqueue: { durability: memory }\n";
    let inrush = Inrush::start(&yaml);
    Tcp::connect(inrush.address("tcp")).send(numbered(1) + "\n");
    inrush.wait_until("one pending", |l| l.destinations["out"].pending == 1);
    let (exit, _dir) = inrush.stop();
    assert_eq!(exit.status.code(), Some(0), "{}", exit.stderr);
    assert!(
        exit.stderr
            .contains("out delivered 0 quarantined 0 dropped 1"),
        "{}",
        exit.stderr
    );
}

#[test]
fn a_socket_buffer_full_of_events_is_read_before_the_end() {
    let inrush = Inrush::start(&to_file("udp://127.0.0.1:0", ""));
    send_udp(inrush.address("udp"), (0..200).map(numbered));
    let (exit, dir) = inrush.stop();
    assert!(exit.status.success());
    let events = json_lines(&dir.path().join("out.jsonl"));
    assert_eq!(
        events.len(),
        200,
        "datagrams that had arrived before the signal"
    );
}

/// `inrush run` as a newcomer types it, in a network of its own since its ports are fixed.
#[test]
fn the_built_in_default_takes_events_on_5514() {
    if !is_root() {
        skip!("a private network needs root");
    }
    let needed = ["unshare", "ip", "logger", "bash"].map(tool);
    if needed.iter().any(Option::is_none) {
        skip!("needs unshare, ip, logger and bash");
    }
    let dir = tempfile::tempdir().unwrap();
    let script = format!(
        r#"
        set -eu
        ip link set lo up
        cd {dir}
        {binary} run --data-dir {dir}/data 2>stderr &
        until grep -q 'inrush: ready' stderr; do kill -0 $! ; sleep 0.05; done
        logger -n 127.0.0.1 -P 5514 -T by-tcp
        logger -n 127.0.0.1 -P 5514 -d by-udp
        export INRUSH_DATA_DIR={dir}/data
        until {binary} search by-tcp | grep -q by-tcp && {binary} search by-udp | grep -q by-udp
        do kill -0 $! ; sleep 0.05; done
        exec 3<>/dev/tcp/127.0.0.1/8686
        printf 'GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n' >&3
        head -1 <&3
        kill -TERM $!
        wait $!
        "#,
        dir = dir.path().display(),
        binary = binary().display(),
    );
    let mut command = std::process::Command::new("timeout");
    command.args(["60", "unshare", "-n", "bash", "-c", &script]);
    let said = run_ok(&mut command);
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
}

#[test]
fn a_connection_outlives_a_smaller_message_limit() {
    let inrush = Inrush::start(&to_file(TCP, "max_message_bytes: 1MiB"));
    let mut tcp = Tcp::connect(inrush.address("tcp"));
    // Most of a message of nearly a mebibyte is held for this connection while the limit shrinks.
    tcp.send("<13>1 - h a - ID1 - ".to_owned() + &"x".repeat(900_000));
    Tcp::connect(inrush.address("tcp")).send(numbered(2) + "\n");
    inrush.conserved(1);
    inrush.rewrite(&to_file(TCP, "max_message_bytes: 480"));
    assert_eq!(inrush.reload().status, 200);
    Tcp::connect(inrush.address("tcp")).send(numbered(3) + "\n");
    inrush.conserved(2);
    tcp.send("y\n");
    inrush.conserved(3);
    assert!(tcp.is_open());
}

#[test]
fn an_index_changes_with_the_next_event() {
    let inrush = Inrush::start(&to_file(TCP, ""));
    let mut tcp = Tcp::connect(inrush.address("tcp"));
    tcp.send(numbered(1) + "\n");
    inrush.conserved(1);
    inrush.rewrite(&to_file(TCP, "index: netfw"));
    assert_eq!(inrush.reload().status, 200);
    tcp.send(numbered(2) + "\n");
    inrush.conserved(2);
    assert_eq!(
        field(&inrush.events("out.jsonl"), "index"),
        ["main", "netfw"]
    );
}

#[test]
fn an_address_moves_from_one_source_to_another() {
    let inrush = Inrush::start(&to_file(TCP, ""));
    let address = inrush.address("tcp");
    let fixed = TCP.replace("tcp://127.0.0.1:0", &format!("tcp://{address}"));
    inrush.rewrite(&to_file(&fixed, "").replace("syslog:\n", "other:\n"));
    assert_eq!(inrush.reload().status, 200);
    Tcp::connect(address).send(numbered(1) + "\n");
    eventually("the event to be counted", || {
        (inrush.ledger().sources["other"].accepted == 1).then_some(())
    });
}
