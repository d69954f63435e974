//! Alarms: what is wrong, why, and what to do about it, in words for someone who was woken up.

use std::collections::HashMap;
use std::fmt::Write;

use inrush_event::Timestamp;
use inrush_queue::Stall;
use inrush_sink::ErrorReason;
use serde::Serialize;

use super::trend::{GrowingLoss, LossKind};
use crate::status::Trouble;

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Events are lost or come to a stop; somebody has to do something now.
    Critical,
    /// Nothing is lost yet, or something is put aside.
    Warning,
}

/// One thing that is wrong.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Alarm {
    /// Its name; the same for as long as it lasts.
    pub id: String,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong, in a sentence.
    pub what: String,
    /// Since when, in milliseconds since 1970; since it was first looked at where nobody knows.
    pub since_ms: i64,
    /// Why.
    pub cause: String,
    /// What to do.
    pub remedy: String,
    /// The page and section of the documentation, below the root of the repository.
    pub link: &'static str,
}

/// An alarm that may not know yet since when.
#[derive(Debug)]
pub(crate) struct Draft {
    id: String,
    severity: Severity,
    what: String,
    since: Option<Timestamp>,
    cause: String,
    remedy: String,
    link: &'static str,
}

/// A certificate that ends within this time is an alarm, in seconds.
const CERTIFICATE_SOON_S: i64 = 14 * 86_400;

/// A queue that will be full within this time is an alarm, in seconds.
const FILLING_SOON_S: u64 = 3600;

const QUEUE_FULL: &str = "docs/guides/queue.md#the-queue-is-full";
const DEAD: &str = "docs/guides/queue.md#a-destination-is-dead";
const FAULTS: &str = "docs/guides/faults.md";
const ANSWERS: &str = "docs/guides/hec.md#what-an-answer-means";
const STORE: &str = "docs/guides/store.md#when-something-is-wrong";
const QUARANTINE: &str = "docs/guides/quarantine.md";

const A_FAULT: &str = "A fault of Inrush itself: this must not happen.";

/// Alarms from drafts, the worst first. `known` remembers when those were first seen that do not
/// know it themselves, for as long as they last.
pub(super) fn settle(
    drafts: Vec<Draft>,
    known: &mut HashMap<String, Timestamp>,
    now: Timestamp,
) -> Vec<Alarm> {
    let mut seen = HashMap::new();
    let mut settled: Vec<Alarm> = drafts
        .into_iter()
        .map(|draft| {
            let since = draft.since.unwrap_or_else(|| {
                let since = known.get(&draft.id).copied().unwrap_or(now);
                seen.insert(draft.id.clone(), since);
                since
            });
            Alarm {
                id: draft.id,
                severity: draft.severity,
                what: draft.what,
                since_ms: since.0 / 1_000_000,
                cause: draft.cause,
                remedy: draft.remedy,
                link: draft.link,
            }
        })
        .collect();
    *known = seen;
    settled.sort_by_key(|alarm| alarm.severity);
    settled
}

pub(super) fn unbalanced(words: &str) -> Draft {
    Draft {
        id: "ledger-unbalanced".to_owned(),
        severity: Severity::Critical,
        what: format!("The ledger does not balance: {words}."),
        since: None,
        cause: A_FAULT.to_owned(),
        remedy: "Keep the log and this page, restart Inrush, and report both. Compare what the \
            destination has with what was sent."
            .to_owned(),
        link: "docs/guides/ledger.md#the-two-equations",
    }
}

pub(super) fn reader_ended(source: &str) -> Draft {
    Draft {
        id: format!("reader-ended:{source}"),
        severity: Severity::Critical,
        what: format!("A thread that reads for source {source} has ended."),
        since: None,
        cause: A_FAULT.to_owned(),
        remedy: "Restart Inrush: until then some sockets or connections are not read. Keep the \
            log, and report it."
            .to_owned(),
        link: "docs/guides/upgrade.md#restart",
    }
}

/// How to make room, with the destination for which most is pending.
fn make_room(slowest: &str) -> String {
    format!(
        "Most is pending for {slowest}: see why it takes nothing. To go on at once, raise \
         `queue.max_bytes` (`queue.memory_bytes` without a disk) and reload (`systemctl reload \
         inrush`, or SIGHUP), or make room on the disk. `inrush queue ls` shows whose events take \
         the room."
    )
}

