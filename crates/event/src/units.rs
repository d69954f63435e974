//! Units of the configuration: [`ByteSize`], [`Period`], [`Secret`] and [`AutoCount`].
//!
//! # What it guarantees
//! * A bad size or duration is a [`UnitError`] with the text itself and an example of a valid one.
//! * A [`ByteSize`] prints its exact bytes, in a form that it reads back. A [`Period`] prints whole
//!   milliseconds and omits finer parts.
//! * A [`Secret`] prints and serializes as `***`; only [`Secret::expose`] returns its text.
//!
//! # Limits
//! A size has 64 bits, and a day has 24 hours. [`AutoCount`] accepts 1 to `AUTO_COUNT_MAX` in a
//! configuration; [`AutoCount::of`] does not check that bound.

use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroU16;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Error in a unit: said to the operator as it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnitError(String);

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UnitError {}

/// A number of bytes: `65536`, `64KiB`, `4MB`, `1.5 GiB`. `K`, `M`, `G`, `T` alone are binary.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct ByteSize(pub u64);

impl FromStr for ByteSize {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let text = text.trim();
        let bad = || {
            UnitError(format!(
                "`{text}` is not a size; write for example 64KiB or 4MB"
            ))
        };
        let digits = text
            .find(|c: char| !(c.is_ascii_digit() || c == '.'))
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "kb" => 1000,
            "mb" => 1000 * 1000,
            "gb" => 1000 * 1000 * 1000,
            "tb" => 1000 * 1000 * 1000 * 1000,
            "k" | "kib" => 1 << 10,
            "m" | "mib" => 1 << 20,
            "g" | "gib" => 1 << 30,
            "t" | "tib" => 1 << 40,
            _ => return Err(bad()),
        };
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(factor).map(Self).ok_or_else(bad);
        }
        let part: f64 = number.parse().map_err(|_| bad())?;
        let bytes = part * factor as f64;
        if bytes.is_finite() && bytes < u64::MAX as f64 {
            Ok(Self(bytes as u64))
        } else {
            Err(bad())
        }
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (shift, unit) in [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")] {
            if self.0 >= 1 << shift && self.0.trailing_zeros() >= shift {
                return write!(f, "{}{unit}", self.0 >> shift);
            }
        }
        write!(f, "{}", self.0)
    }
}

/// A length of time: `300ms`, `5s`, `10m`, `1h 30m`, `7d`; a bare number is seconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Period(pub Duration);

impl FromStr for Period {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let text = text.trim();
        if let Ok(seconds) = text.parse::<u64>() {
            return Ok(Self(Duration::from_secs(seconds)));
        }
        let bad = || {
            UnitError(format!(
                "`{text}` is not a duration; write for example 300ms, 5s or 10m"
            ))
        };
        // jiff's friendly format knows hours at most in a SignedDuration; days are 24 h here.
        if let Some(days) = text
            .strip_suffix('d')
            .and_then(|n| n.trim().parse::<u64>().ok())
        {
            let seconds = days.checked_mul(86_400).ok_or_else(bad)?;
            return Ok(Self(Duration::from_secs(seconds)));
        }
        let signed: jiff::SignedDuration = text.parse().map_err(|_| bad())?;
        Duration::try_from(signed).map(Self).map_err(|_| bad())
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.0.as_millis();
        for (unit_ms, unit) in [
            (86_400_000, "d"),
            (3_600_000, "h"),
            (60_000, "m"),
            (1000, "s"),
        ] {
            if ms >= unit_ms && ms.is_multiple_of(unit_ms) {
                return write!(f, "{}{unit}", ms / unit_ms);
            }
        }
        write!(f, "{ms}ms")
    }
}

/// Text that is never printed: a token, a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself, for the one place that sends or compares it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("***")
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self)
    }
}

impl JsonSchema for Secret {
    fn schema_name() -> Cow<'static, str> {
        "Secret".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "password" })
    }
}

/// Has an option that is written as a text be read by its [`FromStr`](std::str::FromStr) and shown
/// by its [`Display`](std::fmt::Display). Its schema carries a `format`, by which the configuration
/// checker finds the parser. Who calls it needs `serde` and `schemars`.
#[macro_export]
macro_rules! text_option {
    ($option:ident $format:literal $examples:tt) => {
        impl ::serde::Serialize for $option {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $option {
            fn deserialize<D>(deserializer: D) -> Result<Self, D::Error>
            where
                D: ::serde::Deserializer<'de>,
            {
                let text = ::std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(::serde::de::Error::custom)
            }
        }

        impl ::schemars::JsonSchema for $option {
            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                stringify!($option).into()
            }

            fn json_schema(_: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                ::schemars::json_schema!({
                    "type": "string",
                    "format": $format,
                    "examples": $examples
                })
            }
        }
    };
}

