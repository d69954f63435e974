//! Place of a store's files, told to a process that only reads them.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use inrush_event::Secret;
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use serde::{Deserialize, Serialize};

use super::bucket::Bucket;
use super::{BucketOptions, DurableStorage};

/// Place of a store's files. It is written with the key of a bucket: only for a pipe between two
/// processes.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StorageLocation {
    /// A folder.
    Folder(PathBuf),
    /// A bucket.
    Bucket {
        /// Its address.
        url: String,
        /// As [`BucketOptions`] have it.
        endpoint: Option<String>,
        /// As [`BucketOptions`] have it.
        region: Option<String>,
        /// As [`BucketOptions`] have it.
        access_key_id: Option<String>,
        /// As [`BucketOptions`] have it.
        secret_access_key: Option<String>,
    },
}

impl fmt::Debug for StorageLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => write!(f, "{}", path.display()),
            Self::Bucket { url, .. } => f.write_str(url),
        }
    }
}

/// A place that was opened to be read.
#[derive(Debug)]
pub struct ReadOnlyStorage {
    storage: Arc<dyn ObjectStore>,
    /// Has the threads that ask a bucket.
    _bucket: Option<DurableStorage>,
}

impl ReadOnlyStorage {
    /// The files.
    pub fn storage(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.storage)
    }
}

impl StorageLocation {
    pub(super) fn bucket(bucket: &Bucket) -> Self {
        let options = bucket.options().clone();
        let secret = options.secret_access_key.as_ref();
        Self::Bucket {
            url: bucket.shown().to_owned(),
            endpoint: options.endpoint,
            region: options.region,
            access_key_id: options.access_key_id,
            secret_access_key: secret.map(|secret| secret.expose().to_owned()),
        }
    }

    /// Opens the place. Nothing is made or written there.
    ///
    /// # Errors
    /// The folder is not there, or there are no threads.
    pub fn open(&self) -> io::Result<ReadOnlyStorage> {
        match self {
            Self::Folder(path) => {
                let storage = LocalFileSystem::new_with_prefix(path).map_err(io::Error::other)?;
                Ok(ReadOnlyStorage {
                    storage: Arc::new(storage),
                    _bucket: None,
                })
            }
            Self::Bucket {
                url,
                endpoint,
                region,
                access_key_id,
                secret_access_key,
            } => {
                let options = BucketOptions {
                    endpoint: endpoint.clone(),
                    region: region.clone(),
                    access_key_id: access_key_id.clone(),
                    secret_access_key: secret_access_key.clone().map(Secret::new),
                };
                let home = DurableStorage::bucket(url, &options)?;
                Ok(ReadOnlyStorage {
                    storage: home.storage(),
                    _bucket: Some(home),
                })
            }
        }
    }
}
