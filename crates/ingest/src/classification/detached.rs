//! An event that has left its batch: everything that its record points to goes with it.

use std::sync::Arc;

use inrush_classify::group::{GroupOutput, GroupPart, resolve};
use inrush_event::{BatchBuilder, ClassInfo, Extra, ExtraKey, Origin, Record, Span};

/// The fields of a record that are spans, without the raw record.
const FIELDS: usize = 6;

/// Index among them of the program, and of the message.
const PROGRAM: usize = 1;
const MESSAGE: usize = 5;

/// Fields that a group's event takes from the one part that it is made of.
#[derive(Debug)]
pub(crate) struct DetachedEvent {
    record: Record,
    class: Arc<ClassInfo>,
    origin: Origin,
    /// Bytes that are kept of the raw record: all of it where the part stands for all, else what
    /// precedes the message.
    head: Box<[u8]>,
    /// Of that, what precedes the event's text.
    cut: usize,
    /// Host, program, process, message id, structured data, message.
    fields: [DetachedField; FIELDS],
    /// Texts beyond the class.
    extra: Box<[u8]>,
    before: Box<[u8]>,
    after: Box<[u8]>,
    joins: bool,
}

#[derive(Default, Debug)]
struct DetachedField {
    text: Box<[u8]>,
    /// Offset in the raw record, if it lies there.
    at: Option<usize>,
}

/// The event that a part lies in.
pub struct BatchEvent<'a> {
    pub arena: &'a [u8],
    /// Bytes that the classifier put behind it.
    pub tail: &'a [u8],
    pub record: &'a Record,
    pub class: &'a Arc<ClassInfo>,
    pub origin: Origin,
}

impl DetachedEvent {
    /// Takes what is needed of an event out of its batch.
    pub(crate) fn new(from: &BatchEvent<'_>, whole: &GroupOutput, part: &GroupPart<'_>) -> Self {
        let record = from.record;
        let raw = record.raw.of(from.arena);
        let spans = [
            record.host,
            record.app,
            record.proc_id,
            record.msg_id,
            record.sdata,
            record.message,
        ];
        let joins = matches!(whole, GroupOutput::Joined { .. });
        let field = |span: Span| {
            let inside = record.raw.start() <= span.start() && span.end() <= record.raw.end();
            let at = span.start().wrapping_sub(record.raw.start());
            (resolve(span, from.arena, from.tail), inside.then_some(at))
        };
        let spans = spans.map(field);
        let (end, cut) = match joins {
            true => head(&spans, part),
            false => (raw.len(), raw.len()),
        };
        let mut fields = spans.map(|(text, at)| DetachedField {
            text: text.into(),
            at,
        });
        if joins {
            fields[MESSAGE] = DetachedField::default();
        }
        let owns = joins || !part.before.is_empty();
        let kept = |key: ExtraKey| !owns || !matches!(key, ExtraKey::Event | ExtraKey::Json);
        let mut extra = Vec::new();
        for (key, text) in Extra::new(resolve(record.extra, from.arena, from.tail)) {
            if kept(key) {
                Extra::push(key, text, &mut extra);
            }
        }
        Self {
            record: *record,
            class: Arc::clone(from.class),
            origin: from.origin.clone(),
            head: raw.get(..end).unwrap_or_default().into(),
            cut,
            fields,
            extra: extra.into(),
            before: part.before.into(),
            after: part.after.into(),
            joins,
        }
    }

    /// Bytes that it holds.
    pub(crate) fn bytes(&self) -> usize {
        let fields: usize = self.fields.iter().map(|field| field.text.len()).sum();
        let texts = self.extra.len() + self.before.len() + self.after.len();
        self.head.len() + fields + texts
    }

    /// Bytes before and behind the texts of the parts.
    pub(crate) fn around(&self) -> usize {
        self.before.len() + self.after.len()
    }

    /// Has another part say what stands before and behind the texts: the last one to come does.
    pub(crate) fn surround(&mut self, other: Self) {
        (self.before, self.after) = (other.before, other.after);
    }

    /// Puts the event with these texts of its parts into a batch, and returns its record.
    pub(crate) fn put(self, joined: &[u8], builder: &mut BatchBuilder) -> Record {
        let (mut bytes, message) = self.raw(joined);
        let raw = bytes.len();
        let base = builder.filled();
        let mut spans = [Span::EMPTY; FIELDS];
        for (span, field) in spans.iter_mut().zip(&self.fields) {
            *span = place(field, raw, &mut bytes, base);
        }
        let mut record = self.record;
        [
            record.host,
            record.app,
            record.proc_id,
            record.msg_id,
            record.sdata,
            record.message,
        ] = spans;
        record.raw = Span::new(base, base + raw);
        if self.joins {
            record.message = Span::new(base + message, base + raw);
        }
        let start = bytes.len();
        bytes.extend_from_slice(&self.extra);
        if self.joins {
            let text = bytes[self.cut..raw].to_vec();
            Extra::push(ExtraKey::Event, &text, &mut bytes);
        } else if !self.before.is_empty() {
            Extra::push(ExtraKey::Event, &self.before, &mut bytes);
        }
        record.extra = match bytes.len() - start {
            0 => Span::EMPTY,
            length => Span::new(base + start, base + start + length),
        };
        // First: an empty batch takes its buffers with the first bytes.
        builder.append(&bytes);
        record.peer = builder.origin(&self.origin);
        record.class = builder.class(&self.class);
        record
    }

    /// The raw record, and where its message begins.
    fn raw(&self, joined: &[u8]) -> (Vec<u8>, usize) {
        if !self.joins {
            return (self.head.to_vec(), 0);
        }
        let mut raw = self.head[..self.cut].to_vec();
        raw.extend_from_slice(&self.before);
        raw.extend_from_slice(joined);
        raw.extend_from_slice(&self.after);
        let same = raw.starts_with(&self.head);
        let message = if same { self.head.len() } else { self.cut };
        (raw, message)
    }
}

/// End of the head of a raw record, which is what precedes the message, and offset in it of the
/// event's text. That begins with the program, if it names that again, else with the message.
fn head(fields: &[(&[u8], Option<usize>); FIELDS], part: &GroupPart<'_>) -> (usize, usize) {
    let place = |(text, at): (&[u8], Option<usize>)| at.filter(|_| !text.is_empty());
    let program = place(fields[PROGRAM]);
    let end = place(fields[MESSAGE]).or(program).unwrap_or(0);
    let text = match part.before {
        b"" => part.text,
        before => before,
    };
    let again = program.filter(|at| *at <= end && text.starts_with(fields[PROGRAM].0));
    (end, again.unwrap_or(end))
}

/// Span of a field: in the raw record as before if it still stands there, else behind.
fn place(field: &DetachedField, raw: usize, bytes: &mut Vec<u8>, base: usize) -> Span {
    if field.text.is_empty() {
        return Span::EMPTY;
    }
    let length = field.text.len();
    let there = |at: &usize| {
        let end = at + length;
        end <= raw && bytes.get(*at..end) == Some(&field.text[..])
    };
    if let Some(at) = field.at.filter(there) {
        return Span::new(base + at, base + at + length);
    }
    let start = base + bytes.len();
    bytes.extend_from_slice(&field.text);
    Span::new(start, start + length)
}
