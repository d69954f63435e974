//! Certificates and collectors, as others found them.

use super::Severity::{Critical, Info, Ok as Well, Warn};
use super::*;

const DAY_S: i64 = 24 * 60 * 60;

/// A certificate that is good for so many days from now.
fn dates(from: i64, to: i64) -> ValidityPeriod {
    let moment = |days: i64| ValidityTime {
        from_now_s: days * DAY_S,
        day: format!("day {days}"),
    };
    ValidityPeriod {
        subject: "CN=x".to_owned(),
        not_before: moment(from),
        not_after: moment(to),
    }
}

fn certificate(authorities: bool, dates: Vec<ValidityPeriod>) -> Finding {
    let mut made = Made::good(1);
    made.ask.certificates = vec![CertificateFile {
        option: "cert_file",
        owner: "sources.s".to_owned(),
        path: "/c.pem".into(),
        authorities,
        dates: Ok(dates),
    }];
    let finding = made.finding("tls.cert_file:sources.s");
    assert_eq!(finding.layer, Layer::Tls);
    assert_eq!(finding.command.is_none(), finding.severity == Well);
    finding
}

#[test]
fn the_nearer_the_end_the_worse() {
    for (from, to, severity, found) in [
        (-1, 30, Well, "/c.pem: CN=x: expires on day 30, in 30 days"),
        (-1, 29, Info, "/c.pem: CN=x: expires on day 29, in 29 days"),
        (-1, 14, Info, "/c.pem: CN=x: expires on day 14, in 14 days"),
        (-1, 13, Warn, "/c.pem: CN=x: expires on day 13, in 13 days"),
        (-1, 0, Critical, "/c.pem: CN=x: expired on day 0"),
        (
            1,
            90,
            Critical,
            "/c.pem: CN=x: not yet valid, good from day 1 on",
        ),
    ] {
        let finding = certificate(false, vec![dates(from, to)]);
        assert_eq!(
            (finding.severity, finding.found.as_str()),
            (severity, found)
        );
    }
}

#[test]
fn of_revocation_lists_the_first_to_expire_counts_and_only_its_last_day() {
    for (left_s, severity) in [(DAY_S, Well), (DAY_S / 2, Warn), (-1, Critical)] {
        let mut made = Made::good(1);
        let mut first = dates(-7, 1);
        first.not_after.from_now_s = left_s;
        made.ask.certificates = vec![CertificateFile {
            option: "crl_files",
            owner: "sources.s".to_owned(),
            path: "/c.crl".into(),
            authorities: false,
            dates: Ok(vec![dates(-7, 9), first]),
        }];
        let finding = made.finding("tls.crl_files:sources.s");
        assert_eq!(finding.severity, severity, "{}", finding.found);
        let shown = finding.command.unwrap_or_default();
        assert_eq!(shown.contains("openssl crl "), severity != Well, "{shown}");
    }
}

#[test]
fn refused_senders_are_named_by_source_with_reason_and_count() {
    let mut made = Made::good(1);
    let row = |n: u64, last_s_ago| RefusedSender {
        source: "s".to_owned(),
        address: format!("192.0.2.{n}"),
        why: "no client certificate".to_owned(),
        remedy: "Give it one.".to_owned(),
        count: n,
        last_s_ago,
    };
    made.ask.refused = (1..=7).map(|n| row(n, 5000)).collect();
    let finding = made.finding("connections.refused:s");
    assert_eq!((finding.layer, finding.severity), (Layer::Socket, Info));
    let found = "source s has refused 28 connections: 192.0.2.1: no client certificate: 1, the \
                 last 5000 s ago; ";
    assert!(finding.found.starts_with(found), "{}", finding.found);
    let rest = "; and 2 more addresses and reasons";
    assert!(finding.found.ends_with(rest), "{}", finding.found);
    assert!(finding.why.ends_with("Give it one."), "{}", finding.why);
    made.ask.refused.push(row(8, 3599));
    assert_eq!(made.finding("connections.refused:s").severity, Warn);
}

#[test]
fn our_own_certificate_is_the_first_and_of_authorities_the_best_counts() {
    let both = vec![dates(-9, -1), dates(-9, 90)];
    assert_eq!(certificate(false, both.clone()).severity, Critical);
    let authorities = certificate(true, both);
    assert_eq!(authorities.severity, Well);
    assert!(authorities.found.ends_with("the last of 2"));
    // One that is not good yet does not stand in for one that is.
    let early = vec![dates(1, 90), dates(-9, 5)];
    assert_eq!(certificate(true, early).severity, Warn);
}

fn answer(status: u16, code: Option<u32>) -> CollectorResponse {
    CollectorResponse {
        status,
        code,
        text: "words".to_owned(),
    }
}

fn collector(endpoint: &str, reached: CollectorReachability) -> CollectorEndpoint {
    CollectorEndpoint {
        destination: "out".to_owned(),
        endpoint: format!("https://{endpoint}/services/collector/event"),
        authority: endpoint.to_owned(),
        way: String::new(),
        reached,
    }
}

fn answered(health: u16, status: u16, code: Option<u32>) -> CollectorReachability {
    CollectorReachability::Answered {
        health: answer(health, Some(17)),
        token: answer(status, code),
        index: Some("netfw".to_owned()),
    }
}

