//! Time zones by the names that configurations and devices give them. There is one table of
//! abbreviations, so that a header and a text of the same device are read alike.

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use jiff::{Error, Timestamp};

/// The zone of an IANA name such as `Europe/Berlin`, in any case: by the database of this host, and
/// by the one that is part of the binary for what the host does not know. Containers and small
/// systems have none.
///
/// # Errors
/// Neither knows the name.
pub fn named_zone(name: &str) -> Result<TimeZone, Error> {
    TimeZone::get(name).or_else(|_| TimeZoneDatabase::bundled().get(name))
}

/// The two instants of a local time that occurs twice in a zone, the earlier one first; `None` for
/// all other times.
pub fn instants_of_twice(zone: &TimeZone, shown: DateTime) -> Option<(Timestamp, Timestamp)> {
    let AmbiguousOffset::Fold { before, after } = zone.to_ambiguous_timestamp(shown).offset()
    else {
        return None;
    };
    Some((
        before.to_timestamp(shown).ok()?,
        after.to_timestamp(shown).ok()?,
    ))
}

/// The instant of a local time in a zone: of one that is skipped as with the offset before the
/// change, of one that occurs twice the closest to `received`. True if it occurs twice; `None` if
/// no calendar has it.
pub fn closest_instant(
    zone: &TimeZone,
    shown: DateTime,
    received: Timestamp,
) -> Option<(Timestamp, bool)> {
    let Some((first, second)) = instants_of_twice(zone, shown) else {
        let instant = zone.to_ambiguous_timestamp(shown).compatible();
        return instant.ok().map(|time| (time, false));
    };
    let distance = |time: Timestamp| received.duration_since(time).unsigned_abs();
    let second_is_closer = distance(second) < distance(first);
    Some((if second_is_closer { second } else { first }, true))
}

/// Minutes east of UTC of an abbreviation, in capitals as it is sent; `None` if it is none that is
/// known.
///
/// Where one has several meanings it is the one that network devices are configured with most:
/// India for IST (not Ireland, not Israel), North America for CST and AST, Britain for BST, the
/// Gulf for GST. An abbreviation is one offset all year round: summer time has a name of its own.
#[inline]
pub fn abbreviation_minutes(word: &[u8]) -> Option<i16> {
    let minutes = match word {
        b"UTC" | b"GMT" | b"Z" | b"WET" | b"UT" => 0,
        b"CET" | b"BST" | b"WEST" | b"MEZ" => 60,
        b"CEST" | b"EET" | b"SAST" | b"MESZ" => 120,
        b"EEST" | b"MSK" | b"TRT" | b"IDT" => 180,
        b"GST" | b"MSD" => 240,
        b"PKT" => 300,
        b"IST" => 330,
        b"WIB" => 420,
        b"HKT" | b"SGT" | b"AWST" | b"PHT" => 480,
        b"JST" | b"KST" => 540,
        b"ACST" => 570,
        b"AEST" => 600,
        b"ACDT" => 630,
        b"AEDT" => 660,
        b"NZST" => 720,
        b"NZDT" => 780,
        b"NDT" => -150,
        b"BRT" | b"ART" | b"ADT" => -180,
        b"NST" => -210,
        b"AST" | b"EDT" => -240,
        b"EST" | b"CDT" => -300,
        b"CST" | b"MDT" => -360,
        b"MST" | b"PDT" => -420,
        b"PST" | b"AKDT" => -480,
        b"AKST" => -540,
        b"HST" => -600,
        _ => return None,
    };
    Some(minutes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_hour_that_occurs_twice_the_closest_is_taken() {
        let berlin = named_zone("Europe/Berlin").expect("a zone");
        for (shown, received, wanted, twice) in [
            (
                "2026-10-25T02:30",
                "2026-10-25T00:59:59Z",
                "2026-10-25T00:30:00Z",
                true,
            ),
            (
                "2026-10-25T02:30",
                "2026-10-25T01:00:00Z",
                "2026-10-25T00:30:00Z",
                true,
            ),
            (
                "2026-10-25T02:30",
                "2026-10-25T01:00:01Z",
                "2026-10-25T01:30:00Z",
                true,
            ),
            (
                "2026-10-25T01:59:59",
                "2026-10-25T01:00:01Z",
                "2026-10-24T23:59:59Z",
                false,
            ),
            (
                "2026-10-25T03:00",
                "2026-10-25T01:00:01Z",
                "2026-10-25T02:00:00Z",
                false,
            ),
            (
                "2026-03-29T02:30",
                "2026-03-29T01:30:00Z",
                "2026-03-29T01:30:00Z",
                false,
            ),
        ] {
            let at = |text: &str| text.parse::<Timestamp>().expect("a time");
            let seen = shown
                .parse()
                .ok()
                .and_then(|shown| closest_instant(&berlin, shown, at(received)));
            assert_eq!(seen, Some((at(wanted), twice)), "{shown} at {received}");
        }
    }

    #[test]
    fn the_binary_knows_zones_that_the_host_does_not() {
        let bundled = TimeZoneDatabase::bundled();
        for name in [
            "Europe/Berlin",
            "America/New_York",
            "America/St_Johns",
            "Asia/Kathmandu",
            "Asia/Calcutta",
            "Australia/Lord_Howe",
            "Pacific/Chatham",
            "Antarctica/Troll",
            "Etc/GMT-14",
            "US/Pacific",
            "UTC",
        ] {
            assert!(bundled.get(name).is_ok(), "{name}");
            assert!(named_zone(name).is_ok(), "{name}");
        }
        assert!(named_zone("Mars/Olympus").is_err());
    }
}
