//! A store in a bucket that speaks S3.
//!
//! An object is there when the service has answered, and not in part before. A commit is an object
//! that is made only where there is none of its name (`If-None-Match: *`), so that two writers
//! cannot both believe that they made it. S3 has no renaming: an object is copied and deleted.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use inrush_event::Secret;
use object_store::aws::{AmazonS3Builder, S3ConditionalPut};
use object_store::client::SpawnedReqwestConnector;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{
    BackoffConfig, ClientOptions, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload,
    RetryConfig,
};
use tokio::runtime::Runtime;
use url::Url;

use super::objects::BucketIo;
use super::{CreateError, CreateOutcome, ListedObject};

/// Objects of more bytes are sent in parts of so many. A part, not the object, is tried again.
const PART_BYTES: usize = 16 * 1024 * 1024;

/// Parts on their way at once.
const PARTS_AT_ONCE: usize = 4;

/// Timeout of one request.
const REQUEST_MAX: Duration = Duration::from_secs(60);

/// Number of retries of one call, and the time for them. Both are small, for the writer tries again
/// after it, and says so.
const RETRIES: usize = 3;
const RETRY_MAX: Duration = Duration::from_secs(5);

/// Endpoint, region and credentials of a bucket. What is not given comes from the environment or
/// from the role of the machine. The environment has `AWS_ACCESS_KEY_ID`, `AWS_REGION` and the
/// others of the AWS tools.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct BucketOptions {
    /// Address of a service that is not Amazon's, such as `http://127.0.0.1:8333`.
    pub endpoint: Option<String>,
    /// Region of the bucket.
    pub region: Option<String>,
    /// ID of the access key.
    pub access_key_id: Option<String>,
    /// The secret that belongs to it.
    pub secret_access_key: Option<Secret>,
}

/// A bucket, or what lies below a folder of it.
#[derive(Debug)]
pub(super) struct Bucket {
    url: String,
    options: BucketOptions,
    storage: Arc<dyn ObjectStore>,
    runtime: Runtime,
}

/// Checks the address of a bucket.
///
/// # Errors
/// It is not like `s3://bucket` or `s3://bucket/folder`.
pub fn check_url(url: &str) -> Result<(), String> {
    parts(url).map(|_| ())
}

/// The bucket and the folder in it, empty if there is none.
fn parts(url: &str) -> Result<(String, String), String> {
    let parsed = Url::parse(url).map_err(|error| error.to_string())?;
    if parsed.scheme() != "s3" {
        let scheme = parsed.scheme();
        return Err(format!(
            "`{scheme}://` is not known: use s3://BUCKET/FOLDER"
        ));
    }
    let more = parsed.port().is_some()
        || !parsed.username().is_empty()
        || parsed.password().is_some()
        || parsed.query().is_some()
        || parsed.fragment().is_some();
    match parsed.host_str() {
        Some(bucket) if !bucket.is_empty() && !more => {
            let folder = parsed.path().trim_matches('/');
            Ok((bucket.to_owned(), folder.to_owned()))
        }
        _ => Err("use s3://BUCKET or s3://BUCKET/FOLDER and nothing else".to_owned()),
    }
}

impl Bucket {
    pub(super) fn open(url: &str, options: &BucketOptions) -> io::Result<Self> {
        let (bucket, folder) = parts(url).map_err(invalid)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("store-s3")
            .enable_all()
            .build()?;
        let mut builder = AmazonS3Builder::from_env()
            .with_bucket_name(bucket)
            .with_conditional_put(S3ConditionalPut::ETagMatch)
            .with_http_connector(SpawnedReqwestConnector::new(runtime.handle().clone()))
            .with_retry(RetryConfig {
                backoff: BackoffConfig::default(),
                max_retries: RETRIES,
                retry_timeout: RETRY_MAX,
            });
        let mut client = ClientOptions::new().with_timeout(REQUEST_MAX);
        if let Some(endpoint) = &options.endpoint {
            client = client.with_allow_http(endpoint.starts_with("http://"));
            builder = builder.with_endpoint(endpoint);
        }
        if let Some(region) = &options.region {
            builder = builder.with_region(region);
        }
        if let Some(id) = &options.access_key_id {
            builder = builder.with_access_key_id(id);
        }
        if let Some(secret) = &options.secret_access_key {
            builder = builder.with_secret_access_key(secret.expose());
        }
        let s3 = builder.with_client_options(client).build().map_err(plain)?;
        let storage: Arc<dyn ObjectStore> = if folder.is_empty() {
            Arc::new(s3)
        } else {
            Arc::new(PrefixStore::new(s3, folder))
        };
        Ok(Self {
            url: url.trim_end_matches('/').to_owned(),
            options: options.clone(),
            storage,
            runtime,
        })
    }

    pub(super) const fn options(&self) -> &BucketOptions {
        &self.options
    }

    pub(super) fn shown(&self) -> &str {
        &self.url
    }

