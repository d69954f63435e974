//! Life of one child: when it has to go, and what its end says.

use std::io;
use std::time::{Duration, Instant};

use inrush_transport::child::{PipeRead, PipedChild};

use super::counts::RestartReason;

/// Time without output after which a child is replaced: an idle one cannot be told from one that
/// hangs, and a new one costs some milliseconds of CPU.
const SILENCE_MAX: Duration = Duration::from_secs(5 * 60);

/// Time after which a child is replaced: files that were deleted keep their place on the disk for
/// as long as one has them open.
const LIFE_MAX: Duration = Duration::from_secs(60 * 60);

/// Time that a child whose output has ended has to end by itself.
const END_WAIT: Duration = Duration::from_secs(1);

/// First pause before a child is started again after a fault; it doubles with each further one.
const PAUSE_FIRST: Duration = Duration::from_millis(250);

/// Longest such pause.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Bytes of its last words that are kept.
const WORDS_BYTES_MAX: usize = 1024;

/// Pause after so many faults in a row, shortened by up to half, so that the hosts of a fleet do
/// not start theirs at once.
pub(super) fn pause(faults: u32) -> Duration {
    let doubled = PAUSE_FIRST.saturating_mul(1 << faults.saturating_sub(1).min(20));
    doubled.min(PAUSE_MAX).mul_f64(0.5 + fastrand::f64() / 2.0)
}

/// Times of a child.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChildTimes {
    started: Instant,
    heard: Instant,
}

impl ChildTimes {
    /// Those of a child that starts now.
    pub(super) fn start(now: Instant) -> Self {
        let (started, heard) = (now, now);
        Self { started, heard }
    }

    /// Something came of it, or we do not listen.
    pub(super) fn hear(&mut self, now: Instant) {
        self.heard = now;
    }

    /// The next time at which it may have to go. `patience` is how long it may take to its first
    /// entry.
    fn next(&self, patience: Option<Duration>) -> (Instant, RestartReason) {
        let silent = match patience {
            Some(patience) => (self.heard + patience, RestartReason::CursorGone),
            None => (self.heard + SILENCE_MAX, RestartReason::Silent),
        };
        let old = (self.started + LIFE_MAX, RestartReason::Reopened);
        match silent.0 <= old.0 {
            true => silent,
            false => old,
        }
    }

    /// The reason for which it has to go, if there is one.
    pub(super) fn verdict(
        &self,
        patience: Option<Duration>,
        now: Instant,
    ) -> Option<RestartReason> {
        let (at, reason) = self.next(patience);
        (at <= now).then_some(reason)
    }

    /// The time at which to look again.
    pub(super) fn look_at(&self, patience: Option<Duration>) -> Instant {
        self.next(patience).0
    }
}

/// A child that reads the journal.
pub(super) struct JournalChild {
    pub(super) child: PipedChild,
    pub(super) times: ChildTimes,
    /// True if there may be output that was not read.
    pub(super) readable: bool,
    /// True once it has shown an entry.
    pub(super) showed: bool,
    words: Vec<u8>,
}

impl JournalChild {
    /// A child that was started now.
    pub(super) fn new(child: PipedChild, now: Instant) -> Self {
        Self {
            child,
            times: ChildTimes::start(now),
            readable: true,
            showed: false,
            words: Vec::new(),
        }
    }

    /// Reads what it says of its faults.
    pub(super) fn listen(&mut self) {
        let mut piece = [0; WORDS_BYTES_MAX];
        while let PipeRead::Data(count) = self.child.read_errors(&mut piece) {
            self.words.extend_from_slice(&piece[..count]);
            let excess = self.words.len().saturating_sub(WORDS_BYTES_MAX);
            self.words.drain(..excess);
        }
    }

    /// Its last words, in one line.
    pub(super) fn words(&self) -> String {
        let words = String::from_utf8_lossy(&self.words);
        let printable = |c: char| match c.is_control() {
            true => ' ',
            false => c,
        };
        words.trim().chars().map(printable).collect()
    }
}

