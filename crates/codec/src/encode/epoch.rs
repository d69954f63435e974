//! Times as text. All events of a batch share a second or two, so an encoder keeps the rendered
//! second and adds the fraction.

use std::io::Write;
use std::net::IpAddr;

use inrush_event::Timestamp;

const NS_PER_SECOND: i64 = 1_000_000_000;
const NS_PER_MS: u32 = 1_000_000;

/// A rendered second, kept until another one is asked for.
#[derive(Default, Clone)]
pub(super) struct RenderedSecond {
    second: Option<i64>,
    text: Vec<u8>,
}

impl RenderedSecond {
    /// Appends `before`, `1714979289.123` and `after`. A caller always gives the same `before`: it
    /// is kept together with the second.
    pub(super) fn push_epoch_ms<const N: usize>(
        &mut self,
        before: &[u8],
        at: Timestamp,
        after: &[u8; N],
        out: &mut Vec<u8>,
    ) {
        let (second, nanos) = split(at);
        self.render(second, |second, text| {
            text.extend_from_slice(before);
            push_decimal(second, text);
        });
        out.extend_from_slice(&self.text);
        out.extend_from_slice(&fraction(nanos / NS_PER_MS, 3)[..4]);
        out.extend_from_slice(after);
    }

    /// Appends `2024-05-06T07:08:09.123Z`, with 3 or 9 decimals.
    pub(super) fn push_rfc3339(&mut self, at: Timestamp, decimals: u32, out: &mut Vec<u8>) {
        let (second, nanos) = split(at);
        self.render(second, push_civil);
        out.extend_from_slice(&self.text);
        push_fraction(nanos / 10u32.pow(9 - decimals), decimals, out);
        out.push(b'Z');
    }

    fn render(&mut self, second: i64, render: impl Fn(i64, &mut Vec<u8>)) {
        if self.second != Some(second) {
            self.second = Some(second);
            self.text.clear();
            render(second, &mut self.text);
        }
    }
}

/// Appends a time as epoch seconds with milliseconds, `1714979289.123`.
pub fn push_epoch_ms(at: Timestamp, out: &mut Vec<u8>) {
    RenderedSecond::default().push_epoch_ms(b"", at, b"", out);
}

/// Appends a time as `May 06 07:08:09` in UTC: SC4S writes the day with two digits, other than
/// RFC 3164 (section 4.1.2).
pub(super) fn push_bsd(at: Timestamp, out: &mut Vec<u8>) {
    let time = jiff::Timestamp::from_nanosecond(at.or(Timestamp(0)).0.into());
    let time = time.unwrap_or_default().to_zoned(jiff::tz::TimeZone::UTC);
    out.extend_from_slice(time.strftime("%b %d %H:%M:%S").to_string().as_bytes());
}

/// Appends a time as RFC 3339 in UTC with milliseconds, `2024-05-06T07:08:09.123Z`.
pub fn push_rfc3339_ms(at: Timestamp, out: &mut Vec<u8>) {
    RenderedSecond::default().push_rfc3339(at, 3, out);
}

/// Appends a time as RFC 3339 in UTC with nanoseconds.
pub fn push_rfc3339_ns(at: Timestamp, out: &mut Vec<u8>) {
    RenderedSecond::default().push_rfc3339(at, 9, out);
}

fn split(at: Timestamp) -> (i64, u32) {
    (
        at.0.div_euclid(NS_PER_SECOND),
        at.0.rem_euclid(NS_PER_SECOND) as u32,
    )
}

fn push_fraction(value: u32, decimals: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&fraction(value, decimals)[..=decimals as usize]);
}

/// A point and that many digits, then zeros.
fn fraction(value: u32, decimals: u32) -> [u8; 10] {
    let mut digits = *b".000000000";
    let mut left = value;
    for digit in digits[1..=decimals as usize].iter_mut().rev() {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
    }
    digits
}

/// Appends a whole number in decimal.
pub(super) fn push_decimal(value: i64, out: &mut Vec<u8>) {
    if value < 0 {
        out.push(b'-');
    }
    let mut digits = [0; 20];
    let mut first = digits.len();
    let mut left = value.unsigned_abs();
    loop {
        first -= 1;
        digits[first] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[first..]);
}

/// Appends an address. IPv4 does without `fmt`, which costs as much as the rest of an envelope.
pub(super) fn push_ip(ip: IpAddr, out: &mut Vec<u8>) {
    let IpAddr::V4(ip) = ip else {
        // Writing into a Vec cannot fail.
        let _ = write!(out, "{ip}");
        return;
    };
    for (at, octet) in ip.octets().into_iter().enumerate() {
        if at > 0 {
            out.push(b'.');
        }
        push_decimal(octet.into(), out);
    }
}

fn push_civil(second: i64, out: &mut Vec<u8>) {
    let at = jiff::Timestamp::from_second(second).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    let civil = jiff::tz::Offset::UTC.to_datetime(at);
    push_padded(civil.year().unsigned_abs(), 4, out);
    for (mark, part) in [
        (b'-', civil.month()),
        (b'-', civil.day()),
        (b'T', civil.hour()),
        (b':', civil.minute()),
        (b':', civil.second()),
    ] {
        out.push(mark);
        push_padded(u16::from(part.unsigned_abs()), 2, out);
    }
}

fn push_padded(value: u16, width: usize, out: &mut Vec<u8>) {
    let mut digits = [b'0'; 4];
    let mut left = value;
    for digit in digits[..width].iter_mut().rev() {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
    }
    out.extend_from_slice(&digits[..width]);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn addresses_are_those_of_the_standard_library() {
        for text in [
            "0.0.0.0",
            "10.9.100.255",
            "255.255.255.255",
            "::1",
            "2001:db8::7",
        ] {
            let mut out = Vec::new();
            push_ip(text.parse().unwrap(), &mut out);
            assert_eq!(out, text.as_bytes());
        }
    }
}
