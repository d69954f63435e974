//! Options of packs, transforms and routes. Their doc comments are the reference page, and the
//! order of fields is its order.

mod hosts;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use hosts::{DnsServer, HostsOptions, ReverseDnsOptions};

/// Options by which the events of all sources are enriched, and the folder for what is learnt.
#[derive(Clone, Copy, Debug)]
pub struct EnrichmentOptions<'a> {
    /// Packs, by which products are recognised.
    pub packs: &'a PacksOptions,
    /// Host names.
    pub hosts: &'a HostsOptions,
    /// Transforms, in their order.
    pub transforms: &'a [TransformOptions],
    /// Routes, in their order.
    pub routes: &'a [RouteOptions],
    /// Folder for what is learnt of senders.
    pub data_dir: &'a Path,
}

/// How products are recognised, by rules that come with Inrush and by your own.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PacksOptions {
    /// Recognition of events of syslog sources, and of others whose option `packs` is set. It costs
    /// between 0.2 and 3 microseconds of CPU an event, most of it for what has an unusual header.
    pub enabled: bool,
    /// Your own packs: files, or folders with `*.yaml` in them. Their rules are asked before those
    /// that come with Inrush, and one of the same name stands in for it. What is not absolute is
    /// looked for beside this file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<PathBuf>,
    /// A pack as text, for a configuration in one file; it comes first. `$$` is a dollar here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inline: Option<String>,
    /// Rules that do not count, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disable: Vec<String>,
    /// What becomes of events that no rule recognises.
    pub fallback: FallbackPolicy,
    /// Whether what a host was recognised as counts for its other events too.
    pub remember_hosts: bool,
    /// Options that rules ask for, by name: see the packs.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// What counts in place of what rules set, by `vendor_product` or `vendor_product_class`
    /// without regard to case, as in SC4S's `splunk_metadata.csv`.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub metadata: IndexMap<String, MetadataOptions>,
}

impl Default for PacksOptions {
    fn default() -> Self {
        Self {
            enabled: true,
            files: Vec::new(),
            inline: None,
            disable: Vec::new(),
            fallback: FallbackPolicy::default(),
            remember_hosts: false,
            options: BTreeMap::new(),
            metadata: IndexMap::new(),
        }
    }
}

/// What becomes of events that no rule recognises.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FallbackPolicy {
    /// They get the index and the sourcetype of their source.
    #[default]
    Source,
    /// As SC4S does: `nix:syslog` in `osnix` for what has a program, else `sc4s:fallback` in
    /// `main`.
    Sc4s,
}

/// What counts in place of what rules set.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MetadataOptions {
    /// The index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<String>,
    /// The sourcetype.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sourcetype: Option<String>,
    /// The source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The text that is sent, by the name of its template: `t_msg_only`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
}

/// Changes or filters events. Expressions are in CEL: see the guide to transforms and routes.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TransformOptions {
    /// What it is called in the ledger and in metrics; its place, as in `transforms[0]`, if not
    /// given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Which events; all if not given.
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["sourcetype == 'cisco:asa' && severity > 6"]))]
    pub condition: Option<String>,
    /// Whether they are filtered: they go nowhere, and are counted.
    pub drop: bool,
    /// What is set, each by an expression.
    pub set: SetOptions,
}

/// What a transform sets. Each value is an expression: a text stands in quotes of its own, as in
/// `index: "'netops'"`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SetOptions {
    /// The index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<String>,
    /// The sourcetype.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sourcetype: Option<String>,
    /// The source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The text behind the header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The text that is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// Indexed fields, by name. One that comes out empty is taken away.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub fields: IndexMap<String, String>,
}

/// Sends events to some of the destinations.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteOptions {
    /// What it is called in metrics; its place, as in `routes[0]`, if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Which events; all if not given. Expressions are in CEL: see the guide to transforms and
    /// routes.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["index == 'netfw'"]))]
    pub condition: Option<String>,
    /// Destinations by name.
    #[schemars(length(min = 1))]
    pub to: Vec<String>,
}
