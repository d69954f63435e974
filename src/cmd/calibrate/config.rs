//! Changes of a configuration while the rate is measured, and only these:
//!
//! | in the configuration | while it is measured |
//! |---|---|
//! | sources | one, on one free port of 127.0.0.1, without PROXY headers and client certificates |
//! | `data_dir` | a folder of its own on the same file system |
//! | `splunk_hec` | sends to our own collector; https where any endpoint has it; no proxy |
//! | `store` | in that folder, also where it is a bucket; written at least once a second |
//! | `file`, `stdout` | files in that folder |
//! | `queue.max_bytes`, `when_full` | at most 512 MiB; sources wait |
//! | `hosts.reverse_dns` | off |
//! | `shutdown_timeout` | as short as can be |

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use anyhow::bail;
use inrush_config::{Config, HostsOptions, PacksOptions, SyslogSource};
use inrush_event::{ByteSize, Period, Protocol, Secret};
use inrush_queue::WhenFull;
use inrush_sink::SinkConfig;
use inrush_sink::file::FileConfig;
use inrush_sink::splunk_hec::{HecTlsConfig, SplunkHecConfig};
use inrush_sink::store::S3Config;
use inrush_transport::config::{ClientAuth, ListenAddr, ProxyProtocol};

/// Disk of the queue: seconds of what a fast host takes, so that a destination that is slower than
/// the rest soon sets the pace.
const QUEUE_BYTES_MAX: u64 = 512 << 20;

/// Shutdown timeout while the rate is measured: what is left to destinations at the end is not
/// waited for.
const SHUTDOWN: Period = Period(Duration::from_millis(100));

/// Source and protocol that the load goes to.
pub(super) struct DrivenSource {
    pub(super) source: String,
    pub(super) protocol: Protocol,
}

/// Folder and addresses that everything goes to instead.
pub(super) struct CalibrationSandbox<'a> {
    pub(super) folder: &'a Path,
    /// Our own collector.
    pub(super) http: SocketAddr,
    /// The same under TLS.
    pub(super) https: SocketAddr,
}

/// The first source with the transport that is driven best: TCP, else TLS, RELP, UDP.
pub(super) fn driven(config: &Config) -> anyhow::Result<DrivenSource> {
    const PREFERRED: [Protocol; 5] = [
        Protocol::Tcp,
        Protocol::Tls,
        Protocol::Relp,
        Protocol::Relps,
        Protocol::Udp,
    ];
    for protocol in PREFERRED {
        for (name, source) in &config.sources {
            let mut listen = source.options().listen().into_iter();
            if listen.any(|addr| addr.protocol == protocol) {
                return Ok(DrivenSource {
                    source: name.clone(),
                    protocol,
                });
            }
        }
    }
    bail!("no source of this configuration listens on anything that a load can be sent to")
}

/// True if anything but reading headers is done with events before they are kept.
pub(super) fn recognises(config: &Config) -> bool {
    config.packs.enabled
        || !config.transforms.is_empty()
        || !config.routes.is_empty()
        || config.hosts.remember_names
}

/// The configuration without that.
pub(super) fn bare(mut config: Config) -> Config {
    config.packs = PacksOptions {
        enabled: false,
        ..PacksOptions::default()
    };
    config.transforms.clear();
    config.routes.clear();
    config.hosts = HostsOptions::default();
    config
}

/// The configuration with everything that leads outside turned to ourselves; `run` names the data
/// directory.
pub(super) fn prepared(
    config: &Config,
    driven: &DrivenSource,
    place: &CalibrationSandbox<'_>,
    run: &str,
) -> Config {
    let mut config = config.clone();
    config.data_dir = place.folder.join(run);
    config.sources.retain(|name, _| *name == driven.source);
    for source in config.sources.values_mut() {
        if let Some(syslog) = source.as_syslog_mut() {
            loopback(syslog, driven.protocol);
        }
    }
    let files = config.data_dir.join("files");
    for (name, destination) in &mut config.destinations {
        inwards(destination, name, &files, place);
    }
    config.queue.max_bytes = Some(ByteSize(config.queue.disk_bytes().min(QUEUE_BYTES_MAX)));
    config.queue.when_full = WhenFull::Block;
    config.hosts.reverse_dns.enabled = false;
    config.shutdown_timeout = SHUTDOWN;
    config
}

fn loopback(syslog: &mut SyslogSource, protocol: Protocol) {
    syslog.listen = vec![ListenAddr {
        protocol,
        addr: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
    }];
    syslog.stream.proxy_protocol = ProxyProtocol::None;
    match protocol {
        Protocol::Tls | Protocol::Relps => {
            if let Some(tls) = &mut syslog.tls {
                tls.client_ca_file = None;
                tls.client_auth = Some(ClientAuth::None);
            }
        }
        // Its files need not be readable for us.
        _ => syslog.tls = None,
    }
}

