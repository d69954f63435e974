//! Child processes whose output is read without waiting.
//!
//! # What it guarantees
//! * A child does not outlive the thread that started it: the kernel kills it then.
//! * A child is killed together with the processes that it started and left in its group, by
//!   number, and only while its number is its own.
//! * It gets none of our environment but `PATH`: tokens and passwords stay here.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use mio::unix::pipe::Receiver;
use mio::{Interest, Registry, Token};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// Outcome of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PipeRead {
    /// So many bytes came.
    Data(usize),
    /// There is nothing at the moment.
    Blocked,
    /// The other end is closed.
    Ended,
}

/// A child process that writes to us.
#[derive(Debug)]
pub struct PipedChild {
    child: Child,
    output: Receiver,
    errors: Receiver,
    status: Option<ExitStatus>,
}

impl PipedChild {
    /// Starts a program; `PATH` is searched if its name has no slash. It reads nothing from us.
    ///
    /// # Errors
    /// `fork(2)`, `execve(2)`, or no descriptor is left.
    pub fn start(program: &Path, arguments: &[OsString]) -> io::Result<Self> {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_clear()
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        end_with_us(&mut command);
        let mut child = command.spawn()?;
        let pipes = (child.stdout.take(), child.stderr.take());
        let (Some(output), Some(errors)) = pipes else {
            return Err(io::Error::other("a child without pipes"));
        };
        let (output, errors) = (Receiver::from(output), Receiver::from(errors));
        let started = Self {
            child,
            output,
            errors,
            status: None,
        };
        started.output.set_nonblocking(true)?;
        started.errors.set_nonblocking(true)?;
        Ok(started)
    }

    /// Has a poll tell when there is output, and when there are words of errors.
    ///
    /// # Errors
    /// `epoll_ctl(2)`.
    pub fn register(&mut self, with: &Registry, output: Token, errors: Token) -> io::Result<()> {
        with.register(&mut self.output, output, Interest::READABLE)?;
        with.register(&mut self.errors, errors, Interest::READABLE)
    }

    /// Number of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Reads output.
    pub fn read_output(&mut self, into: &mut [u8]) -> PipeRead {
        read(&mut self.output, into)
    }

    /// Reads words of errors.
    pub fn read_errors(&mut self, into: &mut [u8]) -> PipeRead {
        read(&mut self.errors, into)
    }

    /// Kills it and its group, unless it was reaped.
    pub fn kill(&mut self) {
        if self.status.is_none()
            && let Ok(group) = i32::try_from(self.child.id())
        {
            // Of a process that has ended and was not reaped the number is still its own.
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
        }
    }

    /// The status with which it ended, which reaps it; `None` while it runs. One in an
    /// uninterruptible wait for a disk runs on after [`Self::kill`], until the disk answers.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status
    }
}

impl Drop for PipedChild {
    fn drop(&mut self) {
        self.kill();
        self.ended();
    }
}

