//! All that touches the network or the kernel.

pub mod activation;
pub mod config;
pub mod listen;
pub mod proxy;
pub mod tls;
