//! Headers of syslog messages (RFC 5424, RFC 3164).
//!
//! # What it guarantees
//! * Every record is read as something: what has no header that is known stays
//!   [`Format::Unparsed`], its message the whole of it.
//! * All spans lie inside the record, and the message ends where the record ends.
//! * The message is never looked at, so the cost does not grow with it; nothing is allocated.
//!   UTF-8 is left to encoders, for the same reason.
//! * A header costs tens of nanoseconds: the time of the record before is remembered, and a
//!   calendar is consulted only when the second changes.
//!
//! # How the format is told
//! `<PRI>`, a version and a timestamp (or `-`) make RFC 5424. Everything else with a `<PRI>`, or
//! with a timestamp at its start, is RFC 3164 in one of its many shapes.

mod behind_time;
#[cfg(test)]
#[path = "../../tests/support/calendar.rs"]
mod calendar;
#[cfg(test)]
mod field_tests;
mod guess;
mod odd_host;
mod pri;
mod rfc3164;
mod rfc5424;
mod scan;
#[cfg(test)]
mod tests;
mod time;
mod twice;
mod zone;

use std::net::IpAddr;
use std::sync::Arc;

use inrush_event::{Anomalies, Format, Record};

use guess::ZoneGuesser;
pub use guess::{GuessChange, KeptGuess, ZoneGuesses};
use pri::{Pri, read_pri};
use scan::skip_spaces;
use time::TimestampParser;
use twice::RepeatedHours;
pub use zone::{Zone, ZoneError};

/// Reads headers. It remembers the last timestamps, so each worker has its own.
#[derive(Debug)]
pub struct SyslogParser {
    clock: TimestampParser,
    guesser: Option<ZoneGuesser>,
    hours: RepeatedHours,
}

impl SyslogParser {
    /// A parser that takes timestamps without a zone as being in `zone`.
    pub fn new(zone: Zone) -> Self {
        Self {
            clock: TimestampParser::new(zone),
            guesser: None,
            hours: RepeatedHours::default(),
        }
    }

    /// A parser that takes timestamps without a zone as being in that of their sender, as far as
    /// `guesses` know it, and else in `zone`.
    pub fn guessing(zone: Zone, guesses: Arc<ZoneGuesses>) -> Self {
        Self {
            clock: TimestampParser::new(Zone::utc()),
            guesser: Some(ZoneGuesser::new(zone, guesses)),
            hours: RepeatedHours::default(),
        }
    }

    /// As [`Self::parse`] does, for a record that `sender` sent: what is known of its zone counts,
    /// and the event counts for what is known. The answer is there if that made news of it.
    #[inline]
    pub fn parse_from(
        &mut self,
        arena: &[u8],
        record: &mut Record,
        sender: IpAddr,
    ) -> Option<GuessChange> {
        self.header(arena, record);
        let guesser = self.guesser.as_mut();
        let news = guesser.and_then(|guesser| guesser.settle(arena, record, sender));
        if record.anomalies.contains(Anomalies::HOUR_ASSUMED) {
            let zone = self
                .guesser
                .as_ref()
                .map_or(self.clock.zone(), ZoneGuesser::zone);
            self.hours.settle(arena, record, sender, zone.twice());
        }
        news
    }

    /// Fills the columns of a record that was made by [`Record::unparsed`] from its raw bytes in
    /// `arena`. Anomalies are added to those it has.
    #[inline]
    pub fn parse(&mut self, arena: &[u8], record: &mut Record) {
        self.header(arena, record);
        if let Some(guesser) = &mut self.guesser {
            guesser.assume(record);
        }
    }

    fn header(&mut self, arena: &[u8], record: &mut Record) {
        let begin = record.raw.start();
        let Some(bytes) = arena.get(..record.raw.end()) else {
            return unparsed(record);
        };
        let at = match bytes.get(begin) {
            Some(b'<') => begin,
            _ => skip_blank(bytes, begin),
        };
        let (at, certain) = match read_pri(bytes, at) {
            Pri::Good { value, end } => {
                record.pri = value;
                (end, true)
            }
            Pri::Bad { numeric, end } => {
                record.anomalies.insert(Anomalies::BAD_PRI);
                (end, numeric)
            }
            Pri::Absent => {
                record.anomalies.insert(Anomalies::NO_PRI);
                (at, false)
            }
        };
        let at = skip_spaces(bytes, at);
        if let Some(version) = rfc5424::version(bytes, at, certain) {
            if !version.known {
                record.anomalies.insert(Anomalies::BAD_VERSION);
            }
            rfc5424::parse(&mut self.clock, bytes, version.end, record);
        } else if !rfc3164::parse(&mut self.clock, bytes, at, certain, record) {
            unparsed(record);
        }
    }
}

/// Offset after spaces, and a byte order mark that Windows agents put before the PRI.
#[cold]
fn skip_blank(bytes: &[u8], at: usize) -> usize {
    let bom = bytes.get(at) == Some(&0xef) && bytes[at..].starts_with(b"\xef\xbb\xbf");
    skip_spaces(bytes, at + if bom { 3 } else { 0 })
}

fn unparsed(record: &mut Record) {
    record.format = Format::Unparsed;
    record.message = record.raw;
    let missing = Anomalies::NO_TIME.union(Anomalies::NO_HOST);
    record.anomalies.insert(Anomalies::UNPARSED.union(missing));
}
