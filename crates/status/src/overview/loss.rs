//! The loss map: every place where an event can be lost, with its count.
//!
//! # What it guarantees
//! * Rows come in the order of an event's way: card, kernel, sockets, frames, rules, queue,
//!   destinations.
//! * A kind of loss that never happened has one row of 0; each reason has a row once it happened.
//! * Losses of the host may be those of other processes: such rows are not marked `ours`.

use std::collections::BTreeMap;

use inrush_event::{
    CutReason, DestinationSnapshot, DropReason, LedgerSnapshot, RefuseReason, RejectReason,
    UpstreamLoss,
};
use inrush_host::{HostLoss, HostReading};
use inrush_pipeline::topology::RunningSource;
use inrush_transport::stream::EndReason;
use serde::Serialize;

/// Stage of an event's way at which it can be lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LossStage {
    /// In the network card or its driver.
    Nic,
    /// In the kernel, between the card and the sockets.
    Softnet,
    /// At a socket.
    Socket,
    /// In the framing, where bytes become events.
    Frame,
    /// By a rule of the configuration.
    Filter,
    /// Between sources and destinations.
    Queue,
    /// At a destination.
    Destination,
}

/// One counter of the loss map.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct LossCounter {
    /// Stage that it counts at.
    pub place: LossStage,
    /// Owner of the counter, such as a source or a device, and its name.
    pub label: String,
    /// Since the start of the process.
    pub count: u64,
    /// True if it was ours. What is not was lost on this host, whoever it was meant for.
    pub ours: bool,
    /// Meaning of the count, and the remedy.
    pub hint: String,
}

impl LossCounter {
    fn ours(place: LossStage, label: String, count: u64, hint: &str) -> Self {
        Self {
            place,
            label,
            count,
            ours: true,
            hint: hint.to_owned(),
        }
    }
}

/// Loss counters of a source beside its row in the ledger.
pub(super) struct SourceLosses {
    name: String,
    oversize: u64,
    datagram_cut: u64,
    too_many: u64,
    rotated_away_bytes: u64,
}

/// Loss counters of each running source. `rotated_away` has the bytes of its files that were
/// deleted unread.
pub(super) fn at_sources(
    sources: &[RunningSource],
    rotated_away: &dyn Fn(&str) -> u64,
) -> Vec<SourceLosses> {
    let of = |running: &RunningSource| {
        let anomalies = running.source.ingest().anomaly_counts();
        let ends = running.source.state().connection_errors;
        let count = |counts: &BTreeMap<String, u64>, name| counts.get(name).copied().unwrap_or(0);
        SourceLosses {
            name: running.name().to_owned(),
            oversize: count(&anomalies, "oversize"),
            datagram_cut: count(&anomalies, "datagram_cut"),
            too_many: count(&ends, EndReason::TooMany.name()),
            rotated_away_bytes: rotated_away(running.name()),
        }
    };
    sources.iter().map(of).collect()
}

/// The whole map, in the order of an event's way.
pub(super) fn rows(
    ledger: &LedgerSnapshot,
    sources: &[SourceLosses],
    host: &HostReading,
) -> Vec<LossCounter> {
    let mut rows: Vec<LossCounter> = host
        .losses
        .iter()
        .map(|loss| of_host(loss, host.time_squeeze.unwrap_or(0)))
        .collect();
    for (name, row) in &ledger.sources {
        let label = format!("{name} kernel_dropped");
        rows.push(LossCounter::ours(
            LossStage::Socket,
            label,
            row.kernel_dropped,
            KERNEL,
        ));
    }
    for source in sources {
        let label = |what: &str| format!("{} {what}", source.name);
        for (what, count, hint) in [
            ("too_many_connections", source.too_many, TOO_MANY),
            (
                "rotated_away_unread_bytes",
                source.rotated_away_bytes,
                ROTATED_AWAY,
            ),
        ] {
            if count > 0 {
                let place = LossStage::Socket;
                rows.push(LossCounter::ours(place, label(what), count, hint));
            }
        }
        let oversize = (label("oversize"), source.oversize, OVERSIZE);
        let cut = (label("datagram_cut"), source.datagram_cut, CUT);
        for (label, count, hint) in [oversize, cut] {
            rows.push(LossCounter::ours(LossStage::Frame, label, count, hint));
        }
    }
    for (rule, count) in &ledger.filtered {
        let label = rule.clone();
        rows.push(LossCounter::ours(
            LossStage::Filter,
            label,
            *count,
            FILTERED,
        ));
    }
    for (name, row) in &ledger.sources {
        if !row.lost_upstream.is_empty() {
            by_reason(&mut rows, name, LOST_UPSTREAM, &row.lost_upstream);
        }
        by_reason(&mut rows, name, "rejected", &row.rejected);
        if !row.cut_bytes.is_empty() {
            by_reason(&mut rows, name, CUT_BYTES, &row.cut_bytes);
        }
    }
    for (name, row) in &ledger.destinations {
        by_reason(&mut rows, name, "dropped", &row.dropped);
        by_reason(&mut rows, name, "quarantined", &row.quarantined);
        of_store(&mut rows, name, row);
    }
    // Stable: within a place the order stays as it was made.
    rows.sort_by_key(|row| row.place as u8);
    rows
}

