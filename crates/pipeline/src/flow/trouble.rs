//! Fault of a destination, for health, alarms and the flow page.

use inrush_event::Timestamp;
use inrush_sink::LastError;

use super::DestinationState;

/// Fault of a destination.
pub(crate) enum Trouble {
    /// Its thread ended by a fault.
    Ended,
    /// Its last attempt failed.
    Failing {
        since: Timestamp,
        error: Option<LastError>,
    },
    /// Events are pending and none was taken for a while.
    Stalled { since: Timestamp },
}

impl Trouble {
    pub(crate) fn since(&self) -> Option<Timestamp> {
        match self {
            Self::Ended => None,
            Self::Failing { since, .. } | Self::Stalled { since } => Some(*since),
        }
    }

    /// For the operator.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Ended => "its thread ended by a fault; reload or restart".to_owned(),
            Self::Failing { error, .. } => {
                error.as_ref().map_or_else(String::new, |e| e.text.clone())
            }
            Self::Stalled { .. } => "events are pending and none was taken".to_owned(),
        }
    }

    pub(crate) fn state(&self) -> DestinationState {
        match self {
            Self::Ended => DestinationState::Ended,
            Self::Failing { .. } => DestinationState::Failing,
            Self::Stalled { .. } => DestinationState::Stalled,
        }
    }
}