fn inwards(destination: &mut SinkConfig, name: &str, files: &Path, place: &CalibrationSandbox<'_>) {
    match destination {
        SinkConfig::Blackhole(_) => {}
        SinkConfig::File(file) => {
            file.path = below(&files.join(name), Path::new(&file.path));
        }
        SinkConfig::Stdout(_) => {
            let path = below(&files.join(name), Path::new("stdout.json"));
            *destination = SinkConfig::File(FileConfig::new(path));
        }
        SinkConfig::SplunkHec(hec) => collected(hec, place),
        SinkConfig::Store(store) => {
            store.path = format!("store-{}", plain(name));
            store.s3 = S3Config::default();
            let second = Duration::from_secs(1);
            store.flush_after = Period(store.flush_after.0.min(second));
        }
    }
}

fn collected(hec: &mut SplunkHecConfig, place: &CalibrationSandbox<'_>) {
    let is_https = |url: &String| url.to_ascii_lowercase().starts_with("https:");
    let endpoint = if hec.endpoints.iter().any(is_https) {
        format!("https://{}", place.https)
    } else {
        format!("http://{}", place.http)
    };
    // As many as there were, for each has connections and a channel of its own.
    hec.endpoints.fill(endpoint);
    hec.token = Secret::new("calibration");
    hec.proxy = None;
    hec.tls = HecTlsConfig {
        verify: false,
        ..HecTlsConfig::default()
    };
}

/// A path of files, with its placeholders, in another folder.
fn below(folder: &Path, path: &Path) -> String {
    let parts = path.components();
    let parts = parts.filter(|part| matches!(part, Component::Normal(_)));
    let path: PathBuf = parts.collect();
    format!("{}/{}", folder.display(), path.display())
}

/// A name that is one folder.
fn plain(name: &str) -> String {
    let one = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    name.chars().map(one).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const YAML: &str = r#"
data_dir: /var/lib/inrush
sources:
  first: { type: syslog, listen: [udp://0.0.0.0:514] }
  second:
    type: syslog
    listen: [udp://0.0.0.0:5514, tcp://10.1.2.3:5514]
    stream: { proxy_protocol: required }
destinations:
  splunk:
    type: splunk_hec
    endpoints: [https://idx1:8088, http://idx2:8088]
    token: real
    proxy: http://proxy:3128
    tls: { ca_file: /etc/ca.pem }
  bucket:
    type: store
    path: s3://bucket/logs
    s3: { endpoint: https://s3.example, access_key_id: a, secret_access_key: real }
  tape: { type: file, path: "/archive/{index}/{host}.log" }
  out: { type: stdout }
hosts: { reverse_dns: { enabled: true, servers: ["10.0.0.53:53"] } }
queue: { when_full: drop_oldest, max_bytes: 100GiB }
"#;

    fn made() -> Config {
        let config = inrush_config::parse(YAML, "test", &|_| None).unwrap();
        let place = CalibrationSandbox {
            folder: Path::new("/tmp/x"),
            http: SocketAddr::from((Ipv4Addr::LOCALHOST, 1)),
            https: SocketAddr::from((Ipv4Addr::LOCALHOST, 2)),
        };
        prepared(&config, &driven(&config).unwrap(), &place, "all")
    }

    #[test]
    fn nothing_of_it_leads_outside() {
        let made = made();
        let text = format!("{made:?}");
        for outside in [
            "idx1",
            "idx2",
            "proxy:3128",
            "/etc/ca.pem",
            "s3.example",
            "s3://",
            "10.1.2.3",
            "0.0.0.0",
            "/var/lib",
            "\"/archive",
            "real",
        ] {
            assert!(!text.contains(outside), "{outside} in {text}");
        }
        let SinkConfig::SplunkHec(hec) = &made.destinations["splunk"] else {
            panic!("{text}");
        };
        assert_eq!(hec.endpoints, ["https://127.0.0.1:2"; 2]);
        assert_eq!((hec.token.expose(), &hec.proxy), ("calibration", &None));
        let SinkConfig::Store(store) = &made.destinations["bucket"] else {
            panic!("{text}");
        };
        assert!(!store.is_remote() && store.s3 == S3Config::default());
        let SinkConfig::File(tape) = &made.destinations["tape"] else {
            panic!("{text}");
        };
        assert_eq!(
            tape.path,
            "/tmp/x/all/files/tape/archive/{index}/{host}.log"
        );
        assert!(matches!(made.destinations["out"], SinkConfig::File(_)));
        assert!(!made.hosts.reverse_dns.enabled);
    }

    #[test]
    fn the_source_that_is_driven_is_the_one_with_tcp() {
        let made = made();
        assert_eq!(made.sources.keys().collect::<Vec<_>>(), ["second"]);
        let syslog = made.sources["second"].as_syslog().unwrap();
        assert_eq!(format!("{:?}", syslog.listen), "[tcp://127.0.0.1:0]");
        assert_eq!(syslog.stream.proxy_protocol, ProxyProtocol::None);
    }

    #[test]
    fn the_queue_is_small_and_drops_nothing() {
        let made = made();
        assert_eq!(made.queue.disk_bytes(), QUEUE_BYTES_MAX);
        assert_eq!(made.queue.when_full, WhenFull::Block);
        assert!(!recognises(&bare(made)));
    }
}
