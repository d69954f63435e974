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

/// Asserts that a file gives this text and end, whatever room it is read with.
#[track_caller]
fn assert_gives(packing: FilePacking, bytes: &[u8], wanted: &[u8], end: PackedEnd) {
    let (_named, file) = file(bytes);
    let few = |room: &usize| wanted.len() / room <= 40_000;
    for room in [1, 7, 11, 64, 1000, 64 * 1024, 1 << 20]
        .into_iter()
        .filter(few)
    {
        let found = text(&mut PackedFile::new(packing), &file, 0, room);
        let length = found.0.len();
        assert_eq!(
            (found.0 == wanted, found.1, length),
            (true, end, wanted.len()),
            "{packing:?}, room {room}"
        );
    }
}

#[test]
fn text_before_damage_is_given_in_rooms_of_any_size() {
    let wanted = some_text(300_000);
    for (packing, checksum_at) in [(FilePacking::Gzip, 8), (FilePacking::Zstandard, 4)] {
        for wanted in [&wanted[..4], &wanted] {
            let mut damaged = pack(packing, wanted);
            let at = damaged.len() - checksum_at;
            damaged[at] ^= 1;
            assert_gives(packing, &damaged, wanted, PackedEnd::Damaged);
            let members = [&pack(packing, b"a member\n"), &damaged[..]].concat();
            let wanted = [b"a member\n", wanted].concat();
            assert_gives(packing, &members, &wanted, PackedEnd::Damaged);
        }
    }
}

/// A frame of Zstandard of blocks that are not compressed (RFC 8878 section 3.1.1.2.2).
fn raw_frame(blocks: &[&[u8]], last: [u8; 3]) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0x58];
    for block in blocks {
        let header = (block.len() as u32) << 3;
        frame.extend_from_slice(&header.to_le_bytes()[..3]);
        frame.extend_from_slice(block);
    }
    frame.extend_from_slice(&last);
    frame
}

#[test]
fn text_before_a_block_that_is_none_is_given() {
    let text = some_text(30_000);
    // A block that repeats one byte (type 1), 20,000 times, and then a reserved one (type 3).
    let repeated = [&((20_000_u32 << 3) | 2).to_le_bytes()[..3], b"r"].concat();
    let reserved = [6, 0, 0];
    let frame = raw_frame(&[&text, b"x", b""], reserved);
    let wanted = [&text[..], b"x"].concat();
    assert_gives(FilePacking::Zstandard, &frame, &wanted, PackedEnd::Damaged);
    let head = raw_frame(&[b"x"], [0, 0, 0]);
    let frame = [&head, &repeated[..], &reserved].concat();
    let wanted = [b"x", &[b'r'; 20_000][..]].concat();
    assert_gives(FilePacking::Zstandard, &frame, &wanted, PackedEnd::Damaged);
}

#[test]
fn a_cut_file_stays_cut_however_often_it_is_asked_for_more() {
    let wanted = some_text(200_000);
    for packing in BOTH {
        let bytes = pack(packing, &wanted);
        let (named, file) = file(&bytes[..bytes.len() / 2]);
        let mut reader = PackedFile::new(packing);
        let (mut found, _) = text(&mut reader, &file, 0, 7000);
        for _ in 0..100 {
            let more = text(&mut reader, &file, found.len() as u64, 7000);
            assert_eq!(more, (Vec::new(), PackedEnd::Cut), "{packing:?}");
        }
        fs::write(named.path(), &bytes).unwrap();
        let (rest, end) = text(&mut reader, &file, found.len() as u64, 7000);
        found.extend_from_slice(&rest);
        assert!(found == wanted && end == PackedEnd::Whole, "{packing:?}");
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

    /// Damage anywhere, and what follows it, is the same in rooms of any size.
    #[test]
    fn damage_is_the_same_in_any_room(
        texts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3000), 1..4),
        repeats in 1..60_usize,
        at in any::<prop::sample::Index>(),
        flip in 1..=255_u8,
        cut in any::<prop::sample::Index>(),
        room in 1..5000_usize,
        is_gzip in any::<bool>(),
    ) {
        let packing = BOTH[usize::from(!is_gzip)];
        let packed = texts.iter().map(|text| pack(packing, &text.repeat(repeats)));
        let mut bytes: Vec<u8> = packed.flatten().collect();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        bytes.truncate((bytes.len() / 2 + cut.index(bytes.len())).max(1));
        let (_named, file) = file(&bytes);
        let whole = text(&mut PackedFile::new(packing), &file, 0, 1 << 20);
        let pieces = text(&mut PackedFile::new(packing), &file, 0, room);
        prop_assert_eq!(pieces.1, whole.1);
        prop_assert!(pieces.0 == whole.0, "{} and {}", pieces.0.len(), whole.0.len());
    }
}
