//! The published test of a heavy forwarder (Splunk 8.1.3 behind Collectord, 2021-04-21), repeated.
//!
//! Three senders send 10, 20 or 40 streams of 1,000 events of 1 KiB a second each, 50 a request,
//! to one or two indexes. The receiver behind Inrush takes 30, 60 or 120 MiB a second: little more
//! than is sent. Noted are the lag of events, from their sending until the receiver has them, and
//! the time of requests, from their first byte until their answer.
//!
//! # Differences
//! In the published test bodies were compressed and each part had its own machines. Here bodies are
//! plain, and senders and receiver share the cores with what is measured.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::child::wait;
use crate::lab::BenchHarness;
use crate::measure::RunResult;
use crate::meter::{Metered, Window, calibrate_ms, process_rss_peak_mib};
use crate::sender::{
    self, Amount, HEC_TOKEN, HeaderStyle, HecRequests, LoadShape, MessageText, RequestTimes, Wire,
};
use crate::stats::per_event;
use crate::subject::{BenchSubject, SinkProcess, User, drain};

/// Senders.
const SENDERS: u64 = 3;

/// Bytes of an event.
const EVENT_BYTES: u64 = 1024;

/// Events a second of each stream.
const STREAM_RATE: u64 = 1000;

/// Time for which the count may stand still before what is missing is taken for lost.
const STILL_MAX: Duration = Duration::from_secs(15);

/// Interval between two counts.
const STEP: Duration = Duration::from_millis(100);

/// Configuration of Inrush.
pub const TEMPLATE: &str = include_str!("../../inrush/heavy-forwarder.yaml");

/// One of the six runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ForwarderRun {
    /// Streams of each sender; `SENDERS` × these MiB a second are sent, and taken.
    pub streams: u64,
    /// Indexes that events go to.
    pub indexes: u64,
    /// Seconds of event lag in the published test after tuning, at most; `None`: it grew.
    pub published_lag_s: Option<f64>,
    /// Milliseconds of a request in the published test after tuning; `None`: they grew.
    pub published_request_ms: Option<f64>,
}

impl ForwarderRun {
    const fn new(streams: u64, indexes: u64, published: Option<f64>) -> Self {
        Self {
            streams,
            indexes,
            published_lag_s: published,
            published_request_ms: published,
        }
    }

    /// MiB a second that the receiver takes.
    pub fn mib(&self) -> u64 {
        SENDERS * self.streams
    }

    /// Name in tables.
    pub fn name(&self) -> String {
        let indexes = match self.indexes {
            1 => "one index",
            _ => "two indexes",
        };
        format!("{} MiB/s, {indexes}", self.mib())
    }

    /// Load of one of the processes that send: a sender, or its part for one index.
    fn shape(&self) -> LoadShape {
        let connections = self.streams / self.indexes;
        LoadShape {
            wire: Wire::Hec(HecRequests {
                events: 50,
                gzip: false,
                raw: false,
            }),
            connections,
            size: EVENT_BYTES,
            header: HeaderStyle::Rfc3164Iso,
            text: MessageText::Padding,
            backdate_hours: 0,
            rate: connections * STREAM_RATE,
            burst: 0,
        }
    }
}

/// The runs. After tuning, the published lag was below 5 s and a request took about 5 ms; at
/// 120 MiB/s both grew, whatever was set, until there were three forwarders.
pub const RUNS: [ForwarderRun; 6] = [
    ForwarderRun::new(10, 1, Some(5.0)),
    ForwarderRun::new(10, 2, Some(5.0)),
    ForwarderRun::new(20, 1, Some(5.0)),
    ForwarderRun::new(20, 2, Some(5.0)),
    ForwarderRun::new(40, 1, None),
    ForwarderRun::new(40, 2, None),
];

/// Figures of a run.
#[derive(Clone, Debug, Default)]
pub struct ForwarderFigures {
    pub run: RunResult,
    /// Times of requests at the slowest sender.
    pub requests: Option<RequestTimes>,
    /// Per cent of one core that Inrush used while events were on their way.
    pub core_pct: f64,
    /// Seconds from the end of sending until the receiver had all.
    pub late_s: f64,
}

