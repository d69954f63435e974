//! Events a second over TCP, by connections and options.

use super::contenders::Contender;
use super::{
    FigureColumn, NamedLoad, ProductTable, RunMeasurement, TableBench, TablePlan, bars, udp_loss,
};
use crate::sender::Wire;

const CONNECTIONS: [u64; 3] = [1, 10, 100];

/// Throughput, CPU time and memory of one run, as the other tables of streams show them too.
pub(super) fn throughput(
    bench: &TableBench<'_>,
    who: &Contender,
    load: &NamedLoad,
) -> anyhow::Result<RunMeasurement> {
    let run = bench.measure(who, load)?;
    Ok(RunMeasurement {
        values: vec![
            Some(run.delivered as f64 / run.seconds),
            Some(run.us_per_event),
            Some(run.rss_peak_mib),
        ],
        wrong: run.wrong,
        points: Vec::new(),
    })
}

pub(super) fn columns() -> Vec<FigureColumn> {
    vec![
        FigureColumn::more("events", "/s", 0),
        FigureColumn::less("CPU", "µs/event", 3),
        FigureColumn::less("memory", "MiB", 0),
    ]
}

/// So many connections, as fast as they go.
pub(super) fn load(connections: u64) -> NamedLoad {
    NamedLoad {
        name: match connections {
            1 => "1 connection".to_owned(),
            n => format!("{n} connections"),
        },
        shape: udp_loss::shape(Wire::Tcp, connections, 0),
    }
}

pub(super) fn plan() -> TablePlan {
    TablePlan {
        table: ProductTable {
            name: String::new(),
            shows: "Events of 800 B over TCP that are read, parsed and thrown away, by connections",
            published: "SC4S 3 (its guide to TCP): 14,144/s over one connection by default, 77,842/s \
                        with parallelize.",
            notes: vec![
                "All share the machine with the sender. Tuned: syslog-ng with the window and fetch \
                 limit of SC4S, rsyslog with imptcp in place of imtcp. Inrush has no options set."
                    .to_owned(),
            ],
            columns: columns(),
            rows: vec![],
            lines: vec![],
            axes: None,
        },
        loads: CONNECTIONS.map(load).into(),
        contenders: vec![
            Contender::ours("", include_str!("../../../inrush/tcp-blackhole.yaml")),
            Contender::syslog_ng(
                "default",
                include_str!("../../../peers/syslog-ng-tcp-default.conf"),
            ),
            Contender::syslog_ng("tuned", include_str!("../../../peers/syslog-ng-tcp.conf")),
            Contender::rsyslog("default", include_str!("../../../peers/rsyslog-tcp.conf")),
            Contender::rsyslog("tuned", include_str!("../../../peers/rsyslog-rfc5424.conf")),
        ],
        once: throughput,
        lines: bars,
    }
}