pub(super) fn queue_stalled(stall: &Stall, slowest: &str) -> Draft {
    let remedy = match stall.full {
        true => make_room(slowest),
        false => "Look at the disk of the data directory: `dmesg`, `df -h`, its mount options and \
            who may write there. Inrush tries again every second and goes on by itself."
            .to_owned(),
    };
    Draft {
        id: "queue-stalled".to_owned(),
        severity: Severity::Critical,
        what: format!("Nothing is written to the queue: {}.", stall.text),
        since: Some(stall.since),
        cause: match stall.full {
            true => "More came in than the destinations took, for so long that the room for it is \
                used up. TCP and RELP senders wait; UDP loses datagrams."
                .to_owned(),
            false => "The disk under the data directory does not take what is written. Sources \
                wait; UDP loses datagrams."
                .to_owned(),
        },
        remedy,
        link: QUEUE_FULL,
    }
}

pub(super) fn queue_full(since: Timestamp, slowest: &str) -> Draft {
    Draft {
        id: "queue-full".to_owned(),
        severity: Severity::Critical,
        what: "Sources wait for room in the queue.".to_owned(),
        since: Some(since),
        cause: "The disk does not keep up with what comes in, or the queue's memory is used up. \
            TCP and RELP senders wait; UDP loses datagrams."
            .to_owned(),
        remedy: format!(
            "If the queue is on disk, look whether that disk is slow or busy (`iostat -x 1`). If \
             it is in memory, raise `queue.memory_bytes`, or see why {slowest} takes nothing."
        ),
        link: QUEUE_FULL,
    }
}

pub(super) fn queue_filling(seconds: u64, slowest: &str) -> Option<Draft> {
    (seconds < FILLING_SOON_S).then(|| Draft {
        id: "queue-filling".to_owned(),
        severity: Severity::Warning,
        what: format!(
            "The queue will be full in about {} minutes.",
            seconds.div_ceil(60).max(1)
        ),
        since: None,
        cause: format!("More comes in than {slowest} takes."),
        remedy: make_room(slowest),
        link: QUEUE_FULL,
    })
}

pub(super) fn destination(name: &str, trouble: &Trouble) -> Draft {
    let (since, reason) = match trouble {
        Trouble::Ended => {
            return Draft {
                id: format!("destination-ended:{name}"),
                severity: Severity::Critical,
                what: format!("The thread of destination {name} has ended."),
                since: None,
                cause: A_FAULT.to_owned(),
                remedy: "Reload (`systemctl reload inrush`, or SIGHUP): that starts it again. Its \
                    events wait in the queue. Keep the log, and report it."
                    .to_owned(),
                link: "docs/guides/upgrade.md#reload",
            };
        }
        Trouble::Stalled { since } => {
            return Draft {
                id: format!("destination-stalled:{name}"),
                severity: Severity::Warning,
                what: format!("Destination {name} has events pending and takes none."),
                since: Some(*since),
                cause: "A request or a write to it hangs, or is very slow.".to_owned(),
                remedy: "Look at the load of what it sends to, or the disk that it writes to. Its \
                    events wait in the queue and go out by themselves."
                    .to_owned(),
                link: DEAD,
            };
        }
        Trouble::Failing { since, error } => (*since, error.as_ref().map(|error| error.reason)),
    };
    let (cause, remedy, link) = reason.map_or(
        ("Its last attempt failed.", "Look at the log.", DEAD),
        cause_and_remedy,
    );
    let mut what = format!("Destination {name} takes no events");
    let words = trouble.words();
    if !words.is_empty() {
        // Writing to a String cannot fail.
        let _ = write!(what, ": {words}");
    }
    what.push('.');
    Draft {
        id: format!("destination-failing:{name}"),
        severity: Severity::Warning,
        what,
        since: Some(since),
        cause: cause.to_owned(),
        remedy: format!("{remedy} Its events wait in the queue and go out by themselves then."),
        link,
    }
}

