//! Counts of a filler's open batch, until they are posted.

use std::net::IpAddr;

use inrush_event::{Anomalies, Record, Timestamp};

use crate::sender_table::PeerTally;

/// Counts of the open batch that are posted when it is handed on.
#[derive(Default)]
pub(super) struct BatchTally {
    /// Bytes of what is new in the open batch.
    pub(super) bytes: u64,
    pub(super) empty: u64,
    /// True if the sender of an event does not keep it.
    pub(super) unkept: bool,
    /// A run of events with the same anomalies costs one addition each bit.
    run: Anomalies,
    run_events: u64,
    pub(super) anomalies: [u64; 32],
    /// By index of [`inrush_event::BatchBuilder::origin`].
    pub(super) peers: Vec<PeerTally>,
}

impl BatchTally {
    pub(super) fn add(&mut self, anomalies: Anomalies) {
        if anomalies != self.run {
            self.end_run();
            self.run = anomalies;
        }
        self.run_events += 1;
    }

    /// Adds events of which only now something odd was found, each bit of it.
    pub(super) fn add_later(&mut self, anomaly: Anomalies, events: u64) {
        self.end_run();
        (self.run, self.run_events) = (anomaly, events);
    }

    pub(super) fn end_run(&mut self) {
        let mut bits = self.run.bits();
        while bits != 0 {
            self.anomalies[bits.trailing_zeros() as usize] += self.run_events;
            bits &= bits - 1;
        }
        self.run_events = 0;
    }

    /// Adds what a sender brought. `last` is its last event in the batch, if it brought any.
    pub(super) fn add_peer(
        &mut self,
        index: u32,
        ip: Option<IpAddr>,
        events: u64,
        bytes: u64,
        last: usize,
    ) {
        self.bytes += bytes;
        let index = index as usize;
        let nothing = PeerTally {
            ip,
            events: 0,
            bytes: 0,
            last: 0,
            unrecognised: 0,
        };
        if self.peers.len() <= index {
            self.peers.resize(index + 1, nothing);
        }
        let row = &mut self.peers[index];
        let last = if events > 0 { last as u32 } else { row.last };
        *row = PeerTally {
            ip,
            events: row.events + events,
            bytes: row.bytes + bytes,
            last,
            unrecognised: row.unrecognised,
        };
    }

    /// Adds events of a sender that no rule recognised.
    pub(super) fn add_unrecognised(&mut self, peer: usize, events: u64) {
        if let Some(row) = self.peers.get_mut(peer) {
            row.unrecognised += events;
        }
    }

    /// Forgets what was odd about events.
    pub(super) fn forget_anomalies(&mut self) {
        self.run_events = 0;
        self.anomalies = [0; 32];
    }
}

/// Flags the events whose time is further from their receipt than that many nanoseconds; the number
/// of them. Events that came together often have the same times, which are looked at once.
pub(super) fn flag_skewed(records: &mut [Record], skew_ns_max: u64) -> u64 {
    // Without a time nothing is skewed.
    let mut right = (Timestamp::NONE, Timestamp::NONE);
    let mut events = 0;
    for record in records {
        let times = (record.event_time, record.received);
        if times == right {
            continue;
        }
        match record.flag_skew(skew_ns_max) {
            true => events += 1,
            false => right = times,
        }
    }
    events
}

#[cfg(test)]
mod tests {
    use inrush_event::Span;
    use proptest::prelude::*;

    use super::*;

    fn records() -> impl Strategy<Value = Vec<Record>> {
        let times = [i64::MIN, i64::MIN + 1, 0, 5, 10, 11, i64::MAX];
        let time = || prop::sample::select(times.to_vec()).prop_map(Timestamp);
        prop::collection::vec((time(), time(), 1..4_usize), 0..12).prop_map(|runs| {
            let runs = runs.into_iter().flat_map(|(at, received, events)| {
                let mut record = Record::unparsed(Span::EMPTY, received, 0, Anomalies::NONE);
                record.event_time = at;
                std::iter::repeat_n(record, events)
            });
            runs.collect()
        })
    }

    proptest! {
        #[test]
        fn skewed_events_are_flagged_as_each_would_be_alone(records in records()) {
            const MOST: u64 = 10;
            let (mut together, mut alone) = (records.clone(), records);
            let events = flag_skewed(&mut together, MOST);
            let expected = alone.iter_mut().filter_map(|one| one.flag_skew(MOST).then_some(()));
            prop_assert_eq!(events, expected.count() as u64);
            let anomalies = |records: &[Record]| -> Vec<_> {
                records.iter().map(|record| record.anomalies).collect()
            };
            prop_assert_eq!(anomalies(&together), anomalies(&alone));
        }
    }
}
