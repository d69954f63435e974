//! Reason why an event lies in quarantine, as it stands in its frame's names block.

use inrush_event::Timestamp;

use super::FieldReader;
use super::payload::{push_text, text};

/// Reason why an event lies in quarantine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RefusalNote {
    /// Time at which it was refused.
    pub at: Timestamp,
    /// The reason's label in the ledger.
    pub reason: String,
    /// The destination's own code, 0 if it gave none.
    pub code: u32,
    /// Requests or writes that it was part of before it was refused.
    pub attempts: u32,
    /// The destination's own words.
    pub text: String,
}

impl RefusalNote {
    pub(super) fn push(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.at.0.to_le_bytes());
        out.extend_from_slice(&self.code.to_le_bytes());
        out.extend_from_slice(&self.attempts.to_le_bytes());
        push_text(&self.reason, out);
        push_text(&self.text, out);
    }

    pub(super) fn take(fields: &mut FieldReader<'_>) -> Option<Self> {
        let at = Timestamp(fields.u64() as i64);
        let (code, attempts) = (fields.u32(), fields.u32());
        let reason = text(fields)?;
        let text = text(fields)?;
        Some(Self {
            at,
            reason,
            code,
            attempts,
            text,
        })
    }
}
