//! Panes of `inrush top`: one table each, from the latest snapshot and earlier ones.
//!
//! # What it guarantees
//! * A rate is a counter's growth between two snapshots of one process, and never negative.
//! * A rate without an earlier snapshot is shown as `–`, never as 0.
//! * Rates of destinations cover ten seconds, because stores and collectors take events in steps.
//! * Texts from the process pass `plain` first, so that none of them controls the terminal.
//!
//! # Limits
//! The summary of losses has the places of `PLACES`; the rows below it show any other place too.
//! Threads under `IDLE_PERCENT` share one row. Events older than `OLD_MS` mark their destination.

use crate::snapshot::{AlarmStatus, LossCount, Snapshot, StoredFates, ThreadCpu};
use crate::table::{PaneRow, PaneTable, Tone, growing, left, right};
use crate::text::{bytes, number, plain, rate, time};

/// Parts of a screen, in the order in which Tab goes through them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pane {
    Alarms,
    Sources,
    Destinations,
    Edges,
    Threads,
    Loss,
}

/// Places where an event can be lost, in the order of its way.
const PLACES: [&str; 7] = [
    "nic",
    "softnet",
    "socket",
    "frame",
    "filter",
    "queue",
    "destination",
];

/// Stands for a number that is not known.
const UNKNOWN: &str = "–";

/// A thread that takes less is counted among the idle ones, in percent of one CPU.
const IDLE_PERCENT: f64 = 0.05;

/// Index of the column of held parts among those of a source, if any source holds parts.
const HELD_AT: usize = 6;

/// An event that waits for longer than this makes its destination stand out, in milliseconds.
const OLD_MS: f64 = 60_000.0;

impl Pane {
    pub(crate) const ALL: [Self; 6] = [
        Self::Alarms,
        Self::Sources,
        Self::Destinations,
        Self::Edges,
        Self::Threads,
        Self::Loss,
    ];

    /// Its number in [`Self::ALL`].
    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// The one that is so many further on.
    pub(crate) fn step(self, by: usize) -> Self {
        Self::ALL[(self.index() + by) % Self::ALL.len()]
    }

    /// Its rows.
    pub(crate) fn table(self, pair: &SnapshotPair<'_>) -> PaneTable {
        match self {
            Self::Alarms => alarms(pair),
            Self::Sources => sources(pair),
            Self::Destinations => destinations(pair),
            Self::Edges => edges(pair),
            Self::Threads => threads(pair),
            Self::Loss => loss(pair),
        }
    }

    /// Text in place of the rows where it has none.
    pub(crate) fn nothing(self) -> &'static str {
        match self {
            Self::Alarms => "nothing is wrong",
            Self::Loss => "nothing was lost since the start",
            _ => "none",
        }
    }

    /// Text before the heads of the columns, or in their place.
    pub(crate) fn summary(self, pair: &SnapshotPair<'_>) -> Option<String> {
        match self {
            Self::Loss => {
                let places = places(&pair.now.loss).map(|(text, _)| text);
                Some(format!("LOSS  {}", places.join("  ")))
            }
            Self::Alarms => Some(match pair.now.alarms.len() {
                0 => "ALARMS  none".to_owned(),
                n => format!("ALARMS  {n}"),
            }),
            _ => None,
        }
    }
}

/// Parts of [`Pane::summary`] that are meant in a way of their own.
pub(crate) fn marks(pane: Pane, pair: &SnapshotPair<'_>) -> Vec<(String, Tone)> {
    let alarms = pair.now.alarms.iter();
    match pane {
        Pane::Loss => places(&pair.now.loss).into(),
        Pane::Alarms => match alarms.map(severity).max_by_key(|tone| *tone == Tone::Bad) {
            None => vec![("none".to_owned(), Tone::Good)],
            Some(worst) => vec![(pair.now.alarms.len().to_string(), worst)],
        },
        _ => Vec::new(),
    }
}

/// The latest snapshot and the one before.
pub(crate) struct SnapshotPair<'a> {
    pub(crate) now: &'a Snapshot,
    /// `None` before there were two of the same process.
    pub(crate) before: Option<&'a Snapshot>,
    /// The oldest that is remembered of it.
    pub(crate) older: Option<&'a Snapshot>,
}

