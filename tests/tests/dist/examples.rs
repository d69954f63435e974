//! Examples of the guides: what stands in them as YAML is YAML.

use crate::{documents, root};

#[test]
fn examples_of_the_guides_are_readable() {
    for guide in ["kubernetes.md", "files.md"] {
        let text = std::fs::read_to_string(root().join("docs/guides").join(guide)).unwrap();
        let blocks = text.split("```yaml\n").skip(1);
        let blocks: Vec<&str> = blocks
            .map(|rest| rest.split("```").next().unwrap())
            .collect();
        assert!(!blocks.is_empty(), "{guide}");
        for block in blocks {
            assert!(!documents(block).is_empty(), "{guide}: {block}");
        }
    }
}
