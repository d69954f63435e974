//! Child processes: started, listened to, and always ended by whoever started them.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Seconds that a child may take to say that it is ready.
const READY_SECONDS_MAX: u64 = 20;

/// Seconds that a child may take to end once asked to.
const END_SECONDS_MAX: u64 = 10;

/// Lines that wait to be read; what a child says beyond is not kept.
const LINES_WAITING_MAX: usize = 1024;

/// Lines kept to explain a failure.
const LINES_KEPT: usize = 20;

/// Waits until `deadline`; there is nothing else to wait for when a thing is sampled in time.
pub fn wait_until(deadline: Instant) {
    while let Some(left) = deadline.checked_duration_since(Instant::now()) {
        thread::park_timeout(left);
    }
}

/// Waits for `span`.
pub fn wait(span: Duration) {
    wait_until(Instant::now() + span);
}

/// A process that this one started; it is asked to end when dropped, and killed if it does not.
pub struct ChildProcess {
    name: String,
    child: Child,
    stdin: Option<ChildStdin>,
    ends_with_stdin: bool,
    lines: Receiver<String>,
    last: VecDeque<String>,
}

impl ChildProcess {
    /// Starts `command`; its stdout and stderr are read as lines, in the order they arrive.
    pub fn start(name: &str, command: &mut Command) -> Result<Self> {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        let (sender, lines) = mpsc::sync_channel(LINES_WAITING_MAX);
        let stderr = child
            .stderr
            .take()
            .map(|pipe| Box::new(pipe) as Box<dyn Read + Send>);
        let stdout = child
            .stdout
            .take()
            .map(|pipe| Box::new(pipe) as Box<dyn Read + Send>);
        for pipe in [stdout, stderr].into_iter().flatten() {
            let sender = sender.clone();
            thread::spawn(move || {
                for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                    // A child must never wait for us to read what it says.
                    let _ = sender.try_send(line);
                }
            });
        }
        let stdin = child.stdin.take();
        Ok(Self {
            name: name.to_owned(),
            child,
            stdin,
            ends_with_stdin: false,
            lines,
            last: VecDeque::new(),
        })
    }

    /// Marks it as one that ends with its stdin: a signal would cut off what it does at its end,
    /// such as writing the counts of a build with `-Cprofile-generate`.
    pub fn ending_with_stdin(mut self) -> Self {
        self.ends_with_stdin = true;
        self
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line, wherever the child wrote it.
    pub fn line(&mut self) -> Result<String> {
        match self
            .lines
            .recv_timeout(Duration::from_secs(READY_SECONDS_MAX))
        {
            Ok(line) => {
                self.last.push_back(line.clone());
                if self.last.len() > LINES_KEPT {
                    self.last.pop_front();
                }
                Ok(line)
            }
            Err(RecvTimeoutError::Timeout) => bail!("{} is silent{}", self.name, self.said()),
            Err(RecvTimeoutError::Disconnected) => bail!("{} has ended{}", self.name, self.said()),
        }
    }

    /// The lines up to and with the first that `ends` holds for.
    pub fn lines_until(&mut self, ends: impl Fn(&str) -> bool) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        loop {
            lines.push(self.line()?);
            if lines.last().is_some_and(|line| ends(line)) {
                return Ok(lines);
            }
        }
    }

    /// Writes a line to the child's stdin.
    pub fn ask(&mut self, question: &str) -> Result<()> {
        let stdin = self.stdin.as_mut().context("stdin is closed")?;
        writeln!(stdin, "{question}").with_context(|| format!("{} has ended", self.name))
    }

    /// Ends it with SIGKILL, and waits until it is gone.
    pub fn kill(&mut self) {
        // Both fail only where the child has already been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Asks it to end, and waits until it is gone; it is killed if that takes longer than `most`.
    ///
    /// # Errors
    /// It had to be killed.
    pub fn stop(&mut self, most: Duration) -> Result<()> {
        self.signal(Signal::SIGTERM);
        let deadline = Instant::now() + most;
        while self.runs() {
            if Instant::now() > deadline {
                self.kill();
                bail!("{} did not end within {most:?}{}", self.name, self.said());
            }
            wait(Duration::from_millis(5));
        }
        Ok(())
    }

    /// The lines it wrote and nobody has asked for, up to its end; call it once it is gone.
    pub fn last_lines(&mut self) -> Vec<String> {
        let patience = Duration::from_secs(1);
        std::iter::from_fn(|| self.lines.recv_timeout(patience).ok()).collect()
    }

    /// True if it still runs.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    fn said(&self) -> String {
        let lines: Vec<&str> = self.last.iter().map(String::as_str).collect();
        if lines.is_empty() {
            String::new()
        } else {
            format!("; it said:\n{}", lines.join("\n"))
        }
    }

    fn signal(&self, signal: Signal) {
        if let Ok(pid) = i32::try_from(self.pid()) {
            // It may have ended by itself: then there is nothing to signal.
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        drop(self.stdin.take());
        if !self.ends_with_stdin && self.runs() {
            self.signal(Signal::SIGTERM);
        }
        let deadline = Instant::now() + Duration::from_secs(END_SECONDS_MAX);
        while self.runs() && Instant::now() < deadline {
            wait(Duration::from_millis(5));
        }
        self.kill();
    }
}

/// A port of 127.0.0.1 that was free a moment ago, for programs that cannot choose one.
pub fn free_port() -> Result<u16> {
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").context("no free port")?;
    Ok(tcp.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn lines_of_both_outputs_are_heard_and_questions_are_answered() {
        let mut shell = Command::new("sh");
        shell.args([
            "-c",
            "echo out; echo err >&2; read line; echo got $line; read line",
        ]);
        let mut child = ChildProcess::start("shell", &mut shell).unwrap();
        let mut first = child.lines_until(|line| line == "err").unwrap();
        if first.len() < 2 {
            first.push(child.line().unwrap());
        }
        first.sort();
        assert_eq!(first, ["err", "out"]);
        child.ask("this").unwrap();
        assert_eq!(child.line().unwrap(), "got this");
    }

    #[test]
    fn a_child_that_ends_with_its_stdin_gets_no_signal() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut shell = Command::new("sh");
        shell
            .args([
                "-c",
                "trap 'echo signal >>$0' TERM; echo ready; cat; echo end >>$0",
            ])
            .arg(file.path());
        let mut child = ChildProcess::start("shell", &mut shell)
            .unwrap()
            .ending_with_stdin();
        assert_eq!(child.line().unwrap(), "ready");
        drop(child);
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), "end\n");
    }

    #[test]
    fn a_child_that_ends_early_is_quoted() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo no such option >&2"]);
        let mut child = ChildProcess::start("shell", &mut shell).unwrap();
        let error = child
            .lines_until(|line| line == "ready")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("has ended") && error.contains("no such option"),
            "{error}"
        );
    }
}
