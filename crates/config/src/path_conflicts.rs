//! Destinations that would write to one place.

use std::path::{Component, Path, PathBuf};

use inrush_sink::SinkConfig;
use inrush_yaml::{Findings, Location, YamlNode};

use super::options::Config;
use super::place::place;

/// Two stores, or two files, in one place take each other's events apart.
pub(super) fn check(config: &Config, root: &YamlNode, findings: &mut Findings) {
    let mut stores: Vec<(&str, PathBuf)> = Vec::new();
    let mut files: Vec<(&str, PathBuf)> = Vec::new();
    for (name, destination) in &config.destinations {
        let node = root.get("destinations").and_then(|node| node.get(name));
        let at = || node.map_or(Location::START, |node| place(node, "path"));
        match destination {
            SinkConfig::Store(store) => {
                let path = plain(&config.data_dir, &store.path);
                let near = |other: &Path| path.starts_with(other) || other.starts_with(&path);
                if let Some((owner, _)) = stores.iter().find(|(_, other)| near(other)) {
                    let words = format!(
                        "`path` of `{name}` and of `{owner}` lead to one folder ({}), and a store \
                         has one writer; give each a folder of its own",
                        path.display()
                    );
                    findings.add(at(), words);
                }
                stores.push((name, path));
            }
            SinkConfig::File(file) => {
                let path = plain(&config.data_dir, &file.path);
                if let Some((owner, _)) = files.iter().find(|(_, other)| *other == path) {
                    let words = format!(
                        "`path` of `{name}` and of `{owner}` name one file ({}); give each a file \
                         of its own",
                        path.display()
                    );
                    findings.add(at(), words);
                }
                files.push((name, path));
            }
            _ => {}
        }
    }
}

/// A path without detours, a relative one below the data folder; links are followed where they lead
/// somewhere already.
fn plain(data_dir: &Path, path: &str) -> PathBuf {
    if path.contains("://") {
        return PathBuf::from(path.trim_end_matches('/'));
    }
    let mut plain = PathBuf::new();
    for part in data_dir.join(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if plain.file_name().is_some() => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain.canonicalize().unwrap_or(plain)
}