/// A child that is to end.
pub(super) struct EndingChild {
    pub(super) was: JournalChild,
    /// The reason why we ended it; `None`: it ended its output itself.
    pub(super) reason: Option<RestartReason>,
    kill_at: Instant,
}

impl EndingChild {
    /// Ends a child, for a reason of ours or because its output has ended.
    pub(super) fn new(mut was: JournalChild, reason: Option<RestartReason>, now: Instant) -> Self {
        if reason.is_some() {
            was.child.kill();
        }
        let kill_at = now + END_WAIT;
        Self {
            was,
            reason,
            kill_at,
        }
    }

    /// The end, once it has come.
    pub(super) fn end(&mut self, now: Instant) -> Option<ChildEnd> {
        use std::os::unix::process::ExitStatusExt;
        self.was.listen();
        let Some(status) = self.was.child.ended() else {
            if self.kill_at <= now {
                self.was.child.kill();
            }
            return None;
        };
        // What it started may still be there.
        self.was.child.kill();
        Some(match (self.reason, status.signal(), status.code()) {
            (Some(reason), ..) => ChildEnd::Told(reason),
            (None, Some(signal), _) => ChildEnd::Killed {
                crashed: is_crash(signal),
                signal,
            },
            (None, None, code) => ChildEnd::Exited(code.unwrap_or_default()),
        })
    }
}

/// End of a child.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ChildEnd {
    /// We ended it.
    Told(RestartReason),
    /// It ended by a signal, which says whether it crashed.
    Killed {
        /// True if the signal is one of a crash.
        crashed: bool,
        /// Number of the signal.
        signal: i32,
    },
    /// It ended with that status.
    Exited(i32),
}

/// True for signals by which a process dies of a fault of its own.
fn is_crash(signal: i32) -> bool {
    // SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV and SIGSYS of Linux on all its architectures but
    // MIPS, Alpha and SPARC.
    [4, 6, 7, 8, 11, 31].contains(&signal)
}

/// True if a program can be found: one that has no slash is looked for in `PATH`.
///
/// # Errors
/// In words: there is none.
pub(super) fn find(program: &std::path::Path) -> Result<(), String> {
    let is_file = |path: &std::path::Path| path.is_file();
    let found = match program.components().count() {
        1 => std::env::var_os("PATH").is_some_and(|path| {
            std::env::split_paths(&path).any(|folder| is_file(&folder.join(program)))
        }),
        _ => is_file(program),
    };
    match found {
        true => Ok(()),
        false => Err(format!(
            "`{}`: {}; install systemd, or say where it is with `journalctl`",
            program.display(),
            io::Error::from(io::ErrorKind::NotFound)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_goes_when_it_is_silent_or_old() {
        let start = Instant::now();
        let mut times = ChildTimes::start(start);
        let at = |seconds| start + Duration::from_secs(seconds);
        let patience = Some(Duration::from_secs(10));
        assert_eq!(times.verdict(patience, at(9)), None);
        assert_eq!(
            times.verdict(patience, at(10)),
            Some(RestartReason::CursorGone)
        );
        assert_eq!(times.verdict(None, at(299)), None);
        assert_eq!(times.verdict(None, at(300)), Some(RestartReason::Silent));
        times.hear(at(3599));
        assert_eq!(times.verdict(None, at(3599)), None);
        assert_eq!(times.look_at(None), at(3600));
        assert_eq!(times.verdict(None, at(3600)), Some(RestartReason::Reopened));
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        for (faults, full_ms) in [(1, 250), (2, 500), (4, 2000), (40, 30_000)] {
            let ms = pause(faults).as_millis();
            assert!(ms >= full_ms / 2 && ms <= full_ms, "{faults}: {ms}");
        }
    }

    #[test]
    fn a_program_that_is_not_there_is_told() {
        use std::path::Path;
        assert_eq!(find(Path::new("sh")), Ok(()));
        assert!(find(Path::new("/bin/no-such-program")).is_err());
        assert!(find(Path::new("no-such-program")).is_err());
    }
}
