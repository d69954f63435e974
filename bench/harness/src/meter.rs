//! Meter of processes and of the machine: CPU time, memory, disk writes, packet loss.
//!
//! # What it guarantees
//! * The metered process does nothing for it: the figures come from `/proc` and `getrusage`.
//! * A figure that cannot be read is an error, never 0; `Machine` alone leaves it empty or 0.
//! * `tree_cpu` includes child processes, the ended ones after their parent has waited for them.
//! * A run counts as noisy if other processes or the hypervisor used too much of one core.
//!
//! # States
//! `Window::open` begins a measurement, `Window::close` ends it. The senders must be waited for
//! before that; otherwise their CPU time counts as that of other processes.
//!
//! # Limits
//! CPU times of other processes have steps of 10 ms. `udp_dropped` sees IPv4 sockets only.

use std::fs;
use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use serde::{Deserialize, Serialize};

/// Microseconds in one tick of `/proc/PID/stat` and `/proc/stat`: `USER_HZ` is 100 wherever Linux
/// runs this program.
const TICK_US: f64 = 10_000.0;

/// A run beside which other processes used more of one core than this is marked noisy, per cent.
const NOISE_OTHERS_PCT: f64 = 12.0;

/// A run from which the hypervisor took more of one core than this is marked noisy, per cent.
const NOISE_STEAL_PCT: f64 = 10.0;

/// CPU time, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cpu {
    pub user_us: f64,
    pub sys_us: f64,
}

impl Cpu {
    pub fn total_us(self) -> f64 {
        self.user_us + self.sys_us
    }

    /// CPU time added since an earlier look.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            user_us: self.user_us - earlier.user_us,
            sys_us: self.sys_us - earlier.sys_us,
        }
    }
}

/// CPU time of a process since it began: all its threads, those that ended too.
pub fn process_cpu(pid: u32) -> Result<Cpu> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))
        .with_context(|| format!("process {pid} has ended"))?;
    parse_process_cpu(&text).with_context(|| format!("/proc/{pid}/stat reads {text:?}"))
}

/// CPU time of a process and of all that it started, since it began: searches of the store run in
/// processes of their own. What ended counts once its parent has waited for it.
pub fn tree_cpu(pid: u32) -> Result<Cpu> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))
        .with_context(|| format!("process {pid} has ended"))?;
    let waited = parse_waited_cpu(&text);
    let mut all = waited.with_context(|| format!("/proc/{pid}/stat reads {text:?}"))?;
    let own = process_cpu(pid)?;
    all.user_us += own.user_us;
    all.sys_us += own.sys_us;
    for child in children(pid)? {
        // One that ended since the list was read is waited for by now, or soon.
        let Ok(cpu) = tree_cpu(child) else { continue };
        all.user_us += cpu.user_us;
        all.sys_us += cpu.sys_us;
    }
    Ok(all)
}

/// The processes that the threads of this one started and that have not been waited for.
fn children(pid: u32) -> Result<Vec<u32>> {
    let threads = fs::read_dir(format!("/proc/{pid}/task"))
        .with_context(|| format!("process {pid} has ended"))?;
    let lists = threads.filter_map(|thread| {
        // A thread may have ended since the folder was read.
        fs::read_to_string(thread.ok()?.path().join("children")).ok()
    });
    Ok(lists
        .flat_map(|list| {
            list.split_ascii_whitespace()
                .flat_map(str::parse)
                .collect::<Vec<_>>()
        })
        .collect())
}

/// The command name stands in brackets and may hold spaces and brackets: fields are counted from
/// the last closing one. `utime` and `stime` are fields 14 and 15 of the line (see proc(5)).
pub(crate) fn parse_process_cpu(text: &str) -> Option<Cpu> {
    parse_cpu(text, 14)
}

/// That of the children that were waited for: `cutime` and `cstime`, fields 16 and 17.
fn parse_waited_cpu(text: &str) -> Option<Cpu> {
    parse_cpu(text, 16)
}

/// The two fields from `first` on, which is counted from 1; the bracket closes field 2.
fn parse_cpu(text: &str, first: usize) -> Option<Cpu> {
    let after_name = &text[text.rfind(')')? + 1..];
    let mut fields = after_name.split_ascii_whitespace().skip(first - 3);
    let user: f64 = fields.next()?.parse().ok()?;
    let sys: f64 = fields.next()?.parse().ok()?;
    Some(Cpu {
        user_us: user * TICK_US,
        sys_us: sys * TICK_US,
    })
}

