//! `inrush bench`: the tables that this field publishes, measured on this machine.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{Args, Subcommand};
use inrush_harness::{HecSink, TableArgs};
use signal_hook::consts::{SIGINT, SIGTERM};

/// Arguments of `bench`.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    subcommand_value_name = "",
    after_help = "Examples:
  inrush bench                            all tables, beside syslog-ng and rsyslog if they are here
  inrush bench udp-loss                   one of them
  inrush bench tcp-connections --runs 1 --seconds 2
  inrush bench heavy-forwarder            the published test of a heavy forwarder, run by run
  inrush bench --json | jq '.tables[].rows[]'

It starts and ends processes of its own, on loopback, and needs the machine for itself. As root
receive buffers can grow beyond net.core.rmem_max; RSYSLOGD names an rsyslogd that is not in
/usr/sbin. bench.json and bench.html are in the folder of --out."
)]
pub(crate) struct BenchArgs {
    #[command(flatten)]
    tables: TableArgs,
    #[command(subcommand)]
    part: Option<BenchHelper>,
}

/// What it starts beside a subject.
#[derive(Subcommand)]
enum BenchHelper {
    /// A Splunk HEC endpoint that counts and forgets
    #[command(hide = true)]
    HecSink(HecSink),
}

/// Measures, or serves who measures.
pub(crate) fn run(args: &BenchArgs) -> anyhow::Result<ExitCode> {
    match &args.part {
        Some(BenchHelper::HecSink(sink)) => inrush_harness::serve_sink(sink)?,
        None => {
            // What it has started and written goes with it; the second signal ends it at once.
            let stop = Arc::new(AtomicBool::new(false));
            for signal in [SIGINT, SIGTERM] {
                signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop))?;
                signal_hook::flag::register(signal, Arc::clone(&stop))?;
            }
            inrush_harness::run_tables(&args.tables, &stop)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
