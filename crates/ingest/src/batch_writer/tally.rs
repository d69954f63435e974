//! Counts of a filler's open batch, until they are posted.

use std::net::IpAddr;

use inrush_event::Anomalies;

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
        };
    }

    /// Forgets what was odd about events.
    pub(super) fn forget_anomalies(&mut self) {
        self.run_events = 0;
        self.anomalies = [0; 32];
    }
}
