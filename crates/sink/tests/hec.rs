//! The `splunk_hec` sink against collectors that misbehave: every event is indexed as it must be
//! and settled exactly once (the feed insists on the latter).
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::HashSet;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use common::{MemoryFeed, MemoryQuarantine, batch, start, until};
use inrush_event::{AutoCount, ByteSize, Fate, Period, RefuseReason, Secret};
use inrush_sink::splunk_hec::{HecCompression, HecTlsConfig, SplunkHecConfig};
use inrush_sink::{ErrorReason, SinkConfig, SinkError, SinkStatus, build};
use inrush_testkit::{Hec, Reply, closing_server, connect_proxy, raw_server};

fn config(endpoints: &[String]) -> SplunkHecConfig {
    let mut config = SplunkHecConfig::new(endpoints.to_vec(), Secret::new("the-token"));
    config.workers = AutoCount::of(1);
    config.batch.timeout = Period(Duration::from_millis(20));
    config.proxy = Some(Secret::new(""));
    config
}

fn texts(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("event-{n:05}")).collect()
}

fn feed_of(texts: &[String]) -> Arc<MemoryFeed> {
    let bytes: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
    let halves = bytes.split_at(bytes.len() / 2);
    MemoryFeed::of(&[batch("main", 0, halves.0), batch("main", 1, halves.1)])
}

struct Run {
    feed: Arc<MemoryFeed>,
    quarantine: Arc<MemoryQuarantine>,
    status: Arc<SinkStatus>,
}

/// Runs the sink until everything is settled.
fn run(config: SplunkHecConfig, feed: Arc<MemoryFeed>) -> Run {
    let quarantine = Arc::new(MemoryQuarantine::default());
    let keep = Arc::<MemoryQuarantine>::clone(&quarantine);
    let config = SinkConfig::SplunkHec(config.into());
    let (sink, status) = build("splunk", &config, Path::new("."), keep).unwrap();
    sink.run(Arc::<MemoryFeed>::clone(&feed));
    Run {
        feed,
        quarantine,
        status,
    }
}

/// Ten events to a collector of this rule.
fn ten(rule: impl Fn(usize, &[serde_json::Value]) -> Reply + Send + Sync + 'static) -> (Hec, Run) {
    let server = Hec::answering(rule);
    let run = run(config(&[server.url()]), feed_of(&texts(10)));
    (server, run)
}

fn has(event: &serde_json::Value, text: &str) -> bool {
    event["event"].as_str() == Some(text)
}

#[test]
fn events_arrive_once_with_token_and_user_agent_over_one_connection() {
    let server = Hec::start();
    let mut config = config(&[server.url()]);
    config.batch.max_events = 10;
    let run = run(config, feed_of(&texts(100)));
    assert_eq!(server.texts(), texts(100));
    assert_eq!(run.feed.delivered().len(), 100);
    let seen = server.requests();
    assert_eq!(seen.len(), 10, "ten events each, across batches");
    let connections: HashSet<_> = seen.iter().map(|request| request.peer).collect();
    assert_eq!(connections.len(), 1, "the connection is kept");
    for request in &seen {
        assert_eq!(request.path, "/services/collector/event");
        assert_eq!(request.headers["authorization"], "Splunk the-token");
        assert!(
            request.headers["user-agent"]
                .to_str()
                .unwrap()
                .starts_with("inrush/")
        );
    }
    assert_eq!(run.status.requests(), 10);
    assert!(run.status.healthy());
    let body_bytes: usize = seen.iter().map(|request| request.body_bytes).sum();
    assert_eq!(run.status.bytes_sent(), body_bytes as u64);
}

#[test]
fn gzip_bodies_decode() {
    let server = Hec::start();
    let mut config = config(&[server.url()]);
    config.compression = HecCompression::Gzip;
    run(config, feed_of(&texts(500)));
    assert_eq!(server.texts(), texts(500));
    let seen = server.requests();
    assert!(
        seen.iter()
            .all(|request| request.headers["content-encoding"] == "gzip")
    );
    assert!(seen.iter().map(|request| request.body_bytes).sum::<usize>() < 500 * 150);
}

#[test]
fn several_workers_share_the_work() {
    let server = Hec::start();
    let mut config = config(&[server.url()]);
    config.workers = AutoCount::of(4);
    config.batch.max_bytes = ByteSize(2048);
    run(config, feed_of(&texts(1000)));
    assert_eq!(server.texts(), texts(1000));
    assert!(
        server
            .requests()
            .iter()
            .all(|request| request.body_bytes <= 2048)
    );
}