/// Why an attempt fails, what to do, and where it is written.
// tidy: long because it is a table, a row for each reason
fn cause_and_remedy(reason: ErrorReason) -> (&'static str, &'static str, &'static str) {
    match reason {
        ErrorReason::ConnectFailed => (
            "Nothing answers at its address: the service is down, the name or port is wrong, or a \
             firewall is in between.",
            "Check from this host that the address can be reached (`curl -vk ENDPOINT`); start the \
             service, or correct `endpoints` and reload.",
            DEAD,
        ),
        ErrorReason::Timeout => (
            "It takes the connection and does not answer in time: it is overloaded, or hangs.",
            "Look at its load and at its own log. If it is only slow, raise `request_timeout`.",
            ANSWERS,
        ),
        ErrorReason::Tls => (
            "The TLS handshake fails: an unknown authority, a wrong name, or a certificate that \
             has ended.",
            "Look at its certificate (`openssl s_client -connect HOST:PORT`); compare it with \
             `tls.ca_file` and with the name in `endpoints`.",
            "docs/guides/hec.md#proxy-tls-gzip",
        ),
        ErrorReason::Io => (
            "A connection broke, or a file could not be written.",
            "For files: check that the folder is there and that Inrush's user may write to it, and \
             look at `dmesg`. For a collector: look at its own log.",
            FAULTS,
        ),
        ErrorReason::BadAnswer => (
            "What answers there is no HTTP Event Collector.",
            "Check address and port in `endpoints`: a proxy or a load balancer may answer in its \
             place.",
            ANSWERS,
        ),
        ErrorReason::Http400 => (
            "It refuses whole requests because of a setting, not because of an event.",
            "Its own words above name the setting: a token that is disabled there, a channel, an \
             index. Mend it there, or here and reload.",
            ANSWERS,
        ),
        ErrorReason::Http401And403 => (
            "It refuses the token.",
            "Put a token into the configuration that is enabled there, and reload (`systemctl \
             reload inrush`, or SIGHUP).",
            ANSWERS,
        ),
        ErrorReason::Http404 => (
            "There is no HTTP Event Collector at this address.",
            "Check host and port in `endpoints`; the collector's port is 8088 as a rule.",
            ANSWERS,
        ),
        ErrorReason::Http413 => (
            "Requests are too large for it.",
            "Lower `batch.max_bytes`, or raise the limit of the proxy in front of it.",
            ANSWERS,
        ),
        ErrorReason::Http429 => (
            "It asks to slow down, and is obeyed.",
            "Nothing has to be done unless the queue fills up: then it needs more capacity.",
            "docs/guides/hec.md#a-busy-collector",
        ),
        ErrorReason::Http5xx => (
            "It fails, or a proxy in front of it does.",
            "Look at its own log and at its load.",
            ANSWERS,
        ),
        ErrorReason::HttpOther => (
            "It answers with a status that is no success, such as a redirect.",
            "Check `endpoints`: the address of a web page is not that of the collector.",
            ANSWERS,
        ),
        ErrorReason::AckFailed => (
            "It takes events and does not confirm them.",
            "Check that the token has indexer acknowledgement, and that no load balancer spreads \
             one connection's requests over several indexers.",
            "docs/guides/hec.md#acknowledgements",
        ),
        ErrorReason::DiskFull => (
            "The disk is full, or the quota is used up.",
            "Make room there (`df -h`): delete or move what is old, or have less kept: \
             `keep_files` of a `file` destination, `keep` of a `store`.",
            FAULTS,
        ),
        ErrorReason::QuarantineFailed => (
            "Events that it refused cannot be put into quarantine.",
            "Look at the disk of the data directory and at `queue.quarantine_bytes`; send what is \
             in quarantine again, or drop it.",
            "docs/guides/quarantine.md#when-it-is-full",
        ),
    }
}

