//! Texts of files that `gzip` and `zstd` made, whole and damaged, and of hostile ones.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;

use super::*;
use crate::files::tail_file::AllowedRoots;

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn zstandard(text: &[u8]) -> Vec<u8> {
    // With length and checksum, as the program `zstd` does.
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), 3).unwrap();
    encoder.include_checksum(true).unwrap();
    let length = Some(text.len() as u64);
    encoder.set_pledged_src_size(length).unwrap();
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn pack(packing: FilePacking, text: &[u8]) -> Vec<u8> {
    match packing {
        FilePacking::Gzip => gzip(text),
        FilePacking::Zstandard => zstandard(text),
    }
}

const BOTH: [FilePacking; 2] = [FilePacking::Gzip, FilePacking::Zstandard];

fn open(path: &Path) -> TailFile {
    TailFile::open(path, &AllowedRoots::new(Vec::new(), true)).unwrap()
}

/// A file of these bytes.
fn file(bytes: &[u8]) -> (tempfile::NamedTempFile, TailFile) {
    let named = tempfile::NamedTempFile::new().unwrap();
    fs::write(named.path(), bytes).unwrap();
    let file = open(named.path());
    (named, file)
}

/// The text from an offset on, read with so much room, and its end.
fn text(reader: &mut PackedFile, file: &TailFile, from: u64, room: usize) -> (Vec<u8>, PackedEnd) {
    let (mut text, mut room) = (Vec::new(), vec![0; room]);
    loop {
        match reader
            .read_at(file, &mut room, from + text.len() as u64)
            .unwrap()
        {
            PackedRead::Text(read) => text.extend_from_slice(&room[..read]),
            PackedRead::Skipped => {}
            PackedRead::End(end) => return (text, end),
        }
    }
}

fn whole(packing: FilePacking, bytes: &[u8]) -> (Vec<u8>, PackedEnd) {
    let (_named, file) = file(bytes);
    text(&mut PackedFile::new(packing), &file, 0, 1000)
}

/// Text that does not compress to nothing.
fn some_text(bytes: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        b'a' + (state >> 24) as u8 % 26
    };
    (0..bytes).map(|_| next()).collect()
}

#[test]
fn members_are_one_text_and_names_tell_the_compression() {
    for packing in BOTH {
        let bytes = [
            pack(packing, b"one\n"),
            pack(packing, b""),
            pack(packing, b"two\n"),
        ];
        let found = whole(packing, &bytes.concat());
        assert_eq!(
            found,
            (b"one\ntwo\n".to_vec(), PackedEnd::Whole),
            "{packing:?}"
        );
        assert_eq!(whole(packing, b""), (Vec::new(), PackedEnd::Cut));
    }
    let name = FilePacking::of_name;
    assert_eq!(
        name(b"a.log.1.gz"),
        Some((FilePacking::Gzip, &b"a.log.1"[..]))
    );
    assert_eq!(name(b"a.zst"), Some((FilePacking::Zstandard, &b"a"[..])));
    assert_eq!((name(b"a.log"), name(b"a.xz")), (None, None));
}

#[test]
fn what_is_wrong_with_a_file_has_a_name_and_costs_nothing_before_it() {
    let wanted = some_text(300_000);
    for packing in BOTH {
        let bytes = pack(packing, &wanted);
        let (found, end) = whole(packing, &bytes[..bytes.len() - 10]);
        assert_eq!(end, PackedEnd::Cut);
        assert!(
            wanted.starts_with(&found) && found.len() > 100_000,
            "{}",
            found.len()
        );
        let garbage = whole(packing, &[&bytes[..], b"garbage behind it"].concat());
        assert!(
            garbage == (wanted.clone(), PackedEnd::Garbage),
            "{packing:?}"
        );
        assert_eq!(
            whole(packing, b"no archive at all"),
            (Vec::new(), PackedEnd::Damaged)
        );
        let mut damaged = bytes.clone();
        for byte in &mut damaged[150_000..150_040] {
            *byte ^= 0x55;
        }
        let (found, end) = whole(packing, &damaged);
        assert_eq!(end, PackedEnd::Damaged, "{packing:?}");
        assert!(found.len() > 50_000, "{}", found.len());
    }
}

