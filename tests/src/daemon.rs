//! Programs of other people that run until their test ends.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use inrush_testkit::eventually;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A running program. The end of its test ends it too: SIGTERM, and SIGKILL if that is no use.
pub struct Daemon {
    child: Child,
    log: PathBuf,
}

impl Daemon {
    /// Starts it; both of its outputs go to this file.
    pub fn start(command: &mut Command, log: &Path) -> Self {
        let file = File::create(log).unwrap();
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap();
        Self {
            child,
            log: log.to_owned(),
        }
    }

    /// Everything that it said so far.
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until it has said this.
    pub fn await_words(&mut self, words: &str) {
        self.until(words, |said| said.contains(words).then_some(()));
    }

    /// Waits until `probe` gives something; it gets all that the program said.
    ///
    /// # Panics
    /// If the program ends before.
    pub fn until<T>(&mut self, what: &str, mut probe: impl FnMut(&str) -> Option<T>) -> T {
        eventually(what, || {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "{ended:?}: {}", self.said());
            probe(&self.said())
        })
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let pid = Pid::from_raw(self.child.id() as i32);
        let _ = kill(pid, Signal::SIGTERM);
        let ended = (0..500).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            !matches!(self.child.try_wait(), Ok(None))
        });
        if !ended {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        if std::thread::panicking() {
            eprintln!("--- {}\n{}\n---", self.log.display(), self.said());
        }
    }
}
