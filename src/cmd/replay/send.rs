//! For real: which destinations, and what becomes of every page.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::Duration;

use anyhow::{anyhow, bail};
use inrush_inspect::replay::{ReplayDelivery, ReplayPage};
use inrush_pipeline::DataDirLock;
use inrush_sink::SinkConfig;

use super::origin::{self, ReplayOrigin};
use super::settle::Settler;
use super::tally::is_same;
use super::watch::WatchThread;
use super::{ReplayJob, ReplayResult, read};
use crate::cmd::UsageError;

/// Time of one wait for destinations, before it is looked whether there is any use in more.
const WAIT: Duration = Duration::from_millis(200);

/// Gives pages to destinations.
pub(crate) struct ReplaySender<'a> {
    delivery: ReplayDelivery,
    watch: &'a WatchThread,
    only_changed: bool,
    /// Takes events that were refused before out of quarantine, once they are delivered.
    settler: Option<Settler<'a>>,
}

/// Sends everything, and waits until it is delivered.
pub(super) fn run(job: &ReplayJob<'_>, done: &mut ReplayResult) -> anyhow::Result<()> {
    check(job)?;
    if job.origin != ReplayOrigin::Quarantine {
        let names = destinations(job)?;
        let _owner = own(job, &names)?;
        return send(job, &names, None, done);
    }
    let only = job.args.destination.first().map(String::as_str);
    for (name, events) in origin::refused_by(job.config, only, &job.range)? {
        if !job.config.destinations.contains_key(&name) {
            done.not_configured.insert(name, events);
            continue;
        }
        let names = [name];
        let owner = own(job, &names)?;
        send(job, &names, Some(owner.is_some()), done)?;
        if done.interrupted {
            break;
        }
    }
    Ok(())
}

/// Checks that what is named on the command line is there.
///
/// # Errors
/// A wrong use.
pub(super) fn check(job: &ReplayJob<'_>) -> anyhow::Result<()> {
    let quarantine = job.origin == ReplayOrigin::Quarantine;
    if quarantine && job.args.destination.len() > 1 {
        let text = "refused events go to the destination that refused them: name one at most";
        return Err(UsageError(text.to_owned()).into());
    }
    let known = &job.config.destinations;
    // Refused events of a destination that is gone can be looked at.
    let mut named = job.args.destination.iter();
    match named.find(|name| !known.contains_key(*name)) {
        Some(name) if job.args.send || !quarantine => {
            let names: Vec<&str> = known.keys().map(String::as_str).collect();
            let names = names.join(", ");
            let text = format!("there is no destination `{name}`; there are: {names}");
            Err(UsageError(text).into())
        }
        _ => Ok(()),
    }
}

/// Destinations of records of the store or of a file: as the command line says, or the one
/// destination that there is beside stores.
fn destinations(job: &ReplayJob<'_>) -> anyhow::Result<Vec<String>> {
    let named = &job.args.destination;
    if job.origin == ReplayOrigin::Store {
        let read = origin::store(job.config);
        if named.iter().any(|name| Some(name.as_str()) == read) {
            let text = "the store that is read cannot take what is read from it";
            return Err(UsageError(text.to_owned()).into());
        }
    }
    if !named.is_empty() {
        let once: BTreeSet<&String> = named.iter().collect();
        return Ok(once.into_iter().cloned().collect());
    }
    let all = job.config.destinations.iter();
    let others = all.filter(|(_, sink)| !matches!(sink, SinkConfig::Store(_)));
    let others: Vec<String> = others.map(|(name, _)| name.clone()).collect();
    match others.len() {
        1 => Ok(others),
        0 => {
            Err(UsageError("there is no destination beside the store to send to".to_owned()).into())
        }
        _ => {
            let text = format!(
                "which destination? --destination with: {}",
                others.join(", ")
            );
            Err(UsageError(text).into())
        }
    }
}

