//! Configuration that cannot be used as it is: a process that runs keeps its last good one, and the
//! next start fails.

use crate::doctor::finding::{Finding, Layer, Severity};
use crate::doctor::scene::HostFacts;

pub(super) fn check(scene: &HostFacts) -> Vec<Finding> {
    let Some(problem) = &scene.ask.unusable else {
        return Vec::new();
    };
    let finding = Finding::new("config.unusable", Layer::Config, problem.clone())
        .wanted("a configuration whose files can all be read and used")
        .why(
            "A process that runs goes on with what it has. At its next start it ends at once, \
             and everything that is sent to it meanwhile by UDP is lost.",
        );
    vec![finding.bad(Severity::Critical, "inrush check")]
}
