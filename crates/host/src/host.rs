//! Reads the files, and remembers what they said before.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::Cause;
use crate::files::HostFiles;
use crate::growth::{CounterKey, CounterKind, Growth};
use crate::text::{named, number, resident_bytes, schedstat, snmp, softnet, stat};

/// Threads of our own process that are looked at; we have some 20.
pub const THREADS_MAX: usize = 512;

/// The counters of an interface that mean loss, with the files that hold them.
const NIC: [Cause; 4] = [
    Cause::NicMissed,
    Cause::NicFifo,
    Cause::NicDropped,
    Cause::NicCrc,
];

/// Loss of the host for one reason since [`Host::open`], whoever it was meant for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostLoss {
    /// The reason.
    pub cause: Cause,
    /// The interface; `None` for a counter of the whole host.
    pub device: Option<String>,
    /// Packets, datagrams or connections.
    pub count: u64,
}

/// CPU time of one of our threads.
#[derive(Clone, PartialEq, Debug)]
pub struct ThreadCpu {
    /// Its name, which the kernel cuts to 15 characters.
    pub name: String,
    /// CPU time since the reading before, in percent of one CPU.
    pub cpu_percent: f64,
}

/// Everything at one moment.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct HostReading {
    /// Losses of the host, in the order of an event's way. A counter that cannot be read is left
    /// out.
    pub losses: Vec<HostLoss>,
    /// Times since [`Host::open`] that a CPU stopped taking packets off its backlog with some left,
    /// for want of budget: no loss yet, but how one begins.
    pub time_squeeze: Option<u64>,
    /// The threads of our own process, in the order in which they were started.
    pub threads: Vec<ThreadCpu>,
    /// Memory of our own process, in bytes.
    pub resident_bytes: Option<u64>,
}

/// The host as its files show it.
pub struct Host {
    files: HostFiles,
    growth: Growth,
    /// CPU time of each thread at the last reading, in nanoseconds.
    threads: HashMap<u64, u64>,
    threads_at: Instant,
}

impl Host {
    /// This host; its counters count from now on.
    pub fn open() -> Self {
        Self::at(Path::new("/"), Instant::now())
    }

    /// A host whose `/proc` and `/sys` lie under `root`, opened at `now`.
    pub(crate) fn at(root: &Path, now: Instant) -> Self {
        let mut host = Self {
            files: HostFiles::at(root),
            growth: Growth::default(),
            threads: HashMap::new(),
            threads_at: now,
        };
        host.read_at(now);
        host
    }

    /// Reads everything. The CPU time of threads is that since the reading before, so readings that
    /// follow each other closely say little.
    pub fn read(&mut self) -> HostReading {
        self.read_at(Instant::now())
    }

    pub(crate) fn read_at(&mut self, now: Instant) -> HostReading {
        self.growth.begin();
        let mut losses = self.interfaces();
        let (dropped, time_squeeze) = self.softnet();
        losses.extend(dropped.map(|count| of_host(Cause::SoftnetDropped, count)));
        losses.extend(self.udp());
        losses.extend(self.listeners());
        HostReading {
            losses,
            time_squeeze,
            threads: self.threads(now),
            resident_bytes: self
                .text("proc/self/status")
                .and_then(|text| resident_bytes(&text)),
        }
    }