#[test]
fn what_a_collector_answers_says_what_to_do() {
    let health = "curl -sv -m 5 https://h:1/services/collector/health";
    let token = "curl -s -X POST -H \"Authorization: Splunk $TOKEN\" \
                 https://h:1/services/collector/event";
    let check = "inrush check";
    for (reached, severity, command) in [
        (answered(200, 200, Some(0)), Well, None),
        (answered(200, 400, Some(5)), Well, None),
        (answered(503, 400, Some(5)), Warn, Some(health)),
        (answered(200, 401, Some(2)), Critical, Some(token)),
        (answered(200, 403, Some(1)), Critical, Some(token)),
        (answered(200, 400, Some(7)), Critical, Some(token)),
        (answered(200, 400, Some(10)), Critical, Some(check)),
        (answered(200, 400, Some(28)), Critical, Some(check)),
        (answered(200, 503, Some(9)), Warn, Some(health)),
        (answered(200, 429, Some(26)), Warn, Some(health)),
        (answered(200, 502, None), Warn, Some(health)),
        (answered(404, 404, Some(404)), Critical, Some(health)),
        (answered(200, 200, None), Critical, Some(health)),
        (
            CollectorReachability::NoName("x".to_owned()),
            Critical,
            Some("getent ahosts h"),
        ),
        (
            CollectorReachability::NoTls("x".to_owned()),
            Critical,
            Some("openssl s_client -connect h:1 </dev/null"),
        ),
        (
            CollectorReachability::NoConnection("x".to_owned()),
            Critical,
            Some(health),
        ),
        (
            CollectorReachability::NoAnswer("x".to_owned()),
            Critical,
            Some(health),
        ),
        (
            CollectorReachability::NotTried("x".to_owned()),
            Critical,
            Some(check),
        ),
    ] {
        let mut made = Made::good(1);
        made.ask.collectors = vec![collector("h:1", reached)];
        made.answers("destination.hec:out:h:1", severity, command);
    }
}

#[test]
fn events_go_around_an_endpoint_that_fails() {
    let mut made = Made::good(1);
    let bad = || CollectorReachability::NoConnection("refused".to_owned());
    made.ask.collectors = vec![
        collector("h:1", bad()),
        collector("h:2", answered(200, 400, Some(5))),
    ];
    assert_eq!(made.finding("destination.hec:out:h:1").severity, Warn);
    made.ask.collectors = vec![collector("h:1", bad()), collector("h:2", bad())];
    assert_eq!(made.finding("destination.hec:out:h:1").severity, Critical);
    // Another destination's endpoint does not help.
    let mut other = collector("h:3", answered(200, 400, Some(5)));
    other.destination = "other".to_owned();
    made.ask.collectors = vec![collector("h:1", bad()), other];
    assert_eq!(made.finding("destination.hec:out:h:1").severity, Critical);
}

#[test]
fn a_configuration_that_cannot_be_used_is_told() {
    let mut made = Made::good(1);
    let none = |f: &Finding| f.id != "config.unusable";
    assert!(made.report().findings.iter().all(none));
    made.ask.unusable = Some("1:2: x".to_owned());
    made.says("config.unusable", Critical, None, "inrush check");
}

/// A part on the file system of this number, which has 100 GiB.
fn part(device: u64, option: &str, gib: Option<u64>, free_gib: u64) -> DiskRequirement {
    DiskRequirement {
        option: option.to_owned(),
        folder: format!("/{device}").into(),
        device,
        total_bytes: 100 * GIB,
        most_bytes: gib.map(|gib| gib * GIB),
        leaves: (free_gib > 0).then(|| ("a.free".to_owned(), free_gib * GIB)),
    }
}

#[test]
fn bounds_are_added_up_by_file_system_and_held_against_its_size() {
    let finding = |disks: &[DiskRequirement], id: &str| {
        let mut made = Made::good(1);
        made.ask.disks = disks.to_vec();
        made.finding(id)
    };
    let queue = part(1, "queue.max_bytes", Some(50), 5);
    let store = |gib| part(1, "a.keep.bytes", Some(gib), 10);
    let archive = part(1, "b", None, 0);
    // Of what is left free the most counts, for others need not leave it again.
    let fits = finding(&[queue.clone(), store(40), archive.clone()], "disk.budgets");
    assert_eq!(
        (fits.severity, fits.found.as_str()),
        (
            Well,
            "/1: 100 GiB of 100 GiB: `queue.max_bytes` 50 GiB, `a.keep.bytes` 40 GiB, `b` without \
             a bound, `a.free` 10 GiB left free"
        )
    );
    let over = finding(&[queue.clone(), store(41)], "disk.budgets");
    assert_eq!(over.severity, Warn);
    assert!(over.why.contains("more than the disk has"), "{}", over.why);
    // Elsewhere it takes nothing of this one.
    let elsewhere = [queue.clone(), part(2, "a.keep.bytes", Some(41), 10)];
    assert_eq!(finding(&elsewhere, "disk.budgets:/1").severity, Well);
    assert_eq!(finding(&elsewhere, "disk.budgets:/2").severity, Well);
    let all_free = part(1, "a.keep.bytes", Some(1), 100);
    let words = overdrawn(&[queue, all_free]);
    assert!(
        words[0].contains("`a.free` is more than the disk has"),
        "{words:?}"
    );
    assert_eq!(words.len(), 1);
    assert!(overdrawn(&elsewhere).is_empty());
}
