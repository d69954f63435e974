//! Docker's own description of a container, `config.v2.json` beside its log.
//!
//! Docker replaces the file by a rename, so a reader sees an old or a new one, never a mix. The
//! shape is that of docker 20.10 (`container/container.go`); fields that are not needed are
//! skipped.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::text_map::TextMap;

/// Bytes of a `config.v2.json` that are read; that of a container with 500 labels has 60 KB.
pub const DOCKER_CONFIG_BYTES_MAX: u64 = 4 << 20;

/// Container as docker describes it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DockerContainer {
    /// Id, 64 hexadecimal digits.
    pub id: String,
    /// Name without docker's leading `/`.
    pub name: String,
    /// Image as it was asked for, such as `nginx:1.29`.
    pub image: String,
    /// Host name inside the container.
    pub hostname: String,
    /// Path of its current log, in docker's own view of the file system.
    pub log_path: String,
    /// All labels, those of the image too.
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// Labels left out, for their length or their number.
    pub labels_skipped: u32,
}

/// Error of a `config.v2.json`: it is not what docker writes.
#[derive(Debug, thiserror::Error)]
pub enum DockerConfigError {
    /// Not JSON of the expected shape.
    #[error("is not what docker writes: {0}")]
    Malformed(#[from] serde_json::Error),
    /// No id.
    #[error("has no `ID`")]
    NoId,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ContainerWire {
    #[serde(rename = "ID", default)]
    id: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    log_path: Option<String>,
    #[serde(default)]
    config: Option<ConfigWire>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase")]
struct ConfigWire {
    #[serde(default)]
    image: Option<String>,
    #[serde(default)]
    hostname: Option<String>,
    #[serde(default)]
    labels: TextMap,
}

impl DockerContainer {
    /// Reads the bytes of a `config.v2.json`, at most [`DOCKER_CONFIG_BYTES_MAX`] of them.
    ///
    /// # Errors
    /// The file is damaged, or not docker's. The log is then read without its metadata.
    pub fn from_json(json: &[u8]) -> Result<Self, DockerConfigError> {
        let wire: ContainerWire = serde_json::from_slice(json)?;
        let config = wire.config.unwrap_or_default();
        let id = wire.id.filter(|id| !id.is_empty());
        let name = wire.name.unwrap_or_default();
        Ok(Self {
            id: id.ok_or(DockerConfigError::NoId)?,
            name: name.trim_start_matches('/').to_owned(),
            image: config.image.unwrap_or_default(),
            hostname: config.hostname.unwrap_or_default(),
            log_path: wire.log_path.unwrap_or_default(),
            labels_skipped: config.labels.skipped,
            labels: config.labels.entries,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn needed_fields_are_read_from_what_docker_writes() {
        let json = br#"{"StreamConfig":{},"State":{"Running":true,"Pid":4242},"ID":"abc",
            "Created":"2026-11-25T06:26:07.9Z","Managed":false,"Path":"/x","Args":[],
            "Config":{"Hostname":"h1","Env":["A=b"],"Image":"nginx:1.29",
              "Labels":{"inrush.io/index":"web","other":"x"}},
            "LogPath":"/var/lib/docker/containers/abc/abc-json.log","Name":"/web"}"#;
        let read = DockerContainer::from_json(json).unwrap();
        assert_eq!(
            (&*read.id, &*read.name, &*read.image),
            ("abc", "web", "nginx:1.29")
        );
        assert_eq!(read.hostname, "h1");
        assert!(read.log_path.ends_with("abc-json.log"));
        assert_eq!(
            read.labels.get("inrush.io/index").map(|text| &**text),
            Some("web")
        );
        assert_eq!(read.labels.len(), 2);
    }

    #[test]
    fn absent_fields_are_empty_and_damage_is_an_error() {
        let read = DockerContainer::from_json(br#"{"ID":"a","Config":{"Labels":null}}"#).unwrap();
        assert_eq!(read.id, "a");
        assert!(read.labels.is_empty() && read.name.is_empty());
        for json in [
            &b""[..],
            b"{",
            b"[]",
            b"{}",
            br#"{"ID":""}"#,
            b"{\"ID\":\"\xff\"}",
        ] {
            assert!(
                DockerContainer::from_json(json).is_err(),
                "{}",
                json.escape_ascii()
            );
        }
    }
}
