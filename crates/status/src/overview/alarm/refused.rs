//! The alarm of senders that cannot connect.

use std::fmt::Write;
use std::net::IpAddr;

use inrush_stream::refusals::PersistentRefusal;
use inrush_transport::refusal::Refusal;
use inrush_transport::stream::EndReason;

use super::{AlarmDraft, Severity};

/// Senders that are turned away again and again.
pub(in crate::overview) fn refused(
    source: &str,
    lasting: &PersistentRefusal,
    busiest: Option<(IpAddr, u64)>,
) -> AlarmDraft {
    let PersistentRefusal {
        refusal,
        address,
        why,
        count,
        others,
        since,
    } = lasting;
    let more = match others {
        0 => String::new(),
        1 => " (and one other address)".to_owned(),
        n => format!(" (and {n} other addresses)"),
    };
    let mut cause = match refusal.reason() {
        EndReason::TooMany | EndReason::OfAddress | EndReason::NoDescriptors => {
            "Senders open more connections than the limit allows.".to_owned()
        }
        _ => "The sender and this listener do not agree on how to connect, so its events do not \
            arrive."
            .to_owned(),
    };
    if *refusal == Refusal::NoDescriptors
        && let Some((ip, connections)) = busiest
    {
        // Writing to a String cannot fail.
        let _ = write!(cause, " {ip} has most of them: {connections}.");
    }
    AlarmDraft {
        id: format!("connections-refused:{source}:{refusal:?}"),
        severity: match refusal {
            Refusal::NoDescriptors => Severity::Critical,
            _ => Severity::Warning,
        },
        what: format!("Source {source} has refused {count} connections of {address}{more}: {why}."),
        since: Some(*since),
        cause,
        remedy: refusal.remedy().to_owned(),
        link: "docs/guides/connections.md#who-was-turned-away",
    }
}