#[test]
fn a_200_with_rubbish_took_nothing_and_is_counted() {
    let (server, run) = ten(|n, _| match n {
        0 => Reply::status(200, "<html>hello</html>"),
        1 => Reply::status(202, ""),
        _ => Reply::Success,
    });
    assert_eq!(server.texts(), texts(10));
    assert_eq!(run.feed.delivered().len(), 10);
    assert_eq!(run.status.errors(ErrorReason::BadAnswer), 2);
    let peers: HashSet<_> = server
        .requests()
        .iter()
        .map(|request| request.peer)
        .collect();
    assert_eq!(
        peers.len(),
        3,
        "each further try over a connection of its own"
    );
    assert!(run.status.healthy());
}

#[test]
fn other_receivers_answers_can_be_allowed() {
    let server = Hec::answering(|_, _| Reply::taken("OK\n"));
    let mut config = config(&[server.url()]);
    config.success_bodies = vec!["OK".to_owned()];
    let run = run(config, feed_of(&texts(10)));
    assert_eq!(run.feed.delivered().len(), 10);
    assert_eq!(run.status.errors(ErrorReason::BadAnswer), 0);
}

#[test]
fn connections_are_renewed_after_so_many_requests() {
    let server = Hec::start();
    let mut config = config(&[server.url()]);
    config.batch.max_events = 1;
    config.connection_max_requests = std::num::NonZero::new(1);
    let run = run(config, feed_of(&texts(10)));
    assert_eq!(run.feed.delivered().len(), 10);
    let seen = server.requests();
    let peers: HashSet<_> = seen.iter().map(|request| request.peer).collect();
    assert_eq!(peers.len(), 10, "one request each");
    assert!(
        seen.iter()
            .all(|request| request.headers["connection"] == "close")
    );
    assert_eq!(run.status.requests(), 10);
}

