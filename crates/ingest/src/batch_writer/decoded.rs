//! Events that their source has decoded: names by class, and texts that lie behind what was read.
//!
//! # What it guarantees
//! * Events of the same names share a class, so that an event costs a comparison.
//! * An appended text lies behind the bytes of the read, in the arena of its event's batch.
//!
//! # Limits
//! 1,024 classes a batch, of at most 4 KiB of names: other names lie with their event.

use std::collections::HashMap;
use std::sync::Arc;

use inrush_codec::Frame;
use inrush_event::{
    Anomalies, BatchBuilder, ClassId, ClassInfo, ClassList, EventText, Extra, ExtraKey, Record,
    Span, Timestamp,
};

use super::intake::{FrameIntake, FrameOrigin};
use super::open_batch::UnstudiedEvent;

/// Classes of decoded events in a batch, at most. A sender with a `source` for each event would
/// else make thousands of them.
const CLASSES_MAX: usize = 1024;

/// Names that are remembered, at most.
const KNOWN_MAX: usize = 4096;

/// Longer names lie with the event: a sender could else fill the memory with names of megabytes.
const NAMES_BYTES_MAX: usize = 4096;

/// Batches after the last event that packs were asked about in which there may be more.
const ASKED_BATCHES: u64 = 64;

/// Names of a decoded event; an empty one is that of its source's options.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DecodedNames<'a> {
    /// The index.
    pub index: &'a [u8],
    /// The sourcetype.
    pub sourcetype: &'a [u8],
    /// The source.
    pub source: &'a [u8],
    /// True if packs are asked about the event, whose names hold where none recognises it.
    pub recognised: bool,
    /// Vendor and product that packs are told, if it is known who sends it.
    pub product: Option<(&'a str, &'a str)>,
}

impl<'a> DecodedNames<'a> {
    /// The same without names: what its events have with them.
    fn bare(&self) -> Self {
        Self {
            recognised: self.recognised,
            product: self.product,
            ..Self::default()
        }
    }

    /// Text of the product, in three parts.
    fn product_parts(&self) -> [&'a [u8]; 3] {
        let parts =
            |(vendor, product): (&'a str, &'a str)| [vendor.as_bytes(), b"/", product.as_bytes()];
        self.product.map_or([b"", b"", b""], parts)
    }

    fn all(&self) -> [(ExtraKey, &[u8]); 3] {
        [
            (ExtraKey::Index, self.index),
            (ExtraKey::Sourcetype, self.sourcetype),
            (ExtraKey::Source, self.source),
        ]
    }

    fn class(&self) -> ClassInfo {
        let text =
            |name: &[u8]| (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned());
        ClassInfo {
            index: text(self.index),
            sourcetype: text(self.sourcetype),
            source: text(self.source),
            text: match self.recognised {
                true => EventText::ByFormat,
                false => EventText::Message,
            },
            hint: (self.product).map(|(vendor, product)| (vendor.to_owned(), product.to_owned())),
            ..ClassInfo::default()
        }
    }
}

/// A class, and its number in the batch in which it came last.
struct NamedClass {
    class: Arc<ClassInfo>,
    batch: u64,
    id: ClassId,
}

/// Classes of decoded events, by their names.
#[derive(Default)]
pub(super) struct NamedClasses {
    known: HashMap<Box<[u8]>, NamedClass>,
    /// Counts the batches.
    batch: u64,
    /// Names of the last event, and its class in this batch.
    key: Vec<u8>,
    last: Option<ClassId>,
    /// True once there was an event.
    seen: bool,
    /// Batch of the last event that packs are asked about.
    asked: Option<u64>,
    /// The class of the last event whose source made it, in this batch.
    made: Option<(Arc<ClassInfo>, ClassId)>,
    /// Classes without names, for events that have them with them: one for each product.
    bare: Vec<Arc<ClassInfo>>,
}

impl NamedClasses {
    /// A new batch is filled.
    pub(super) fn begin(&mut self) {
        self.batch += 1;
        self.last = None;
        self.made = None;
    }

    /// True if there are decoded events, and packs were asked about none of the last batches.
    pub(super) fn are_final(&self) -> bool {
        let is_recent = |asked: u64| self.batch - asked <= ASKED_BATCHES;
        self.seen && !self.asked.is_some_and(is_recent)
    }

