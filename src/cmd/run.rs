//! `inrush run`: starts the pipeline and the admin API, obeys signals, stops in good order.

mod opening;

use std::process::ExitCode;
use std::sync::{Arc, Mutex, Once, PoisonError};

use anyhow::{Context, bail};
use inrush_config::{self as config, Config, FileProblems};
use inrush_control::Searcher;
use inrush_control::{AdminServer, ServerLimits};
use inrush_event::LedgerSnapshot;
use inrush_pipeline::{ConfigLoader, Pipeline};
use inrush_status::{Admin, StatusReporter};
use inrush_transport::activation::InheritedSockets;
use inrush_transport::process;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::configuration::ConfigOrigin;
use super::log::{self, LogShape};
use super::searcher::AdminSearcher;
use super::{RunArgs, bounds};

/// Runs until a signal says stop.
pub(crate) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    // First of all, before anything else opens files under their numbers.
    let inherited = InheritedSockets::from_environment();
    let format = log::start(&args.log)?;
    match serve(args, inherited) {
        Err(error) if format == LogShape::Json => {
            let code = crate::exit_code(&error);
            log::problem(&error);
            log::flush();
            Ok(code)
        }
        ended => ended,
    }
}

fn serve(args: &RunArgs, inherited: InheritedSockets) -> anyhow::Result<ExitCode> {
    // Before the pipeline's threads start, so that they leave the signals to this one.
    let mut signals = Signals::new([SIGHUP, SIGTERM, SIGINT]).context("cannot take signals")?;
    bounds::spare_memory();
    if let Err(error) = process::raise_open_files() {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
    let config = read(args)?;
    opening::tell(&config, &origin(args));
    let budget = config.memory_budget();
    let admin_options = config.admin.clone();
    let pipeline = Pipeline::start(config, inherited, loader(args))?;
    let status: Arc<dyn Admin> = StatusReporter::new(pipeline.topology());
    let searcher: Arc<dyn Searcher> = Arc::new(AdminSearcher::start(
        Arc::clone(&status),
        &bounds::searches(&budget),
    )?);
    let admin = match inrush_control::start_within(
        &admin_options,
        Arc::clone(&status),
        Some(searcher),
        server_limits(),
    ) {
        Ok(admin) => admin,
        Err(error) => {
            pipeline.stop();
            bail!("admin: {error}");
        }
    };
    let scheme = if admin_options.tls.is_some() {
        "https"
    } else {
        "http"
    };
    let address = admin.local_addr();
    tracing::info!("admin on {scheme}://{address}");
    opening::tell_where(&format!("{scheme}://{}", inrush_client::reachable(address)));
    if admin_options.tls.is_none() && !admin_options.listen.is_loopback() {
        tracing::warn!(
            "admin: passwords, tokens and events cross the network in clear text; set admin.tls, \
             or listen on 127.0.0.1 behind a proxy that has TLS"
        );
    }
    if let Some(address) = admin.health_addr() {
        tracing::info!("health on http://{address}");
    }
    for (source, address) in pipeline.listeners() {
        tracing::info!("listening on {address} source={source}");
    }
    tracing::info!("ready");
    process::notify("READY=1");
    obey(&mut signals, &pipeline, &admin);
    process::notify("STOPPING=1");
    admin.stopping();
    finish(&mut signals, pipeline, &*status);
    admin.stop();
    log::flush();
    Ok(ExitCode::SUCCESS)
}

/// Limits of admin and health connections: no more than the limit of open files leaves for them.
fn server_limits() -> ServerLimits {
    let limits = ServerLimits::default();
    let (connections, health) = match process::open_files_max() {
        0 => (limits.connections, limits.health_connections),
        limit => (
            inrush_pipeline::admin_connections(limit),
            inrush_pipeline::health_connections(limit),
        ),
    };
    let connections = connections.min(limits.connections);
    ServerLimits {
        connections,
        health_connections: health.min(limits.health_connections),
        per_address: connections.div_ceil(2),
        ..limits
    }
}

/// Words for the origin of the configuration.
fn origin(args: &RunArgs) -> String {
    match &args.sc4s_env {
        Some(file) => format!("the env_file {}", file.display()),
        None => match args.config.origin() {
            ConfigOrigin::Builtin => "the built-in configuration".to_owned(),
            origin => format!("the configuration {origin}"),
        },
    }
}

/// The configuration, with the memory that each part may take. The first time it is said.
fn read(args: &RunArgs) -> anyhow::Result<Config> {
    static SAID: Once = Once::new();
    let mut config = read_as_written(args)?;
    let plan = config.fit_memory(config::memory_limit());
    SAID.call_once(|| tracing::info!("{}", plan.line));
    if let Some(warning) = plan.warning {
        tracing::warn!("{warning}");
    }
    Ok(config)
}

/// The configuration with the command line's `--data-dir` in place of its own.
fn read_as_written(args: &RunArgs) -> anyhow::Result<Config> {
    let data_dir = args.data_dir.as_deref();
    if let Some(env_file) = &args.sc4s_env {
        return super::migrate::configuration(env_file, args.context.as_deref(), data_dir);
    }
    args.config.origin().load(data_dir)
}

fn loader(args: &RunArgs) -> ConfigLoader {
    let args = args.clone();
    Box::new(move || {
        read(&args).map_err(|error| match error.downcast::<FileProblems>() {
            Ok(problems) => problems.iter().map(ToString::to_string).collect(),
            Err(error) => vec![format!("{error:#}")],
        })
    })
}

/// Reloads on SIGHUP; returns on SIGTERM or SIGINT.
fn obey(signals: &mut Signals, pipeline: &Pipeline, admin: &AdminServer) {
    for signal in signals.forever() {
        if signal != SIGHUP {
            return;
        }
        match admin.follow(pipeline.reload()) {
            Ok(report) if report.changed.is_empty() => tracing::info!("reload: no change"),
            Ok(report) => tracing::info!("reload: {}", report.changed.join(", ")),
            Err(problems) => {
                let problems = problems.join("; ");
                tracing::warn!("reload failed, what is named here goes on as it was: {problems}");
            }
        }
    }
}

/// Stops in good order; a second signal ends the wait.
fn finish(signals: &mut Signals, pipeline: Pipeline, admin: &dyn Admin) {
    tracing::info!("stopping: taking in what was received and delivering it");
    let handle = signals.handle();
    let stopping = Mutex::new(Some(pipeline));
    let stop = || {
        let pipeline = stopping
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(pipeline) = pipeline {
            pipeline.stop();
        }
        handle.close();
    };
    std::thread::scope(|scope| {
        // Without a thread to be had it is stopped here, and a second signal is not heard.
        if std::thread::Builder::new()
            .name("stop".into())
            .spawn_scoped(scope, stop)
            .is_err()
        {
            stop();
        }
        // Ends when the handle is closed, or at a signal.
        if signals.forever().any(|signal| signal != SIGHUP) {
            tracing::info!("second signal: stopping at once");
            tracing::info!("{}", summary(&admin.ledger()));
            log::flush();
            std::process::exit(1);
        }
    });
    tracing::info!("{}", summary(&admin.ledger()));
}

/// The last line: what came in and what became of it.
fn summary(ledger: &LedgerSnapshot) -> String {
    let mut parts = Vec::new();
    for (name, row) in &ledger.sources {
        let rejected: u64 = row.rejected.values().sum();
        parts.push(format!(
            "{name} received {} accepted {} rejected {rejected} kernel_dropped {}",
            row.received, row.accepted, row.kernel_dropped
        ));
    }
    for (name, row) in &ledger.destinations {
        let quarantined: u64 = row.quarantined.values().sum();
        let dropped: u64 = row.dropped.values().sum();
        parts.push(format!(
            "{name} delivered {} quarantined {quarantined} dropped {dropped} pending {}",
            row.delivered, row.pending
        ));
        if let Some(stored) = &row.stored {
            let expired: u64 = stored.expired.values().sum();
            parts.push(format!(
                "{name} keeps {} expired {expired} unreadable {}",
                stored.searchable, stored.unreadable
            ));
        }
    }
    let balanced = if ledger.balanced {
        "balanced"
    } else {
        "NOT BALANCED"
    };
    format!("stopped, ledger {balanced}: {}", parts.join("; "))
}
