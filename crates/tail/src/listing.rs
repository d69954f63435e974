//! Files of a source as they are at one moment, for the page, the API and alarms.

use serde::Serialize;

/// Files of a source at one moment. Counts are totals since the start of the process.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FileListing {
    /// Logs that are read, whether or not they are listed.
    pub logs: u64,
    /// Bytes of them that are not read yet.
    pub lag_bytes: u64,
    /// Logs that cannot be read at this moment, though they are open.
    pub failed: u64,
    /// Names that match and are not open, with a reason; at most 1,024 are remembered.
    pub refused: u64,
    /// Logs that are polled, since the kernel does not report their changes.
    pub polled: u64,
    /// Bytes that were deleted before they could be read.
    pub rotated_away_unread_bytes: u64,
    /// Files that were deleted before they could be opened.
    pub missed_generations: u64,
    /// Reasons for which folders or files are polled.
    pub polling: Vec<PollingCause>,
    /// Those that cannot be read first, then those with most unread bytes; names that are passed
    /// over last.
    pub files: Vec<ListedFile>,
}

/// A reason for which folders or files are polled.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PollingCause {
    /// The reason.
    pub reason: PollReason,
    /// The reason in words, without a full stop.
    pub words: String,
    /// First time that it was met, in milliseconds since 1970.
    pub since_ms: i64,
    /// A folder that is polled for it; `None` where only files are.
    pub folder: Option<String>,
    /// Logs that are polled for it.
    pub files: u64,
}

/// Kind of a reason for which something is polled.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PollReason {
    /// No watch is left (`fs.inotify.max_user_watches`).
    NoWatch,
    /// No instance of inotify is left (`fs.inotify.max_user_instances`).
    NoInstance,
    /// The file system does not report changes: NFS, SMB, FUSE and their like.
    FileSystem,
    /// The permission to watch it is missing.
    Permission,
    /// Another answer of the system.
    Other,
}

/// State of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ListedState {
    /// Read at every tick: something was added within the last seconds.
    Live,
    /// Silent; the kernel says when something is added.
    Watched,
    /// Silent; it is looked at every `poll_interval`.
    Polled,
    /// Its lines wait for the metadata of their pod.
    WaitingForMetadata,
    /// Its name is gone; it is open until it is read, for `rotate_hold` at most.
    Held,
    /// It cannot be read; tried again every second.
    Failed,
    /// It matches, and cannot be opened.
    Unopened,
    /// It matches, and is passed over: no regular file, or a link that is not followed.
    Skipped,
}

/// A file of a listing.
#[derive(Clone, Debug, Serialize)]
pub struct ListedFile {
    /// Path under which it was found; what is not UTF-8 is U+FFFD.
    pub path: String,
    /// State of it.
    pub state: ListedState,
    /// Reason of a state that needs one, in words without a full stop.
    pub reason: Option<String>,
    /// Begin of that state, in milliseconds since 1970; `None` for states without a reason.
    pub since_ms: Option<i64>,
    /// Files of this name that were read before this one, by this process.
    pub generation: u64,
    /// Younger files of this name that are open and wait for this one.
    pub waiting: u64,
    /// Bytes that are read of the present file.
    pub position: u64,
    /// Its length in bytes.
    pub size: u64,
    /// Unread bytes, those of the younger files too.
    pub lag_bytes: u64,
    /// Seconds that the oldest unread byte is old, at most; 0 without one. It was written after
    /// the last read to the end. For a log that was not read to its end yet it is the time since
    /// it was found, and the byte may be older.
    pub lag_s: f64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Events that were joined from several pieces.
    pub joined: u64,
    /// Costs of damage and rotation.
    pub losses: FileLosses,
}

/// Costs of damage and rotation of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct FileLosses {
    /// Bytes that could not be read before the file had to be closed.
    pub rotated_away_unread_bytes: u64,
    /// Files of its name that were deleted before they could be opened.
    pub missed_generations: u64,
    /// Lines that were cut at `max_line_bytes`.
    pub lines_cut: u64,
    /// Events that were ended before their last piece.
    pub partial_flushed: u64,
    /// Lines in another form than the file's.
    pub malformed_lines: u64,
    /// Runs of zero bytes.
    pub holes_skipped: u64,
    /// Times that the file became shorter than what was read of it.
    pub truncated: u64,
}
