//! Files that a run writes.

use std::path::Path;

use anyhow::{Context, Result};

/// Writes a file; its error names it.
pub fn write(file: &Path, text: &str) -> Result<()> {
    std::fs::write(file, text).with_context(|| file.display().to_string())
}
