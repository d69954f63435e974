//! `inrush version`: the commit, the target, the compiler and the features of this program.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;

/// Arguments of `version`.
#[derive(Args)]
#[command(after_help = "Examples:
  inrush version
  inrush version --json | jq -r .commit")]
pub(crate) struct VersionArgs {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Parts that a build may lack.
fn features() -> Vec<&'static str> {
    let all = [("dashboard", inrush_control::HAS_DASHBOARD)];
    let there = all.into_iter().filter(|(_, built)| *built);
    there.map(|(name, _)| name).collect()
}

/// Prints what this program was built from; `unknown` where the build could not tell.
pub(crate) fn run(args: &VersionArgs) -> anyhow::Result<ExitCode> {
    let version = env!("CARGO_PKG_VERSION");
    let parts = [
        ("commit", env!("INRUSH_BUILD_COMMIT")),
        ("target", env!("INRUSH_BUILD_TARGET")),
        ("profile", env!("INRUSH_BUILD_PROFILE")),
        ("rustc", env!("INRUSH_BUILD_RUSTC")),
    ];
    let mut out = std::io::stdout().lock();
    if args.json {
        let mut document = serde_json::Map::new();
        document.insert("version".into(), version.into());
        document.extend(parts.map(|(name, value)| (name.into(), value.into())));
        document.insert("features".into(), features().into());
        serde_json::to_writer(&mut out, &document)?;
        writeln!(out)?;
    } else {
        writeln!(out, "inrush {version}")?;
        for (name, value) in parts {
            writeln!(out, "{name}: {value}")?;
        }
        let features = features().join(", ");
        let features = if features.is_empty() {
            "none"
        } else {
            &features
        };
        writeln!(out, "features: {features}")?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
