//! Reads vendor packs from YAML, and brings those that Inrush comes with.
//!
//! The language is that of `docs/guides/packs.md`. Every mistake is named with its line, its column
//! and what to do; all of a file's at once.
#![forbid(unsafe_code)]

mod branch;
mod field;
mod group;
mod rule;
mod sample;
mod schema;
mod step;

use std::collections::BTreeMap;

pub use branch::event_text;
use inrush_classify::Pack;
use inrush_yaml::{FileProblems, Findings};
pub use schema::schema;

/// Options of the configuration that packs ask for, by name.
pub type PackOptionMap = BTreeMap<String, String>;

/// The packs that Inrush comes with: names and texts, in the order in which they are asked.
pub const BUILTIN: &[(&str, &str)] = &include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// Reads a pack; `file` is what problems call it.
///
/// # Errors
/// Everything that is wrong with it.
pub fn read(file: &str, text: &str, options: &PackOptionMap) -> Result<Pack, FileProblems> {
    let mut findings = Findings::default();
    let pack = inrush_yaml::read_plain(text, &mut findings)
        .and_then(|root| rule::pack(&root, options, &mut findings));
    match pack {
        Some(mut pack) => {
            pack.file = file.to_owned();
            findings.into_result(file).map(|()| pack)
        }
        None => Err(findings.into_problems(file)),
    }
}

/// The packs that Inrush comes with, read with these options.
///
/// # Errors
/// None: they are tested.
pub fn builtin(options: &PackOptionMap) -> Result<Vec<Pack>, FileProblems> {
    let files = BUILTIN.iter();
    let pack = |(file, text): &(&str, &str)| {
        Ok(Pack {
            builtin: true,
            ..read(file, text, options)?
        })
    };
    files.map(pack).collect()
}
