//! Connections that were turned away: who, why, how often. In the log, by the admin API, an alarm.
//!
//! # Limits
//! `ROWS_MAX` addresses and reasons of a source; the one that was seen least recently makes room,
//! and its count goes to `others`. The log has at most `LINES_MAX` lines and one sum in
//! `LINES_EVERY`.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use inrush_event::Timestamp;
use inrush_transport::refusal::Refusal;
use serde::Serialize;

use crate::connection_limit;

/// Addresses and reasons that are remembered of a source: 150 bytes each.
const ROWS_MAX: usize = 1024;

/// Lines of the log for a source at a time.
const LINES_MAX: usize = 5;

/// Time between two times that the log is told.
const LINES_EVERY: Duration = Duration::from_secs(10);

/// Bytes of what is particular about a refusal: a name in a certificate may be long.
const DETAIL_BYTES_MAX: usize = 200;

/// So often within [`LASTING_NS`] an address is turned away until that is an alarm.
const LASTING_TIMES: u64 = 3;

/// Nanoseconds after the last refusal in which its alarm lasts.
const LASTING_NS: i64 = 300_000_000_000;

/// One address that was turned away for one reason.
#[derive(Clone, Debug, Serialize)]
pub struct RefusedPeer {
    /// Its address; of IPv6 the first 64 bits stand for a site.
    pub address: IpAddr,
    /// Name that it is counted under in `connection_errors`.
    pub reason: &'static str,
    /// Reason in words, with the detail of the last refusal.
    pub why: String,
    /// Remedy for the operator.
    pub remedy: &'static str,
    /// Connections.
    pub count: u64,
    /// Time at which the first one was turned away, in milliseconds since 1970.
    pub first_ms: i64,
    /// Time at which the last one was turned away, in milliseconds since 1970.
    pub last_ms: i64,
}

struct RefusalEntry {
    count: u64,
    /// Of these the log knows.
    said: u64,
    /// The count when the present spell began, and when that was.
    before: u64,
    since: Timestamp,
    first: Timestamp,
    last: Timestamp,
    detail: String,
}

/// A spell of refusals that is worth an alarm.
pub struct PersistentRefusal {
    /// Reason of the refusals; the alarm takes its severity and remedy from it.
    pub refusal: Refusal,
    /// Address refused most often in its spell; of IPv6 the first 64 bits.
    pub address: IpAddr,
    /// Reason in words, with the detail of the last refusal, free of control characters.
    pub why: String,
    /// Connections of that address refused in the spell.
    pub count: u64,
    /// Other addresses that are turned away for the same reason.
    pub others: usize,
    /// Time of the first refusal in the spell.
    pub since: Timestamp,
}

/// Those of one source.
#[derive(Default)]
pub struct RefusalTable {
    rows: HashMap<(IpAddr, Refusal), RefusalEntry>,
    /// Refusals of rows that made room.
    others: u64,
    said_at: Option<Instant>,
}

impl RefusalTable {
    /// Counts a connection that was turned away.
    pub fn note(&mut self, ip: IpAddr, refusal: Refusal, mut detail: String, now: Timestamp) {
        let key = (connection_limit::one(ip), refusal);
        if self.rows.len() >= ROWS_MAX && !self.rows.contains_key(&key) {
            self.make_room();
        }
        detail.truncate(detail.floor_char_boundary(DETAIL_BYTES_MAX));
        let row = self.rows.entry(key).or_insert_with(|| RefusalEntry {
            count: 0,
            said: 0,
            before: 0,
            since: now,
            first: now,
            last: now,
            detail: String::new(),
        });
        if now.0.saturating_sub(row.last.0) > LASTING_NS {
            (row.before, row.since) = (row.count, now);
        }
        row.count += 1;
        row.last = now;
        row.detail = detail;
    }

    fn make_room(&mut self) {
        let oldest = self.rows.iter().min_by_key(|(_, row)| row.last);
        let Some(key) = oldest.map(|(key, _)| *key) else {
            return;
        };
        if let Some(row) = self.rows.remove(&key) {
            self.others += row.count;
        }
    }

    /// Lines for the log that are due now: refusals that were not said yet, the most frequent
    /// first.
    pub fn lines(&mut self, now: Instant) -> Vec<String> {
        let too_soon = |at: Instant| now.saturating_duration_since(at) < LINES_EVERY;
        if self.said_at.is_some_and(too_soon) {
            return Vec::new();
        }
        let mut new: Vec<_> = self
            .rows
            .iter_mut()
            .filter(|(_, row)| row.count > row.said)
            .collect();
        if new.is_empty() {
            return Vec::new();
        }
        self.said_at = Some(now);
        new.sort_by_key(|(key, row)| (std::cmp::Reverse(row.count - row.said), **key));
        let mut lines = Vec::new();
        let mut rest = (0, 0);
        for (at, ((ip, refusal), row)) in new.into_iter().enumerate() {
            let more = row.count - std::mem::replace(&mut row.said, row.count);
            if at < LINES_MAX {
                let why = why(*refusal, &row.detail);
                lines.push(format!("{ip}: {why}: {more} (total {})", row.count));
            } else {
                rest = (rest.0 + 1, rest.1 + more);
            }
        }
        if rest.0 > 0 {
            let (rows, more) = rest;
            lines.push(format!("{more} more by {rows} other addresses and reasons"));
        }
        lines
    }

