//! The programs under test.

use std::path::{Path, PathBuf};

/// The built `inrush-bench`.
pub(crate) fn bench() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_inrush-bench"))
}

/// The built `inrush` beside it.
pub(crate) fn inrush() -> PathBuf {
    let inrush = bench().with_file_name("inrush");
    assert!(
        inrush.is_file(),
        "{} is missing: run `cargo build -p inrush` first (make test does)",
        inrush.display()
    );
    inrush
}