impl SnapshotPair<'_> {
    /// Growth of a counter a second, since the snapshot before.
    fn rate(&self, of: impl Fn(&Snapshot) -> Option<u64>) -> Option<f64> {
        self.rate_since(self.before?, of)
    }

    /// The same over the last ten seconds, for what goes in steps.
    fn steady_rate(&self, of: impl Fn(&Snapshot) -> Option<u64>) -> Option<f64> {
        self.rate_since(self.older?, of)
    }

    /// A counter that was not there before began at 0.
    fn rate_since(&self, before: &Snapshot, of: impl Fn(&Snapshot) -> Option<u64>) -> Option<f64> {
        let seconds = (self.now.at_ms - before.at_ms) / 1000.0;
        let grown = of(self.now)?.saturating_sub(of(before).unwrap_or(0));
        (seconds > 0.0).then(|| grown as f64 / seconds)
    }

    /// True if parts of events have waited for others of late. Most sources never hold any.
    fn has_held(&self) -> bool {
        let holds = |snapshot: &&Snapshot| snapshot.sources.iter().any(|one| one.held > 0);
        let snapshots = [Some(self.now), self.before, self.older];
        snapshots.iter().flatten().any(holds)
    }

    /// Events a second that came in, over all sources.
    pub(crate) fn came_in(&self) -> Option<f64> {
        self.rate(|snapshot| Some(snapshot.sources.iter().map(|one| one.received).sum()))
    }

    /// Bytes a second of those.
    pub(crate) fn bytes_came_in(&self) -> Option<f64> {
        self.rate(|snapshot| Some(snapshot.sources.iter().map(|one| one.bytes).sum()))
    }
}

fn or_unknown(value: Option<f64>, show: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), show)
}

fn sum<'a>(counts: impl IntoIterator<Item = &'a u64>) -> u64 {
    counts.into_iter().sum()
}

fn sources(pair: &SnapshotPair<'_>) -> PaneTable {
    let holds = pair.has_held();
    let rows = pair.now.sources.iter().map(|source| {
        let of = |get: fn(&crate::snapshot::SourceStatus) -> u64| {
            let name = &source.name;
            pair.rate(move |snapshot| {
                let same = snapshot.sources.iter().find(|one| one.name == *name);
                same.map(get)
            })
        };
        let rejected = sum(source.rejected.values());
        let lost = rejected > 0 || source.kernel_dropped > 0;
        let mut cells = vec![
            plain(&source.name),
            plain(&source.type_name),
            or_unknown(of(|one| one.received), rate),
            or_unknown(of(|one| one.accepted), rate),
            or_unknown(of(|one| one.bytes), |n| format!("{}/s", bytes(n))),
            number(source.connections),
            number(rejected),
            number(source.kernel_dropped),
            number(source.received),
        ];
        if holds {
            cells.insert(HELD_AT, number(source.held));
        }
        PaneRow {
            cells,
            tone: if lost { Tone::Bad } else { Tone::Plain },
            details: Vec::new(),
        }
    });
    let rows = rows.collect();
    let mut columns = vec![
        growing("SOURCE"),
        left("TYPE", 5),
        right("EVENTS/S", 0),
        right("ACCEPTED/S", 4),
        right("BYTES/S", 2),
        right("CONNS", 1),
        right("REJECTED", 0),
        right("KERNEL DROPS", 0),
        right("RECEIVED", 3),
    ];
    if holds {
        columns.insert(HELD_AT, right("HELD", 1));
    }
    PaneTable { columns, rows }
}

/// Events that a store has, and those that retention and damage took; the last since its start.
fn stored(stored: &StoredFates) -> String {
    let mut text = format!(
        "stored: {} searchable, {} in memory",
        number(stored.searchable),
        number(stored.in_memory)
    );
    for (reason, events) in &stored.expired {
        let why = match reason.as_str() {
            "room" => "to make room on the disk".to_owned(),
            reason => format!("by {}", plain(reason)),
        };
        text.push_str(&format!(", {} deleted {why}", number(*events)));
    }
    if stored.unreadable > 0 {
        text.push_str(&format!(", {} in damaged files", number(stored.unreadable)));
    }
    text
}

fn destinations(pair: &SnapshotPair<'_>) -> PaneTable {
    let rows = pair.now.destinations.iter().map(|destination| {
        // A store or a collector takes events by the thousand, and not every second.
        let delivered = pair.steady_rate(|snapshot| {
            let mut all = snapshot.destinations.iter();
            Some(all.find(|one| one.name == destination.name)?.delivered)
        });
        let dropped = sum(destination.dropped.values());
        let refused = sum(destination.quarantined.values());
        let ill = !matches!(destination.state.as_str(), "ok" | "removed");
        let old = destination.oldest_pending_ms > OLD_MS;
        PaneRow {
            cells: vec![
                plain(&destination.name),
                plain(&destination.type_name),
                plain(&destination.state),
                or_unknown(delivered, rate),
                number(destination.pending),
                match destination.pending {
                    0 => UNKNOWN.to_owned(),
                    _ => time(destination.oldest_pending_ms),
                },
                or_unknown(destination.request_ms, time),
                number(refused),
                number(dropped),
                number(destination.delivered),
            ],
            tone: match (ill || dropped > 0, refused > 0 || old) {
                (true, _) => Tone::Bad,
                (false, true) => Tone::Warn,
                (false, false) => Tone::Plain,
            },
            details: destination
                .error
                .iter()
                .map(|text| plain(text))
                .chain(destination.stored.as_ref().map(stored))
                .collect(),
        }
    });
    PaneTable {
        columns: vec![
            growing("DESTINATION"),
            left("TYPE", 5),
            left("STATE", 0),
            right("EVENTS/S", 0),
            right("PENDING", 0),
            right("OLDEST", 1),
            right("REQUEST", 2),
            right("REFUSED", 3),
            right("DROPPED", 0),
            right("DELIVERED", 4),
        ],
        rows: rows.collect(),
    }
}

