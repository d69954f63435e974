//! Options that all destinations over HTTP have in common. Their doc comments are on the reference
//! page.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How request bodies are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HttpCompression {
    /// Not at all.
    #[default]
    None,
    /// gzip at its fastest level: a tenth of the network for several times the CPU.
    Gzip,
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
