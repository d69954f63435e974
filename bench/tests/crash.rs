//! A short run of `inrush-bench crash`: the built binary is killed twenty times under RELP and TCP
//! load, and every event is accounted for. It needs `cargo build -p inrush` first.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

#[test]
fn twenty_kills_lose_nothing_that_was_promised() {
    let bench = Path::new(env!("CARGO_BIN_EXE_inrush-bench"));
    let inrush = bench.with_file_name("inrush");
    assert!(
        inrush.is_file(),
        "{} is missing: run `cargo build -p inrush` first (make test does)",
        inrush.display()
    );
    let ended = Command::new(bench)
        .args([
            "crash", "--kills", "20", "--seed", "7", "--json", "--inrush",
        ])
        .arg(inrush)
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{words}");
    let result = String::from_utf8_lossy(&ended.stdout);
    assert!(result.contains(r#""kills":20,"#), "{result}");
}
