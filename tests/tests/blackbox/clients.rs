//! Other people's programs as clients, where they are installed.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use inrush_tests::*;
use serde_json::Value;

use crate::{TCP, UDP_TCP, to_file};

fn logger(inrush: &Inrush, transport: &str, args: &[&str]) {
    let name = if transport == "-T" { "tcp" } else { "udp" };
    let port = inrush.address(name).port().to_string();
    let mut command = Command::new("logger");
    command
        .args(["-n", "127.0.0.1", "-P", &port, transport])
        .args(args);
    run_ok(&mut command);
}

#[test]
fn logger_in_all_its_forms() {
    if tool("logger").is_none() {
        skip!("logger is not installed");
    }
    let inrush = Inrush::start(&to_file(UDP_TCP, ""));
    let common = ["-p", "local3.warning", "-t", "app", "--id=4711"];
    let mut sent = 0;
    for transport in ["-T", "-d"] {
        for format in [
            &["--rfc3164"][..],
            &["--rfc5424"],
            &["--rfc5424", "--octet-count"],
        ] {
            if transport == "-d" && format.len() > 1 {
                continue;
            }
            let args: Vec<_> = [&common[..], format, &["some text"]].concat();
            logger(&inrush, transport, &args);
            sent += 1;
        }
    }
    for event in inrush.collected(sent) {
        let get = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        assert_eq!(
            (get("facility"), get("severity")),
            ("local3".into(), "warning".into())
        );
        assert_eq!(
            (get("app"), get("proc_id")),
            ("app".into(), "4711".into()),
            "{event}"
        );
        assert_eq!(get("message"), "some text", "{event}");
    }
}

#[test]
fn loggen_over_tcp_and_udp() {
    if tool("loggen").is_none() {
        skip!("loggen is not installed");
    }
    let inrush = Inrush::start(&to_file(UDP_TCP, ""));
    let run = |protocol: &str, args: &[&str]| {
        let port = inrush.address(protocol).port().to_string();
        let mut command = Command::new("loggen");
        command
            .args(["-i", "-r", "20000", "-n", "2000", "-s", "300"])
            .args(args);
        run_ok(command.args(["127.0.0.1", &port]));
    };
    run("tcp", &["-S"]);
    inrush.wait_until("loggen's TCP messages", |l| {
        l.sources["syslog"].received == 2000
    });
    run("tcp", &["-S", "-P"]);
    inrush.wait_until("loggen's counted messages", |l| {
        l.sources["syslog"].received == 4000
    });
    run("udp", &["-D"]);
    inrush.wait_until("loggen's datagrams", |l| {
        let source = &l.sources["syslog"];
        source.received + source.kernel_dropped == 6000
    });
}

#[test]
fn openssl_s_client() {
    let Some(openssl) = tool("openssl") else {
        skip!("openssl is not installed")
    };
    let dir = tempfile::tempdir().unwrap();
    let pki = Pki::new(dir.path());
    pki.issue("server");
    pki.issue("client");
    let tls = "tls: { cert_file: \"{dir}/server.pem\", key_file: \"{dir}/server.key\", \
               client_ca_file: \"{dir}/ca.pem\" }";
    let options = Options {
        dir: Some(dir),
        ..Options::default()
    };
    let inrush = Inrush::with(&to_file("tls://127.0.0.1:0", tls), options);
    let input = inrush.path("lines");
    std::fs::write(&input, lines(0..500)).unwrap();
    for version in ["-tls1_2", "-tls1_3"] {
        let mut command = Command::new(&openssl);
        command.args([
            "s_client",
            "-quiet",
            "-no_ign_eof",
            "-verify_return_error",
            version,
        ]);
        command
            .arg("-connect")
            .arg(inrush.address("tls").to_string());
        command.arg("-CAfile").arg(pki.path("ca.pem"));
        command
            .arg("-cert")
            .arg(pki.path("client.pem"))
            .arg("-key")
            .arg(pki.path("client.key"));
        run_ok(command.stdin(std::fs::File::open(&input).unwrap()));
    }
    inrush.collected(1000);
}

