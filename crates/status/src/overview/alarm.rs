//! Texts of alarms: symptom, cause and remedy, for an operator who was woken up.
//!
//! # What it guarantees
//! * An alarm keeps its `id` and its time for as long as it lasts.
//! * Each has a link to the page and section of the documentation; a test checks that it exists.
//! * The critical ones come first.
//!
//! # Limits
//! A queue that fills up is a warning an hour ahead (`FILLING_SOON_S`), and critical 15 minutes
//! ahead (`FULL_SOON_S`). A certificate is a warning 14 days ahead.
//!
//! # After a crash
//! Times begin anew, except those that the state behind an alarm keeps itself.

mod files;
mod latency;
mod overflow;
mod refused;
mod store;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt::Write;

use inrush_event::Timestamp;
use inrush_queue::{DestinationBacklog, Stall, WhenFull};
use inrush_sink::ErrorReason;
use serde::Serialize;

use super::fault::DestinationFault;
use crate::trend::{GrowingLoss, LossKind};

pub(super) use files::files;
pub(super) use latency::{slow, throttled};
pub(super) use overflow::overflow;
pub(super) use refused::refused;
pub(super) use store::{clock_doubted, store_short};

/// Severity of an alarm, the worst first.
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
pub struct ActiveAlarm {
    /// Its name; the same for as long as it lasts.
    pub id: String,
    /// Its severity, by which alarms are sorted.
    pub severity: Severity,
    /// The symptom, in a sentence.
    pub what: String,
    /// Since when, in milliseconds since 1970; since it was first looked at where nobody knows.
    pub since_ms: i64,
    /// The cause, in sentences.
    pub cause: String,
    /// The remedy, in sentences for the operator.
    pub remedy: String,
    /// The page and section of the documentation, below the root of the repository.
    pub link: &'static str,
}

