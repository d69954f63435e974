//! One connection on one core and on all.

use super::contenders::Contender;
use super::{ProductTable, TablePlan, bars, connections};

const PACKS: &str = include_str!("../../../inrush/tcp-packs.yaml");
const PARALLEL: &str = include_str!("../../../peers/syslog-ng-tcp-parallelize.conf");

pub(super) fn plan() -> TablePlan {
    let with = |workers: &str| PACKS.replace("@WORKERS@", workers);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    TablePlan {
        table: ProductTable {
            name: String::new(),
            shows: "One TCP connection, events of 800 B, with one worker and with all cores",
            published: "SC4S 3 (its guide to TCP): 14,144/s without parallelize, 77,842/s with it.",
            notes: vec![
                "Inrush recognises each event by all of its packs, as SC4S does; the others parse \
                 and throw away. `workers: auto`, its default, has the other cores help when one \
                 is busy and they are not, and keeps the order; parallelize does not keep it. \
                 syslog-ng has parallelize from 4.3 on."
                    .to_owned(),
            ],
            columns: connections::columns(),
            rows: vec![],
            lines: vec![],
            axes: None,
        },
        loads: vec![connections::load(1)],
        contenders: vec![
            Contender::ours("workers: 1", &with("1")),
            Contender::ours("workers: auto", &with("auto")),
            Contender::syslog_ng("tuned", include_str!("../../../peers/syslog-ng-tcp.conf")),
            Contender::syslog_ng(
                "parallelize",
                &PARALLEL.replace("@CORES@", &cores.to_string()),
            ),
            Contender::rsyslog("tuned", include_str!("../../../peers/rsyslog-rfc5424.conf")),
        ],
        once: connections::throughput,
        lines: bars,
    }
}
