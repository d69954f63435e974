//! Tells `inrush version` what it was built from: commit, target, profile, compiler and features.
//!
//! `INRUSH_COMMIT` names the commit where the sources come without their repository. Nothing here
//! depends on the time or the host, so that the same sources give the same program.
#![allow(clippy::print_stdout)]

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=INRUSH_COMMIT");
    // Each commit and each checkout adds a line to this file. A path that is not there would run
    // this script, and link the program, every time.
    if let Some(log) = said("git", &["rev-parse", "--git-path", "logs/HEAD"])
        && std::path::Path::new(&log).exists()
    {
        println!("cargo::rerun-if-changed={log}");
    }
    let named = env::var("INRUSH_COMMIT")
        .ok()
        .filter(|name| !name.is_empty());
    let commit = named.or_else(|| said("git", &["rev-parse", "HEAD"]));
    let compiler = env::var("RUSTC")
        .ok()
        .and_then(|rustc| said(&rustc, &["--version"]));
    set("INRUSH_BUILD_COMMIT", commit);
    set("INRUSH_BUILD_RUSTC", compiler);
    set("INRUSH_BUILD_TARGET", env::var("TARGET").ok());
    set("INRUSH_BUILD_PROFILE", env::var("PROFILE").ok());
}

/// First line that a program prints; none if it fails or is not there.
fn said(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let line = text.lines().next()?.trim().to_owned();
    (output.status.success() && !line.is_empty()).then_some(line)
}

fn set(name: &str, value: Option<String>) {
    println!(
        "cargo::rustc-env={name}={}",
        value.as_deref().unwrap_or("unknown")
    );
}