    /// The number of a class that the source has made.
    #[inline]
    fn made(&mut self, class: &Arc<ClassInfo>, classes: &mut ClassList) -> ClassId {
        if let Some((known, id)) = &self.made
            && Arc::ptr_eq(known, class)
        {
            return *id;
        }
        self.seen = true;
        if !class.is_final() {
            self.asked = Some(self.batch);
        }
        let id = classes.number(class);
        self.made = Some((Arc::clone(class), id));
        id
    }

    /// The class of these names; `None` if the batch has no room for another.
    fn id(&mut self, names: DecodedNames<'_>, classes: &mut ClassList) -> Option<ClassId> {
        if let Some(last) = self.last
            && self.is_last(names)
        {
            return Some(last);
        }
        self.seen = true;
        if names.recognised {
            self.asked = Some(self.batch);
        }
        let bytes: usize = names.all().iter().map(|(_, name)| name.len()).sum();
        if bytes > NAMES_BYTES_MAX {
            self.last = None;
            return None;
        }
        self.key.clear();
        for (_, name) in names.all() {
            self.key.extend_from_slice(&name.len().to_le_bytes());
            self.key.extend_from_slice(name);
        }
        self.key.push(u8::from(names.recognised));
        for part in names.product_parts() {
            self.key.extend_from_slice(part);
        }
        let id = self.find(names, classes);
        self.last = id;
        id
    }

    /// The class of events that have their names with them.
    fn bare(&mut self, names: DecodedNames<'_>, classes: &mut ClassList) -> ClassId {
        let wanted = names.bare().class();
        let known = self.bare.iter().position(|class| **class == wanted);
        let at = known.unwrap_or_else(|| {
            self.bare.push(Arc::new(wanted));
            self.bare.len() - 1
        });
        classes.number(&self.bare[at])
    }

    fn find(&mut self, names: DecodedNames<'_>, classes: &mut ClassList) -> Option<ClassId> {
        let batch = self.batch;
        if let Some(known) = self.known.get_mut(&*self.key) {
            if known.batch != batch {
                if classes.len() >= CLASSES_MAX {
                    return None;
                }
                (known.batch, known.id) = (batch, classes.number(&known.class));
            }
            return Some(known.id);
        }
        if classes.len() >= CLASSES_MAX {
            return None;
        }
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        let class = Arc::new(names.class());
        let id = classes.number(&class);
        let key = self.key.clone().into_boxed_slice();
        self.known.insert(key, NamedClass { class, batch, id });
        Some(id)
    }

    fn is_last(&self, names: DecodedNames<'_>) -> bool {
        let mut rest = &*self.key;
        let same = names.all().iter().all(|(_, name)| {
            // An empty name has no address of its own, and a comparison in libc that masks its
            // loads takes a tenth of a microsecond there: a quarter of the worker's time.
            let left = rest
                .strip_prefix(&name.len().to_le_bytes())
                .and_then(|rest| match name.is_empty() {
                    true => Some(rest),
                    false => rest.strip_prefix(*name),
                });
            rest = left.unwrap_or_default();
            left.is_some()
        });
        let Some((recognised, mut rest)) = rest.split_first().filter(|_| same) else {
            return false;
        };
        let same = names.product_parts().iter().all(|part| {
            let left = rest.strip_prefix(*part);
            rest = left.unwrap_or_default();
            left.is_some()
        });
        same && rest.is_empty() && *recognised == u8::from(names.recognised)
    }
}

/// Part of a record that lies in an appended text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AppendedPart {
    /// Its text: raw record and message.
    Text,
    /// Its message alone: the raw record is what was read.
    Message,
    /// Its host.
    Host,
    /// Its values beyond its class.
    Extra,
}

/// Texts that are not part of what was read. They are put behind it once it is clear where it ends.
#[derive(Default)]
pub(super) struct AppendedTexts {
    bytes: Vec<u8>,
    /// Number of the record, its part, and the range in `bytes`.
    places: Vec<(u32, AppendedPart, Span)>,
}

impl AppendedTexts {
    /// Puts the texts into the arena.
    pub(super) fn settle(&mut self, builder: &mut BatchBuilder, decoded: &mut [UnstudiedEvent]) {
        if self.places.is_empty() {
            return;
        }
        let start = builder.filled();
        builder.append(&self.bytes);
        for (number, part, span) in self.places.drain(..) {
            let span = Span::new(start + span.start(), start + span.end());
            let number = number as usize;
            let record = match decoded.get_mut(number) {
                Some(unstudied) => Some(&mut unstudied.record),
                None => builder.records_mut().get_mut(number),
            };
            let Some(record) = record else {
                continue;
            };
            match part {
                AppendedPart::Text => (record.raw, record.message) = (span, span),
                AppendedPart::Message => record.message = span,
                AppendedPart::Host => record.host = span,
                AppendedPart::Extra => record.extra = span,
            }
        }
        self.bytes.clear();
    }
}

