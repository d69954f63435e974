//! What the process asks of the system once, at its start and end.

use std::io;
use std::os::unix::net::UnixDatagram;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the limit of open files to what the system allows (`RLIMIT_NOFILE`), so that nobody has
/// to tune it; each connection takes one. Returns the limit.
///
/// # Errors
/// `setrlimit(2)`.
pub fn raise_open_files() -> io::Result<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    }
    Ok(hard)
}

/// Tells systemd how the service stands (`sd_notify(3)`); without `NOTIFY_SOCKET`, or where the
/// socket is gone, nothing happens.
pub fn notify(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    let told = UnixDatagram::unbound().and_then(|socket| socket.send_to(state.as_bytes(), &path));
    if let Err(error) = told {
        tracing::debug!(%error, "systemd was not told: {state}");
    }
}
