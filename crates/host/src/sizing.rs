//! The hosts, cores, memory and disk for a load: arithmetic in whole numbers, each line with its
//! formula, so that an engineer can check it.
//!
//! Everything is rounded up. Each factor is bounded (see [`size`]), and what still does not fit
//! into 64 bits is an error, never a small number.

use serde::Serialize;

use crate::rate::grouped;

/// Seconds of an hour.
const HOUR_SECONDS: u64 = 3600;

/// Hours of a day.
const DAY_HOURS: u64 = 24;

/// Bytes that the queue's log keeps of an event beside its own: a row with a class
/// (docs/specs/queue.md, "Payload").
pub const QUEUE_ROW_BYTES: u64 = 96;

/// Bytes that a HEC event has beside its text: time, host, source, sourcetype, index and fields.
pub const ENVELOPE_BYTES: u64 = 250;

/// Files of the store for 100 bytes of events: 52.6 bytes were measured for a mixed event of 300
/// (`store` in bench/RESULTS.md).
pub const STORED_PERCENT_DEFAULT: u64 = 18;

/// Memory of the process without queue and store: 44 MiB were measured with all packs.
const PROCESS_BYTES: u64 = 128 << 20;

/// Memory of the store and of searches: the process had 978 MiB at most beside four searches
/// (`search` in bench/RESULTS.md), queue and all.
const STORE_MEMORY_BYTES: u64 = 768 << 20;

/// Rates, bytes and numbers of everything else lie below this: a trillion.
const FACTOR_MAX: u64 = 1_000_000_000_000;

/// The load that hosts are sized for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SizingLoad {
    /// Events a second at the peak.
    pub events_per_second: u64,
    /// Bytes of an event.
    pub event_bytes: u64,
    /// Days that the store keeps; 0 is no store.
    pub retention_days: u64,
    /// Destinations that take every event over the network or to files, the store not counted.
    pub destinations: u64,
    /// Hours that every destination may be away without loss.
    pub outage_hours: u64,
    /// Part of a host that stays free at the peak, in percent.
    pub headroom_percent: u64,
    /// Hosts that may be away at the peak.
    pub spare_hosts: u64,
    /// Bytes of the store's files for 100 bytes of events.
    pub stored_percent: u64,
}

/// One host.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct HostRate {
    /// Events a second that it takes.
    pub events_per_second: u64,
    /// Bytes of an event with which that holds.
    pub event_bytes: u64,
    /// Its cores.
    pub cores: u64,
    /// Memory that its queue may take, in bytes.
    pub queue_memory_bytes: u64,
    /// Disk that its quarantine may take, in bytes.
    pub quarantine_bytes: u64,
    /// Memory that the receive buffers of its UDP sockets may take, in bytes.
    pub receive_buffer_bytes: u64,
}

/// One result.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SizingFigure {
    /// The same in every release.
    pub id: &'static str,
    /// The value, in [`Self::unit`].
    pub value: u64,
    /// Of what.
    pub unit: &'static str,
    /// Formula of the value, with the numbers in it.
    pub formula: String,
}

/// Reason that a load cannot be sized.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SizingError {
    /// A number is not one that can be: what, how much, and what may be.
    Absurd {
        /// Name of the number: an option such as `--eps`, or what follows from several.
        what: &'static str,
        /// The value that it has.
        value: u64,
        /// The least that may be.
        least: u64,
        /// The most that may be.
        most: u64,
    },
    /// A result has more than 64 bits: which.
    TooMuch(&'static str),
}

impl std::fmt::Display for SizingError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Absurd {
                what,
                value,
                least,
                most,
            } => write!(f, "{what} {value}: use {least} to {most}"),
            Self::TooMuch(what) => write!(
                f,
                "{what} comes to more than {}; look for a digit too many",
                u64::MAX
            ),
        }
    }
}

impl std::error::Error for SizingError {}

