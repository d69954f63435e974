//! `inrush doctor`: what of this host does not suit the configuration, and what mends it.

mod certificates;
pub(super) mod collectors;
mod files;
mod refused;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;
use inrush_config::{self as config, Config, SourceOptions};
use inrush_event::Protocol;
use inrush_host::doctor::{
    self, ApplyResult, HostRequirements, Severity, TcpRequirement, UdpRequirement, UnmeasuredReason,
};
use inrush_host::rate::SafeRate;
use inrush_pipeline::DataDirLock;
use inrush_transport::listen::ACCEPT_BACKLOG;

use super::DoctorArgs;
use super::calibrate::{self, Interrupted};
use super::configuration::ConfigOrigin;

/// The script that sets back what `--apply` has set.
const UNDO: &str = "doctor-undo.sh";

/// Severity from which on a finding fails the command.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum FailOn {
    /// Something loses our events, or is about to stop us
    Critical,
    /// Something loses events under load, or has lost some
    Warn,
}

impl FailOn {
    fn severity(self) -> Severity {
        match self {
            Self::Critical => Severity::Critical,
            Self::Warn => Severity::Warn,
        }
    }
}

/// Examines the host and prints what was found; then sets what is safe, if that was asked for.
pub(crate) fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let origin = args.config.origin();
    let (config, unusable) = configuration(&origin)?;
    let mut ask = ask(&config);
    ask.unusable = unusable.clone();
    let mut report = doctor::examine(ask);
    report.set_safe_rate(match unusable {
        Some(words) => Err(UnmeasuredReason::Failed(words)),
        None => rate(args, &config)?,
    });
    report.name_configuration(&origin.words());
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&report)?)?;
    } else {
        report.write(&mut out)?;
    }
    out.flush()?;
    let from = args.fail_on.map(FailOn::severity);
    let fails = report
        .findings
        .iter()
        .any(|one| from.is_some_and(|from| one.severity >= from));
    let code = match args.apply {
        true => {
            let undo = undo(&config.data_dir);
            tell(&report.apply(&undo), &undo)
        }
        false => ExitCode::SUCCESS,
    };
    Ok(if fails { ExitCode::FAILURE } else { code })
}

/// The configuration; where it can be understood and a file that it names cannot be used, with
/// what is wrong: that is for the doctor to tell.
fn configuration(origin: &ConfigOrigin) -> anyhow::Result<(Config, Option<String>)> {
    let (mut config, unusable) = match origin.load(None) {
        Ok(config) => (config, None),
        Err(problems) => match origin.understood() {
            Some(config) => {
                let words = problems.to_string().trim().replace('\n', "; ");
                (config, Some(words))
            }
            None => return Err(problems),
        },
    };
    config.fit_memory(config::memory_limit());
    Ok((config, unusable))
}

/// The rate that this host takes safely, or why it was not measured.
fn rate(args: &DoctorArgs, config: &Config) -> anyhow::Result<Result<SafeRate, UnmeasuredReason>> {
    if args.no_rate {
        return Ok(Err(UnmeasuredReason::Unwanted));
    }
    if !args.rate && DataDirLock::is_taken(&config.data_dir) {
        return Ok(Err(UnmeasuredReason::Running));
    }
    eprintln!("inrush: measuring the safe rate, about 10 s of load; --no-rate leaves it out");
    match calibrate::run(config, args.event_bytes) {
        Ok(rate) => Ok(Ok(rate)),
        Err(error) if error.is::<Interrupted>() => Err(error),
        Err(error) => Ok(Err(UnmeasuredReason::Failed(format!("{error:#}")))),
    }
}

/// Demands of the configuration on the host.
fn ask(config: &Config) -> HostRequirements {
    let asked = collectors::ask(config);
    let mut certificates = certificates::files(config);
    certificates.extend(asked.certificates);
    let mut ask = HostRequirements {
        data_dir: config.data_dir.clone(),
        queue_memory_bytes: config.queue.memory_bytes_max(),
        queue_disk_bytes: config.queue.disk_bytes(),
        reserve_bytes: config.queue.reserve_bytes.0,
        disks: inrush_pipeline::disk_asks(config),
        certificates,
        collectors: asked.collectors,
        refused: refused::ask(config),
        files: files::ask(config),
        ..HostRequirements::default()
    };
    let workers = inrush_config::worker_count(config.workers);
    for (name, source) in &config.sources {
        add_source(&mut ask, name, source.options(), workers);
    }
    ask
}

fn add_source(ask: &mut HostRequirements, name: &str, source: &dyn SourceOptions, workers: usize) {
    let udp = source.udp(workers);
    let addresses = source.listen().into_iter();
    let (datagrams, streams): (Vec<_>, Vec<_>) =
        addresses.partition(|address| address.protocol == Protocol::Udp);
    ask.tcp.extend(streams.iter().map(|address| TcpRequirement {
        source: name.to_owned(),
        port: address.addr.port(),
        backlog: u64::from(ACCEPT_BACKLOG.unsigned_abs()),
    }));
    ask.udp
        .extend(datagrams.iter().map(|address| UdpRequirement {
            source: name.to_owned(),
            port: address.addr.port(),
            sockets: udp.sockets,
            receive_buffer_bytes: udp.receive_buffer_bytes,
        }));
    ask.connections = ask.connections.saturating_add(source.connections_max());
}

/// Path of the script that sets the host back: in the data directory, or in the current folder if
/// that is not there. The data directory is not made for it.
fn undo(data_dir: &Path) -> PathBuf {
    if data_dir.is_dir() {
        data_dir.join(UNDO)
    } else {
        PathBuf::from(UNDO)
    }
}

/// Says what was set and what was not, and how the process therefore ends.
fn tell(applied: &ApplyResult, undo: &Path) -> ExitCode {
    for change in &applied.changed {
        let (key, before, after) = (&change.key, change.before, change.after);
        eprintln!("inrush: set {key} from {before} to {after}");
    }
    for failed in &applied.failed {
        eprintln!("inrush: not set: {failed}");
    }
    if !applied.changed.is_empty() {
        eprintln!(
            "inrush: `sh {}` sets it back; a restart of the host does, too",
            undo.display()
        );
    }
    if applied.failed.is_empty() {
        if applied.changed.is_empty() {
            eprintln!("inrush: nothing to set");
        }
        return ExitCode::SUCCESS;
    }
    ExitCode::FAILURE
}
