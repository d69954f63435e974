//! One thing that the doctor has to say.

use serde::Serialize;

/// Layer on an event's way, or below it, at which a finding lies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// The network card, its driver and its interrupts.
    Nic,
    /// The kernel's backlog between driver and sockets.
    Softnet,
    /// Sockets and their buffers.
    Socket,
    /// The internet protocol: fragments, packets that are too large.
    Ip,
    /// Queueing disciplines, and filters on what comes in.
    Qdisc,
    /// Files and answers that the kernel hides.
    Kernel,
    /// CPU time and how fast it is had.
    Cpu,
    /// Memory.
    Memory,
    /// The disk below the data directory.
    Disk,
    /// Limits of the process.
    Limits,
    /// The clock.
    Clock,
    /// The configuration and the files that it names.
    Config,
    /// Certificates and keys.
    Tls,
    /// Destinations of events.
    Destination,
}

impl Layer {
    /// Its name in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nic => "nic",
            Self::Softnet => "softnet",
            Self::Socket => "socket",
            Self::Ip => "ip",
            Self::Qdisc => "qdisc",
            Self::Kernel => "kernel",
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Disk => "disk",
            Self::Limits => "limits",
            Self::Clock => "clock",
            Self::Config => "config",
            Self::Tls => "tls",
            Self::Destination => "destination",
        }
    }
}

/// Severity of a finding; the later, the worse.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// As it should be.
    Ok,
    /// Could be better, and loses nothing.
    Info,
    /// Loses events under load, or has lost some.
    Warn,
    /// Loses our events, or is about to stop us.
    Critical,
}

/// One thing that a check found, and the remedy.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// The same on every host and in every release; behind a colon the device, where there are
    /// several.
    pub id: String,
    /// Its layer.
    pub layer: Layer,
    /// Its severity.
    pub severity: Severity,
    /// The state that was found.
    pub found: String,
    /// The state that should be, for this configuration.
    pub wanted: String,
    /// The reason, in one or two sentences.
    pub why: String,
    /// The command that mends it or, where none does, the one that shows more; `None` where
    /// nothing is to be done.
    pub command: Option<String>,
    /// Events, packets or datagrams that were lost by it since the counter began; `None` where
    /// nothing counts them.
    pub lost_now: Option<u64>,
    /// Values that `--apply` would set.
    #[serde(skip)]
    pub settings: Vec<Setting>,
}

/// A value of the kernel that should be larger.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// Its name for sysctl(8), such as `net.core.rmem_max`.
    pub key: &'static str,
    /// The least value that it should have.
    pub value: u64,
}

impl Finding {
    /// All is well, unless something else is said.
    pub(super) fn new(id: impl Into<String>, layer: Layer, found: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            layer,
            severity: Severity::Ok,
            found: found.into(),
            wanted: String::new(),
            why: String::new(),
            command: None,
            lost_now: None,
            settings: Vec::new(),
        }
    }

    pub(super) fn wanted(mut self, wanted: impl Into<String>) -> Self {
        self.wanted = wanted.into();
        self
    }

    pub(super) fn why(mut self, why: impl Into<String>) -> Self {
        self.why = why.into();
        self
    }

    pub(super) fn lost(mut self, count: Option<u64>) -> Self {
        self.lost_now = count;
        self
    }

    /// Sets the severity, and the command that mends it or shows more.
    pub(super) fn bad(mut self, severity: Severity, command: impl Into<String>) -> Self {
        self.severity = severity;
        self.command = Some(command.into());
        self
    }

    /// Sets the severity, and the values of the kernel that mend it.
    pub(super) fn raise(self, severity: Severity, settings: &[(&'static str, u64)]) -> Self {
        let words: Vec<String> = settings
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let mut finding = self.bad(severity, format!("sysctl -w {}", words.join(" ")));
        let setting = |&(key, value)| Setting { key, value };
        finding.settings = settings.iter().map(setting).collect();
        finding
    }
}

/// Of how many packets one must be lost for the loss to be [`Severity::Critical`]. Below it the
/// counter may be of a burst weeks ago; above it events are missing in every search.
const CRITICAL_ONE_IN: u64 = 1000;

/// Severity of a loss of `lost` packets while `passed` came through.
pub(super) fn loss(lost: u64, passed: u64) -> Severity {
    match lost {
        0 => Severity::Ok,
        _ if lost.saturating_mul(CRITICAL_ONE_IN) >= passed => Severity::Critical,
        _ => Severity::Warn,
    }
}

/// A sum that stops at the largest number: what a file says may be anything.
pub(super) fn total(values: impl Iterator<Item = u64>) -> u64 {
    values.fold(0, u64::saturating_add)
}

/// A number of bytes for the eye, in powers of 1,024.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64 / 1024.0;
    if value < 1.0 {
        return format!("{bytes} B");
    }
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(value.fract() >= 0.05 && value < 100.0);
    format!("{value:.digits$} {}", UNITS[unit])
}