/// The hosts for a load, in lines.
///
/// # Errors
/// A number that cannot be meant, or a result of more than 64 bits.
pub fn size(load: &SizingLoad, host: &HostRate) -> Result<Vec<SizingFigure>, SizingError> {
    check(load, host)?;
    let mut lines = Vec::new();
    let usable = usable(load, host, &mut lines)?;
    let hosts = hosts(load, host, usable, &mut lines)?;
    let share = share(load, hosts, &mut lines);
    memory(load, host, &mut lines)?;
    let queue = queue(load, share, &mut lines)?;
    let store = store(load, share, &mut lines)?;
    let disk = queue.checked_add(store);
    let disk = disk.and_then(|disk| disk.checked_add(host.quarantine_bytes));
    let disk = disk.ok_or(SizingError::TooMuch("the disk of a host"))?;
    // A tenth more: file systems slow down when they are full, and the queue leaves some free.
    let disk_value = percent(disk, 110, "the disk of a host")?;
    lines.push(SizingFigure {
        id: "disk_bytes_per_host",
        value: disk_value,
        unit: "B",
        formula: format!(
            "({} B of queue + {} B of queue.quarantine_bytes + {} B of store) × 1.1 for what a \
             file system needs",
            grouped(queue),
            grouped(host.quarantine_bytes),
            grouped(store)
        ),
    });
    network(load, share, &mut lines)?;
    Ok(lines)
}

fn check(load: &SizingLoad, host: &HostRate) -> Result<(), SizingError> {
    let within = |what, value, least, most| {
        if (least..=most).contains(&value) {
            return Ok(());
        }
        Err(SizingError::Absurd {
            what,
            value,
            least,
            most,
        })
    };
    within("--eps", load.events_per_second, 1, FACTOR_MAX)?;
    within("--size", load.event_bytes, 1, 64 << 20)?;
    within("--retention", load.retention_days, 0, 36_500)?;
    within("--destinations", load.destinations, 0, 1000)?;
    within("--outage", load.outage_hours, 0, 8784)?;
    within("--headroom", load.headroom_percent, 0, 95)?;
    within("--spare", load.spare_hosts, 0, 10_000)?;
    within("--stored-percent", load.stored_percent, 1, 1000)?;
    within("--safe-rate", host.events_per_second, 1, FACTOR_MAX)?;
    within("--safe-rate-size", host.event_bytes, 1, 64 << 20)?;
    within("--cores", host.cores, 1, 65_536)
}

/// Events a second of this size that a host may get at the peak.
fn usable(
    load: &SizingLoad,
    host: &HostRate,
    lines: &mut Vec<SizingFigure>,
) -> Result<u64, SizingError> {
    let what = "the rate of a host";
    let (rate, measured, size) = (host.events_per_second, host.event_bytes, load.event_bytes);
    let (at_size, formula) = if size > measured {
        let scaled = mul(rate, measured, what)? / size;
        let formula = format!(
            "{}/s × {measured} B ÷ {size} B: what was measured with smaller events, taken by bytes",
            grouped(rate)
        );
        (scaled, formula)
    } else if size < measured {
        let formula = format!(
            "{}/s, as with {measured} B: smaller events are not taken to be cheaper",
            grouped(rate)
        );
        (rate, formula)
    } else {
        (
            rate,
            format!("{}/s, with events of this size", grouped(rate)),
        )
    };
    lines.push(SizingFigure {
        id: "safe_events_per_second_per_host",
        value: at_size,
        unit: "events/s",
        formula,
    });
    let left = 100 - load.headroom_percent;
    let usable = at_size.saturating_mul(left) / 100;
    lines.push(SizingFigure {
        id: "usable_events_per_second_per_host",
        value: usable,
        unit: "events/s",
        formula: format!(
            "{}/s × (1 − {} % headroom)",
            grouped(at_size),
            load.headroom_percent
        ),
    });
    if usable == 0 {
        return Err(SizingError::Absurd {
            what: "a host's share of --safe-rate at --size with --headroom, in events a second,",
            value: 0,
            least: 1,
            most: FACTOR_MAX,
        });
    }
    Ok(usable)
}

