//! Kubernetes manifests: the files in their `ConfigMap`s, and the variables of their containers.

use inrush_event::limits;
use inrush_yaml::{Findings, NodeKind, YamlNode};

/// Documents of a file that are read.
const DOCUMENTS_MAX: usize = 1_000;

/// A variable of a container.
#[derive(Clone, Debug)]
pub(crate) struct ManifestVariable {
    /// Its name.
    pub(crate) name: String,
    /// Its value; none where that is in a Secret or elsewhere.
    pub(crate) value: Option<String>,
    /// Its line.
    pub(crate) line: usize,
}

/// Contents of the manifests of one file.
#[derive(Clone, Debug, Default)]
pub(crate) struct ManifestContent {
    /// Files of all `ConfigMap`s: name and text.
    pub(crate) texts: Vec<(String, String)>,
    /// Variables of all containers.
    pub(crate) variables: Vec<ManifestVariable>,
    /// Lines at which a document cannot be read, and the reason.
    pub(crate) faults: Vec<(usize, &'static str)>,
}

/// True if a text holds Kubernetes manifests.
pub(crate) fn is_manifest(text: &str) -> bool {
    let has = |key: &str| text.lines().any(|line| line.starts_with(key));
    has("apiVersion:") && has("kind:")
}

/// Reads manifests.
pub(crate) fn read(text: &str) -> ManifestContent {
    let mut content = ManifestContent::default();
    for (number, (first, document)) in documents(text).into_iter().enumerate() {
        if number >= DOCUMENTS_MAX {
            content.faults.push((first, "more than 1,000 documents"));
            break;
        }
        match read_document(&document) {
            Ok(Some(root)) => collect(&root, first, &mut content),
            Ok(None) => {}
            Err((line, why)) => content.faults.push((first + line - 1, why)),
        }
    }
    content
}

/// Reads one document of YAML; on failure the line, from 1, and the reason, which quotes nothing.
pub(crate) fn read_document(text: &str) -> Result<Option<YamlNode>, (usize, &'static str)> {
    if text.len() > limits::CONFIG_FILE_BYTES_MAX {
        return Err((1, "a document of more than 1 MiB is not read"));
    }
    if text.contains("{{") && text.contains("}}") {
        let line = text.lines().position(|line| line.contains("{{"));
        let why = "a template is not read: give what `helm template` prints";
        return Err((line.map_or(1, |line| line + 1), why));
    }
    let mut findings = Findings::default();
    let root = inrush_yaml::read_plain(text, &mut findings);
    if findings.is_empty() {
        return Ok(root);
    }
    let problems = findings.into_problems("");
    let line = problems.iter().next().map_or(1, |problem| problem.line);
    Err((line, "not readable as YAML, or beyond the bounds of it"))
}

/// Documents of a text, each with the number of its first line.
fn documents(text: &str) -> Vec<(usize, String)> {
    let mut documents = vec![(1, String::new())];
    for (number, line) in text.lines().enumerate() {
        if line == "---" || line.starts_with("--- ") {
            documents.push((number + 2, String::new()));
        } else if let Some((_, document)) = documents.last_mut() {
            document.push_str(line);
            document.push('\n');
        }
    }
    let empty = |document: &str| {
        let mut lines = document.lines();
        lines.all(|line| line.trim().is_empty() || line.starts_with('#'))
    };
    documents.retain(|(_, document)| !empty(document));
    documents
}

fn collect(root: &YamlNode, first: usize, content: &mut ManifestContent) {
    let mut left = vec![root];
    while let Some(node) = left.pop() {
        if text_of(node, "kind") == Some("ConfigMap")
            && let Some(data) = node.get("data")
        {
            for entry in data.entries() {
                if let NodeKind::Scalar(scalar) = &entry.value.kind {
                    let file = (entry.key.clone(), scalar.text.clone());
                    content.texts.push(file);
                }
            }
            continue;
        }
        for entry in node.entries().iter().rev() {
            if entry.key == "env" {
                variables(&entry.value, first, content);
            } else {
                left.push(&entry.value);
            }
        }
        left.extend(node.items().iter().rev());
    }
}

fn variables(env: &YamlNode, first: usize, content: &mut ManifestContent) {
    for item in env.items() {
        if let Some(name) = text_of(item, "name") {
            content.variables.push(ManifestVariable {
                name: name.to_owned(),
                value: text_of(item, "value").map(str::to_owned),
                line: first + item.at.line - 1,
            });
        }
    }
}

/// The text of a key.
pub(crate) fn text_of<'a>(node: &'a YamlNode, key: &str) -> Option<&'a str> {
    match &node.get(key)?.kind {
        NodeKind::Scalar(scalar) if !scalar.is_null() => Some(&scalar.text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_variables_of_manifests_are_found() {
        let text = "# first\napiVersion: v1\nkind: ConfigMap\ndata:\n  a.conf: |\n\
            \x20   [x]\n    y = 1\n\
            ---\napiVersion: apps/v1\nkind: DaemonSet\nspec:\n  template:\n    spec:\n\
            \x20     containers:\n      - env:\n        - name: A\n          value: b\n\
            \x20       - name: S\n          valueFrom: {}\n\
            ---\nkind: List\nitems:\n- kind: ConfigMap\n  data: { b.conf: z }\n\
            ---\n{{ .Values.x }}\n";
        assert!(is_manifest(text));
        let content = read(text);
        let files = [("a.conf", "[x]\ny = 1\n"), ("b.conf", "z")];
        let files = files.map(|(name, text)| (name.to_owned(), text.to_owned()));
        assert_eq!(content.texts, files);
        let variables = content.variables.iter();
        let variables: Vec<(&str, Option<&str>, usize)> = variables
            .map(|one| (one.name.as_str(), one.value.as_deref(), one.line))
            .collect();
        assert_eq!(variables, [("A", Some("b"), 16), ("S", None, 18)]);
        let template = "a template is not read: give what `helm template` prints";
        assert_eq!(content.faults, [(26, template)]);
    }
}
