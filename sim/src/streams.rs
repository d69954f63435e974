//! Streams of sources, and what the oracle knows of their positions.
//!
//! # The rules
//! * After a start the position of a stream is one that was noted, and none that is older than that
//!   of a batch that is durable.
//! * What came before it is in the log: it is owed, until a power cut takes it with its position.
//! * What came behind it is not, and never comes out. Only where a power cut or a disk that fails
//!   has torn what was not durable, a batch behind the gap may come all the same, and then twice.

use std::collections::BTreeMap;

use fastrand::Rng;
use inrush_event::StreamPosition;

use crate::oracle::{BatchDurability, Oracle, OracleVerdict};

/// Streams of a source.
pub(crate) const STREAMS: u64 = 3;

/// One position of a stream.
struct NotedPosition {
    token: u64,
    /// Batch that it came with; `None`: it came alone.
    batch: Option<usize>,
}

/// Positions of all streams, each in the order in which the log took them.
#[derive(Default)]
pub(crate) struct StreamOracle {
    streams: BTreeMap<(&'static str, u64), Vec<NotedPosition>>,
    tokens: u64,
}

/// The state of a position: its token, and bytes that follow from it.
pub(crate) fn state(token: u64) -> Box<[u8]> {
    let mut rng = Rng::with_seed(token);
    let length = match rng.u8(..8) {
        0 => rng.usize(..2_000),
        _ => rng.usize(..40),
    };
    let mut state = token.to_le_bytes().to_vec();
    state.resize(8 + length, 0);
    rng.fill(&mut state[8..]);
    state.into()
}

/// The token of a position.
///
/// # Errors
/// It is not as it was made.
pub(crate) fn token(found: &StreamPosition) -> Result<u64, String> {
    let token = found
        .state
        .first_chunk::<8>()
        .map(|token| u64::from_le_bytes(*token));
    let token = token.ok_or("a position that is none")?;
    match found.state == state(token) {
        true => Ok(token),
        false => Err(format!(
            "the position of stream {} is not as it was made",
            found.stream
        )),
    }
}

impl StreamOracle {
    /// A number for a position.
    pub(crate) fn next_token(&mut self) -> u64 {
        self.tokens += 1;
        self.tokens
    }

    /// The log was in memory, and is gone.
    pub(crate) fn forget(&mut self) {
        self.streams.clear();
    }

    /// The log took a position, with a batch or alone.
    pub(crate) fn noted(
        &mut self,
        source: &'static str,
        stream: u64,
        token: u64,
        batch: Option<usize>,
    ) {
        let noted = self.streams.entry((source, stream)).or_default();
        noted.push(NotedPosition { token, batch });
    }
}

impl Oracle {
    /// A start has found these positions of a source. `torn`: batches that were not durable may be
    /// there behind a gap.
    ///
    /// # Errors
    /// They are none that may be.
    pub(crate) fn positions_found(
        &mut self,
        source: &'static str,
        found: &[StreamPosition],
        torn: bool,
    ) -> OracleVerdict {
        for stream in 0..STREAMS {
            let position = found.iter().find(|position| position.stream == stream);
            let token = position.map(token).transpose()?;
            let noted = self.streams.streams.entry((source, stream)).or_default();
            let known = |token: u64| noted.iter().rposition(|noted| noted.token == token);
            let place = match token {
                Some(token) => match known(token) {
                    Some(at) => at + 1,
                    None if self.unsound_reads => noted.len(),
                    None => return Err(format!("{source} {stream}: nobody noted {token}")),
                },
                None => 0,
            };
            let behind = noted.split_off(place);
            if self.unsound_reads {
                continue;
            }
            for batch in noted.iter().filter_map(|noted| noted.batch) {
                let keep = &mut self.batches[batch].keep;
                match keep {
                    BatchDurability::Gone => {
                        return Err(format!(
                            "{source} {stream}: batch {batch} is read, and one of its streams is not"
                        ));
                    }
                    BatchDurability::Unsure => *keep = BatchDurability::Found,
                    _ => {}
                }
            }
            for batch in behind.iter().filter_map(|noted| noted.batch) {
                let keep = &mut self.batches[batch].keep;
                match keep {
                    BatchDurability::Durable | BatchDurability::Found => {
                        return Err(format!(
                            "{source} {stream}: batch {batch} is durable, and its position is not"
                        ));
                    }
                    BatchDurability::Unsure if !torn => *keep = BatchDurability::Gone,
                    _ => {}
                }
            }
            // What a failed sync hid may be there again, while nothing newer is durable.
            let hidden = behind.into_iter().filter(|_| torn);
            noted.extend(hidden.map(|one| NotedPosition { batch: None, ..one }));
        }
        match found.iter().find(|position| position.stream >= STREAMS) {
            Some(strange) => Err(format!("{source} has no stream {}", strange.stream)),
            None => Ok(()),
        }
    }
}

/// Streams that a batch is of: one, or two.
pub(crate) fn streams_of(rng: &mut Rng) -> Vec<u64> {
    let one = rng.u64(..STREAMS);
    match rng.u8(..4) {
        0 => vec![one, (one + 1) % STREAMS],
        _ => vec![one],
    }
}