/// Hosts that share the load, the spare ones not among them.
fn hosts(
    load: &SizingLoad,
    host: &HostRate,
    usable: u64,
    lines: &mut Vec<SizingFigure>,
) -> Result<u64, SizingError> {
    let eps = load.events_per_second;
    let needed = eps.div_ceil(usable);
    lines.push(SizingFigure {
        id: "hosts",
        value: needed + load.spare_hosts,
        unit: "hosts",
        formula: format!(
            "{}/s ÷ {}/s, rounded up, + {} that may be away",
            grouped(eps),
            grouped(usable),
            load.spare_hosts
        ),
    });
    let cores = mul(host.cores, eps, "the cores")?.div_ceil(usable);
    lines.push(SizingFigure {
        id: "cores",
        value: cores,
        unit: "cores",
        formula: format!(
            "{}/s × {} cores ÷ {}/s, as if a host of another size could be had; the spare not in it",
            grouped(eps),
            host.cores,
            grouped(usable)
        ),
    });
    Ok(needed)
}

/// Events a second of one host, at the peak, with every spare one away.
fn share(load: &SizingLoad, hosts: u64, lines: &mut Vec<SizingFigure>) -> u64 {
    let share = load.events_per_second.div_ceil(hosts);
    lines.push(SizingFigure {
        id: "events_per_second_per_host",
        value: share,
        unit: "events/s",
        formula: format!(
            "{}/s ÷ {hosts} hosts, with every spare one away",
            grouped(load.events_per_second)
        ),
    });
    share
}

fn memory(
    load: &SizingLoad,
    host: &HostRate,
    lines: &mut Vec<SizingFigure>,
) -> Result<(), SizingError> {
    let store = if load.retention_days > 0 {
        STORE_MEMORY_BYTES
    } else {
        0
    };
    let (queue, receive) = (host.queue_memory_bytes, host.receive_buffer_bytes);
    let sum = [PROCESS_BYTES, store, queue, receive]
        .into_iter()
        .try_fold(0_u64, u64::checked_add);
    let what = "the memory of a host";
    let sum = sum.ok_or(SizingError::TooMuch(what))?;
    // As much again for the page cache, which reads of a backlog and searches live on.
    let value = percent(sum, 200, what)?;
    lines.push(SizingFigure {
        id: "memory_bytes_per_host",
        value,
        unit: "B",
        formula: format!(
            "({} MiB process + {} MiB queue.memory_bytes + {} MiB store + {} MiB UDP receive \
             buffers) × 2, for the page cache",
            PROCESS_BYTES >> 20,
            queue >> 20,
            store >> 20,
            receive >> 20
        ),
    });
    Ok(())
}

/// Bytes of the queue on a host.
fn queue(load: &SizingLoad, share: u64, lines: &mut Vec<SizingFigure>) -> Result<u64, SizingError> {
    let what = "the queue of a host";
    let seconds = load.outage_hours * HOUR_SECONDS;
    let value = mul(share, seconds, what)?;
    let value = mul(value, load.event_bytes + QUEUE_ROW_BYTES, what)?;
    lines.push(SizingFigure {
        id: "queue_bytes_per_host",
        value,
        unit: "B",
        formula: format!(
            "{}/s × {} h × 3600 s × ({} + {QUEUE_ROW_BYTES}) B: one log, however many destinations \
             are away; set queue.max_bytes to it",
            grouped(share),
            load.outage_hours,
            load.event_bytes
        ),
    });
    Ok(value)
}

