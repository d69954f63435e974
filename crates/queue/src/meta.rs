//! Metadata of the log: its name, how often it was opened, and whose cursors it has. One small JSON
//! file beside the segments, replaced as a whole.

use std::io;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::format::LogId;
use crate::storage::Storage;

const NAME: &str = "log.json";
const NEW_NAME: &str = "log.json.new";
const BYTES_MAX: usize = 16 * 1024 * 1024;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct MetaDocument {
    id: String,
    epoch: u32,
    cursors: Vec<CursorEntry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    not_durable: Vec<Range<u64>>,
    /// CRC-32C of this document with nothing here, in hexadecimal: a flipped bit would rename a
    /// destination.
    #[serde(default)]
    checksum: String,
}

impl MetaDocument {
    fn sealed(mut self) -> io::Result<Self> {
        self.checksum.clear();
        self.checksum = format!("{:08x}", inrush_event::crc32c(&serde_json::to_vec(&self)?));
        Ok(self)
    }
}

/// A destination that has a cursor.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct CursorEntry {
    pub(crate) name: String,
    /// Since when no destination of that name is configured: seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) abandoned_since: Option<i64>,
}

#[derive(Clone)]
pub(crate) struct Meta {
    pub(crate) id: LogId,
    pub(crate) epoch: u32,
    pub(crate) cursors: Vec<CursorEntry>,
    /// Numbers of events that a crash took before they were durable, in ascending order.
    pub(crate) not_durable: Vec<Range<u64>>,
}

impl Meta {
    /// Content of the file; `None` if there is none, or it is damaged.
    pub(crate) fn read(storage: &dyn Storage) -> Option<Self> {
        let file = storage.open(NAME).ok()?;
        let len = usize::try_from(file.len().ok()?).ok()?;
        let mut bytes = vec![0; len.min(BYTES_MAX)];
        let read = file.read_at(&mut bytes, 0).ok()?;
        let document: MetaDocument = serde_json::from_slice(&bytes[..read]).ok()?;
        if document.clone().sealed().ok()? != document {
            return None;
        }
        let id = u128::from_str_radix(&document.id, 16).ok()?;
        Some(Self {
            id: LogId(id.to_be_bytes()),
            epoch: document.epoch,
            cursors: document.cursors,
            not_durable: document.not_durable,
        })
    }

    /// Replaces the file.
    pub(crate) fn write(&self, storage: &dyn Storage) -> io::Result<()> {
        let document = MetaDocument {
            id: format!("{:032x}", u128::from_be_bytes(self.id.0)),
            epoch: self.epoch,
            cursors: self.cursors.clone(),
            not_durable: self.not_durable.clone(),
            checksum: String::new(),
        };
        let document = document.sealed()?;
        let text = serde_json::to_vec_pretty(&document)?;
        match storage.remove(NEW_NAME) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = storage.create(NEW_NAME)?;
        file.write_at(&[&text], 0)?;
        file.sync()?;
        storage.rename(NEW_NAME, NAME)?;
        storage.sync_names()
    }
}
