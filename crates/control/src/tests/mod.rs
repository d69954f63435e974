//! The API over real sockets, with an [`Admin`] whose numbers are all different.
#![allow(clippy::unwrap_used)]

mod assets;
mod client;
mod endpoints;
mod hostile;
mod standin;

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use client::{Answer, ask, get};
use standin::StandIn;

use crate::{Limits, Server, start, start_within};

fn serve(admin: StandIn) -> Server {
    start("127.0.0.1:0".parse().unwrap(), Arc::new(admin)).unwrap()
}
