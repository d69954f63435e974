//! UDP loss against the rate.

use super::contenders::Contender;
use super::{
    Axes, ChartSeries, FigureColumn, FigureRow, NamedLoad, Points, ProductTable, RunMeasurement,
    TableBench, TablePlan,
};
use crate::sender::{HeaderStyle, LoadShape, MessageText, Wire};

/// Datagrams a second; the first four are those of SC4S's own table. The last one is unbounded.
const RATES: [u64; 7] = [4_500, 9_000, 27_000, 67_000, 150_000, 350_000, 0];

/// Senders, each with a port of its own.
const SENDERS: [u64; 2] = [1, 64];

/// Place of the unbounded rate on the chart's axis, in datagrams a second.
const UNBOUNDED_AT: f64 = 500_000.0;

/// Messages of 800 bytes; datagrams eight at a time (UDP_SEGMENT), as a card hands them over.
pub(super) const fn shape(wire: Wire, connections: u64, rate: u64) -> LoadShape {
    LoadShape {
        wire,
        connections,
        size: 800,
        header: HeaderStyle::Rfc3164Iso,
        text: MessageText::Padding,
        backdate_hours: 0,
        rate,
        burst: if matches!(wire, Wire::Udp) { 8 } else { 0 },
    }
}

fn name(senders: u64, rate: u64) -> String {
    let senders = match senders {
        1 => "1 sender".to_owned(),
        n => format!("{n} senders"),
    };
    match rate {
        0 => format!("{senders}, as fast as it goes"),
        rate => format!("{senders}, {}/s", super::text::number(rate as f64, 0)),
    }
}

pub(super) fn plan() -> TablePlan {
    let loads = SENDERS.iter().flat_map(|senders| {
        RATES.iter().map(|rate| NamedLoad {
            name: name(*senders, *rate),
            shape: shape(Wire::Udp, *senders, *rate),
        })
    });
    TablePlan {
        table: ProductTable {
            name: String::new(),
            shows: "UDP datagrams of 800 B that are lost, by rate and number of senders",
            published: "SC4S 3 (its guide to UDP): 78 % of 67,000/s by default; none of 67,000/s \
                        with kernel buffers, sockets and eBPF, which gives up order.",
            notes: vec![
                "All share the machine with the sender. Tuned: a receive buffer of 64 MiB, as far \
                 as the kernel lets it be, and for rsyslog two threads. Inrush has no options set."
                    .to_owned(),
            ],
            columns: vec![
                FigureColumn::less("lost", "%", 2),
                FigureColumn::plain("sent", "/s", 0),
                FigureColumn::less("CPU", "µs/event", 3),
                FigureColumn::less("lost and in no count", "datagrams", 0),
            ],
            rows: vec![],
            lines: vec![],
            axes: Some(Axes {
                x: "datagrams a second (rightmost: as fast as it goes)",
                y: "% lost",
            }),
        },
        loads: loads.collect(),
        contenders: vec![
            Contender::ours("", include_str!("../../../inrush/udp-blackhole.yaml")),
            Contender::syslog_ng(
                "default",
                include_str!("../../../peers/syslog-ng-udp-default.conf"),
            ),
            Contender::syslog_ng("tuned", include_str!("../../../peers/syslog-ng-udp.conf")),
            Contender::rsyslog(
                "default",
                include_str!("../../../peers/rsyslog-udp-default.conf"),
            ),
            Contender::rsyslog("tuned", include_str!("../../../peers/rsyslog-udp.conf")),
        ],
        once,
        lines,
    }
}

fn once(
    bench: &TableBench<'_>,
    who: &Contender,
    load: &NamedLoad,
) -> anyhow::Result<RunMeasurement> {
    let run = bench.measure(who, load)?;
    let lost = run.sent.saturating_sub(run.delivered) as f64 / run.sent.max(1) as f64;
    Ok(RunMeasurement {
        values: vec![
            Some(lost * 100.0),
            Some(run.offered_rate),
            Some(run.us_per_event),
            Some(run.unaccounted as f64),
        ],
        wrong: run.wrong,
        points: Vec::new(),
    })
}

/// A chart for each number of senders, a line for each contender.
fn lines(plan: &TablePlan, rows: &[FigureRow], _: &[Points]) -> Vec<ChartSeries> {
    let mut lines = Vec::new();
    for senders in SENDERS {
        for who in &plan.contenders {
            let points = RATES.iter().filter_map(|rate| {
                let at = if *rate == 0 {
                    UNBOUNDED_AT
                } else {
                    *rate as f64
                };
                let load = name(senders, *rate);
                let mut rows = rows.iter();
                let row = rows.find(|row| row.load == load && row.subject == who.name())?;
                Some((at, row.values[0]?))
            });
            lines.push(ChartSeries {
                chart: match senders {
                    1 => "1 sender".to_owned(),
                    n => format!("{n} senders"),
                },
                subject: who.name(),
                points: points.collect(),
            });
        }
    }
    lines
}