#[test]
fn a_200_that_warns_is_taken() {
    let (server, run) = ten(|_, _| Reply::taken(r#"{"text":"queue is full soon","code":24}"#));
    assert_eq!(server.texts(), texts(10));
    assert_eq!(run.status.errors(ErrorReason::BadAnswer), 0);
}

#[test]
fn a_named_bad_event_costs_that_event_alone() {
    for code in [6, 12, 13, 15] {
        let (server, run) = ten(move |_, events| {
            match events
                .iter()
                .position(|e| has(e, "event-00003") || has(e, "event-00007"))
            {
                Some(bad) => Reply::named(code, bad as u64),
                None => Reply::Success,
            }
        });
        let bad = ["event-00003".to_owned(), "event-00007".to_owned()];
        assert_eq!(run.feed.refused(), bad);
        let good: Vec<String> = texts(10).into_iter().filter(|t| !bad.contains(t)).collect();
        assert_eq!(run.feed.delivered(), good);
        assert_eq!(server.texts(), good, "none of them twice");
        let kept = run.quarantine.kept.lock().unwrap();
        assert_eq!(kept.len(), 2);
        assert_eq!(kept[0].0, "splunk");
        assert_eq!(kept[0].1, bad[0]);
        assert_eq!(kept[0].2.reason, RefuseReason::InvalidEvent);
        assert_eq!(kept[0].2.code, code);
        assert_eq!(
            *run.quarantine.puts.lock().unwrap(),
            1,
            "both wait for the disk once"
        );
        assert_eq!(*run.quarantine.attempts.lock().unwrap(), [1, 2]);
        assert!(run.status.healthy());
    }
}

#[test]
fn a_bad_event_without_a_number_is_found_by_halving() {
    let (server, run) = ten(|_, events| {
        if events.iter().any(|e| has(e, "event-00006")) {
            Reply::status(400, r#"{"text":"Invalid data format","code":6}"#)
        } else {
            Reply::Success
        }
    });
    assert_eq!(run.feed.refused(), ["event-00006"]);
    assert_eq!(server.texts().len(), 9, "none of the others twice");
    let kept = run.quarantine.kept.lock().unwrap();
    assert_eq!(kept[0].2.reason, RefuseReason::BadRequest);
}

#[test]
fn a_wrong_index_is_found_though_its_number_is_one_too_high() {
    let server =
        Hec::answering(
            |_, events| match events.iter().position(|e| e["index"] == "wrong") {
                Some(bad) => Reply::named(7, bad as u64 + 1),
                None => Reply::Success,
            },
        );
    let feed = MemoryFeed::of(&[
        batch("main", 0, &[b"a", b"b"]),
        batch("wrong", 1, &[b"bad-1", b"bad-2", b"bad-3"]),
        batch("main", 2, &[b"c"]),
    ]);
    let run = run(config(&[server.url()]), feed);
    assert_eq!(run.feed.refused(), ["bad-1", "bad-2", "bad-3"]);
    assert_eq!(run.feed.delivered(), ["a", "b", "c"]);
    assert_eq!(server.texts(), ["a", "b", "c"]);
}

#[test]
fn a_strangers_400_is_believed_only_beside_success() {
    // When the bad event is sent first, nothing vouches for the address yet: it is put back, and
    // asked about again after the other one was taken.
    let server = Hec::answering(|_, events| {
        if events.iter().any(|e| has(e, "bad")) {
            Reply::status(400, "no")
        } else {
            Reply::Success
        }
    });
    let mut config = config(&[server.url()]);
    config.batch.max_events = 1;
    let feed = MemoryFeed::of(&[batch("main", 0, &[b"bad"]), batch("main", 1, &[b"good"])]);
    let run = run(config, feed);
    assert_eq!(run.feed.delivered(), ["good"]);
    assert_eq!(run.feed.refused(), ["bad"]);
    assert_eq!(run.feed.put_back(), 1);
    assert_eq!(run.status.errors(ErrorReason::Http400), 2);
    let first: Vec<_> = server
        .requests()
        .iter()
        .map(|request| request.events[0]["event"].clone())
        .collect();
    assert_eq!(first, ["bad", "good", "bad"]);
}

#[test]
fn a_request_too_large_is_halved_and_a_single_event_refused() {
    let (server, run) = ten(|_, events| {
        if events.len() > 2 || events.iter().any(|e| has(e, "event-00004")) {
            Reply::status(413, "")
        } else {
            Reply::Success
        }
    });
    assert_eq!(run.feed.refused(), ["event-00004"]);
    assert_eq!(server.texts().len(), 9);
    let kept = run.quarantine.kept.lock().unwrap();
    assert_eq!(kept[0].2.reason, RefuseReason::TooLarge);
    assert!(run.status.errors(ErrorReason::Http413) > 0);
}

#[test]
fn a_refused_token_holds_until_it_is_accepted() {
    let (server, run) = ten(|number, _| match number {
        0 => Reply::status(403, r#"{"text":"Invalid token","code":4}"#),
        _ => Reply::Success,
    });
    assert_eq!(server.texts(), texts(10));
    assert_eq!(run.status.errors(ErrorReason::Http401And403), 1);
    assert_eq!(
        run.status.last_error().unwrap().reason,
        ErrorReason::Http401And403
    );
    assert!(
        run.status
            .last_error()
            .unwrap()
            .text
            .contains("Invalid token")
    );
}

#[test]
fn settings_that_are_wrong_hold_and_lose_nothing() {
    let (server, run) = ten(|number, _| match number {
        0 => Reply::status(400, r#"{"text":"Data channel is missing","code":10}"#),
        1 => Reply::status(404, ""),
        _ => Reply::Success,
    });
    assert_eq!(server.texts(), texts(10));
    assert_eq!(run.feed.refused(), Vec::<String>::new());
    assert_eq!(run.status.errors(ErrorReason::Http400), 1);
    assert_eq!(run.status.errors(ErrorReason::Http404), 1);
}

#[test]
fn a_busy_collector_is_tried_again() {
    let (server, run) = ten(|number, _| match number {
        0 => Reply::later(429, 1),
        1 => Reply::status(
            503,
            r#"{"text":"Server is busy","code":9,"invalid-event-number":0}"#,
        ),
        2 => Reply::status(500, ""),
        _ => Reply::Success,
    });
    assert_eq!(server.texts(), texts(10));
    assert_eq!(run.status.errors(ErrorReason::Http429), 1);
    assert_eq!(run.status.errors(ErrorReason::Http5xx), 2);
    assert!(run.status.healthy());
}

#[test]
fn a_collector_that_hangs_is_given_up_and_tried_again() {
    let server = Hec::answering(|number, _| match number {
        0 => Reply::Hang,
        _ => Reply::Success,
    });
    let mut config = config(&[server.url()]);
    config.request_timeout = Period(Duration::from_millis(300));
    let run = run(config, feed_of(&texts(10)));
    assert_eq!(server.texts(), texts(10));
    assert_eq!(run.status.errors(ErrorReason::Timeout), 1);
}

#[test]
fn a_collector_that_comes_up_late_gets_everything() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let feed = feed_of(&texts(10));
    let sink_config = SinkConfig::SplunkHec(config(&[format!("http://{address}")]).into());
    let quarantine = Arc::new(MemoryQuarantine::default());
    let (sink, status) = build("splunk", &sink_config, Path::new("."), quarantine).unwrap();
    let sink = start(sink, &feed);
    until("refused", || status.errors(ErrorReason::ConnectFailed) > 1);
    assert!(!status.healthy());
    assert_eq!(feed.pending(), 10);
    let server = Hec::start_at(address);
    sink.join().unwrap();
    assert_eq!(server.texts(), texts(10));
    assert!(status.healthy());
}

#[test]
fn an_answer_that_breaks_off_before_it_says_success_is_no_answer() {
    let address = raw_server(vec![
        b"HTTP/1.1 20",
        b"",
        b"not http at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"text\":",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{\"text\":\"Success\",\"code\":0}",
    ]);
    let mut config = config(&[format!("http://{address}")]);
    config.batch.timeout = Period(Duration::from_secs(1));
    let run = run(config, feed_of(&texts(10)));
    assert_eq!(run.feed.delivered().len(), 10);
    assert_eq!(run.status.requests(), 5);
    let errors = |reason| run.status.errors(reason);
    assert_eq!(errors(ErrorReason::Io) + errors(ErrorReason::BadAnswer), 4);
}

#[test]
fn a_dead_endpoint_is_passed_over_and_a_revived_one_used() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let dead = listener.local_addr().unwrap();
    drop(listener);
    let alive = Hec::start();
    let feed = Arc::new(MemoryFeed::default());
    let endpoints = [format!("http://{dead}"), alive.url()];
    let sink_config = SinkConfig::SplunkHec(config(&endpoints).into());
    let quarantine = Arc::new(MemoryQuarantine::default());
    let (sink, status) = build("splunk", &sink_config, Path::new("."), quarantine).unwrap();
    let sink = start(sink, &feed);
    for n in 0..4u64 {
        feed.push(&batch("main", n, &[b"early"]));
        until("delivered", || feed.pending() == 0);
    }
    assert_eq!(alive.texts().len(), 4, "all of them, by the one that lives");
    assert!(status.errors(ErrorReason::ConnectFailed) > 0);
    assert!(status.healthy());
    let revived = Hec::start_at(dead);
    let mut pushed = 4;
    until("the revived one is used", || {
        feed.push(&batch("main", 0, &[b"late"]));
        until("delivered", || feed.pending() == 0);
        !revived.texts().is_empty()
    });
    feed.close();
    sink.join().unwrap();
    pushed += feed.delivered().len() - 4;
    assert_eq!(alive.texts().len() + revived.texts().len(), pushed);
}

#[test]
fn a_stopping_process_waits_for_nothing_and_keeps_everything() {
    let server = Hec::answering(|_, _| Reply::Hang);
    let feed = feed_of(&texts(10));
    let mut hec = config(&[server.url()]);
    hec.batch.max_events = 4;
    let sink_config = SinkConfig::SplunkHec(hec.into());
    let quarantine = Arc::new(MemoryQuarantine::default());
    let (sink, _) = build("splunk", &sink_config, Path::new("."), quarantine).unwrap();
    let sink = start(sink, &feed);
    until("a request is under way", || server.requests().len() == 1);
    feed.stop();
    sink.join().unwrap();
    assert_eq!(feed.pending(), 10);
    assert_eq!(feed.in_hand(), 0, "all were put back");
}

#[test]
fn an_event_that_cannot_be_quarantined_stays_pending() {
    let server =
        Hec::answering(
            |_, events| match events.iter().position(|e| has(e, "event-00003")) {
                Some(bad) => Reply::named(6, bad as u64),
                None => Reply::Success,
            },
        );
    let quarantine = Arc::new(MemoryQuarantine::default());
    *quarantine.failures_left.lock().unwrap() = 2;
    let feed = feed_of(&texts(10));
    let sink_config = SinkConfig::SplunkHec(config(&[server.url()]).into());
    let keep = Arc::<MemoryQuarantine>::clone(&quarantine);
    let (sink, status) = build("splunk", &sink_config, Path::new("."), keep).unwrap();
    sink.run(Arc::<MemoryFeed>::clone(&feed));
    assert_eq!(feed.put_back(), 2);
    assert_eq!(status.errors(ErrorReason::QuarantineFailed), 2);
    assert_eq!(feed.refused(), ["event-00003"]);
    assert_eq!(server.texts().len(), 9);
}

#[test]
fn a_proxy_is_handed_what_goes_to_a_plain_endpoint() {
    let proxy = Hec::start();
    let mut config = config(&["http://idx1.invalid:8088".to_owned()]);
    config.proxy = Some(Secret::new(format!(
        "http://us%40er:pass@{}",
        proxy.address()
    )));
    run(config, feed_of(&texts(10)));
    assert_eq!(proxy.texts(), texts(10));
    let headers = &proxy.requests()[0].headers;
    assert_eq!(headers["host"], "idx1.invalid:8088");
    assert_eq!(headers["proxy-authorization"], "Basic dXNAZXI6cGFzcw==");
}

#[test]
fn a_proxy_is_asked_to_connect_to_a_tls_endpoint() {
    let authority = tls::Authority::new();
    let address = tls::serve(&authority, "127.0.0.1");
    let folder = tempfile::tempdir().unwrap();
    let (proxy, targets) = connect_proxy();
    let mut config = config(&[format!("https://{address}")]);
    config.proxy = Some(Secret::new(format!("http://{proxy}")));
    config.tls = tls::options(&authority, folder.path());
    let run = run(config, feed_of(&texts(10)));
    assert_eq!(run.feed.delivered().len(), 10);
    assert_eq!(targets.lock().unwrap()[0], address.to_string());
}

#[test]
fn a_connection_that_was_closed_while_idle_is_not_used_again() {
    let (address, close, closed) = closing_server();
    let feed = Arc::new(MemoryFeed::default());
    let sink_config = SinkConfig::SplunkHec(config(&[format!("http://{address}")]).into());
    let quarantine = Arc::new(MemoryQuarantine::default());
    let (sink, status) = build("splunk", &sink_config, Path::new("."), quarantine).unwrap();
    let sink = start(sink, &feed);
    for n in 0..10 {
        feed.push(&batch("main", n, &[b"event"]));
        until("delivered", || feed.pending() == 0);
        close.send(()).unwrap();
        closed.recv().unwrap();
    }
    feed.close();
    sink.join().unwrap();
    assert_eq!(status.errors(ErrorReason::Io), 0);
    assert_eq!(status.requests(), 10);
}

mod tls {
    use std::io::Write;
    use std::net::SocketAddr;

    use inrush_testkit::{SUCCESS, read_request};
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use rustls::server::WebPkiClientVerifier;
    use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

    use super::*;

    pub(super) struct Authority {
        issuer: Issuer<'static, KeyPair>,
        pub(super) pem: String,
        der: CertificateDer<'static>,
    }

    impl Authority {
        pub(super) fn new() -> Self {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let certificate = params.self_signed(&key).unwrap();
            let (pem, der) = (certificate.pem(), certificate.der().clone());
            Self {
                issuer: Issuer::new(params, key),
                pem,
                der,
            }
        }

        /// Certificate and key for a name, in PEM form.
        pub(super) fn issue(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
            (params.signed_by(&key, &self.issuer).unwrap(), key)
        }
    }

    /// What a client needs to be let in: the authority's files, written to `folder`.
    pub(super) fn options(authority: &Authority, folder: &Path) -> HecTlsConfig {
        let file = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).unwrap();
            Some(path)
        };
        let (certificate, key) = authority.issue("inrush");
        HecTlsConfig {
            ca_file: file("ca.pem", &authority.pem),
            cert_file: file("cert.pem", &certificate.pem()),
            key_file: file("key.pem", &key.serialize_pem()),
            verify: true,
        }
    }

    /// A collector behind TLS that wants a certificate of the same authority from its clients.
    pub(super) fn serve(authority: &Authority, name: &str) -> SocketAddr {
        let (certificate, key) = authority.issue(name);
        let mut roots = RootCertStore::empty();
        roots.add(authority.der.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier.build().unwrap())
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap();
        let (config, listener) = (Arc::new(config), TcpListener::bind("127.0.0.1:0").unwrap());
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
                let mut stream = StreamOwned::new(connection, stream.unwrap());
                if read_request(&mut stream).is_some() {
                    stream.write_all(SUCCESS).unwrap();
                    stream.conn.send_close_notify();
                    let _ = stream.flush();
                }
            }
        });
        address
    }
}

