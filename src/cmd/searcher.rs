//! Searcher of the admin API: answers its questions over the stores of the running pipeline.

use std::sync::{Arc, OnceLock};

use inrush_control::{SearchQuery, SearchReplies, Searcher};
use inrush_search::{Engine, SearchOptions, SearchRequest, WorkerPool};
use inrush_sink::Store;
use inrush_status::Admin;
use inrush_store::reply::SearchError;

/// The workers, and where the stores are found.
pub(crate) struct AdminSearcher {
    workers: WorkerPool,
    /// Follows what comes in, once somebody wants to: conditions over the newest events alone.
    engine: OnceLock<Arc<Engine>>,
    admin: Arc<dyn Admin>,
}

impl AdminSearcher {
    /// Gets ready. `options` bound the searches; their memory is that of all workers together.
    pub(crate) fn start(admin: Arc<dyn Admin>, options: &SearchOptions) -> std::io::Result<Self> {
        Ok(Self {
            workers: WorkerPool::start(options)?,
            engine: OnceLock::new(),
            admin,
        })
    }

    /// The threads of followers.
    fn engine(&self) -> Result<Arc<Engine>, SearchError> {
        if let Some(engine) = self.engine.get() {
            return Ok(Arc::clone(engine));
        }
        let options = SearchOptions {
            threads: 1,
            ..SearchOptions::default()
        };
        let engine = Engine::start(&options).map_err(|error| SearchError {
            message: format!("no thread to follow with: {error}"),
            ..SearchError::default()
        })?;
        Ok(Arc::clone(self.engine.get_or_init(|| Arc::new(engine))))
    }

    /// Reason why the store of that name, or the first, cannot be searched just now, if so.
    fn held(&self, name: Option<&str>) -> Option<String> {
        let held = self.admin.held_stores();
        let mut held = held.iter();
        let (name, why) = held.find(|(known, _)| name.is_none_or(|name| name == known))?;
        Some(format!("the store {name} is not open: {why}"))
    }

    /// The store of that name, or the first.
    fn store(&self, name: Option<&str>) -> Result<Arc<Store>, SearchError> {
        let stores = self.admin.stores();
        let names: Vec<&str> = stores.iter().map(|(name, _)| name.as_str()).collect();
        let found = stores
            .iter()
            .find(|(known, _)| name.is_none_or(|name| name == known));
        match (found, name) {
            (Some((_, store)), _) => Ok(Arc::clone(store)),
            _ if found.is_none() && self.held(name).is_some() => Err(SearchError {
                message: self.held(name).unwrap_or_default(),
                hint: Some("its events are kept in the queue meanwhile".to_owned()),
                ..SearchError::default()
            }),
            (None, Some(name)) if !names.is_empty() => Err(SearchError {
                message: format!("there is no store {name:?}"),
                hint: Some(format!("stores: {}", names.join(", "))),
                ..SearchError::default()
            }),
            (None, _) => Err(SearchError {
                message: "no destination keeps events here: there is nothing to search".to_owned(),
                hint: Some("add a destination of `type: store`".to_owned()),
                ..SearchError::default()
            }),
        }
    }
}

impl Searcher for AdminSearcher {
    fn search(&self, question: SearchQuery) -> Result<SearchReplies, SearchError> {
        let store = self.store(question.store.as_deref())?;
        let request = SearchRequest {
            from_ns: question.from_ns,
            to_ns: question.to_ns,
            limit: question.limit,
            buckets: question.buckets,
            fields: question.fields,
            future: question.future,
            ..SearchRequest::new(question.query)
        };
        let reader = store.home().reader();
        let snapshot = move || store.snapshot();
        Ok(Box::pin(self.workers.search(reader, snapshot, request)?))
    }

    fn sql(&self, statement: &str, limit: u64) -> Result<SearchReplies, SearchError> {
        let store = self.store(None)?;
        let reader = store.home().reader();
        let snapshot = move || store.snapshot();
        Ok(Box::pin(
            self.workers.sql(reader, snapshot, statement, limit),
        ))
    }

    fn tail(&self, query: &str) -> Result<SearchReplies, SearchError> {
        let store = self.store(None)?;
        Ok(Box::pin(inrush_search::tail(
            &self.engine()?,
            &store,
            query,
        )?))
    }
}
