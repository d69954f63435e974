//! Alarms of files: those that cannot be read, fall behind, or are polled for want of watches.

use inrush_event::Timestamp;
use inrush_tail::listing::{PollReason, PollingCause};

use super::{AlarmDraft, Severity};
use crate::file_trend::FileTrouble;

const UNREADABLE: &str = "docs/guides/files.md#a-file-cannot-be-read";
const BEHIND: &str = "docs/guides/files.md#a-log-falls-behind";
const WATCHES: &str = "docs/guides/files.md#watches-are-used-up";
pub(super) const LOST: &str = "docs/guides/files.md#unread-bytes-were-deleted";
pub(super) const MISSED: &str = "docs/guides/files.md#files-were-deleted-unopened";

/// Bytes of a path in an alarm, at most.
const PATH_CHARS_MAX: usize = 200;

/// A path for people: control characters are escaped, and a long one loses its middle.
fn shown(path: &str) -> String {
    let path: String = path.chars().flat_map(escaped).collect();
    let chars: Vec<char> = path.chars().collect();
    if chars.len() <= PATH_CHARS_MAX {
        return path;
    }
    let half = PATH_CHARS_MAX / 2;
    let (first, last) = (&chars[..half], &chars[chars.len() - half..]);
    first.iter().chain(&['…']).chain(last).collect()
}

fn escaped(c: char) -> Vec<char> {
    match c.is_control() {
        true => c.escape_default().collect(),
        false => vec![c],
    }
}

/// A number of bytes with one decimal.
fn size(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units.into_iter().find(|(shift, _)| bytes >> shift > 0);
    unit.map_or(format!("{bytes} bytes"), |(shift, unit)| {
        format!("{:.1} {unit}", bytes as f64 / (1_u64 << shift) as f64)
    })
}

/// Words for so many files that nobody opened.
pub(super) fn deleted_unopened(files: u64) -> String {
    match files {
        1 => "one file that was deleted before it could be opened".to_owned(),
        files => format!("{files} files that were deleted before they could be opened"),
    }
}

fn and_others(others: u64, one: &str, more: &str) -> String {
    match others {
        0 => String::new(),
        1 => format!(" (and one other {one})"),
        n => format!(" (and {n} other {more})"),
    }
}

/// Something that is wrong with the files of a source.
pub(in crate::overview) fn files(source: &str, trouble: &FileTrouble) -> AlarmDraft {
    match trouble {
        FileTrouble::Unreadable {
            path,
            reason,
            others,
            since,
        } => unreadable_file(source, path, reason, *others, *since),
        FileTrouble::Behind {
            path,
            lag_bytes,
            lag_s,
            others,
            since,
        } => AlarmDraft {
            id: format!("files-behind:{source}"),
            severity: Severity::Warning,
            what: format!(
                "Source {source} reads {}{} more slowly than it is written: {} are unread, the \
                 oldest for up to {:.0} s.",
                shown(path),
                and_others(*others, "log", "logs"),
                size(*lag_bytes),
                lag_s
            ),
            since: Some(*since),
            cause: "The queue is full, CPU is short or limited, or the disk is slow. A runtime \
                that rotates deletes its oldest file without asking, whether or not it was read."
                .to_owned(),
            remedy:
                "First look for alarms of the queue, of a destination and of CPU time. Without \
                one, look whether the thread of the source is busy (`inrush top`, \
                `tail-SOURCE`). For more time raise the runtime's limits: `max-size` and \
                `max-file` of Docker, `containerLogMaxSize` and `containerLogMaxFiles` of the \
                kubelet."
                    .to_owned(),
            link: BEHIND,
        },
        FileTrouble::Polled(cause) => polled(source, cause),
    }
}

