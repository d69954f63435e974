//! Reasons that the rate that this host takes safely was not measured.

use super::finding::{Finding, Layer, Severity};

/// Reason that there is no rate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UnmeasuredReason {
    /// It was not asked for.
    Unwanted,
    /// It would take the CPUs from a process that runs on the data directory.
    Running,
    /// It was tried and failed: why, in words.
    Failed(String),
}

impl UnmeasuredReason {
    /// Finding by which the doctor says so.
    pub(super) fn finding(&self) -> Finding {
        let found = match self {
            Self::Unwanted => "not measured: --no-rate".to_owned(),
            Self::Running => {
                "not measured: an inrush runs on this data directory, and would lose events to a \
                 load that takes all CPUs for ten seconds"
                    .to_owned()
            }
            Self::Failed(why) => format!("not measured: {why}"),
        };
        let finding = Finding::new("cpu.safe_rate", Layer::Cpu, found)
            .wanted("the rate that this host takes safely with this configuration")
            .why("Without it nobody knows how far the load is from what the host can take.");
        match self {
            Self::Unwanted => finding,
            Self::Running | Self::Failed(_) => {
                finding.bad(Severity::Info, "inrush doctor --rate".to_owned())
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_wanted_and_not_had_comes_with_a_command() {
        let command = |why: UnmeasuredReason| why.finding().command;
        assert_eq!(command(UnmeasuredReason::Unwanted), None);
        for why in [
            UnmeasuredReason::Running,
            UnmeasuredReason::Failed("no disk".to_owned()),
        ] {
            assert_eq!(command(why).unwrap(), "inrush doctor --rate");
        }
        let failed = UnmeasuredReason::Failed("no disk".to_owned()).finding();
        assert_eq!(failed.found, "not measured: no disk");
    }
}