/// A decoded event that is being put into a batch.
pub struct DecodedEvent<'a> {
    /// Its record. Spans count in the bytes that were shown to the decoder.
    pub record: &'a mut Record,
    texts: &'a mut AppendedTexts,
    number: u32,
}

impl DecodedEvent<'_> {
    /// Has a part of the record be the text that `write` appends.
    pub fn append(&mut self, part: AppendedPart, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.texts.bytes.len();
        write(&mut self.texts.bytes);
        let span = Span::new(start, self.texts.bytes.len());
        self.texts.places.push((self.number, part, span));
        if part == AppendedPart::Text {
            // For the count of bytes; where it lies is settled later.
            self.record.raw.len = span.len;
        }
    }
}

impl FrameIntake<'_> {
    /// Takes a frame whose names its source gives. It is parsed where packs are asked about it;
    /// `fill` says the rest.
    pub fn take_named(
        &mut self,
        frame: Frame,
        names: DecodedNames<'_>,
        fill: impl FnOnce(DecodedEvent<'_>),
    ) {
        self.put(frame, names.recognised, names, fill);
    }

    /// The time in the header of a text, as for syslog; none where it has no header.
    pub fn time_in(&mut self, text: Span) -> Timestamp {
        let FrameOrigin {
            ip, peer, received, ..
        } = self.from;
        let mut record = Record::unparsed(text, received, peer, Anomalies::NONE);
        self.processor.parse(self.arena, &mut record, ip);
        record.event_time
    }

    /// Takes an event that its source has decoded: nothing of it is parsed or recognised. `text` is
    /// where its text stands, `fill` says the rest.
    #[inline]
    pub fn take_decoded(
        &mut self,
        text: Span,
        names: DecodedNames<'_>,
        fill: impl FnOnce(DecodedEvent<'_>),
    ) {
        let frame = Frame {
            span: text,
            anomalies: Anomalies::NONE,
        };
        self.put(frame, false, names, fill);
    }

    /// Takes an event whose class its source has made, such as that of a container. It is parsed
    /// where packs are asked about it; `fill` says the rest.
    #[inline]
    pub fn take_classed(
        &mut self,
        frame: Frame,
        class: &Arc<ClassInfo>,
        fill: impl FnOnce(DecodedEvent<'_>),
    ) {
        let id = self.named.made(class, self.classes);
        let name = |event: DecodedEvent<'_>| {
            event.record.class = id;
            fill(event);
        };
        self.put_as(frame, !class.is_final(), name);
    }

    #[inline]
    fn put(
        &mut self,
        frame: Frame,
        parses: bool,
        names: DecodedNames<'_>,
        fill: impl FnOnce(DecodedEvent<'_>),
    ) {
        let id = self.named.id(names, self.classes);
        let bare = match id {
            Some(id) => id,
            None => self.named.bare(names, self.classes),
        };
        let name = |mut event: DecodedEvent<'_>| {
            event.record.class = bare;
            if id.is_none() {
                event.append(AppendedPart::Extra, |out| {
                    for (key, name) in names.all() {
                        if !name.is_empty() {
                            Extra::push(key, name, out);
                        }
                    }
                });
            }
            fill(event);
        };
        self.put_as(frame, parses, name);
    }

    #[inline]
    fn put_as(
        &mut self,
        Frame { span, anomalies }: Frame,
        parses: bool,
        fill: impl FnOnce(DecodedEvent<'_>),
    ) {
        let FrameOrigin { ip, peer, received } = self.from;
        let mut record = Record::unparsed(span, received, peer, anomalies);
        if parses && !self.lends {
            self.processor.parse(self.arena, &mut record, ip);
        }
        let number = (self.records.len() + self.decoded.len()) as u32;
        let event = DecodedEvent {
            record: &mut record,
            texts: self.texts,
            number,
        };
        fill(event);
        self.events += 1;
        self.bytes += u64::from(record.raw.len);
        if self.lends {
            return self.decoded.push(UnstudiedEvent { record, parses });
        }
        self.tally.add(record.anomalies);
        self.records.push(record);
    }
}