/// Bytes of the store on a host.
fn store(load: &SizingLoad, share: u64, lines: &mut Vec<SizingFigure>) -> Result<u64, SizingError> {
    let what = "the store of a host";
    let seconds = load.retention_days * DAY_HOURS * HOUR_SECONDS;
    let raw = mul(mul(share, seconds, what)?, load.event_bytes, what)?;
    let value = percent(raw, load.stored_percent, what)?;
    let formula = if load.retention_days == 0 {
        "--retention 0: no store".to_owned()
    } else {
        format!(
            "{}/s × {} d × 86,400 s × {} B × {} %, as if the peak lasted all day",
            grouped(share),
            load.retention_days,
            load.event_bytes,
            load.stored_percent
        )
    };
    lines.push(SizingFigure {
        id: "store_bytes_per_host",
        value,
        unit: "B",
        formula,
    });
    Ok(value)
}

fn network(
    load: &SizingLoad,
    share: u64,
    lines: &mut Vec<SizingFigure>,
) -> Result<(), SizingError> {
    let what = "the network of a host";
    let in_bits = mul(mul(share, load.event_bytes, what)?, 8, what)?;
    lines.push(SizingFigure {
        id: "network_in_bits_per_second_per_host",
        value: in_bits,
        unit: "bit/s",
        formula: format!("{}/s × {} B × 8", grouped(share), load.event_bytes),
    });
    let out = mul(share, load.event_bytes + ENVELOPE_BYTES, what)?;
    let out_bits = mul(mul(out, 8, what)?, load.destinations, what)?;
    lines.push(SizingFigure {
        id: "network_out_bits_per_second_per_host",
        value: out_bits,
        unit: "bit/s",
        formula: format!(
            "{}/s × ({} + {ENVELOPE_BYTES}) B × 8 × {} destinations, without compression",
            grouped(share),
            load.event_bytes,
            load.destinations
        ),
    });
    Ok(())
}

fn mul(one: u64, other: u64, what: &'static str) -> Result<u64, SizingError> {
    one.checked_mul(other).ok_or(SizingError::TooMuch(what))
}

