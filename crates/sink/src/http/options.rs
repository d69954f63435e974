//! Options that all destinations over HTTP have in common. Their doc comments are on the reference
//! page.

use std::borrow::Cow;
use std::path::PathBuf;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// How request bodies are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HttpCompression {
    /// Not at all.
    #[default]
    None,
    /// gzip: a third to a tenth of the network for several times the CPU.
    Gzip,
    /// gzip while it makes requests faster, that is while the link is slower than a core
    /// compresses. Some bodies of both kinds are sent and their times compared, at first and every
    /// 10 s to 5 min.
    Auto,
}

/// Level of gzip, from 1, the fastest, to 12, the smallest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct GzipLevel(pub(crate) u8);

impl Default for GzipLevel {
    fn default() -> Self {
        Self(1)
    }
}

impl JsonSchema for GzipLevel {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "GzipLevel".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": 1, "maximum": 12 })
    }
}

impl TryFrom<u8> for GzipLevel {
    type Error = String;

    fn try_from(level: u8) -> Result<Self, String> {
        match level {
            1..=12 => Ok(Self(level)),
            _ => Err(format!(
                "`{level}` is no level of gzip; give one from 1 to 12"
            )),
        }
    }
}

impl From<GzipLevel> for u8 {
    fn from(level: GzipLevel) -> Self {
        level.0
    }
}

/// TLS towards a collector.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HttpTlsOptions {
    /// PEM file of the authorities to trust, in place of the system's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// PEM file of our own certificate chain, where the collector asks for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert_file: Option<PathBuf>,
    /// PEM file of its key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
    /// Whether the collector's certificate is checked. Without it anybody on the way can read the
    /// token and the events.
    pub verify: bool,
}

impl Default for HttpTlsOptions {
    fn default() -> Self {
        Self {
            ca_file: None,
            cert_file: None,
            key_file: None,
            verify: true,
        }
    }
}
