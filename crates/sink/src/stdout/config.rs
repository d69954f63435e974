//! The options of `stdout`: none.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Options of the `stdout` destination: it has none.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StdoutConfig {}
