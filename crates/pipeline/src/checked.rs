//! Configuration with the checks of all rooms: expressions, packs, and the files that are named.
//!
//! `config` reads and resolves a file, and knows none of the rooms that use its options. Here their
//! checks are put together; every command that runs or checks a configuration begins here.

use std::path::Path;

use inrush_yaml::{Findings, Node};

use crate::config::{self, Config, Environment, Problems};
use crate::recognise;
use crate::shape::{Failures, Shape};

/// Reads, resolves and checks the file at `path`: certificates, keys and packs that it names, and
/// the expressions in it.
///
/// # Errors
/// Everything that is wrong with it. The configuration or its environment is at fault.
pub fn load(path: &Path, env: Environment<'_>) -> Result<Config, Problems> {
    let config = config::load_with(path, env, expressions)?;
    recognise::load(&config)?;
    Ok(config)
}

/// Resolves and checks a configuration's text without a look at the files that it names;
/// `file_name` is its name in problems.
///
/// # Errors
/// Everything that is wrong with it.
pub fn parse(text: &str, file_name: &str, env: Environment<'_>) -> Result<Config, Problems> {
    config::parse_with(text, file_name, env, expressions)
}

/// Checks the expressions of transforms and routes.
fn expressions(config: &Config, root: &Node, findings: &mut Findings) {
    if let Err(faults) = Shape::new(config, &Failures::default()) {
        for (name, fault) in faults {
            findings.add(config::place(root, &name), format!("`{name}`: {fault}"));
        }
    }
}
