//! Origins of records: the store, quarantine, or a file of JSON lines. They are streamed.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use inrush_config::Config;
use inrush_event::Timestamp;
use inrush_inspect::replay::{EventMetadata, StoredRecord, framing, framing_of, protocol};
use inrush_pipeline::DataDirLock;
use inrush_pipeline::quarantine::FOLDER;
use inrush_queue::{Inspector, QuarantineEntry, QuarantineFilter};
use inrush_search::{Engine, ScanOutput, SearchOptions, StoredEvent};
use inrush_sink::SinkConfig;
use inrush_store::Store;

use super::lines;
use super::range::ReplayRange;
use crate::cmd::UsageError;

/// Takes a record; says whether there is any use in more.
pub(super) type RecordVisitor<'a> =
    dyn FnMut(StoredRecord<'_>) -> anyhow::Result<ControlFlow<()>> + 'a;

/// Descriptions of what was to be read and could not.
pub(super) type Missing = Vec<String>;

/// Things that could not be read and are named one by one; more are counted.
const MISSING_MAX: usize = 20;

/// Origin of records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReplayOrigin<'a> {
    Store,
    Quarantine,
    File(&'a str),
}

impl<'a> ReplayOrigin<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        match text {
            "store" => Self::Store,
            "quarantine" => Self::Quarantine,
            file => Self::File(file),
        }
    }
}

/// The store that is read: the first of the configuration.
pub(super) fn store(config: &Config) -> Option<&str> {
    let mut destinations = config.destinations.iter();
    let found = destinations.find(|(_, sink)| matches!(sink, SinkConfig::Store(_)));
    found.map(|(name, _)| name.as_str())
}

/// The events of the store that meet the query, file by file, the oldest first. `progress` is told
/// how many files are done, and of how many.
pub(super) fn from_store(
    config: &Config,
    query: &str,
    range: &ReplayRange,
    progress: &dyn Fn(u64, u64),
    take: &mut RecordVisitor<'_>,
) -> anyhow::Result<Missing> {
    let named = store(config).and_then(|name| config.destinations.get(name));
    let Some(SinkConfig::Store(options)) = named else {
        let none =
            "the configuration has no destination of `type: store`; --from says what to read";
        return Err(UsageError(none.to_owned()).into());
    };
    let shown = options.shown(&config.data_dir);
    if !options.is_remote() && !Path::new(&shown).is_dir() {
        bail!("there is no store at {shown} yet");
    }
    let home = options.home(&config.data_dir);
    let home = home.with_context(|| format!("cannot open {shown}"))?;
    let store = Store::open_read_only(home).with_context(|| format!("cannot read {shown}"))?;
    let engine = Engine::start(&SearchOptions::default()).context("cannot start threads")?;
    let scan = engine.scan(store.snapshot(), query, range.from_ns, range.to_ns);
    let scan = scan.map_err(|failure| match failure.column {
        Some(_) => crate::cmd::search::wrong(&failure, query),
        None => UsageError(failure.message).into(),
    })?;
    let mut missing = Gathered::default();
    for scanned in scan {
        match scanned {
            ScanOutput::Rows(rows) => {
                for row in &rows {
                    let bytes = match row.raw_base64.as_str() {
                        "" => None,
                        text => lines::decoded(text),
                    };
                    if take(of_row(row, bytes.as_deref()))?.is_break() {
                        return Ok(missing.named());
                    }
                }
            }
            ScanOutput::File(done, total) => progress(done, total),
            ScanOutput::Missing(aside) => {
                let (path, reason) = (aside.path, aside.reason);
                missing.add(format!(
                    "{path}: {reason}; a running process may have merged or expired it: run \
                     this again for its time"
                ));
            }
            ScanOutput::Failed(why) => bail!("{why}"),
        }
    }
    Ok(missing.named())
}

/// `bytes`: the record as it was received, where its text is not that.
fn of_row<'a>(row: &'a StoredEvent, bytes: Option<&'a [u8]>) -> StoredRecord<'a> {
    StoredRecord {
        raw: bytes.unwrap_or(row.raw.as_bytes()),
        framing: framing(&row.anomalies),
        source: &row.source,
        sender: row.sender.parse().ok(),
        protocol: protocol(&row.protocol),
        client: (!row.tls_client.is_empty()).then(|| row.tls_client.as_str().into()),
        local_port: None,
        received: Timestamp(row.received_ns),
        was: EventMetadata {
            time: Timestamp(row.time_ns),
            host: row.host.clone(),
            index: row.index.clone(),
            sourcetype: row.sourcetype.clone(),
            source: None,
            vendor: row.vendor.clone(),
            product: row.product.clone(),
            class: None,
        },
        number: 0,
    }
}

