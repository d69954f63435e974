//! Errors that keep a load from running at all, each with the party at fault.
//!
//! What goes wrong while messages flow (a reset, a refused datagram) is not here: it is counted
//! in the [`LoadReport`](crate::LoadReport), because the rest of the run is still worth having.

use std::io;
use std::path::PathBuf;

/// Reason for which there is no report.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The command line does not make sense; the caller changes it.
    #[error("{0}")]
    Usage(String),
    /// A file named on the command line cannot be used.
    #[error("{}: {what}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Description of the fault.
        what: String,
    },
    /// The target's name has no address.
    #[error("cannot resolve `{host}`: {source}; check the name, or give an address")]
    Resolve {
        /// The name as given.
        host: String,
        /// Error of the resolver.
        source: io::Error,
    },
    /// The target cannot be reached.
    #[error("cannot connect to {target}: {source}; {hint}")]
    Connect {
        /// Scheme, address and port.
        target: String,
        /// Error of the kernel.
        source: io::Error,
        /// Remedy for the operator.
        hint: &'static str,
    },
    /// The target was reached and TLS failed.
    #[error("TLS with {target} failed: {what}; {hint}")]
    Tls {
        /// Address and port.
        target: String,
        /// Error of the TLS library.
        what: String,
        /// Remedy for the operator.
        hint: &'static str,
    },
    /// The process to measure cannot be read.
    #[error("cannot measure process {pid}: {what}")]
    Process {
        /// The number given with `--target-pid`.
        pid: i32,
        /// Description of the fault.
        what: String,
    },
    /// The messages that arrived cannot be read, so nothing can be verified.
    #[error("cannot read {from}: {what}")]
    Verify {
        /// The address or file.
        from: String,
        /// Description of the fault.
        what: String,
    },
}

/// Remedy for a connection that could not be made.
pub(crate) fn connect_hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::ConnectionRefused => {
            "nothing listens there: start the receiver, or check address and port with `ss -ltn`"
        }
        io::ErrorKind::TimedOut => "no answer: check the address and any firewall on the way",
        io::ErrorKind::PermissionDenied => "a local firewall or security policy forbids it",
        io::ErrorKind::AddrNotAvailable => {
            "no free local port: use fewer connections, or widen net.ipv4.ip_local_port_range"
        }
        _ if source.raw_os_error() == Some(nix::errno::Errno::EMFILE as i32) => {
            "too many open files: raise the limit with `ulimit -n`, or use fewer connections"
        }
        _ => "check that the address is reachable from here",
    }
}
