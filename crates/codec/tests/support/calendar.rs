//! Zones and instants at which reading a time goes wrong, if it does.

use jiff::tz::TimeZone;
use proptest::prelude::*;

/// Zones with half and quarter hours, a summer time of half an hour, on either side of the equator,
/// and one that changes at midnight.
pub(crate) const ZONES: [&str; 10] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/St_Johns",
    "Australia/Lord_Howe",
    "Australia/Adelaide",
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "Pacific/Chatham",
    "America/Santiago",
];

/// Instants from 1980 to 2100 in seconds, most of them around New Year, leap days and changes of
/// the clocks.
pub(crate) fn instants() -> impl Strategy<Value = i64> {
    let any = 315_532_800_i64..4_102_444_800;
    let near = (1980_i16..2100, 0_usize..8, -200_000_i64..200_000);
    let near = near.prop_map(|(year, which, off)| {
        let days = [
            (1, 1),
            (12, 31),
            (2, 28),
            (3, 1),
            (3, 29),
            (4, 5),
            (10, 4),
            (11, 1),
        ];
        let (month, day) = days[which];
        let day = jiff::civil::date(year, month, day).to_zoned(TimeZone::UTC);
        day.expect("a day").timestamp().as_second() + off
    });
    prop_oneof![1 => any, 4 => near]
}
