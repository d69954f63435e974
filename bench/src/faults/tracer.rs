//! A process of which chosen system calls fail, by ptrace: before they are carried out, after, or
//! half done; and that may be killed at that very moment.
//!
//! Only threads whose names begin as asked are stopped at their calls, and only calls for files
//! below one folder count. All others run as if nobody watched, but for the call that names them.
//! It is a program of its own (`inrush-bench injected`), since whoever traces must be the one who
//! waits.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::libc::{self, user_regs_struct};
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::calls::{self, FileArgument, SystemCall};
use super::injected::{InjectedArgs, PID, Traced};
use super::plan::{Injection, Moment};

/// Calls after which a thread that gave itself no name is left alone.
const NAMELESS_CALLS_MAX: u32 = 16;

/// Bytes of a path that are read.
const PATH_BYTES_MAX: usize = 4096;

/// State of a thread.
enum Role {
    /// It has not said its name yet, after so many calls.
    Nameless(u32),
    Watched(String),
    Left,
}

struct TracedThread {
    role: Role,
    /// Within a call: what is to be done at its end.
    call: Option<ExitAction>,
}

/// The deed that is due at the end of a call.
enum ExitAction {
    Nothing,
    /// It failed with this: skipped, or told so after it was carried out.
    Fails {
        errno: i32,
        after: bool,
    },
    Kill,
}

struct Tracer {
    root: PathBuf,
    prefix: String,
    injection: Option<Injection>,
    leader: Pid,
    threads: HashMap<Pid, TracedThread>,
    memory: Option<File>,
    /// Calls so far that the injection is about.
    counted: u32,
    /// The next write of this thread fails, for the last was cut short.
    cut: Option<Pid>,
    traced: Traced,
}

/// Runs a program under faults, to its end.
pub(super) fn run(args: &InjectedArgs) -> Result<bool> {
    let injection = args.injection.as_deref().map(serde_json::from_str);
    let injection = injection.transpose().context("--injection")?;
    // It stops itself, so that nothing of it is missed.
    let mut child = Command::new("/bin/sh")
        .args(["-c", "kill -STOP $$; exec \"$@\"", "sh"])
        .args(&args.command)
        .stdin(Stdio::null())
        .spawn()
        .context("/bin/sh")?;
    let leader = Pid::from_raw(i32::try_from(child.id())?);
    waitpid(leader, Some(WaitPidFlag::WUNTRACED))?;
    let options =
        Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_TRACECLONE | Options::PTRACE_O_EXITKILL;
    ptrace::seize(leader, options).context("ptrace")?;
    inrush_harness::bare::say(&format!("{PID}{leader}"))?;
    kill(leader, Signal::SIGCONT)?;
    let mut tracer = Tracer {
        root: args
            .root
            .canonicalize()
            .unwrap_or_else(|_| args.root.clone()),
        prefix: args.threads.clone(),
        injection,
        leader,
        threads: HashMap::new(),
        memory: None,
        counted: 0,
        cut: None,
        traced: Traced::default(),
    };
    tracer.threads.insert(leader, TracedThread::new(Role::Left));
    let code = tracer.follow()?;
    // It has been waited for; this only says so to the library.
    let _ = child.try_wait();
    let report = serde_json::to_string(&tracer.traced)?;
    crate::experiments::write(&args.report, &report)?;
    Ok(code == Some(0))
}

impl TracedThread {
    fn new(role: Role) -> Self {
        Self { role, call: None }
    }
}

