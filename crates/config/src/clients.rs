//! Clients that may connect: certificates, their revocation lists, and proxies.

use inrush_transport::config::{ClientAuth, ProxyProtocol, StreamOptions, TlsServerOptions};
use inrush_transport::tls;
use inrush_yaml::{Findings, YamlNode, quoted};

use super::options::Config;
use super::place::place;

/// Client certificates need an authority or fingerprints, and lists of clients need client
/// certificates. `node` has `tls` below it.
pub(super) fn client_certificates(
    tls: &TlsServerOptions,
    node: &YamlNode,
    findings: &mut Findings,
) {
    let at = |option: &str| place(node, &format!("tls.{option}"));
    let none = tls.client_auth() == ClientAuth::None;
    if !none && tls.client_ca_file.is_none() && !tls.names_fingerprints() {
        findings.add(
            at("client_auth"),
            "client certificates need the authority that signs them; add `client_ca_file`",
        );
    }
    if tls.permitted_peers.as_ref().is_some_and(Vec::is_empty) {
        let words = "`permitted_peers` permits nobody; name a client, or leave it out for all";
        findings.add(at("permitted_peers"), words);
    }
    let lists = [
        ("permitted_peers", tls.permitted_peers.is_some()),
        ("crl_files", !tls.crl_files.is_empty()),
    ];
    for (option, _) in lists.iter().filter(|(_, given)| *given && none) {
        let words = "is of no use while no client shows a certificate; add `client_ca_file`";
        findings.add(at(option), format!("`{option}` {words}"));
    }
}

/// Proxies that are trusted need the PROXY protocol, and the other way round.
pub(super) fn proxies(stream: &StreamOptions, node: &YamlNode, findings: &mut Findings) {
    let at = |option: &str| place(node, &format!("stream.{option}"));
    let trusted = stream.trusted_proxies.as_ref();
    if trusted.is_some_and(Vec::is_empty) {
        let words = "`trusted_proxies` trusts nobody; name a proxy, or leave it out";
        findings.add(at("trusted_proxies"), words);
    }
    match (stream.proxy_protocol, trusted) {
        (ProxyProtocol::None, Some(_)) => findings.add(
            at("trusted_proxies"),
            "`trusted_proxies` is of no use without `proxy_protocol: required` or `trusted`",
        ),
        (ProxyProtocol::Trusted, None) => findings.add(
            at("proxy_protocol"),
            "`proxy_protocol: trusted` needs `trusted_proxies`, which says whose headers are believed",
        ),
        _ => {}
    }
}

/// Revocation lists that have expired, so that their authorities' clients are turned away; in
/// words, each with its file. What cannot be read was told of before.
pub fn expired_lists(config: &Config) -> Vec<String> {
    let of_sources = config
        .sources
        .iter()
        .filter_map(|(name, source)| Some((name.as_str(), source.options().tls()?)));
    let of_admin = config.admin.tls.iter().map(|tls| ("admin", tls));
    let mut words = Vec::new();
    for (owner, tls) in of_sources.chain(of_admin) {
        for path in &tls.crl_files {
            let now = jiff::Timestamp::now().as_second();
            let lists = tls::lists(path).unwrap_or_default().into_iter();
            words.extend(lists.filter(|list| list.next_update < now).map(|list| {
                let day = jiff::Timestamp::from_second(list.next_update).unwrap_or_default();
                format!(
                    "`crl_files` of `{owner}`: {}: the list of {} has expired on {}, and all its \
                     clients are turned away; put the authority's newest list in its place",
                    quoted(&path.display().to_string()),
                    list.issuer,
                    day.strftime("%Y-%m-%d"),
                )
            }));
        }
    }
    words
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::tests::{finds, with_source};

    const NOBODY: &str = "`permitted_peers` permits nobody; name a client, or leave it out for all";
    const NO_USE: &str = "is of no use while no client shows a certificate; add `client_ca_file`";
    const NO_PROXY: &str =
        "`trusted_proxies` is of no use without `proxy_protocol: required` or `trusted`";

    /// Exactly this is found, at `at` of the options.
    fn says(listen: &str, options: &str, at: &str, words: &str) {
        let text = with_source(&format!("    listen: [\"{listen}\"]\n    {options}\n"));
        let column = text.lines().nth(5).unwrap().find(at).unwrap() + 1;
        finds(&text, &[&format!("6:{column}: {words}")]);
    }

    #[test]
    fn the_examples_of_the_guides_are_sound() {
        let guides = concat!(
            include_str!("../../../docs/guides/tls.md"),
            include_str!("../../../docs/guides/connections.md")
        );
        let examples: Vec<_> = guides.split("```yaml\n").skip(1).collect();
        assert_eq!(examples.len(), 4);
        for example in examples {
            let example = example.split("```").next().unwrap();
            let mut text = format!("{example}\ndestinations: {{ n: {{ type: blackhole }} }}\n");
            if !example.contains("sources:") {
                text += "sources: { s: { type: syslog, listen: [\"udp://127.0.0.1:1\"] } }\n";
            }
            let found = crate::parse(&text, "guide", &|_| None);
            assert!(found.is_ok(), "{}\n{text}", found.err().unwrap());
        }
    }

    #[test]
    fn lists_of_clients_that_say_nothing_are_refused() {
        let tls = |more: &str, at: &str, words: &str| {
            let options = format!("tls: {{ cert_file: c, key_file: k, {more} }}");
            says("tls://[::1]:2", &options, at, words);
        };
        tls("client_ca_file: a, permitted_peers: []", "[]", NOBODY);
        let words = format!("`permitted_peers` {NO_USE}");
        tls("permitted_peers: [a.example.com]", "[a", &words);
        tls("crl_files: [x]", "[x", &format!("`crl_files` {NO_USE}"));
        let words = "`*`: a wildcard stands for the first label \
                     alone, as in *.example.com";
        tls("client_ca_file: a, permitted_peers: [\"*\"]", "\"*", words);
    }

    #[test]
    fn lists_of_proxies_that_say_nothing_are_refused() {
        let stream = |more: &str, at: &str, words: &str| {
            says("tcp://[::1]:2", &format!("stream: {{ {more} }}"), at, words);
        };
        stream("trusted_proxies: [10.0.0.0/8]", "[10", NO_PROXY);
        let words = "`proxy_protocol: trusted` needs `trusted_proxies`, which says whose headers \
                     are believed";
        stream("proxy_protocol: trusted", "trusted", words);
        let words = "`trusted_proxies` trusts nobody; name a proxy, or leave it out";
        stream("proxy_protocol: required, trusted_proxies: []", "[]", words);
        let words = "`proxy1` is no network; write for example \
                     10.0.0.0/8, 2001:db8::/32 or 192.0.2.7";
        stream(
            "proxy_protocol: required, trusted_proxies: [proxy1]",
            "proxy1",
            words,
        );
    }
}
