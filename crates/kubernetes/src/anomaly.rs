//! Odd things in the answers of the API: each is a named count, and the watch goes on.

use std::sync::atomic::{AtomicU64, Ordering};

/// Odd thing in an answer of the API.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObjectAnomaly {
    /// An object, or its event, was larger than the bound and was skipped.
    ObjectTooLarge,
    /// A label, annotation, container or volume was too long or one too many, and was left out.
    PartSkipped,
    /// An event was no JSON of a known shape. The objects are listed again.
    MalformedEvent,
    /// An event had a type that is not known, and was skipped.
    UnknownEvent,
    /// An object had no name or no uid, and was skipped.
    UnnamedObject,
    /// A pod of another node was delivered, and was skipped.
    ForeignPod,
    /// An object was one too many, and was left out.
    TooManyObjects,
    /// A stream ended within an event. The watch goes on from the event before.
    CutEvent,
}

impl ObjectAnomaly {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::ObjectTooLarge,
        Self::PartSkipped,
        Self::MalformedEvent,
        Self::UnknownEvent,
        Self::UnnamedObject,
        Self::ForeignPod,
        Self::TooManyObjects,
        Self::CutEvent,
    ];

    /// Name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::ObjectTooLarge => "object_too_large",
            Self::PartSkipped => "part_skipped",
            Self::MalformedEvent => "malformed_event",
            Self::UnknownEvent => "unknown_event",
            Self::UnnamedObject => "unnamed_object",
            Self::ForeignPod => "foreign_pod",
            Self::TooManyObjects => "too_many_objects",
            Self::CutEvent => "cut_event",
        }
    }
}

/// Counts of anomalies since the start.
#[derive(Debug, Default)]
pub struct ObjectAnomalyCounts([AtomicU64; ObjectAnomaly::ALL.len()]);

impl ObjectAnomalyCounts {
    /// Count of one anomaly.
    pub fn get(&self, anomaly: ObjectAnomaly) -> u64 {
        self.0[anomaly as usize].load(Ordering::Relaxed)
    }

    /// Adds one.
    pub(crate) fn count(&self, anomaly: ObjectAnomaly) {
        self.add(anomaly, 1);
    }

    /// Adds several.
    pub(crate) fn add(&self, anomaly: ObjectAnomaly, number: u64) {
        self.0[anomaly as usize].fetch_add(number, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_anomaly_has_its_own_count() {
        let counts = ObjectAnomalyCounts::default();
        for (number, anomaly) in ObjectAnomaly::ALL.into_iter().enumerate() {
            counts.add(anomaly, number as u64 + 1);
        }
        for (number, anomaly) in ObjectAnomaly::ALL.into_iter().enumerate() {
            assert_eq!(counts.get(anomaly), number as u64 + 1, "{}", anomaly.name());
        }
    }
}