/// Names of what could not be read.
#[derive(Default)]
struct Gathered {
    named: Vec<String>,
    more: u64,
}

impl Gathered {
    fn add(&mut self, what: String) {
        if self.named.len() < MISSING_MAX {
            self.named.push(what);
        } else {
            self.more += 1;
        }
    }

    fn named(mut self) -> Missing {
        if self.more > 0 {
            self.named.push(format!("and {} more", self.more));
        }
        self.named
    }
}

/// Number of refused events in that time, by the destination that refused them.
pub(super) fn refused_by(
    config: &Config,
    destination: Option<&str>,
    range: &ReplayRange,
) -> anyhow::Result<BTreeMap<String, u64>> {
    let mut counts = BTreeMap::new();
    each_entry(config, destination, range, &mut |entry| {
        *counts.entry(entry.destination.clone()).or_default() += 1;
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(counts)
}

/// Refused events, the oldest first; of one destination, or of all.
pub(super) fn from_quarantine(
    config: &Config,
    destination: Option<&str>,
    range: &ReplayRange,
    take: &mut RecordVisitor<'_>,
) -> anyhow::Result<Missing> {
    each_entry(config, destination, range, &mut |entry| {
        for record in entry.batch.records() {
            let peer = entry.batch.peer(record);
            let taken = take(StoredRecord {
                raw: entry.batch.get(record.raw),
                framing: framing_of(record.anomalies),
                source: &entry.batch.source().name,
                sender: peer.map(|peer| peer.ip),
                protocol: peer.map(|peer| peer.protocol),
                client: peer.and_then(|peer| peer.client.clone()),
                local_port: peer.map(|peer| peer.local_port),
                received: record.received,
                was: EventMetadata::of(&entry.batch, record),
                number: entry.number,
            })?;
            if taken.is_break() {
                return Ok(taken);
            }
        }
        Ok(ControlFlow::Continue(()))
    })
}

fn each_entry(
    config: &Config,
    destination: Option<&str>,
    range: &ReplayRange,
    take: &mut dyn FnMut(&QuarantineEntry) -> anyhow::Result<ControlFlow<()>>,
) -> anyhow::Result<Missing> {
    let folder = config.data_dir.join(FOLDER);
    let opened = Inspector::open(&folder, DataDirLock::is_taken(&config.data_dir));
    let log = match opened {
        // Nothing was ever refused; but a wrong data directory must not look like that.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && config.data_dir.is_dir() => {
            return Ok(Vec::new());
        }
        opened => opened.with_context(|| format!("cannot read {}", folder.display()))?,
    };
    let Some(log) = log else {
        return Ok(Vec::new());
    };
    let filter = QuarantineFilter {
        destination: destination.map(str::to_owned),
        ..QuarantineFilter::default()
    };
    let mut entries = log.entries(&filter);
    for entry in &mut entries {
        if range.has(entry.note.at.0) && take(&entry)?.is_break() {
            break;
        }
    }
    let bad = entries.bad().iter();
    let bytes: u64 = bad.map(|bad| bad.bytes.end - bad.bytes.start).sum();
    Ok(match bytes {
        0 => Vec::new(),
        bytes => vec![format!("{bytes} bytes of quarantine could not be read")],
    })
}

/// Lines of JSON.
pub(super) fn from_file(
    path: &str,
    range: &ReplayRange,
    take: &mut RecordVisitor<'_>,
) -> anyhow::Result<Missing> {
    let mut missing = Gathered::default();
    let mut each = |line: lines::RecordLine<'_>| match line {
        Ok(stored) if !range.has(stored.was.time.0) => Ok(ControlFlow::Continue(())),
        Ok(stored) => take(stored),
        Err(what) => {
            missing.add(format!("{path}, {what}"));
            Ok(ControlFlow::Continue(()))
        }
    };
    if path == "-" {
        lines::each(std::io::stdin().lock(), &mut each)?;
    } else {
        let file = inrush_files::open_given(path.as_ref())
            .map_err(|error| UsageError(format!("--from {path}: {error}")));
        let file = std::io::BufReader::new(file.map_err(|usage| anyhow!(usage))?);
        lines::each(file, &mut each)?;
    }
    Ok(missing.named())
}
