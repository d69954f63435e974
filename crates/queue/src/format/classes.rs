//! Classes that a batch's events were recognised as, kept with it so that it means the same when
//! the packs change.

use std::sync::Arc;

use inrush_event::{ClassInfo, EventText};

use super::FieldReader;
use super::payload::{push_text, text};

/// Three bytes, the length of the rules' names and the number of fields.
const CLASS_BYTES_MIN: usize = 9;
/// The lengths of a field's name and value.
const PAIR_BYTES_MIN: usize = 8;

/// The texts of a class that may be absent, in their order on disk.
fn texts(class: &ClassInfo) -> [&Option<String>; 6] {
    [
        &class.vendor,
        &class.product,
        &class.class,
        &class.index,
        &class.sourcetype,
        &class.source,
    ]
}

/// Appends the classes: their number, then each: a bit for each text that is there, how its
/// events' text is made, whether the receive time counts, the rules, the texts, the indexed fields.
pub(super) fn push(classes: &[Arc<ClassInfo>], out: &mut Vec<u8>) {
    out.extend_from_slice(&(classes.len() as u16).to_le_bytes());
    for class in classes {
        let texts = texts(class);
        let present = texts.iter().enumerate();
        let bits = present.fold(0, |bits, (at, text)| bits | u8::from(text.is_some()) << at);
        out.extend_from_slice(&[bits, class.text as u8, u8::from(class.received_time)]);
        push_text(&class.rules, out);
        for text in texts.into_iter().flatten() {
            push_text(text, out);
        }
        out.extend_from_slice(&(class.fields.len() as u16).to_le_bytes());
        for (name, value) in &class.fields {
            push_text(name, out);
            push_text(value, out);
        }
    }
}

/// Reads them back; `None` if they are none.
pub(super) fn take(fields: &mut FieldReader<'_>) -> Option<Vec<Arc<ClassInfo>>> {
    let count = counted(fields, CLASS_BYTES_MIN)?;
    (0..count).map(|_| class(fields).map(Arc::new)).collect()
}

/// A number of things of at least so many bytes; `None`: there is no room for as many.
fn counted(fields: &mut FieldReader<'_>, bytes_min: usize) -> Option<u16> {
    let count = fields.u16();
    (usize::from(count) <= fields.0.len() / bytes_min).then_some(count)
}

fn class(fields: &mut FieldReader<'_>) -> Option<ClassInfo> {
    let (bits, event_text, received) = (fields.u8(), fields.u8(), fields.u8());
    let rules = text(fields)?;
    let mut optional = |at: u8| match bits >> at & 1 {
        0 => Some(None),
        _ => text(fields).map(Some),
    };
    let (vendor, product, class) = (optional(0)?, optional(1)?, optional(2)?);
    let (index, sourcetype, source) = (optional(3)?, optional(4)?, optional(5)?);
    let count = counted(fields, PAIR_BYTES_MIN)?;
    let pairs = (0..count).map(|_| Some((text(fields)?, text(fields)?)));
    Some(ClassInfo {
        rules,
        vendor,
        product,
        class,
        index,
        sourcetype,
        source,
        text: *EventText::ALL.get(usize::from(event_text))?,
        fields: pairs.collect::<Option<_>>()?,
        received_time: received != 0,
        hint: None,
        owner: None,
    })
}
