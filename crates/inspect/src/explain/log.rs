//! Explanation of a log: its lines, the events that they are joined to, and their names.
//!
//! # What it guarantees
//! * The source's own decoder reads the lines (`inrush_tail::preview`); what comes behind
//!   is that of every record.
//! * Each value of an event is shown with the last step that set it: an annotation, the log, the
//!   source, a rule or a transform.
//!
//! # Limits
//! Memory is bounded by the longest line that the source takes.

use std::io::{self, BufRead};

use inrush_config::{Config, SourceOptions};
use inrush_event::{Batch, Record, Timestamp, limits};
use inrush_source::file;
use inrush_tail::options::FileSource;
use inrush_tail::preview::{LogPreview, PreviewedLog};

use super::collector::ValueTrail;
use super::pod_policy::PodPolicy;
use super::{Explainer, RecordExplanation};

pub use inrush_tail::options::FileFormat;
pub use inrush_tail::preview::{EventLines, LogTotals};

/// Beginning of the sourcetype that a container of Kubernetes has by itself.
const OF_CONTAINER: &[u8] = b"kube:container:";

/// Log that is explained.
pub struct ExplainedLog<'a> {
    /// Path that it is said to have.
    pub path: String,
    /// Form of its lines.
    pub format: FileFormat,
    /// Policy of its container, if that is known.
    pub policy: Option<&'a PodPolicy>,
    /// True if each event is looked at alone.
    pub fresh: bool,
}

/// The file source of that name, or the first one of the configuration.
///
/// # Errors
/// In words: there is none, or the source is of another type.
pub fn file_source<'c>(
    config: &'c Config,
    wanted: Option<&str>,
) -> Result<(&'c str, &'c dyn SourceOptions), String> {
    let is_file = |source: &dyn SourceOptions| file::file_source(source).is_some();
    if wanted.is_some() {
        let (name, source) = super::source(config, wanted)?;
        return match is_file(source) {
            true => Ok((name, source)),
            false => Err(format!("the source `{name}` is no `file`")),
        };
    }
    let mut sources = config.sources.iter();
    let found = sources.find(|(_, source)| is_file(source.options()));
    let (name, source) = found.ok_or(
        "the configuration has no source of type `file`; name a configuration with one: -c FILE",
    )?;
    Ok((name, source.options()))
}

/// Places that the values of an event come from.
fn origins(
    source: &FileSource,
    policy: Option<&PodPolicy>,
    lines: &EventLines,
    (batch, record): (&Batch, &Record),
) -> [String; 5] {
    let decided = |key: &str| policy.and_then(|policy| policy.place(&lines.stream, key));
    let own = |is_set: bool, otherwise: &str| match is_set {
        true => "source option".to_owned(),
        false => otherwise.to_owned(),
    };
    let of_container = batch.names(record).sourcetype.starts_with(OF_CONTAINER);
    let by_default = match of_container {
        true => "name of the container",
        false => "type of the source",
    };
    [
        decided("index").unwrap_or_else(|| own(true, "")),
        decided("sourcetype").unwrap_or_else(|| own(source.sourcetype.is_some(), by_default)),
        decided("source").unwrap_or_else(|| own(source.source.is_some(), "path of the file")),
        decided("host").unwrap_or_else(|| own(source.host.is_some(), "name of this host")),
        match record.event_time.is_some() {
            true => "the line".to_owned(),
            false => "time of receipt".to_owned(),
        },
    ]
}

impl Explainer {
    /// Reads a log to its end as the source `name` reads one, and explains its events.
    ///
    /// # Errors
    /// In words: the source reads no files. The input cannot be read, or an event not shown.
    pub fn explain_log(
        &mut self,
        (name, source): (&str, &dyn SourceOptions),
        log: &ExplainedLog<'_>,
        input: impl BufRead,
        show: &mut dyn FnMut(&RecordExplanation) -> io::Result<()>,
    ) -> Result<io::Result<LogTotals>, String> {
        let options =
            file::file_source(source).ok_or_else(|| format!("the source `{name}` is no `file`"))?;
        let read = PreviewedLog {
            path: log.path.clone(),
            format: log.format,
            pod: log.policy.map(PodPolicy::pod),
        };
        let preview = LogPreview::begin(source.info(name), options, &read)?;
        let mut show = |batch: &Batch, record: &Record, lines: EventLines| {
            if log.fresh {
                self.forget();
            }
            let origins = origins(options, log.policy, &lines, (batch, record));
            show(&self.explain_line(batch, record, origins, lines))
        };
        Ok(preview.read(input, &mut show))
    }

    /// Explains an event that a log was decoded to.
    fn explain_line(
        &mut self,
        batch: &Batch,
        record: &Record,
        origins: [String; 5],
        lines: EventLines,
    ) -> RecordExplanation {
        self.number += 1;
        let now = self.now(record.received);
        let mut builder = self.pool.lend(&self.source, limits::MESSAGE_BYTES_DEFAULT);
        builder.stamp(Timestamp::now());
        builder.copy(batch, record);
        let copied = builder.records().first().copied().unwrap_or(*record);
        let trail = ValueTrail::of(origins, &builder);
        let mut explained = self.study(builder, copied, now, Some(trail));
        explained.lines = Some(lines);
        explained
    }
}