#[test]
fn a_file_that_is_being_written_is_read_on() {
    for packing in BOTH {
        let wanted = some_text(200_000);
        let bytes = pack(packing, &wanted);
        let (named, file) = file(&bytes[..bytes.len() / 2]);
        let mut reader = PackedFile::new(packing);
        let (mut found, end) = text(&mut reader, &file, 0, 7000);
        assert_eq!(end, PackedEnd::Cut);
        fs::write(named.path(), &bytes).unwrap();
        let (rest, end) = text(&mut reader, &file, found.len() as u64, 7000);
        found.extend_from_slice(&rest);
        assert!(found == wanted && end == PackedEnd::Whole, "{packing:?}");
    }
}

#[test]
fn the_length_that_a_file_says_is_told() {
    let text = some_text(70_000);
    for packing in BOTH {
        let (_named, whole) = file(&pack(packing, &text));
        assert_eq!(packing.text_bytes(&whole).unwrap(), Some(70_000));
        let (_named, short) = file(b"ab");
        assert_eq!(packing.text_bytes(&short).unwrap(), None);
    }
    assert!(FilePacking::Gzip.fits(7, (3 << 32) + 7) && !FilePacking::Gzip.fits(7, 8));
    assert!(!FilePacking::Zstandard.fits(7, (3 << 32) + 7) && FilePacking::Zstandard.fits(7, 7));
}

#[test]
fn a_bomb_takes_time_and_no_memory() {
    const BYTES: usize = 24 << 20;
    for packing in BOTH {
        let (_named, file) = file(&pack(packing, &vec![0; BYTES]));
        let mut reader = PackedFile::new(packing);
        let mut room = vec![0; 1 << 20];
        let (mut steps, from) = (0, BYTES as u64 - 10);
        let read = loop {
            match reader.read_at(&file, &mut room, from).unwrap() {
                PackedRead::Skipped => steps += 1,
                read => break read,
            }
        };
        assert_eq!(read, PackedRead::Text(10));
        assert!(
            steps >= BYTES / (SKIP_BYTES + SKIP_STEP_BYTES) - 1,
            "{steps}"
        );
        assert!(reader.input.capacity() <= INPUT_BYTES);
    }
    // A window of 128 MiB is none that a reader need have.
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), 3).unwrap();
    encoder.window_log(27).unwrap();
    encoder.write_all(&some_text(1 << 20)).unwrap();
    let bytes = encoder.finish().unwrap();
    assert_eq!(
        whole(FilePacking::Zstandard, &bytes),
        (Vec::new(), PackedEnd::Damaged)
    );
}

proptest! {
    /// A reader that begins at any offset is shown the text from there on.
    #[test]
    fn any_offset_can_be_gone_on_from(
        texts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3000), 1..4),
        from in any::<prop::sample::Index>(),
        back in any::<prop::sample::Index>(),
        room in 1..5000_usize,
        is_gzip in any::<bool>(),
    ) {
        let packing = BOTH[usize::from(!is_gzip)];
        let bytes: Vec<u8> = texts.iter().flat_map(|text| pack(packing, text)).collect();
        let wanted = texts.concat();
        let (_named, file) = file(&bytes);
        let mut reader = PackedFile::new(packing);
        for from in [from.index(wanted.len() + 1), back.index(wanted.len() + 1)] {
            let (found, end) = text(&mut reader, &file, from as u64, room);
            prop_assert_eq!(&found, &wanted[from..]);
            prop_assert_eq!(end, PackedEnd::Whole);
        }
    }

    /// Any bytes behind a good beginning end somewhere, and the text before them is there.
    #[test]
    fn any_bytes_end(
        more in prop::collection::vec(any::<u8>(), 0..300),
        cut in any::<prop::sample::Index>(),
        is_gzip in any::<bool>(),
    ) {
        let packing = BOTH[usize::from(!is_gzip)];
        let good = pack(packing, b"a good line\n");
        let bytes = [&good[..], &more].concat();
        let (found, _) = whole(packing, &bytes);
        prop_assert!(found.starts_with(b"a good line\n"));
        let (found, _) = whole(packing, &bytes[..cut.index(good.len())]);
        prop_assert!(b"a good line\n".starts_with(&found));
        let _ = whole(packing, &more);
    }
}
