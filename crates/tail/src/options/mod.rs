//! Options of files. Their doc comments are the reference page, and the order of fields is its
//! order.

use std::sync::Arc;
use std::time::Duration;

use inrush_codec::SyslogOptions;
use inrush_codec::multiline::{MultilineOptions, MultilineRule};
use inrush_event::{ByteSize, Period, limits};
use inrush_transport::files::glob::GlobSet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod workloads;

pub use workloads::{CompatibleCollector, DockerOptions, KubernetesOptions, WorkloadFields};

/// Files that other programs write: log files of a host, and those of containers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileSource {
    /// Patterns of the files to read: `*` and `?` within a name, `**` for any number of folders,
    /// `[a-z]` and `{a,b}`. They begin with `/`.
    #[schemars(length(min = 1), extend("examples" = [["/var/log/nginx/*.log"]]))]
    pub include: Vec<String>,
    /// Patterns of files that are not read though `include` names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// Form of their lines.
    #[serde(default)]
    pub format: FileFormat,
    /// Lines that are one event together, such as those of a stack trace: of a plain file, or of
    /// each stream of a container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multiline: Option<MultilineOptions>,
    /// Encoding of their characters. Events are UTF-8; what cannot be converted is shown as U+FFFD,
    /// and flagged `not_utf8`.
    #[serde(default)]
    pub encoding: FileEncoding,
    /// Place to begin with a file that is older than the first start. A younger one, and one that
    /// appears later, is read from its beginning.
    #[serde(default)]
    pub start_at: StartAt,
    /// Bytes of an event, at most, its pieces together. The rest of a longer one is cut, and
    /// counted.
    #[serde(default = "line_bytes_default")]
    pub max_line_bytes: ByteSize,
    /// Files that were last written longer ago are not read until they are written again. Default:
    /// all are read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub older_than: Option<Period>,
    /// Files that are compressed: `.gz`, and `.zst` with a window of at most 8 MiB.
    #[serde(default)]
    pub compressed: CompressedFiles,
    /// Time that a file stays open after its name is gone, at most: its descriptor keeps a volume
    /// from being unmounted. It is closed earlier once it was read to its end.
    #[serde(default = "rotate_hold_default")]
    pub rotate_hold: Period,
    /// Time between two looks at files that the kernel does not report changes of.
    #[serde(default = "poll_interval_default")]
    pub poll_interval: Period,
    /// Follows links to files outside the folders that `include` names.
    #[serde(default)]
    pub follow_outside: bool,
    /// The index of events that no rule sends elsewhere.
    #[serde(default = "index_default")]
    #[schemars(length(min = 1))]
    pub index: String,
    /// The sourcetype of events that no rule recognised. Default: `kube:container:NAME` for a
    /// container of Kubernetes, as Splunk's OpenTelemetry collector names it, else `file`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sourcetype: Option<String>,
    /// The source of the events. Default: the path of their file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The host of the events. Default: the name of this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Has packs recognise the lines, as for syslog.
    #[serde(default)]
    pub packs: bool,
    /// The product that writes the files, as `vendor/product`: packs are told, where rules alone
    /// cannot tell. It needs `packs: true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[^/]+/[^/]+$"), extend("examples" = ["nginx/nginx"]))]
    pub product: Option<String>,
    /// Metadata of the pods of this node, and annotations of those who own them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<KubernetesOptions>,
    /// Metadata of the containers that docker runs by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub docker: Option<DockerOptions>,
}

/// Form of the lines of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileFormat {
    /// By the first line of each file.
    #[default]
    Auto,
    /// Text, a line an event.
    Lines,
    /// Docker's `json-file` driver: an object of JSON a line.
    Docker,
    /// The Container Runtime Interface of Kubernetes (containerd, CRI-O): time, stream and tag
    /// before the text.
    Cri,
}

