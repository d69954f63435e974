//! Timestamps against jiff, and the rules for what they leave out.
#![allow(clippy::unwrap_used)]

use inrush_event::Span;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use proptest::prelude::*;

use super::super::calendar::{ZONES, instants};
use super::*;

/// 2026-11-21T19:00:00Z.
const RECEIVED: i64 = 1_795_287_600;

fn at(second: i64) -> Timestamp {
    Timestamp(second * SECOND_NS)
}

/// The time in `text` as jiff writes it, with the names of what was assumed.
fn read_at(clock: &mut TimestampParser, text: &str, received: i64) -> Option<(String, String)> {
    let reading = clock
        .read(text.as_bytes(), 0, at(received))
        .filter(|r| r.end == text.len())?;
    let mut record = Record::unparsed(Span::EMPTY, at(received), 0, Anomalies::NONE);
    clock.settle(&reading, &mut record);
    let time = jiff::Timestamp::from_nanosecond(i128::from(record.event_time.or(at(0)).0)).unwrap();
    Some((
        time.to_string(),
        record.anomalies.names().collect::<Vec<_>>().join(" "),
    ))
}

fn read(text: &str) -> Option<(String, String)> {
    read_at(&mut TimestampParser::new(Zone::utc()), text, RECEIVED)
}

#[track_caller]
fn check(text: &str, time: &str, odd: &str) {
    assert_eq!(
        read(text),
        Some((time.to_owned(), odd.to_owned())),
        "{text}"
    );
}

const ASSUMED: &str = "year_assumed zone_assumed";

#[test]
fn iso_times() {
    check("2026-11-21T19:00:00Z", "2026-11-21T19:00:00Z", "");
    check("2026-11-21t19:00:00z", "2026-11-21T19:00:00Z", "");
    check(
        "2026-11-21 19:00:00,123",
        "2026-11-21T19:00:00.123Z",
        "zone_assumed",
    );
    check(
        "2026-11-21T19:00:00.000003-07:00",
        "2026-11-22T02:00:00.000003Z",
        "",
    );
    check(
        "2026-11-21T19:00:00.123456789+0530",
        "2026-11-21T13:30:00.123456789Z",
        "",
    );
    check(
        "2026-11-21T19:00:00.1234567891234+05",
        "2026-11-21T14:00:00.123456789Z",
        "",
    );
    check("2024-02-29T23:59:60Z", "2024-03-01T00:00:00Z", "");
    check("1969-12-31T23:59:59.5Z", "1969-12-31T23:59:59.5Z", "");
}

#[test]
fn bsd_times() {
    check("Nov 21 19:00:00", "2026-11-21T19:00:00Z", ASSUMED);
    check("Nov  1 19:00:00.25", "2026-11-01T19:00:00.25Z", ASSUMED);
    check("Nov 1 19:00:00", "2026-11-01T19:00:00Z", ASSUMED);
    check("nov 01 19:00:00", "2026-11-01T19:00:00Z", ASSUMED);
    check(
        "Nov 21 2024 19:00:00",
        "2024-11-21T19:00:00Z",
        "zone_assumed",
    );
    check(
        "Nov 21 19:00:00 2024",
        "2024-11-21T19:00:00Z",
        "zone_assumed",
    );
    check(
        "Nov 21 19:00:00.5 2024",
        "2024-11-21T19:00:00.5Z",
        "zone_assumed",
    );
    check(
        "2024 Nov 21 19:00:00.5",
        "2024-11-21T19:00:00.5Z",
        "zone_assumed",
    );
}

#[test]
fn what_has_the_shape_and_is_no_date_is_flagged() {
    for text in [
        "2026-13-21T19:00:00Z",
        "2026-02-29T19:00:00Z",
        "2026-11-21T24:00:00Z",
        "2026-11-00T19:00:00Z",
        "2026-11-21T19:60:00Z",
        "2026-11-21T19:00:61Z",
        "9999-12-31T23:59:59Z",
        "0001-01-01T00:00:00Z",
    ] {
        check(text, "1970-01-01T00:00:00Z", "bad_time");
    }
    check(
        "Nov 31 19:00:00",
        "1970-01-01T00:00:00Z",
        "bad_time year_assumed zone_assumed",
    );
    check(
        "Feb 29 2026 19:00:00",
        "1970-01-01T00:00:00Z",
        "bad_time zone_assumed",
    );
}

#[test]
fn what_has_not_the_shape_is_no_time() {
    for text in [
        "",
        "2026",
        "2026-11-21",
        "2026-11-21_19:00:00",
        "2026-11-21T19.00.00",
        "20x6-11-21T19:00:00",
        "Foo 21 19:00:00",
        "Nov 21 19:00",
        "Nov 21 19:00:000",
        "Nov x1 19:00:00",
        "Nov21 19:00:00",
        "Nov  21 9:00:00",
        "May the force be with you",
    ] {
        assert_eq!(read(text), None, "{text}");
    }
}

