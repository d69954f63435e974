//! Real messages to send, as a file of lines.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Messages, one a line.
#[derive(Debug)]
pub struct MessageFile {
    pub file: PathBuf,
    /// Description of the messages, for the report.
    pub words: String,
}

impl MessageFile {
    /// The lines of `given`, or of what stands under `message` in each line of JSON if that is what
    /// it holds; the samples of the packs if none is given. Empty lines are left out. They are
    /// written to a file in `dir`.
    pub fn new(given: Option<&Path>, dir: &Path) -> Result<Self> {
        let (name, texts) = match given {
            Some(path) => {
                let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
                let name = path.file_name().unwrap_or_default();
                let json = path.extension().is_some_and(|end| end == "jsonl");
                let texts = if json { of_json(&text)? } else { vec![text] };
                (name.to_string_lossy().into_owned(), texts)
            }
            None => ("the packs' samples".to_owned(), samples()?),
        };
        let lines = texts.iter().flat_map(|text| text.lines());
        let lines: Vec<&str> = lines
            .map(|line| line.trim_end_matches('\r'))
            .filter(|line| !line.is_empty())
            .collect();
        anyhow::ensure!(!lines.is_empty(), "{name} holds no message");
        let bytes: usize = lines.iter().map(|line| line.len()).sum();
        let words = format!(
            "10 conn, the {} messages of {name}, {} B in the mean",
            lines.len(),
            bytes / lines.len()
        );
        let file = dir.join("messages");
        fs::write(&file, lines.join("\n") + "\n").with_context(|| file.display().to_string())?;
        Ok(Self { file, words })
    }
}

fn samples() -> Result<Vec<String>> {
    let packs = inrush_packs::builtin(&Default::default())?;
    let rules = packs.iter().flat_map(|pack| &pack.rules);
    let samples = rules.flat_map(|rule| rule.samples.iter());
    Ok(samples.flat_map(|sample| sample.raw.clone()).collect())
}

fn of_json(text: &str) -> Result<Vec<String>> {
    let message = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line)?;
        let message = value["message"].as_str();
        message
            .map(str::to_owned)
            .context("a line has no `message`")
    };
    text.lines().map(message).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn messages_are_lines_wherever_they_come_from() {
        let dir = tempfile::tempdir().unwrap();
        let given = dir.path().join("cases.jsonl");
        fs::write(
            &given,
            "{\"message\":\"one\\r\\ntwo\"}\n{\"message\":\"three\"}\n",
        )
        .unwrap();
        let made = MessageFile::new(Some(&given), dir.path()).unwrap();
        assert_eq!(fs::read_to_string(&made.file).unwrap(), "one\ntwo\nthree\n");
        assert!(made.words.contains("the 3 messages of cases.jsonl"));
        fs::write(&given, "{}\n").unwrap();
        assert!(MessageFile::new(Some(&given), dir.path()).is_err());
        let samples = MessageFile::new(None, dir.path()).unwrap();
        assert!(fs::read_to_string(&samples.file).unwrap().lines().count() > 500);
    }
}
