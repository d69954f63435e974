//! Tests of opening and reading: what is no regular file, links, holes.

use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

use super::*;

fn within(folder: &tempfile::TempDir) -> AllowedRoots {
    AllowedRoots::new(vec![folder.path().to_owned()], false)
}

#[test]
fn a_file_is_read_at_any_offset_until_after_its_deletion() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.log");
    fs::write(&path, b"one\ntwo\n").unwrap();
    let file = TailFile::open(&path, &within(&folder)).unwrap();
    let mut buf = [0; 16];
    assert_eq!(file.read_at(&mut buf, 4).unwrap(), 4);
    assert_eq!(&buf[..4], b"two\n");
    assert_eq!(file.read_at(&mut buf, 8).unwrap(), 0);
    let before = file.status().unwrap();
    assert_eq!((before.len, before.links), (8, 1));
    fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .unwrap()
        .write_all(b"3")
        .unwrap();
    assert_eq!(file.len().unwrap(), 9);
    fs::remove_file(&path).unwrap();
    assert_eq!(file.links().unwrap(), 0);
    assert_eq!(file.read_at(&mut buf, 0).unwrap(), 9);
    assert!(!file.is_empty().unwrap());
    for advice in [
        ReadAdvice::Normal,
        ReadAdvice::Sequential,
        ReadAdvice::Done { from: 0, len: 4 },
        ReadAdvice::Done { from: 0, len: 0 },
    ] {
        file.advise(advice);
    }
}

#[test]
fn only_regular_files_are_opened_and_each_refusal_has_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let refusal = |name: &str| TailFile::open(&at(name), &within(&folder)).unwrap_err();
    nix::unistd::mkfifo(&at("fifo.log"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    fs::create_dir(at("folder.log")).unwrap();
    let _socket = UnixListener::bind(at("socket.log")).unwrap();
    symlink("/dev/zero", at("zero.log")).unwrap();
    symlink("gone", at("dangling.log")).unwrap();
    symlink("loop.log", at("loop.log")).unwrap();
    let special = PathRefusal::Special;
    assert_eq!(refusal("fifo.log"), special(SpecialFile::Fifo));
    assert_eq!(refusal("folder.log"), special(SpecialFile::Folder));
    assert_eq!(refusal("socket.log"), special(SpecialFile::Socket));
    assert_eq!(refusal("zero.log"), special(SpecialFile::CharacterDevice));
    assert_eq!(refusal("dangling.log"), PathRefusal::Dangling);
    assert_eq!(refusal("loop.log"), PathRefusal::LinkLoop);
    assert_eq!(refusal("nothing.log"), PathRefusal::Gone);
}

#[test]
fn links_lead_to_allowed_roots_only() {
    let folder = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("a.log"), b"secret").unwrap();
    let link = folder.path().join("a.log");
    symlink(outside.path().join("a.log"), &link).unwrap();
    let target = fs::canonicalize(outside.path()).unwrap().join("a.log");
    let refused = TailFile::open(&link, &within(&folder)).unwrap_err();
    assert_eq!(refused, PathRefusal::Outside { target });
    assert!(refused.to_string().contains("follow_outside"));
    let everywhere = AllowedRoots::new(vec![], true);
    assert_eq!(
        TailFile::open(&link, &everywhere).unwrap().len().unwrap(),
        6
    );
    // A folder on the way that is a link is no way around.
    symlink(outside.path(), folder.path().join("sub")).unwrap();
    let behind = folder.path().join("sub/a.log");
    assert!(matches!(
        TailFile::open(&behind, &within(&folder)),
        Err(PathRefusal::Outside { .. })
    ));
    // A root that is a link counts as its target.
    let roots = AllowedRoots::new(vec![folder.path().join("sub")], false);
    assert_eq!(TailFile::open(&behind, &roots).unwrap().len().unwrap(), 6);
}

#[test]
fn data_is_found_behind_a_hole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sparse.log");
    let writer = File::create(&path).unwrap();
    // 1 TiB, sparse.
    writer.write_all_at(b"end\n", 1 << 40).unwrap();
    let file = TailFile::open(&path, &within(&folder)).unwrap();
    let data = file.next_data(0).unwrap().unwrap();
    assert!(data > 1 << 39 && data <= 1 << 40, "{data}");
    assert_eq!(file.next_data(1 << 40).unwrap(), Some(1 << 40));
    assert_eq!(file.next_data((1 << 40) + 4).unwrap(), None);
    writer.set_len(1 << 41).unwrap();
    let behind = file.next_data((1 << 40) + 4096).unwrap();
    assert_eq!(behind, None, "only a hole is left");
}

#[test]
fn a_file_without_permission_is_denied_and_readable_again_after_it() {
    if nix::unistd::geteuid().is_root() {
        eprintln!("skipped: root may read everything");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.log");
    fs::write(&path, b"x").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    let denied = TailFile::open(&path, &within(&folder)).unwrap_err();
    assert_eq!(denied, PathRefusal::Denied);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
    assert!(TailFile::open(&path, &within(&folder)).is_ok());
}

#[test]
fn file_systems_of_other_hosts_are_known() {
    assert_eq!(FileSystemKind::of_magic(0xef53), FileSystemKind::Local);
    assert_eq!(
        FileSystemKind::of_magic(0x794c_7630),
        FileSystemKind::Overlay
    );
    assert_eq!(FileSystemKind::of_magic(0x6969), FileSystemKind::Remote);
    assert!(FileSystemKind::Overlay.is_remote() && !FileSystemKind::Overlay.needs_polling());
    assert!(FileSystemKind::Remote.needs_polling() && !FileSystemKind::Local.is_remote());
    let proc = FileSystemKind::of_path(Path::new("/proc")).unwrap();
    assert_eq!(proc, FileSystemKind::Local);
}