#[test]
fn the_closest_year_is_taken() {
    let new_year = 1_798_761_600; // 2027-01-01T00:00:00Z
    for (text, received, expected) in [
        ("Dec 31 23:59:59", new_year, "2026-12-31T23:59:59Z"),
        ("Jan  1 00:00:05", new_year - 2, "2027-01-01T00:00:05Z"),
        ("Nov 21 19:00:00", RECEIVED, "2026-11-21T19:00:00Z"),
        // 2026-05-23T07:00:00Z is exactly half-way from 2025-11-21 to 2026-11-21.
        ("Nov 21 19:00:00", 1_779_519_600, "2025-11-21T19:00:00Z"),
        ("Nov 21 19:00:00", 1_779_519_601, "2026-11-21T19:00:00Z"),
        ("Feb 29 12:00:00", RECEIVED, "2028-02-29T12:00:00Z"),
        (
            "Feb 29 12:00:00",
            RECEIVED - 2 * 365 * DAY_SECONDS,
            "2024-02-29T12:00:00Z",
        ),
        ("Feb 29 12:00:00", 4_102_444_800, "2096-02-29T12:00:00Z"), // from 2100-01-01
    ] {
        let fresh = read_at(&mut TimestampParser::new(Zone::utc()), text, received).unwrap();
        assert_eq!(fresh.0, expected, "{text} at {received}");
    }
}

#[test]
fn remembered_timestamps_do_not_change_the_answer() {
    let texts = [
        "Nov 21 19:00:00",
        "Feb 29 12:00:00",
        "Jan  1 00:00:00",
        "Jun 30 10:10:10 2020",
    ];
    let mut remembering = TimestampParser::new(Zone::named("Europe/Berlin").unwrap());
    for step in 0..3_000_i64 {
        let received = RECEIVED + (step % 500) * 1_234_567;
        let text = texts[(step / 7) as usize % texts.len()];
        let mut fresh = TimestampParser::new(Zone::named("Europe/Berlin").unwrap());
        let expected = read_at(&mut fresh, text, received);
        assert_eq!(
            read_at(&mut remembering, text, received),
            expected,
            "{text} at {received}"
        );
    }
}

#[test]
fn zones_after_a_time() {
    for (text, expected) in [
        (" UTC host", Some((0, 4))),
        (" CEST:", Some((120, 5))),
        (" +02:00 host", Some((120, 7))),
        (" -0330", Some((-210, 6))),
        (" EST", Some((-300, 4))),
        (" IST:", Some((330, 4))),
        (" MSD", Some((240, 4))),
        (" HOST a", None),
        (" UTCX a", None),
        (" utc a", None),
        (" -", None),
        (" - app", None),
        (" UTC-7 x", Some((-420, 6))),
        ("UTC", None),
    ] {
        let read = behind_time::zone(text.as_bytes(), 0);
        assert_eq!(read, expected, "{text}");
    }
}

#[test]
fn epochs() {
    let end = |text: &str| epoch(text.as_bytes(), 0).map(|reading| reading.end);
    assert_eq!(end("1714979289.123456789 MX84"), Some(20));
    assert_eq!(end("1714979289 MX84"), Some(10));
    for text in [
        "1714979289",
        "171497928 x",
        "17149792899 x",
        "9714979289 x",
        "1714979289x",
    ] {
        assert_eq!(end(text), None, "{text}");
    }
}

#[test]
fn days_agree_with_the_calendar() {
    for day in (-200_000..200_000).step_by(97) {
        let date = jiff::civil::date(1970, 1, 1)
            .checked_add(jiff::Span::new().days(day))
            .unwrap();
        let (year, month) = (i64::from(date.year()), i64::from(date.month()));
        assert_eq!(
            day_number(year, month, i64::from(date.day())),
            Some(day),
            "{date}"
        );
        assert_eq!(year_of(day), year, "{date}");
    }
    assert_eq!(day_number(1900, 2, 29), None);
    assert_eq!(day_number(2000, 2, 29), Some(11_016));
}

/// The instant that a clock in `zone` is taken to mean: of a time that occurs twice the closest to
/// the receive time, and one that is skipped as before the change; and true if it occurs twice.
fn meant(shown: DateTime, zone: &TimeZone, received: i64) -> (i64, bool) {
    let instant = zone.to_ambiguous_timestamp(shown);
    let first = instant.earlier().unwrap().as_second();
    let second = instant.later().unwrap().as_second();
    if !matches!(instant.offset(), AmbiguousOffset::Fold { .. }) {
        return (instant.compatible().unwrap().as_second(), false);
    }
    let closest = [first, second]
        .into_iter()
        .min_by_key(|time| (time - received).abs());
    (closest.unwrap(), true)
}

