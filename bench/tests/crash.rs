//! A short run of `inrush-bench crash`: the built binary is killed twenty times under RELP and TCP
//! load, and every event is accounted for. It needs `cargo build -p inrush` first.
#![allow(clippy::unwrap_used)]

mod common;

use std::process::Command;

use common::{bench, inrush};
use serde_json::Value;

#[test]
fn twenty_kills_lose_nothing_that_was_promised() {
    let ended = Command::new(bench())
        .args([
            "crash", "--kills", "20", "--seed", "7", "--json", "--inrush",
        ])
        .arg(inrush())
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&ended.stderr);
    let result: Value = serde_json::from_slice(&ended.stdout).expect(&words);
    assert_eq!(result["kills"], 20, "{words}");
    // Not how soon before a kill a TCP event is written: that is a time, and the disk's. The runs
    // of `bench/RESULTS.md` judge it.
    let nothing = [
        "acked_lost",
        "spared_lost",
        "unbalanced",
        "unexplained",
        "odd",
        "refused",
    ];
    for none in nothing {
        assert_eq!(result[none], 0, "{none}: {words}");
    }
    for some in ["acked", "owed", "looks", "delivered"] {
        assert!(result[some].as_u64() > Some(0), "{some}: {words}");
    }
}
