//! Configuration with the checks of all rooms: expressions, packs, and the files that are named.
//!
//! `config` reads and resolves a file, and knows none of the rooms that use its options. Here their
//! checks are put together; every command that runs or checks a configuration begins here.

use std::path::Path;

use inrush_config::{self as config, Config, FileProblems, VariableLookup};
use inrush_ingest::classification;
use inrush_ingest::transform::{FailureCounters, TransformRules};
use inrush_yaml::{Findings, YamlNode};

/// Reads, resolves and checks the file at `path`: certificates, keys and packs that it names, and
/// the expressions in it.
///
/// # Errors
/// Everything that is wrong with it. The configuration or its environment is at fault.
pub fn load(path: &Path, env: VariableLookup<'_>) -> Result<Config, FileProblems> {
    let config = config::load_with(path, env, expressions)?;
    classification::load(&config.packs)?;
    Ok(config)
}

/// [`load`] of a text that is in no file, which names files from the current folder; `file_name`
/// is its name in problems.
///
/// # Errors
/// Everything that is wrong with it. The configuration or its environment is at fault.
pub fn load_text(
    text: &str,
    file_name: &str,
    env: VariableLookup<'_>,
) -> Result<Config, FileProblems> {
    let config = config::load_text_with(text, file_name, Path::new(""), env, expressions)?;
    classification::load(&config.packs)?;
    Ok(config)
}

/// Resolves and checks a configuration's text without a look at the files that it names;
/// `file_name` is its name in problems.
///
/// # Errors
/// Everything that is wrong with it.
pub fn parse(text: &str, file_name: &str, env: VariableLookup<'_>) -> Result<Config, FileProblems> {
    config::parse_with(text, file_name, env, expressions)
}

/// Checks the expressions of transforms and routes.
fn expressions(config: &Config, root: &YamlNode, findings: &mut Findings) {
    let failures = FailureCounters::default();
    if let Err(faults) = TransformRules::new(&config.transforms, &config.routes, &failures) {
        for (name, fault) in faults {
            findings.add(config::place(root, &name), format!("`{name}`: {fault}"));
        }
    }
}