fn unreadable_file(
    source: &str,
    path: &str,
    reason: &str,
    others: u64,
    since: Timestamp,
) -> AlarmDraft {
    AlarmDraft {
        id: format!("files-unreadable:{source}"),
        severity: Severity::Warning,
        what: format!(
            "Source {source} cannot read {}{}: {reason}.",
            shown(path),
            and_others(others, "file", "files")
        ),
        since: Some(since),
        cause: "Permissions of the file or of a folder above it, a mandatory access control \
            (SELinux, AppArmor), too few descriptors, or an error of the disk."
            .to_owned(),
        remedy: "Look at the permissions on the whole path (`namei -l FILE`) and at `dmesg`. Let \
            Inrush's user read it: a group, an ACL (`setfacl -m u:inrush:r`), or \
            `CAP_DAC_READ_SEARCH`. Or exclude it: `exclude`. Inrush tries again by itself; \
            `inrush doctor` lists such files."
            .to_owned(),
        link: UNREADABLE,
    }
}

fn polled(source: &str, cause: &PollingCause) -> AlarmDraft {
    let (what, limit) = match cause.reason {
        PollReason::NoInstance => ("instance", "fs.inotify.max_user_instances=1024"),
        _ => ("watch", "fs.inotify.max_user_watches=524288"),
    };
    let place = match (&cause.folder, cause.files) {
        (Some(folder), 0) => format!("{} and maybe other folders", shown(folder)),
        (Some(folder), files) => format!("{} and {files} files", shown(folder)),
        (None, 1) => "one file".to_owned(),
        (None, files) => format!("{files} files"),
    };
    AlarmDraft {
        id: format!("files-polled:{source}"),
        severity: Severity::Warning,
        what: format!("Source {source} polls {place}, since no inotify {what} is left."),
        since: Some(Timestamp(cause.since_ms.saturating_mul(1_000_000))),
        cause: "Watches and instances of inotify have a limit for each user, and all programs of \
            the user share it. Polled files are read up to `poll_interval` late; a file that \
            lives for a shorter time is missed."
            .to_owned(),
        remedy: format!(
            "Raise the limit, now and in /etc/sysctl.d: `sysctl -w {limit}`. Inrush uses it by \
             itself. `inrush doctor` says how many files there are."
        ),
        link: WATCHES,
    }
}

/// One of each, for the tests of all alarms.
#[cfg(test)]
pub(super) fn examples() -> impl Iterator<Item = AlarmDraft> {
    let since = Timestamp(5);
    let cause = |reason, folder: Option<&str>, files| {
        FileTrouble::Polled(PollingCause {
            reason,
            words: "words".to_owned(),
            since_ms: 5,
            folder: folder.map(str::to_owned),
            files,
        })
    };
    [
        FileTrouble::Unreadable {
            path: "/var/log/a\nb".to_owned(),
            reason: "the permission to read it is missing".to_owned(),
            others: 1,
            since,
        },
        FileTrouble::Behind {
            path: format!("/{}", "x".repeat(4000)),
            lag_bytes: 3 << 30,
            lag_s: 240.4,
            others: 2,
            since,
        },
        cause(PollReason::NoInstance, Some("/var/log"), 0),
        cause(PollReason::NoWatch, Some("/var/log"), 7),
        cause(PollReason::NoWatch, None, 1),
        cause(PollReason::NoWatch, None, 7),
    ]
    .into_iter()
    .map(|trouble| files("pods", &trouble))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_nobody_opened_are_told_in_words() {
        assert_eq!(
            deleted_unopened(1),
            "one file that was deleted before it could be opened"
        );
        assert!(deleted_unopened(2).starts_with("2 files that were deleted"));
    }

    #[test]
    fn a_path_neither_breaks_a_line_nor_fills_the_page() {
        assert_eq!(shown("/a\nb\u{1b}[1m"), "/a\\nb\\u{1b}[1m");
        let long = shown(&format!("/a{}z", "é".repeat(4000)));
        assert_eq!(long.chars().count(), PATH_CHARS_MAX + 1);
        assert!(long.starts_with("/aé") && long.ends_with("éz"));
    }
}