const SYS_LOG_HANDLER: &str = r#"
import logging, logging.handlers, socket, sys
udp, tcp = int(sys.argv[1]), int(sys.argv[2])
def log(handler, text):
    logger = logging.getLogger(text)
    logger.addHandler(handler)
    handler.setFormatter(logging.Formatter("app[%(process)d]: %(message)s"))
    logger.warning(text)
    handler.close()
log(logging.handlers.SysLogHandler(("127.0.0.1", udp)), "udp-nul")
plain = logging.handlers.SysLogHandler(("127.0.0.1", tcp), socktype=socket.SOCK_STREAM)
log(plain, "tcp-nul")
handler = logging.handlers.SysLogHandler(("127.0.0.1", tcp), socktype=socket.SOCK_STREAM)
handler.append_nul = False
log(handler, "tcp-lf\n")
"#;

#[test]
fn pythons_sys_log_handler() {
    let Some(python) = tool("python3") else {
        skip!("python3 is not installed")
    };
    let inrush = Inrush::start(&to_file(UDP_TCP, ""));
    let port = |protocol| inrush.address(protocol).port().to_string();
    run_ok(Command::new(python).args(["-c", SYS_LOG_HANDLER, &port("udp"), &port("tcp")]));
    let events = inrush.collected(3);
    assert_eq!(
        sorted(field(&events, "message")),
        ["tcp-lf", "tcp-nul", "udp-nul"],
        "{events:#?}"
    );
}

/// A daemon that is ended with its test.
struct Daemon(Child);

