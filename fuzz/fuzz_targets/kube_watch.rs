//! Any bytes as the stream of a watch of Kubernetes' API, and as a list: lines, events, objects.
//!
//! The modules are compiled by themselves: their crate brings an HTTP client and TLS, which have no
//! part in this.
#![no_main]

#[allow(dead_code, reason = "most of it is for its crate alone")]
#[path = "../../crates/kubernetes/src/anomaly.rs"]
mod anomaly;

#[allow(dead_code, reason = "some of it is for its crate alone")]
#[path = "../../crates/kubernetes/src/answer.rs"]
mod answer;

#[allow(dead_code, reason = "some of it is for its crate alone")]
#[path = "../../crates/kubernetes/src/lines.rs"]
mod lines;

#[allow(dead_code, reason = "most of it is for its crate alone")]
#[path = "../../crates/kubernetes/src/objects.rs"]
mod objects;

#[allow(dead_code, reason = "some of it is for its crate alone")]
#[path = "../../crates/kubernetes/src/text_map.rs"]
mod text_map;

#[path = "../../crates/kubernetes/tests/support/kube_watch.rs"]
mod laws;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| laws::check(input));
