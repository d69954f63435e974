//! Lags, times of requests and withheld CPU time of the last minute, for alarms.
//!
//! # What it guarantees
//! * A single slow request, or a few late events, are no finding: more than [`SLOW_PERCENT`] of at
//!   least [`COUNT_MIN`] must be slow.
//! * Events that came late are not counted against the destination that got them late.
//!
//! # Limits
//! A sample every [`EVERY`], and [`SAMPLES_MAX`] of them: a minute. Nothing is found before
//! [`SAMPLES_MIN`] were taken.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::time::{Duration, Instant};

use inrush_event::HistogramSnapshot;
use inrush_host::CpuThrottling;
use inrush_pipeline::topology::RunningGraph;

/// Time between two samples.
const EVERY: Duration = Duration::from_secs(5);

/// Samples kept: a minute of them, and the one before.
const SAMPLES_MAX: usize = 13;

/// With fewer samples nothing is found: 20 seconds.
const SAMPLES_MIN: usize = 5;

/// Events or requests in a minute, of which a share says something.
const COUNT_MIN: u64 = 20;

/// Percent of them that must be slow. The share is that of a 95th percentile.
pub(crate) const SLOW_PERCENT: u64 = 5;

/// Seconds from which on an event counts as late: a bound of the histograms. The published test of
/// heavy forwarders saw 180 to 300.
pub(crate) const LATE_S: f64 = 120.0;

/// Seconds from which on a request counts as slow: a bound of the histograms.
pub(crate) const SLOW_S: f64 = 5.0;

/// Percent of its periods in which the process was held back from which on it is short of CPU; the
/// doctor's bound.
const THROTTLED_PERCENT: u64 = 10;

/// Periods without which a share says nothing: two seconds of the usual 100 ms.
const PERIODS_MIN: u64 = 20;

/// Kind of times, and the names of what they are of.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum TimesOf {
    /// From an event of a source to its receipt.
    Receipt { source: String },
    /// From an event of a source to its delivery.
    Delivery { source: String, destination: String },
    /// Of a request to a source.
    Answer { source: String },
    /// Of a request to a destination.
    Request { destination: String },
}

/// Times of which too many are slow.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct SlowTimes {
    /// Subject of the times.
    pub(crate) of: TimesOf,
    /// Percent of them that are slow.
    pub(crate) percent: u64,
    /// The 95th percentile in seconds, by the bound of its bucket.
    pub(crate) most_s: f64,
}

/// One sample.
#[derive(Default)]
pub(crate) struct LatencySample {
    times: HashMap<TimesOf, HistogramSnapshot>,
    cpu: Option<CpuThrottling>,
}

impl LatencySample {
    /// All times now.
    pub(crate) fn of(graph: &RunningGraph) -> Self {
        let mut times = HashMap::new();
        for running in &graph.sources {
            let source = || running.name().to_owned();
            let receipts = running.source.ingest().receive_lag.snapshot();
            times.insert(TimesOf::Receipt { source: source() }, receipts);
            if let Some(answers) = running.source.request_times() {
                times.insert(TimesOf::Answer { source: source() }, answers);
            }
        }
        for running in &graph.destinations {
            let destination = || running.name.clone();
            for (source, lags) in running.counters.lags() {
                let destination = destination();
                let of = TimesOf::Delivery {
                    source,
                    destination,
                };
                times.insert(of, lags);
            }
            let requests = running.status.request_times();
            let destination = destination();
            times.insert(TimesOf::Request { destination }, requests);
        }
        Self {
            times,
            cpu: CpuThrottling::read(Path::new("/")),
        }
    }
}

/// The last minute.
#[derive(Default)]
pub(crate) struct LatencyTrend {
    /// The oldest first.
    samples: VecDeque<LatencySample>,
    last: Option<Instant>,
}

impl LatencyTrend {
    /// True if it is time for a sample.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        let since = |last| now.saturating_duration_since(last);
        self.last.is_none_or(|last| since(last) >= EVERY)
    }

    /// Takes a sample.
    pub(crate) fn note(&mut self, sample: LatencySample, now: Instant) {
        self.last = Some(now);
        if self.samples.len() >= SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// The first and the last sample, if they are far enough apart.
    fn ends(&self) -> Option<(&LatencySample, &LatencySample)> {
        let enough = self.samples.len() >= SAMPLES_MIN;
        self.samples
            .front()
            .zip(self.samples.back())
            .filter(|_| enough)
    }

    /// Times of which too many were slow, by their names.
    pub(crate) fn slow(&self) -> Vec<SlowTimes> {
        let Some((first, last)) = self.ends() else {
            return Vec::new();
        };
        let grown = |of: &TimesOf| {
            let now = last.times.get(of)?;
            Some(now.since(&first.times.get(of).copied().unwrap_or_default()))
        };
        let late = |source: &String| {
            let of = TimesOf::Receipt {
                source: source.clone(),
            };
            slow_of(&of, &grown(&of)?)
        };
        let all = last.times.keys().filter_map(|of| {
            let own = slow_of(of, &grown(of)?)?;
            match of {
                TimesOf::Delivery { source, .. } if late(source).is_some() => None,
                _ => Some(own),
            }
        });
        let mut all: Vec<SlowTimes> = all.collect();
        all.sort_by(|one, other| one.of.cmp(&other.of));
        all
    }

    /// Periods in which the process was held back, if they were many.
    pub(crate) fn throttled(&self) -> Option<CpuThrottling> {
        let (_, last) = self.ends()?;
        // Before it was put into a group, a process has no counts.
        let first = self.samples.iter().find_map(|sample| sample.cpu);
        let grown = last.cpu?.since(&first?);
        let many = grown.throttled.saturating_mul(100)
            >= grown.periods.saturating_mul(THROTTLED_PERCENT).max(1);
        (many && grown.periods >= PERIODS_MIN).then_some(grown)
    }
}