/// Runs it once for so many seconds; `sink` names the command of this program that is the receiver.
///
/// # Errors
/// A process cannot be started or asked, or nothing arrives.
pub fn measure(
    lab: &BenchHarness,
    sink: &[&str],
    run: &ForwarderRun,
    seconds: u64,
) -> Result<ForwarderFigures> {
    let rate = format!("--rate={}", run.mib() * (1 << 20) / EVENT_BYTES);
    let sink = SinkProcess::start_as(sink, &[&rate, "--latency"])?;
    let mut subject = lab.start_inrush(TEMPLATE, Some(&sink), User::Ours)?;
    let (shape, amount) = (run.shape(), Amount::Seconds(seconds));
    let address = subject.address(shape.wire)?;
    let calibration_ms = calibrate_ms();
    let window = Window::open(subject.pid(), Some(sink.pid()))?;
    let begun = Instant::now();
    let mut sending = Vec::new();
    for _ in 0..SENDERS {
        for token in [HEC_TOKEN, TOKEN_2].into_iter().take(run.indexes as usize) {
            let one = sender::start_hec(&lab.inrush, &address, token, &shape, amount)?;
            sending.push(one);
        }
    }
    let (mut sent, mut wrong, mut requests) = (0, Vec::new(), None::<RequestTimes>);
    for one in sending {
        let report = one.finish()?;
        sent += report.events;
        wrong.extend(report.errors.map(|words| format!("a sender saw {words}")));
        requests = slower(requests, report.requests);
    }
    let sent_for = begun.elapsed();
    let last = drain(&mut subject, sent)?;
    let arrived = await_events(&sink, sent)?;
    let late_s = begun.elapsed().saturating_sub(sent_for).as_secs_f64();
    let metered = window.close()?;
    wrong.extend(subject.wrong(&last, sent));
    if arrived != sent {
        wrong.push(format!("{arrived} of {sent} at the receiver"));
    }
    let us_per_event = per_event(metered.cpu.total_us(), last.delivered)
        .with_context(|| format!("nothing was delivered: {}", wrong.join("; ")))?;
    let run = RunResult {
        sent,
        offered_rate: sent as f64 / sent_for.as_secs_f64(),
        delivered: last.delivered,
        unaccounted: last.unaccounted(sent),
        us_per_event,
        rss_peak_mib: process_rss_peak_mib(subject.pid())?,
        calibration_ms,
        latency: sink.counts()?.latency,
        wrong: (!wrong.is_empty()).then(|| wrong.join("; ")),
        ..metered_run(&metered)
    };
    let core_pct = metered.cpu.total_us() / metered.wall.as_secs_f64() / 1e4;
    Ok(ForwarderFigures {
        run,
        requests,
        core_pct,
        late_s,
    })
}

/// The part of a result that the meter gives.
fn metered_run(metered: &Metered) -> RunResult {
    RunResult {
        seconds: metered.wall.as_secs_f64(),
        user_us: metered.cpu.user_us,
        sys_us: metered.cpu.sys_us,
        sink_pct: metered.helper_pct,
        sender_pct: metered.ours_pct,
        disk_bytes: metered.disk_bytes,
        write_calls: metered.write_calls,
        others_pct: metered.others_pct,
        steal_pct: metered.steal_pct,
        noisy: metered.noisy(),
        ..RunResult::default()
    }
}

/// Token of the second index.
const TOKEN_2: &str = "bench-hec-token-2";

/// The slower of two, quantile by quantile.
fn slower(one: Option<RequestTimes>, other: Option<RequestTimes>) -> Option<RequestTimes> {
    let (Some(one), Some(other)) = (one, other) else {
        return one.or(other);
    };
    Some(RequestTimes {
        p50_us: one.p50_us.max(other.p50_us),
        p99_us: one.p99_us.max(other.p99_us),
    })
}

/// Waits until the receiver has so many events, or gets none for long; the number that it has.
fn await_events(sink: &SinkProcess, events: u64) -> Result<u64> {
    let (mut last, mut moved) = (sink.counts()?.events, Instant::now());
    while last < events && moved.elapsed() < STILL_MAX {
        wait(STEP);
        let now = sink.counts()?.events;
        if now != last {
            (last, moved) = (now, Instant::now());
        }
    }
    Ok(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_sends_a_little_less_than_the_receiver_takes() {
        for run in RUNS {
            let processes = SENDERS * run.indexes;
            let sent = run.shape().rate * processes * EVENT_BYTES;
            let taken = run.mib() * (1 << 20);
            assert!(sent < taken && sent * 100 > taken * 97, "{run:?}");
            assert_eq!(run.shape().connections * processes, SENDERS * run.streams);
        }
        let names = RUNS.map(|run| run.name());
        assert_eq!(names[0], "30 MiB/s, one index");
        assert_eq!(names[5], "120 MiB/s, two indexes");
    }

    #[test]
    fn of_the_senders_the_slowest_counts() {
        let times = |p50_us, p99_us| Some(RequestTimes { p50_us, p99_us });
        assert_eq!(slower(times(1, 9), times(2, 3)), times(2, 9));
        assert_eq!(slower(None, times(2, 3)), times(2, 3));
    }
}
