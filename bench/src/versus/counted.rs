//! Instructions of the whole process an event, counted by valgrind.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use inrush_harness::lab::{BenchHarness, INRUSH_DIR};
use inrush_harness::sender::{self, Amount, LoadShape, Wire};
use inrush_harness::subject::{
    BenchSubject, Inrush, SinkProcess, SubjectProgress, User, drain, write_config,
};

use super::VersusRow;
use crate::scenario::{MIXED, REFERENCE};

/// Events of the short run: what starting and stopping cost is in it as in the long one.
const FEW: u64 = 20_000;

/// Events of the long run.
const MANY: u64 = 120_000;

/// Events a second over UDP and to the store: valgrind is some fifty times slower. Nothing may be
/// lost, and a store that falls behind would read batches back from the disk.
const SLOW_RATE: u64 = 4_000;

/// Time between two looks at the ledger: each is a request whose instructions count.
const COUNTED_PATIENCE: Duration = Duration::from_secs(1);

/// Time for which a ledger may stand still: the store commits every ten seconds, and a commit
/// that valgrind slows down takes a minute.
const COUNTED_STILL_MAX: Duration = Duration::from_secs(300);

/// A way from the wire to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeliveryPath {
    Tcp,
    Udp,
    Hec,
    Fsync,
    Store,
}

impl DeliveryPath {
    pub(super) const ALL: [Self; 5] = [Self::Tcp, Self::Udp, Self::Hec, Self::Fsync, Self::Store];

    const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp10",
            Self::Udp => "udp",
            Self::Hec => "hec",
            Self::Fsync => "durable, fsync",
            Self::Store => "store",
        }
    }

    /// The configuration; none stands for the built-in one.
    const fn config(self) -> Option<&'static str> {
        match self {
            Self::Tcp => Some(include_str!("../../inrush/tcp-blackhole.yaml")),
            Self::Udp => Some(include_str!("../../inrush/udp-blackhole.yaml")),
            Self::Hec => Some(include_str!("../../inrush/tcp-hec.yaml")),
            Self::Fsync => Some(include_str!("../../inrush/durability.yaml")),
            Self::Store => None,
        }
    }

    const fn shape(self) -> LoadShape {
        match self {
            Self::Udp => LoadShape {
                wire: Wire::Udp,
                connections: 1,
                rate: SLOW_RATE,
                ..REFERENCE
            },
            Self::Store => LoadShape {
                rate: SLOW_RATE,
                ..MIXED
            },
            Self::Tcp | Self::Hec | Self::Fsync => REFERENCE,
        }
    }
}

/// Both builds, by round: the old one, the new one, the old one again. The load is cut into batches
/// a little differently each time, which moves a count by some percent.
pub(super) fn compare(
    before: &BenchHarness,
    now: &BenchHarness,
    way: DeliveryPath,
    rounds: usize,
) -> Result<VersusRow> {
    let mut counted = Vec::new();
    for round in 1..=rounds {
        eprintln!("{}: counting, round {round} of {rounds}", way.name());
        counted.push([
            per_event(before, way)?,
            per_event(now, way)?,
            per_event(before, way)?,
        ]);
    }
    let load = format!("{MANY} events less {FEW}");
    VersusRow::instructions(way.name(), &load, &counted).context("nothing was counted")
}

fn per_event(lab: &BenchHarness, way: DeliveryPath) -> Result<f64> {
    let few = total(lab, way, FEW)?;
    let many = total(lab, way, MANY)?;
    Ok((many as f64 - few as f64) / (MANY - FEW) as f64)
}

/// Instructions of a process from its start to its end, with `events` in between.
fn total(lab: &BenchHarness, way: DeliveryPath, events: u64) -> Result<u64> {
    let dir = lab.dir(INRUSH_DIR)?;
    let counts = dir.join("callgrind");
    let watched = dir.join("inrush-under-valgrind");
    under_valgrind(&watched, &lab.inrush, &counts)?;
    let sink = matches!(way, DeliveryPath::Hec)
        .then(|| SinkProcess::start(&[]))
        .transpose()?;
    let config = way.config().map(|template| {
        let file = lab.inrush_config();
        let port = sink
            .as_ref()
            .map_or(String::new(), |sink| sink.port.to_string());
        let values = [
            ("@DIR@", dir.display().to_string()),
            ("@SINK@", port),
            ("@DURABILITY@", "fsync".to_owned()),
        ];
        let values = values
            .each_ref()
            .map(|(name, value)| (*name, value.as_str()));
        write_config(&file, template, &values).map(|()| file)
    });
    let config = config.transpose()?;
    let inrush = Inrush::start(&watched, config.as_deref(), &dir, User::Ours)?;
    let mut inrush = CountedSubject(inrush);
    let shape = way.shape();
    let address = inrush.address(shape.wire)?;
    let amount = Amount::Number(events);
    let sent = sender::start(&lab.inrush, &address, &shape, amount, None)?.finish()?;
    let last = drain(&mut inrush, sent.events)?;
    let wrong = inrush.wrong(&last, sent.events);
    ensure!(wrong.is_none(), "{}: {wrong:?}", way.name());
    // Valgrind writes the counts at the end of the process.
    inrush.0.stop()?;
    let text = fs::read_to_string(&counts).context("valgrind has written no counts")?;
    let total = text.lines().find_map(|line| line.strip_prefix("totals: "));
    total
        .context("valgrind has no total")?
        .trim()
        .parse()
        .context("valgrind's total is no number")
}

/// A process that valgrind slows down, and counts.
struct CountedSubject(Inrush);

impl BenchSubject for CountedSubject {
    fn pid(&self) -> u32 {
        self.0.pid()
    }

    fn address(&self, wire: Wire) -> Result<String> {
        self.0.address(wire)
    }

    fn progress(&mut self) -> Result<SubjectProgress> {
        self.0.progress()
    }

    fn patience(&self) -> Duration {
        COUNTED_PATIENCE
    }

    fn still_max(&self) -> Duration {
        COUNTED_STILL_MAX
    }

    fn wrong(&self, last: &SubjectProgress, sent: u64) -> Option<String> {
        self.0.wrong(last, sent)
    }
}

/// A program that runs `binary` under valgrind, which writes to `counts`.
fn under_valgrind(file: &Path, binary: &Path, counts: &Path) -> Result<()> {
    let script = format!(
        "#!/bin/sh\nexec valgrind --quiet --tool=callgrind --callgrind-out-file={} -- {} \"$@\"\n",
        counts.display(),
        binary.display()
    );
    fs::write(file, script)?;
    fs::set_permissions(file, fs::Permissions::from_mode(0o755))?;
    Ok(())
}