#[test]
fn tls_with_an_own_authority_and_a_client_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let authority = tls::Authority::new();
    let address = tls::serve(&authority, "127.0.0.1");
    let mut config = config(&[format!("https://{address}")]);
    config.tls = tls::options(&authority, folder.path());
    let run = run(config, feed_of(&texts(10)));
    assert_eq!(run.feed.delivered().len(), 10);
    assert!(run.status.healthy());
}

#[test]
fn an_unknown_authority_and_a_wrong_name_do_not_matter_where_nothing_is_verified() {
    let folder = tempfile::tempdir().unwrap();
    let authority = tls::Authority::new();
    let address = tls::serve(&authority, "other.example");
    let mut config = config(&[format!("https://{address}")]);
    config.tls = HecTlsConfig {
        ca_file: None,
        verify: false,
        ..tls::options(&authority, folder.path())
    };
    let run = run(config, feed_of(&texts(10)));
    assert_eq!(run.feed.delivered().len(), 10);
}

#[test]
fn a_certificate_of_another_authority_or_name_holds_the_events() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, theirs) = (tls::Authority::new(), tls::Authority::new());
    let ca_file = folder.path().join("ca.pem");
    std::fs::write(&ca_file, &ours.pem).unwrap();
    for address in [
        tls::serve(&theirs, "127.0.0.1"),
        tls::serve(&ours, "other.example"),
    ] {
        let feed = feed_of(&texts(10));
        let mut hec = config(&[format!("https://{address}")]);
        hec.tls.ca_file = Some(ca_file.clone());
        let quarantine = Arc::new(MemoryQuarantine::default());
        let sink_config = SinkConfig::SplunkHec(hec.into());
        let (sink, status) = build("splunk", &sink_config, Path::new("."), quarantine).unwrap();
        let sink = start(sink, &feed);
        until("refused", || status.errors(ErrorReason::Tls) > 0);
        feed.stop();
        sink.join().unwrap();
        assert_eq!((feed.pending(), feed.in_hand()), (10, 0));
    }
}

