//! Counting markers in what arrived: one bit a message, so loss, duplicates and order are exact.
//!
//! A line is attributed by the first marker of this run in it; a JSON line that holds the raw
//! record and its parts counts once. A number beyond what its sender began is stray; one that was
//! begun and not certainly written (the connection broke) may arrive or not.

use std::collections::HashMap;

use jiff::Timestamp;
use memchr::memmem::Finder;
use serde::{Deserialize, Serialize};

use crate::clock::NS_DIGITS;
use crate::latency::{Latency, LatencyHistogram};
use crate::message::SEQ_DIGITS;
use crate::run::SenderTally;

/// Senders named in a report of losses.
const LOSSES_NAMED_MAX: usize = 10;

/// Messages that arrived, set against those that were sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MarkerCheck {
    /// URL or file pattern that they were read from.
    pub from: String,
    /// Messages certainly sent.
    pub sent: u64,
    /// Different messages that arrived.
    pub received: u64,
    /// Certainly sent and not arrived.
    pub lost: u64,
    /// Arrivals beyond the first of each message.
    pub duplicated: u64,
    /// Arrivals after a later message of the same sender.
    pub out_of_order: u64,
    /// Arrivals under a number of this run that no sender used.
    pub stray: u64,
    /// The first senders with losses.
    pub losses: Vec<SenderLoss>,
    /// From the send time in the marker to `received` in the line; absent without that field.
    pub latency: Option<Latency>,
}

/// Losses of one sender.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SenderLoss {
    /// The sender's number.
    pub conn: u64,
    /// Messages lost.
    pub lost: u64,
    /// The number of the first.
    pub first_seq: u64,
}

impl MarkerCheck {
    /// True if each message arrived exactly once.
    pub fn ok(&self) -> bool {
        self.lost == 0 && self.duplicated == 0 && self.stray == 0
    }
}

/// One sender's arrivals.
#[derive(Default, Debug)]
struct Arrivals {
    sent: u64,
    begun: u64,
    /// Bit `seq % 64` of word `seq / 64`: it has arrived.
    seen: Vec<u64>,
    highest: Option<u64>,
    distinct: u64,
    duplicated: u64,
    out_of_order: u64,
}

impl Arrivals {
    /// Notes the arrival of `seq`; false if it can be no message of this sender.
    fn arrive(&mut self, seq: u64) -> bool {
        if seq >= self.begun {
            return false;
        }
        let (word, bit) = ((seq / 64) as usize, 1u64 << (seq % 64));
        if self.seen.len() <= word {
            self.seen.resize((word + 1).next_power_of_two(), 0);
        }
        if self.seen[word] & bit != 0 {
            self.duplicated += 1;
            return true;
        }
        self.seen[word] |= bit;
        self.distinct += 1;
        self.out_of_order += u64::from(self.highest.is_some_and(|highest| seq < highest));
        self.highest = self.highest.max(Some(seq));
        true
    }

    fn has(&self, seq: u64) -> bool {
        self.seen
            .get((seq / 64) as usize)
            .is_some_and(|word| word & (1 << (seq % 64)) != 0)
    }

    /// Messages that were certainly sent and did not arrive, and the first of them.
    fn lost(&self) -> Option<(u64, u64)> {
        let certain_words = (self.sent / 64) as usize;
        let whole: u64 = self
            .seen
            .iter()
            .take(certain_words)
            .map(|w| u64::from(w.count_ones()))
            .sum();
        let rest = (self.sent / 64 * 64..self.sent)
            .filter(|seq| self.has(*seq))
            .count() as u64;
        let lost = self.sent - whole - rest;
        let first = (lost > 0).then(|| (0..self.sent).find(|seq| !self.has(*seq)))??;
        Some((lost, first))
    }
}

/// Counts the markers of one run.
pub(crate) struct MarkerTally {
    /// ` run=RUN sent=`, the part of a marker that is the same in all messages.
    anchor: Finder<'static>,
    received: Finder<'static>,
    senders: HashMap<u64, Arrivals>,
    stray: u64,
    latency: Option<LatencyHistogram>,
}

impl MarkerTally {
    /// Counts what `senders` sent in run `run`.
    pub(crate) fn new(run: &str, senders: &[SenderTally]) -> Self {
        let arrivals = |sender: &SenderTally| {
            let (sent, begun) = (sender.certain(), sender.attempted);
            (
                sender.id,
                Arrivals {
                    sent,
                    begun,
                    ..Arrivals::default()
                },
            )
        };
        Self {
            anchor: Finder::new(format!(" run={run} sent=").as_bytes()).into_owned(),
            received: Finder::new(b"\"received\":").into_owned(),
            senders: senders.iter().map(arrivals).collect(),
            stray: 0,
            latency: None,
        }
    }

    /// Takes one line as it arrived.
    pub(crate) fn line(&mut self, line: &[u8]) {
        let Some(marker) = self.marker(line) else {
            return;
        };
        let known = self
            .senders
            .get_mut(&marker.sender)
            .is_some_and(|a| a.arrive(marker.seq));
        self.stray += u64::from(!known);
        if let Some(received_ns) = self.received_ns(line) {
            let latency_us = received_ns.saturating_sub(marker.sent_ns) / 1000;
            self.latency.get_or_insert_default().note(latency_us);
        }
    }

    /// Different messages so far.
    pub(crate) fn distinct(&self) -> u64 {
        self.senders
            .values()
            .map(|arrivals| arrivals.distinct)
            .sum()
    }

