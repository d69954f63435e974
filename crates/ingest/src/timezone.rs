//! Time zones guessed of a source's senders: parser, counters and log lines. The guesses outlive a
//! restart (`kept`).

mod zones_file;

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use inrush_codec::{GuessChange, SyslogParser, Zone, ZoneGuesses};
use inrush_event::{Counter, Timestamp};

pub use zones_file::ZonesFile;

/// Guesses that are written to the log in a minute; metrics have all of them. Who invents senders
/// cannot fill it.
const SAID_MAX: u32 = 100;

const MINUTE_NS: i64 = 60_000_000_000;

/// Bytes of a host name that are written to the log: as many as a name can have.
const HOST_BYTES_MAX: usize = 255;

/// The zones of the senders of one source; they outlive a reload.
#[derive(Default)]
pub struct SenderZones {
    guesses: Arc<ZoneGuesses>,
    made: Counter,
    changed: Counter,
    ended: Counter,
    /// The minute, since 1970, of the last guess, and how many there were in it. Locked when there
    /// is news.
    said: Mutex<(i64, u32)>,
}

impl SenderZones {
    /// A parser of the headers of events.
    ///
    /// `zone` is the source's; with `guess` those of its senders are guessed.
    pub fn parser(&self, zone: &Zone, guess: bool) -> SyslogParser {
        match guess {
            true => SyslogParser::guessing(zone.clone(), Arc::clone(&self.guesses)),
            false => SyslogParser::new(zone.clone()),
        }
    }

    /// Counts news of a guess, and says it, if not too much was said lately.
    #[cold]
    pub fn note(
        &self,
        source: &str,
        sender: IpAddr,
        host: &[u8],
        guess: GuessChange,
        now: Timestamp,
    ) {
        let (counter, words) = match (guess.from, guess.to) {
            (_, None) => (&self.ended, "the times of a sender fit the source's zone"),
            (None, _) => (&self.made, "the zone of a sender was guessed"),
            _ => (&self.changed, "the zone of a sender has changed"),
        };
        counter.add(1);
        if !self.may_say(now) {
            return;
        }
        let host = String::from_utf8_lossy(&host[..host.len().min(HOST_BYTES_MAX)]);
        let shown = |minutes: Option<i16>| minutes.map_or("the source's".to_owned(), offset);
        let (from, to) = (shown(guess.from), shown(guess.to));
        tracing::info!(source, %sender, ?host, %from, %to, "{words}");
    }

    /// True if one more line may be said in this minute; counts it.
    fn may_say(&self, now: Timestamp) -> bool {
        let minute = now.0.div_euclid(MINUTE_NS);
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.0 != minute {
            *said = (minute, 0);
        }
        said.1 = said.1.saturating_add(1);
        said.1 <= SAID_MAX
    }

    /// Number of guesses made, changed and ended, each with its name.
    pub fn counts(&self) -> [(&'static str, u64); 3] {
        [
            ("made", self.made.get()),
            ("changed", self.changed.get()),
            ("ended", self.ended.get()),
        ]
    }
}

/// Minutes east of UTC as `+02:00`.
pub fn offset(minutes: i16) -> String {
    let sign = if minutes < 0 { '-' } else { '+' };
    let minutes = minutes.unsigned_abs();
    format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_guesses_is_counted_and_not_all_said() {
        let zones = SenderZones::default();
        let at = |second: i64| Timestamp(second * 1_000_000_000);
        let said = |second| (0..500).filter(|_| zones.may_say(at(second))).count();
        assert_eq!(said(0), SAID_MAX as usize);
        assert_eq!(said(59), 0);
        assert_eq!(said(60), SAID_MAX as usize);
    }
}
