//! Files that cannot be read, logs that fall behind, and polling for want of watches, for alarms.
//!
//! # What it guarantees
//! * A log whose lag shrinks is no finding, however much it is: a backlog that is being read.
//! * A file that is denied for a moment, as at a rotation, is no finding.
//!
//! # States of a log
//! Late, while its oldest unread byte is older than [`LATE_S`]; behind, once its lag has grown
//! over [`SAMPLES_MIN`] samples of that.
//!
//! # Limits
//! A sample every [`EVERY`], of the [`ROWS`] files of a source with the most unread bytes. The last
//! [`SAMPLES_MAX`] samples of a late log are kept: a minute.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use inrush_event::Timestamp;
use inrush_tail::listing::{FileListing, ListedState, PollReason, PollingCause};

/// Time between two samples.
const EVERY: Duration = Duration::from_secs(5);

/// Files of a source in a sample.
pub(crate) const ROWS: usize = 64;

/// Seconds from which on a log is late.
pub(crate) const LATE_S: f64 = 60.0;

/// Samples of a late log that are kept.
const SAMPLES_MAX: usize = 13;

/// With fewer samples nothing is said: 20 seconds.
const SAMPLES_MIN: usize = 5;

/// Milliseconds for which a file cannot be read before that is a finding.
const UNREADABLE_MS: i64 = 60_000;

/// Something that is wrong with the files of a source.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum FileTrouble {
    /// Files that cannot be read.
    Unreadable {
        /// The one that cannot be read for longest.
        path: String,
        /// The reason in words.
        reason: String,
        /// The others.
        others: u64,
        /// Time of the first failure.
        since: Timestamp,
    },
    /// Logs that are read more slowly than they are written.
    Behind {
        /// The log with the most unread bytes.
        path: String,
        /// Its unread bytes.
        lag_bytes: u64,
        /// Age of the oldest of them in seconds.
        lag_s: f64,
        /// Other logs that fall behind.
        others: u64,
        /// Time at which it was late first.
        since: Timestamp,
    },
    /// Files that the kernel would watch if its limit were higher.
    Polled(PollingCause),
}

/// A late log.
struct LateLog {
    since: Timestamp,
    /// Unread bytes, the oldest sample first.
    lags: VecDeque<u64>,
}

impl LateLog {
    fn is_behind(&self) -> bool {
        let grows = self.lags.back() > self.lags.front();
        self.lags.len() >= SAMPLES_MIN && grows
    }
}

/// The files of the last minute.
#[derive(Default)]
pub(crate) struct FileTrend {
    last: Option<Instant>,
    /// By source and path.
    late: HashMap<(String, String), LateLog>,
    troubles: Vec<(String, FileTrouble)>,
    /// Bytes of each source that were deleted unread.
    rotated_away: HashMap<String, u64>,
}

impl FileTrend {
    /// True if a sample is due.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        let last = self.last;
        last.is_none_or(|last| now.saturating_duration_since(last) >= EVERY)
    }

    /// Takes a sample of all sources.
    pub(crate) fn note(&mut self, listings: &[(String, FileListing)], at: Timestamp, now: Instant) {
        self.last = Some(now);
        let mut late = HashMap::new();
        self.troubles.clear();
        let lost = listings.iter();
        let lost = lost.map(|(source, one)| (source.clone(), one.rotated_away_unread_bytes));
        self.rotated_away = lost.collect();
        for (source, listing) in listings {
            for file in listing.files.iter().filter(|one| one.lag_s >= LATE_S) {
                let key = (source.clone(), file.path.clone());
                let mut log = self.late.remove(&key).unwrap_or_else(|| LateLog {
                    since: at,
                    lags: VecDeque::new(),
                });
                if log.lags.len() >= SAMPLES_MAX {
                    log.lags.pop_front();
                }
                log.lags.push_back(file.lag_bytes);
                late.insert(key, log);
            }
        }
        self.late = late;
        for (source, listing) in listings {
            let found = [
                unreadable(listing, at),
                self.behind(source, listing),
                polled(listing),
            ];
            let found = found.into_iter().flatten();
            self.troubles
                .extend(found.map(|trouble| (source.clone(), trouble)));
        }
    }

    fn behind(&self, source: &str, listing: &FileListing) -> Option<FileTrouble> {
        let log = |path: &str| self.late.get(&(source.to_owned(), path.to_owned()));
        let files = listing.files.iter();
        let mut behind = files.filter_map(|file| {
            let log = log(&file.path).filter(|log| log.is_behind())?;
            Some((file, log.since))
        });
        let (worst, since) = behind.next()?;
        Some(FileTrouble::Behind {
            path: worst.path.clone(),
            lag_bytes: worst.lag_bytes,
            lag_s: worst.lag_s,
            others: behind.count() as u64,
            since,
        })
    }

    /// Bytes of a source that were deleted unread, until the last sample.
    pub(crate) fn rotated_away(&self, source: &str) -> u64 {
        self.rotated_away.get(source).copied().unwrap_or(0)
    }

    /// Faults at the last sample, with their source.
    pub(crate) fn troubles(&self) -> &[(String, FileTrouble)] {
        &self.troubles
    }
}

