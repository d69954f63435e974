//! Subjects of the measurement: the bare loops, Inrush and its peers, each a process that can be
//! started, sent to, asked how much it has taken, and ended.

mod bare;
mod hec_peer;
mod inrush;
mod opensearch;
mod rsyslog;
mod syslog_ng;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::child::wait;
use crate::sender::Wire;

pub use bare::{BareRelay, BareTcp, BareUdp, SinkProcess};
pub use hec_peer::{HecForwarder, HecPeer};
pub use inrush::{AcceptedSubject, Inrush, READY_LINE, RUN_WORDS, User};
pub use inrush::{default_binary, is_ready, ledger_at, run_command};
pub use opensearch::{OpenSearch, recorded};
pub use rsyslog::Rsyslog;
pub use syslog_ng::SyslogNg;

/// Time for which the account may stand still before what is missing is taken for lost.
const STILL_MAX: Duration = Duration::from_secs(15);

/// A receiver that runs.
pub trait BenchSubject {
    /// The process whose CPU is the figure.
    fn pid(&self) -> u32;

    /// `HOST:PORT` to send to.
    fn address(&self, wire: Wire) -> Result<String>;

    /// Account of what it has taken so far.
    fn progress(&mut self) -> Result<SubjectProgress>;

    /// Time to leave it alone between two questions: answering costs it CPU.
    fn patience(&self) -> Duration {
        Duration::from_millis(10)
    }

    /// Time for which its account may stand still before what is missing is taken for lost.
    fn still_max(&self) -> Duration {
        STILL_MAX
    }

    /// Events that the sink must have by then: packs filter some and join others.
    fn arrive(&self, _last: &SubjectProgress, sent: u64) -> u64 {
        sent
    }

    /// Errors in its last account of `sent` events; nothing if all is right.
    fn wrong(&self, last: &SubjectProgress, sent: u64) -> Option<String> {
        let missing = last.unaccounted(sent);
        (missing != 0 || last.pending != 0)
            .then(|| format!("{missing} unaccounted for, {} pending", last.pending))
    }
}

/// Account of what a subject has taken, in events.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SubjectProgress {
    /// Taken to the end: parsed and thrown away, or delivered.
    pub delivered: u64,
    /// Taken but not yet settled.
    pub pending: u64,
    /// Lost in the kernel before the process could take it.
    pub kernel_dropped: u64,
    /// The ledger that says so, where there is one.
    pub ledger: Option<Value>,
}

impl SubjectProgress {
    /// True if every one of `sent` events has come to its end.
    pub fn settles(&self, sent: u64) -> bool {
        self.pending == 0 && self.delivered + self.kernel_dropped >= sent
    }

    /// Of `sent` events, those whose end nobody knows.
    pub fn unaccounted(&self, sent: u64) -> i64 {
        sent as i64 - (self.delivered + self.pending + self.kernel_dropped) as i64
    }
}

/// Waits until `subject` has settled `sent` events, or until its account stands still.
pub fn drain(subject: &mut dyn BenchSubject, sent: u64) -> Result<SubjectProgress> {
    let mut last = subject.progress()?;
    let mut moved = Instant::now();
    while !last.settles(sent) && moved.elapsed() < subject.still_max() {
        wait(subject.patience());
        let now = subject.progress()?;
        let same = (now.delivered, now.pending, now.kernel_dropped)
            == (last.delivered, last.pending, last.kernel_dropped);
        if !same {
            moved = Instant::now();
        }
        last = now;
    }
    Ok(last)
}

/// Writes a configuration from its template: `@NAME@` becomes the value of NAME.
pub fn write_config(file: &Path, template: &str, values: &[(&str, &str)]) -> Result<()> {
    std::fs::write(file, filled(template, values)).with_context(|| file.display().to_string())
}

fn filled(template: &str, values: &[(&str, &str)]) -> String {
    let fill = |text: String, (name, value): &(&str, &str)| text.replace(name, value);
    values.iter().fold(template.to_owned(), fill)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(delivered: u64, pending: u64, kernel_dropped: u64) -> SubjectProgress {
        SubjectProgress {
            delivered,
            pending,
            kernel_dropped,
            ledger: None,
        }
    }

    #[test]
    fn all_is_settled_when_nothing_pends_and_the_sum_is_what_was_sent() {
        assert!(progress(10, 0, 0).settles(10));
        assert!(progress(7, 0, 3).settles(10));
        assert!(!progress(9, 0, 0).settles(10));
        assert!(!progress(10, 1, 0).settles(10));
    }

    #[test]
    fn what_nobody_knows_of_is_told_apart_from_what_pends_and_what_came_twice() {
        assert_eq!(progress(7, 1, 1).unaccounted(10), 1);
        assert_eq!(progress(10, 0, 0).unaccounted(10), 0);
        assert_eq!(progress(11, 0, 0).unaccounted(10), -1);
    }

    #[test]
    fn templates_are_filled_everywhere() {
        let values = [("@PORT@", "5"), ("@DIR@", "/d")];
        assert_eq!(filled("@DIR@/x @PORT@ @PORT@", &values), "/d/x 5 5");
    }

    struct Scripted(Vec<SubjectProgress>);

    impl BenchSubject for Scripted {
        fn pid(&self) -> u32 {
            0
        }
        fn address(&self, _: Wire) -> Result<String> {
            Ok(String::new())
        }
        fn progress(&mut self) -> Result<SubjectProgress> {
            let next = if self.0.len() > 1 {
                self.0.remove(0)
            } else {
                self.0[0].clone()
            };
            Ok(next)
        }
        fn patience(&self) -> Duration {
            Duration::ZERO
        }
    }

    #[test]
    fn draining_ends_when_all_is_settled() {
        let steps = vec![
            progress(1, 0, 0),
            progress(5, 4, 0),
            progress(9, 0, 1),
            progress(99, 0, 0),
        ];
        let drained = drain(&mut Scripted(steps), 10);
        assert!(drained.is_ok_and(|last| last == progress(9, 0, 1)));
    }
}
