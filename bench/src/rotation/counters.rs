//! Counters of a collector, as its metrics tell them.

use std::collections::BTreeMap;
use std::time::Duration;

/// Counters that are compared with the truth or shown: parts of the names of Inrush's metrics.
const NAMES: [&str; 7] = [
    super::outcome::REMOVED_BYTES,
    "missed_generations",
    "truncated",
    "inode_reused",
    "hole_skipped",
    "line_cut",
    "partial_flushed",
];

/// Time-out of an answer.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Counters of several lives.
#[derive(Clone, Debug, Default)]
pub(crate) struct LifeCounters {
    /// Sums of the lives that ended.
    ended: BTreeMap<String, u64>,
    /// Counters of the life that runs, when it was last asked.
    now: BTreeMap<String, u64>,
}

impl LifeCounters {
    /// Asks the metrics at a port; keeps the last answer where there is none.
    pub(crate) fn look(&mut self, port: u16) {
        let agent = ureq::Agent::config_builder()
            .timeout_global(Some(ANSWER_MAX))
            .proxy(None)
            .build();
        let agent: ureq::Agent = agent.into();
        let answer = agent.get(format!("http://127.0.0.1:{port}/metrics")).call();
        // Peers have none there.
        let text = answer.and_then(|mut answer| answer.body_mut().read_to_string());
        if let Ok(text) = text {
            self.now = parse(&text);
        }
    }

    /// Notes that the life has ended.
    pub(crate) fn end_life(&mut self) {
        for (name, count) in std::mem::take(&mut self.now) {
            *self.ended.entry(name).or_default() += count;
        }
    }

    /// Sums of all lives.
    pub(crate) fn sums(mut self) -> BTreeMap<String, u64> {
        self.end_life();
        self.ended
    }
}

/// Sums over the labels of each counter in the text of `GET /metrics`.
fn parse(text: &str) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap_or_default();
        let known = NAMES.iter().find(|known| name.contains(**known));
        let value = line.rsplit(' ').next().and_then(|n| n.parse::<f64>().ok());
        if let (Some(known), Some(value)) = (known, value) {
            *sums.entry((*known).to_owned()).or_default() += value as u64;
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_summed_over_labels_and_lives() {
        let text = "# TYPE inrush_file_truncated_total counter\n\
                    inrush_file_truncated_total{source=\"a b\"} 3\n\
                    inrush_file_truncated_total{source=\"c\"} 4\n\
                    inrush_file_rotated_away_unread_bytes_total 5\n\
                    inrush_other 9\n";
        let mut counters = LifeCounters {
            now: parse(text),
            ..LifeCounters::default()
        };
        counters.end_life();
        counters.now = parse("inrush_file_truncated_total 1");
        let sums = counters.sums();
        let all: Vec<_> = sums.iter().map(|(name, n)| (name.as_str(), *n)).collect();
        assert_eq!(all, [("rotated_away_unread_bytes", 5), ("truncated", 8)]);
    }
}
