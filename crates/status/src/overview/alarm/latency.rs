//! Alarms of what is slow: events, requests, and CPU time that is withheld.

use std::time::Duration;

use inrush_host::CpuThrottling;

use super::{AlarmDraft, Severity};
use crate::latency::{LATE_S, SLOW_S, SlowTimes, TimesOf};

const LATE: &str = "docs/guides/monitoring.md#events-are-late";
const SLOW: &str = "docs/guides/monitoring.md#requests-are-slow";
const CPU: &str = "docs/guides/monitoring.md#cpu-time-is-withheld";

/// Times of the last minute of which too many are slow.
pub(in crate::overview) fn slow(times: &SlowTimes) -> AlarmDraft {
    let SlowTimes {
        of,
        percent,
        most_s,
    } = times;
    let most = match most_s.is_finite() {
        true => format!("95 % of them within {most_s} s"),
        false => "many of them after more than a day".to_owned(),
    };
    let draft = |id: String, what: String, cause: &str, remedy: String, link| AlarmDraft {
        id,
        severity: Severity::Warning,
        what,
        since: None,
        cause: cause.to_owned(),
        remedy,
        link,
    };
    match of {
        TimesOf::Receipt { source } => draft(
            format!("events-come-late:{source}"),
            format!(
                "In the last minute {percent} % of the events of source {source} were more than \
                 {LATE_S} s old when they came ({most})."
            ),
            "The delay is before Inrush: the senders or relays have a backlog, send old files, or \
             their clocks are behind.",
            "Look at the senders with the largest lag (`/api/v1/doors`, and `clock_skew_ms` in \
             `/api/v1/senders`): their queue, their clock (`chronyc tracking`), the zone of their \
             times."
                .to_owned(),
            LATE,
        ),
        TimesOf::Delivery {
            source,
            destination,
        } => draft(
            format!("events-late:{source}:{destination}"),
            format!(
                "In the last minute {percent} % of the events of source {source} reached \
                 destination {destination} more than {LATE_S} s late ({most})."
            ),
            "They came in time, and waited in the queue: the destination accepts less than comes \
             in, was away, or is sent an old backlog.",
            format!(
                "Compare the rates of {source} and {destination}. If the backlog of {destination} \
                 shrinks, wait. If it grows, give the collector more capacity, or this host more \
                 CPU or network."
            ),
            LATE,
        ),
        TimesOf::Answer { source } => draft(
            format!("answers-slow:{source}"),
            format!(
                "In the last minute {percent} % of the requests to source {source} were answered \
                 after more than {SLOW_S} s ({most})."
            ),
            "An answer waits until the events are on disk: the disk of the queue is slow, the \
             queue is full, or CPU is short. Or clients send their requests slowly.",
            "Look at the disk of the data directory (`iostat -x 1`), at the alarms of the queue, \
             and at CPU (`inrush top`). `inrush doctor` measures how long a sync takes."
                .to_owned(),
            SLOW,
        ),
        TimesOf::Request { destination } => draft(
            format!("requests-slow:{destination}"),
            format!(
                "In the last minute {percent} % of the requests or writes to destination \
                 {destination} took more than {SLOW_S} s ({most})."
            ),
            "The collector, a proxy before it, the network, or the disk that is written to is \
             overloaded.",
            format!(
                "Look at the load of the collector, and at its own queues. More endpoints in \
                 `destinations.{destination}` share the load; smaller requests (`batch.max_bytes`) \
                 are answered sooner."
            ),
            SLOW,
        ),
    }
}

/// A process that the kernel holds back.
pub(in crate::overview) fn throttled(grown: &CpuThrottling) -> AlarmDraft {
    let percent = (grown.throttled * 100)
        .checked_div(grown.periods)
        .unwrap_or(100);
    let seconds = Duration::from_nanos(grown.throttled_ns).as_secs_f64();
    AlarmDraft {
        id: "cpu-throttled".to_owned(),
        severity: Severity::Warning,
        what: format!(
            "In the last minute the kernel held Inrush back in {percent} % of the periods of its \
             CPU quota, for {seconds:.1} s of thread time in all."
        ),
        since: None,
        cause: "The control group of the process has used up its quota. All threads then stand \
            still for up to 100 ms: UDP is lost, and answers are late."
            .to_owned(),
        remedy:
            "Raise the quota, or remove it: `CPUQuota=` of the unit, `resources.limits.cpu` of \
            the pod, `--cpus` of the container. `inrush doctor` names the group and its file."
                .to_owned(),
        link: CPU,
    }
}

/// One of each, for the tests of all alarms.
#[cfg(test)]
pub(super) fn examples() -> impl Iterator<Item = AlarmDraft> {
    let source = || "hec".to_owned();
    let destination = || "splunk".to_owned();
    let kinds = [
        TimesOf::Receipt { source: source() },
        TimesOf::Delivery {
            source: source(),
            destination: destination(),
        },
        TimesOf::Answer { source: source() },
        TimesOf::Request {
            destination: destination(),
        },
    ];
    let slow_times = kinds.into_iter().zip([300.0, f64::INFINITY, 10.0, 10.0]);
    let slow_times = slow_times.map(|(of, most_s)| SlowTimes {
        of,
        percent: 30,
        most_s,
    });
    let cpu = CpuThrottling {
        periods: 600,
        throttled: 300,
        throttled_ns: 9_000_000_000,
    };
    slow_times
        .map(|times| slow(&times))
        .chain(std::iter::once(throttled(&cpu)))
}