/// Bytes that a process has had the kernel write to disks since it began.
pub fn process_disk_bytes(pid: u32) -> Result<u64> {
    process_io(pid, "write_bytes:")
}

/// Number of writes of a process to files and pipes since it began.
pub fn process_write_calls(pid: u32) -> Result<u64> {
    process_io(pid, "syscw:")
}

fn process_io(pid: u32, key: &str) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/io"))
        .with_context(|| format!("process {pid} has ended, or is not ours"))?;
    parse_io(&text, key).with_context(|| format!("/proc/{pid}/io reads {text:?}"))
}

fn parse_io(text: &str, key: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(key))?;
    value.trim().parse().ok()
}

/// Resident memory of a process now, in MiB.
pub fn process_rss_mib(pid: u32) -> Result<f64> {
    status_mib(pid, "VmRSS:")
}

/// The most resident memory that a process ever had, in MiB.
pub fn process_rss_peak_mib(pid: u32) -> Result<f64> {
    status_mib(pid, "VmHWM:")
}

fn status_mib(pid: u32, key: &str) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))
        .with_context(|| format!("process {pid} has ended"))?;
    parse_status_mib(&text, key).with_context(|| format!("/proc/{pid}/status has no {key}"))
}

fn parse_status_mib(text: &str, key: &str) -> Option<f64> {
    let value = text.lines().find_map(|line| line.strip_prefix(key))?;
    let kib: f64 = value.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kib / 1024.0)
}

/// Time of all cores together since boot, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cores {
    busy_us: f64,
    steal_us: f64,
}

fn cores() -> Result<Cores> {
    let text = fs::read_to_string("/proc/stat").context("/proc/stat")?;
    parse_cores(&text).context("/proc/stat does not begin with the line of all cores")
}

/// `cpu user nice system idle iowait irq softirq steal …`
fn parse_cores(text: &str) -> Option<Cores> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<f64> = line
        .split_ascii_whitespace()
        .map_while(|n| n.parse().ok())
        .collect();
    let [user, nice, system, _idle, _iowait, irq, softirq, steal, ..] = ticks[..] else {
        return None;
    };
    let busy = user + nice + system + irq + softirq;
    Some(Cores {
        busy_us: busy * TICK_US,
        steal_us: steal * TICK_US,
    })
}

/// Datagrams that the kernel dropped at the IPv4 sockets bound to `port`.
pub fn udp_dropped(port: u16) -> Result<u64> {
    let text = fs::read_to_string("/proc/net/udp").context("/proc/net/udp")?;
    Ok(parse_udp_dropped(&text, port))
}

fn parse_udp_dropped(text: &str, port: u16) -> u64 {
    let suffix = format!(":{port:04X}");
    let rows = text
        .lines()
        .skip(1)
        .map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row.get(1).is_some_and(|local| local.ends_with(&suffix)))
        .filter_map(|row| row.last()?.parse::<u64>().ok())
        .sum()
}

/// Packets that no socket saw because a core's backlog was full (second column, hexadecimal):
/// the one place on loopback where a datagram can vanish outside of a socket's count.
pub fn softnet_dropped() -> Result<u64> {
    let text = fs::read_to_string("/proc/net/softnet_stat").context("/proc/net/softnet_stat")?;
    let columns = text
        .lines()
        .filter_map(|line| line.split_ascii_whitespace().nth(1));
    Ok(columns
        .filter_map(|hex| u64::from_str_radix(hex, 16).ok())
        .sum())
}

/// The span over which a run is metered: begun before the load, ended when all is drained.
pub struct Window {
    pid: u32,
    helper: Option<u32>,
    begun: Instant,
    process: Cpu,
    helper_cpu: Cpu,
    disk_bytes: u64,
    write_calls: u64,
    ours_us: f64,
    cores: Cores,
}

