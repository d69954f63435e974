//! The formats of the files, as functions of their text. All are tables that grew over the years:
//! columns are found by their names where they have any, and what is not there is `None`.

/// Of one CPU, from a line of `/proc/net/softnet_stat`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SoftnetCpu {
    /// The CPU's number; that of the line on kernels that do not say it (before 5.10).
    pub(crate) cpu: u64,
    /// Packets that it took off its backlog or a card. 32 bits wide in the kernel.
    pub(crate) processed: u64,
    /// Packets dropped because the backlog was full. 32 bits wide in the kernel.
    pub(crate) dropped: u64,
    /// Times that it stopped with packets left, for want of budget. 32 bits wide in the kernel.
    pub(crate) time_squeeze: u64,
}

/// Column of the CPU's number, from 0.
const SOFTNET_CPU: usize = 12;

/// `/proc/net/softnet_stat`: a line a CPU, columns in hexadecimal without names. A line that is
/// none is skipped.
pub(crate) fn softnet(text: &str) -> Vec<SoftnetCpu> {
    let line = |(number, line): (usize, &str)| {
        let mut columns = line.split_ascii_whitespace();
        let mut next = || u64::from_str_radix(columns.next()?, 16).ok();
        let (processed, dropped, time_squeeze) = (next()?, next()?, next()?);
        // Three columns are taken already.
        let cpu = columns.nth(SOFTNET_CPU - 3);
        let cpu = cpu.and_then(|column| u64::from_str_radix(column, 16).ok());
        Some(SoftnetCpu {
            cpu: cpu.unwrap_or(number as u64),
            processed,
            dropped,
            time_squeeze,
        })
    };
    text.lines().enumerate().filter_map(line).collect()
}

/// One value of `/proc/net/snmp` or `/proc/net/netstat`: pairs of lines, the first with the names
/// of the columns, the second with their values, both beginning with the table's name.
pub(crate) fn snmp(text: &str, table: &str, column: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| {
        let (name, rest) = line.split_once(':')?;
        (name == table).then_some(rest)
    });
    loop {
        let (names, values) = (lines.next()?, lines.next()?);
        let mut pairs = names
            .split_ascii_whitespace()
            .zip(values.split_ascii_whitespace());
        if let Some((_, value)) = pairs.find(|(name, _)| *name == column) {
            return value.parse().ok();
        }
    }
}

/// One value of `/proc/net/snmp6` or `/proc/PID/status`: a name and a value a line.
pub(crate) fn named(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        (words.next()? == name).then(|| words.next()?.parse().ok())?
    })
}

/// A file with one number and nothing else, as under `/sys/class/net/*/statistics`.
pub(crate) fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// Nanoseconds on a CPU, the first number of `/proc/PID/task/TID/schedstat`.
pub(crate) fn schedstat(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// Nanoseconds of one tick in `/proc/PID/task/TID/stat`: USER_HZ is 100 on every architecture.
const TICK_NS: u64 = 10_000_000;

/// Nanoseconds on a CPU from `/proc/PID/task/TID/stat`, in steps of 10 ms.
pub(crate) fn stat(text: &str) -> Option<u64> {
    let stat = thread_stat(text)?;
    stat.user_ns.checked_add(stat.system_ns)
}

/// Of a thread, from `/proc/PID/task/TID/stat`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ThreadStat {
    /// Its name.
    pub(crate) name: String,
    /// Its state just now, as proc(5) has it: `R`, `S`, `D`.
    pub(crate) state: char,
    /// Nanoseconds in its own code, in steps of 10 ms.
    pub(crate) user_ns: u64,
    /// Nanoseconds in the kernel, in steps of 10 ms.
    pub(crate) system_ns: u64,
}

/// Fields 2, 3, 14 and 15 in proc(5). The name in brackets may hold spaces and brackets itself.
pub(crate) fn thread_stat(text: &str) -> Option<ThreadStat> {
    let (before, rest) = text.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    // The first word after the name is field 3.
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let mut fields = fields.skip(14 - 4);
    let mut ns = || fields.next()?.parse::<u64>().ok()?.checked_mul(TICK_NS);
    Some(ThreadStat {
        name: name.to_owned(),
        state,
        user_ns: ns()?,
        system_ns: ns()?,
    })
}

/// Ticks that all CPUs together were idle, or waited for a disk, from `/proc/stat`.
pub(crate) fn idle_ticks(text: &str) -> Option<u64> {
    let all = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let mut fields = all.split_ascii_whitespace().skip(3);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    ticks()?.checked_add(ticks()?)
}

/// Bytes of resident memory from `/proc/PID/status`.
pub(crate) fn resident_bytes(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

/// CPUs that a list may name; the kernel's own limit (`NR_CPUS`) is 8,192.
const CPUS_MAX: usize = 8192;

/// A list of CPUs as the kernel writes it, such as `0-3,8`, in its order. What is no number or
/// beyond [`CPUS_MAX`] is left out.
pub(crate) fn cpu_list(text: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        Some(first..=last.min(CPUS_MAX - 1))
    };
    let parts = text.trim().split(',').filter_map(range);
    parts.flatten().take(CPUS_MAX).collect()
}
