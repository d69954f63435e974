//! HTTP/1 (RFC 9112) as functions over bytes: heads of requests, and bodies without their framing
//! and compression.
//!
//! `httparse` has the grammar, and `flate2` and `libdeflate` inflate; here is what a server has to
//! decide beyond.

pub mod body;
mod gunzip;
pub mod head;
pub mod reader;
pub mod unfinished;