/// Takes the data directory, where a destination writes files that the running process writes too.
fn own(job: &ReplayJob<'_>, names: &[String]) -> anyhow::Result<Option<DataDirLock>> {
    let writes = |name: &&String| {
        let sink = job.config.destinations.get(*name);
        matches!(sink, Some(SinkConfig::File(_) | SinkConfig::Store(_)))
    };
    let stdout = |name: &String| {
        let sink = job.config.destinations.get(name);
        matches!(sink, Some(SinkConfig::Stdout(_)))
    };
    if let Some(name) = names.iter().find(|name| stdout(name)) {
        let text = format!("`{name}` writes to stdout, where the report goes: name another");
        return Err(UsageError(text).into());
    }
    let Some(name) = names.iter().find(writes) else {
        return Ok(None);
    };
    match DataDirLock::take(&job.config.data_dir) {
        Ok(owner) => Ok(Some(owner)),
        Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => {
            bail!("`{name}` writes files, which {error} writes too: stop it first")
        }
        Err(error) => bail!("data_dir {}: {error}", job.config.data_dir.display()),
    }
}

/// `settle`: refused events leave quarantine once they are delivered; says whether the data
/// directory is ours.
fn send(
    job: &ReplayJob<'_>,
    names: &[String],
    settle: Option<bool>,
    done: &mut ReplayResult,
) -> anyhow::Result<()> {
    let delivery = ReplayDelivery::start(job.config, names, settle.is_some());
    let delivery = delivery.map_err(|words| anyhow!(words))?;
    let watch = WatchThread::start(Some(delivery.view()))?;
    let mut sender = ReplaySender {
        delivery,
        watch: &watch,
        only_changed: job.args.changed,
        settler: settle.map(|owned| Settler::new(job, owned)),
    };
    let only = settle.and(names.first()).map(String::as_str);
    let result = read(job, only, Some(&mut sender), &watch, done);
    sender.wait();
    let sent = sender.delivery.finish();
    done.interrupted |= watch.finish();
    done.sent.push(sent);
    result
}

impl ReplaySender<'_> {
    /// Sends a page. With a settler it is waited until the page is delivered.
    pub(super) fn take(
        &mut self,
        mut page: ReplayPage,
        done: &mut ReplayResult,
    ) -> anyhow::Result<ControlFlow<()>> {
        if self.only_changed {
            let before = page.was.len();
            page.retain(|now, was| !is_same(now, was));
            done.left_out += (before - page.was.len()) as u64;
        }
        let (sequence, events) = (page.batch.sequence(), page.batch.len() as u64);
        let dropped = self.dropped();
        if !self.delivery.send(page.batch) {
            done.unsent += events;
            return Ok(ControlFlow::Break(()));
        }
        let Some(settler) = &self.settler else {
            return Ok(ControlFlow::Continue(()));
        };
        let numbers: Vec<u64> = page.was.iter().map(|(_, number)| *number).collect();
        let all = wait(&self.delivery, self.watch);
        let mut refused = self
            .delivery
            .refused()
            .remove(&sequence)
            .unwrap_or_default();
        if !all || self.dropped() != dropped {
            // Which of them arrived is not known: they stay.
            return Ok(ControlFlow::Break(()));
        }
        refused.sort_unstable();
        let delivered = (0..).zip(numbers);
        let delivered = delivered.filter(|(at, _)| refused.binary_search(at).is_err());
        settler.settle(delivered.map(|(_, number)| number).collect(), done);
        Ok(ControlFlow::Continue(()))
    }

    /// Events that destinations gave up.
    fn dropped(&self) -> u64 {
        let ledger = self.delivery.view().ledger();
        let destinations = ledger.destinations.values();
        destinations.flat_map(|one| one.dropped.values()).sum()
    }

    /// Waits until all is delivered, or somebody wants to wait no more.
    fn wait(&self) {
        wait(&self.delivery, self.watch);
    }
}

fn wait(delivery: &ReplayDelivery, watch: &WatchThread) -> bool {
    loop {
        if delivery.wait(WAIT) {
            return true;
        }
        if watch.is_over() || delivery.is_broken() {
            return false;
        }
    }
}