/// Figures that a [`Window`] metered.
#[derive(Clone, Copy, Debug)]
pub struct Metered {
    pub wall: Duration,
    pub cpu: Cpu,
    /// The sink's share of one core, per cent.
    pub helper_pct: f64,
    /// The share of one core of this process and of the sender, per cent.
    pub ours_pct: f64,
    /// Bytes that the process had the kernel write to disks.
    pub disk_bytes: u64,
    /// Number of writes of the process to files and pipes.
    pub write_calls: u64,
    /// CPU time of processes that are no part of the run, per cent of one core.
    pub others_pct: f64,
    /// CPU time that the hypervisor took, per cent of one core.
    pub steal_pct: f64,
}

impl Metered {
    pub fn noisy(&self) -> bool {
        self.others_pct > NOISE_OTHERS_PCT || self.steal_pct > NOISE_STEAL_PCT
    }
}

impl Window {
    /// Begins to meter `pid`; `helper` is a sink that belongs to the run but not to the figure.
    pub fn open(pid: u32, helper: Option<u32>) -> Result<Self> {
        Ok(Self {
            pid,
            helper,
            ours_us: ours_us()?,
            cores: cores()?,
            helper_cpu: helper.map_or(Ok(Cpu::default()), process_cpu)?,
            disk_bytes: process_disk_bytes(pid)?,
            write_calls: process_write_calls(pid)?,
            process: tree_cpu(pid)?,
            begun: Instant::now(),
        })
    }

    /// Ends it. The load must have ended and been waited for, so that its CPU is known.
    pub fn close(self) -> Result<Metered> {
        let wall = self.begun.elapsed();
        let cpu = tree_cpu(self.pid)?.since(self.process);
        let helper = self
            .helper
            .map_or(Ok(Cpu::default()), process_cpu)?
            .since(self.helper_cpu);
        let now = cores()?;
        let wall_us = wall.as_secs_f64() * 1e6;
        let ours_us = ours_us()? - self.ours_us;
        let known = cpu.total_us() + helper.total_us() + ours_us;
        let others = (now.busy_us - self.cores.busy_us - known).max(0.0);
        Ok(Metered {
            wall,
            cpu,
            helper_pct: 100.0 * helper.total_us() / wall_us,
            ours_pct: 100.0 * ours_us / wall_us,
            disk_bytes: process_disk_bytes(self.pid)? - self.disk_bytes,
            write_calls: process_write_calls(self.pid)? - self.write_calls,
            others_pct: 100.0 * others / wall_us,
            steal_pct: 100.0 * (now.steal_us - self.cores.steal_us) / wall_us,
        })
    }
}

/// CPU of this process and of its children that were waited for, the senders among them.
fn ours_us() -> Result<f64> {
    let mut total = 0.0;
    for who in [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN] {
        let usage = getrusage(who).context("getrusage")?;
        total += time_us(usage.user_time()) + time_us(usage.system_time());
    }
    Ok(total)
}

fn time_us(time: TimeVal) -> f64 {
    time.tv_sec() as f64 * 1e6 + time.tv_usec() as f64
}

/// Milliseconds that a fixed piece of arithmetic takes now: the speed of the host at this moment.
pub fn calibrate_ms() -> f64 {
    let begun = Instant::now();
    let mut state = black_box(0x9e37_79b9_7f4a_7c15_u64);
    for _ in 0..10_000_000 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    black_box(state);
    begun.elapsed().as_secs_f64() * 1e3
}

/// Properties of the machine that a figure depends on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    pub cpu: String,
    pub cores: usize,
    pub memory_gib: f64,
    pub kernel: String,
    /// `net.core.rmem_default`, bytes.
    pub rmem_default: u64,
    /// `net.core.rmem_max`, bytes.
    pub rmem_max: u64,
    pub root: bool,
}

