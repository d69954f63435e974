//! The configuration: read, resolved, built.
//!
//! # What it guarantees
//! * **Read** touches nothing but the file. **Resolve** ([`parse`]) is a function of the text and
//!   of an environment passed in: YAML becomes a tree in which every value knows its place,
//!   `${VAR}` is filled in, and the tree is checked against the schema of the options. **Build**
//!   (`load_with`) adds what only the world knows: that certificates and keys can be read.
//! * All problems are reported at once, each as `file:line:column: what is wrong; what to do`.
//!   Unknown keys are errors and name the nearest valid one.
//! * A value of the environment cannot change the structure of the file, and no problem quotes
//!   one.
//! * One declaration for each option, in the room that uses it, gives the parser, the checks, the
//!   JSON Schema ([`schema`]) and the reference page ([`reference_markdown`]).
//!
//! # Limits
//! The file's size, its depth, and its values and text after aliases and variables are filled in
//! are bounded (`CONFIG_*` in [`inrush_event::limits`]).
//!
//! # After a crash
//! Nothing is kept.
#![forbid(unsafe_code)]

mod access;
mod certificate_files;
mod changes;
mod check;
mod clients;
mod memory;
mod options;
mod password;
mod path_conflicts;
mod place;
mod reference;
mod schema;
mod semantics;

#[cfg(test)]
mod tests;

use std::io::Read;
use std::path::Path;

use inrush_event::limits;
use inrush_yaml::{Findings, Location, YamlNode};
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use changes::{OptionChange, changes};
pub use clients::expired_lists;
pub use inrush_ingest::options::{DnsServer, HostsOptions, ReverseDnsOptions};
pub use inrush_ingest::options::{
    EnrichmentOptions, FallbackPolicy, MetadataOptions, PacksOptions, RouteOptions, SetOptions,
    TransformOptions,
};
pub use inrush_source::options::SourceOptions;
pub use inrush_source::survey::{FileSurvey, SurveyedPaths};
pub use inrush_source::syslog::options::SyslogSource;
pub use inrush_source::table::SourceConfig;
pub use inrush_yaml::{FileProblem, FileProblems, VariableLookup};
pub use memory::{MemoryPlan, memory_limit, worker_count};
pub use options::{AdminAddr, AdminOptions, Config, HealthOptions};
pub use password::{HashingError, PASSWORD_BYTES_MAX, PasswordHash, PasswordHashError};
pub use place::place;

/// The configuration that holds without a file.
pub const BUILTIN_YAML: &str = include_str!("builtin.yaml");

/// Name of the built-in configuration in problems, in place of a file name.
const BUILTIN_NAME: &str = "built-in configuration";

/// Check of a whole configuration: it is given the tree that the text was read into, for places.
pub type ConfigCheck = fn(&Config, &YamlNode, &mut Findings);

/// Reads, resolves and checks the file at `path`, and that the certificates and keys it names can
/// be used. `more` is a check of what this room does not know.
///
/// # Errors
/// Everything that is wrong with it. The configuration or its environment is at fault.
pub fn load_with(
    path: &Path,
    env: VariableLookup<'_>,
    more: ConfigCheck,
) -> Result<Config, FileProblems> {
    let name = path.display().to_string();
    let text = read(path).map_err(|(at, message)| {
        let mut findings = Findings::default();
        findings.add(at, message);
        findings.into_problems(&name)
    })?;
    load_text_with(
        &text,
        &name,
        path.parent().unwrap_or(Path::new("")),
        env,
        more,
    )
}

/// [`load_with`] of a text that is in no file; `name` is its name in problems, and `beside` the
/// folder from which it names files.
///
/// # Errors
/// Everything that is wrong with it.
pub fn load_text_with(
    text: &str,
    name: &str,
    beside: &Path,
    env: VariableLookup<'_>,
    more: ConfigCheck,
) -> Result<Config, FileProblems> {
    let mut config = resolve(text, name, env, &[more, semantics::files])?;
    // Packs are looked for beside the file that names them.
    for file in &mut config.packs.files {
        *file = beside.join(&*file);
    }
    Ok(config)
}

/// [`parse`] with one more check.
///
/// # Errors
/// Everything that is wrong with it.
pub fn parse_with(
    text: &str,
    file_name: &str,
    env: VariableLookup<'_>,
    more: ConfigCheck,
) -> Result<Config, FileProblems> {
    resolve(text, file_name, env, &[more])
}

