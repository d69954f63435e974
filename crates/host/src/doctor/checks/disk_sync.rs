//! Time that the disk takes to keep 4 KiB for good: fdatasync(2), tried out beforehand.

use std::time::Duration;

use crate::doctor::finding::{Finding, Layer, Severity};
use crate::doctor::scene::HostFacts;

/// Longest median time of a sync: the queue writes in rounds of 25 ms, and an acknowledgement waits
/// for one.
const MEDIAN_MAX: Duration = Duration::from_millis(25);

/// Longest time of the slowest of them.
const SLOWEST_MAX: Duration = Duration::from_millis(250);

pub(super) fn check(scene: &HostFacts) -> Vec<Finding> {
    let wanted = format!("half of them within {} ms", MEDIAN_MAX.as_millis());
    let new = |found: String| {
        Finding::new("disk.sync", Layer::Disk, found)
            .wanted(wanted.clone())
            .why(
                "RELP answers, HEC acknowledgements and the queue wait until the disk says that \
                 it has kept something. A slow one loses nothing, but holds up senders that wait \
                 for an answer.",
            )
    };
    let folder = scene.disk.folder.display();
    let syncs = match &scene.disk.syncs {
        Ok(syncs) => syncs,
        Err(error) => {
            let finding = new(format!("{folder}: not tried: {error}"));
            return vec![finding.bad(Severity::Info, format!("ls -ld {folder}"))];
        }
    };
    let (Some(median), Some(slowest)) = (syncs.get(syncs.len() / 2), syncs.last()) else {
        return Vec::new();
    };
    let ms = |duration: &Duration| duration.as_secs_f64() * 1000.0;
    let finding = new(format!(
        "{folder}: {} writes of 4 KiB with fdatasync: p50 {:.2} ms, max {:.2} ms",
        syncs.len(),
        ms(median),
        ms(slowest),
    ));
    vec![if *median > MEDIAN_MAX || *slowest > SLOWEST_MAX {
        finding.bad(Severity::Warn, "iostat -x 1 5")
    } else {
        finding
    }]
}
