//! Alarms of a store: the room on its disk, and the clock that its events are kept by.

use inrush_event::{ByteSize, CLOCK_CONFIRM_START, ClockJudgement};
use inrush_sink::DiskHeadroom;

use super::{AlarmDraft, ROOM, Severity};

const CLOCK: &str = "docs/guides/store.md#a-clock-that-jumps";

/// A store whose disk has too little room, and that has nothing old enough to delete.
pub(in crate::overview) fn store_short(name: &str, room: &DiskHeadroom) -> Option<AlarmDraft> {
    if room.short == 0 {
        return None;
    }
    let size = |bytes| ByteSize(bytes);
    let (free, wanted) = (size(room.free), size(room.least + room.claimed));
    let hold = size(room.least / 2);
    Some(AlarmDraft {
        id: format!("store-short-of-room:{name}"),
        severity: Severity::Warning,
        what: format!(
            "The disk of store {name} has {free} free and should have {wanted}; nothing is old \
             enough to be deleted."
        ),
        since: None,
        cause: format!(
            "All events are younger than `min_age`. If free space falls to {hold}, the store \
             accepts no more events. They then stay in the queue. When the queue is full, sources \
             stop reading."
        ),
        remedy: "Make room on the disk (`df -h`), give the store a larger one, or lower `min_age` \
            and reload."
            .to_owned(),
        link: ROOM,
    })
}

/// A store that keeps events longer, since the system clock jumped.
pub(in crate::overview) fn clock_doubted(
    name: &str,
    judged: &ClockJudgement,
    held_back: u64,
) -> Option<AlarmDraft> {
    let left = judged.believed_in?;
    // At a start the time that nobody ran looks like a jump; it matters where it would delete.
    if held_back == 0 && left <= CLOCK_CONFIRM_START {
        return None;
    }
    let hours = judged.off_ns.unsigned_abs() / 3_600_000_000_000;
    let ahead = if judged.off_ns > 0 { "ahead" } else { "behind" };
    let minutes = left.as_secs().div_ceil(60);
    Some(AlarmDraft {
        id: format!("clock-jumped:{name}"),
        severity: Severity::Warning,
        what: format!(
            "The system clock differs by {hours} hours from the expected time ({ahead}); store \
             {name} keeps {held_back} events that are too old by this clock."
        ),
        since: None,
        cause: "The clock was set, or the host or process stood still for long.".to_owned(),
        remedy: format!(
            "If the clock is wrong, set it right (`timedatectl`, `chronyc tracking`). If it is \
             right, do nothing: in {minutes} minutes Inrush accepts the new time, and retention \
             uses it."
        ),
        link: CLOCK,
    })
}

/// One of each, for the tests of all alarms.
#[cfg(test)]
pub(super) fn examples() -> impl Iterator<Item = AlarmDraft> {
    let all = [
        store_short("local", &tests::SHORT),
        clock_doubted("local", &tests::jumped(60), 5),
        clock_doubted("local", &tests::jumped(-1), 0),
    ];
    all.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use inrush_event::Timestamp;

    use super::*;

    const AT: Timestamp = Timestamp(5_000_000_000);

    pub(super) const SHORT: DiskHeadroom = DiskHeadroom {
        free: 300,
        claimed: 200,
        least: 200,
        short: 100,
    };

    pub(super) fn jumped(days: i64) -> ClockJudgement {
        ClockJudgement {
            oldest: AT,
            newest: AT,
            off_ns: days * 86_400_000_000_000,
            believed_in: Some(Duration::from_secs(7200)),
        }
    }

    #[test]
    fn what_costs_nothing_is_no_alarm() {
        assert!(store_short("local", &DiskHeadroom { short: 0, ..SHORT }).is_none());
        let start = ClockJudgement {
            believed_in: Some(CLOCK_CONFIRM_START),
            ..jumped(3)
        };
        assert!(clock_doubted("local", &start, 0).is_none());
        assert!(clock_doubted("local", &start, 1).is_some());
    }
}