/// Resolves and checks a configuration's text without touching the world; `file_name` is what
/// problems call it.
///
/// # Errors
/// Everything that is wrong with it.
pub fn parse(text: &str, file_name: &str, env: VariableLookup<'_>) -> Result<Config, FileProblems> {
    resolve(text, file_name, env, &[])
}

impl Config {
    /// The configuration that holds without a file, with everything it keeps under `data_dir`
    /// (`./inrush-data` if none is given).
    ///
    /// # Errors
    /// `data_dir` cannot be used in a path; the text itself is tested to be sound.
    pub fn builtin(data_dir: Option<&Path>) -> Result<Self, FileProblems> {
        let env = |name: &str| match name {
            "INRUSH_DATA_DIR" => data_dir.map(|dir| dir.display().to_string()),
            _ => None,
        };
        parse(BUILTIN_YAML, BUILTIN_NAME, &env)
    }
}

/// The JSON Schema of a configuration file, for editors.
pub fn schema() -> Value {
    schema::SCHEMA.clone()
}

/// The page with every option, from the same declarations.
pub fn reference_markdown() -> String {
    reference::markdown(&schema::SCHEMA)
}

/// The text of the file, or what is wrong with it and where.
fn read(path: &Path) -> Result<String, (Location, String)> {
    let unreadable = |error| {
        let remedy = "name a file that this user can read";
        (
            Location::START,
            format!("the configuration cannot be read: {error}; {remedy}"),
        )
    };
    let file = inrush_files::open_given(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    // One byte more than allowed tells a file that is too large from one that just fits.
    let most = limits::CONFIG_FILE_BYTES_MAX;
    file.take(most as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if bytes.len() > most {
        let message = format!("the file is larger than {most} bytes; is it a configuration?");
        return Err((Location::START, message));
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let text = String::from_utf8_lossy(&error.as_bytes()[..good]).into_owned();
        (
            Location::of_byte(&text, good),
            "not UTF-8; save the file as UTF-8 text".to_owned(),
        )
    })
}

fn resolve(
    text: &str,
    file_name: &str,
    env: VariableLookup<'_>,
    more: &[ConfigCheck],
) -> Result<Config, FileProblems> {
    let mut findings = Findings::default();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let config = build(text, env, &mut findings, more);
    match config {
        Some(config) => findings.into_result(file_name).map(|()| config),
        None => Err(findings.into_problems(file_name)),
    }
}

/// The typed configuration, or `None` after a problem was found.
fn build(
    text: &str,
    env: VariableLookup<'_>,
    findings: &mut Findings,
    more: &[ConfigCheck],
) -> Option<Config> {
    let root = inrush_yaml::read(text, env, findings)?;
    let owner = check::NamedLocation {
        name: "",
        at: Location::START,
    };
    let value = check::value(&root, &schema::SCHEMA, owner, findings)?;
    if !findings.is_empty() {
        return None;
    }
    match serde_json::from_value::<Config>(value.clone()) {
        Ok(config) => {
            semantics::check(&config, &root, findings);
            more.iter()
                .for_each(|check| check(&config, &root, findings));
            Some(config)
        }
        Err(error) => {
            blame(&value, &root, &error, findings);
            None
        }
    }
}

/// A value that the schema let pass and an option's own parser refused: finds the section it is
/// in by reading each section by itself.
fn blame(value: &Value, root: &YamlNode, error: &serde_json::Error, findings: &mut Findings) {
    fn section<T: DeserializeOwned>(
        value: &Value,
        node: Option<&YamlNode>,
        findings: &mut Findings,
    ) {
        for (name, inner) in value.as_object().into_iter().flatten() {
            let Err(error) = serde_json::from_value::<T>(inner.clone()) else {
                continue;
            };
            let at = node
                .and_then(|node| node.entry(name))
                .map_or(Location::START, |e| e.key_at);
            findings.add(at, format!("`{name}`: {}", unquoted(&error, node)));
        }
    }
    section::<SourceConfig>(&value["sources"], root.get("sources"), findings);
    section::<inrush_sink::SinkConfig>(&value["destinations"], root.get("destinations"), findings);
    if findings.is_empty() {
        findings.add(Location::START, unquoted(error, Some(root)));
    }
}

/// The error's words, without what came from the environment.
fn unquoted(error: &serde_json::Error, node: Option<&YamlNode>) -> String {
    format!(
        "{}; see the reference of this section",
        inrush_yaml::redacted(&error.to_string(), node)
    )
}
