//! Names of files: which are those of a log's older generations, and which are never read.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use inrush_transport::files::identity::InodeKey;

/// Endings of names of what is compressed, or not complete yet: never read as text.
const PACKED: [&[u8]; 7] = [b".gz", b".bz2", b".xz", b".zst", b".lz4", b".Z", b".tmp"];

/// True if a name says that its file is compressed, or not complete yet.
pub(super) fn is_packed(name: &[u8]) -> bool {
    PACKED.iter().any(|ending| name.ends_with(ending))
}

/// True if a name is that of an older generation of `base`: `base.1`, `base.20261128-101500`,
/// `base-20261128`; with `base` as `stem.ending` also `stem-20261128.ending`.
pub(super) fn is_generation(base: &[u8], name: &[u8]) -> bool {
    let rest = name.strip_prefix(base);
    (is_dated(base, name) || rest.is_some_and(is_parted)) && !is_packed(name)
}

fn is_parted(rest: &[u8]) -> bool {
    matches!(rest.first(), Some(b'.' | b'-'))
}

/// True if it is a number or a time.
fn is_date(rest: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_digit() || b".-_:T".contains(byte);
    rest.iter().all(is_part) && rest.iter().any(u8::is_ascii_digit)
}

/// `base` before its ending, and the ending with its dot.
fn split_ending(base: &[u8]) -> (&[u8], &[u8]) {
    base.split_at(base.iter().rposition(|byte| *byte == b'.').unwrap_or(0))
}

/// True if a name has a date before the ending of `base`.
fn is_dated(base: &[u8], name: &[u8]) -> bool {
    let (stem, ending) = split_ending(base);
    let rest = name.strip_prefix(stem);
    let rest = rest.and_then(|rest| rest.strip_suffix(ending));
    !stem.is_empty() && rest.is_some_and(|rest| is_parted(rest) && is_date(rest))
}

/// True if a generation's name has a number or a time behind that of its log, and nothing else:
/// what has other words there may be no log at all.
pub(super) fn is_rotated(base: &[u8], name: &[u8]) -> bool {
    is_dated(base, name) || name.strip_prefix(base).is_some_and(is_date)
}

/// Names of logs of which this may be the name of an older generation.
pub(super) fn bases_of(name: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let (_, ending) = split_ending(name);
    let ends = name.iter().enumerate();
    let ends = ends.filter(|(_, byte)| matches!(byte, b'.' | b'-'));
    let bases = ends.flat_map(move |(end, _)| {
        let base = &name[..end];
        [base.to_vec(), [base, ending].concat()]
    });
    bases.filter(move |base| is_generation(base, name))
}

/// True if the name of a path is that of something compressed, or not complete.
pub(super) fn is_packed_path(path: &Path) -> bool {
    is_packed(name_of(path))
}

/// The last part of a path, as bytes.
pub(super) fn name_of(path: &Path) -> &[u8] {
    path.file_name().map_or(&b""[..], OsStrExt::as_bytes)
}

/// True if a path is that of an older generation of the log at another path.
pub(super) fn is_generation_of(log: &Path, path: &Path) -> bool {
    log.parent() == path.parent() && is_generation(name_of(log), name_of(path))
}

/// True if a path leads to this file now.
pub(super) fn leads_to(path: &Path, key: InodeKey) -> bool {
    fs::metadata(path).is_ok_and(|found| InodeKey::of(&found) == key)
}

/// Names beside a log that are those of its older generations.
pub(super) fn siblings(path: &Path) -> Vec<PathBuf> {
    let (Some(folder), Some(base)) = (path.parent(), path.file_name()) else {
        return Vec::new();
    };
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let names = entries.flatten().map(|entry| entry.file_name());
    let older = names.filter(|name| is_generation(base.as_bytes(), name.as_bytes()));
    older.map(|name| folder.join(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_have_the_name_of_their_log_and_a_number_or_date() {
        for name in [
            "a.log.1",
            "a.log-20261128",
            "a.log.20261128-101500",
            "a-20261128.log",
            "a.2.log",
            "a-20261128-1764324000.log",
        ] {
            assert!(is_generation(b"a.log", name.as_bytes()), "{name}");
        }
        for name in [
            "a.log",
            "a.log.1.gz",
            "a-error.log",
            "a-.log",
            "ab.log",
            "a.1og",
            "b-20261128.log",
            "a-20261128.txt",
        ] {
            assert!(!is_generation(b"a.log", name.as_bytes()), "{name}");
        }
        let bases: Vec<_> = bases_of(b"a-20261128.log").collect();
        assert_eq!(bases, [&b"a"[..], b"a.log", b"a-20261128"]);
        assert!(is_generation(b"messages", b"messages-20261128"));
        assert!(!is_generation(b"messages", b"messages"));
        assert!(!is_generation(b".log", b"-1.log"));
    }
}
