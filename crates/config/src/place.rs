//! Places of values in the file, for findings.

use inrush_yaml::{Location, YamlNode};

/// The place of the value at `path` (`tls.cert_file`, `endpoints[1]`) below `node`, or of the
/// innermost part of it that was written.
pub fn place(node: &YamlNode, path: &str) -> Location {
    let mut node = node;
    for step in path.split(['.', '[']) {
        let inner = match step.strip_suffix(']') {
            Some(index) => index
                .parse()
                .ok()
                .and_then(|index: usize| node.items().get(index)),
            None => node.get(step),
        };
        match inner {
            Some(inner) => node = inner,
            None => break,
        }
    }
    node.at
}
