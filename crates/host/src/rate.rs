//! The rate that this host takes safely, from what was seen of a pipeline that took as much as it
//! could.
//!
//! # What is stated
//! Events a second that the pipeline takes, keeps and delivers while **the senders and the
//! collectors are on other hosts**. What our own generator and our own collector used of the CPUs
//! meanwhile is given to the pipeline; nothing else is, so that what else ran on the host stays
//! subtracted, and CPUs that stood idle do not count as if they could be used.
//!
//! # How
//! 1. CPU: (CPU time of the pipeline and of ours) ÷ (CPU time that an event costs the pipeline).
//! 2. A stage that one thread does: 1 ÷ (time that an event takes of that thread, on a CPU or
//!    waiting for the disk). More CPUs do not help there.
//! 3. Where CPUs stood idle although more was there to be taken, the rate is the one that was seen.
//!
//! The smallest of them counts. It lies between what was seen and that times (1 + ours ÷ pipeline).

use serde::Serialize;

/// Part of the work that bounds the rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RateBottleneck {
    /// The kernel's work to read from sockets, and how soon what lies there is asked for.
    Read,
    /// Framing and reading headers.
    Parse,
    /// Packs, names of hosts, transforms and routes.
    Classify,
    /// Writing the queue's log, and its bookkeeping.
    Queue,
    /// Waiting until the disk has the queue's log for good.
    Fsync,
    /// Encoding and delivering, the slowest destination or all together.
    Send,
}

impl RateBottleneck {
    /// Its name in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Parse => "parse",
            Self::Classify => "classify",
            Self::Queue => "queue",
            Self::Fsync => "fsync",
            Self::Send => "send",
        }
    }
}

/// A rate that this host takes safely with one configuration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SafeRate {
    /// Events a second.
    pub events_per_second: u64,
    /// Bytes of each, framing not counted.
    pub event_bytes: u64,
    /// The part of the work that bounds it.
    pub limited_by: RateBottleneck,
    /// CPU time of an event by what it is spent on, in nanoseconds, in the order of its way.
    #[serde(skip)]
    pub costs: Vec<(RateBottleneck, u64)>,
    /// True if the generator was the limit: the host may take more.
    #[serde(skip)]
    pub at_least: bool,
}

/// Part of the pipeline that a thread belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PipelineStage {
    /// Reads, parses and recognises.
    Intake,
    /// Writes the log.
    Queue,
    /// Syncs the log.
    Sync,
    /// Delivers.
    Send,
    /// Counts, watches, serves.
    Other,
}

/// Time that one thread of the pipeline used while it was watched, in seconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ThreadUse {
    /// Part of the pipeline that it belongs to.
    pub stage: PipelineStage,
    /// In its own code.
    pub user: f64,
    /// In the kernel.
    pub system: f64,
    /// Waiting for the disk.
    pub disk: f64,
}

impl ThreadUse {
    fn cpu(&self) -> f64 {
        self.user + self.system
    }
}

/// Measurements of a pipeline that took as much as it could.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Observation {
    /// Seconds for which it was watched.
    pub seconds: f64,
    /// Events taken in.
    pub taken: f64,
    /// Those of them that left: as many as were taken, where the destinations keep pace.
    pub left: f64,
    /// The pipeline's threads.
    pub threads: Vec<ThreadUse>,
    /// CPU seconds of our generator and our collector.
    pub ours_seconds: f64,
    /// Part of its time that the busiest thread of the generator was on a CPU.
    pub generator_busy: f64,
    /// CPUs that the process may use.
    pub cpus: f64,
    /// CPUs of the host that nobody used, on average; `None` where the kernel does not say.
    pub idle_cpus: Option<f64>,
}

/// Part of the usable CPUs that must be used, or not be idle, for CPU time to be the limit.
const BUSY_PART: f64 = 0.85;

/// A thread that is on a CPU so much of its time can do no more.
const THREAD_BUSY_PART: f64 = 0.9;

impl Observation {
    fn cpu(&self, stages: &[PipelineStage]) -> f64 {
        let of = self.threads.iter().filter(|t| stages.contains(&t.stage));
        of.map(ThreadUse::cpu).sum()
    }

    /// CPU seconds of the threads that read, an event.
    pub fn intake_cost(&self) -> f64 {
        self.cpu(&[PipelineStage::Intake]) / self.taken.max(1.0)
    }

    fn intake_system_cost(&self) -> f64 {
        let of = self
            .threads
            .iter()
            .filter(|t| t.stage == PipelineStage::Intake);
        of.map(|t| t.system).sum::<f64>() / self.taken.max(1.0)
    }