impl Machine {
    /// This machine.
    pub fn here() -> Self {
        let read = |path: &str| {
            fs::read_to_string(path)
                .unwrap_or_default()
                .trim()
                .to_owned()
        };
        Self {
            cpu: field_after_colon(&read("/proc/cpuinfo"), "model name").unwrap_or_default(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_gib: parse_status_mib(&read("/proc/meminfo"), "MemTotal:").unwrap_or(0.0)
                / 1024.0,
            kernel: read("/proc/sys/kernel/osrelease"),
            rmem_default: read("/proc/sys/net/core/rmem_default").parse().unwrap_or(0),
            rmem_max: read("/proc/sys/net/core/rmem_max").parse().unwrap_or(0),
            root: is_root(),
        }
    }
}

/// True if this process runs as root, which may do everything.
pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

fn field_after_colon(text: &str, key: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(key))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, Write as _};

    use super::*;

    #[test]
    fn a_command_name_with_spaces_and_brackets_does_not_shift_the_fields() {
        let stat = "77 (a b) c) S 1 77 77 0 -1 4194560 100 0 0 0 250 31 7 8 20 0 4 0 100 0";
        let cpu = parse_process_cpu(stat);
        assert_eq!(
            cpu,
            Some(Cpu {
                user_us: 2_500_000.0,
                sys_us: 310_000.0
            })
        );
        let waited = Cpu {
            user_us: 70_000.0,
            sys_us: 80_000.0,
        };
        assert_eq!(parse_waited_cpu(stat), Some(waited));
        assert_eq!(parse_process_cpu("77 (cut"), None);
        assert_eq!(parse_process_cpu("77 (cut) S 1 77"), None);
    }

    #[test]
    fn cpu_of_children_counts_while_they_run_and_after() -> Result<()> {
        // A child counts to 300,000, which takes tenths of a second, and waits to be told to end.
        let counts = "(i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done; echo; \
                      read x; echo); echo; read x";
        let mut shell = std::process::Command::new("sh")
            .args(["-c", counts])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()?;
        let mut said = std::io::BufReader::new(shell.stdout.take().context("no pipe")?);
        let mut told = shell.stdin.take().context("no pipe")?;
        let mut line = String::new();
        said.read_line(&mut line)?;
        let own = process_cpu(shell.id())?.total_us();
        let running = tree_cpu(shell.id())?.total_us();
        told.write_all(b"\n")?;
        said.read_line(&mut line)?;
        said.read_line(&mut line)?;
        let ended = tree_cpu(shell.id())?.total_us();
        drop(told);
        shell.wait()?;
        assert!(own < 5.0 * TICK_US, "{own}");
        assert!(
            ended >= running && running >= 5.0 * TICK_US,
            "{running} {ended}"
        );
        Ok(())
    }

    #[test]
    fn memory_is_read_in_kib_and_given_in_mib() {
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1536 kB\n";
        assert_eq!(parse_status_mib(status, "VmRSS:"), Some(1.5));
        assert_eq!(parse_status_mib(status, "VmHWM:"), Some(2.0));
        assert_eq!(parse_status_mib(status, "VmSwap:"), None);
    }

    #[test]
    fn what_went_to_disks_is_not_what_was_written_to_sockets() {
        let io = "rchar: 1\nwchar: 2\nsyscr: 3\nread_bytes: 4\nwrite_bytes: 5\n";
        assert_eq!(parse_io(io, "write_bytes:"), Some(5));
        assert_eq!(parse_io("wchar: 2\n", "write_bytes:"), None);
    }

    #[test]
    fn all_cores_are_busy_with_everything_but_idle_waiting_and_steal() {
        let stat = "cpu  10 1 20 1000 500 2 3 7 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        let expected = Cores {
            busy_us: 360_000.0,
            steal_us: 70_000.0,
        };
        assert_eq!(parse_cores(stat), Some(expected));
        assert_eq!(parse_cores("cpu0 1 2 3"), None);
    }

    #[test]
    fn drops_are_summed_over_the_sockets_of_the_port_and_of_no_other() {
        let head = "  sl  local_address rem_address   st tx_queue rx_queue … drops\n";
        let row = |port: &str, drops: u64| {
            format!(
                " 1: 0100007F:{port} 00000000:0000 07 00000000:00000000 00:00000000 00000000 \
                 0 0 4242 2 0000000000000000 {drops}\n"
            )
        };
        let text = format!(
            "{head}{}{}{}",
            row("158A", 5),
            row("158A", 7),
            row("158B", 100)
        );
        assert_eq!(parse_udp_dropped(&text, 0x158A), 12);
        assert_eq!(parse_udp_dropped(&text, 9), 0);
    }

    #[test]
    fn the_meter_reads_this_very_process() {
        let window = Window::open(std::process::id(), None);
        let metered = window.and_then(Window::close);
        assert!(metered.is_ok_and(|m| m.cpu.total_us() >= 0.0 && m.helper_pct == 0.0));
        assert!(process_rss_mib(std::process::id()).is_ok_and(|mib| mib > 0.0));
    }
}