pub(super) fn losing(loss: &GrowingLoss) -> Draft {
    let GrowingLoss {
        kind, name, count, ..
    } = loss;
    let (id, severity, what, cause, remedy, link) = match kind {
        LossKind::KernelDropped => (
            "kernel-drops",
            Severity::Critical,
            format!("Source {name} has lost {count} UDP datagrams."),
            "The receive buffer of a socket was full: the buffer is small, the host is busy, or \
             the reading waited for the queue.",
            "First see whether a destination is slow: the readers wait for it. Then give the \
             process the buffer (CAP_NET_ADMIN, or `sysctl -w net.core.rmem_max=67108864` and a \
             restart), and see whether one sender sends most of it.",
            "docs/guides/udp-loss.md#when-kernel_dropped-grows",
        ),
        LossKind::Rejected => (
            "events-rejected",
            Severity::Critical,
            format!("Source {name} has turned away {count} events."),
            "The queue was full, and `when_full` is `drop_newest`; or the process was stopping.",
            "Make room in the queue: see which destination is behind (`inrush queue ls`), or raise \
             `queue.max_bytes`. With `when_full: block` TCP senders wait instead.",
            QUEUE_FULL,
        ),
        LossKind::Cut => (
            "bytes-cut",
            Severity::Warning,
            format!("Source {name} has cut {count} bytes that are in no event."),
            "Messages are longer than `max_message_bytes`, or a peer does not keep to the framing. \
             The loss map has the reasons; the events are flagged `oversize` or `bad_frame`.",
            "Search for events with `anomalies=oversize` to see who sends them. If they are \
             honest, raise `max_message_bytes`; if the framing of a source is known, set \
             `framing`.",
            FAULTS,
        ),
        LossKind::Dropped => (
            "events-dropped",
            Severity::Critical,
            format!("{count} events for destination {name} were given up."),
            "The loss map says for which reason: a full queue with `drop_oldest`, damage on the \
             disk or a crash, a destination that was removed, or a quarantine that could not be \
             written.",
            "For damage run `inrush queue verify` and look at the disk; for a full queue make room \
             in it.",
            "docs/guides/queue.md#something-is-damaged",
        ),
        LossKind::Quarantined => (
            "events-refused",
            Severity::Warning,
            format!("Destination {name} has refused {count} events; they are in quarantine."),
            "It will never take them as they are: too large, malformed, or for an index that is \
             not there.",
            "`inrush queue quarantine ls` says why. Mend the cause, then `inrush queue quarantine \
             replay`.",
            QUARANTINE,
        ),
    };
    Draft {
        id: format!("{id}:{name}"),
        severity,
        what,
        since: Some(loss.since),
        cause: cause.to_owned(),
        remedy: remedy.to_owned(),
        link,
    }
}

/// Files of a store that searches pass over.
pub(super) fn unreadable(name: &str, files: u64) -> Option<Draft> {
    let are = match files {
        0 => return None,
        1 => "One file of the store cannot be read".to_owned(),
        n => format!("{n} files of the store cannot be read"),
    };
    Some(Draft {
        id: format!("store-unreadable:{name}"),
        severity: Severity::Warning,
        what: format!("{are}: searches of {name} do not see what is in it."),
        since: None,
        cause: "What is on the disk is not what was written: a disk that fails, or something else \
            that writes there."
            .to_owned(),
        remedy:
            "The log names each with its reason. Copy them from a backup to the same paths and \
            restart, or leave them: they go with their age. Look at the disk."
                .to_owned(),
        link: STORE,
    })
}