const KERNEL: &str = "Datagrams that the kernel dropped because the socket's receive buffer was \
    full: give the process CAP_NET_ADMIN or raise net.core.rmem_max, and look whether a \
    destination is slow.";
const TOO_MANY: &str = "Connections that were refused because `stream.max_connections` were open; \
    what their senders did with their events is theirs to say.";
const ROTATED_AWAY: &str = "Bytes, not events: files were deleted before they were read to their \
    end. Look whether the queue is full or CPU is short, and have the writer keep more files.";
const OVERSIZE: &str = "Events of which the end was cut off: raise `max_message_bytes`.";
const CUT: &str = "Datagrams of which the end was cut off: raise `max_message_bytes`.";
const CUT_BYTES: &str = "cut_bytes";
const LOST_UPSTREAM: &str = "lost_upstream";
const FILTERED: &str = "Events that this rule of the configuration takes out, as it was told to.";

fn of_host(loss: &HostLoss, time_squeeze: u64) -> LossCounter {
    let place = match loss.cause.place() {
        inrush_host::HostLossPlace::Nic => LossStage::Nic,
        inrush_host::HostLossPlace::Softnet => LossStage::Softnet,
        inrush_host::HostLossPlace::Socket => LossStage::Socket,
    };
    let name = loss.cause.label();
    let mut hint = loss.cause.hint().to_owned();
    let label = match (&loss.device, place) {
        (Some(device), _) => format!("{device} {name}"),
        (None, LossStage::Softnet) => {
            if time_squeeze > 0 {
                hint.push_str(&format!(
                    " {time_squeeze} times a CPU left packets for later \
                     (`net.core.netdev_budget`), which is no loss yet."
                ));
            }
            format!("softnet {name}")
        }
        (None, _) => name.to_owned(),
    };
    LossCounter {
        place,
        label,
        count: loss.count,
        ours: false,
        hint,
    }
}

/// A row for each reason that happened, or one that says that none did.
fn by_reason(rows: &mut Vec<LossCounter>, name: &str, what: &str, counts: &BTreeMap<String, u64>) {
    let place = match what {
        "quarantined" => LossStage::Destination,
        CUT_BYTES => LossStage::Frame,
        LOST_UPSTREAM => LossStage::Socket,
        _ => LossStage::Queue,
    };
    if counts.is_empty() {
        let label = format!("{name} {what}");
        let hint = "None.";
        return rows.push(LossCounter::ours(place, label, 0, hint));
    }
    for (reason, count) in counts {
        let place = match reason.as_str() {
            "empty" | "tls_on_plain_port" | "http_on_syslog_port" | "untrusted_proxy" => {
                LossStage::Frame
            }
            "quarantine_failed" => LossStage::Destination,
            _ => place,
        };
        let label = format!("{name} {what}: {reason}");
        rows.push(LossCounter::ours(
            place,
            label,
            *count,
            meaning(what, reason),
        ));
    }
}

/// Adds a row for each reason that searches do not find events of a store any more.
fn of_store(rows: &mut Vec<LossCounter>, name: &str, row: &DestinationSnapshot) {
    let Some(stored) = &row.stored else { return };
    for (reason, count) in &stored.expired {
        let hint = match reason.as_str() {
            "age" => "Events that were kept for as long as `keep.age` says, and were deleted then.",
            "bytes" => "The oldest events, deleted for the budget that `keep.bytes` says.",
            _ => {
                "The oldest events, deleted to make room on the disk. None was younger than \
                 `min_age`. Set `keep.age` or `keep.bytes`, or give the store more disk."
            }
        };
        let label = format!("{name} expired: {reason}");
        rows.push(LossCounter::ours(
            LossStage::Destination,
            label,
            *count,
            hint,
        ));
    }
    if stored.unreadable > 0 {
        let hint = "Events in files that are damaged or missing: no search finds them. The log \
            names the files.";
        let label = format!("{name} unreadable");
        rows.push(LossCounter::ours(
            LossStage::Destination,
            label,
            stored.unreadable,
            hint,
        ));
    }
}

