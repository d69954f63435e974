//! The harness of the black-box tests: the built binary as a process, real sockets, and what
//! stands around it (a HEC server, certificates, other people's clients).
//!
//! # What it guarantees
//! * A test waits for a condition with a deadline, never for a time; a deadline that passes fails
//!   with the ledger and the process's stderr in the message.
//! * Nothing is bound but loopback, on ports that the kernel chooses.
//! * A process or folder of a test does not outlive it.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

mod dns;
mod hec;
mod http;
mod inrush;
mod lines;
mod pki;
mod relp;
mod send;
mod tools;

pub use dns::{Dns, DnsReply};
pub use hec::{Hec, HecRequest, Reply, Sticky};
pub use http::{HttpAnswer, http, http_with};
pub use inrush::{Exit, Inrush, Options, binary};
pub use lines::{field, json_lines, sorted};
pub use pki::{Pki, TlsStream, tls_connect};
pub use relp::{Relp, Rsp, relp_frame};
pub use send::{Tcp, lines, numbered, send_udp};
pub use tools::{is_root, run_ok, tool};

use std::time::{Duration, Instant};

/// How long a condition may take before its test fails. Generous: the machine may be slow, and a
/// test that passes never waits for it.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Polls until `probe` gives something.
///
/// # Panics
/// After [`DEADLINE`], with `what`.
pub fn eventually<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(
            Instant::now() < end,
            "waited {DEADLINE:?} in vain for: {what}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Says why a test does nothing here, and returns from it.
#[macro_export]
macro_rules! skip {
    ($($why:tt)*) => {{
        eprintln!("SKIPPED: {}", format_args!($($why)*));
        return;
    }};
}