/// Half a year less two days, in seconds: further off another year is closer, by a clock up to a
/// day away from UTC.
const SKEW_MAX: i64 = 180 * DAY_SECONDS;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    /// Whatever a sender's clock shows is read back, without a year and without a zone, over leap
    /// days, New Year in both directions and changes of the clocks, by a clock that is off by up to
    /// half a year.
    #[test]
    fn what_a_clock_shows_is_read_back(
        instant in instants(),
        after_change in prop::option::of(-7200_i64..7200),
        skew in prop_oneof![-300_i64..300, -SKEW_MAX..SKEW_MAX],
        index in 0..ZONES.len(),
    ) {
        let zone = TimeZone::get(ZONES[index]).unwrap();
        let any = jiff::Timestamp::from_second(instant).unwrap();
        let instant = match (zone.following(any).next(), after_change) {
            (Some(change), Some(after)) => change.timestamp().as_second() + after,
            _ => instant,
        };
        let shown = zone.to_datetime(jiff::Timestamp::from_second(instant).unwrap());
        let received = instant + skew;
        let mut clock = TimestampParser::new(Zone::named(ZONES[index]).unwrap());
        let (wanted, twice) = meant(shown, &zone, received);
        let wanted = jiff::Timestamp::from_second(wanted).unwrap().to_string();
        for (format, odd) in [
            ("%b %e %H:%M:%S", ASSUMED),
            ("%b %e %Y %H:%M:%S", "zone_assumed"),
            ("%Y-%m-%dT%H:%M:%S", "zone_assumed"),
        ] {
            let text = shown.strftime(format).to_string();
            let odd = if twice { format!("{odd} hour_assumed") } else { odd.to_owned() };
            let wanted = Some((wanted.clone(), odd));
            prop_assert_eq!(read_at(&mut clock, &text, received), wanted, "{}", text);
        }
    }

    /// A local time that the clocks skip or show twice is never read as one further off than the
    /// change is wide.
    #[test]
    fn gaps_and_folds_move_a_time_by_no_more_than_the_change(
        instant in instants(),
        index in 0..ZONES.len(),
    ) {
        let zone = TimeZone::get(ZONES[index]).unwrap();
        let around = jiff::Timestamp::from_second(instant).unwrap();
        let Some(change) = zone.following(around).next() else {
            return Ok(());
        };
        let turn = change.timestamp().as_second();
        let before = jiff::Timestamp::from_second(turn - 1).unwrap();
        let (old, new) = (zone.to_offset(before).seconds(), change.offset().seconds());
        let width = i64::from((new - old).abs());
        let mut clock = TimestampParser::new(Zone::named(ZONES[index]).unwrap());
        for second in (-width - 60..width + 60).step_by(61) {
            let local = turn + i64::from(old) + second;
            let text = Offset::UTC.to_datetime(jiff::Timestamp::from_second(local).unwrap());
            let text = text.strftime("%Y-%m-%dT%H:%M:%S").to_string();
            let reading = clock.read(text.as_bytes(), 0, at(turn)).unwrap();
            let mut record = Record::unparsed(Span::EMPTY, at(turn), 0, Anomalies::NONE);
            clock.settle(&reading, &mut record);
            let read = record.event_time.0 / SECOND_NS;
            prop_assert!((read - (turn + second)).abs() <= width, "{} in {}", text, ZONES[index]);
        }
    }

    /// No event is further from its receive time than was allowed, unless it says so.
    #[test]
    fn no_time_is_far_off_unmarked(
        instant in instants(),
        received in instants(),
        most in 1_i64..400 * DAY_SECONDS,
    ) {
        let shown = Offset::UTC.to_datetime(jiff::Timestamp::from_second(instant).unwrap());
        for format in ["%b %e %H:%M:%S", "%Y-%m-%dT%H:%M:%SZ"] {
            let text = shown.strftime(format).to_string();
            let mut clock = TimestampParser::new(Zone::utc());
            let reading = clock.read(text.as_bytes(), 0, at(received)).unwrap();
            let mut record = Record::unparsed(Span::EMPTY, at(received), 0, Anomalies::NONE);
            clock.settle(&reading, &mut record);
            let far = (record.event_time.0 - record.received.0).abs() > most * SECOND_NS;
            prop_assert_eq!(record.flag_skew((most * SECOND_NS) as u64), far);
            prop_assert_eq!(record.anomalies.contains(Anomalies::TIME_SKEWED), far);
        }
    }
}

#[test]
fn an_event_without_a_time_is_not_far_off() {
    let mut record = Record::unparsed(Span::EMPTY, at(RECEIVED), 0, Anomalies::NONE);
    assert!(!record.flag_skew(0));
    record.event_time = at(RECEIVED);
    assert!(!record.flag_skew(0));
    record.event_time = Timestamp(i64::MIN + 1);
    assert!(record.flag_skew(SECOND_NS as u64) && !record.flag_skew(u64::MAX));
}