/// So many percent of it, rounded up.
fn percent(value: u64, percent: u64, what: &'static str) -> Result<u64, SizingError> {
    let product = u128::from(value) * u128::from(percent);
    u64::try_from(product.div_ceil(100)).map_err(|_| SizingError::TooMuch(what))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn load() -> SizingLoad {
        SizingLoad {
            events_per_second: 1_000_000,
            event_bytes: 800,
            retention_days: 30,
            destinations: 2,
            outage_hours: 4,
            headroom_percent: 40,
            spare_hosts: 1,
            stored_percent: 18,
        }
    }

    fn host() -> HostRate {
        HostRate {
            events_per_second: 400_000,
            event_bytes: 800,
            cores: 16,
            queue_memory_bytes: 128 << 20,
            quarantine_bytes: 1_000_000_000,
            receive_buffer_bytes: 1 << 30,
        }
    }

    fn value(load: &SizingLoad, host: &HostRate, id: &str) -> u64 {
        let lines = size(load, host).unwrap();
        lines.iter().find(|line| line.id == id).unwrap().value
    }

    #[test]
    fn each_line_is_its_formula() {
        for (id, wanted) in [
            ("safe_events_per_second_per_host", 400_000),
            ("usable_events_per_second_per_host", 240_000),
            ("hosts", 6),
            ("cores", 67),
            ("events_per_second_per_host", 200_000),
            (
                "memory_bytes_per_host",
                ((128 + 128 + 768 + 1024) * 2) << 20,
            ),
            ("queue_bytes_per_host", 200_000 * 4 * 3600 * 896),
            (
                "store_bytes_per_host",
                200_000 * 30 * 86_400 * 800 / 100 * 18,
            ),
            ("disk_bytes_per_host", 84_954_188_000_000),
            ("network_in_bits_per_second_per_host", 1_280_000_000),
            ("network_out_bits_per_second_per_host", 3_360_000_000),
        ] {
            assert_eq!(value(&load(), &host(), id), wanted, "{id}");
        }
    }

    #[test]
    fn larger_events_are_taken_by_bytes_and_smaller_ones_are_not_cheaper() {
        let mut load = load();
        load.event_bytes = 1600;
        assert_eq!(
            value(&load, &host(), "safe_events_per_second_per_host"),
            200_000
        );
        load.event_bytes = 200;
        assert_eq!(
            value(&load, &host(), "safe_events_per_second_per_host"),
            400_000
        );
    }

    #[test]
    fn without_retention_there_is_no_store_and_without_outage_no_queue() {
        let none = SizingLoad {
            retention_days: 0,
            outage_hours: 0,
            spare_hosts: 0,
            ..load()
        };
        // What a destination refuses may take its part all the same.
        assert_eq!(value(&none, &host(), "disk_bytes_per_host"), 1_100_000_000);
        assert_eq!(value(&none, &host(), "hosts"), 5);
        assert_eq!(
            value(&none, &host(), "memory_bytes_per_host"),
            ((128 + 128 + 1024) * 2) << 20
        );
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_what_may_be() {
        let refused = |change: fn(&mut SizingLoad, &mut HostRate)| {
            let (mut load, mut host) = (load(), host());
            change(&mut load, &mut host);
            size(&load, &host).unwrap_err().to_string()
        };
        for (said, begins) in [
            (refused(|l, _| l.events_per_second = 0), "--eps 0: use 1 to"),
            (
                refused(|l, _| l.event_bytes = 0),
                "--size 0: use 1 to 67108864",
            ),
            (refused(|l, _| l.event_bytes = u64::MAX), "--size 18446744"),
            (
                refused(|l, _| l.headroom_percent = 96),
                "--headroom 96: use 0 to 95",
            ),
            (
                refused(|l, _| l.retention_days = 99_999),
                "--retention 99999: use",
            ),
            (
                refused(|l, _| l.stored_percent = 0),
                "--stored-percent 0: use 1",
            ),
            (
                refused(|_, h| h.events_per_second = 0),
                "--safe-rate 0: use 1",
            ),
            (refused(|_, h| h.cores = 0), "--cores 0: use 1"),
            (
                refused(|l, h| (l.event_bytes, h.events_per_second) = (64 << 20, 1)),
                "a host's share of --safe-rate",
            ),
            (
                refused(|l, h| {
                    (l.events_per_second, h.events_per_second) = (FACTOR_MAX, FACTOR_MAX);
                    l.event_bytes = 64 << 20;
                    h.event_bytes = 64 << 20;
                }),
                "the queue of a host comes to more than",
            ),
        ] {
            assert!(said.starts_with(begins), "{said}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_asked_there_are_hosts_enough_or_an_error(
            numbers in prop::array::uniform8(any::<u64>()),
            rate in any::<u64>(),
            small in any::<bool>(),
        ) {
            let cut = |value: u64, most: u64| if small { value % most + 1 } else { value };
            let [eps, bytes, days, destinations, hours, headroom, spare, stored] = numbers;
            let load = SizingLoad {
                events_per_second: cut(eps, 10_000_000),
                event_bytes: cut(bytes, 65_536),
                retention_days: cut(days, 3650),
                destinations: cut(destinations, 10),
                outage_hours: cut(hours, 240),
                headroom_percent: cut(headroom, 90),
                spare_hosts: cut(spare, 10),
                stored_percent: cut(stored, 100),
            };
            let host = HostRate { events_per_second: cut(rate, 1_000_000), ..host() };
            if let Ok(lines) = size(&load, &host) {
                let of = |id| lines.iter().find(|line| line.id == id).unwrap().value;
                let usable = of("usable_events_per_second_per_host");
                let hosts = of("hosts") - load.spare_hosts;
                prop_assert!(hosts * usable >= load.events_per_second);
                prop_assert!((hosts - 1) * usable < load.events_per_second);
                prop_assert!(of("events_per_second_per_host") <= usable);
            }
        }
    }
}
