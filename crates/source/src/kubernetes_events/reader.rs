//! Reader of a source of Kubernetes events: each event as a record, with the place behind it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use inrush_event::{Format, Metric, MetricsPage, Origin, Span};
use inrush_ingest::batch_writer::BatchWriter;
use inrush_ingest::batch_writer::acks::{AckTarget, BatchAcks};
use inrush_ingest::batch_writer::decoded::{DecodedEvent, DecodedNames};
use inrush_ingest::now::Now;
use inrush_kubernetes::{
    ClusterEvent, ClusterEventFeed, EventFeedCounts, EventFeedSettings, EventItem, ObjectAnomaly,
};
use inrush_queue::Log;

use super::options::{EventStart, KubernetesEventsSource};
use crate::polled::{ReaderCounts, RecordReader};

/// Events that one poll takes.
const EVENTS_A_POLL: usize = 1024;
/// Time between two attempts to start where there is no access.
const START_EVERY: Duration = Duration::from_secs(10);
/// Receiver of all acknowledgements; their numbers are places.
const TARGET: AckTarget = AckTarget { key: 0, serial: 0 };
/// Priority of a warning, and of any other event: user (RFC 5424 section 6.2.1).
const PRI_WARNING: u8 = 8 + 4;
const PRI_NORMAL: u8 = 8 + 6;

/// Reader of events.
pub(crate) struct ClusterEventReader {
    name: String,
    log: Arc<Log>,
    counts: Arc<EventFeedCounts>,
    feed: Option<RunningFeed>,
    next_start: Option<Instant>,
}

/// A feed, and what it was started with.
struct RunningFeed {
    feed: ClusterEventFeed,
    options: KubernetesEventsSource,
    stream: u64,
    /// Place behind the last event that was taken.
    place: u64,
}

impl ClusterEventReader {
    /// A reader of the source of that name, which goes on where the log says.
    pub(super) fn new(name: &str, log: &Arc<Log>) -> Self {
        Self {
            name: name.to_owned(),
            log: Arc::clone(log),
            counts: Arc::default(),
            feed: None,
            next_start: None,
        }
    }

    /// Has a feed run with these options.
    fn keep_feed(&mut self, options: &KubernetesEventsSource, now: Instant) {
        if self
            .feed
            .as_ref()
            .is_some_and(|one| &one.options == options)
        {
            return;
        }
        if self.feed.is_none() && self.next_start.is_some_and(|at| now < at) {
            return;
        }
        // It gives its Lease back.
        let before = self.feed.take().map(|one| (one.stream, one.place));
        match self.start(options, before) {
            Ok(feed) => (self.feed, self.next_start) = (Some(feed), None),
            Err(words) => {
                if self.next_start.is_none() {
                    tracing::warn!(source = self.name, "no events are read: {words}");
                }
                self.next_start = Some(now + START_EVERY);
            }
        }
    }

    fn start(
        &self,
        options: &KubernetesEventsSource,
        before: Option<(u64, u64)>,
    ) -> Result<RunningFeed, String> {
        let access = options.access().map_err(|error| error.to_string())?;
        let of = |text: &str| u64::from(inrush_event::crc32c(text.as_bytes()));
        let namespace = options.namespace.as_deref().unwrap_or_default();
        let stream = of(&access.server) << 32 | of(namespace);
        let place = match before.filter(|(of, _)| *of == stream) {
            Some((_, place)) => place,
            None => self.kept_place(stream),
        };
        let settings = EventFeedSettings {
            namespace: options.namespace.clone(),
            lease: (options.lease_namespace(), options.lease.clone()),
            place,
            skips_first: options.start_at == EventStart::End,
        };
        let feed = ClusterEventFeed::start(&access, settings, Arc::clone(&self.counts));
        Ok(RunningFeed {
            feed: feed.map_err(|error| format!("no thread: {error}"))?,
            options: options.clone(),
            stream,
            place,
        })
    }

    /// The place that is in the log; 0: none.
    fn kept_place(&self, stream: u64) -> u64 {
        let positions = self.log.positions(&self.name);
        let kept = positions.iter().find(|position| position.stream == stream);
        let text = kept.and_then(|position| std::str::from_utf8(&position.state).ok());
        text.and_then(|text| text.parse().ok()).unwrap_or(0)
    }
}

