//! The Splunk collectors of all destinations, asked for the doctor and for `inrush check --connect`
//! without sending an event.

use std::time::Duration;

use inrush_config::Config;
use inrush_host::doctor::{
    CertificateFile, CollectorEndpoint, CollectorReachability, CollectorResponse,
};
use inrush_sink::SinkConfig;
use inrush_sink::splunk_hec::{self, EndpointProbe, ProbeAnswer, Reach, SplunkHecConfig};
use inrush_transport::tls::Validity;

use super::certificates::dates;

/// Timeout of each of three steps: the name, the health, the token.
const STEP: Duration = Duration::from_secs(3);

/// Findings about the collectors.
#[derive(Default)]
pub(in crate::cmd) struct CollectorFindings {
    pub(in crate::cmd) collectors: Vec<CollectorEndpoint>,
    /// The certificates that they showed.
    pub(in crate::cmd) certificates: Vec<CertificateFile>,
}

/// Asks them all, side by side; it takes at most three steps and one for each index.
pub(in crate::cmd) fn ask(config: &Config) -> CollectorFindings {
    let mut destinations: Vec<(&str, (&SplunkHecConfig, Vec<String>))> = Vec::new();
    for (name, destination) in &config.destinations {
        if let SinkConfig::SplunkHec(hec) = destination {
            destinations.push((name, (hec, indexes(config, hec))));
        }
    }
    let (names, asked): (Vec<&str>, Vec<_>) = destinations.into_iter().unzip();
    if asked.is_empty() {
        return CollectorFindings::default();
    }
    let mut all = CollectorFindings::default();
    // Without an event loop there is nothing to say of collectors; the process has none either.
    let probes = splunk_hec::probe(&asked, STEP).unwrap_or_default();
    for (name, probes) in names.into_iter().zip(probes) {
        for probe in probes {
            all.certificates.extend(shown(name, &probe));
            all.collectors.push(collector(name, probe));
        }
    }
    all
}

/// The indexes that the configuration names itself.
fn indexes(config: &Config, hec: &SplunkHecConfig) -> Vec<String> {
    let sources = config.sources.values();
    let of_sources = sources.map(|source| source.options().index().to_owned());
    let of_packs = config
        .packs
        .metadata
        .values()
        .filter_map(|set| set.index.clone());
    let named = of_sources.chain(of_packs).chain(hec.reroute_index.clone());
    let mut indexes: Vec<String> = named.collect();
    indexes.sort_unstable();
    indexes.dedup();
    indexes
}

fn collector(destination: &str, probe: EndpointProbe) -> CollectorEndpoint {
    CollectorEndpoint {
        destination: destination.to_owned(),
        authority: authority(&probe.endpoint).to_owned(),
        endpoint: probe.endpoint,
        way: probe
            .proxy
            .map_or_else(String::new, |host| format!(" through the proxy {host}")),
        reached: match probe.reach {
            Reach::Unusable(why) => CollectorReachability::NotTried(why),
            Reach::NoName(why) => CollectorReachability::NoName(why),
            Reach::NoConnection(why) => CollectorReachability::NoConnection(why),
            Reach::NoTls(why) => CollectorReachability::NoTls(why),
            Reach::NoAnswer(why) => CollectorReachability::NoAnswer(why),
            Reach::Answered {
                health,
                token,
                index,
                ..
            } => CollectorReachability::Answered {
                health: answer(health),
                token: answer(token),
                index,
            },
        },
    }
}

fn answer(said: ProbeAnswer) -> CollectorResponse {
    CollectorResponse {
        status: said.status,
        code: said.code,
        text: said.text,
    }
}

/// The certificate that a collector showed; nothing where TLS failed, which is told by itself.
fn shown(destination: &str, probe: &EndpointProbe) -> Option<CertificateFile> {
    let Reach::Answered { certificate, .. } = &probe.reach else {
        return None;
    };
    let read = Validity::of(certificate.as_ref()?).map_err(|error| error.to_string());
    let authority = authority(&probe.endpoint);
    Some(CertificateFile {
        option: "server",
        owner: format!("destinations.{destination}:{authority}"),
        path: authority.into(),
        authorities: false,
        dates: read.map(|validity| vec![dates(validity)]),
    })
}

/// Host and port of an URL, as far as it names them.
fn authority(endpoint: &str) -> &str {
    let rest = endpoint
        .split_once("://")
        .map_or(endpoint, |(_, rest)| rest);
    rest.split('/').next().unwrap_or(rest)
}
