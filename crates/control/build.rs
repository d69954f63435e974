//! Embeds the built dashboard: writes a table of what lies in `web/dist` into `assets.rs`. The
//! documents of `docs/` are in another one, in `documents.rs`.
//!
//! The files come from `make web` (Node); this script needs nothing but them. Where there are none
//! the table is empty, cargo says so, and `/` answers in words: whoever works on the rest of the
//! house needs no Node.
#![allow(clippy::print_stdout)]

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The page itself; what it loads lies beside it.
const INDEX: &str = "index.html";

fn main() -> io::Result<()> {
    let variable = |name| env::var_os(name).map(PathBuf::from).unwrap_or_default();
    let dist = variable("CARGO_MANIFEST_DIR").join("../../web/dist");
    let out = variable("OUT_DIR");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", dist.display());
    let names = names(&dist)?;
    if !names.iter().any(|name| name == INDEX) {
        println!("cargo::warning=web/dist holds no dashboard: this binary will have none");
        println!("cargo::warning=to have it: make web (it needs Node 18 or newer), then build");
    }
    fs::write(out.join("assets.rs"), table(&names, &dist, &out)?)?;
    let root = variable("CARGO_MANIFEST_DIR").join("../..");
    println!("cargo::rerun-if-changed={}", root.join("docs").display());
    fs::write(out.join("documents.rs"), documents(&root)?)
}

/// Rust for a slice of the Markdown below `docs/`: path and text of each, in alphabetical order.
fn documents(root: &Path) -> io::Result<String> {
    let mut paths = Vec::new();
    for folder in ["", "/guides", "/reference", "/specs", "/decisions"] {
        for entry in fs::read_dir(root.join(format!("docs{folder}")))? {
            let name = entry?.file_name().into_string().unwrap_or_default();
            if name.ends_with(".md") {
                paths.push(format!("docs{folder}/{name}"));
            }
        }
    }
    paths.sort();
    let mut text = String::from("&[\n");
    for path in paths {
        let file = root.join(&path);
        let _ = writeln!(text, "    ({path:?}, include_str!({file:?})),");
    }
    text.push_str("]\n");
    Ok(text)
}

/// The files of `dist` that have a gzipped twin, in alphabetical order.
fn names(dist: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    let entries = match fs::read_dir(dist) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(names),
        entries => entries?,
    };
    for entry in entries {
        let name = entry?.file_name().into_string().unwrap_or_default();
        if dist.join(format!("{name}.gz")).is_file() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Rust for a slice of assets. The files are copied first: a build of the page that runs beside
/// the compiler must not take them away from it.
fn table(names: &[String], dist: &Path, out: &Path) -> io::Result<String> {
    let mut text = String::from("&[\n");
    for name in names {
        let copy = |name: &str| -> io::Result<String> {
            let to = out.join(name);
            fs::copy(dist.join(name), &to)?;
            Ok(format!("include_bytes!({to:?})"))
        };
        let path = match name.as_str() {
            INDEX => "/".to_owned(),
            name => format!("/{name}"),
        };
        let (kind, plain, gzip) = (kind(name), copy(name)?, copy(&format!("{name}.gz"))?);
        let _ = writeln!(
            text,
            "    Asset {{ path: {path:?}, kind: {kind:?}, plain: {plain}, gzip: {gzip} }},"
        );
    }
    text.push_str("]\n");
    Ok(text)
}

/// The media type; nothing is guessed by the browser, so an unknown one would not run.
fn kind(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("woff2") => "font/woff2",
        _ => "application/octet-stream",
    }
}
