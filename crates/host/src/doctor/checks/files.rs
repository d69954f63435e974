//! Files that sources would read: those that cannot be opened, are passed over or polled, and
//! patterns that match nothing. A survey found them; this judges it.

use std::path::{Path, PathBuf};

use crate::doctor::asked::{FileRequirement, FoundPaths};
use crate::doctor::finding::{Finding, Layer, Severity};
use crate::doctor::scene::HostFacts;

/// Paths that a finding names.
const NAMED: usize = 3;

pub(super) fn check(scene: &HostFacts) -> Vec<Finding> {
    scene.ask.files.iter().flat_map(findings).collect()
}

fn findings(one: &FileRequirement) -> Vec<Finding> {
    let mut findings = vec![found(one)];
    let more = [denied(one), skipped(one), polled(one), unmatched(one)];
    findings.extend(more.into_iter().flatten());
    findings
}

/// Text with control characters escaped: a name may hold anything.
fn shown(path: &Path) -> String {
    let text = path.to_string_lossy();
    let escape = |c: char| match c.is_control() {
        true => c.escape_default().collect::<String>(),
        false => c.to_string(),
    };
    text.chars().map(escape).collect()
}

fn named(paths: &FoundPaths) -> String {
    let one = |(path, reason): &(PathBuf, String)| format!("{}: {reason}", shown(path));
    let listed: Vec<String> = paths.listed.iter().take(NAMED).map(one).collect();
    let more = paths.count.saturating_sub(listed.len() as u64);
    let more = match more {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    format!("{}{more}", listed.join("; "))
}

fn first(paths: &FoundPaths) -> String {
    let first = paths.listed.first().map(|(path, _)| shown(path));
    format!("'{}'", first.unwrap_or_default().replace('\'', "'\\''"))
}

fn found(one: &FileRequirement) -> Finding {
    let FileRequirement { files, folders, .. } = one;
    let at_least = if one.is_partial { "at least " } else { "" };
    Finding::new(
        format!("files.found:{}", one.source),
        Layer::Config,
        format!(
            "source {}: {at_least}{files} files in {folders} folders",
            one.source
        ),
    )
    .wanted("the files that are to be read")
    .why("New files are found by themselves.")
}

fn denied(one: &FileRequirement) -> Option<Finding> {
    (one.denied.count > 0).then(|| {
        Finding::new(
            format!("files.unreadable:{}", one.source),
            Layer::Config,
            format!("source {}: {}", one.source, named(&one.denied)),
        )
        .wanted("files that can be opened by the user of Inrush")
        .why(
            "Nothing of them is read, and a runtime deletes them in time. The doctor tried as its \
             own user, which may be another one than that of the service.",
        )
        .bad(Severity::Warn, format!("namei -l {}", first(&one.denied)))
    })
}

fn skipped(one: &FileRequirement) -> Option<Finding> {
    (one.skipped.count > 0).then(|| {
        Finding::new(
            format!("files.skipped:{}", one.source),
            Layer::Config,
            format!("source {}: {}", one.source, named(&one.skipped)),
        )
        .wanted("patterns that match regular files in allowed folders")
        .why("They match `include` and are passed over.")
        .bad(Severity::Info, format!("ls -l {}", first(&one.skipped)))
    })
}

fn polled(one: &FileRequirement) -> Option<Finding> {
    (one.polled.count > 0).then(|| {
        Finding::new(
            format!("files.polled:{}", one.source),
            Layer::Config,
            format!("source {}: {}", one.source, named(&one.polled)),
        )
        .wanted("files on a local file system")
        .why(
            "The kernel reports no change that another host makes, so these folders are polled: \
             lines come up to `poll_interval` late, and a file that lives for a shorter time is \
             missed. Read the files on the host that writes them.",
        )
        .bad(Severity::Info, format!("findmnt -T {}", first(&one.polled)))
    })
}

fn unmatched(one: &FileRequirement) -> Option<Finding> {
    (!one.unmatched.is_empty()).then(|| {
        let patterns: Vec<String> = one
            .unmatched
            .iter()
            .map(|text| format!("`{text}`"))
            .collect();
        let verb = if patterns.len() == 1 {
            "matches"
        } else {
            "match"
        };
        Finding::new(
            format!("files.unmatched:{}", one.source),
            Layer::Config,
            format!(
                "source {}: {} {verb} nothing",
                one.source,
                patterns.join(", ")
            ),
        )
        .wanted("a file for each pattern of `include`")
        .why(
            "A typing error, a folder that this user may not list, a volume that is not mounted \
             into the container, or files that do not exist yet.",
        )
        .bad(Severity::Warn, "inrush check".to_owned())
    })
}