    pub(super) fn storage(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.storage)
    }

    async fn put_in_parts(&self, path: &Path, bytes: &Bytes) -> object_store::Result<()> {
        let mut upload = self.storage.put_multipart(path).await?;
        let begins = (0..bytes.len()).step_by(PART_BYTES);
        let part = |begin: usize| bytes.slice(begin..bytes.len().min(begin + PART_BYTES));
        let parts: Vec<_> = begins
            .map(|begin| upload.put_part(PutPayload::from_bytes(part(begin))))
            .collect();
        let sent = futures::stream::iter(parts)
            .buffer_unordered(PARTS_AT_ONCE)
            .try_collect::<()>()
            .await;
        let done = match sent {
            Ok(()) => upload.complete().await.map(|_| ()),
            Err(error) => Err(error),
        };
        if done.is_err() {
            // Parts of an upload that was never ended cost money; a rule of the bucket deletes
            // what even this leaves.
            let _ = upload.abort().await;
        }
        done
    }
}

impl BucketIo for Bucket {
    fn put(&self, path: &str, bytes: Bytes) -> io::Result<()> {
        let path = Path::from(path);
        if bytes.len() <= PART_BYTES {
            let put = self.storage.put(&path, PutPayload::from_bytes(bytes));
            return self.runtime.block_on(put).map(|_| ()).map_err(plain);
        }
        let whole = self.put_in_parts(&path, &bytes);
        self.runtime.block_on(whole).map_err(plain)
    }

    fn create(&self, path: &str, bytes: Bytes) -> Result<CreateOutcome, CreateError> {
        let path = Path::from(path);
        let options = PutOptions::from(PutMode::Create);
        let put = self
            .storage
            .put_opts(&path, PutPayload::from_bytes(bytes), options);
        match self.runtime.block_on(put) {
            Ok(_) => Ok(CreateOutcome::Made),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(CreateOutcome::Taken),
            // Whatever the last answer says: a request before it, of the same call, may have been
            // carried out, or be carried out yet.
            Err(error) => Err(CreateError::Unknown(plain(error))),
        }
    }

    fn copy(&self, from: &str, to: &str) -> io::Result<()> {
        let (old, new) = (Path::from(from), Path::from(to));
        match self.runtime.block_on(self.storage.copy(&old, &new)) {
            Err(object_store::Error::NotFound { .. }) => {
                let there = self.runtime.block_on(self.storage.head(&new));
                there.map(|_| ()).map_err(plain)
            }
            done => done.map(|_| ()).map_err(plain),
        }
    }

    fn delete(&self, path: &str) -> io::Result<()> {
        let path = Path::from(path);
        match self.runtime.block_on(self.storage.delete(&path)) {
            Err(object_store::Error::NotFound { .. }) => Ok(()),
            done => done.map_err(plain),
        }
    }

    fn get(&self, path: &str, bytes_max: u64) -> io::Result<Bytes> {
        let path = Path::from(path);
        let got = async {
            let got = self.storage.get(&path).await?;
            if got.meta.size > bytes_max {
                return Ok(Err(got.meta.size));
            }
            got.bytes().await.map(Ok)
        };
        match self.runtime.block_on(got).map_err(plain)? {
            Ok(bytes) => Ok(bytes),
            Err(found) => {
                let message = format!("it has {found} bytes, and {bytes_max} at most can be right");
                Err(io::Error::new(io::ErrorKind::InvalidData, message))
            }
        }
    }

    fn list(&self, folder: &str) -> io::Result<Vec<ListedObject>> {
        let prefix = (!folder.is_empty()).then(|| Path::from(folder));
        let listed = self
            .storage
            .list(prefix.as_ref())
            .map_ok(|meta| ListedObject {
                path: meta.location.to_string(),
                bytes: meta.size,
            });
        self.runtime.block_on(listed.try_collect()).map_err(plain)
    }
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

/// With what it means for who must act on it.
fn plain(error: object_store::Error) -> io::Error {
    let kind = match &error {
        object_store::Error::NotFound { .. } => io::ErrorKind::NotFound,
        object_store::Error::AlreadyExists { .. } => io::ErrorKind::AlreadyExists,
        object_store::Error::PermissionDenied { .. }
        | object_store::Error::Unauthenticated { .. } => io::ErrorKind::PermissionDenied,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_bucket_and_perhaps_a_folder() {
        let of = |url: &str| parts(url).ok();
        let pair = |bucket: &str, folder: &str| Some((bucket.to_owned(), folder.to_owned()));
        assert_eq!(of("s3://logs"), pair("logs", ""));
        assert_eq!(of("s3://logs/"), pair("logs", ""));
        assert_eq!(of("s3://logs/sec/events/"), pair("logs", "sec/events"));
        for bad in [
            "s3://",
            "gs://logs",
            "s3://logs:90/x",
            "s3://u:p@logs",
            "s3://logs?a=b",
        ] {
            assert!(check_url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_secret_is_not_shown() {
        let options = BucketOptions {
            secret_access_key: Some(Secret::new("hush")),
            ..BucketOptions::default()
        };
        assert!(!format!("{options:?}").contains("hush"));
    }
}