    fn marker(&self, line: &[u8]) -> Option<Marker> {
        let anchor = self.anchor.find(line)?;
        let after = line.get(anchor + self.anchor.needle().len()..)?;
        let sent_ns = number(after.get(..NS_DIGITS)?)?;
        let before = &line[..anchor];
        let equals = memchr::memrchr(b'=', before)?;
        let sender = number(&before[equals + 1..])?;
        let before = before[..equals].strip_suffix(b" conn")?;
        let digits_at = before.len().checked_sub(SEQ_DIGITS)?;
        let seq = number(&before[digits_at..])?;
        before[..digits_at].ends_with(b"seq=").then_some(Marker {
            seq,
            sender,
            sent_ns,
        })
    }

    /// The `received` field of a JSON line. Quotes within strings are escaped in JSON, so the
    /// bytes `"received":` can only be a key.
    fn received_ns(&self, line: &[u8]) -> Option<u64> {
        let at = self.received.find(line)? + self.received.needle().len();
        let text = line[at..].trim_ascii_start().strip_prefix(b"\"")?;
        let text = &text[..memchr::memchr(b'"', text)?];
        let at: Timestamp = std::str::from_utf8(text).ok()?.parse().ok()?;
        u64::try_from(at.as_nanosecond()).ok()
    }

    /// The comparison.
    pub(crate) fn check(&self, from: &str) -> MarkerCheck {
        let sum = |of: fn(&Arrivals) -> u64| self.senders.values().map(of).sum::<u64>();
        let mut losses: Vec<SenderLoss> = self
            .senders
            .iter()
            .filter_map(|(conn, arrivals)| {
                let (lost, first_seq) = arrivals.lost()?;
                Some(SenderLoss {
                    conn: *conn,
                    lost,
                    first_seq,
                })
            })
            .collect();
        let lost = losses.iter().map(|loss| loss.lost).sum();
        losses.sort_by_key(|loss| loss.conn);
        losses.truncate(LOSSES_NAMED_MAX);
        MarkerCheck {
            from: from.to_owned(),
            sent: sum(|a| a.sent),
            received: self.distinct(),
            lost,
            duplicated: sum(|a| a.duplicated),
            out_of_order: sum(|a| a.out_of_order),
            stray: self.stray,
            losses,
            latency: self.latency.as_ref().map(LatencyHistogram::latency),
        }
    }
}

struct Marker {
    seq: u64,
    sender: u64,
    sent_ns: u64,
}

fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(id: u64, sent: u64, attempted: u64) -> SenderTally {
        SenderTally {
            id,
            sent,
            attempted,
            ..SenderTally::default()
        }
    }

    fn line(conn: u64, seq: u64) -> Vec<u8> {
        format!("<38>x y: seq={seq:010} conn={conn:02} run=0000beef sent=1700000000000000000 PADD")
            .into_bytes()
    }

    fn check(senders: &[SenderTally], lines: &[Vec<u8>]) -> MarkerCheck {
        let mut tally = MarkerTally::new("0000beef", senders);
        lines.iter().for_each(|line| tally.line(line));
        tally.check("test")
    }

    #[test]
    fn everything_once_is_fine_in_any_interleaving() {
        let lines = [line(0, 0), line(7, 0), line(0, 1), line(7, 1), line(7, 2)];
        let check = check(&[sender(0, 2, 2), sender(7, 3, 3)], &lines);
        assert!(check.ok() && check.out_of_order == 0, "{check:?}");
        assert_eq!(check.received, 5);
    }

    #[test]
    fn lost_duplicated_and_reordered_are_told_apart() {
        let lines: Vec<_> = [0, 1, 4, 2, 2, 130].map(|seq| line(3, seq)).to_vec();
        let check = check(&[sender(3, 131, 131)], &lines);
        assert_eq!((check.received, check.lost, check.duplicated), (5, 126, 1));
        assert_eq!((check.out_of_order, check.stray), (1, 0));
        assert_eq!(
            check.losses,
            [SenderLoss {
                conn: 3,
                lost: 126,
                first_seq: 3
            }]
        );
        assert!(!check.ok());
    }

    #[test]
    fn what_was_begun_may_arrive_or_not_and_nothing_beyond() {
        let senders = [sender(0, 2, 3)];
        assert!(check(&senders, &[line(0, 0), line(0, 1)]).ok());
        assert!(check(&senders, &[line(0, 0), line(0, 1), line(0, 2)]).ok());
        let stray = check(&senders, &[line(0, 0), line(0, 1), line(0, 3), line(9, 0)]);
        assert_eq!((stray.stray, stray.lost), (2, 0));
    }

    #[test]
    fn other_runs_and_broken_markers_are_passed_over() {
        let lines = [
            b"seq=0000000000 conn=00 run=deadbeef sent=1700000000000000000".to_vec(),
            b"seq=0000000000 conn=0 run=0000beef sent=17".to_vec(),
            b"conn=0 run=0000beef sent=1700000000000000000".to_vec(),
            b" run=0000beef sent=1700000000000000000".to_vec(),
            b"seq=00000000x0 conn=0 run=0000beef sent=1700000000000000000".to_vec(),
            Vec::new(),
        ];
        let check = check(&[sender(0, 1, 1)], &lines);
        assert_eq!((check.received, check.stray, check.lost), (0, 0, 1));
    }

    #[test]
    fn json_lines_count_once_and_give_latency() {
        let inner = String::from_utf8_lossy(&line(0, 0)).into_owned();
        let json = format!(
            r#"{{"raw":"\"received\":\"x\" {inner}","received":"2023-11-14T22:13:20.0015Z","msg":"{inner}"}}"#
        );
        let check = check(&[sender(0, 1, 1)], &[json.into_bytes()]);
        assert!(check.ok(), "{check:?}");
        let latency = check.latency.map(|latency| (latency.count, latency.max_us));
        assert_eq!(latency, Some((1, 1500)));
    }
}