/// A certificate that ends soon, or has ended. `not_after_s`: seconds since 1970.
pub(super) fn certificate(source: &str, not_after_s: i64) -> Option<Draft> {
    let left_s = not_after_s - Timestamp::now().0 / 1_000_000_000;
    if left_s > CERTIFICATE_SOON_S {
        return None;
    }
    let (severity, what) = match left_s {
        ..=0 => (
            Severity::Critical,
            format!("The certificate of source {source} has ended."),
        ),
        _ => (
            Severity::Warning,
            match left_s / 3600 {
                0 => format!("The certificate of source {source} ends within the hour."),
                hours @ ..48 => format!(
                    "The certificate of source {source} ends in {} hours.",
                    hours + 1
                ),
                hours => {
                    let days = hours / 24;
                    format!("The certificate of source {source} ends in {days} days.")
                }
            },
        ),
    };
    Some(Draft {
        id: format!("certificate:{source}"),
        severity,
        what,
        since: None,
        cause: "Senders refuse a certificate that has ended, and cannot connect.".to_owned(),
        remedy: "Write a new certificate and key over the files that the configuration names: \
            they are read again within a second, and no connection is closed."
            .to_owned(),
        link: "docs/guides/tls.md#rotation",
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use inrush_sink::LastError;
    use std::path::Path;

    const AT: Timestamp = Timestamp(5_000_000_000);

    fn failing(reason: ErrorReason) -> Trouble {
        let error = LastError {
            reason,
            text: "idx1:8088: its own words".to_owned(),
            at: AT,
        };
        Trouble::Failing {
            since: AT,
            error: Some(error),
        }
    }

    /// One of each.
    fn all() -> Vec<Draft> {
        let stall = |full| Stall {
            since: AT,
            text: "the disk is full".to_owned(),
            full,
        };
        let loss = |kind| GrowingLoss {
            kind,
            name: "syslog".to_owned(),
            since: AT,
            count: 7,
        };
        let soon = Timestamp::now().0 / 1_000_000_000 + 3 * 86_400 + 60;
        let mut all = vec![
            unbalanced("source s: received 1 ≠ accepted 0"),
            reader_ended("syslog"),
            queue_stalled(&stall(true), "splunk"),
            queue_stalled(&stall(false), "splunk"),
            queue_full(AT, "splunk"),
            queue_filling(61, "splunk").unwrap(),
            destination("tape", &Trouble::Ended),
            destination("tape", &Trouble::Stalled { since: AT }),
            certificate("syslog", soon).unwrap(),
            certificate("syslog", 1).unwrap(),
            unreadable("local", 1).unwrap(),
            unreadable("local", 3).unwrap(),
        ];
        let reasons = ErrorReason::ALL.iter();
        all.extend(reasons.map(|reason| destination("splunk", &failing(*reason))));
        for kind in [
            LossKind::KernelDropped,
            LossKind::Rejected,
            LossKind::Cut,
            LossKind::Dropped,
            LossKind::Quarantined,
        ] {
            all.push(losing(&loss(kind)));
        }
        all
    }

    #[test]
    fn every_alarm_says_what_why_and_what_to_do_in_whole_sentences() {
        for draft in all() {
            for (words, least) in [(&draft.what, 15), (&draft.cause, 15), (&draft.remedy, 30)] {
                let whole = words.ends_with('.') && !words.ends_with("..");
                assert!(whole && words.len() >= least, "{draft:?}");
                assert!(!words.contains("  "), "{draft:?}");
            }
        }
        for reason in ErrorReason::ALL {
            let (cause, remedy, _) = cause_and_remedy(*reason);
            assert!(cause.ends_with('.') && remedy.ends_with('.'), "{reason:?}");
        }
    }

    #[test]
    fn every_link_leads_to_a_section_that_is_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for draft in all() {
            let (file, section) = draft.link.split_once('#').unwrap_or((draft.link, ""));
            let text = std::fs::read_to_string(root.join(file)).unwrap();
            let anchor = |line: &str| {
                let title = line.trim_start_matches('#').trim().to_lowercase();
                let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
                title
                    .chars()
                    .filter(kept)
                    .collect::<String>()
                    .replace(' ', "-")
            };
            let mut headings = text.lines().filter(|line| line.starts_with('#'));
            let there = section.is_empty() || headings.any(|line| anchor(line) == section);
            assert!(there, "{}", draft.link);
        }
    }

    #[test]
    fn the_words_of_a_collector_are_shown_and_the_worst_comes_first() {
        let drafts = vec![
            destination("splunk", &failing(ErrorReason::Http401And403)),
            unbalanced("x"),
        ];
        let alarms = settle(drafts, &mut HashMap::new(), Timestamp(9_000_000));
        assert_eq!(alarms[0].severity, Severity::Critical);
        assert_eq!(alarms[1].id, "destination-failing:splunk");
        assert_eq!(alarms[1].since_ms, 5000);
        assert!(alarms[1].what.contains("idx1:8088: its own words"));
        assert!(alarms[1].remedy.contains("token"));
    }

    #[test]
    fn an_alarm_that_does_not_know_since_when_is_remembered_while_it_lasts() {
        let mut known = HashMap::new();
        let mut at = |ms: i64, drafts: Vec<Draft>| {
            let alarms = settle(drafts, &mut known, Timestamp(ms * 1_000_000));
            alarms.first().map(|alarm| alarm.since_ms)
        };
        assert_eq!(at(1000, vec![reader_ended("a")]), Some(1000));
        assert_eq!(at(2000, vec![reader_ended("a")]), Some(1000));
        assert_eq!(at(3000, vec![]), None);
        assert_eq!(at(4000, vec![reader_ended("a")]), Some(4000));
    }

    #[test]
    fn what_is_far_off_is_no_alarm() {
        assert!(queue_filling(FILLING_SOON_S, "splunk").is_none());
        let now = Timestamp::now().0 / 1_000_000_000;
        assert!(certificate("syslog", now + CERTIFICATE_SOON_S + 60).is_none());
    }

    #[test]
    fn a_certificate_that_ends_tonight_says_in_how_many_hours() {
        let what = |left_s: i64| {
            let now = Timestamp::now().0 / 1_000_000_000;
            certificate("syslog", now + left_s).unwrap().what
        };
        assert!(what(30 * 60).contains("within the hour"));
        assert!(what(47 * 3600 + 60).contains("in 48 hours"));
        assert!(what(50 * 3600).contains("in 2 days"));
        assert!(what(-1).contains("has ended"));
    }
}