/// The sentence of a reason.
fn meaning(what: &str, reason: &str) -> &'static str {
    let found = match what {
        "rejected" => RejectReason::ALL
            .iter()
            .find(|one| one.name() == reason)
            .map(|one| one.describe()),
        CUT_BYTES => CutReason::ALL
            .iter()
            .find(|one| one.name() == reason)
            .map(|one| one.describe()),
        LOST_UPSTREAM => UpstreamLoss::ALL
            .iter()
            .find(|one| one.name() == reason)
            .map(|one| one.describe()),
        "dropped" => DropReason::ALL
            .iter()
            .find(|one| one.name() == reason)
            .map(|one| one.describe()),
        _ => RefuseReason::ALL
            .iter()
            .find(|one| one.name() == reason)
            .map(|one| one.describe()),
    };
    found.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use inrush_event::Ledger;
    use inrush_host::Cause;

    fn source(oversize: u64) -> SourceLosses {
        SourceLosses {
            name: "syslog".to_owned(),
            oversize,
            datagram_cut: 0,
            too_many: 0,
            rotated_away_bytes: oversize,
        }
    }

    fn find<'a>(rows: &'a [LossCounter], label: &str) -> &'a LossCounter {
        let found = rows.iter().find(|row| row.label == label);
        found.unwrap_or_else(|| panic!("no `{label}` in {rows:#?}"))
    }

    #[test]
    fn every_place_has_a_zero_before_anything_is_lost() {
        let ledger = Ledger::new();
        ledger.source("syslog");
        ledger.destination("splunk");
        let rows = rows(&ledger.snapshot(), &[source(0)], &HostReading::default());
        assert!(rows.iter().all(|row| row.count == 0 && row.ours));
        let places: Vec<_> = rows.iter().map(|row| row.place).collect();
        let [socket, frame, queue, destination] = [
            LossStage::Socket,
            LossStage::Frame,
            LossStage::Queue,
            LossStage::Destination,
        ];
        assert_eq!(places, [socket, frame, frame, queue, queue, destination]);
    }

    #[test]
    fn each_loss_stands_in_its_place_with_its_reason() {
        let ledger = Ledger::new();
        let source_counters = ledger.source("syslog");
        source_counters.kernel_dropped.add(3);
        source_counters.rejected(RejectReason::Empty).add(4);
        source_counters.rejected(RejectReason::QueueFull).add(5);
        let destination = ledger.destination("splunk");
        destination.dropped(DropReason::Corrupt).add(6);
        destination.dropped(DropReason::QuarantineFailed).add(7);
        destination.quarantined(RefuseReason::TooLarge).add(8);
        let rows = rows(&ledger.snapshot(), &[source(9)], &HostReading::default());
        for (label, place, count) in [
            ("syslog kernel_dropped", LossStage::Socket, 3),
            ("syslog rejected: empty", LossStage::Frame, 4),
            ("syslog rejected: queue_full", LossStage::Queue, 5),
            ("splunk dropped: corrupt", LossStage::Queue, 6),
            (
                "splunk dropped: quarantine_failed",
                LossStage::Destination,
                7,
            ),
            ("splunk quarantined: too_large", LossStage::Destination, 8),
            ("syslog oversize", LossStage::Frame, 9),
            ("syslog rotated_away_unread_bytes", LossStage::Socket, 9),
        ] {
            let row = find(&rows, label);
            assert_eq!(
                (row.place, row.count, row.ours),
                (place, count, true),
                "{label}"
            );
            assert!(row.hint.len() > 20, "{row:?}");
        }
        let order: Vec<u8> = rows.iter().map(|row| row.place as u8).collect();
        assert!(order.is_sorted(), "{order:?}");
    }

    #[test]
    fn what_the_host_lost_is_not_ours() {
        let host = HostReading {
            losses: vec![
                HostLoss {
                    cause: Cause::NicMissed,
                    device: Some("eth0".to_owned()),
                    count: 11,
                },
                HostLoss {
                    cause: Cause::SoftnetDropped,
                    device: None,
                    count: 0,
                },
            ],
            time_squeeze: Some(12),
            ..HostReading::default()
        };
        let rows = rows(&Ledger::new().snapshot(), &[], &host);
        let nic = find(&rows, "eth0 rx_missed_errors");
        assert_eq!(
            (nic.place, nic.count, nic.ours),
            (LossStage::Nic, 11, false)
        );
        let softnet = find(&rows, "softnet dropped");
        assert!(softnet.hint.contains("12 times"), "{softnet:?}");
    }
}