impl RunningFeed {
    fn take(&mut self, item: EventItem, writer: &mut BatchWriter, now: Now) {
        let place = match item {
            EventItem::Event(event, place) => {
                put(&event, &self.options, writer, now);
                writer.owe(TARGET, place, 0);
                place
            }
            EventItem::Place(place) => place,
        };
        self.place = place;
        writer.note_position(self.stream, place.to_string().into_bytes());
    }
}

/// Makes a record of an event.
fn put(event: &ClusterEvent, options: &KubernetesEventsSource, writer: &mut BatchWriter, now: Now) {
    let host = options.host.as_deref().unwrap_or(&event.host);
    let parts = [&event.text[..], host.as_bytes(), &event.fields[..]];
    let bytes = parts.concat();
    let names = DecodedNames {
        source: options.source.as_bytes(),
        ..DecodedNames::default()
    };
    let fill = |span: Span, event_of: DecodedEvent<'_>| {
        let mut start = span.start();
        let mut next = |part: &[u8]| {
            let at = Span::new(start, start + part.len());
            start = at.end();
            at
        };
        let record = event_of.record;
        let [text, host, fields] = parts.map(&mut next);
        record.format = Format::Kubernetes;
        (record.raw, record.message) = (text, text);
        if !host.is_empty() {
            record.host = host;
        }
        record.sdata = fields;
        record.event_time = event.time;
        record.pri = if event.is_warning {
            PRI_WARNING
        } else {
            PRI_NORMAL
        };
    };
    let origin = Origin::Unit("kubernetes".into());
    writer.take_decoded(&bytes, &origin, names, fill, now);
}

impl RecordReader for ClusterEventReader {
    type Options = KubernetesEventsSource;

    fn read(&mut self, options: &KubernetesEventsSource, writer: &mut BatchWriter, now: Now) {
        self.keep_feed(options, now.instant);
        let Some(running) = &mut self.feed else {
            return;
        };
        self.counts
            .leads
            .store(running.feed.leads(), Ordering::Relaxed);
        for _ in 0..EVENTS_A_POLL {
            let Some(item) = running.feed.take() else {
                return;
            };
            running.take(item, writer, now);
        }
    }

    fn acknowledge(&mut self, acks: &BatchAcks) {
        let (Some(running), Some(last)) = (&self.feed, acks.acks.last()) else {
            return;
        };
        let behind = u64::from(last.count.saturating_sub(1));
        running.feed.note_durable(last.first.saturating_add(behind));
    }

    fn pause(&self) -> Duration {
        Duration::from_millis(50)
    }

    fn counts(&self) -> Option<Arc<dyn ReaderCounts>> {
        Some(Arc::clone(&self.counts) as _)
    }
}

impl ReaderCounts for EventFeedCounts {
    fn metrics(&self, name: &str, page: &mut MetricsPage) {
        let leads = f64::from(self.leads.load(Ordering::Relaxed));
        page.add(Metric::KubernetesEventsLead, vec![("source", name)], leads);
        let happenings = [
            ("list", &self.watch.lists),
            ("watch_ended", &self.watch.ends),
            ("gone", &self.watch.gone),
            ("watch_failed", &self.watch.failures),
            ("renumbered", &self.resets),
            ("takeover", &self.takeovers),
            ("lease_failed", &self.lease_failures),
        ];
        for (reason, count) in happenings {
            let labels = vec![("source", name), ("reason", reason)];
            let count = count.load(Ordering::Relaxed) as f64;
            page.add(Metric::KubernetesEventsWatch, labels, count);
        }
        let repeated = self.repeated.load(Ordering::Relaxed) as f64;
        page.add(
            Metric::KubernetesEventsRepeated,
            vec![("source", name)],
            repeated,
        );
        for anomaly in ObjectAnomaly::ALL {
            let labels = vec![("source", name), ("reason", anomaly.name())];
            let count = self.anomalies.get(anomaly) as f64;
            page.add(Metric::KubernetesEventsAnomalies, labels, count);
        }
    }
}