#[test]
fn certificates_that_cannot_be_used_are_named_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let authority = tls::Authority::new();
    let (certificate, _) = authority.issue("inrush");
    let (_, other_key) = authority.issue("other");
    let broken = |tls: HecTlsConfig| {
        let mut config = config(&["https://127.0.0.1:1".to_owned()]);
        config.tls = tls;
        let quarantine = Arc::new(MemoryQuarantine::default());
        build(
            "splunk",
            &SinkConfig::SplunkHec(config.into()),
            Path::new("."),
            quarantine,
        )
        .err()
        .unwrap()
    };
    let ca = |path| HecTlsConfig {
        ca_file: Some(path),
        ..HecTlsConfig::default()
    };
    let missing = broken(ca(folder.path().join("missing.pem")));
    assert!(matches!(missing, SinkError::Unreadable { .. }), "{missing}");
    let empty = broken(ca(file("empty.pem", "hello")));
    assert!(matches!(empty, SinkError::BadCertificate { .. }), "{empty}");
    let misfit = broken(HecTlsConfig {
        ca_file: Some(file("ca.pem", &authority.pem)),
        cert_file: Some(file("cert.pem", &certificate.pem())),
        key_file: Some(file("key.pem", &other_key.serialize_pem())),
        verify: true,
    });
    assert!(
        matches!(misfit, SinkError::BadCertificate { .. }),
        "{misfit}"
    );
}

#[test]
fn the_refusal_carries_the_collectors_words() {
    let (_, run) = ten(
        |_, events| match events.iter().position(|e| has(e, "event-00000")) {
            Some(bad) => Reply::named(12, bad as u64),
            None => Reply::Success,
        },
    );
    let fate = run.feed.fates()[0].1.clone().unwrap();
    let Fate::Refused { reason, code, text } = fate else {
        panic!("{fate:?}")
    };
    assert_eq!(
        (reason, code, text.as_str()),
        (RefuseReason::InvalidEvent, 12, "no")
    );
}
