//! Answers of others from before the checks, as they judge them: certificates in files, collectors
//! over the network, and parts that take disk. This room reads no certificates and speaks no HTTP.

use std::path::PathBuf;

/// A file with certificates, or with a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CertificateFile {
    /// The option that names it, such as `cert_file`.
    pub option: &'static str,
    /// Part of the configuration that it belongs to, such as `sources.syslog`.
    pub owner: String,
    /// Path of the file; for a certificate that was shown to us, host and port of who showed it.
    pub path: PathBuf,
    /// True if they are authorities, of which any may be the one that is needed.
    pub authorities: bool,
    /// The certificates in the file's order, at least one; or what is wrong with the file.
    pub dates: Result<Vec<ValidityPeriod>, String>,
}

/// Validity period of a certificate or a revocation list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ValidityPeriod {
    /// Subject of the certificate; of a revocation list its issuer.
    pub subject: String,
    /// From when on.
    pub not_before: ValidityTime,
    /// Until when.
    pub not_after: ValidityTime,
}

/// A moment, for the check and for the eye.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ValidityTime {
    /// Seconds from now; negative in the past.
    pub from_now_s: i64,
    /// The day, such as `2026-03-04`.
    pub day: String,
}

/// A part that takes disk, with the bound that it has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskRequirement {
    /// The option that bounds it, such as `queue.max_bytes`; for one without a bound whose it is,
    /// such as `destinations.archive`.
    pub option: String,
    /// Its folder.
    pub folder: PathBuf,
    /// The number of the file system that it is on (`st_dev`).
    pub device: u64,
    /// Bytes of that file system.
    pub total_bytes: u64,
    /// Bytes that it takes at most; `None` without a bound.
    pub most_bytes: Option<u64>,
    /// The option for what it leaves free, and the bytes of that; `None` if it leaves nothing.
    pub leaves: Option<(String, u64)>,
}

/// Files that a source would read, as a survey found them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FileRequirement {
    /// The source's name.
    pub source: String,
    /// Folders that it would watch.
    pub folders: u64,
    /// Files that match and can be opened.
    pub files: u64,
    /// True if there are more than were looked at.
    pub is_partial: bool,
    /// Files and folders that cannot be opened.
    pub denied: FoundPaths,
    /// Names that match and are passed over.
    pub skipped: FoundPaths,
    /// Folders that must be polled, whatever the limits are.
    pub polled: FoundPaths,
    /// Patterns of `include` that match nothing.
    pub unmatched: Vec<String>,
    /// Reason that this user cannot have one more watch of inotify.
    pub no_watch: Option<String>,
}

/// Paths that have the same kind of problem.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FoundPaths {
    /// The first of them, each with its reason in words.
    pub listed: Vec<(PathBuf, String)>,
    /// All of them.
    pub count: u64,
}

/// One address that a source has turned away for one reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RefusedSender {
    /// The source's name.
    pub source: String,
    /// The peer's address.
    pub address: String,
    /// The reason, in words.
    pub why: String,
    /// The remedy.
    pub remedy: String,
    /// Connections since the process started.
    pub count: u64,
    /// Seconds since the last one.
    pub last_s_ago: i64,
}

/// One endpoint of a destination.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CollectorEndpoint {
    /// The destination's name.
    pub destination: String,
    /// Its address with the path for events.
    pub endpoint: String,
    /// Host and port, as in the finding's id.
    pub authority: String,
    /// Route to it, for the reader, such as ` through the proxy p1`; empty where it is direct.
    pub way: String,
    /// Result of the attempt to reach it.
    pub reached: CollectorReachability,
}

/// Result of the attempt to reach an endpoint: the step that failed, or its answers. Texts say what
/// went wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CollectorReachability {
    /// Not tried: the destination's options cannot be used.
    NotTried(String),
    /// The name has no address.
    NoName(String),
    /// Nothing answers at the address.
    NoConnection(String),
    /// The TLS handshake failed.
    NoTls(String),
    /// Connected, and no HTTP answer came.
    NoAnswer(String),
    /// An HTTP server is there.
    Answered {
        /// To the question for its health.
        health: CollectorResponse,
        /// To an empty request with the token.
        token: CollectorResponse,
        /// The index that was asked for in that request.
        index: Option<String>,
    },
}

/// An answer of a collector.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CollectorResponse {
    /// HTTP status.
    pub status: u16,
    /// HEC's code; `None` where it is not HEC's answer.
    pub code: Option<u32>,
    /// Its words.
    pub text: String,
}
