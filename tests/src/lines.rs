//! Files of JSON lines.

use std::path::Path;

use serde_json::Value;

/// Every line of the file, which may not exist yet.
///
/// # Panics
/// On a line that is no JSON: a torn line is a bug.
pub fn json_lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        text.is_empty() || text.ends_with('\n'),
        "the last line is torn: {}",
        path.display()
    );
    let parse = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line:?}"));
    text.lines().map(parse).collect()
}

/// One field of every event, as text.
pub fn field(events: &[Value], name: &str) -> Vec<String> {
    events
        .iter()
        .map(|event| event[name].as_str().unwrap_or_default().to_owned())
        .collect()
}

/// The same in order, for comparing sets.
pub fn sorted(mut texts: Vec<String>) -> Vec<String> {
    texts.sort_unstable();
    texts
}