impl Tracer {
    /// Follows all threads until the process is gone; its exit code.
    fn follow(&mut self) -> Result<Option<i32>> {
        loop {
            match waitpid(None, Some(WaitPidFlag::__WALL)) {
                Ok(WaitStatus::PtraceSyscall(thread)) => self.at_call(thread),
                Ok(WaitStatus::PtraceEvent(thread, ..)) => self.resume(thread, None),
                Ok(WaitStatus::Stopped(thread, signal)) => self.resume(thread, Some(signal)),
                Ok(WaitStatus::Exited(thread, code)) => {
                    self.threads.remove(&thread);
                    if thread == self.leader {
                        return Ok(Some(code));
                    }
                }
                Ok(WaitStatus::Signaled(thread, ..)) => {
                    self.threads.remove(&thread);
                    if thread == self.leader {
                        return Ok(None);
                    }
                }
                Ok(_) | Err(Errno::EINTR) => {}
                Err(Errno::ECHILD) => bail!("the process is gone"),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Lets a thread go on, to its next call if it is watched. It may be dead by now.
    fn resume(&mut self, thread: Pid, signal: Option<Signal>) {
        let known = self.threads.entry(thread);
        let state = known.or_insert_with(|| TracedThread::new(Role::Nameless(0)));
        let _ = match state.role {
            Role::Left => ptrace::cont(thread, signal),
            Role::Nameless(_) | Role::Watched(_) => ptrace::syscall(thread, signal),
        };
    }

    /// A thread begins a call, or ends it.
    fn at_call(&mut self, thread: Pid) {
        // What fails here fails because the thread was killed meanwhile.
        if let Ok(registers) = ptrace::getregs(thread) {
            let call = self.threads.get_mut(&thread).and_then(|t| t.call.take());
            match call {
                Some(end) => self.end_call(thread, registers, &end),
                None => {
                    let end = self.begin_call(thread, registers);
                    if let Some(state) = self.threads.get_mut(&thread)
                        && !matches!(state.role, Role::Left)
                    {
                        state.call = Some(end);
                    }
                }
            }
        }
        self.resume(thread, None);
    }

    fn begin_call(&mut self, thread: Pid, registers: user_regs_struct) -> ExitAction {
        let Some(state) = self.threads.get(&thread) else {
            return ExitAction::Nothing;
        };
        let name = match &state.role {
            Role::Left => return ExitAction::Nothing,
            Role::Nameless(calls) => {
                let role = self.named(&registers, *calls);
                if let Some(state) = self.threads.get_mut(&thread) {
                    state.role = role;
                }
                return ExitAction::Nothing;
            }
            Role::Watched(name) => name.clone(),
        };
        let Some(call) = calls::of_number(registers.orig_rax) else {
            return ExitAction::Nothing;
        };
        let Some(path) = self.path_of(call, &registers) else {
            return ExitAction::Nothing;
        };
        let seen = format!("{name} {}", call.name);
        *self.traced.seen.entry(seen).or_default() += 1;
        let Some(injection) = self.injection.clone() else {
            return ExitAction::Nothing;
        };
        if call.writes && self.cut == Some(thread) {
            self.cut = None;
            return self.fail(thread, registers, &injection, false);
        }
        if call.name != injection.call || !name.starts_with(&injection.thread) {
            return ExitAction::Nothing;
        }
        self.counted += 1;
        if !injection.hits(self.counted, self.traced.hits.len()) {
            return ExitAction::Nothing;
        }
        self.traced
            .hits
            .push(format!("{name} {} {path}", call.name));
        self.inject(thread, registers, call, &injection)
    }

    fn inject(
        &mut self,
        thread: Pid,
        mut registers: user_regs_struct,
        call: &SystemCall,
        injection: &Injection,
    ) -> ExitAction {
        let kills = injection.kill_at == Some(self.traced.hits.len());
        match injection.moment {
            Moment::After if call.changes => match kills {
                true => ExitAction::Kill,
                false => self.fail(thread, registers, injection, true),
            },
            Moment::Half if call.writes && registers.rdx > 1 => {
                registers.rdx /= 2;
                let _ = ptrace::setregs(thread, registers);
                self.cut = Some(thread);
                if kills {
                    ExitAction::Kill
                } else {
                    ExitAction::Nothing
                }
            }
            _ if kills => {
                self.kill();
                ExitAction::Nothing
            }
            _ => self.fail(thread, registers, injection, false),
        }
    }

    /// Has a call fail, carried out before or not.
    fn fail(
        &self,
        thread: Pid,
        mut registers: user_regs_struct,
        injection: &Injection,
        after: bool,
    ) -> ExitAction {
        if !after {
            // No call has this number.
            registers.orig_rax = u64::MAX;
            let _ = ptrace::setregs(thread, registers);
        }
        let errno = injection.errno();
        ExitAction::Fails { errno, after }
    }

    fn end_call(&mut self, thread: Pid, mut registers: user_regs_struct, end: &ExitAction) {
        match end {
            ExitAction::Nothing => {}
            ExitAction::Kill => self.kill(),
            ExitAction::Fails { errno, after } => {
                // A call that failed by itself has had no effect.
                if !after || (registers.rax as i64) >= 0 {
                    registers.rax = i64::from(-errno) as u64;
                    let _ = ptrace::setregs(thread, registers);
                }
            }
        }
    }

    fn kill(&mut self) {
        self.traced.killed = true;
        let _ = kill(self.leader, Signal::SIGKILL);
    }

    /// State of a thread that begins a call and has said no name before.
    fn named(&mut self, registers: &user_regs_struct, calls: u32) -> Role {
        let says = registers.orig_rax == libc::SYS_prctl as u64
            && registers.rdi == libc::PR_SET_NAME as u64;
        if !says {
            return match calls < NAMELESS_CALLS_MAX {
                true => Role::Nameless(calls + 1),
                false => Role::Left,
            };
        }
        match self.text_at(registers.rsi, 16) {
            Some(name) if name.starts_with(&self.prefix) => Role::Watched(name),
            _ => Role::Left,
        }
    }

    /// The file below the folder that a call is for, relative to it.
    fn path_of(&mut self, call: &SystemCall, registers: &user_regs_struct) -> Option<String> {
        let arguments = [registers.rdi, registers.rsi, registers.rdx];
        let path = match call.at {
            FileArgument::Descriptor(at) => self.path_of_descriptor(arguments[at])?,
            FileArgument::Path(at) => PathBuf::from(self.text_at(arguments[at], PATH_BYTES_MAX)?),
            FileArgument::Either(at) => match self.text_at(arguments[at], PATH_BYTES_MAX)? {
                text if text.is_empty() => self.path_of_descriptor(arguments[at - 1])?,
                text => PathBuf::from(text),
            },
        };
        let below = path.strip_prefix(&self.root).ok()?;
        Some(below.display().to_string())
    }

    fn path_of_descriptor(&self, descriptor: u64) -> Option<PathBuf> {
        let descriptor = descriptor as u32;
        fs::read_link(format!("/proc/{}/fd/{descriptor}", self.leader)).ok()
    }

    /// A text in the memory of the process.
    fn text_at(&mut self, address: u64, bytes_max: usize) -> Option<String> {
        if self.memory.is_none() {
            self.memory = File::open(format!("/proc/{}/mem", self.leader)).ok();
        }
        let mut bytes = vec![0; bytes_max];
        let read = self.memory.as_ref()?.read_at(&mut bytes, address).ok()?;
        bytes.truncate(read);
        let end = bytes.iter().position(|byte| *byte == 0)?;
        bytes.truncate(end);
        let text = std::ffi::OsString::from_vec(bytes);
        Some(text.to_string_lossy().into_owned())
    }
}
