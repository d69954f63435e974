//! A text as a pattern of paths, over a path of any bytes: it is a pattern or has a fault; a file
//! that matches is reached by folders that are entered; nothing excluded matches.
//!
//! The input is the pattern, a NUL, and the path. The module is compiled by itself: its crate
//! brings TLS, which has no part in this.
#![no_main]

#[allow(
    dead_code,
    unreachable_pub,
    reason = "some of it is for its crate alone"
)]
#[path = "../../crates/transport/src/files/glob.rs"]
mod glob;

use glob::{GLOBS_MAX, GlobSet, names_of};
use libfuzzer_sys::fuzz_target;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

fuzz_target!(|data: &[u8]| {
    let mut parts = data.splitn(2, |byte| *byte == 0);
    let (Some(pattern), path) = (parts.next(), parts.next().unwrap_or(b"/a")) else {
        return;
    };
    let Ok(pattern) = std::str::from_utf8(pattern) else {
        return;
    };
    let Ok(set) = GlobSet::new(&[pattern.to_owned()], &[]) else {
        return;
    };
    let prefixes = set.prefixes();
    assert!(!prefixes.is_empty() && prefixes.len() <= GLOBS_MAX);
    assert!(set.roots().iter().all(|root| root.is_absolute()));
    let names: Vec<&[u8]> = names_of(Path::new(OsStr::from_bytes(path))).collect();
    let Some((last, folders)) = names.split_last() else {
        return;
    };
    let mut state = set.begin();
    let mut reached = true;
    for name in folders {
        reached &= set.verdict(&state, name).folder;
        state = set.enter(&state, name);
    }
    let file = set.verdict(&state, last).file;
    assert!(reached || !file, "{pattern:?}");
    let whole = [b"/", names.join(&b'/').as_slice()].concat();
    assert_eq!(set.matches(Path::new(OsStr::from_bytes(&whole))), file);
    let less = GlobSet::new(&[pattern.to_owned()], &[pattern.to_owned()]).expect("a pattern");
    assert!(!less.matches(Path::new(OsStr::from_bytes(&whole))));
});
