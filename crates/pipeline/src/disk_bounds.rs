//! The room on disks that the parts of a configuration may take.

use std::path::PathBuf;

use inrush_config::Config;
use inrush_host::doctor::{DiskRequirement, device, total_bytes};
use inrush_sink::SinkConfig;

use crate::quarantine;
use crate::queue;

/// Parts that take disk, with their bounds, as the process would have them now. One whose file
/// system does not say its size is left out, and so is a store in a bucket.
pub fn disk_asks(config: &Config) -> Vec<DiskRequirement> {
    let options = queue::options(config);
    let folder = |name: &str| config.data_dir.join(name);
    let reserve = Some(("queue.reserve_bytes".to_owned(), options.reserve_bytes.0));
    let mut asks = Vec::new();
    if options.durability.has_disk() {
        let bytes = Some(options.disk_bytes());
        asks.extend(ask("queue.max_bytes", folder("queue"), bytes, |_| reserve));
    }
    let bytes = Some(options.quarantine().0);
    let place = folder(quarantine::FOLDER);
    asks.extend(ask("queue.quarantine_bytes", place, bytes, |_| None));
    for (name, destination) in &config.destinations {
        let owner = format!("destinations.{name}");
        match destination {
            SinkConfig::Store(store) => {
                let Some(place) = store.folder(&config.data_dir) else {
                    continue;
                };
                let bytes = store.keep.bytes.map(|bytes| bytes.0);
                let option = match bytes {
                    Some(_) => format!("{owner}.keep.bytes"),
                    None => owner.clone(),
                };
                let free = |total| Some((format!("{owner}.free"), store.free_least(total)));
                asks.extend(ask(&option, place, bytes, free));
            }
            SinkConfig::File(file) => {
                let place = config.data_dir.join(&file.path);
                asks.extend(ask(&owner, place, None, |_| None));
            }
            _ => {}
        }
    }
    asks
}

/// One part. `leaves`: what it leaves free, of a file system of so many bytes.
fn ask(
    option: &str,
    folder: PathBuf,
    most_bytes: Option<u64>,
    leaves: impl FnOnce(u64) -> Option<(String, u64)>,
) -> Option<DiskRequirement> {
    let total_bytes = total_bytes(&folder)?;
    Some(DiskRequirement {
        option: option.to_owned(),
        device: device(&folder)?,
        total_bytes,
        most_bytes,
        leaves: leaves(total_bytes),
        folder,
    })
}
