//! The embedded store as a destination: what it says of itself goes into the status that all
//! destinations have.

use std::io;
use std::path::Path;
use std::sync::Arc;

use inrush_event::Feed;
use inrush_store::writer::{self, Observer};
use inrush_store::{Store, WriteOptions};

use super::StoreConfig;
use crate::{ErrorReason, Sink, SinkError, SinkStatus};

/// The sink that writes to the embedded store.
pub struct StoreSink {
    store: Arc<Store>,
    options: WriteOptions,
    status: Arc<SinkStatus>,
}

impl StoreSink {
    pub(crate) fn open(
        config: &StoreConfig,
        data_dir: &Path,
        status: Arc<SinkStatus>,
    ) -> Result<Self, SinkError> {
        let opened = config.home(data_dir).and_then(Store::open);
        let store = opened.map_err(|cause| SinkError::Store {
            path: config.shown(data_dir),
            cause,
        })?;
        Ok(Self {
            store,
            options: config.write_options(),
            status,
        })
    }
}

struct Status(Arc<SinkStatus>);

impl Observer for Status {
    fn committed(&self, bytes: u64) {
        self.0.attempted();
        self.0
            .succeeded(usize::try_from(bytes).unwrap_or(usize::MAX));
    }

    fn failed(&self, error: &io::Error) {
        self.0.attempted();
        self.0
            .failed(ErrorReason::of_file(error), &error.to_string());
    }
}

impl Sink for StoreSink {
    fn run(self: Box<Self>, feed: Arc<dyn Feed>) {
        let observer: Arc<dyn Observer> = Arc::new(Status(self.status));
        writer::run(&self.store, &self.options, &feed, &observer);
    }

    fn store(&self) -> Option<Arc<Store>> {
        Some(Arc::clone(&self.store))
    }
}
