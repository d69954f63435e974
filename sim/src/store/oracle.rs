//! The oracle: each event once in the store, or owed by the queue, or taken by retention.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use inrush_store::plain;
use inrush_store::snapshot::DataFile;
use inrush_store::steps::SteppedWriter;

use super::queue::VirtualQueue;
use super::world::{StoreBackend, StoreVerdict};

/// Events that are in files, by queue and number.
pub(crate) type StoredEvents = BTreeSet<(usize, usize)>;

/// The event of a row.
fn event(queues: &[&VirtualQueue], row: &plain::PlainRow) -> Result<(usize, usize), String> {
    let (log, epoch, seq, _) = *row;
    let queue = queues.iter().position(|queue| queue.log() == log);
    let found = queue.and_then(|at| Some((at, queues[at].index(epoch, seq)?)));
    found.ok_or_else(|| format!("nobody made event {log}:{epoch}:{seq}"))
}

/// The events of files by their paths, each once.
pub(crate) fn held(
    place: &StoreBackend,
    queues: &[&VirtualQueue],
    paths: &BTreeSet<String>,
) -> Result<StoredEvents, String> {
    let mut found = BTreeMap::new();
    for path in paths {
        let bytes = place
            .peek(path)
            .ok_or_else(|| format!("{path} is not there"))?;
        let rows = plain::parse(&bytes).ok_or_else(|| format!("{path} is not what was written"))?;
        for row in &rows {
            let event = event(queues, row)?;
            if let Some(other) = found.insert(event, path) {
                return Err(format!("event {event:?} is twice: in {other} and {path}"));
            }
        }
    }
    Ok(found.into_keys().collect())
}

/// The files of a process's snapshot that are to be there.
pub(crate) fn listed(
    life: &SteppedWriter,
    place: &StoreBackend,
    is_damaged: bool,
) -> BTreeSet<String> {
    let files = life.store().snapshot().files;
    let path = |file: &Arc<DataFile>| file.location.to_string();
    // Of a damaged list a file that retention deleted may be left.
    let is_there = |file: &&Arc<DataFile>| {
        let names = [path(file), file.entry.path.clone()];
        !is_damaged || names.iter().any(|name| place.peek(name).is_some())
    };
    files.iter().filter(is_there).map(path).collect()
}

/// Looks at what a process shows.
pub(crate) fn look(
    life: &SteppedWriter,
    place: &StoreBackend,
    queues: &[&VirtualQueue],
    is_damaged: bool,
) -> Result<StoredEvents, String> {
    let found = held(place, queues, &listed(life, place, is_damaged))?;
    let mut shown = found.clone();
    for chunk in life.store().snapshot().tail.iter() {
        for row in plain::rows_of(&chunk.rows).unwrap_or_default() {
            let event = event(queues, &row)?;
            if !shown.insert(event) {
                return Err(format!("event {event:?} is twice in a snapshot"));
            }
        }
    }
    for (at, queue) in queues.iter().enumerate() {
        for (number, event) in queue.events().iter().enumerate() {
            let is_held = found.contains(&(at, number));
            if event.told && !is_held && !event.tried {
                return Err(format!(
                    "event {at}:{number} was delivered and is not there"
                ));
            }
            if event.gone && is_held && !is_damaged {
                return Err(format!("event {at}:{number} was deleted and came back"));
            }
            if event.lost && is_held {
                return Err(format!(
                    "event {at}:{number} was never durable, and is there"
                ));
            }
        }
    }
    Ok(found)
}

/// Counters must fit: `before` events were there at the start.
pub(crate) fn count(life: &SteppedWriter, before: u64) -> StoreVerdict {
    let counters = &life.store().counters;
    let expired: u64 = counters
        .expired
        .iter()
        .map(inrush_event::Counter::get)
        .sum();
    let account = life.store().account();
    let went: u64 = account.expired.iter().sum();
    if account.at_start + account.written != account.searchable + account.unreadable + went {
        return Err(format!("the account is not balanced: {account:?}"));
    }
    let (written, levels) = (counters.events.get(), life.store().levels());
    if before + written != levels.events + expired {
        let events = levels.events;
        return Err(format!(
            "{before} events were there and {written} written, {expired} expired: not {events}"
        ));
    }
    Ok(())
}

/// Events that another engine finds by names, once all is settled.
pub(crate) fn names(life: &SteppedWriter, place: &StoreBackend, is_damaged: bool) -> StoreVerdict {
    let listed = listed(life, place, is_damaged);
    // A file may have got its name by a request that arrived late, or has two.
    let files = life.store().snapshot().files;
    let named: BTreeSet<&str> = files.iter().map(|file| file.entry.path.as_str()).collect();
    for (path, _) in place.contents() {
        let is_known =
            path.starts_with("_log/") || path.ends_with(".unlisted") || path.ends_with(".parquet");
        if !is_known || path.ends_with(".part") {
            return Err(format!("{path} is left"));
        }
        if path.ends_with(".parquet") && !named.contains(path.as_str()) {
            return Err(format!(
                "{path} is not in the list, and every engine reads it"
            ));
        }
    }
    match listed.iter().find(|path| !path.ends_with(".parquet")) {
        Some(path) => Err(format!("{path} has not got its name")),
        None => Ok(()),
    }
}