/// The slow ones among times of a minute, if they are too many.
fn slow_of(of: &TimesOf, times: &HistogramSnapshot) -> Option<SlowTimes> {
    let bound = match of {
        TimesOf::Receipt { .. } | TimesOf::Delivery { .. } => LATE_S,
        TimesOf::Answer { .. } | TimesOf::Request { .. } => SLOW_S,
    };
    let (all, slow) = (times.count(), times.above(bound));
    let percent = (slow * 100).checked_div(all)?;
    (all >= COUNT_MIN && percent >= SLOW_PERCENT).then(|| SlowTimes {
        of: of.clone(),
        percent,
        most_s: times.quantile(0.95).unwrap_or(f64::INFINITY),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use inrush_event::Histogram;

    use super::*;

    const SECOND_NS: i64 = 1_000_000_000;

    fn receipt() -> TimesOf {
        let source = "hec".to_owned();
        TimesOf::Receipt { source }
    }

    fn delivery() -> TimesOf {
        TimesOf::Delivery {
            source: "hec".to_owned(),
            destination: "splunk".to_owned(),
        }
    }

    /// A minute in which each second so many of ten times of each kind took so many seconds; the
    /// others took 10 ms.
    fn minute(kinds: &[(TimesOf, i64, i64)]) -> Vec<SlowTimes> {
        let histograms: Vec<Histogram> = kinds.iter().map(|_| Histogram::default()).collect();
        let mut trend = LatencyTrend::default();
        let start = Instant::now();
        for second in 0..60 {
            for ((_, slow, seconds), histogram) in kinds.iter().zip(&histograms) {
                for n in 0..10 {
                    histogram.observe(if n < *slow {
                        seconds * SECOND_NS
                    } else {
                        10_000_000
                    });
                }
            }
            let now = start + Duration::from_secs(second);
            if trend.is_due(now) {
                let times = kinds.iter().map(|(of, ..)| of.clone());
                let snapshots = histograms.iter().map(Histogram::snapshot);
                let sample = LatencySample {
                    times: times.zip(snapshots).collect(),
                    cpu: None,
                };
                trend.note(sample, now);
            }
        }
        assert_eq!(trend.samples.len(), 12);
        trend.slow()
    }

    #[test]
    fn late_deliveries_are_found_unless_the_events_came_late() {
        assert_eq!(minute(&[(receipt(), 0, 0), (delivery(), 10, 100)]), []);
        let found = minute(&[(receipt(), 0, 0), (delivery(), 3, 200)]);
        assert_eq!(found.len(), 1);
        assert_eq!((&found[0].of, found[0].percent), (&delivery(), 30));
        assert_eq!(found[0].most_s, 300.0);
        let found = minute(&[(receipt(), 10, 200), (delivery(), 10, 200)]);
        assert_eq!(found.len(), 1, "the sender is late, not the destination");
        assert_eq!(found[0].of, receipt());
    }

    #[test]
    fn slow_requests_are_found_from_five_seconds_on() {
        let destination = "splunk".to_owned();
        let request = TimesOf::Request { destination };
        assert_eq!(minute(&[(request.clone(), 10, 5)]), []);
        assert_eq!(minute(&[(request, 1, 6)])[0].percent, 10);
    }

    #[test]
    fn nothing_is_found_in_a_few_seconds_or_of_a_few_times() {
        let histogram = Histogram::default();
        let mut trend = LatencyTrend::default();
        let start = Instant::now();
        let mut at = |seconds, times: u64| {
            (0..times).for_each(|_| histogram.observe(1000 * SECOND_NS));
            let now = start + Duration::from_secs(seconds);
            let times = HashMap::from([(receipt(), histogram.snapshot())]);
            trend.note(LatencySample { times, cpu: None }, now);
            trend.slow().len()
        };
        assert_eq!(
            at(0, 1000),
            0,
            "the first sample is only what is compared with"
        );
        assert_eq!([at(5, 5), at(10, 5), at(15, 5)], [0, 0, 0]);
        assert_eq!(at(20, 4), 0, "19 events in all");
        assert_eq!(at(25, 1), 1);
    }

    #[test]
    fn a_process_that_is_held_back_is_found_while_it_lasts() {
        let mut trend = LatencyTrend::default();
        let mut at = |second: u64, periods, throttled| {
            let cpu = Some(CpuThrottling {
                periods,
                throttled,
                throttled_ns: throttled * 50_000_000,
            });
            let sample = LatencySample {
                cpu,
                ..LatencySample::default()
            };
            trend.note(sample, Instant::now() + Duration::from_secs(second));
            trend
                .throttled()
                .map(|grown| (grown.periods, grown.throttled))
        };
        // What was before the first sample does not count.
        for n in 0..4 {
            assert_eq!(at(5 * n, 10_000 + 50 * n, 5_000), None);
        }
        assert_eq!(at(20, 10_200, 5_019), None, "19 of 200");
        assert_eq!(at(25, 10_250, 5_100), Some((250, 100)));
        let later: Vec<_> = (6..20).map(|n| at(5 * n, 10_250 + 50 * n, 5_100)).collect();
        assert_eq!(later.last(), Some(&None));
    }
}
