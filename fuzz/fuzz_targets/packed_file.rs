//! Compressed files: their text does not depend on the rooms it is read into nor on the offset at
//! which a reader begins, and is the text that readers of whole streams give. The first byte
//! chooses gzip or Zstandard, and whether the rest is a file or is to be packed and damaged; the
//! second one the room, the next two the offset.
//!
//! The modules are compiled by themselves: their crate brings TLS, which has no part in this.
#![no_main]

#[allow(
    dead_code,
    unreachable_pub,
    reason = "some of it is for its crate alone"
)]
#[path = "../../crates/transport/src/files"]
mod files {
    pub mod packed_file;
    pub mod tail_file;
}

use std::fs;
use std::io::{Read, Write};
use std::path::PathBuf;

use files::packed_file::{FilePacking, PackedEnd, PackedFile, PackedRead};
use files::tail_file::{AllowedRoots, TailFile};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use libfuzzer_sys::fuzz_target;

/// Text of a file that is looked at here.
const TEXT_BYTES_MAX: usize = 1 << 20;

fn pack(packing: FilePacking, text: &[u8]) -> Vec<u8> {
    match packing {
        FilePacking::Gzip => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(text).unwrap();
            encoder.finish().unwrap()
        }
        FilePacking::Zstandard => zstd::stream::encode_all(text, 1).unwrap(),
    }
}

/// The text as a reader of the whole stream gives it, up to its first fault.
fn reference(packing: FilePacking, file: &[u8]) -> (Vec<u8>, bool) {
    let mut reader: Box<dyn Read + '_> = match packing {
        FilePacking::Gzip => Box::new(MultiGzDecoder::new(file)),
        FilePacking::Zstandard => match zstd::stream::read::Decoder::new(file) {
            Ok(decoder) => Box::new(decoder),
            Err(_) => return (Vec::new(), false),
        },
    };
    let (mut text, mut room) = (Vec::new(), [0; 4096]);
    while text.len() < TEXT_BYTES_MAX {
        match reader.read(&mut room) {
            Ok(0) => return (text, true),
            Ok(read) => text.extend_from_slice(&room[..read]),
            Err(_) => return (text, false),
        }
    }
    (text, false)
}

/// The text from an offset on, and its end; `None`: there is more than is looked at.
fn read(
    reader: &mut PackedFile,
    file: &TailFile,
    offset: u64,
    room: usize,
) -> (Vec<u8>, Option<PackedEnd>) {
    let (mut text, mut room) = (Vec::new(), vec![0; room]);
    while text.len() < TEXT_BYTES_MAX {
        let at = offset + text.len() as u64;
        match reader.read_at(file, &mut room, at).unwrap() {
            PackedRead::Text(read) => {
                assert!(read > 0);
                text.extend_from_slice(&room[..read]);
            }
            PackedRead::Skipped => {}
            PackedRead::End(end) => return (text, Some(end)),
        }
    }
    (text, None)
}

/// The file of this process that inputs are written to.
fn path() -> PathBuf {
    std::env::temp_dir().join(format!("inrush-fuzz-packed-{}", std::process::id()))
}

fuzz_target!(|input: &[u8]| {
    let [options, room, high, low, rest @ ..] = input else {
        return;
    };
    let packing = match options & 1 {
        0 => FilePacking::Gzip,
        _ => FilePacking::Zstandard,
    };
    let offset = u64::from(*high) << 8 | u64::from(*low);
    let mut bytes = rest.to_vec();
    if options & 2 != 0 {
        bytes = pack(packing, rest);
        let (at, length) = (usize::from(*low), bytes.len());
        match options >> 2 & 3 {
            0 => {}
            1 => bytes.truncate(length.saturating_sub(at)),
            2 => bytes[at % length] ^= high | 1,
            _ => bytes.extend(pack(packing, &rest[..rest.len() / 2])),
        }
    }
    fs::write(path(), &bytes).unwrap();
    let file = TailFile::open(&path(), &AllowedRoots::new(Vec::new(), true)).unwrap();

    let (whole, end) = read(&mut PackedFile::new(packing), &file, 0, 64 * 1024);
    let mut again = PackedFile::new(packing);
    let (pieces, other_end) = read(&mut again, &file, 0, usize::from(*room) + 1);
    if end.is_some() && other_end.is_some() {
        assert_eq!((&whole, end), (&pieces, other_end));
        let from = whole.get(offset as usize..).unwrap_or_default();
        // The same reader goes back, as after a restart.
        assert_eq!(read(&mut again, &file, offset, 4096), (from.to_vec(), end));
    }
    let (reference, is_whole) = reference(packing, &bytes);
    let both = whole.len().min(reference.len());
    assert_eq!(whole[..both], reference[..both]);
    if end == Some(PackedEnd::Whole) && is_whole {
        assert_eq!(whole.len(), reference.len());
    }
    if is_whole && !bytes.is_empty() && end.is_some() {
        assert_eq!(end, Some(PackedEnd::Whole));
    }
});
