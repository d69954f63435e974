//! Numbered events over plain TCP: one connection a life, each event written at most once.

use std::io::Write;
use std::net::Shutdown;
use std::time::Duration;

use inrush_harness::child::wait;

use super::stage::{EventLane, RunControl, TokenBucket};

/// Time-out of a write: one that takes longer means that the process does not read.
const WRITE_MAX: Duration = Duration::from_secs(20);

const PAUSE: Duration = Duration::from_millis(2);

/// Sends until the last call; what a kill takes with it is not sent again.
pub(super) fn run(lane: &EventLane, stage: &RunControl) {
    while !stage.is_last_call() && !stage.is_over() {
        let Some((mut stream, life)) = lane.dial(stage) else {
            return;
        };
        if let Err(error) = stream.set_write_timeout(Some(WRITE_MAX)) {
            lane.account().faults.push(error.to_string());
        }
        let base = lane.account().sends.len() as u32;
        lane.account().bases.push((life, base));
        let mut pace = TokenBucket::new();
        while !stage.is_last_call() && !stage.is_over() {
            if stream.write_all(&due(lane, &mut pace)).is_err() {
                break;
            }
            wait(PAUSE);
        }
        // So that the process sees the end of the last event; after a kill there is none to see.
        let _ = stream.shutdown(Shutdown::Write);
        // One connection a life, so that what the source accepted is the first of what was sent.
        while stage.life() == life && !stage.is_last_call() && !stage.is_over() {
            wait(PAUSE);
        }
    }
}

fn due(lane: &EventLane, pace: &mut TokenBucket) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut account = lane.account();
    for _ in 0..pace.due() {
        let number = account.begin();
        bytes.extend_from_slice(lane.message(number).as_bytes());
        bytes.push(b'\n');
    }
    bytes
}
