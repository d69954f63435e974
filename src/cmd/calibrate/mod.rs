//! The rate that this host takes safely with a configuration, measured: the pipeline itself runs
//! in this process, with everything that leads outside turned to ourselves, and takes as much as it
//! can for some seconds.
//!
//! # What it guarantees
//! * No event of ours reaches a destination, a resolver or a bucket of the configuration: see
//!   [`config`]. Nothing listens but on 127.0.0.1.
//! * What it writes lies in one folder on the file system of the data directory, and is gone at the
//!   end, also after a fault or a signal; only after SIGKILL does it stay, until the next run.
//! * It takes at most ten seconds in a release build, and up to 3 GiB of disk meanwhile.
//!
//! # In reading order
//! [`config`]: what is changed · `folder` · `collector`: who answers in place of Splunk · `course`:
//! a run of the pipeline under load · `threads`: what its threads used.

mod collector;
mod config;
mod course;
mod folder;
mod threads;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use inrush_config::Config;
use inrush_host::doctor::free_bytes;
use inrush_host::rate::SafeRate;
use inrush_transport::process;
use signal_hook::consts::{SIGINT, SIGTERM};

use collector::StubCollector;
use course::CalibrationRun;
use folder::TemporaryFolder;

/// Bytes of an event, if nobody says.
pub(crate) const EVENT_BYTES: u64 = 800;

/// Bytes that must be free beside those that the configuration has the queue leave free.
const FREE_BYTES_MIN: u64 = 3 << 30;

/// Time for which the pipeline is watched.
const WATCH: Duration = Duration::from_secs(4);

/// Time for which it is watched without what recognises: only the CPU time of reading is asked for.
const WATCH_BARE: Duration = Duration::from_millis(1500);

/// A signal ended it.
#[derive(Debug)]
pub(crate) struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted while the safe rate was measured")
    }
}

impl std::error::Error for Interrupted {}

/// Measures the rate for events of `event_bytes`.
///
/// # Errors
/// [`Interrupted`]; or what kept it from being measured.
pub(crate) fn run(config: &Config, event_bytes: u64) -> anyhow::Result<SafeRate> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let mut taken = Vec::new();
    for signal in [SIGINT, SIGTERM] {
        taken.push(signal_hook::flag::register(
            signal,
            Arc::clone(&interrupted),
        )?);
    }
    // As `run` does; where it cannot be, some connections are enough.
    let _ = process::raise_open_files();
    let measured = measure(config, event_bytes, &interrupted);
    taken.into_iter().for_each(|id| {
        signal_hook::low_level::unregister(id);
    });
    if interrupted.load(Relaxed) {
        return Err(Interrupted.into());
    }
    measured
}

fn measure(
    config: &Config,
    event_bytes: u64,
    interrupted: &AtomicBool,
) -> anyhow::Result<SafeRate> {
    let driven = config::driven(config)?;
    let folder = TemporaryFolder::make(&config.data_dir)?;
    if let Some(free) = free_bytes(folder.path()) {
        let needed = FREE_BYTES_MIN.saturating_add(config.queue.reserve_bytes.0);
        ensure!(
            free >= needed,
            "{} MiB are free in {}, and {} MiB are needed; make room",
            free >> 20,
            folder.path().display(),
            needed >> 20
        );
    }
    let collector = StubCollector::start().context("no collector of our own can be started")?;
    let place = config::CalibrationSandbox {
        folder: folder.path(),
        http: collector.http,
        https: collector.https,
    };
    let course = CalibrationRun {
        driven: &driven,
        event_bytes,
        interrupted,
    };
    let all = course.run(config::prepared(config, &driven, &place, "all"), WATCH)?;
    let bare = if config::recognises(config) {
        let bare = config::bare(config::prepared(config, &driven, &place, "bare"));
        Some(course.run(bare, WATCH_BARE)?.intake_cost())
    } else {
        None
    };
    let Some(rate) = all.safe_rate(event_bytes, bare) else {
        bail!(
            "of the events that were sent none was delivered within {} s",
            WATCH.as_secs()
        );
    };
    Ok(rate)
}
