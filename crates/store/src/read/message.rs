//! The column `message`: what is left of the raw text behind its header. It is no column of the
//! files, and not copied: its views point into the raw text's own buffers.

use arrow_array::builder::make_view;
use arrow_array::{Array, StringViewArray, UInt32Array};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::ArrowError;

/// The messages of `raw`, which begin at the bytes `begins`. Where that is nothing, or no place
/// within the text, there is no message.
pub(super) fn messages(
    raw: &StringViewArray,
    begins: &UInt32Array,
) -> Result<StringViewArray, ArrowError> {
    let mut views = Vec::with_capacity(raw.len());
    let mut there = Vec::with_capacity(raw.len());
    for row in 0..raw.len() {
        let begin = begins.is_valid(row).then(|| begins.value(row));
        let view = begin.and_then(|begin| message(raw, row, begin));
        there.push(view.is_some());
        views.push(view.unwrap_or(0));
    }
    let (_, buffers, _) = raw.clone().into_parts();
    StringViewArray::try_new(
        ScalarBuffer::from(views),
        buffers,
        Some(NullBuffer::from(there)),
    )
}

/// The view of one message.
fn message(raw: &StringViewArray, row: usize, begin: u32) -> Option<u128> {
    let text = raw.is_valid(row).then(|| raw.value(row))?;
    let message = text.get(begin as usize..)?;
    // Layout of a view that is not inline, from the low end: length, beginning, buffer, offset,
    // 32 bits each. What is inline stays so, and there the last two are not looked at.
    let view = raw.views()[row];
    let (buffer, offset) = ((view >> 64) as u32, (view >> 96) as u32);
    Some(make_view(
        message.as_bytes(),
        buffer,
        offset.wrapping_add(begin),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_the_rest_of_the_raw_text() {
        let long = "<34>1 - - - - - - the message is longer than twelve bytes";
        let raw = StringViewArray::from(vec![
            Some(long),
            Some(long),
            Some("<34>short"),
            Some("äb"),
            Some("abc"),
            Some("abc"),
            Some("abc"),
            None,
        ]);
        let begins = UInt32Array::from(vec![
            Some(18),
            Some(50),
            Some(4),
            Some(1),
            Some(3),
            Some(4),
            None,
            Some(0),
        ]);
        let messages = messages(&raw, &begins).unwrap();
        let expected = StringViewArray::from(vec![
            Some("the message is longer than twelve bytes"),
            Some("e bytes"),
            Some("short"),
            // In the middle of a character.
            None,
            Some(""),
            None,
            None,
            None,
        ]);
        assert_eq!(messages, expected);
        let same = |one: &StringViewArray, other: &StringViewArray| {
            one.data_buffers()[0].as_ptr() == other.data_buffers()[0].as_ptr()
        };
        assert!(same(&raw, &messages), "the text is not copied");
    }
}
