//! Counts of a token: events, answers, lags and senders.
//!
//! # What it guarantees
//! * Events are counted once a step through a body, answers and senders once a request. Only the
//!   senders have a lock.
//!
//! # Limits
//! [`SENDERS_MAX`] senders of a token are known. A further one takes the place of the one with
//! fewest events, so those that send much stay.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use inrush_codec::hec::HecAnswer;
use inrush_event::{Counter, Histogram, Timestamp};

use super::reply::ReplyContent;
use crate::SenderShare;

/// Senders of a token that are known, at most.
const SENDERS_MAX: usize = 16;

/// Statuses of answers that have no code of the collector; others count as the last one.
const STATUSES: [u16; 11] = [200, 400, 404, 405, 408, 413, 415, 431, 501, 505, 500];

/// Answers by code, or by status.
#[derive(Default)]
pub(super) struct AnswerCounts {
    codes: [Counter; HecAnswer::ALL.len()],
    statuses: [Counter; STATUSES.len()],
}

impl AnswerCounts {
    /// Counts an answer.
    pub(super) fn note(&self, content: &ReplyContent) {
        match content {
            ReplyContent::Hec(answer, _) => self.codes[usize::from(answer.code())].add(1),
            other => {
                let status = STATUSES.iter().position(|one| *one == other.status());
                self.statuses[status.unwrap_or(STATUSES.len() - 1)].add(1);
            }
        }
    }

    /// Counts by code or status, without those that never happened.
    pub(super) fn list(&self) -> BTreeMap<u16, u64> {
        let codes = (0..).zip(&self.codes);
        let statuses = STATUSES.into_iter().zip(&self.statuses);
        let all = codes.chain(statuses).map(|(code, n)| (code, n.get()));
        all.filter(|(_, n)| *n > 0).collect()
    }
}

/// Senders of a token with most events.
#[derive(Default)]
pub(super) struct TopSenders(Mutex<Vec<SenderShare>>);

impl TopSenders {
    /// Counts a request of a sender, and its events.
    pub(super) fn note(&self, ip: IpAddr, events: u64) {
        let mut senders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = senders.iter().position(|one| one.ip == ip);
        let new = SenderShare {
            ip,
            events: 0,
            requests: 0,
        };
        let place = known.unwrap_or_else(|| {
            if senders.len() < SENDERS_MAX {
                senders.push(new);
                return senders.len() - 1;
            }
            let fewest = senders.iter().enumerate().min_by_key(|(_, one)| one.events);
            let place = fewest.map_or(0, |(place, _)| place);
            senders[place] = new;
            place
        });
        senders[place].events += events;
        senders[place].requests += 1;
    }

    /// All that are known, those with most events first.
    pub(super) fn list(&self) -> Vec<SenderShare> {
        let mut senders = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        senders.sort_by_key(|one| std::cmp::Reverse(one.events));
        senders
    }
}

/// Counts of a token.
#[derive(Default)]
pub(super) struct TokenCounts {
    /// Events taken.
    pub(super) events: Counter,
    /// Bytes of their texts.
    pub(super) bytes: Counter,
    /// Answers.
    pub(super) answers: AnswerCounts,
    /// Time of the last request, nanoseconds since 1970; 0 before the first.
    pub(super) last_seen: Counter,
    /// Times from an event to its receipt.
    pub(super) lag: Histogram,
    /// Senders.
    pub(super) senders: TopSenders,
}

impl TokenCounts {
    /// Notes that a request came.
    pub(super) fn seen(&self) {
        self.last_seen.set(Timestamp::now().0.max(0) as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn those_that_send_much_stay_whoever_else_comes() {
        let senders = TopSenders::default();
        senders.note(ip(1), 500);
        senders.note(ip(2), 400);
        for other in 3..=255 {
            senders.note(ip(other), 1);
        }
        senders.note(ip(2), 200);
        let list = senders.list();
        assert_eq!(list.len(), SENDERS_MAX);
        let first = (list[0].ip, list[0].events, list[0].requests);
        assert_eq!(first, (ip(2), 600, 2));
        assert_eq!((list[1].ip, list[1].events), (ip(1), 500));
    }

    #[test]
    fn an_answer_without_a_code_counts_by_its_status() {
        let answers = AnswerCounts::default();
        for content in [
            ReplyContent::Hec(HecAnswer::Busy, None),
            ReplyContent::TooLarge(5),
            ReplyContent::Acks(String::new()),
            ReplyContent::Http(418),
            ReplyContent::Hec(HecAnswer::Busy, Some(1)),
        ] {
            answers.note(&content);
        }
        let expected = [(9, 2), (200, 1), (413, 1), (500, 1)];
        assert_eq!(answers.list(), BTreeMap::from(expected));
    }
}
