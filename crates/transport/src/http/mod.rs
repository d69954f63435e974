//! HTTP/1 (RFC 9112) as functions over bytes: heads of requests, and bodies without their framing.
//!
//! `httparse` has the grammar; here is what a server has to decide beyond it.

pub mod body;
pub mod head;
