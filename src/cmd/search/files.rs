//! Answers from the files of a store, beside the process that writes them or without one. What is
//! in its memory only is not among them.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use inrush_config::Config;
use inrush_search::{SearchAnswer, SearchRequest, WorkerPool};
use inrush_sink::SinkConfig;
use inrush_store::Store;
use inrush_store::reply::SearchError;

use super::{ReplyIterator, SearchBackend};
use crate::cmd::{UsageError, bounds};

/// The files of a store.
pub(super) struct FilesBackend {
    workers: WorkerPool,
    store: Arc<Store>,
}

impl FilesBackend {
    /// The first store that the configuration names.
    pub(super) fn open(config: &Config) -> anyhow::Result<Self> {
        let mut sinks = config.destinations.values();
        let options = sinks.find_map(|sink| match sink {
            SinkConfig::Store(options) => Some(options),
            _ => None,
        });
        let none =
            "the configuration has no destination of `type: store`, so nothing is searchable";
        let options = options.ok_or_else(|| UsageError(none.to_owned()))?;
        let shown = options.shown(&config.data_dir);
        if !options.is_remote() && !Path::new(&shown).is_dir() {
            let missing = format!("there is no store at {shown} yet");
            return Err(anyhow::anyhow!(missing));
        }
        let home = options.home(&config.data_dir);
        let home = home.with_context(|| format!("cannot open {shown}"))?;
        let store = Store::open_read_only(home).with_context(|| format!("cannot read {shown}"))?;
        let workers = WorkerPool::start(&bounds::searches(&config.memory_budget()))
            .context("cannot start threads")?;
        Ok(Self { workers, store })
    }
}

fn replies(mut answer: SearchAnswer) -> ReplyIterator<'static> {
    Box::new(std::iter::from_fn(move || answer.next_blocking()))
}

impl SearchBackend for FilesBackend {
    fn search(&self, request: SearchRequest) -> Result<ReplyIterator<'_>, SearchError> {
        let (reader, snapshot) = (self.store.home().reader(), self.store.snapshot());
        let answer = self.workers.search(reader, move || snapshot, request)?;
        Ok(replies(answer))
    }

    fn sql(&self, statement: &str, limit: u64) -> Result<ReplyIterator<'_>, SearchError> {
        let (reader, snapshot) = (self.store.home().reader(), self.store.snapshot());
        let answer = self.workers.sql(reader, move || snapshot, statement, limit);
        Ok(replies(answer))
    }
}
