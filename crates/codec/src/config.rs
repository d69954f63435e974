//! The options of a syslog source that concern its bytes: framing, length limit, times.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use inrush_event::{ByteSize, Period, limits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::charset::Charset;
use crate::syslog::Zone;

/// How a stream is cut into messages.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StreamFraming {
    /// Octet counting where a message starts with a count and a space, newlines elsewhere;
    /// decided message by message.
    #[default]
    Auto,
    /// A message ends with LF, CRLF or NUL (RFC 6587 section 3.4.2). A NUL inside a line is text
    /// if the connection ends its lines with LF and begins them with `<PRI>`.
    Newline,
    /// A message follows its length in bytes and a space (RFC 6587 section 3.4.1, RFC 5425).
    OctetCounting,
}

/// How the bytes of a syslog source are read.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SyslogOptions {
    /// How a TCP or TLS stream is cut into messages. A datagram is always one message.
    pub framing: StreamFraming,
    /// Bytes of a message that are kept. The rest of a longer one is cut; the event
    /// is flagged `oversize` and the bytes are counted.
    #[schemars(extend(
        "minimum" = limits::MESSAGE_BYTES_MIN,
        "maximum" = limits::MESSAGE_BYTES_MAX
    ))]
    pub max_message_bytes: ByteSize,
    /// Time zone of timestamps that carry none: an IANA name such as `Europe/Berlin`, `local`
    /// for the zone of this host, or an offset such as `+02:00`.
    #[schemars(extend("format" = "timezone", "examples" = ["UTC", "Europe/Berlin", "local", "+02:00"]))]
    pub timezone: String,
    /// Whether the zone of timestamps that carry none is guessed for each sender, an address with a
    /// host name, from when its events come. `timezone` holds until there is a guess, and for
    /// senders that it fits. See the guide to times.
    pub guess_timezone: bool,
    /// How far the time of an event may be from the time at which it was received. The event is
    /// kept as it is, flagged `time_skewed` and counted. `0s`: it may be anything.
    pub max_time_skew: Period,
    /// Encoding of messages that are not UTF-8, such as `windows-1252`, `iso-8859-15`,
    /// `shift_jis`, `gb18030` or `utf-16`: they are converted to UTF-8 and flagged `converted`.
    /// Without it, and where a message is not valid in it, the event is flagged `not_utf8` and
    /// `raw_base64` keeps its bytes. UTF-16 needs UDP or octet counting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Charset>,
}

/// More than any zone is from UTC, so that a missing zone alone, which has a flag of its own, does
/// not count, and more than a night without a network; less than a clock is off that was never set.
const TIME_SKEW_DEFAULT: Period = Period(Duration::from_secs(24 * 60 * 60));

impl Default for SyslogOptions {
    fn default() -> Self {
        Self {
            framing: StreamFraming::Auto,
            max_message_bytes: ByteSize(limits::MESSAGE_BYTES_DEFAULT as u64),
            timezone: "UTC".to_owned(),
            guess_timezone: false,
            max_time_skew: TIME_SKEW_DEFAULT,
            encoding: None,
        }
    }
}

impl SyslogOptions {
    /// Checks that every option can be used.
    ///
    /// # Errors
    /// The first option that cannot, and why. The configuration is at fault.
    pub fn validate(&self) -> Result<(), OptionsError> {
        let range = limits::MESSAGE_BYTES_MIN as u64..=limits::MESSAGE_BYTES_MAX as u64;
        if !range.contains(&self.max_message_bytes.0) {
            let (least, most) = (ByteSize(*range.start()), ByteSize(*range.end()));
            return Err(OptionsError {
                key: "max_message_bytes",
                problem: Cow::Owned(format!(
                    "{} is out of range; it can be {least} to {most}",
                    self.max_message_bytes
                )),
            });
        }
        self.zone().map(|_| ())
    }

    /// [`Self::max_message_bytes`] for a decoder, held within its bounds.
    pub fn message_bytes_max(&self) -> usize {
        let (least, most) = (limits::MESSAGE_BYTES_MIN, limits::MESSAGE_BYTES_MAX);
        usize::try_from(self.max_message_bytes.0)
            .unwrap_or(most)
            .clamp(least, most)
    }

    /// [`Self::max_time_skew`] in nanoseconds, for [`inrush_event::Record::flag_skew`].
    pub fn time_skew_ns_max(&self) -> u64 {
        match self.max_time_skew.0 {
            Duration::ZERO => u64::MAX,
            most => u64::try_from(most.as_nanos()).unwrap_or(u64::MAX),
        }
    }

    /// The zone that [`Self::timezone`] names.
    ///
    /// # Errors
    /// The name is not a zone that this host knows. The configuration is at fault.
    pub fn zone(&self) -> Result<Zone, OptionsError> {
        Zone::named(&self.timezone).map_err(|error| OptionsError {
            key: "timezone",
            problem: Cow::Owned(error.to_string()),
        })
    }
}

/// An option that cannot be used: the key, and what to write instead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OptionsError {
    /// The key in [`SyslogOptions`].
    pub key: &'static str,
    /// Error in its value, and what would be right.
    pub problem: Cow<'static, str>,
}

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.key, self.problem)
    }
}

impl std::error::Error for OptionsError {}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_default_is_usable_and_an_empty_document_gives_it() {
        let options: SyslogOptions = serde_json::from_str("{}").unwrap();
        assert_eq!(options, SyslogOptions::default());
        assert_eq!(options.validate(), Ok(()));
        assert_eq!(options.max_message_bytes, ByteSize(65536));
    }

    #[test]
    fn unknown_keys_and_values_are_errors() {
        for text in [r#"{"frame":"auto"}"#, r#"{"framing":"lines"}"#] {
            assert!(
                serde_json::from_str::<SyslogOptions>(text).is_err(),
                "{text}"
            );
        }
        let text = r#"{"framing":"octet_counting","max_message_bytes":"8KiB"}"#;
        let options: SyslogOptions = serde_json::from_str(text).unwrap();
        assert_eq!(
            (options.framing, options.message_bytes_max()),
            (StreamFraming::OctetCounting, 8192)
        );
    }

    #[test]
    fn the_limit_and_the_zone_are_checked() {
        for bytes in [0, 479, 1024 * 1024 + 1, u64::MAX] {
            let max_message_bytes = ByteSize(bytes);
            let options = SyslogOptions {
                max_message_bytes,
                ..SyslogOptions::default()
            };
            assert_eq!(
                options.validate().unwrap_err().key,
                "max_message_bytes",
                "{bytes}"
            );
        }
        let options = SyslogOptions {
            timezone: "Mars/Olympus".into(),
            ..SyslogOptions::default()
        };
        let error = options.validate().unwrap_err();
        assert_eq!(error.key, "timezone");
        assert!(error.to_string().contains("Mars/Olympus"), "{error}");
    }

    #[test]
    fn the_schema_names_the_format_of_a_zone() {
        let schema = serde_json::to_value(schemars::schema_for!(SyslogOptions)).unwrap();
        assert_eq!(schema["properties"]["timezone"]["format"], "timezone");
        assert_eq!(schema["additionalProperties"], false);
    }
}