fn edges(pair: &SnapshotPair<'_>) -> PaneTable {
    let rows = pair.now.edges.iter().map(|edge| {
        let flow = pair.rate(|snapshot| {
            let mut all = snapshot.edges.iter();
            let same = all.find(|one| one.from == edge.from && one.to == edge.to);
            Some(same?.events)
        });
        PaneRow {
            cells: vec![
                format!("{} → {}", plain(&edge.from), plain(&edge.to)),
                or_unknown(flow, rate),
                number(edge.events),
            ],
            ..PaneRow::default()
        }
    });
    PaneTable {
        columns: vec![growing("EDGE"), right("EVENTS/S", 0), right("EVENTS", 1)],
        rows: rows.collect(),
    }
}

fn threads(pair: &SnapshotPair<'_>) -> PaneTable {
    let (mut busy, idle): (Vec<_>, Vec<_>) = pair
        .now
        .threads
        .iter()
        .partition(|thread| thread.cpu_percent >= IDLE_PERCENT);
    busy.sort_by(|a, b| b.cpu_percent.total_cmp(&a.cpu_percent));
    let row = |thread: &ThreadCpu| PaneRow {
        cells: vec![plain(&thread.name), format!("{:.1} %", thread.cpu_percent)],
        ..PaneRow::default()
    };
    let mut rows: Vec<PaneRow> = busy.into_iter().map(row).collect();
    rows.extend((!idle.is_empty()).then(|| PaneRow {
        cells: vec![format!("{} idle", idle.len()), "0 %".to_owned()],
        tone: Tone::Faint,
        details: Vec::new(),
    }));
    PaneTable {
        columns: vec![growing("THREAD"), right("CPU", 0)],
        rows,
    }
}

/// Every place with what was lost there, and how that is meant.
fn places(rows: &[LossCount]) -> [(String, Tone); PLACES.len()] {
    PLACES.map(|place| {
        let own = || {
            let here = |row: &&LossCount| row.place == place && row.count > 0;
            rows.iter().filter(here)
        };
        let tones = own().map(tone).collect::<Vec<_>>();
        let tone = [Tone::Bad, Tone::Warn, Tone::Plain]
            .into_iter()
            .find(|tone| tones.contains(tone));
        let count = number(own().map(|row| row.count).sum());
        (format!("{place} {count}"), tone.unwrap_or(Tone::Good))
    })
}

/// Tone of a row of the loss map. What a rule takes out is no loss, and what the whole host lost
/// need not be ours.
fn tone(row: &LossCount) -> Tone {
    match (row.ours, row.place == "filter") {
        (_, true) => Tone::Plain,
        (true, _) => Tone::Bad,
        (false, _) => Tone::Warn,
    }
}

fn loss(pair: &SnapshotPair<'_>) -> PaneTable {
    let mut lost: Vec<&LossCount> = pair.now.loss.iter().filter(|row| row.count > 0).collect();
    // What was ours comes first; otherwise the order of an event's way stays.
    lost.sort_by_key(|row| !row.ours);
    let rows = lost.into_iter().map(|row| {
        let growth = pair.rate(|snapshot| {
            let mut all = snapshot.loss.iter();
            let same = all.find(|one| one.label == row.label && one.place == row.place);
            Some(same?.count)
        });
        PaneRow {
            cells: vec![
                plain(&row.place),
                plain(&row.label),
                number(row.count),
                or_unknown(growth, rate),
                match row.ours {
                    true => "ours".to_owned(),
                    false => "whole host".to_owned(),
                },
            ],
            tone: tone(row),
            details: vec![plain(&row.hint)],
        }
    });
    PaneTable {
        columns: vec![
            left("PLACE", 0),
            growing("WHAT"),
            right("COUNT", 0),
            right("NOW/S", 0),
            left("WHOSE", 1),
        ],
        rows: rows.collect(),
    }
}

fn severity(alarm: &AlarmStatus) -> Tone {
    match alarm.severity.as_str() {
        "critical" => Tone::Bad,
        _ => Tone::Warn,
    }
}

fn alarms(pair: &SnapshotPair<'_>) -> PaneTable {
    let row = |alarm: &AlarmStatus| {
        let tone = severity(alarm);
        PaneRow {
            cells: vec![
                if tone == Tone::Bad { "!!" } else { "!" }.to_owned(),
                time(pair.now.at_ms - alarm.since_ms),
                plain(&alarm.what),
            ],
            tone,
            details: [&alarm.cause, &alarm.remedy, &alarm.link]
                .into_iter()
                .filter(|text| !text.is_empty())
                .map(|text| plain(text))
                .collect(),
        }
    };
    PaneTable {
        columns: vec![left("", 0), right("", 0), growing("")],
        rows: pair.now.alarms.iter().map(row).collect(),
    }
}
