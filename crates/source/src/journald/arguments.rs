//! Arguments of `journalctl`.

use std::ffi::OsString;

use super::options::JournaldSource;

/// Place at which a child begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum JournalSeek {
    /// The first entry.
    Beginning,
    /// The entry of a cursor, itself.
    Cursor(String),
    /// The first entry of that time or a later one, in microseconds since 1970.
    Since(u64),
}

/// Arguments that do not change from one start to the next: folder and filters.
fn fixed(options: &JournaldSource) -> (Vec<OsString>, Vec<OsString>) {
    let mut named: Vec<OsString> = Vec::new();
    let mut add = |name: &str, value: &std::ffi::OsStr| {
        let mut argument = OsString::from(name);
        argument.push(value);
        named.push(argument);
    };
    if let Some(directory) = &options.directory {
        add("--directory=", directory.as_os_str());
    }
    if let Some(namespace) = &options.namespace {
        add("--namespace=", namespace.as_ref());
    }
    for unit in &options.units {
        add("--unit=", unit.as_ref());
    }
    if let Some(priority) = &options.priority {
        add("--priority=", priority.as_ref());
    }
    let matches = options.matches.iter().map(OsString::from).collect();
    (named, matches)
}

/// Arguments of a child that begins at a place.
///
/// The entry of the cursor is asked for itself, not what comes after it: `--after-cursor` of
/// systemd 252 passes over the entry behind a cursor that is gone.
pub(super) fn arguments(options: &JournaldSource, seek: &JournalSeek) -> Vec<OsString> {
    let mut all: Vec<OsString> = [
        "--output=export",
        "--follow",
        "--no-tail",
        "--all",
        "--no-pager",
        "--quiet",
    ]
    .map(OsString::from)
    .to_vec();
    if options.directory.is_none() {
        // Else it shows no boot but the present one, and no other machine's files.
        all.push("--merge".into());
    }
    match seek {
        JournalSeek::Beginning => {}
        JournalSeek::Cursor(cursor) => all.push(format!("--cursor={cursor}").into()),
        JournalSeek::Since(at) => {
            let (seconds, rest) = (at / 1_000_000, at % 1_000_000);
            all.push(format!("--since=@{seconds}.{rest:06}").into());
        }
    }
    let (named, matches) = fixed(options);
    all.extend(named);
    if !matches.is_empty() {
        all.push("--".into());
        all.extend(matches);
    }
    all
}

/// Number that stands for what entries are read: another one may have others between the same two.
pub(super) fn filter_sum(options: &JournaldSource) -> u32 {
    let parts = [&options.matches, &options.units];
    let mut text: Vec<u8> = Vec::new();
    for part in parts {
        for one in part {
            text.extend_from_slice(one.as_bytes());
            text.push(0);
        }
        text.push(1);
    }
    text.extend_from_slice(options.priority.as_deref().unwrap_or_default().as_bytes());
    inrush_event::crc32c(&text)
}

/// Number of the journal that the options name: places of one mean nothing in another.
pub(super) fn stream_number(options: &JournaldSource) -> u64 {
    use std::os::unix::ffi::OsStrExt;
    let directory = options.directory.as_deref().unwrap_or("".as_ref());
    let namespace = options.namespace.as_deref().unwrap_or_default();
    let of = |bytes: &[u8]| u64::from(inrush_event::crc32c(bytes));
    of(directory.as_os_str().as_bytes()) << 32 | of(namespace.as_bytes())
}