/// A unit is written as a string or a bare number; its schema carries a `format` by which the
/// configuration checker finds the parser.
macro_rules! unit_serde {
    ($unit:ident $format:literal $example:literal) => {
        impl Serialize for $unit {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $unit {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Visitor;
                impl de::Visitor<'_> for Visitor {
                    type Value = $unit;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str(concat!("a ", $format, " such as ", $example))
                    }
                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$unit, E> {
                        text.parse().map_err(E::custom)
                    }
                    fn visit_u64<E: de::Error>(self, number: u64) -> Result<$unit, E> {
                        number.to_string().parse().map_err(E::custom)
                    }
                    fn visit_i64<E: de::Error>(self, number: i64) -> Result<$unit, E> {
                        number.to_string().parse().map_err(E::custom)
                    }
                }
                deserializer.deserialize_any(Visitor)
            }
        }

        impl JsonSchema for $unit {
            fn schema_name() -> Cow<'static, str> {
                stringify!($unit).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "type": ["string", "integer"],
                    "format": $format,
                    "examples": [$example]
                })
            }
        }
    };
}

unit_serde!(ByteSize "size" "64KiB");
unit_serde!(Period "duration" "5s");

/// A count of something in the configuration: `auto` or a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AutoCount {
    /// As many as it takes.
    #[default]
    Auto,
    /// This many.
    Count(NonZeroU16),
}

impl AutoCount {
    /// This many; `auto` for 0.
    pub fn of(number: u16) -> Self {
        NonZeroU16::new(number).map_or(Self::Auto, Self::Count)
    }
}

impl Serialize for AutoCount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::Count(n) => serializer.serialize_u16(n.get()),
        }
    }
}

impl<'de> Deserialize<'de> for AutoCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = AutoCount;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "`auto` or a number from 1 to {AUTO_COUNT_MAX}")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<AutoCount, E> {
                match text.parse() {
                    Ok(number) => self.visit_u64(number),
                    Err(_) if text == "auto" => Ok(AutoCount::Auto),
                    Err(_) => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<AutoCount, E> {
                let count = u16::try_from(number).ok().filter(|n| *n <= AUTO_COUNT_MAX);
                count
                    .and_then(NonZeroU16::new)
                    .map(AutoCount::Count)
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Unsigned(number), &self))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for AutoCount {
    fn schema_name() -> Cow<'static, str> {
        "AutoCount".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                { "const": "auto" },
                { "type": "integer", "minimum": 1, "maximum": AUTO_COUNT_MAX }
            ]
        })
    }
}

/// The largest number: more threads or sockets than there are cores on any machine we know cost
/// memory and gain nothing.
const AUTO_COUNT_MAX: u16 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("0", 0),
            ("65536", 65536),
            ("64KiB", 65536),
            ("64k", 65536),
            ("4MB", 4_000_000),
            ("1.5 GiB", 3 << 29),
        ] {
            assert_eq!(text.parse::<ByteSize>(), Ok(ByteSize(bytes)), "{text}");
        }
        for text in ["", "-1", "64 apples", "99999999999TiB", "1.2.3M"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
        assert_eq!(ByteSize(65536).to_string(), "64KiB");
    }

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, ms) in [
            ("300ms", 300),
            ("5s", 5000),
            ("10m", 600_000),
            ("1h 30m", 5_400_000),
            ("7d", 604_800_000),
            ("2", 2000),
        ] {
            assert_eq!(
                text.parse::<Period>(),
                Ok(Period(Duration::from_millis(ms))),
                "{text}"
            );
        }
        for text in ["", "-5s", "soon", "999999999999999999999d"] {
            assert!(text.parse::<Period>().is_err(), "{text}");
        }
        assert_eq!(Period(Duration::from_secs(90)).to_string(), "90s");
    }

    #[test]
    fn a_secret_is_never_printed() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret} {secret:?}"), "*** ***");
        assert_eq!(secret.expose(), "hunter2");
    }
}
