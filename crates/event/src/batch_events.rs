//! Names and times of the events of a batch.

use crate::batch_times::time;
use crate::{Batch, BatchTimes, EventNames, Extra, Peer, Record, Timestamp};

impl Batch {
    /// Values of a record beyond those of its class.
    pub fn extra(&self, record: &Record) -> Extra<'_> {
        Extra::new(self.get(record.extra))
    }

    /// Names of a record: index, sourcetype and so on.
    pub fn names(&self, record: &Record) -> EventNames<'_> {
        let class = self.class(record).map(|class| &**class);
        EventNames::of(class, self.extra(record), self.source())
    }

    /// Source of an event that came to an HTTP Event Collector, with an envelope or as a line, or
    /// from a journal: that of its client, of its token or of the options. Empty for other events.
    pub fn event_source(&self, record: &Record) -> &[u8] {
        let is_http = |peer: &Peer| peer.protocol.is_http();
        match record.format.has_json_fields() || self.peer(record).is_some_and(is_http) {
            true => self.names(record).source,
            false => b"",
        }
    }

    /// Time at which a record counts as having happened: by the sender's clock, or by ours.
    pub fn time(&self, record: &Record) -> Timestamp {
        time(record, self.classes())
    }

    /// The times of all its events.
    pub fn times(&self) -> &BatchTimes {
        &self.times
    }
}