    /// A file under the root; `None` if it cannot be read.
    fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        self.files.text(path)
    }

    fn grown(&mut self, what: CounterKind, device: &str, value: u64) -> u64 {
        let device = device.to_owned();
        self.growth.note(CounterKey { what, device }, value)
    }

    fn interfaces(&mut self) -> Vec<HostLoss> {
        let mut losses = Vec::new();
        for name in self.files.interfaces() {
            for cause in NIC {
                let file = format!("sys/class/net/{name}/statistics/{}", cause.label());
                let Some(value) = self.text(file).and_then(|text| number(&text)) else {
                    continue;
                };
                losses.push(HostLoss {
                    cause,
                    count: self.grown(CounterKind::Loss(cause), &name, value),
                    device: Some(name.clone()),
                });
            }
        }
        losses
    }

    /// Packets dropped and budgets used up, over all CPUs.
    fn softnet(&mut self) -> (Option<u64>, Option<u64>) {
        let Some(text) = self.text("proc/net/softnet_stat") else {
            return (None, None);
        };
        let mut sums = None;
        for cpu in softnet(&text) {
            let device = cpu.cpu.to_string();
            let (dropped, squeezed) = sums.unwrap_or((0, 0));
            sums = Some((
                dropped
                    + self.grown(
                        CounterKind::Loss(Cause::SoftnetDropped),
                        &device,
                        cpu.dropped,
                    ),
                squeezed + self.grown(CounterKind::TimeSqueeze, &device, cpu.time_squeeze),
            ));
        }
        sums.unzip()
    }

    /// UDP over IPv4 and IPv6. The kernel counts a full buffer among `InErrors` as well; here
    /// each datagram counts once.
    fn udp(&mut self) -> Vec<HostLoss> {
        let v4 = self.text("proc/net/snmp").unwrap_or_default();
        let v6 = self.text("proc/net/snmp6").unwrap_or_default();
        let mut sum = |column: &str, what: CounterKind, what6: CounterKind| {
            let v4 = snmp(&v4, "Udp", column).map(|value| self.grown(what, "", value));
            let v6 = named(&v6, &format!("Udp6{column}"));
            let v6 = v6.map(|value| self.grown(what6, "", value));
            match (v4, v6) {
                (None, None) => None,
                (v4, v6) => Some(v4.unwrap_or(0) + v6.unwrap_or(0)),
            }
        };
        let full = CounterKind::Loss(Cause::UdpReceiveBuffer);
        let full = sum("RcvbufErrors", full, CounterKind::Udp6ReceiveBuffer);
        let errors = sum("InErrors", CounterKind::UdpErrors, CounterKind::Udp6Errors);
        let ports = CounterKind::Loss(Cause::UdpNoPorts);
        let ports = sum("NoPorts", ports, CounterKind::Udp6NoPorts);
        // Not read at one moment, so that the part may be ahead of the whole.
        let others = errors.map(|errors| errors.saturating_sub(full.unwrap_or(0)));
        let rows = [
            (Cause::UdpReceiveBuffer, full),
            (Cause::UdpOther, others),
            (Cause::UdpNoPorts, ports),
        ];
        rows.into_iter()
            .filter_map(|(cause, count)| Some(of_host(cause, count?)))
            .collect()
    }

    /// Connections turned away. `ListenDrops` has the overflows in it; here each counts once.
    fn listeners(&mut self) -> Vec<HostLoss> {
        let text = self.text("proc/net/netstat").unwrap_or_default();
        let value = |column| snmp(&text, "TcpExt", column);
        let (overflows, drops) = (value("ListenOverflows"), value("ListenDrops"));
        let what = CounterKind::Loss(Cause::ListenOverflows);
        let overflows = overflows.map(|value| self.grown(what, "", value));
        let drops = drops.map(|value| self.grown(CounterKind::ListenDrops, "", value));
        let others = drops.map(|drops| drops.saturating_sub(overflows.unwrap_or(0)));
        let rows = [
            (Cause::ListenOverflows, overflows),
            (Cause::ListenOther, others),
        ];
        rows.into_iter()
            .filter_map(|(cause, count)| Some(of_host(cause, count?)))
            .collect()
    }

    fn threads(&mut self, now: Instant) -> Vec<ThreadCpu> {
        let names = self.files.names("proc/self/task");
        let mut numbers: Vec<u64> = names.iter().filter_map(|name| name.parse().ok()).collect();
        numbers.sort_unstable();
        numbers.truncate(THREADS_MAX);
        let elapsed = now.saturating_duration_since(self.threads_at);
        let mut before = std::mem::take(&mut self.threads);
        self.threads_at = now;
        let mut threads = Vec::with_capacity(numbers.len());
        for thread in numbers {
            let Some((name, used_ns)) = self.thread(thread) else {
                continue;
            };
            self.threads.insert(thread, used_ns);
            // One that was not there before has used all of its time since.
            let used_before = before.remove(&thread).unwrap_or(0);
            threads.push(ThreadCpu {
                name,
                cpu_percent: percent(used_ns.saturating_sub(used_before), elapsed),
            });
        }
        threads
    }

    /// Name and CPU time of one thread; `None` if it has just ended.
    fn thread(&self, number: u64) -> Option<(String, u64)> {
        let file = |name: &str| self.text(format!("proc/self/task/{number}/{name}"));
        let name = file("comm")?.trim_end().to_owned();
        // A kernel without CONFIG_SCHED_INFO has no such file.
        let exact = file("schedstat").and_then(|text| schedstat(&text));
        let used_ns = exact.or_else(|| stat(&file("stat")?))?;
        Some((name, used_ns))
    }
}

fn of_host(cause: Cause, count: u64) -> HostLoss {
    HostLoss {
        cause,
        device: None,
        count,
    }
}

/// To one decimal; 0 where no time has passed.
fn percent(used_ns: u64, elapsed: Duration) -> f64 {
    if elapsed.is_zero() {
        return 0.0;
    }
    let share = used_ns as f64 / elapsed.as_nanos() as f64;
    (share * 1000.0).round() / 10.0
}
