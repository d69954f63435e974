//! The API over real sockets, with an [`Admin`] whose numbers are all different.
#![allow(clippy::unwrap_used)]

mod assets;
mod auth;
mod client;
mod endpoints;
mod flow;
mod health;
mod hostile;
mod standin;

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use inrush_config::{AdminAddr, AdminOptions};

use crate::{AdminServer, ServerLimits, start, start_within};
use client::{Answer, ask, get, post};
use standin::StandIn;

/// A free port of loopback, open to all who reach it.
fn local() -> AdminOptions {
    AdminOptions {
        listen: AdminAddr("127.0.0.1:0".parse().unwrap()),
        ..AdminOptions::default()
    }
}

fn serve(admin: StandIn) -> AdminServer {
    start(&local(), Arc::new(admin), None).unwrap()
}

fn serve_within(admin: StandIn, limits: ServerLimits) -> AdminServer {
    start_within(&local(), Arc::new(admin), None, limits).unwrap()
}
