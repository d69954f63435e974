//! The mode of a file as people write it.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Permissions in octal, as `chmod` takes them: `0640`, `640`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileMode(pub u32);

impl FromStr for FileMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.strip_prefix("0o").unwrap_or(text);
        let octal = (3..=4).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
        match u32::from_str_radix(digits, 8) {
            Ok(mode) if octal && mode <= 0o777 => Ok(Self(mode)),
            _ => Err(format!(
                "`{text}` is not a mode; write three octal digits, for example 0640"
            )),
        }
    }
}

impl fmt::Display for FileMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}

impl Serialize for FileMode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for FileMode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for FileMode {
    fn schema_name() -> Cow<'static, str> {
        "Mode".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "mode", "examples": ["0640"] })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn modes_are_octal_as_chmod_takes_them() {
        for text in ["640", "0640", "0o640"] {
            assert_eq!(text.parse::<FileMode>().unwrap(), FileMode(0o640), "{text}");
        }
        assert_eq!(FileMode(0o640).to_string(), "0640");
        for text in [
            "",
            "6",
            "0680",
            "4755",
            "07777",
            "rw-r-----",
            "-640",
            "+640",
        ] {
            assert!(text.parse::<FileMode>().is_err(), "{text}");
        }
    }
}
