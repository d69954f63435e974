//! The send time as it is written into messages: digits for the marker, text for the header.
//!
//! Formatting a date costs about a microsecond, so it is done when the second changes; between,
//! only digits are patched.

use jiff::{Timestamp, tz::TimeZone};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::args::SyslogProto;

/// Digits of nanoseconds since 1970; enough until 2286.
pub(crate) const NS_DIGITS: usize = 19;

/// Offset of the microseconds in `2025-11-21T21:23:01.123456Z`.
const MICROS_AT: usize = 20;

/// The present moment in the forms that messages carry.
pub(crate) struct MessageClock {
    proto: SyslogProto,
    zone: TimeZone,
    /// Lag of the header's time behind the present.
    behind: Duration,
    second: u64,
    header: Vec<u8>,
    digits: [u8; NS_DIGITS],
}

impl MessageClock {
    /// A clock that shows the present, for headers of `proto`.
    pub(crate) fn new(proto: SyslogProto) -> Self {
        let mut clock = Self {
            proto,
            zone: TimeZone::system(),
            behind: Duration::ZERO,
            second: u64::MAX,
            header: Vec::new(),
            digits: [b'0'; NS_DIGITS],
        };
        clock.tick();
        clock
    }

    /// Reads the time.
    pub(crate) fn tick(&mut self) {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        self.set(since);
    }

    /// From now on the header's time lies so far behind the present; that of the marker does not.
    pub(crate) fn set_behind(&mut self, behind: Duration) {
        self.behind = behind;
    }

    fn set(&mut self, since: Duration) {
        let header = since.saturating_sub(self.behind);
        if header.as_secs() != self.second {
            self.second = header.as_secs();
            self.header = header_time(self.proto, self.second, &self.zone).into_bytes();
        }
        if self.proto != SyslogProto::Rfc3164 {
            put_digits(
                &mut self.header[MICROS_AT..MICROS_AT + 6],
                header.subsec_micros().into(),
            );
        }
        put_digits(
            &mut self.digits,
            u64::try_from(since.as_nanos()).unwrap_or(u64::MAX),
        );
    }

    /// The time as the header has it; its length never changes.
    pub(crate) fn header(&self) -> &[u8] {
        &self.header
    }

    /// Nanoseconds since 1970 in decimal.
    pub(crate) fn digits(&self) -> &[u8; NS_DIGITS] {
        &self.digits
    }
}

fn header_time(proto: SyslogProto, second: u64, zone: &TimeZone) -> String {
    let at = Timestamp::from_second(i64::try_from(second).unwrap_or(0)).unwrap_or_default();
    match proto {
        SyslogProto::Rfc3164 => at
            .to_zoned(zone.clone())
            .strftime("%b %e %H:%M:%S")
            .to_string(),
        SyslogProto::Rfc5424 => at.strftime("%Y-%m-%dT%H:%M:%S.000000Z").to_string(),
        SyslogProto::Rfc3164Iso => at.strftime("%Y-%m-%dT%H:%M:%S.000000+00:00").to_string(),
    }
}

/// Writes `number` right-aligned with leading zeros; digits that do not fit are left out.
pub(crate) fn put_digits(field: &mut [u8], mut number: u64) {
    for digit in field.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_times_have_one_length_each() {
        let utc = TimeZone::UTC;
        let time = |proto, second| header_time(proto, second, &utc);
        assert_eq!(time(SyslogProto::Rfc3164, 1_762_000_000), "Nov  1 12:26:40");
        assert_eq!(
            time(SyslogProto::Rfc5424, 1_762_000_000),
            "2025-11-01T12:26:40.000000Z"
        );
        assert_eq!(
            time(SyslogProto::Rfc3164Iso, 0),
            "1970-01-01T00:00:00.000000+00:00"
        );
    }

    #[test]
    fn digits_are_patched_between_seconds() {
        let mut clock = MessageClock::new(SyslogProto::Rfc5424);
        clock.set(Duration::new(1_762_000_000, 1_234_567));
        assert_eq!(clock.header(), b"2025-11-01T12:26:40.001234Z");
        assert_eq!(clock.digits(), b"1762000000001234567");
        clock.set(Duration::new(1_762_000_000, 999_999_999));
        assert_eq!(clock.header(), b"2025-11-01T12:26:40.999999Z");
    }

    #[test]
    fn only_the_headers_time_lies_behind() {
        let mut clock = MessageClock::new(SyslogProto::Rfc5424);
        clock.set_behind(Duration::from_millis(3_600_001));
        clock.set(Duration::new(1_762_000_000, 1_234_567));
        assert_eq!(clock.header(), b"2025-11-01T11:26:40.000234Z");
        assert_eq!(clock.digits(), b"1762000000001234567");
    }
}
