//! Splunk collectors: whether they can be reached, are well, and take the token. Nothing was sent
//! that could be indexed: a good token is answered with code 5, `No data`.

use crate::doctor::asked::{CollectorEndpoint, CollectorReachability, CollectorResponse};
use crate::doctor::finding::{Finding, Layer, Severity};
use crate::doctor::scene::HostFacts;

pub(super) fn check(scene: &HostFacts) -> Vec<Finding> {
    collector_findings(&scene.ask.collectors)
}

/// A finding for each of these endpoints, in their order.
pub fn collector_findings(all: &[CollectorEndpoint]) -> Vec<Finding> {
    let finding = |one: &CollectorEndpoint| {
        let works = |other: &&CollectorEndpoint| {
            other.destination == one.destination && verdict(&other.reached).severity < MOST
        };
        finding(one, all.iter().any(|other| works(&other)))
    };
    all.iter().map(finding).collect()
}

/// Severity for a destination without an endpoint that works.
const MOST: Severity = Severity::Critical;

/// Judgement of an attempt to reach a collector.
struct CollectorVerdict {
    severity: Severity,
    found: String,
    wanted: &'static str,
    why: &'static str,
    remedy: Remedy,
}

/// Kind of the command that helps.
#[derive(Clone, Copy)]
enum Remedy {
    Resolve,
    Connect,
    Handshake,
    Health,
    Token,
    Check,
}

fn finding(one: &CollectorEndpoint, another_works: bool) -> Finding {
    let CollectorVerdict {
        severity,
        found,
        wanted,
        why,
        remedy,
    } = verdict(&one.reached);
    let id = format!("destination.hec:{}:{}", one.destination, one.authority);
    let found = format!("{}{}: {found}", one.endpoint, one.way);
    let finding = Finding::new(id, Layer::Destination, found)
        .wanted(wanted)
        .why(why);
    match severity {
        Severity::Ok => finding,
        // Events go around an endpoint that fails.
        MOST if another_works => finding.bad(Severity::Warn, command(one, remedy)),
        severity => finding.bad(severity, command(one, remedy)),
    }
}

fn verdict(reached: &CollectorReachability) -> CollectorVerdict {
    let unreached = |found: String, remedy| CollectorVerdict {
        severity: MOST,
        found,
        wanted: "a collector that answers",
        why: "Events for it wait in the queue. When that is full sources wait too: TCP senders \
            are held up, and UDP is lost.",
        remedy,
    };
    match reached {
        CollectorReachability::NotTried(why) => {
            unreached(format!("not tried: {why}"), Remedy::Check)
        }
        CollectorReachability::NoName(why) => unreached(format!("DNS: {why}"), Remedy::Resolve),
        CollectorReachability::NoConnection(why) => {
            unreached(format!("no connection: {why}"), Remedy::Connect)
        }
        CollectorReachability::NoTls(why) => unreached(format!("TLS: {why}"), Remedy::Handshake),
        CollectorReachability::NoAnswer(why) => {
            unreached(format!("no HTTP answer: {why}"), Remedy::Health)
        }
        CollectorReachability::Answered {
            health,
            token,
            index,
        } => answered(health, token, index.as_deref()),
    }
}

fn answered(
    health: &CollectorResponse,
    token: &CollectorResponse,
    index: Option<&str>,
) -> CollectorVerdict {
    let (taken, ill) = (matches!(token.code, Some(0 | 5)), health.status >= 500);
    let found = format!("health {}; token {}", words(health), words(token));
    let new = |severity, wanted, why, remedy| CollectorVerdict {
        severity,
        found: match (token.code, index) {
            (Some(7), Some(index)) => format!("{found}, of index {index}"),
            _ => found.clone(),
        },
        wanted,
        why,
        remedy,
    };
    const GOOD: &str = "healthy (200), and the token taken: `No data` to an empty request";
    match token.code {
        _ if taken && !ill => new(Severity::Ok, GOOD, GOOD_WHY, Remedy::Health),
        _ if taken => new(Severity::Warn, GOOD, ILL, Remedy::Health),
        Some(1..=4 | 16 | 21 | 22) => new(MOST, GOOD, TOKEN, Remedy::Token),
        Some(7) => new(
            MOST,
            "an index that is there and that the token allows",
            INDEX,
            Remedy::Token,
        ),
        Some(10 | 11 | 28) => new(MOST, GOOD, CHANNEL, Remedy::Check),
        Some(9 | 18..=20 | 23..=27) => new(Severity::Warn, GOOD, ILL, Remedy::Health),
        _ if token.status == 404 => new(MOST, GOOD, NO_HEC, Remedy::Health),
        _ if token.status >= 500 => new(Severity::Warn, GOOD, ILL, Remedy::Health),
        _ => new(MOST, GOOD, NO_HEC, Remedy::Health),
    }
}

const GOOD_WHY: &str = "An empty request asks for nothing but the token. Whether an index is \
    allowed a collector says with certainty only for events.";
const ILL: &str = "The collector's queues are full or it is about to stop: events wait here until \
    it takes them again.";
const TOKEN: &str = "Every request is refused; events wait in the queue until the collector \
    accepts the token. Look at it in Splunk under Settings, Data inputs, HTTP Event Collector.";
const INDEX: &str = "Events for this index go to quarantine, or to `reroute_index`. Create it, or \
    add it to the token's allowed indexes.";
const CHANNEL: &str = "This token has indexer acknowledgement: set `acknowledgements: true` at the \
    destination, or take it off the token.";
const NO_HEC: &str = "Something else than a collector answers: look at the address, the port, and \
    the proxy.";

fn words(answer: &CollectorResponse) -> String {
    let CollectorResponse { status, code, text } = answer;
    match code {
        Some(code) => format!("{status}, code {code} {text:?}"),
        None => format!("{status}, not HEC's words {text:?}"),
    }
}

fn command(one: &CollectorEndpoint, remedy: Remedy) -> String {
    let authority = &one.authority;
    let host = authority
        .rsplit_once(':')
        .map_or(authority.as_str(), |(host, _)| host);
    let endpoint = &one.endpoint;
    let health = endpoint.replace("/services/collector/event", "/services/collector/health");
    match remedy {
        Remedy::Resolve => format!("getent ahosts {host}"),
        Remedy::Connect | Remedy::Health => format!("curl -sv -m 5 {health}"),
        Remedy::Handshake => format!("openssl s_client -connect {authority} </dev/null"),
        Remedy::Token => {
            format!("curl -s -X POST -H \"Authorization: Splunk $TOKEN\" {endpoint}")
        }
        Remedy::Check => "inrush check".to_owned(),
    }
}
