//! The queue as the pipeline opens and watches it.

use std::io;
use std::sync::Arc;

use inrush_config::Config;
use inrush_event::Ledger;
use inrush_host::doctor::{device, total_bytes};
use inrush_queue::{Log, QueueOptions};
use inrush_sink::SinkConfig;

/// The options of the queue, with what depends on its disk filled in: its size, and what the stores
/// on it leave free.
pub(crate) fn options(config: &Config) -> QueueOptions {
    let folder = config.data_dir.join("queue");
    let total = total_bytes(&folder);
    let mut options = config.queue.clone().on_disk_of(total);
    let Some(total) = total else {
        return options;
    };
    let device = device(&folder);
    for destination in config.destinations.values() {
        if let SinkConfig::Store(store) = destination
            && let Some(path) = store.folder(&config.data_dir)
            && device.is_some()
            && self::device(&path) == device
        {
            options = options.beside(store.free_least(total), total);
        }
    }
    options
}

/// The log of events: on disk, unless the configuration says otherwise.
pub(crate) fn open_log(config: &Config, ledger: &Arc<Ledger>) -> io::Result<Arc<Log>> {
    let options = options(config);
    let folder = config.data_dir.join("queue");
    if !options.durability.has_disk() {
        return Log::in_memory(&folder, options, Arc::clone(ledger)).map_err(|error| {
            io::Error::new(error.kind(), format!("queue {}: {error}", folder.display()))
        });
    }
    let log = Log::open(&folder, options, Arc::clone(ledger)).map_err(|error| {
        io::Error::new(error.kind(), format!("queue {}: {error}", folder.display()))
    })?;
    let opened = log.opened();
    for (destination, events) in &opened.pending {
        tracing::info!(destination, events, "queue: pending since the last run");
    }
    for file in &opened.aside {
        tracing::warn!(
            file,
            "queue: not a segment of this queue, put aside in queue/bad"
        );
    }
    Ok(log)
}