impl Daemon {
    fn start(command: &mut Command) -> Self {
        Self(
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .spawn()
                .unwrap(),
        )
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends through a relay that listens on the Unix socket `relay.sock` in the test's folder.
fn through_relay(inrush: &Inrush, messages: usize) -> Vec<Value> {
    let socket = inrush.path("relay.sock");
    eventually("the relay's socket", || socket.exists().then_some(()));
    let text = (0..messages)
        .map(|n| format!("text {n}\n"))
        .collect::<String>();
    std::fs::write(inrush.path("text"), text).unwrap();
    let mut command = Command::new("logger");
    command
        .arg("-u")
        .arg(&socket)
        .args(["-t", "app", "-f"])
        .arg(inrush.path("text"));
    run_ok(&mut command);
    let is_ours = |event: &Value| event["app"] == "app";
    inrush.wait_until("all messages through the relay", |_| {
        inrush
            .events_so_far("out.jsonl")
            .iter()
            .filter(|e| is_ours(e))
            .count()
            >= messages
    });
    inrush
        .events_so_far("out.jsonl")
        .into_iter()
        .filter(is_ours)
        .collect()
}

fn assert_in_order(events: &[Value]) {
    for (n, event) in events.iter().enumerate() {
        let message = event["message"].as_str().unwrap().trim_start();
        assert_eq!(message, format!("text {n}"), "{event}");
    }
}

/// The rsyslogd to test with: RSYSLOGD names one that was unpacked beside the system, with its
/// libraries and modules, which are then in the folder that comes second.
fn rsyslogd() -> Option<(PathBuf, PathBuf)> {
    let own = std::env::var_os("RSYSLOGD").map(PathBuf::from);
    let root = match &own {
        Some(path) => path.ancestors().nth(3)?.to_owned(),
        None => "/".into(),
    };
    Some((
        own.or_else(|| tool("rsyslogd"))?,
        root.join("usr/lib/x86_64-linux-gnu"),
    ))
}

/// Starts rsyslogd with what its Unix socket `relay.sock` gets going to `action`.
fn start_rsyslogd(
    inrush: &Inrush,
    (program, libraries): (PathBuf, PathBuf),
    action: &str,
) -> Daemon {
    let config = format!(
        "module(load=\"imuxsock\" SysSock.Use=\"off\")\n\
         input(type=\"imuxsock\" Socket=\"{socket}\" CreatePath=\"on\" RateLimit.Interval=\"0\")\n\
         global(workDirectory=\"{work}\")\n{action}\n",
        socket = inrush.path("relay.sock").display(),
        work = inrush.path("").display(),
    );
    std::fs::write(inrush.path("rsyslog.conf"), config).unwrap();
    let mut command = Command::new(program);
    command
        .args(["-n", "-C", "-f"])
        .arg(inrush.path("rsyslog.conf"));
    command.arg("-i").arg(inrush.path("rsyslogd.pid"));
    if !libraries.starts_with("/usr") {
        command
            .arg("-M")
            .arg(libraries.join("rsyslog"))
            .env("LD_LIBRARY_PATH", &libraries);
    }
    Daemon::start(&mut command)
}

#[test]
fn rsyslogd_relays_with_octet_counting() {
    let Some(rsyslogd) = rsyslogd() else {
        skip!("rsyslogd is not installed, and RSYSLOGD names none");
    };
    if tool("logger").is_none() {
        skip!("logger is not installed");
    }
    let inrush = Inrush::start(&to_file(TCP, ""));
    let action = format!(
        "action(type=\"omfwd\" target=\"127.0.0.1\" port=\"{}\" protocol=\"tcp\" \
         tcp_framing=\"octet-counted\" template=\"RSYSLOG_SyslogProtocol23Format\")",
        inrush.address("tcp").port(),
    );
    let _rsyslogd = start_rsyslogd(&inrush, rsyslogd, &action);
    assert_in_order(&through_relay(&inrush, 200));
}

/// rsyslog's own RELP client, more messages than its window of 128, with and without TLS.
#[test]
fn rsyslogds_omrelp_gets_its_answers() {
    let Some(rsyslogd) = rsyslogd().filter(|(_, libs)| libs.join("rsyslog/omrelp.so").is_file())
    else {
        skip!("rsyslogd with its module omrelp is not installed, and RSYSLOGD names none");
    };
    if tool("logger").is_none() {
        skip!("logger is not installed");
    }
    for (scheme, tls) in [
        ("relp", String::new()),
        (
            "relps",
            " tls=\"on\" tls.caCert=\"{dir}/ca.pem\"".to_owned(),
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        Pki::new(dir.path()).issue("server");
        let tls = tls.replace("{dir}", dir.path().to_str().unwrap());
        let files = "tls: { cert_file: \"{dir}/server.pem\", key_file: \"{dir}/server.key\" }";
        let options = Options {
            dir: Some(dir),
            ..Options::default()
        };
        let inrush = Inrush::with(&to_file(&format!("{scheme}://127.0.0.1:0"), files), options);
        let action = format!(
            "module(load=\"omrelp\" tls.tlslib=\"openssl\")\naction(type=\"omrelp\" target=\"127.0.0.1\" port=\"{}\" \
             template=\"RSYSLOG_SyslogProtocol23Format\"{tls})",
            inrush.address(scheme).port(),
        );
        let _rsyslogd = start_rsyslogd(&inrush, rsyslogd.clone(), &action);
        let events = through_relay(&inrush, 1000);
        assert_in_order(&events);
        assert_eq!(events[0]["protocol"], scheme);
        // A sender whose answers it does not understand connects again.
        assert_eq!(inrush.source()["connection_errors"], serde_json::json!({}));
        assert_eq!(inrush.source()["connections"], 1);
    }
}

#[test]
fn syslog_ng_relays_over_tcp() {
    let Some(syslog_ng) = tool("syslog-ng") else {
        skip!("syslog-ng is not installed")
    };
    if tool("logger").is_none() {
        skip!("logger is not installed");
    }
    let inrush = Inrush::start(&to_file(TCP, ""));
    let config = format!(
        "@version: 3.38\n\
         source s {{ unix-dgram(\"{socket}\"); }};\n\
         destination d {{ network(\"127.0.0.1\" port({port}) transport(\"tcp\")); }};\n\
         log {{ source(s); destination(d); }};\n",
        socket = inrush.path("relay.sock").display(),
        port = inrush.address("tcp").port(),
    );
    std::fs::write(inrush.path("sng.conf"), config).unwrap();
    let mut command = Command::new(syslog_ng);
    command
        .args(["-F", "--no-caps", "-f"])
        .arg(inrush.path("sng.conf"));
    command
        .arg("-R")
        .arg(inrush.path("sng.persist"))
        .arg("-p")
        .arg(inrush.path("sng.pid"));
    command.arg("-c").arg(inrush.path("sng.ctl"));
    let _syslog_ng = Daemon::start(&mut command);
    assert_in_order(&through_relay(&inrush, 200));
}
