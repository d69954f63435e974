//! `inrush check`: what is wrong with a configuration, and what a right one may say.

mod connect;
mod report;

use std::io::Write;
use std::process::ExitCode;

use inrush_config::{self as config, Config, FileProblems};
use inrush_host::doctor;
use inrush_ingest::classification;
use inrush_inspect::samples::{self, SampleOrigin};
use inrush_transport::process;

use super::configuration::ConfigOrigin;
use super::{CheckArgs, PrintArgs, password};
use report::{CheckNote, CheckReport};

/// Checks the configuration, or prints what was asked for.
pub(crate) fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    if args.print.hash_password {
        return password::hash();
    }
    let mut out = std::io::stdout().lock();
    if args.print.any() {
        print(&args.print, &mut out)?;
        out.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    let origin = match &args.file {
        Some(file) => ConfigOrigin::of(file.clone()),
        None => args.config.origin(),
    };
    let mut report = CheckReport::new(&origin);
    let config = checked(&origin, &mut report)?;
    report.write(args.json, &mut out)?;
    let well = match config.filter(|_| report.is_ok()) {
        None => return Ok(ExitCode::from(2)),
        Some(config) => !args.connect || connect::run(&config, &mut out)?,
    };
    out.flush()?;
    Ok(match well {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// The configuration; `None` if it cannot be used. What is wrong and what is odd goes into
/// `report`.
fn checked(origin: &ConfigOrigin, report: &mut CheckReport) -> anyhow::Result<Option<Config>> {
    let found = origin.load(None).and_then(|mut config| {
        let memory = config.fit_memory(config::memory_limit()).warning;
        report
            .warnings
            .extend(memory.map(|words| report.note(words)));
        packs(&config, report)?;
        Ok(config)
    });
    let config = match found {
        Ok(config) => config,
        Err(error) => {
            let problems = error.downcast::<FileProblems>()?;
            report.problems.extend(problems.iter().map(CheckNote::from));
            return Ok(None);
        }
    };
    if !report.is_ok() {
        return Ok(None);
    }
    let expired = config::expired_lists(&config).into_iter();
    report.problems = expired.map(|words| report.note(words)).collect();
    let room = inrush_pipeline::shortage(&config, process::open_files_hard_max()).into_iter();
    let disks = doctor::overdrawn(&inrush_pipeline::disk_asks(&config));
    let odd: Vec<CheckNote> = room.chain(disks).map(|words| report.note(words)).collect();
    report.warnings.extend(odd);
    Ok(Some(config))
}

/// Runs the samples of the configuration's own packs; those that do not come out as they say are
/// problems. What is odd about rules is a warning.
fn packs(config: &Config, report: &mut CheckReport) -> anyhow::Result<()> {
    for warning in classification::load(&config.packs)?.warnings {
        let at = (warning.at.line, warning.at.column);
        report
            .warnings
            .push(CheckNote::at(warning.file, at, warning.words));
    }
    let (failed, _) = samples::samples(config, SampleOrigin::Own)?;
    for one in failed {
        let at = (one.at.line, one.at.column);
        report.problems.push(CheckNote::at(one.file, at, one.words));
    }
    Ok(())
}

fn print(what: &PrintArgs, out: &mut impl Write) -> anyhow::Result<()> {
    if what.print_schema {
        writeln!(out, "{}", serde_json::to_string_pretty(&config::schema())?)?;
    } else if what.print_pack_schema {
        let schema = inrush_pipeline::pack_schema();
        writeln!(out, "{}", serde_json::to_string_pretty(&schema)?)?;
    } else if what.print_reference {
        out.write_all(config::reference_markdown().as_bytes())?;
    } else {
        out.write_all(config::BUILTIN_YAML.as_bytes())?;
    }
    Ok(())
}