/// Encoding of the characters of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub enum FileEncoding {
    /// UTF-8, and all encodings with ASCII as their part. A byte order mark at the beginning is
    /// left out.
    #[default]
    #[serde(rename = "utf-8")]
    Utf8,
    /// UTF-16, if the file begins with its byte order mark, which tells the order of bytes. A file
    /// without a mark is read as UTF-8. Files of containers are never UTF-16.
    #[serde(rename = "utf-16")]
    Utf16,
}

/// Treatment of compressed files that match the patterns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CompressedFiles {
    /// They are not read.
    #[default]
    Skip,
    /// Each is read once. The compressed copy of a file that was read is not read again.
    Read,
}

/// Place in a file at which reading begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StartAt {
    /// Its first byte.
    #[default]
    Beginning,
    /// Its end.
    End,
}

fn index_default() -> String {
    "main".to_owned()
}

fn line_bytes_default() -> ByteSize {
    ByteSize(limits::MESSAGE_BYTES_MAX as u64)
}

fn rotate_hold_default() -> Period {
    Period(Duration::from_secs(30 * 60))
}

fn poll_interval_default() -> Period {
    Period(Duration::from_secs(5))
}

/// Shortest and longest line that can be configured: with headers and escapes it must fit into a
/// batch.
const LINE_BYTES: std::ops::RangeInclusive<u64> = 1024..=limits::MESSAGE_BYTES_MAX as u64;

/// Path of an option below its source, and its fault in words.
pub type OptionFault = (String, String);

fn fault(path: impl Into<String>, words: impl ToString) -> OptionFault {
    (path.into(), words.to_string())
}

impl FileSource {
    /// Options by which headers are read where packs ask for them.
    pub(super) fn header_options(&self) -> SyslogOptions {
        SyslogOptions::default()
    }

    fn check_patterns(&self) -> Result<(), OptionFault> {
        if self.include.is_empty() {
            return Err(fault("include", "name a file or a pattern"));
        }
        for (key, patterns) in [("include", &self.include), ("exclude", &self.exclude)] {
            for (at, pattern) in patterns.iter().enumerate() {
                let set = GlobSet::new(std::slice::from_ref(pattern), &[]);
                set.map_err(|(_, found)| fault(format!("{key}[{at}]"), found))?;
            }
        }
        Ok(())
    }

    fn check_workloads(&self) -> Result<(), OptionFault> {
        let below =
            |section: &str, (path, words): OptionFault| (format!("{section}.{path}"), words);
        if let Some(kubernetes) = &self.kubernetes {
            (kubernetes.check()).map_err(|fault| below("kubernetes", fault))?;
        }
        match &self.docker {
            Some(docker) => docker.check().map_err(|fault| below("docker", fault)),
            None => Ok(()),
        }
    }

    /// The rule by which lines are put together, if there is one.
    ///
    /// # Errors
    /// In words: its options describe none.
    pub(super) fn multiline_rule(&self) -> Result<Option<Arc<MultilineRule>>, String> {
        let rule = self.multiline.as_ref().map(MultilineOptions::rule);
        Ok(rule.transpose()?.map(Arc::new))
    }

    fn check_multiline(&self) -> Result<(), OptionFault> {
        let rule = self.multiline_rule();
        rule.map_err(|words| fault("multiline", words))?;
        let lines = self.multiline.as_ref();
        match lines.is_some_and(|lines| lines.max.0 == 0) {
            true => Err(fault("multiline.max", "an event has at least a byte")),
            false => Ok(()),
        }
    }

    /// Checks that they can be used, but for `product`.
    ///
    /// # Errors
    /// The first option that cannot.
    pub fn check(&self) -> Result<(), OptionFault> {
        self.check_patterns()?;
        self.check_workloads()?;
        self.check_multiline()?;
        match LINE_BYTES.contains(&self.max_line_bytes.0) {
            true => Ok(()),
            false => Err(fault(
                "max_line_bytes",
                "a line has 1KiB to 1MiB; what is longer is cut",
            )),
        }
    }
}