fn read(pipe: &mut Receiver, into: &mut [u8]) -> PipeRead {
    loop {
        return match pipe.read(into) {
            Ok(0) if !into.is_empty() => PipeRead::Ended,
            Ok(count) => PipeRead::Data(count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => PipeRead::Blocked,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => PipeRead::Ended,
        };
    }
}

/// Has the kernel kill the child once the thread that starts it ends.
fn end_with_us(command: &mut Command) {
    let parent = std::process::id();
    let ask = move || {
        // SAFETY: prctl(2) with PR_SET_PDEATHSIG takes a number, touches no memory of ours, and
        // is a plain system call, which signal-safety(7) has nothing against after fork(2).
        let asked = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        if asked != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: getppid(2) has no arguments, cannot fail, and is async-signal-safe.
        let parent_now = unsafe { libc::getppid() };
        match u32::try_from(parent_now) == Ok(parent) {
            true => Ok(()),
            // We ended before it asked.
            false => Err(io::Error::from_raw_os_error(libc::ESRCH)),
        }
    };
    // SAFETY: `pre_exec` asks that the closure does nothing in the forked child that another thread
    // may have left half done: it allocates nothing and takes no lock, see above.
    unsafe { command.pre_exec(ask) };
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::thread;
    use std::time::{Duration, Instant};

    use mio::{Events, Poll};

    use super::*;

    fn shell(script: &str) -> PipedChild {
        let arguments = ["-c", script].map(OsString::from);
        PipedChild::start(Path::new("sh"), &arguments).unwrap()
    }

    /// All output until its end, and the words of errors.
    fn read_all(child: &mut PipedChild) -> (Vec<u8>, Vec<u8>) {
        let mut poll = Poll::new().unwrap();
        child.register(poll.registry(), Token(0), Token(1)).unwrap();
        let (mut output, mut words) = (Vec::new(), Vec::new());
        let mut open = [true, true];
        let mut events = Events::with_capacity(4);
        while open.contains(&true) {
            let mut piece = [0; 64];
            for (which, into) in [(0, &mut output), (1, &mut words)] {
                loop {
                    let read = match which {
                        0 => child.read_output(&mut piece),
                        _ => child.read_errors(&mut piece),
                    };
                    match read {
                        PipeRead::Data(count) => into.extend_from_slice(&piece[..count]),
                        PipeRead::Blocked => break,
                        PipeRead::Ended => {
                            open[which] = false;
                            break;
                        }
                    }
                }
            }
            if open.contains(&true) {
                poll.poll(&mut events, Some(Duration::from_secs(20)))
                    .unwrap();
                assert!(!events.is_empty(), "the child hangs");
            }
        }
        (output, words)
    }

    /// Asks again and again until there is an answer.
    fn wait_for<T>(mut ask: impl FnMut() -> Option<T>) -> T {
        let since = Instant::now();
        loop {
            if let Some(answer) = ask() {
                return answer;
            }
            assert!(since.elapsed() < Duration::from_secs(60), "in vain");
            thread::yield_now();
        }
    }

    fn wait(child: &mut PipedChild) -> ExitStatus {
        wait_for(|| child.ended())
    }

    #[test]
    fn output_and_errors_come_apart_and_no_variable_but_the_path() {
        let mut child = shell("env; echo wrong >&2; exit 3");
        let (output, words) = read_all(&mut child);
        let output = String::from_utf8(output).unwrap();
        let mut names: Vec<&str> = output
            .lines()
            .filter_map(|line| line.split('=').next())
            .filter(|name| !["PWD", "SHLVL", "OLDPWD", "_"].contains(name))
            .collect();
        names.sort_unstable();
        assert_eq!(
            (names, &words[..]),
            (vec!["LC_ALL", "PATH"], &b"wrong\n"[..])
        );
        assert_eq!(wait(&mut child).code(), Some(3));
    }

    #[test]
    fn a_killed_child_takes_its_own_children_along() {
        // The pipe ends only once nobody has it.
        let mut child = shell("sleep 1000 & echo started; wait");
        let mut piece = [0; 64];
        wait_for(|| (child.read_output(&mut piece) != PipeRead::Blocked).then_some(()));
        child.kill();
        assert_eq!(read_all(&mut child).0, b"");
        assert!(wait(&mut child).code().is_none());
        // Its number may be another's by now.
        child.kill();
    }

    #[test]
    fn a_child_ends_with_the_thread_that_started_it() {
        let started = thread::spawn(|| {
            let child = shell("exec sleep 1000");
            let id = child.id();
            // It is not dropped, as if the process had been killed.
            std::mem::forget(child);
            id
        });
        let id = started.join().unwrap();
        let state = || {
            let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            let behind = stat.rsplit(") ").next().unwrap_or_default().to_owned();
            behind.chars().next()
        };
        wait_for(|| matches!(state(), None | Some('Z')).then_some(()));
    }
}
