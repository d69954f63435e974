//! The options of a destination, by its `type`.

use inrush_event::DestinationQueue;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::blackhole::BlackholeConfig;
use crate::file::FileConfig;
use crate::splunk_hec::SplunkHecConfig;
use crate::stdout::StdoutConfig;
use crate::store::StoreConfig;

/// One destination.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum SinkConfig {
    /// Takes every event and forgets it.
    Blackhole(BlackholeConfig),
    /// Appends events to files.
    File(FileConfig),
    /// Writes JSON lines to standard output.
    Stdout(StdoutConfig),
    /// Sends events to Splunk's HTTP Event Collector, or to anything that speaks it.
    SplunkHec(Box<SplunkHecConfig>),
    /// Keeps events in the embedded store, where they can be searched.
    Store(StoreConfig),
}

impl SinkConfig {
    /// The limits of its backlog in the queue.
    pub fn queue(&self) -> DestinationQueue {
        match self {
            Self::Blackhole(options) => options.queue,
            Self::File(options) => options.queue,
            Self::Stdout(options) => options.queue,
            Self::SplunkHec(options) => options.queue,
            Self::Store(options) => options.queue,
        }
    }

    /// Takes over the limits of another's backlog: they can change while it runs.
    pub fn set_queue(&mut self, queue: DestinationQueue) {
        match self {
            Self::Blackhole(options) => options.queue = queue,
            Self::File(options) => options.queue = queue,
            Self::Stdout(options) => options.queue = queue,
            Self::SplunkHec(options) => options.queue = queue,
            Self::Store(options) => options.queue = queue,
        }
    }

    /// The `type` in the configuration.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Blackhole(_) => "blackhole",
            Self::File(_) => "file",
            Self::Stdout(_) => "stdout",
            Self::SplunkHec(_) => "splunk_hec",
            Self::Store(_) => "store",
        }
    }
}

/// Something in a destination's options that cannot work.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SinkProblem {
    /// Path of the option, from the destination down: `endpoints[1]`, `batch.max_bytes`.
    pub key: String,
    /// Message for the operator: what is wrong and what to write instead.
    pub message: String,
}

impl SinkProblem {
    pub(crate) fn new(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            message: message.into(),
        }
    }
}

impl std::fmt::Display for SinkProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.key, self.message)
    }
}

/// Everything in the options that cannot work, without touching the world.
pub fn validate(config: &SinkConfig) -> Vec<SinkProblem> {
    match config {
        SinkConfig::Blackhole(_) | SinkConfig::Stdout(_) => Vec::new(),
        SinkConfig::File(options) => options.problems(),
        SinkConfig::SplunkHec(options) => options.problems(),
        SinkConfig::Store(options) => options.problems(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_knows_every_type_and_describes_every_option() {
        let schema = schemars::schema_for!(SinkConfig).to_value();
        let types = schema["oneOf"].as_array().cloned().unwrap_or_default();
        let kinds: Vec<_> = types
            .iter()
            .map(|t| t["properties"]["type"]["const"].clone())
            .collect();
        assert_eq!(
            kinds,
            ["blackhole", "file", "stdout", "splunk_hec", "store"]
        );
        let options = types
            .iter()
            .filter_map(|t| t["properties"].as_object())
            .flatten();
        let undescribed: Vec<_> = options
            .filter(|(name, option)| *name != "type" && !option["description"].is_string())
            .collect();
        assert!(undescribed.is_empty(), "{undescribed:?}");
    }
}
