//! The hour that occurs twice, by the order of a sender's events.
//!
//! # What it guarantees
//! The time closest to the receive time has been taken already. It is exchanged only for an event
//! that is late: while the clock of its sender has not gone back since an event that was of the
//! first hour, this one is of the first hour too.
//!
//! # Limits
//! A sender is an address with a host name. [`SENDERS_MAX`] of them are remembered; when there are
//! more, all are forgotten, and the closest time counts. Only events of such an hour cost anything.
//!
//! # After a crash
//! Nothing is kept.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

use inrush_event::{Record, Timestamp};

use super::zone::TwiceShown;
use crate::rfc3339::{DAY_SECONDS, SECOND_NS};

/// Senders that are remembered.
const SENDERS_MAX: usize = 4096;
/// Seconds by which a clock may go back from one event to the next without being set back.
const JITTER_S: i64 = 300;
/// Seconds by which an event may be late without being taken for one of a backlog.
const LATE_S: i64 = 300;

/// The last event of a sender within such an hour.
#[derive(Clone, Copy, Debug)]
struct LastShown {
    /// The first of the two times, in seconds since 1970.
    first: i64,
    received: i64,
    is_second: bool,
}

/// The passes of senders through hours that occur twice.
#[derive(Default, Debug)]
pub(super) struct RepeatedHours {
    keys: RandomState,
    seen: HashMap<u64, LastShown>,
}

impl RepeatedHours {
    /// Puts an event whose time occurs twice, and was taken as the closest to its reception, into
    /// the order of its sender's.
    #[cold]
    pub(super) fn settle(
        &mut self,
        arena: &[u8],
        record: &mut Record,
        sender: IpAddr,
        shown: TwiceShown,
    ) {
        let TwiceShown { first, second } = shown;
        let received = record.received.0.div_euclid(SECOND_NS);
        let mut is_second = record.event_time.0.div_euclid(SECOND_NS) >= second;
        let key = self.keys.hash_one((sender, record.host.of(arena)));
        let last = self.seen.get(&key).copied();
        let last = last.filter(|last| (first - last.first).abs() < DAY_SECONDS);
        if let Some(last) = last.filter(|last| is_second && !last.is_second) {
            let went_on = first - last.first;
            let waited = received - last.received;
            let is_live = (received - second).abs() <= LATE_S && waited - went_on > LATE_S;
            if went_on >= -JITTER_S && !is_live {
                is_second = false;
                let nanos = (second - first).saturating_mul(SECOND_NS);
                record.event_time = Timestamp(record.event_time.0.saturating_sub(nanos));
            }
        }
        if last.is_some_and(|last| last.is_second) {
            return;
        }
        if self.seen.len() >= SENDERS_MAX && !self.seen.contains_key(&key) {
            self.seen.clear();
        }
        self.seen.insert(
            key,
            LastShown {
                first,
                received,
                is_second,
            },
        );
    }
}
