//! The requests that a store in a bucket makes, so that a test can have any of them go unanswered.

use std::fmt;
use std::io;

use bytes::Bytes;

use super::{CreateError, CreateOutcome, ListedObject};

/// A bucket, as the store asks for it. An object is there when the service has answered; a request
/// that fails may have had its effect, or have it later.
pub trait BucketIo: Send + Sync + fmt::Debug {
    /// Writes an object; one of this name is replaced.
    fn put(&self, path: &str, bytes: Bytes) -> io::Result<()>;
    /// Writes an object unless there is one of this name.
    fn create(&self, path: &str, bytes: Bytes) -> Result<CreateOutcome, CreateError>;
    /// Gives an object a second name, in place of one that has it. If there is no such object, but
    /// one of the second name, that is no error.
    fn copy(&self, from: &str, to: &str) -> io::Result<()>;
    /// Deletes an object, if there is one.
    fn delete(&self, path: &str) -> io::Result<()>;
    /// The bytes of an object of at most `bytes_max` bytes.
    fn get(&self, path: &str, bytes_max: u64) -> io::Result<Bytes>;
    /// Every object below a folder, in no order.
    fn list(&self, folder: &str) -> io::Result<Vec<ListedObject>>;
}
