//! The alarm of a destination that writes to its overflow file.

use inrush_event::Timestamp;
use inrush_sink::OverflowCause;

use super::{AlarmDraft, Severity};

const PATHS: &str = "docs/guides/faults.md#more-paths-than-a-destination-may-make";

/// A destination that has no path of its own for some events.
pub(in crate::overview) fn overflow(
    name: &str,
    cause: OverflowCause,
    since: Timestamp,
) -> AlarmDraft {
    let (cause, remedy) = match cause {
        OverflowCause::Paths => (
            "Senders have named as many paths as its `max_paths` allows: one of them makes names \
             up, or there are more senders than expected.",
            format!(
                "Look into the overflow file to see who sends made-up names, and stop that sender. \
                 If all names are legitimate, raise `destinations.{name}.max_paths` and reload."
            ),
        ),
        OverflowCause::Inodes => (
            "Its file system has few inodes left; the rest is kept for others.",
            "Look with `df -i`. Delete or pack old files there, or write fewer: with fewer names \
             in `path`."
                .to_owned(),
        ),
    };
    AlarmDraft {
        id: format!("overflow-file:{name}"),
        severity: Severity::Warning,
        what: format!(
            "Destination {name} writes events into its overflow file (`other` in its path), not \
             into files of their own."
        ),
        since: Some(since),
        cause: cause.to_owned(),
        remedy,
        link: PATHS,
    }
}

/// One of each, for the tests of all alarms.
#[cfg(test)]
pub(super) fn examples() -> impl Iterator<Item = AlarmDraft> {
    let causes = [OverflowCause::Paths, OverflowCause::Inodes];
    causes
        .map(|cause| overflow("tape", cause, Timestamp(5)))
        .into_iter()
}
