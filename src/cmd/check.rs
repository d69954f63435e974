//! `inrush check`: what is wrong with a configuration, and what a right one may say.

mod connect;

use std::io::Write;
use std::process::ExitCode;

use inrush_config::{self as config, Config};
use inrush_host::doctor;
use inrush_ingest::classification;
use inrush_inspect::samples::{self, SampleOrigin};
use inrush_transport::process;

use super::{CheckArgs, password};

/// Checks the file, or prints what was asked for.
pub(crate) fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    if args.print.hash_password {
        return password::hash();
    }
    let mut out = std::io::stdout().lock();
    if let Some(path) = &args.config {
        let mut config = super::configuration(Some(path))?;
        if let Some(warning) = config.fit_memory(config::memory_limit()).warning {
            eprintln!("{}: warning: {warning}", path.display());
        }
        if !packs(&config)? {
            return Ok(ExitCode::from(2));
        }
        let expired = config::expired_lists(&config);
        for words in &expired {
            eprintln!("{}: {words}", path.display());
        }
        if !expired.is_empty() {
            return Ok(ExitCode::from(2));
        }
        if let Some(words) = inrush_pipeline::shortage(&config, process::open_files_hard_max()) {
            eprintln!("{}: warning: {words}", path.display());
        }
        for words in doctor::overdrawn(&inrush_pipeline::disk_asks(&config)) {
            eprintln!("{}: warning: {words}", path.display());
        }
        writeln!(out, "{}: ok", path.display())?;
        if args.connect && !connect::run(&config, &mut out)? {
            out.flush()?;
            return Ok(ExitCode::FAILURE);
        }
    } else if args.print.print_schema {
        writeln!(out, "{}", serde_json::to_string_pretty(&config::schema())?)?;
    } else if args.print.print_pack_schema {
        let schema = inrush_pipeline::pack_schema();
        writeln!(out, "{}", serde_json::to_string_pretty(&schema)?)?;
    } else if args.print.print_reference {
        out.write_all(config::reference_markdown().as_bytes())?;
    } else {
        out.write_all(config::BUILTIN_YAML.as_bytes())?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the samples of the configuration's own packs; whether all came out as they say. What is
/// odd about rules is a warning.
fn packs(config: &Config) -> anyhow::Result<bool> {
    for warning in classification::load(&config.packs)?.warnings {
        let (file, at) = (&warning.file, warning.at);
        eprintln!(
            "{file}:{}:{}: warning: {}",
            at.line, at.column, warning.words
        );
    }
    let (failed, _) = samples::samples(config, SampleOrigin::Own)?;
    for one in &failed {
        eprintln!(
            "{}:{}:{}: {}",
            one.file, one.at.line, one.at.column, one.words
        );
    }
    Ok(failed.is_empty())
}
