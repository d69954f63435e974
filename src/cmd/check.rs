//! `inrush check`: what is wrong with a configuration, and what a right one may say.

use std::io::Write;
use std::process::ExitCode;

use inrush_pipeline::config;

use super::{CheckArgs, password};

/// Checks the file, or prints what was asked for.
pub(crate) fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    if args.print.hash_password {
        return password::hash();
    }
    let mut out = std::io::stdout().lock();
    if let Some(path) = &args.config {
        super::configuration(Some(path))?;
        writeln!(out, "{}: ok", path.display())?;
    } else if args.print.print_schema {
        writeln!(out, "{}", serde_json::to_string_pretty(&config::schema())?)?;
    } else if args.print.print_reference {
        out.write_all(config::reference_markdown().as_bytes())?;
    } else {
        out.write_all(config::BUILTIN_YAML.as_bytes())?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