    /// CPU seconds an event, by what they are spent on. `bare` is [`Self::intake_cost`] of the same
    /// without packs, names, transforms and routes; `None` where there are none.
    fn costs(&self, bare: Option<f64>) -> [(RateBottleneck, f64); 6] {
        let (taken, left) = (self.taken.max(1.0), self.left.max(1.0));
        let intake = self.intake_cost();
        let classify = bare.map_or(0.0, |bare| (intake - bare).max(0.0));
        let read = self.intake_system_cost().min(intake - classify);
        [
            (RateBottleneck::Read, read),
            (RateBottleneck::Parse, intake - classify - read),
            (RateBottleneck::Classify, classify),
            (
                RateBottleneck::Queue,
                self.cpu(&[PipelineStage::Queue, PipelineStage::Other]) / taken,
            ),
            (
                RateBottleneck::Fsync,
                self.cpu(&[PipelineStage::Sync]) / taken,
            ),
            (
                RateBottleneck::Send,
                self.cpu(&[PipelineStage::Send]) / left,
            ),
        ]
    }

    /// Most events a second for each thread of the stages that one thread does. It is the events
    /// over the seconds that the thread was on a CPU or waited for the disk.
    fn single_threads(&self) -> impl Iterator<Item = (RateBottleneck, f64)> {
        self.threads.iter().filter_map(|thread| {
            let (limit, events) = match thread.stage {
                PipelineStage::Queue => (RateBottleneck::Queue, self.taken),
                PipelineStage::Sync => (RateBottleneck::Fsync, self.taken),
                PipelineStage::Send => (RateBottleneck::Send, self.left),
                PipelineStage::Intake | PipelineStage::Other => return None,
            };
            let busy = thread.cpu() + thread.disk;
            (busy > 0.0).then(|| (limit, events / busy))
        })
    }

    /// True if there was CPU time left that nothing took.
    fn is_idle(&self) -> bool {
        let used = self.threads.iter().map(ThreadUse::cpu).sum::<f64>() + self.ours_seconds;
        let used_cpus = used / self.seconds.max(f64::MIN_POSITIVE);
        let idle = self.idle_cpus.unwrap_or(0.0);
        used_cpus < self.cpus * BUSY_PART && idle > self.cpus * (1.0 - BUSY_PART)
    }

    /// The rate of events of `event_bytes`; `None` if nothing was taken or nothing left. `bare`:
    /// see [`Self::intake_cost`].
    pub fn safe_rate(&self, event_bytes: u64, bare: Option<f64>) -> Option<SafeRate> {
        if self.taken < 1.0 || self.left < 1.0 || self.seconds <= 0.0 {
            return None;
        }
        let costs = self.costs(bare);
        let cost: f64 = costs.iter().map(|(_, cost)| cost).sum();
        let dearest = costs.iter().max_by(|one, other| one.1.total_cmp(&other.1));
        let pipeline: f64 = self.threads.iter().map(ThreadUse::cpu).sum();
        let cpus = (pipeline + self.ours_seconds) / self.seconds;
        let mut least = (dearest?.0, cpus / cost.max(f64::MIN_POSITIVE));
        let mut at_least = false;
        if self.is_idle() {
            let slowest = self.single_threads().min_by(|a, b| a.1.total_cmp(&b.1));
            let seen = self.taken.min(self.left) / self.seconds;
            // Whatever waits longest held the others up; where nothing waits, what came in did.
            let held = slowest.filter(|(_, most)| *most < 2.0 * seen);
            least = (held.map_or(RateBottleneck::Read, |(limit, _)| limit), seen);
            at_least = held.is_none() && self.generator_busy >= THREAD_BUSY_PART;
        }
        for (limit, most) in self.single_threads() {
            if most < least.1 {
                (least, at_least) = ((limit, most), false);
            }
        }
        Some(SafeRate {
            events_per_second: whole(least.1),
            event_bytes,
            limited_by: least.0,
            costs: costs
                .map(|(limit, cost)| (limit, whole(cost * 1e9)))
                .to_vec(),
            at_least,
        })
    }
}

/// The nearest whole number; what is none is 0.
fn whole(value: f64) -> u64 {
    // A float is cut to the range of the number (Rust reference, "Numeric cast").
    value.round() as u64
}

impl SafeRate {
    /// One line for the eye.
    pub fn line(&self) -> String {
        let about = if self.at_least { "at least" } else { "≈" };
        format!(
            "{about} {} events/s of {} B with this configuration, limited by {}",
            grouped(two_digits(self.events_per_second)),
            self.event_bytes,
            self.limited_by.name()
        )
    }

    /// CPU time of an event, for the eye; parts below a hundredth of a microsecond are left out.
    pub fn costs_line(&self) -> String {
        let shown = self.costs.iter().filter(|(_, ns)| *ns >= 10);
        let parts: Vec<String> = shown
            .map(|(limit, ns)| format!("{} {:.2}", limit.name(), *ns as f64 / 1e3))
            .collect();
        let all: u64 = self.costs.iter().map(|(_, ns)| ns).sum();
        let all = all as f64 / 1e3;
        format!("{all:.2} µs of CPU an event: {}", parts.join(", "))
    }
}

/// A number cut to its two first digits: nobody should read more out of a measurement.
fn two_digits(number: u64) -> u64 {
    let mut unit = 1;
    while number / unit >= 100 {
        unit *= 10;
    }
    number / unit * unit
}

