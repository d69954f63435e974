//! Lists the files of `packs/`, so that the binary brings them along.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

fn main() {
    // As it is now: a build folder that was copied from elsewhere would bring the packs of there.
    let here = env::var("CARGO_MANIFEST_DIR").expect("set by cargo");
    let folder = Path::new(&here).join("../../packs");
    println!("cargo::rerun-if-env-changed=CARGO_MANIFEST_DIR");
    println!("cargo::rerun-if-changed={}", folder.display());
    let entries = fs::read_dir(&folder).expect("the folder of packs");
    let mut files: Vec<_> = entries
        .map(|entry| entry.expect("a file").path())
        .filter(|path| path.extension().is_some_and(|end| end == "yaml"))
        .collect();
    files.sort();
    let mut text = String::from("[\n");
    for path in files {
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let path = path.canonicalize().expect("a path");
        writeln!(text, "    ({name:?}, include_str!({path:?})),").expect("text");
    }
    text.push_str("]\n");
    let out = Path::new(&env::var("OUT_DIR").expect("set by cargo")).join("files.rs");
    fs::write(out, text).expect("written");
}
