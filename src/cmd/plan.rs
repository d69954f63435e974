//! Sizing command `inrush plan`: hosts, memory and disk for a load, each line with its formula.
//!
//! # What it guarantees
//! * Numbers out of range are refused before the measurement, not after it.
//! * The configuration is changed in memory only. The measurement sends its destinations nothing.
//! * `--safe-rate` takes the place of the measurement.
//! * The result goes to stdout, the notice of the measurement to stderr.
//!
//! # Limits
//! `--destinations` takes numbers up to `MADE_UP_MAX`; `sizing::size` bounds all other numbers.
//! The measurement takes about ten seconds.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use inrush_config::{Config, RouteOptions};
use inrush_event::{Protocol, Secret};
use inrush_host::rate::SafeRate;
use inrush_host::sizing::{self, HostRate, SizingFigure, SizingLoad};
use inrush_host::usable_cpus;
use inrush_sink::SinkConfig;
use inrush_sink::splunk_hec::SplunkHecConfig;
use inrush_sink::store::StoreConfig;
use serde::Serialize;

use super::configuration::ConfigArg;
use super::{UsageError, calibrate};

/// Arguments of `plan`.
#[derive(Args)]
#[command(after_help = "Examples:
  inrush plan --eps 500000 --size 800                         measures this host first: 10 s
  inrush plan --eps 500000 --size 800 --retention 30 --destinations splunk,local -c inrush.yaml
  inrush plan --eps 2000000 --size 600 --safe-rate 400000 --safe-rate-size 800 --cores 16
  inrush plan --eps 500000 --size 800 --json | jq '.lines[] | select(.id == \"hosts\").value'

Each line says how it was found. docs/guides/sizing.md says what to give for each option.")]
pub(crate) struct PlanArgs {
    /// Events a second at the peak, over all senders
    #[arg(long, value_name = "N")]
    eps: u64,
    /// Bytes of an event, in the mean
    #[arg(long, value_name = "BYTES")]
    size: u64,
    /// Days that the store keeps; 0: no store
    #[arg(long, value_name = "DAYS", default_value_t = 0)]
    retention: u64,
    /// Destinations: how many, taken to be `splunk_hec`, or names of the configuration; all of the
    /// configuration if not given. A store is one of them where --retention is given
    #[arg(long, value_name = "N|NAMES")]
    destinations: Option<String>,
    /// Hours that all destinations may be away and nothing is lost
    #[arg(long, value_name = "HOURS", default_value_t = 24)]
    outage: u64,
    /// Part of a host that stays free at the peak, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 40)]
    headroom: u64,
    /// Hosts that may be away at the peak
    #[arg(long, value_name = "N", default_value_t = 1)]
    spare: u64,
    /// Bytes of the store's files for 100 bytes of events
    #[arg(long, value_name = "PERCENT", default_value_t = sizing::STORED_PERCENT_DEFAULT)]
    stored_percent: u64,
    /// Events a second that a host takes, as `inrush doctor` stated it there; measured here if not
    /// given
    #[arg(long, value_name = "N")]
    safe_rate: Option<u64>,
    /// Bytes of an event with which --safe-rate was stated
    #[arg(long, value_name = "BYTES", default_value_t = calibrate::EVENT_BYTES,
        requires = "safe_rate")]
    safe_rate_size: u64,
    /// Cores of the host of --safe-rate; those of this one if not given
    #[arg(long, value_name = "N", requires = "safe_rate")]
    cores: Option<u64>,
    #[command(flatten)]
    config: ConfigArg,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// The document that `--json` prints.
#[derive(Serialize)]
struct PlanDocument<'a> {
    load: &'a SizingLoad,
    host: &'a HostRate,
    /// As measured; absent where it was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    safe_rate: Option<&'a SafeRate>,
    lines: &'a [SizingFigure],
}