/// A number with a comma between thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn thread(stage: PipelineStage, user: f64, system: f64, disk: f64) -> ThreadUse {
        ThreadUse {
            stage,
            user,
            system,
            disk,
        }
    }

    /// Two CPUs for a second, all used: 1.6 by the pipeline, 0.4 by ours.
    fn full() -> Observation {
        Observation {
            seconds: 1.0,
            taken: 100_000.0,
            left: 100_000.0,
            threads: vec![
                thread(PipelineStage::Intake, 0.8, 0.1, 0.0),
                thread(PipelineStage::Queue, 0.05, 0.05, 0.1),
                thread(PipelineStage::Sync, 0.0, 0.05, 0.4),
                thread(PipelineStage::Send, 0.5, 0.05, 0.0),
            ],
            ours_seconds: 0.4,
            generator_busy: 0.3,
            cpus: 2.0,
            idle_cpus: Some(0.0),
        }
    }

    #[test]
    fn what_ours_used_is_given_to_the_pipeline_and_the_dearest_is_named() {
        let rate = full().safe_rate(800, None).unwrap();
        assert_eq!(rate.events_per_second, 125_000);
        assert_eq!(rate.limited_by, RateBottleneck::Parse);
        let with_packs = full().safe_rate(800, Some(2e-6)).unwrap();
        assert_eq!(with_packs.events_per_second, 125_000);
        assert_eq!(with_packs.limited_by, RateBottleneck::Classify);
        let costs = [
            (RateBottleneck::Read, 1000),
            (RateBottleneck::Parse, 1000),
            (RateBottleneck::Classify, 7000),
            (RateBottleneck::Queue, 1000),
            (RateBottleneck::Fsync, 500),
            (RateBottleneck::Send, 5500),
        ];
        assert_eq!(with_packs.costs, costs);
    }

    #[test]
    fn a_destination_that_lags_costs_as_much_as_if_it_kept_pace() {
        let mut lags = full();
        lags.left = 50_000.0;
        // 10.5 µs until it is kept, 11 µs to deliver.
        let rate = lags.safe_rate(800, None).unwrap();
        assert_eq!(rate.events_per_second, 90_909);
        assert_eq!(rate.limited_by, RateBottleneck::Send);
    }

    #[test]
    fn one_thread_that_can_do_no_more_is_the_limit() {
        let mut slow_disk = full();
        slow_disk.threads[2].disk = 0.9;
        let rate = slow_disk.safe_rate(800, None).unwrap();
        assert_eq!(rate.events_per_second, 105_263);
        assert_eq!(rate.limited_by, RateBottleneck::Fsync);
    }

    #[test]
    fn idle_cpus_are_not_counted_on() {
        let mut idle = full();
        (idle.cpus, idle.idle_cpus) = (8.0, Some(5.9));
        let rate = idle.safe_rate(800, None).unwrap();
        assert_eq!(rate.events_per_second, 100_000);
        assert_eq!(rate.limited_by, RateBottleneck::Send);
        assert!(!rate.at_least);
        for thread in &mut idle.threads {
            (thread.user, thread.disk) = (thread.user / 2.0, thread.disk / 2.0);
        }
        idle.generator_busy = 0.95;
        let rate = idle.safe_rate(800, None).unwrap();
        assert_eq!(
            (rate.events_per_second, rate.limited_by),
            (100_000, RateBottleneck::Read)
        );
        assert!(rate.at_least && rate.line().starts_with("at least 100,000 events/s"));
    }

    #[test]
    fn a_process_that_is_held_to_one_cpu_of_many_is_not_idle() {
        let mut held = full();
        (held.cpus, held.idle_cpus) = (2.0, Some(62.0));
        assert_eq!(
            held.safe_rate(800, None).unwrap().events_per_second,
            125_000
        );
    }

    #[test]
    fn nothing_seen_is_nothing_said() {
        assert_eq!(Observation::default().safe_rate(800, None), None);
        let mut stuck = full();
        stuck.left = 0.0;
        assert_eq!(stuck.safe_rate(800, None), None);
    }

    #[test]
    fn it_is_said_in_two_digits_and_told_to_scripts_in_three_keys() {
        let mut rate = full().safe_rate(800, None).unwrap();
        rate.events_per_second = 418_733;
        let line = "≈ 410,000 events/s of 800 B with this configuration, limited by parse";
        assert_eq!(rate.line(), line);
        let json = r#"{"events_per_second":418733,"event_bytes":800,"limited_by":"parse"}"#;
        assert_eq!(serde_json::to_string(&rate).unwrap(), json);
        assert!(
            rate.costs_line()
                .starts_with("16.00 µs of CPU an event: read 1.00, parse 8.00")
        );
        assert_eq!(
            [0, 7, 99, 100, 1_999].map(two_digits),
            [0, 7, 99, 100, 1_900]
        );
    }
}
