//! Placement of events in files: by index and by the hour of the event's time.

use inrush_event::crc32c;
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// An event whose time is further before or behind its arrival than this is filed under the hour of
/// its arrival, in files of its own: clocks that are wrong must neither make thousands of folders
/// nor widen the times of files that are right.
const EARLIER_MAX_NS: i64 = 24 * HOUR_NS;
const LATER_MAX_NS: i64 = HOUR_NS;

const HOUR_NS: i64 = 3_600_000_000_000;

/// Bytes of a folder's name.
const NAME_BYTES_MAX: usize = 64;

/// The hour that a file is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub(crate) struct Hour {
    /// Hours since 1970.
    number: i64,
    /// True if its events have times far from their arrival.
    odd: bool,
}

impl Hour {
    /// Of an event that says `time` and came at `received`, both in nanoseconds since 1970.
    pub(crate) fn of(time: i64, received: i64) -> Self {
        let odd = time < received.saturating_sub(EARLIER_MAX_NS)
            || time > received.saturating_add(LATER_MAX_NS);
        let at = if odd { received } else { time };
        Self {
            number: at.div_euclid(HOUR_NS),
            odd,
        }
    }
}

/// The folder of an index and an hour, with `/` at its end.
pub(crate) fn folder(index: &str, hour: Hour) -> String {
    let at = Timestamp::from_second(hour.number * 3600).unwrap_or_default();
    let at = at.to_zoned(TimeZone::UTC);
    let odd = if hour.odd { "-odd" } else { "" };
    format!("{}/{}{odd}/", name(index), at.strftime("%Y-%m-%d/%H"))
}

/// A name for a folder that is told apart from every other's and leads nowhere else: letters,
/// digits, `-`, `_` and inner dots as they are, other bytes as `!` and two digits.
pub(crate) fn name(index: &str) -> String {
    let mut name = String::new();
    for (at, byte) in index.bytes().enumerate() {
        let plain = byte.is_ascii_alphanumeric()
            || byte == b'-'
            || (byte == b'_' && at > 0)
            || (byte == b'.' && at > 0);
        if plain {
            name.push(char::from(byte));
        } else {
            name.push_str(&format!("!{byte:02x}"));
        }
    }
    if name.is_empty() {
        name.push('!');
    }
    if name.len() > NAME_BYTES_MAX {
        name.truncate(NAME_BYTES_MAX - 10);
        name.push_str(&format!("!!{:08x}", crc32c(index.as_bytes())));
    }
    name
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_name_leads_nowhere_and_is_told_apart() {
        let long = "x".repeat(10_000);
        let longer = format!("{long}y");
        let names = [
            "main",
            "Main",
            "",
            "..",
            ".",
            "../../etc/passwd",
            "a/b",
            "a!2fb",
            "a~2fb",
            "_log",
            "-",
            "a.b",
            "ü",
            "a b",
            "a\0b",
            "con",
            "%2e%2e",
            "~",
            "!",
            &long,
            &longer,
        ];
        let mut seen = BTreeSet::new();
        for index in names {
            let name = name(index);
            assert!(!name.is_empty() && name.len() <= NAME_BYTES_MAX, "{name}");
            let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.!".contains(&b);
            assert!(name.bytes().all(plain), "{name}");
            assert!(!name.starts_with('.') && !name.starts_with('_'), "{name}");
            // Readers find by this what writers named by that.
            assert_eq!(object_store::path::Path::from(name.as_str()).as_ref(), name);
            assert!(seen.insert(name), "{index}");
        }
        assert_eq!(name("net_fw-1.x"), "net_fw-1.x");
    }

    #[test]
    fn a_wrong_clock_makes_one_folder_more() {
        let now = 1_795_348_800_000_000_000;
        let folder = |time: i64| folder("main", Hour::of(time, now));
        assert_eq!(folder(now), "main/2026-11-22/12/");
        assert_eq!(folder(now - 2 * HOUR_NS), "main/2026-11-22/10/");
        for odd in [0, i64::MIN, i64::MAX, now + 2 * HOUR_NS, now - 25 * HOUR_NS] {
            assert_eq!(folder(odd), "main/2026-11-22/12-odd/");
        }
    }
}