/// Measures if nobody says, computes, prints.
pub(crate) fn run(args: &PlanArgs) -> anyhow::Result<ExitCode> {
    let mut config = args.config.load()?;
    let destinations = choose(&mut config, args)?;
    let load = SizingLoad {
        events_per_second: args.eps,
        event_bytes: args.size,
        retention_days: args.retention,
        destinations,
        outage_hours: args.outage,
        headroom_percent: args.headroom,
        spare_hosts: args.spare,
        stored_percent: args.stored_percent,
    };
    // A wrong number should not be told after ten seconds of load.
    let given = args.safe_rate.unwrap_or(u64::from(u32::MAX));
    let mut host = host(&config, args, given);
    sized(&load, &host)?;
    let measured = match args.safe_rate {
        Some(_) => None,
        None => {
            eprintln!("inrush: measuring the safe rate of this host, about 10 s of load");
            Some(calibrate::run(&config, args.size)?)
        }
    };
    if let Some(rate) = &measured {
        host.events_per_second = rate.events_per_second;
    }
    let lines = sized(&load, &host)?;
    let mut out = io::stdout().lock();
    if args.json {
        let plan = PlanDocument {
            load: &load,
            host: &host,
            safe_rate: measured.as_ref(),
            lines: &lines,
        };
        writeln!(out, "{}", serde_json::to_string(&plan)?)?;
    } else {
        print(&mut out, measured.as_ref(), &lines)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn sized(load: &SizingLoad, host: &HostRate) -> anyhow::Result<Vec<SizingFigure>> {
    sizing::size(load, host).map_err(|error| UsageError(format!("plan: {error}")).into())
}

fn host(config: &Config, args: &PlanArgs, events_per_second: u64) -> HostRate {
    // A whole number of CPUs.
    let here = usable_cpus().ceil() as u64;
    let event_bytes = match args.safe_rate {
        Some(_) => args.safe_rate_size,
        None => args.size,
    };
    let cores = args.cores.unwrap_or(here);
    HostRate {
        events_per_second,
        event_bytes,
        cores,
        queue_memory_bytes: config.queue.memory_bytes_max(),
        quarantine_bytes: config.queue.quarantine().0,
        receive_buffer_bytes: receive_buffer_bytes(config, cores),
    }
}

/// Bytes of the receive buffers of all UDP sockets when they are full: the kernel doubles what is
/// asked for (socket(7), `SO_RCVBUF`).
fn receive_buffer_bytes(config: &Config, cores: u64) -> u64 {
    let workers = usize::try_from(cores).unwrap_or(usize::MAX);
    let sources = config.sources.values().map(|source| {
        let source = source.options();
        let addresses = source.listen().into_iter();
        let addresses = addresses.filter(|addr| addr.protocol == Protocol::Udp);
        let udp = source.udp(workers);
        let each = udp.receive_buffer_bytes.saturating_mul(2);
        let address = each.saturating_mul(udp.sockets);
        address.saturating_mul(addresses.count() as u64)
    });
    sources.fold(0, u64::saturating_add)
}

/// Leaves the destinations that were asked for in the configuration, and says how many they are
/// beside stores.
fn choose(config: &mut Config, args: &PlanArgs) -> Result<u64, UsageError> {
    match args.destinations.as_deref() {
        None => {}
        Some(text) => match text.parse::<u64>() {
            Ok(number) => made_up(config, number)?,
            Err(_) => keep(config, text)?,
        },
    }
    let is_store = |one: &SinkConfig| matches!(one, SinkConfig::Store(_));
    let has_store = config.destinations.values().any(is_store);
    if args.retention > 0 && !has_store {
        let store = SinkConfig::Store(StoreConfig::default());
        config.destinations.insert("plan-store".to_owned(), store);
        routed_to_all(config);
    }
    if args.retention == 0 && args.destinations.is_none() {
        // What the configuration keeps is asked for by --retention.
        let others = config.destinations.values().filter(|one| !is_store(one));
        if others.count() > 0 {
            config.destinations.retain(|_, one| !is_store(one));
            drop_routes(config);
        }
    }
    let others = config.destinations.values().filter(|one| !is_store(one));
    Ok(others.count() as u64)
}

/// Destinations that only measure as the usual ones do.
const MADE_UP_MAX: u64 = 64;

fn made_up(config: &mut Config, number: u64) -> Result<(), UsageError> {
    if number > MADE_UP_MAX {
        let text = format!("--destinations {number}: use 0 to {MADE_UP_MAX}, or names");
        return Err(UsageError(text));
    }
    config.destinations.clear();
    config.routes.clear();
    for at in 0..number {
        // Never reached: what is measured goes to our own collector.
        let endpoint = "http://127.0.0.1:8088".to_owned();
        let hec = SplunkHecConfig::new(vec![endpoint], Secret::new("plan"));
        let hec = SinkConfig::SplunkHec(Box::new(hec));
        config.destinations.insert(format!("plan-{at}"), hec);
    }
    if number == 0 {
        let store = SinkConfig::Store(StoreConfig::default());
        config.destinations.insert("plan-store".to_owned(), store);
    }
    Ok(())
}

fn keep(config: &mut Config, names: &str) -> Result<(), UsageError> {
    let names: Vec<&str> = names.split(',').map(str::trim).collect();
    for name in &names {
        if !config.destinations.contains_key(*name) {
            let known: Vec<&str> = config.destinations.keys().map(String::as_str).collect();
            return Err(UsageError(format!(
                "--destinations: the configuration has no `{name}`; it has {}",
                known.join(", ")
            )));
        }
    }
    config
        .destinations
        .retain(|name, _| names.contains(&name.as_str()));
    drop_routes(config);
    Ok(())
}

/// Takes destinations that are no more out of the routes.
fn drop_routes(config: &mut Config) {
    let left = &config.destinations;
    for route in &mut config.routes {
        route.to.retain(|name| left.contains_key(name));
    }
    config.routes.retain(|route| !route.to.is_empty());
}

/// Events that a route sends somewhere go to the store too.
fn routed_to_all(config: &mut Config) {
    let add = |route: &mut RouteOptions| route.to.push("plan-store".to_owned());
    config.routes.iter_mut().for_each(add);
}

fn print(out: &mut impl Write, rate: Option<&SafeRate>, lines: &[SizingFigure]) -> io::Result<()> {
    if let Some(rate) = rate {
        writeln!(out, "this host: {}\n", rate.line())?;
    }
    for line in lines {
        let (name, shown) = (line.id.replace('_', " "), shown(line.value, line.unit));
        writeln!(out, "{name:<40}{shown:>22}\n    = {}", line.formula)?;
    }
    Ok(())
}

/// A number with its unit for the eye: bytes in powers of 1,024, bits in powers of 1,000.
fn shown(value: u64, unit: &str) -> String {
    let (base, prefixes) = match unit {
        "B" => (1024.0, ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]),
        "bit/s" => (1000.0, ["", "k", "M", "G", "T", "P", "E"]),
        _ => return format!("{value} {unit}"),
    };
    let (mut scaled, mut at) = (value as f64, 0);
    while scaled >= base && at + 1 < prefixes.len() {
        (scaled, at) = (scaled / base, at + 1);
    }
    let digits = usize::from(at > 0 && scaled < 100.0);
    format!("{scaled:.digits$} {}{unit}", prefixes[at])
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        args: PlanArgs,
    }

    const YAML: &str = "
sources: { s: { type: syslog, listen: [udp://0.0.0.0:514, tcp://0.0.0.0:514] } }
destinations:
  local: { type: store }
  splunk: { type: splunk_hec, endpoints: [https://idx1:8088], token: t }
  tape: { type: file, path: /a/b }
routes: [{ match: 'severity > 3', to: [splunk, tape] }, { to: [local] }]
";

    fn chosen(words: &str) -> (Result<u64, String>, Config) {
        let mut config = inrush_config::parse(YAML, "test", &|_| None).unwrap();
        let words = format!("plan --eps 1 --size 1 {words}");
        let args = Words::try_parse_from(words.split_whitespace())
            .unwrap()
            .args;
        let chosen = choose(&mut config, &args).map_err(|error| error.to_string());
        (chosen, config)
    }

    fn names(config: &Config) -> Vec<&str> {
        config.destinations.keys().map(String::as_str).collect()
    }

    #[test]
    fn destinations_are_those_asked_for_and_a_store_where_something_is_kept() {
        let (number, config) = chosen("--retention 1");
        assert_eq!(
            (number, names(&config)),
            (Ok(2), vec!["local", "splunk", "tape"])
        );
        let (number, config) = chosen("");
        assert_eq!((number, names(&config)), (Ok(2), vec!["splunk", "tape"]));
        assert_eq!(config.routes.len(), 1);
        let (number, config) = chosen("--destinations splunk --retention 1");
        assert_eq!(
            (number, names(&config)),
            (Ok(1), vec!["splunk", "plan-store"])
        );
        assert_eq!(config.routes[0].to, ["splunk", "plan-store"]);
        let (number, config) = chosen("--destinations 2");
        assert_eq!((number, names(&config)), (Ok(2), vec!["plan-0", "plan-1"]));
        assert!(config.routes.is_empty());
        let (number, config) = chosen("--destinations 0 --retention 1");
        assert_eq!((number, names(&config)), (Ok(0), vec!["plan-store"]));
    }

    #[test]
    fn destinations_that_are_not_there_are_named_with_those_that_are() {
        let said = chosen("--destinations splunk,nope").0.unwrap_err();
        assert!(
            said.contains("no `nope`; it has local, splunk, tape"),
            "{said}"
        );
        let said = chosen("--destinations 65").0.unwrap_err();
        assert!(said.contains("use 0 to 64"), "{said}");
    }

    #[test]
    fn receive_buffers_count_twice_for_each_socket() {
        let config = inrush_config::parse(YAML, "test", &|_| None).unwrap();
        // One socket for every two cores, 64 MiB each.
        assert_eq!(receive_buffer_bytes(&config, 8), 4 * 2 * (64 << 20));
    }

    #[test]
    fn numbers_are_shown_in_units_for_the_eye() {
        assert_eq!(shown(1536, "B"), "1.5 KiB");
        assert_eq!(shown(84_953_088_000_000, "B"), "77.3 TiB");
        assert_eq!(shown(3_360_000_000, "bit/s"), "3.4 Gbit/s");
        assert_eq!(shown(17, "hosts"), "17 hosts");
        assert_eq!(shown(0, "B"), "0 B");
    }
}