fn unreadable(listing: &FileListing, at: Timestamp) -> Option<FileTrouble> {
    let fails = |state| matches!(state, ListedState::Failed | ListedState::Unopened);
    let ill = listing.files.iter().filter(|file| fails(file.state));
    let long = ill.filter_map(|file| Some((file, file.since_ms?)));
    let mut long: Vec<_> = long
        .filter(|(_, since)| at.0 / 1_000_000 - since >= UNREADABLE_MS)
        .collect();
    long.sort_by_key(|(_, since)| *since);
    let (first, since) = long.first()?;
    Some(FileTrouble::Unreadable {
        path: first.path.clone(),
        reason: first.reason.clone().unwrap_or_default(),
        others: long.len() as u64 - 1,
        since: Timestamp(since * 1_000_000),
    })
}

fn polled(listing: &FileListing) -> Option<FileTrouble> {
    let mut causes = listing.polling.iter();
    let limit = |reason| matches!(reason, PollReason::NoWatch | PollReason::NoInstance);
    let cause = causes.find(|cause| limit(cause.reason))?;
    Some(FileTrouble::Polled(cause.clone()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use inrush_tail::listing::{FileLosses, ListedFile};

    use super::*;

    const START: Timestamp = Timestamp(1_000_000_000_000);

    fn file(path: &str, lag_bytes: u64, lag_s: f64) -> ListedFile {
        ListedFile {
            path: path.to_owned(),
            state: ListedState::Live,
            reason: None,
            since_ms: None,
            generation: 0,
            waiting: 0,
            position: 0,
            size: lag_bytes,
            lag_bytes,
            lag_s,
            read_bytes: 0,
            joined: 0,
            losses: FileLosses::default(),
        }
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp(START.0 + seconds as i64 * 1_000_000_000)
    }

    /// Takes samples, one every five seconds. Returns the troubles after each.
    fn after(samples: &[Vec<ListedFile>]) -> Vec<Vec<FileTrouble>> {
        let (mut trend, start) = (FileTrend::default(), Instant::now());
        let mut all = Vec::new();
        for (number, files) in samples.iter().enumerate() {
            let seconds = number as u64 * 5;
            let now = start + Duration::from_secs(seconds);
            assert!(trend.is_due(now));
            let files = files.clone();
            let listing = FileListing {
                files,
                ..FileListing::default()
            };
            trend.note(&[("pods".to_owned(), listing)], at(seconds), now);
            assert!(!trend.is_due(now + Duration::from_secs(4)));
            let of = |(source, trouble): &(String, FileTrouble)| {
                assert_eq!(source, "pods");
                trouble.clone()
            };
            all.push(trend.troubles().iter().map(of).collect());
        }
        all
    }

    #[test]
    fn a_log_is_behind_once_its_lag_has_grown_for_a_while() {
        let grows = |n: u64| vec![file("/a", 100 + n, 70.0), file("/b", 50 + n, 61.0)];
        let found = after(&(0..6).map(grows).collect::<Vec<_>>());
        assert!(found[..4].iter().all(Vec::is_empty), "{found:?}");
        let behind = FileTrouble::Behind {
            path: "/a".to_owned(),
            lag_bytes: 104,
            lag_s: 70.0,
            others: 1,
            since: at(0),
        };
        assert_eq!(found[4], [behind]);
    }

    #[test]
    fn a_backlog_that_shrinks_or_was_young_in_between_is_no_finding() {
        let shrinks = |n: u64| vec![file("/a", 100 - n, 70.0)];
        let found = after(&(0..20).map(shrinks).collect::<Vec<_>>());
        assert!(found.iter().all(Vec::is_empty), "{found:?}");
        let young = |n: u64| vec![file("/a", 100 + n, if n == 3 { 59.0 } else { 70.0 })];
        let found = after(&(0..8).map(young).collect::<Vec<_>>());
        assert!(found.iter().all(Vec::is_empty), "{found:?}");
    }

    #[test]
    fn a_file_that_cannot_be_read_is_a_finding_after_a_minute() {
        let denied = |path: &str, since: Timestamp, state| ListedFile {
            state,
            reason: Some("the permission to read it is missing".to_owned()),
            since_ms: Some(since.0 / 1_000_000),
            ..file(path, 0, 0.0)
        };
        let listing = FileListing {
            files: vec![
                denied("/new", at(59), ListedState::Unopened),
                denied("/b", at(10), ListedState::Failed),
                denied("/a", at(5), ListedState::Unopened),
                denied("/pipe", at(0), ListedState::Skipped),
            ],
            ..FileListing::default()
        };
        assert_eq!(unreadable(&listing, at(64)), None);
        let found = unreadable(&listing, at(71)).unwrap();
        let FileTrouble::Unreadable {
            path,
            others,
            since,
            ..
        } = found
        else {
            panic!("{found:?}");
        };
        assert_eq!((path.as_str(), others, since), ("/a", 1, at(5)));
    }

    #[test]
    fn a_file_system_without_notices_is_no_want_of_watches() {
        let cause = |reason| PollingCause {
            reason,
            words: "words".to_owned(),
            since_ms: 5,
            folder: None,
            files: 3,
        };
        let of = |polling| FileListing {
            polling,
            ..FileListing::default()
        };
        assert_eq!(polled(&of(vec![cause(PollReason::FileSystem)])), None);
        let both = vec![cause(PollReason::FileSystem), cause(PollReason::NoWatch)];
        let found = polled(&of(both));
        assert_eq!(found, Some(FileTrouble::Polled(cause(PollReason::NoWatch))));
    }
}
