//! Tests of identities on real files: growth, reuse of inodes, damage of the encoded form.

use std::fs;
use std::os::unix::fs::MetadataExt;

use proptest::prelude::*;

use super::*;

fn opened(folder: &tempfile::TempDir, name: &str, bytes: &[u8]) -> File {
    let path = folder.path().join(name);
    fs::write(&path, bytes).unwrap();
    File::open(path).unwrap()
}

#[test]
fn a_file_stays_itself_while_it_grows_and_is_renamed() {
    let folder = tempfile::tempdir().unwrap();
    let file = opened(&folder, "a.log", b"");
    let empty = FileIdentity::of(&file).unwrap();
    assert_eq!(empty.head, FileHead { len: 0, sum: 0 });
    fs::write(folder.path().join("a.log"), b"one\n").unwrap();
    let short = FileIdentity::of(&file).unwrap();
    assert_eq!(short.head.len, 4);
    let long = [b"one\n".as_slice(), &[b'x'; 4096]].concat();
    fs::write(folder.path().join("a.log"), &long).unwrap();
    fs::rename(folder.path().join("a.log"), folder.path().join("a.log.1")).unwrap();
    for known in [empty, short, FileIdentity::of(&file).unwrap()] {
        assert_eq!(known.matches(&file).unwrap(), IdentityMatch::Same);
    }
    assert_eq!(FileIdentity::of(&file).unwrap().head.len, 1024);
    assert!(short.same_content(&file).unwrap());
    assert!(!empty.same_content(&file).unwrap(), "nothing is no content");
}

#[test]
fn equal_beginnings_of_two_inodes_are_two_files() {
    let folder = tempfile::tempdir().unwrap();
    let one = opened(&folder, "1", b"the same");
    let two = opened(&folder, "2", b"the same");
    let known = FileIdentity::of(&one).unwrap();
    assert_eq!(known.matches(&two).unwrap(), IdentityMatch::Other);
    assert!(known.same_content(&two).unwrap());
}

#[test]
fn a_file_that_was_truncated_or_written_over_is_rewritten() {
    let folder = tempfile::tempdir().unwrap();
    let file = opened(&folder, "a", b"first generation");
    let known = FileIdentity::of(&file).unwrap();
    fs::write(folder.path().join("a"), b"").unwrap();
    assert_eq!(known.matches(&file).unwrap(), IdentityMatch::Rewritten);
    fs::write(folder.path().join("a"), b"other generation, longer").unwrap();
    assert_eq!(known.matches(&file).unwrap(), IdentityMatch::Rewritten);
}

/// Makes files until one gets the inode of a deleted one; the file systems here do it at once.
#[test]
fn an_inode_that_was_given_to_a_new_file_is_another_file() {
    let folder = tempfile::tempdir().unwrap();
    let first = opened(&folder, "a", b"same head");
    let known = FileIdentity::of(&first).unwrap();
    drop(first);
    fs::remove_file(folder.path().join("a")).unwrap();
    for number in 0..1_000 {
        let next = opened(&folder, &number.to_string(), b"same head");
        if next.metadata().unwrap().ino() == known.key.inode {
            assert!(known.birth_ns.is_some() || known.generation.is_some());
            assert_eq!(known.matches(&next).unwrap(), IdentityMatch::Other);
            return;
        }
    }
    eprintln!("not shown: this file system does not reuse inodes at once");
}

#[test]
fn birth_or_generation_tell_inodes_apart_where_both_are_known() {
    let folder = tempfile::tempdir().unwrap();
    let file = opened(&folder, "a", b"head");
    let now = FileIdentity::of(&file).unwrap();
    let other = |change: fn(&mut FileIdentity)| {
        let mut known = now;
        change(&mut known);
        known.matches(&file).unwrap()
    };
    assert!(now.birth_ns.is_some(), "of this file system");
    assert_eq!(
        other(|known| known.birth_ns = Some(1)),
        IdentityMatch::Other
    );
    assert_eq!(other(|known| known.birth_ns = None), IdentityMatch::Same);
    assert_eq!(other(|known| known.generation = None), IdentityMatch::Same);
    assert_eq!(
        other(|known| known.key.device.1 += 1),
        IdentityMatch::OtherDevice
    );
    let no_birth = other(|known| {
        known.key.device.1 += 1;
        known.birth_ns = None;
    });
    assert_eq!(no_birth, IdentityMatch::Other);
}

/// The generation is on ext4, and is the kernel's: two files that had one inode have two.
#[test]
fn the_generation_is_read_where_there_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = opened(&folder, "a", b"");
    let magic = rustix::fs::fstatfs(&file).unwrap().f_type;
    let identity = FileIdentity::of(&file).unwrap();
    assert!(magic != 0xef53 || identity.generation.is_some());
}

fn identity() -> impl Strategy<Value = FileIdentity> {
    let head = (0..=HEAD_BYTES_MAX as u16, any::<u32>());
    let key = (any::<(u32, u32)>(), any::<u64>());
    let rest = (any::<Option<i64>>(), any::<Option<u32>>());
    (key, rest, head).prop_map(|((device, inode), (birth_ns, generation), (len, sum))| {
        FileIdentity {
            key: InodeKey { device, inode },
            birth_ns,
            generation,
            head: FileHead { len, sum },
        }
    })
}

proptest! {
    #[test]
    fn an_encoded_identity_comes_back(identity in identity(), more in any::<Vec<u8>>()) {
        let mut bytes = Vec::new();
        identity.push_to(&mut bytes);
        prop_assert_eq!(bytes.len(), IDENTITY_BYTES);
        bytes.extend_from_slice(&more);
        prop_assert_eq!(FileIdentity::decode(&bytes), Ok(identity));
    }

    #[test]
    fn no_bit_of_an_encoded_identity_can_change(
        identity in identity(),
        bit in 0..IDENTITY_BYTES * 8,
    ) {
        let mut bytes = Vec::new();
        identity.push_to(&mut bytes);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(FileIdentity::decode(&bytes).is_err());
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(bytes in any::<Vec<u8>>(), cut in 0..IDENTITY_BYTES) {
        let _ = FileIdentity::decode(&bytes);
        let mut encoded = Vec::new();
        FileIdentity::decode(&bytes).into_iter().for_each(|known| known.push_to(&mut encoded));
        prop_assert_eq!(FileIdentity::decode(&vec![1; cut]), Err(IdentityFault::Short));
    }
}
