//! Shows events.

use std::io;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use inrush_event::{Batch, BatchPool, Record};

use super::Inspector;
use crate::cursor_file::CursorPosition;
use crate::ranges::overlap;
use crate::reader::{BadRange, OldBatch, SegmentRead, SegmentReader};
use crate::segments::NO_END;

/// Query for the events to show.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventQuery {
    /// By their numbers.
    pub events: Range<u64>,
    /// Only what is pending at this destination.
    pub destination: Option<String>,
}

/// Number of events shown, and the damage on the way.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct QuerySummary {
    /// Events that were shown.
    pub events: u64,
    /// Ranges of bytes that could not be read.
    pub bad: Vec<BadRange>,
}

impl Inspector {
    /// Shows every event that fits, with its number, in the order of the log, until `show` has
    /// enough or there is none.
    ///
    /// # Errors
    /// The destination has no cursor here, the disk does not answer, or `show` fails.
    pub fn events(
        &self,
        query: &EventQuery,
        mut show: impl FnMut(u64, &Batch, &Record) -> io::Result<ControlFlow<()>>,
    ) -> io::Result<QuerySummary> {
        let pending = match &query.destination {
            Some(name) => Some((name.as_str(), self.pending(name)?)),
            None => None,
        };
        let wanted = |number: u64| {
            let open = |(_, place): &(_, CursorPosition)| is_open(place, number);
            query.events.contains(&number) && pending.as_ref().is_none_or(open)
        };
        let mut reader = SegmentReader::new(Arc::clone(&self.storage), self.id, BatchPool::new());
        let mut found = QuerySummary::default();
        for (index, segment) in self.segments.0.iter().enumerate() {
            let next = self.segments.0.get(index + 1).map(|next| next.header);
            if next.is_some_and(|next| next.base_event <= query.events.start) {
                continue;
            }
            if segment.header.base_event >= query.events.end {
                break;
            }
            reader.open(segment);
            reader.end_at(u64::MAX, next.map_or(NO_END, |next| next.base()));
            while let SegmentRead::Batch(old) = reader.next(query.events.start)? {
                let OldBatch {
                    first_event, batch, ..
                } = old;
                let name = pending.as_ref().map(|(name, _)| *name);
                if batch
                    .only()
                    .is_some_and(|only| name.is_some_and(|n| n != only))
                {
                    continue;
                }
                for (number, record) in (first_event..).zip(batch.records()) {
                    if !wanted(number) {
                        continue;
                    }
                    found.events += 1;
                    if show(number, &batch, record)?.is_break() {
                        return Ok(found);
                    }
                }
            }
            found.bad.extend(reader.take_bad());
        }
        Ok(found)
    }

    fn pending(&self, destination: &str) -> io::Result<CursorPosition> {
        if !self.known.iter().any(|known| known.name == destination) {
            let names: Vec<&str> = self.known.iter().map(|known| known.name.as_str()).collect();
            let text = format!(
                "no destination `{destination}` has a cursor in this queue; there are: {}",
                names.join(", ")
            );
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        }
        Ok(self.place(destination)?.unwrap_or_default())
    }
}

/// True if the event has no fate at a destination with this place.
fn is_open(place: &CursorPosition, number: u64) -> bool {
    number >= place.next_event || overlap(&place.unsettled, &(number..number + 1)) > 0
}
