//! Times without a year or a zone, over the whole calendar: whatever a sender's clock shows is read
//! back as the instant at which it showed it.

use jiff::civil::DateTime;
use proptest::prelude::*;

use super::*;

#[path = "../../../codec/tests/support/calendar.rs"]
mod calendar;
use calendar::{ZONES, instants};

/// Seconds of half a year, less a day: further off, another year is closer.
const SKEW_MAX: i64 = 181 * 86_400;

/// Seconds by which a clock of these zones is ever put forward or back: St. John's had a summer
/// time of two hours in 1988, all others have one at most.
const CHANGE_MAX: i64 = 7200;

fn zone(index: usize) -> TimeZone {
    TimeZone::get(ZONES[index]).expect("a zone of the time zone database")
}

fn stamp(second: i64) -> Timestamp {
    Timestamp(second * 1_000_000_000)
}

/// What a clock on the wall shows.
fn shown(second: i64, zone: &TimeZone) -> DateTime {
    let instant = jiff::Timestamp::from_second(second).expect("a time");
    zone.to_datetime(instant)
}

fn read(format: &str, text: &str, zone: &TimeZone, now: i64) -> Option<i64> {
    let formats = TimeFormats::parse([format]).expect(format);
    let read = formats.read(text.as_bytes(), zone, stamp(now))?;
    Some(read.time.0.div_euclid(1_000_000_000))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// Without a year and without a zone: the instant itself, or, where the clock shows the same
    /// twice in that night, the other one.
    #[test]
    fn what_a_clock_shows_is_the_instant_at_which_it_shows_it(
        second in instants(),
        skew in -SKEW_MAX..SKEW_MAX,
        index in 0..ZONES.len(),
    ) {
        let zone = zone(index);
        let wall = shown(second, &zone);
        let text = wall.strftime("%b %e %H:%M:%S").to_string();
        let found = read("%b %e %H:%M:%S", &text, &zone, second + skew);
        let found = found.expect("a time");
        prop_assert_eq!(shown(found, &zone), wall, "{} in {}", text, ZONES[index]);
        prop_assert!((found - second).abs() <= CHANGE_MAX, "{} is read as {}", second, found);
    }

    /// With a year, whatever the receive time is: a sender whose clock is years off is not moved.
    #[test]
    fn a_written_year_is_kept(
        second in instants(),
        now in instants(),
        index in 0..ZONES.len(),
    ) {
        let zone = zone(index);
        let wall = shown(second, &zone);
        let text = wall.strftime("%Y-%m-%d %H:%M:%S").to_string();
        let found = read("%Y-%m-%d %H:%M:%S", &text, &zone, now).expect("a time");
        prop_assert_eq!(shown(found, &zone), wall);
        prop_assert!((found - second).abs() <= CHANGE_MAX);
    }

    /// With an offset nothing is left open, in whichever zone it was written.
    #[test]
    fn a_written_offset_decides(
        second in instants(),
        index in 0..ZONES.len(),
        source in 0..ZONES.len(),
    ) {
        let instant = jiff::Timestamp::from_second(second).expect("a time");
        let text = instant.to_zoned(zone(index)).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
        let found = read("%Y-%m-%dT%H:%M:%S%z", &text, &zone(source), second);
        prop_assert_eq!(found, Some(second), "{}", text);
    }

    /// What no clock of the zone ever shows, since it was put forward then, is read all the same,
    /// off by no more than the clock was put forward.
    #[test]
    fn a_time_that_was_skipped_is_still_read(second in instants(), index in 0..ZONES.len()) {
        let zone = zone(index);
        // The same digits, as if there were no changes of the clock.
        let wall = shown(second, &TimeZone::UTC);
        let text = wall.strftime("%Y-%m-%d %H:%M:%S").to_string();
        let found = read("%Y-%m-%d %H:%M:%S", &text, &zone, second).expect("a time");
        let off = shown(found, &zone).duration_since(wall).as_secs();
        prop_assert!(off.abs() <= CHANGE_MAX, "{} is read as {}", text, shown(found, &zone));
    }
}

/// On 3 April 1988 the clocks of St. John's went from 00:00:59 to 02:01:00: what they never showed
/// is read as if they had not been put forward.
#[test]
fn a_summer_time_of_two_hours_skips_two() {
    let zone = TimeZone::get("America/St_Johns").expect("a zone");
    for (text, wanted) in [
        ("1988-04-03 00:00:59", 576_041_459),
        ("1988-04-03 02:00:59", 576_041_459 + 7_200),
    ] {
        let found = read("%Y-%m-%d %H:%M:%S", text, &zone, 576_041_459);
        assert_eq!(found, Some(wanted), "{text}");
    }
}

#[test]
fn a_time_of_day_is_the_closest_one() {
    let midnight = 1_714_953_600;
    for (text, now, wanted) in [
        ("23:59:58", midnight + 5, midnight - 2),
        ("00:00:05", midnight - 2, midnight + 5),
        ("12:00:00", midnight + 40_000, midnight + 43_200),
    ] {
        let found = read("%H:%M:%S", text, &TimeZone::UTC, now);
        assert_eq!(found, Some(wanted), "{text}");
    }
}

#[test]
fn a_leap_day_takes_the_closest_year_that_has_one() {
    for (now, wanted) in [
        (1_709_164_800, 1_709_208_000), // 29 Feb 2024, 12:00
        (1_740_700_800, 1_709_208_000), // a year later
        (1_835_352_000, 1_835_438_400), // 28 Feb 2028
    ] {
        let found = read("%b %e %H:%M:%S", "Feb 29 12:00:00", &TimeZone::UTC, now);
        assert_eq!(found, Some(wanted), "at {now}");
    }
}

#[test]
fn a_day_may_have_to_be_todays() {
    // May 6th 2024, 07:08:09 UTC.
    let now = 1_714_979_289;
    let utc = TimeZone::UTC;
    let today = |text| read("%D/%m/%Y:%H:%M:%S", text, &utc, now);
    assert_eq!(today("06/05/2024:07:08:09"), Some(now));
    assert_eq!(today("06/04/2024:07:08:09"), Some(now - 30 * 86_400));
    assert_eq!(today("05/06/2024:07:08:09"), None);
}
