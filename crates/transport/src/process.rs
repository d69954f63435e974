//! Requests of the process to the system, once, at its start and end.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixDatagram;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};

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

/// Files that the process may have open, or 0 where that cannot be told.
pub fn open_files_max() -> u64 {
    getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft)
}

/// Files that the process could have open after [`raise_open_files`].
pub fn open_files_hard_max() -> u64 {
    getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(_, hard)| hard)
}

/// The lowest number that a descriptor could have now: as many are open where none was closed in
/// between. `None` where none can be opened.
pub fn lowest_free_descriptor() -> Option<u64> {
    let file = File::open("/dev/null").ok()?;
    u64::try_from(file.as_raw_fd()).ok()
}

/// Runs `read` while the terminal on stdin does not show what is typed. Where stdin is no terminal,
/// or one that cannot be told, it just runs.
pub fn without_echo<T>(read: impl FnOnce() -> T) -> T {
    let stdin = io::stdin();
    let Ok(before) = tcgetattr(stdin.as_fd()) else {
        return read();
    };
    let mut quiet = before.clone();
    quiet.local_flags.remove(LocalFlags::ECHO);
    quiet.local_flags.insert(LocalFlags::ECHONL);
    let _ = tcsetattr(stdin.as_fd(), SetArg::TCSANOW, &quiet);
    let done = read();
    let _ = tcsetattr(stdin.as_fd(), SetArg::TCSANOW, &before);
    done
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
