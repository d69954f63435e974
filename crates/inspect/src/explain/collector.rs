//! Explanation of a request to an HTTP Event Collector: its events, and its answer.
//!
//! # What it guarantees
//! * The source's own parts read head and body (`inrush_source::splunk_hec::preview`); what comes
//!   behind is that of every record.
//! * Each value of an event is shown with the last step that set it: envelope, query, token,
//!   source, rule or transform.
//!
//! # Limits
//! Memory is bounded by the longest event that the source takes.

use std::io::{self, Read};

use inrush_codec::SyslogOptions;
use inrush_config::{Config, SourceOptions};
use inrush_event::{Batch, BatchBuilder, ClassInfo, EventNames, Extra, Record, Timestamp, limits};
use inrush_source::splunk_hec::options::SplunkHecSource;
use inrush_source::splunk_hec::preview::{self, EventOrigins, HecPreview};

use super::{Explainer, RecordExplanation, rfc3339};

pub use inrush_source::splunk_hec::preview::{PreviewedAnswer, PreviewedRequest};

/// Value of an event, and the place that it comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventValue {
    /// Name in output: `index`, `sourcetype`, `source`, `host` or `time`.
    pub name: &'static str,
    /// The value; a time in RFC 3339.
    pub value: Vec<u8>,
    /// The step that set it last.
    pub from: String,
}

/// Names of the values, in their order in output.
const VALUES: [&str; 5] = ["index", "sourcetype", "source", "host", "time"];

/// Values of one event at one step.
type ValueSet = [Vec<u8>; VALUES.len()];

/// Follows the values of an event through the steps that may change them.
pub(super) struct ValueTrail {
    origins: [String; VALUES.len()],
    read: ValueSet,
    recognised: ValueSet,
    /// Rules that recognised the event.
    rules: String,
}

impl ValueTrail {
    fn new(origins: EventOrigins, builder: &BatchBuilder) -> Self {
        let origins = [
            origins.index,
            origins.sourcetype,
            origins.source,
            origins.host,
            origins.time,
        ];
        Self::of(origins.map(|origin| origin.name().to_owned()), builder)
    }

    /// Follows values that come from these places.
    pub(super) fn of(origins: [String; VALUES.len()], builder: &BatchBuilder) -> Self {
        let read = values(builder);
        Self {
            origins,
            recognised: read.clone(),
            read,
            rules: String::new(),
        }
    }

    /// Notes the values after rules were asked.
    pub(super) fn recognised(&mut self, builder: &BatchBuilder) {
        if let Some(record) = builder.records().first() {
            self.recognised = values(builder);
            let class = class(builder, record);
            self.rules = class.map_or_else(String::new, |class| class.rules.to_string());
        }
    }

    /// The values after all steps, `transforms` being those that changed the event.
    pub(super) fn values(self, builder: &BatchBuilder, transforms: &[String]) -> Vec<EventValue> {
        let shaped = match builder.records().is_empty() {
            true => self.recognised.clone(),
            false => values(builder),
        };
        let from = |at: usize| match () {
            () if shaped[at] != self.recognised[at] => {
                format!("transform {}", transforms.join(", "))
            }
            () if self.recognised[at] != self.read[at] => format!("rule {}", self.rules),
            () => self.origins[at].clone(),
        };
        let one = |(at, name): (usize, &'static str)| EventValue {
            name,
            value: shaped[at].clone(),
            from: from(at),
        };
        VALUES.into_iter().enumerate().map(one).collect()
    }
}

/// The class of a record; the first one has the number 1.
fn class<'b>(builder: &'b BatchBuilder, record: &Record) -> Option<&'b ClassInfo> {
    let at = usize::from(record.class.0).checked_sub(1)?;
    builder.classes().get(at).map(|class| &**class)
}

/// Values of the first event of a batch; empty if there is none.
fn values(builder: &BatchBuilder) -> ValueSet {
    let Some(record) = builder.records().first() else {
        return ValueSet::default();
    };
    let bytes = builder.bytes();
    let extra = Extra::new(record.extra.of(bytes));
    let names = EventNames::of(class(builder, record), extra, builder.source());
    let host = match record.host.is_empty() {
        true => builder
            .peer_at(record.peer)
            .map_or_else(Vec::new, |peer| peer.ip.to_string().into_bytes()),
        false => record.host.of(bytes).to_vec(),
    };
    let time = match record.event_time.is_some() {
        true => record.event_time,
        false => record.received,
    };
    [
        names.index.to_vec(),
        names.sourcetype.to_vec(),
        names.source.to_vec(),
        host,
        rfc3339(time).unwrap_or_default().into_bytes(),
    ]
}

/// Options by which headers of a source are read.
pub(super) fn header_options(source: &dyn SourceOptions) -> SyslogOptions {
    let collector = || preview::collector(source).map(SplunkHecSource::header_options);
    let options = source.syslog().cloned().or_else(collector);
    options.unwrap_or_default()
}

/// The collector of that name, or the first one of the configuration.
///
/// # Errors
/// In words: there is none, or the source is of another type.
pub fn collector<'c>(
    config: &'c Config,
    wanted: Option<&str>,
) -> Result<(&'c str, &'c dyn SourceOptions), String> {
    let is_collector = |source: &dyn SourceOptions| preview::collector(source).is_some();
    if wanted.is_some() {
        let (name, source) = super::source(config, wanted)?;
        return match is_collector(source) {
            true => Ok((name, source)),
            false => Err(format!("the source `{name}` is no `splunk_hec`")),
        };
    }
    let mut sources = config.sources.iter();
    let found = sources.find(|(_, source)| is_collector(source.options()));
    let (name, source) = found.ok_or("the configuration has no source of type `splunk_hec`")?;
    Ok((name, source.options()))
}

impl Explainer {
    /// Reads a body to its end as the collector `name` reads one of `request`, and explains its
    /// events. With `fresh` each is looked at alone. Returns the answer.
    ///
    /// # Errors
    /// In words: there is no such token. The body cannot be read, or an event not shown.
    pub fn explain_body(
        &mut self,
        (name, source): (&str, &dyn SourceOptions),
        request: PreviewedRequest<'_>,
        fresh: bool,
        body: impl Read,
        show: &mut dyn FnMut(&RecordExplanation) -> io::Result<()>,
    ) -> Result<io::Result<PreviewedAnswer>, String> {
        let options = preview::collector(source)
            .ok_or_else(|| format!("the source `{name}` is no `splunk_hec`"))?;
        let request = match HecPreview::begin(name, options, request)? {
            Ok(request) => request,
            Err(answer) => return Ok(Ok(answer)),
        };
        let mut show = |batch: &Batch, record: &Record, origins: EventOrigins| {
            if fresh {
                self.forget();
            }
            show(&self.explain_event(batch, record, origins))
        };
        Ok(request.read(body, &mut show))
    }

    /// Explains an event that its source has decoded.
    fn explain_event(
        &mut self,
        batch: &Batch,
        record: &Record,
        origins: EventOrigins,
    ) -> RecordExplanation {
        self.number += 1;
        let now = self.now(record.received);
        let most = limits::MESSAGE_BYTES_DEFAULT;
        let mut builder = self.pool.lend(&self.source, most);
        builder.stamp(Timestamp::now());
        builder.copy(batch, record);
        let copied = builder.records().first().copied().unwrap_or(*record);
        let trail = ValueTrail::new(origins, &builder);
        self.study(builder, copied, now, Some(trail))
    }
}
