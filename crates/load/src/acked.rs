//! Acknowledged messages: ranges of numbers, since answers come in order or nearly so.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::time::Duration;

use crate::latency::LatencyHistogram;
use crate::run::SenderTally;

/// The acknowledged numbers of one sender. Each is added once.
#[derive(Clone, Default, Debug)]
pub(crate) struct AckedRanges {
    /// First and last number, as they came.
    ranges: Vec<(u64, u64)>,
    count: u64,
}

impl AckedRanges {
    pub(crate) fn add(&mut self, seq: u64) {
        self.count += 1;
        match self.ranges.last_mut() {
            Some((_, last)) if *last + 1 == seq => *last = seq,
            _ => self.ranges.push((seq, seq)),
        }
    }

    /// Number of acknowledged messages.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// First and last number of each range, in order and as few as there can be.
    pub(crate) fn ranges(&self) -> Vec<(u64, u64)> {
        let mut sorted = self.ranges.clone();
        sorted.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::with_capacity(sorted.len());
        for (first, last) in sorted {
            match merged.last_mut() {
                Some((_, end)) if *end + 1 == first => *end = last,
                _ => merged.push((first, last)),
            }
        }
        merged
    }

    /// Numbers below this are all acknowledged.
    pub(crate) fn prefix(&self) -> u64 {
        match self.ranges().first() {
            Some((0, last)) => last + 1,
            _ => 0,
        }
    }
}

/// Answers to what a lane sent.
#[derive(Clone, Default, Debug)]
pub(crate) struct AnswerTally {
    /// Messages that were acknowledged.
    pub(crate) acked: AckedRanges,
    /// Messages that were answered with 200, acknowledged or not.
    pub(crate) answered: u64,
    /// Polls for acknowledgements.
    pub(crate) polls: u64,
    /// Microseconds of requests with messages, from their first byte until their answer, whatever
    /// it was; `None` before the first.
    pub(crate) requests: Option<LatencyHistogram>,
    /// Messages that were refused for good.
    pub(crate) refused: u64,
    /// Messages that were sent again.
    pub(crate) resent: u64,
    /// Requests that were answered as too many.
    pub(crate) busy: u64,
    /// Connections that were made again.
    pub(crate) reconnects: u64,
}

impl AnswerTally {
    /// Notes the time of a request.
    pub(crate) fn note_request(&mut self, took: Duration) {
        let microseconds = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.requests.get_or_insert_default().note(microseconds);
    }
}

/// Writes one line a sender: `{"run":"5eed0001","conn":0,"acked":[[0,41],[43,99]]}`.
///
/// # Errors
/// What the system says.
pub(crate) fn write(file: &mut File, run: &str, senders: &[SenderTally]) -> io::Result<()> {
    for sender in senders {
        let Some(answers) = &sender.answers else {
            continue;
        };
        let mut line = format!("{{\"run\":\"{run}\",\"conn\":{},\"acked\":[", sender.id);
        for (at, (first, last)) in answers.acked.ranges().into_iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            // Writing to a string does not fail.
            let _ = write!(line, "{comma}[{first},{last}]");
        }
        line.push_str("]}\n");
        file.write_all(line.as_bytes())?;
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_any_order_become_few_ranges() {
        let mut acked = AckedRanges::default();
        for seq in [0, 1, 2, 5, 4, 3, 9, 8] {
            acked.add(seq);
        }
        assert_eq!(acked.ranges(), [(0, 5), (8, 9)]);
        assert_eq!((acked.count(), acked.prefix()), (8, 6));
        let mut late = AckedRanges::default();
        late.add(1);
        assert_eq!(late.prefix(), 0);
    }
}
