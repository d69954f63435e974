//! Body: objects one after the other, or in an array, whatever the cuts between reads.

use super::envelope::{Envelope, EnvelopeFault, EnvelopeStop, envelope};
use crate::json;

/// Next step through a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BodyStep {
    /// An object; the next step begins at `end`.
    Object {
        /// The object.
        envelope: Envelope,
        /// Offset after it.
        end: usize,
    },
    /// More bytes are needed; those from `keep` on must be shown again, with more behind them.
    More {
        /// Offset of the first byte of the unfinished object.
        keep: usize,
    },
    /// The body ended well.
    End,
    /// The object with the number [`BodySplitter::count`] is at fault.
    Fault(EnvelopeFault),
}

/// Part of a body that is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum SplitPlace {
    /// Nothing has come but white space.
    #[default]
    Start,
    /// Behind an object that stands in no array.
    Objects,
    /// Behind the bracket of an array.
    ArrayStart,
    /// Behind an object of an array.
    Array,
    /// Behind the comma of an array.
    ArrayNext,
    /// Behind the array.
    ArrayEnd,
}

/// Splits a body into its objects, in place.
///
/// An object that is not complete is parsed again when more of it has come. To parse a long one
/// once, and not with every read, its end is looked for first.
#[derive(Clone, Debug, Default)]
pub struct BodySplitter {
    place: SplitPlace,
    count: u64,
    search: Option<EndSearch>,
}

impl BodySplitter {
    /// Objects so far: the number, from 0, of the next one.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The step at `start`; `last` says that the body ends with `bytes`. Where [`BodyStep::More`]
    /// was the answer before, `start` is the byte that was to be kept.
    pub fn step(&mut self, bytes: &[u8], start: usize, last: bool) -> BodyStep {
        let mut at = start;
        if self.search.is_none() {
            at = match self.seek(bytes, at) {
                Ok(Some(at)) => at,
                Ok(None) if last => return self.end(),
                Ok(None) => return BodyStep::More { keep: bytes.len() },
                Err(fault) => return BodyStep::Fault(fault),
            };
        }
        let complete = match &mut self.search {
            Some(search) => search.found(&bytes[at..]),
            None => true,
        };
        if complete || last {
            match envelope(bytes, at) {
                Ok(envelope) => {
                    self.count += 1;
                    self.search = None;
                    self.place = match self.place {
                        SplitPlace::ArrayStart | SplitPlace::ArrayNext => SplitPlace::Array,
                        _ => SplitPlace::Objects,
                    };
                    let end = envelope.object.end();
                    return BodyStep::Object { envelope, end };
                }
                Err(EnvelopeStop::Fault(fault)) => return BodyStep::Fault(fault),
                Err(EnvelopeStop::Incomplete) if last => {
                    return BodyStep::Fault(EnvelopeFault::Format);
                }
                Err(EnvelopeStop::Incomplete) => {
                    let search = self.search.get_or_insert_default();
                    // It cannot have ended: the parser came to the end of the bytes.
                    search.found(&bytes[at..]);
                }
            }
        }
        BodyStep::More { keep: at }
    }

    /// The end of a body at a place where no object begins.
    fn end(&self) -> BodyStep {
        match self.place {
            SplitPlace::Start | SplitPlace::Objects | SplitPlace::ArrayEnd => BodyStep::End,
            _ => BodyStep::Fault(EnvelopeFault::Format),
        }
    }

    /// Offset of the brace of the next object; `None` if there is none in these bytes.
    fn seek(&mut self, bytes: &[u8], at: usize) -> Result<Option<usize>, EnvelopeFault> {
        let mut at = at;
        loop {
            at = json::skip_space(bytes, at);
            let Some(byte) = bytes.get(at) else {
                return Ok(None);
            };
            self.place = match (self.place, byte) {
                (
                    SplitPlace::Start
                    | SplitPlace::Objects
                    | SplitPlace::ArrayStart
                    | SplitPlace::ArrayNext,
                    b'{',
                ) => {
                    return Ok(Some(at));
                }
                (SplitPlace::Start, b'[') => SplitPlace::ArrayStart,
                (SplitPlace::ArrayStart | SplitPlace::Array, b']') => SplitPlace::ArrayEnd,
                (SplitPlace::Array, b',') => SplitPlace::ArrayNext,
                _ => return Err(EnvelopeFault::Format),
            };
            at += 1;
        }
    }
}

/// Search for the end of an object that is not complete: its braces and brackets are counted.
#[derive(Clone, Copy, Debug, Default)]
struct EndSearch {
    /// Bytes that were looked at.
    seen: usize,
    depth: u64,
    in_text: bool,
    in_escape: bool,
}

impl EndSearch {
    /// Looks at what came behind what it has seen; true if the object ends in `bytes`, which begin
    /// with it. What is no JSON may end earlier, or never.
    fn found(&mut self, bytes: &[u8]) -> bool {
        while let Some(byte) = bytes.get(self.seen) {
            if self.in_escape {
                self.in_escape = false;
                self.seen += 1;
                continue;
            }
            if self.in_text {
                let rest = &bytes[self.seen..];
                let Some(plain) = memchr::memchr2(b'"', b'\\', rest) else {
                    self.seen = bytes.len();
                    return false;
                };
                self.in_escape = rest[plain] == b'\\';
                self.in_text = self.in_escape;
                self.seen += plain + 1;
                continue;
            }
            self.seen += 1;
            match byte {
                b'"' => self.in_text = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return true;
                    }
                }
                _ => {}
            }
        }
        false
    }
}
