//! `names.json` in `data_dir`: what senders called themselves, over a restart.
//!
//! A JSON object: `version`, and `senders`, a list of `ip`, `name` and, where the sender gave them,
//! `address` (one that is not its own) and `changed_ns` (when it gave another name or address, in
//! nanoseconds since 1970); who was not heard of for longest first.
//! A file that cannot be read costs the names, which are learnt again.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::Path;

use inrush_event::Timestamp;
use serde::{Deserialize, Serialize};

use super::learned::SenderIdentity;
use super::{SENDERS_MAX, is_name};
use crate::state_file;

/// The name of the file.
pub(super) const FILE: &str = "names.json";

/// Bytes of the file, at most: [`SENDERS_MAX`] rows of the longest names and addresses.
const BYTES_MAX: u64 = 32 * 1024 * 1024;

/// Version of the file's format; another one is not read.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct NamesDocument<'d> {
    version: u32,
    #[serde(borrow)]
    senders: Vec<NameEntry<'d>>,
}

#[derive(Serialize, Deserialize)]
struct NameEntry<'d> {
    ip: IpAddr,
    name: &'d str,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    address: &'d str,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    changed_ns: Option<i64>,
}

/// Reads the names that were kept, the oldest first; none if there is no file.
///
/// # Errors
/// The file cannot be read, or is none of ours.
pub(super) fn read(path: &Path) -> io::Result<Vec<(IpAddr, SenderIdentity)>> {
    let Some(bytes) = state_file::read(path, BYTES_MAX)? else {
        return Ok(Vec::new());
    };
    let document: NamesDocument<'_> = serde_json::from_slice(&bytes)?;
    let sound = |row: &NameEntry<'_>| {
        let address = row.address.is_empty() || row.address.parse::<IpAddr>().is_ok();
        address && is_name(row.name.as_bytes())
    };
    let sound = document.senders.iter().all(sound);
    if document.version != VERSION || !sound || document.senders.len() > SENDERS_MAX {
        return Err(state_file::not_ours());
    }
    let own = |row: &NameEntry<'_>| SenderIdentity {
        name: row.name.into(),
        address: row.address.into(),
        changed: row.changed_ns.map(Timestamp),
    };
    Ok(document
        .senders
        .iter()
        .map(|row| (row.ip, own(row)))
        .collect())
}

/// Replaces the file. With `sync` it is on the disk by the end; else the kernel may still hold it.
///
/// # Errors
/// The disk cannot be written; what was there is there still.
pub(super) fn write<'k>(
    path: &Path,
    known: impl Iterator<Item = &'k (IpAddr, SenderIdentity)>,
    sync: bool,
) -> io::Result<()> {
    let row = |(ip, own): &'k (IpAddr, SenderIdentity)| NameEntry {
        ip: *ip,
        name: &own.name,
        address: &own.address,
        changed_ns: own.changed.map(|at| at.0),
    };
    let document = NamesDocument {
        version: VERSION,
        senders: known
            .filter(|(_, own)| !own.name.is_empty())
            .map(row)
            .collect(),
    };
    state_file::write(path, &document, sync)
}

/// Takes the file away, if there is one.
pub(super) fn remove(path: &Path) {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            let file = path.display();
            tracing::warn!(%file, %error, "the names of senders cannot be forgotten");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn known() -> Vec<(IpAddr, SenderIdentity)> {
        let own = |name: &str, changed: Option<Timestamp>| SenderIdentity {
            name: name.into(),
            address: if changed.is_some() { "10.0.0.1" } else { "" }.into(),
            changed,
        };
        vec![
            ("192.0.2.7".parse().unwrap(), own("fw1", None)),
            (
                "2001:db8::7".parse().unwrap(),
                own("db1.example.com", Some(Timestamp(7))),
            ),
        ]
    }

    #[test]
    fn what_is_kept_is_read_again_in_its_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        assert_eq!(read(&path).unwrap(), []);
        write(&path, known().iter(), true).unwrap();
        assert_eq!(read(&path).unwrap(), known());
        remove(&path);
        assert_eq!(read(&path).unwrap(), []);
    }

    #[test]
    fn a_file_that_is_none_of_ours_is_refused_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        write(&path, known().iter(), false).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let many = vec![r#"{"ip":"192.0.2.7","name":"a"}"#; SENDERS_MAX + 1].join(",");
        for broken in [
            text[..text.len() / 2].to_owned(),
            text.replace("fw1", "fw 1"),
            text.replace("192.0.2.7", "192.0.2.700"),
            text.replace("10.0.0.1", "somewhere"),
            text.replace("\"version\":1", "\"version\":2"),
            format!(r#"{{"version":1,"senders":[{many}]}}"#),
            String::new(),
            "[]".to_owned(),
        ] {
            fs::write(&path, &broken).unwrap();
            assert!(read(&path).is_err(), "{broken:.80}");
        }
    }
}
