//! Small records: what each costs, and how many go into the next stage at once.

use super::contenders::Contender;
use super::{
    FigureColumn, NamedLoad, ProductTable, RunMeasurement, TableBench, TablePlan, bars, udp_loss,
};
use crate::sender::{LoadShape, Wire};

/// Bytes of a record in Fluent Bit's own measurement.
const SIZE: u64 = 209;

/// A second; what all can take, so that memory and writes compare.
const RATE: u64 = 200_000;

pub(super) fn plan() -> TablePlan {
    let shape = |rate| LoadShape {
        size: SIZE,
        ..udp_loss::shape(Wire::Tcp, 10, rate)
    };
    TablePlan {
        table: ProductTable {
            name: String::new(),
            shows: "Records of 209 B over TCP into a file: cost, memory, and how many are written \
                    at once",
            published: "Fluent Bit: 204,430 records of 209 B a second take 90 % of a core (4.4 \
                        µs/event); batching took the writes into its ring buffer from 4.51 \
                        million to 15,000.",
            notes: vec![
                "The next stage is a file for all, and a write is a call of the kernel's `write`. \
                 Events a second are counted until all is drained; rsyslog tells its count once \
                 a second."
                    .to_owned(),
            ],
            columns: vec![
                FigureColumn::less("CPU", "µs/event", 3),
                FigureColumn::more("events", "/s", 0),
                FigureColumn::less("writes", "per 1,000 events", 2),
                FigureColumn::less("memory", "MiB", 0),
            ],
            rows: vec![],
            lines: vec![],
            axes: None,
        },
        loads: vec![
            NamedLoad {
                name: "10 connections, 200,000/s".to_owned(),
                shape: shape(RATE),
            },
            NamedLoad {
                name: "10 connections, as fast as it goes".to_owned(),
                shape: shape(0),
            },
        ],
        contenders: vec![
            Contender::ours("", include_str!("../../../inrush/tcp-file.yaml")),
            Contender::syslog_ng(
                "tuned",
                include_str!("../../../peers/syslog-ng-tcp-file.conf"),
            ),
            Contender::rsyslog(
                "tuned",
                include_str!("../../../peers/rsyslog-tcp-file.conf"),
            ),
        ],
        once,
        lines: bars,
    }
}

fn once(
    bench: &TableBench<'_>,
    who: &Contender,
    load: &NamedLoad,
) -> anyhow::Result<RunMeasurement> {
    let run = bench.measure(who, load)?;
    let events = run.delivered.max(1) as f64;
    Ok(RunMeasurement {
        values: vec![
            Some(run.us_per_event),
            Some(run.delivered as f64 / run.seconds),
            Some(run.write_calls as f64 * 1000.0 / events),
            Some(run.rss_peak_mib),
        ],
        wrong: run.wrong,
        points: Vec::new(),
    })
}
