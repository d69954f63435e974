//! JSON string escaping, as fast as the copy it mostly is.

use std::cell::Cell;

thread_local! {
    /// True if a text since [`clear_broken`] was not UTF-8. Only such texts touch it, so that the
    /// callers of [`json_escape`], who write one event in many pieces, need not hand it around.
    static BROKEN: Cell<bool> = const { Cell::new(false) };
}

/// Forgets what this thread has escaped so far.
#[inline]
pub(super) fn clear_broken() {
    BROKEN.set(false);
}

/// True if this thread escaped a text that is not UTF-8 since [`clear_broken`].
#[inline]
pub(super) fn is_broken() -> bool {
    BROKEN.get()
}

/// Says of a text that was not escaped here that it is not UTF-8.
pub(super) fn set_broken() {
    BROKEN.set(true);
}

/// Bytes that are looked at as one. Measured on 800 B of ASCII with SSE2, 128 take half the time
/// of 32, since the verdict on a chunk costs as much as comparing 16 bytes.
const CHUNK_BYTES: usize = 128;

/// Appends `bytes` as the inside of a JSON string, without the quotes.
///
/// Almost all bytes of almost all events need no escape, so runs of those are found a chunk at a
/// time (in a form that the compiler turns into vector code) and copied as a whole.
pub fn json_escape(bytes: &[u8], out: &mut Vec<u8>) {
    let mut rest = bytes;
    loop {
        let (plain, tail) = rest.split_at(plain_len(rest));
        out.extend_from_slice(plain);
        match tail.first() {
            None => return,
            Some(byte) if byte.is_ascii() => {
                push_escape(*byte, out);
                rest = &tail[1..];
            }
            Some(_) => {
                let (wide, after) = tail.split_at(wide_len(tail));
                push_utf8(wide, out);
                rest = after;
            }
        }
    }
}

/// True if a JSON string can hold the byte as it is. Read as signed, everything outside ASCII is
/// negative, so one comparison covers control bytes and wide ones.
const fn is_plain(byte: u8) -> bool {
    (byte as i8) >= 0x20 && byte != b'"' && byte != b'\\'
}

/// Bytes before the first that cannot be copied as it is. Text full of quotes (JSON in a message)
/// ends most runs within a word or two, so those are looked at before the chunks.
fn plain_len(bytes: &[u8]) -> usize {
    const NEAR_BYTES: usize = 16;
    let near = &bytes[..bytes.len().min(NEAR_BYTES)];
    let clean = plain_len_in_words(near);
    if clean < NEAR_BYTES {
        return clean;
    }
    let clean = clean + plain_len_in_chunks::<CHUNK_BYTES>(&bytes[clean..]);
    let clean = clean + plain_len_in_chunks::<32>(&bytes[clean..]);
    clean + plain_len_in_words(&bytes[clean..])
}

fn plain_len_in_chunks<const N: usize>(bytes: &[u8]) -> usize {
    let (chunks, _) = bytes.as_chunks::<N>();
    chunks
        .iter()
        .take_while(|chunk| chunk_is_plain(chunk))
        .count()
        * N
}

/// Masks gathered in a `[u8; 16]` took 47 ns instead of 65 for 768 B by themselves, and made the
/// whole binary slower (20 % of the samples instead of 13): what the compiler makes of them depends
/// on what they are inlined into. Measure the binary.
fn chunk_is_plain<const N: usize>(chunk: &[u8; N]) -> bool {
    let mut odd = 0u8;
    for byte in chunk {
        odd |= u8::from(!is_plain(*byte));
    }
    odd == 0
}

/// The same for a short stretch, eight bytes at a time.
fn plain_len_in_words(bytes: &[u8]) -> usize {
    let (words, tail) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let odd = odd_bytes(u64::from_le_bytes(*word));
        if odd != 0 {
            return index * 8 + odd.trailing_zeros() as usize / 8;
        }
    }
    words.len() * 8 + tail.iter().take_while(|byte| is_plain(**byte)).count()
}

/// A word whose lowest set bit lies in the first byte that is not plain; bits above it may be
/// wrong, since a borrow runs upwards only from a byte that is itself marked.
const fn odd_bytes(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES * 0x80;
    let quote = word ^ (ONES * b'"' as u64);
    let backslash = word ^ (ONES * b'\\' as u64);
    let below_space = word.wrapping_sub(ONES * 0x20) & !word;
    let is_quote = quote.wrapping_sub(ONES) & !quote;
    let is_backslash = backslash.wrapping_sub(ONES) & !backslash;
    (below_space | is_quote | is_backslash | word) & HIGH
}

/// Bytes up to the next ASCII byte. Every byte of a multi-byte sequence is wide, so such a run is
/// valid or broken by itself.
fn wide_len(bytes: &[u8]) -> usize {
    bytes.iter().position(u8::is_ascii).unwrap_or(bytes.len())
}

fn push_utf8(bytes: &[u8], out: &mut Vec<u8>) {
    for chunk in bytes.utf8_chunks() {
        push_shown(chunk.valid(), out);
        if !chunk.invalid().is_empty() {
            BROKEN.set(true);
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
}

/// Appends a text and escapes what a terminal would obey, or what makes a line read as something
/// else: a reader of JSON gets the same text.
fn push_shown(text: &str, out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = rest.find(inrush_event::is_unprintable) {
        let (plain, tail) = rest.split_at(at);
        out.extend_from_slice(plain.as_bytes());
        let mut chars = tail.chars();
        for unit in chars.next().unwrap_or_default().encode_utf16(&mut [0; 2]) {
            out.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
        }
        rest = chars.as_str();
    }
    out.extend_from_slice(rest.as_bytes());
}

fn push_escape(byte: u8, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        0x0c => b'f',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        _ => {
            let (high, low) = (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]);
            return out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}