    /// All of them, the last one first.
    pub fn list(&self) -> Vec<RefusedPeer> {
        let mut all: Vec<_> = self.rows.iter().collect();
        all.sort_by_key(|(_, row)| std::cmp::Reverse(row.last));
        let row = |((address, refusal), row): (&(IpAddr, Refusal), &RefusalEntry)| RefusedPeer {
            address: *address,
            reason: refusal.reason().name(),
            why: why(*refusal, &row.detail),
            remedy: refusal.remedy(),
            count: row.count,
            first_ms: row.first.0 / 1_000_000,
            last_ms: row.last.0 / 1_000_000,
        };
        all.into_iter().map(row).collect()
    }

    /// Refusals of addresses that are not remembered any more.
    pub const fn others(&self) -> u64 {
        self.others
    }

    /// Spells that go on: for each reason the address that was turned away most often of late.
    pub fn lasting(&self, now: Timestamp) -> Vec<PersistentRefusal> {
        let mut by_reason: HashMap<Refusal, PersistentRefusal> = HashMap::new();
        let recent = |row: &RefusalEntry| now.0.saturating_sub(row.last.0) <= LASTING_NS;
        for ((ip, refusal), row) in self.rows.iter().filter(|(_, row)| recent(row)) {
            let lasting = PersistentRefusal {
                refusal: *refusal,
                address: *ip,
                why: why(*refusal, &row.detail),
                count: row.count - row.before,
                others: 0,
                since: row.since,
            };
            match by_reason.get_mut(refusal) {
                None => drop(by_reason.insert(*refusal, lasting)),
                Some(known) if known.count < lasting.count => {
                    let others = known.others + 1;
                    *known = PersistentRefusal { others, ..lasting };
                }
                Some(known) => known.others += 1,
            }
        }
        let mut all: Vec<_> = by_reason.into_values().collect();
        all.retain(|one| one.count + one.others as u64 >= LASTING_TIMES);
        all.sort_by_key(|one| one.refusal);
        all
    }
}

fn why(refusal: Refusal, detail: &str) -> String {
    // What a peer says is in the text: no control character of it comes to a terminal.
    let detail: String = detail.chars().filter(|c| !c.is_control()).collect();
    match detail.is_empty() {
        true => refusal.words().to_owned(),
        false => format!("{}: {detail}", refusal.words()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn ip(n: u32) -> IpAddr {
        IpAddr::from(n.to_be_bytes())
    }

    fn noted(refusals: &mut RefusalTable, n: u32, refusal: Refusal, at: i64) {
        refusals.note(ip(n), refusal, String::new(), Timestamp(at * SECOND));
    }

    #[test]
    fn the_log_is_bounded_and_sums_up_the_rest() {
        let mut refusals = RefusalTable::default();
        let now = Instant::now();
        (0..20).for_each(|n| noted(&mut refusals, n, Refusal::NoCipher, 1));
        noted(&mut refusals, 7, Refusal::NoCipher, 2);
        let lines = refusals.lines(now);
        assert_eq!(lines.len(), LINES_MAX + 1, "{lines:?}");
        assert_eq!(lines[0], "0.0.0.7: no cipher suite in common: 2 (total 2)");
        assert_eq!(lines[5], "15 more by 15 other addresses and reasons");
        noted(&mut refusals, 7, Refusal::NoCipher, 3);
        assert_eq!(refusals.lines(now), [""; 0], "too soon");
        let later = now + LINES_EVERY;
        assert_eq!(
            refusals.lines(later),
            ["0.0.0.7: no cipher suite in common: 1 (total 3)"]
        );
        assert_eq!(refusals.lines(later + LINES_EVERY), [""; 0]);
    }

    #[test]
    fn the_oldest_makes_room_and_stays_in_the_sum() {
        let mut refusals = RefusalTable::default();
        for n in 0..ROWS_MAX as u32 + 5 {
            noted(&mut refusals, n, Refusal::PlainOnTls, i64::from(n));
        }
        let list = refusals.list();
        assert_eq!((list.len(), refusals.others()), (ROWS_MAX, 5));
        assert_eq!(list[0].address, ip(ROWS_MAX as u32 + 4));
        assert!(list.iter().all(|row| row.address != ip(0)));
    }

    #[test]
    fn what_goes_on_is_an_alarm_until_it_was_quiet_for_minutes() {
        let mut refusals = RefusalTable::default();
        noted(&mut refusals, 1, Refusal::Expired, 1);
        noted(&mut refusals, 1, Refusal::Expired, 2);
        let lasting = |refusals: &RefusalTable, at: i64| refusals.lasting(Timestamp(at * SECOND));
        assert!(lasting(&refusals, 3).is_empty(), "twice is chance");
        noted(&mut refusals, 1, Refusal::Expired, 3);
        noted(&mut refusals, 2, Refusal::Expired, 3);
        let found = lasting(&refusals, 4);
        assert_eq!(
            (found[0].address, found[0].count, found[0].others),
            (ip(1), 3, 1)
        );
        assert!(lasting(&refusals, 304).is_empty());
        noted(&mut refusals, 1, Refusal::Expired, 1000);
        assert!(
            lasting(&refusals, 1001).is_empty(),
            "a new spell begins at one"
        );
    }

    #[test]
    fn words_of_a_peer_are_cut_and_have_no_control_characters() {
        let mut refusals = RefusalTable::default();
        let long = format!("\u{1b}[31m{}", "é".repeat(500));
        refusals.note(ip(1), Refusal::NotPermitted, long, Timestamp(1));
        let why = &refusals.list()[0].why;
        assert!(why.len() < 300 && !why.contains('\u{1b}'), "{why}");
    }
}
