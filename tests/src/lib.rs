//! The harness of the black-box tests: the built binary as a process, real sockets, and what
//! stands around it (certificates, other people's clients, and the HEC server of the testkit).
//!
//! # What it guarantees
//! * A test waits for a condition with a deadline, never for a time; a deadline that passes fails
//!   with the ledger and the process's stderr in the message.
//! * Nothing is bound but loopback, on ports that the kernel chooses, and hosts of a [`Network`].
//! * A process or folder of a test does not outlive it.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

mod daemon;
mod dns;
mod hec_client;
mod hec_peer;
mod http;
mod http2_client;
mod inrush;
mod journal;
mod lines;
mod network;
mod pair;
mod pki;
mod recorded;
mod recorder;
mod relp;
mod send;
mod tools;

pub use daemon::Daemon;
pub use dns::{Dns, DnsReply};
pub use hec_client::{HecClient, HecReply, gzip};
pub use hec_peer::{
    HEC_ACK_TOKEN, HEC_PEERS, HEC_TOKEN, HecPeer, assert_arrived, assert_named, free_port,
    hec_peer_config, hec_peer_texts,
};
pub use http::{HttpAnswer, http, http_with};
pub use http2_client::{Http2Client, Http2Request, Http2Stream};
pub use inrush::{Exit, Inrush, Options, binary};
pub use inrush_testkit::{
    DEADLINE, Hec, HecRequest, Reply, Sticky, TcpBalancer, connect_proxy, eventually, raw_server,
};
pub use journal::Journal;
pub use lines::{field, json_lines, sorted};
pub use network::Network;
pub use pair::{Arrived, EndedLoad, HecLoad, Pair};
pub use pki::{Pki, TlsStream, tls_connect};
pub use recorded::RecordedRequest;
pub use recorder::{Recorder, recorded_files};
pub use relp::{Relp, Rsp, relp_frame};
pub use send::{Tcp, lines, numbered, send_udp};
pub use tools::{is_root, peer_tool, run_ok, tool};

/// Says why a test does nothing here, and returns from it.
#[macro_export]
macro_rules! skip {
    ($($why:tt)*) => {{
        eprintln!("SKIPPED: {}", format_args!($($why)*));
        return;
    }};
}
