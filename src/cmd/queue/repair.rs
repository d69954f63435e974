//! `inrush queue repair`: writes damaged segments anew.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, bail};
use inrush_pipeline::DataDirLock;
use serde_json::json;

use super::args::{QueueLocation, RepairArgs};

/// Mends queue and quarantine, and says what was done.
pub(super) fn run(place: &QueueLocation, args: &RepairArgs) -> anyhow::Result<ExitCode> {
    let data_dir = place.data_dir()?;
    if !data_dir.is_dir() {
        bail!("there is no folder {}", data_dir.display());
    }
    let _owner = DataDirLock::take(&data_dir)
        .with_context(|| format!("cannot repair {} now: stop it first", data_dir.display()))?;
    let mut out = std::io::stdout().lock();
    let mut actions = 0_u64;
    for folder in [super::QUEUE, inrush_pipeline::quarantine::FOLDER] {
        let path = data_dir.join(folder);
        if !path.is_dir() {
            continue;
        }
        let mut problem = Ok(());
        let mut tell = |action: inrush_queue::Repair| {
            actions += 1;
            let told = if place.json {
                let action = json!({ "folder": folder, "dry_run": args.dry_run, "did": action });
                writeln!(out, "{action}")
            } else {
                writeln!(out, "{folder}/{action}")
            };
            problem = std::mem::replace(&mut problem, Ok(())).and(told);
        };
        inrush_queue::repair(&path, args.dry_run, &mut tell)
            .with_context(|| format!("cannot repair {}", path.display()))?;
        problem?;
    }
    if !place.json {
        match (actions, args.dry_run) {
            (0, _) => writeln!(out, "nothing to repair")?,
            (n, true) => writeln!(out, "{n} things to do; nothing was done")?,
            (n, false) => writeln!(out, "{n} things done")?,
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
