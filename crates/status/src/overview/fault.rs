//! Fault of a destination, for health, alarms and the flow page.

use std::sync::PoisonError;

use inrush_event::Timestamp;
use inrush_pipeline::destination::RunningDestination;
use inrush_pipeline::topology::Topology;
use inrush_sink::LastError;

use super::DestinationState;

/// Fault of a destination.
pub enum DestinationFault {
    /// Its thread ended by a fault.
    Ended,
    /// Its last attempt failed.
    Failing {
        /// Time at which the destination became unhealthy.
        since: Timestamp,
        /// Last failed attempt, or the lasting failure of quarantine or acks; `None` if unrecorded.
        error: Option<LastError>,
    },
    /// Events are pending and none was taken for a while.
    Stalled {
        /// Time at which it last took events or had none pending.
        since: Timestamp,
    },
}

impl DestinationFault {
    /// Fault of a destination, if it has one.
    pub fn of(topology: &Topology, destination: &RunningDestination) -> Option<Self> {
        let status = &destination.status;
        if destination.ended() {
            return Some(Self::Ended);
        }
        if !status.healthy() {
            return Some(Self::Failing {
                since: status.since(),
                error: status.last_error(),
            });
        }
        let progress = topology
            .progress
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let since = progress.stalled_since(&destination.name)?;
        Some(Self::Stalled { since })
    }

    /// Time at which the fault began; `None` for an ended thread, as nobody noted that moment.
    pub fn since(&self) -> Option<Timestamp> {
        match self {
            Self::Ended => None,
            Self::Failing { since, .. } | Self::Stalled { since } => Some(*since),
        }
    }

    /// For the operator.
    pub fn words(&self) -> String {
        match self {
            Self::Ended => "its thread ended by a fault; reload or restart".to_owned(),
            Self::Failing { error, .. } => {
                error.as_ref().map_or_else(String::new, |e| e.text.clone())
            }
            Self::Stalled { .. } => "events are pending and none was taken".to_owned(),
        }
    }

    /// Health that the flow page shows for this fault.
    pub fn state(&self) -> DestinationState {
        match self {
            Self::Ended => DestinationState::Ended,
            Self::Failing { .. } => DestinationState::Failing,
            Self::Stalled { .. } => DestinationState::Stalled,
        }
    }
}