/// An alarm that may not know yet since when.
#[derive(Debug)]
pub struct AlarmDraft {
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

/// A queue that will be full within this time is a critical alarm, in seconds: long enough for
/// somebody to come and look.
const FULL_SOON_S: u64 = 900;

const QUEUE_FULL: &str = "docs/guides/queue.md#the-queue-is-full";
const DEAD: &str = "docs/guides/queue.md#a-destination-is-dead";
const FAULTS: &str = "docs/guides/faults.md";
const ANSWERS: &str = "docs/guides/hec.md#what-an-answer-means";
const STORE: &str = "docs/guides/store.md#when-something-is-wrong";
const ROOM: &str = "docs/guides/store.md#room-on-the-disk";
const QUARANTINE: &str = "docs/guides/quarantine.md";

const A_FAULT: &str = "This is a bug in Inrush.";

/// Alarms from drafts, the worst first. `known` remembers when those were first seen that do not
/// know it themselves, for as long as they last.
pub(super) fn settle(
    drafts: Vec<AlarmDraft>,
    known: &mut HashMap<String, Timestamp>,
    now: Timestamp,
) -> Vec<ActiveAlarm> {
    let mut seen = HashMap::new();
    let mut settled: Vec<ActiveAlarm> = drafts
        .into_iter()
        .map(|draft| {
            let since = draft.since.unwrap_or_else(|| {
                let since = known.get(&draft.id).copied().unwrap_or(now);
                seen.insert(draft.id.clone(), since);
                since
            });
            ActiveAlarm {
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

pub(super) fn unbalanced(words: &str) -> AlarmDraft {
    AlarmDraft {
        id: "ledger-unbalanced".to_owned(),
        severity: Severity::Critical,
        what: format!("The ledger does not balance: {words}."),
        since: None,
        cause: A_FAULT.to_owned(),
        remedy: "Save the log and the answer of `GET /api/v1/ledger`, restart Inrush, and report \
            both. Compare the number of events at the destination with the number sent."
            .to_owned(),
        link: "docs/guides/ledger.md#the-two-equations",
    }
}

pub(super) fn reader_ended(source: &str) -> AlarmDraft {
    AlarmDraft {
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

/// The names of the destinations whose backlog takes the room: the largest, and those nearly as
/// large, for they keep the same events.
fn keepers(backlogs: &[DestinationBacklog]) -> String {
    let most = backlogs.iter().map(|one| one.bytes).max().unwrap_or(0);
    let much = |one: &&DestinationBacklog| one.bytes > 0 && one.bytes >= most / 10 * 9;
    let name = |one: &DestinationBacklog| match one.abandoned {
        true => format!("{} (not configured any more)", one.destination),
        false => one.destination.clone(),
    };
    let names: Vec<String> = backlogs.iter().filter(much).map(name).collect();
    match &names[..] {
        [] => "a destination".to_owned(),
        [one] => format!("destination {one}"),
        [first @ .., last] => format!("destinations {} and {last}", first.join(", ")),
    }
}

/// Remedy that makes room in the queue, with the destinations whose backlog takes it.
fn make_room(keepers: &str) -> String {
    format!(
        "Most of the queue holds events for {keepers}. Repair the destination. To continue at once \
         without loss, raise `queue.max_bytes` (`queue.memory_bytes` for a queue in memory), or \
         free disk space. To continue with loss, set `queue: {{ when_full: drop_oldest }}` for it: \
         Inrush then drops its oldest events. After a change, reload (`systemctl reload inrush`, \
         or SIGHUP). `inrush queue ls` shows the events of each destination."
    )
}

pub(super) fn queue_stalled(stall: &Stall, backlogs: &[DestinationBacklog]) -> AlarmDraft {
    let keepers = keepers(backlogs);
    let remedy = match stall.full {
        true => make_room(&keepers),
        false => "Check the disk of the data directory: errors (`dmesg`), free space (`df -h`), \
            mount options, write permission of Inrush's user. Inrush tries again every second and \
            continues by itself."
            .to_owned(),
    };
    AlarmDraft {
        id: "queue-stalled".to_owned(),
        severity: Severity::Critical,
        what: format!("Nothing is written to the queue: {}.", stall.text),
        since: Some(stall.since),
        cause: match stall.full {
            true => format!(
                "Events came faster than {keepers} accepted them, until the space of the queue was \
                 used up. TCP and RELP senders wait; UDP loses datagrams. No destination gets new \
                 events."
            ),
            false => "Writes to the disk of the data directory fail. Sources do not read; UDP \
                datagrams are lost."
                .to_owned(),
        },
        remedy,
        link: QUEUE_FULL,
    }
}

pub(super) fn queue_full(since: Timestamp, backlogs: &[DestinationBacklog]) -> AlarmDraft {
    let blocks = |one: &&DestinationBacklog| one.full && one.when_full == WhenFull::Block;
    let blocking: Vec<DestinationBacklog> = backlogs.iter().filter(blocks).cloned().collect();
    let (what, cause, remedy) = match &blocking[..] {
        [] => (
            "Sources wait for room in the queue.".to_owned(),
            "The disk does not keep up with what comes in, or the queue's memory is used up. TCP \
             and RELP senders wait; UDP loses datagrams."
                .to_owned(),
            format!(
                "If the queue is on disk, look whether that disk is slow or busy (`iostat -x 1`). \
                 If it is in memory, raise `queue.memory_bytes`, or see why {} takes nothing.",
                keepers(backlogs)
            ),
        ),
        some => {
            let keepers = keepers(some);
            (
                format!("Sources do not read, because the backlog of {keepers} is full."),
                "The backlog has reached its size limit, and `when_full` is `block`. TCP and RELP \
                 senders wait; UDP loses datagrams. No destination gets new events."
                    .to_owned(),
                make_room(&keepers),
            )
        }
    };
    AlarmDraft {
        id: "queue-full".to_owned(),
        severity: Severity::Critical,
        what,
        since: Some(since),
        cause,
        remedy,
        link: QUEUE_FULL,
    }
}

/// Severity of a queue or backlog that is full in so many seconds; `None` while that is far off.
fn urgency(seconds: u64) -> Option<Severity> {
    match seconds {
        ..FULL_SOON_S => Some(Severity::Critical),
        FULL_SOON_S..FILLING_SOON_S => Some(Severity::Warning),
        _ => None,
    }
}

pub(super) fn queue_filling(seconds: u64, backlogs: &[DestinationBacklog]) -> Option<AlarmDraft> {
    let severity = urgency(seconds)?;
    let keepers = keepers(backlogs);
    Some(AlarmDraft {
        id: "queue-filling".to_owned(),
        severity,
        what: format!(
            "The queue will be full in about {} minutes, because of {keepers}. Then sources wait.",
            seconds.div_ceil(60).max(1)
        ),
        since: None,
        cause: format!(
            "Events arrive faster than {keepers} accepts them, or other files take the room on the \
             disk."
        ),
        remedy: make_room(&keepers),
        link: QUEUE_FULL,
    })
}

/// A destination whose backlog reaches its own limit soon.
pub(super) fn backlog_filling(seconds: u64, backlog: &DestinationBacklog) -> Option<AlarmDraft> {
    let (severity, name) = (urgency(seconds)?, &backlog.destination);
    let (severity, then) = match backlog.when_full {
        WhenFull::Block => (
            severity,
            "sources wait for it, and no destination gets new events",
        ),
        WhenFull::DropOldest => (Severity::Warning, "its oldest events are dropped"),
        WhenFull::DropNewest => (Severity::Warning, "new events are dropped for it"),
    };
    Some(AlarmDraft {
        id: format!("backlog-filling:{name}"),
        severity,
        what: format!(
            "The backlog of destination {name} reaches its limit in about {} minutes. Then {then}.",
            seconds.div_ceil(60).max(1)
        ),
        since: None,
        cause: format!("Events arrive faster than {name} accepts them."),
        remedy: format!(
            "See why {name} accepts nothing, or too little. For more time raise \
             `destinations.{name}.queue.max_bytes` (or `queue.max_bytes`) and reload (`systemctl \
             reload inrush`, or SIGHUP); `queue.when_full` there says what happens at the limit."
        ),
        link: QUEUE_FULL,
    })
}

pub(super) fn destination(name: &str, trouble: &DestinationFault) -> AlarmDraft {
    let (since, reason) = match trouble {
        DestinationFault::Ended => {
            return AlarmDraft {
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
        DestinationFault::Stalled { since } => {
            return AlarmDraft {
                id: format!("destination-stalled:{name}"),
                severity: Severity::Warning,
                what: format!("Destination {name} has pending events and accepts none."),
                since: Some(*since),
                cause: "A request or a write to it hangs, or is very slow.".to_owned(),
                remedy: "Check the load of the collector, or the disk that the destination writes \
                    to. The events wait in the queue, and Inrush sends them by itself."
                    .to_owned(),
                link: DEAD,
            };
        }
        DestinationFault::Failing { since, error } => {
            (*since, error.as_ref().map(|error| error.reason))
        }
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
    AlarmDraft {
        id: format!("destination-failing:{name}"),
        severity: Severity::Warning,
        what,
        since: Some(since),
        cause: cause.to_owned(),
        remedy: format!(
            "{remedy} Until then its events wait in the queue; afterwards Inrush sends them by \
             itself."
        ),
        link,
    }
}

/// Cause of a failed attempt, its remedy, and the link to the page that has them.
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
            "The TLS handshake fails: an unknown authority, a wrong name, or an expired \
             certificate.",
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
            "The server at this address does not answer like an HTTP Event Collector.",
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
            "The collector is busy and asks for fewer requests (HTTP 429); Inrush sends fewer.",
            "No action is needed, unless the queue fills up. Then give the collector more \
             capacity.",
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
        ErrorReason::StoreHeld => (
            "The store cannot be opened: its list of files is damaged, another process writes to \
             it, or its disk or service does not answer.",
            "Find the cause with `inrush store verify`. If the list of files is damaged, run \
             `inrush store repair`; Inrush may keep running. Inrush then opens the store by \
             itself.",
            "docs/guides/store.md#when-something-is-wrong",
        ),
        ErrorReason::DiskFull => (
            "The disk is full, or the quota is used up.",
            "Make room there (`df -h`, `df -i`): delete or move what is old, or have less kept: \
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

// tidy: long because it is a table, a row for each kind
pub(super) fn losing(loss: &GrowingLoss) -> AlarmDraft {
    let GrowingLoss {
        kind, name, count, ..
    } = loss;
    let (id, severity, what, cause, remedy, link) = match kind {
        LossKind::KernelDropped => (
            "kernel-drops",
            Severity::Critical,
            format!("Source {name} has lost {count} UDP datagrams."),
            "The receive buffer of a UDP socket was full. The buffer is too small, the host is \
             busy, or Inrush did not read because the queue was full.",
            "First look for a slow destination: Inrush does not read while the queue is full. Then \
             enlarge the receive buffer: give the process CAP_NET_ADMIN, or run `sysctl -w \
             net.core.rmem_max=67108864` and restart Inrush. Then check whether one sender sends \
             most datagrams (`GET /api/v1/senders`).",
            "docs/guides/udp-loss.md#when-kernel_dropped-grows",
        ),
        LossKind::Rejected => (
            "events-rejected",
            Severity::Critical,
            format!("Source {name} has rejected {count} events; those over UDP and TCP are lost."),
            "No destination had room in the queue, and `when_full` is `drop_newest`; or the \
             process \
             was stopping.",
            "Make room in the queue: see which destination is behind (`inrush queue ls`), or raise \
             `queue.max_bytes`. With `when_full: block` TCP senders wait instead.",
            QUEUE_FULL,
        ),
        LossKind::Cut => (
            "bytes-cut",
            Severity::Warning,
            format!("Source {name} has discarded {count} bytes of messages."),
            "Messages are longer than `max_message_bytes`, or a sender breaks the framing (newline \
             or octet count). \
             The loss map has the reasons; the events are flagged `oversize` or `bad_frame`.",
            "Search for events with `anomalies=oversize` to see who sends them. If these messages \
             are legitimate, raise `max_message_bytes`; if the framing of a source is known, set \
             `framing`.",
            FAULTS,
        ),
        LossKind::RotatedAway => (
            "files-lost",
            Severity::Critical,
            format!("Source {name} has lost {count} bytes of files that were deleted unread."),
            "A runtime, logrotate or a person deleted files before they were read to their end, or \
             a file without a name was held for longer than `rotate_hold`.",
            "Find what makes the source late: the queue, a destination, or CPU time \
             (`inrush top`). Have the writer keep more: `max-file` of Docker, \
             `containerLogMaxFiles` of the kubelet, `rotate` of logrotate.",
            files::LOST,
        ),
        LossKind::MissedFiles => (
            "files-missed",
            Severity::Critical,
            format!(
                "Source {name} has lost {}.",
                files::deleted_unopened(*count)
            ),
            "A runtime or logrotate made and deleted these files before Inrush could open them: \
             Inrush was short of CPU or stopped for a moment, or too few files are kept for the \
             rate of rotation.",
            "Look whether CPU time is withheld (alarm `cpu-throttled`, `inrush top`). Have the \
             writer keep more files, or larger ones: `max-file` and `max-size` of Docker, \
             `containerLogMaxFiles` and `containerLogMaxSize` of the kubelet, `rotate` of \
             logrotate. The log of Inrush names the files.",
            files::MISSED,
        ),
        LossKind::Dropped => (
            "events-dropped",
            Severity::Critical,
            format!("{count} events for destination {name} are lost."),
            "The loss map (`inrush top`) has the reason: a full backlog with `drop_oldest` or \
             `drop_newest`, a damaged queue, a crash or stop, or a destination that was removed.",
            "For damage run `inrush queue verify` and look at the disk; for a full backlog see why \
             the destination accepts nothing, or raise its `queue.max_bytes`.",
            "docs/guides/queue.md#something-is-damaged",
        ),
        LossKind::Quarantined => (
            "events-refused",
            Severity::Warning,
            format!("Destination {name} has refused {count} events; they are in quarantine."),
            "The destination will never accept these events: they are too large or malformed, or \
             their index does not exist.",
            "`inrush queue quarantine ls` says why. Mend the cause, then `inrush queue quarantine \
             replay`.",
            QUARANTINE,
        ),
        LossKind::DeletedForRoom => (
            "store-deletes-for-room",
            Severity::Warning,
            format!("Store {name} has deleted its {count} oldest events to make room on its disk."),
            "Free disk space is less than `free` plus the space reserved for queue and quarantine. \
             Nothing younger than `min_age` is deleted for room.",
            "To say yourself how long events are kept, set `keep.age` or `keep.bytes`. To keep \
             them longer, give the store a larger disk, or move what else is on it.",
            ROOM,
        ),
    };
    AlarmDraft {
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
pub(super) fn unreadable(name: &str, files: u64) -> Option<AlarmDraft> {
    let are = match files {
        0 => return None,
        1 => "One file of the store cannot be read".to_owned(),
        n => format!("{n} files of the store cannot be read"),
    };
    Some(AlarmDraft {
        id: format!("store-unreadable:{name}"),
        severity: Severity::Warning,
        what: format!("{are}: searches of {name} do not find its events."),
        since: None,
        cause: "The content on the disk is not the content that Inrush wrote: the disk fails, or \
            another program writes there."
            .to_owned(),
        remedy:
            "The log names each with its reason. Copy them from a backup to the same paths and \
            restart, or leave them until retention deletes them. Check the disk (`dmesg`, \
            `smartctl`)."
                .to_owned(),
        link: STORE,
    })
}

/// A certificate that ends soon, or has ended. `not_after_s`: seconds since 1970.
pub(super) fn certificate(source: &str, not_after_s: i64) -> Option<AlarmDraft> {
    let left_s = not_after_s - Timestamp::now().0 / 1_000_000_000;
    if left_s > CERTIFICATE_SOON_S {
        return None;
    }
    let (severity, what) = match left_s {
        ..=0 => (
            Severity::Critical,
            format!("The certificate of source {source} has expired."),
        ),
        _ => (
            Severity::Warning,
            match left_s / 3600 {
                0 => format!("The certificate of source {source} expires within the hour."),
                hours @ ..48 => format!(
                    "The certificate of source {source} expires in {} hours.",
                    hours + 1
                ),
                hours => {
                    let days = hours / 24;
                    format!("The certificate of source {source} expires in {days} days.")
                }
            },
        ),
    };
    Some(AlarmDraft {
        id: format!("certificate:{source}"),
        severity,
        what,
        since: None,
        cause: "Senders refuse an expired certificate, and cannot connect.".to_owned(),
        remedy: "Write a new certificate and key over the files that the configuration names: \
            they are read again within a second, and no connection is closed."
            .to_owned(),
        link: "docs/guides/tls.md#rotation",
    })
}
