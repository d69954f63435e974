//! `inrush replay`: reads kept records again by today's packs, says what would change, and sends
//! them if asked to.
//!
//! Records are streamed: memory holds a few pages of them ([`inrush_inspect::replay`]) and the
//! counts. Nothing is written but to destinations, and to quarantine, which what was delivered
//! leaves. Every record that was read is in the report once: filtered, left out, delivered,
//! refused, or not delivered.

mod args;
mod lines;
mod origin;
mod range;
mod report;
mod send;
mod settle;
mod tally;
mod watch;

use std::ops::ControlFlow;
use std::process::ExitCode;

use anyhow::anyhow;
use inrush_config::Config;
use inrush_inspect::replay::{RecordReplayer, ReplayPage, StoredRecord};

use super::UsageError;
use origin::{Missing, ReplayOrigin};
use range::ReplayRange;
use send::ReplaySender;
use tally::ReplayTally;
use watch::WatchThread;

pub(crate) use args::ReplayArgs;

/// Since when, of the store; of everything else all is read unless a time is given.
const SINCE_DEFAULT: &str = "15m";

/// The replay that is asked for, checked.
pub(crate) struct ReplayJob<'a> {
    args: &'a ReplayArgs,
    config: &'a Config,
    origin: ReplayOrigin<'a>,
    range: ReplayRange,
}

/// Runs a replay.
pub(crate) fn run(args: &ReplayArgs) -> anyhow::Result<ExitCode> {
    let mut config = args.config.load()?;
    if let Some(data_dir) = &args.data_dir {
        data_dir.clone_into(&mut config.data_dir);
    }
    let origin = ReplayOrigin::of(&args.from);
    if args.query.is_some() && origin != ReplayOrigin::Store {
        let text = "a query asks the store; leave it out, or --from";
        return Err(UsageError(text.to_owned()).into());
    }
    let since = match (&args.since, origin) {
        (Some(since), _) => since,
        (None, ReplayOrigin::Store) => SINCE_DEFAULT,
        (None, _) => "all",
    };
    let job = ReplayJob {
        args,
        config: &config,
        origin,
        range: ReplayRange::new(since, args.until.as_deref())?,
    };
    let mut done = ReplayResult::default();
    if args.send {
        send::run(&job, &mut done)?;
    } else {
        send::check(&job)?;
        let watch = WatchThread::start(None)?;
        read(&job, None, None, &watch, &mut done)?;
        done.interrupted = watch.finish();
    }
    report::print(&job, &done)?;
    Ok(match done.is_whole() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Result of a replay.
#[derive(Default)]
pub(crate) struct ReplayResult {
    tally: ReplayTally,
    /// Descriptions of what could not be read.
    missing: Missing,
    /// Sources that are not configured, with the number of their records.
    strangers: std::collections::BTreeMap<String, u64>,
    /// As whose records those count.
    stand_in: String,
    interrupted: bool,
    /// One for each time that destinations were opened.
    sent: Vec<inrush_inspect::replay::DeliveryReport>,
    /// Events that were left out because they come out as they were.
    left_out: u64,
    /// Events that were not sent any more, since a signal came.
    unsent: u64,
    /// Refused events that were delivered now and left quarantine.
    settled: u64,
    /// Those that were delivered and lie there still, and why.
    left_behind: u64,
    left_behind_because: Option<String>,
    /// Refused events by their destination, where that is not configured.
    not_configured: std::collections::BTreeMap<String, u64>,
}

impl ReplayResult {
    /// True if all that was asked for was done.
    fn is_whole(&self) -> bool {
        let delivered = |sent: &inrush_inspect::replay::DeliveryReport| {
            let mut destinations = sent.ledger.destinations.values();
            sent.refused.is_empty() && destinations.all(|one| one.accepted == one.delivered)
        };
        self.missing.is_empty()
            && !self.interrupted
            && self.unsent == 0
            && self.left_behind == 0
            && self.not_configured.is_empty()
            && self.sent.iter().all(delivered)
    }
}

/// Reads records again, of `destination` alone where they are refused ones; counts them, and gives
/// each page to `sender`.
pub(crate) fn read(
    job: &ReplayJob<'_>,
    destination: Option<&str>,
    mut sender: Option<&mut ReplaySender<'_>>,
    watch: &WatchThread,
    done: &mut ReplayResult,
) -> anyhow::Result<()> {
    let source = job.args.source.as_deref();
    let named = |words: Vec<String>| anyhow!(UsageError(words.join("\n")));
    let mut reader = RecordReplayer::new(job.config, source).map_err(named)?;
    let limit = job.args.limit.unwrap_or(u64::MAX);
    let mut left = limit.saturating_sub(done.tally.read);
    let mut page = |page: ReplayPage, done: &mut ReplayResult| -> anyhow::Result<ControlFlow<()>> {
        done.tally.count(&page);
        watch.counted(done.tally.read);
        match &mut sender {
            Some(sender) => sender.take(page, done),
            None => Ok(ControlFlow::Continue(())),
        }
    };
    let mut take = |stored: StoredRecord<'_>| {
        if left == 0 || watch.is_over() {
            return Ok(ControlFlow::Break(()));
        }
        left -= 1;
        for full in reader.take(stored).map_err(|words| anyhow!(words))? {
            if page(full, done)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    };
    let range = &job.range;
    let missing = match job.origin {
        ReplayOrigin::Store => {
            let query = job.args.query.as_deref().unwrap_or("*");
            let progress = |files, of| watch.files(files, of);
            origin::from_store(job.config, query, range, &progress, &mut take)?
        }
        ReplayOrigin::Quarantine => {
            let named = job.args.destination.first().map(String::as_str);
            origin::from_quarantine(job.config, destination.or(named), range, &mut take)?
        }
        ReplayOrigin::File(path) => origin::from_file(path, range, &mut take)?,
    };
    for last in reader.finish() {
        if page(last, done)?.is_break() {
            break;
        }
    }
    done.missing.extend(missing);
    for (name, count) in reader.strangers() {
        *done.strangers.entry(name.clone()).or_default() += count;
    }
    reader.stand_in().clone_into(&mut done.stand_in);
    Ok(())
}
