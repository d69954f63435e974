//! All that touches the network or the kernel.

pub mod config;
