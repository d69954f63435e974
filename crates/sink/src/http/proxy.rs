//! Choice of the proxy that an endpoint is reached through: the option, else the environment as
//! curl and most tools read it.

use std::net::IpAddr;

use reqwest::Url;

/// Reads a proxy address; `None` for the empty one. The error is for the operator.
pub(crate) fn parse(text: &str) -> Result<Option<Url>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let with_scheme = match text.contains("://") {
        true => Url::parse(text),
        false => Url::parse(&format!("http://{text}")),
    };
    match with_scheme {
        Ok(url) if !matches!(url.scheme(), "http" | "https") => {
            Err("only http and https proxies are supported".into())
        }
        Ok(url) if url.has_host() => Ok(Some(url)),
        _ => Err("is no proxy address; write http://host:port".into()),
    }
}

/// The proxy for `endpoint` by these environment variables: the one of its scheme, else
/// `ALL_PROXY`, unless `NO_PROXY` names its host. Names in lower case go first; a proxy that
/// cannot be read is passed over.
pub(crate) fn from_environment(
    endpoint: &Url,
    variable: impl Fn(&str) -> Option<String>,
) -> Option<Url> {
    let either = |name: &str| {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        set(&name.to_ascii_lowercase()).or_else(|| set(name))
    };
    let of_scheme = if endpoint.scheme() == "https" {
        "HTTPS_PROXY"
    } else {
        "HTTP_PROXY"
    };
    let text = either(of_scheme).or_else(|| either("ALL_PROXY"))?;
    let host = endpoint.host_str().unwrap_or_default();
    if either("NO_PROXY").is_some_and(|list| bypasses(&list, host)) {
        return None;
    }
    parse(&text).ok().flatten()
}

/// True if a `NO_PROXY` list names the host: `*`, a domain (with or without a leading dot; its
/// subdomains too), an address, or a network such as `10.0.0.0/8`.
fn bypasses(list: &str, host: &str) -> bool {
    let host = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .to_ascii_lowercase();
    let ip: Option<IpAddr> = host.parse().ok();
    list.split([',', ' '])
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
        .any(|entry| {
            let entry = entry.to_ascii_lowercase();
            let domain = entry.trim_start_matches("*.").trim_start_matches('.');
            match ip {
                Some(ip) => entry == "*" || entry == host || is_in_network(ip, &entry),
                None => entry == "*" || host == domain || host.ends_with(&format!(".{domain}")),
            }
        })
}

fn is_in_network(ip: IpAddr, network: &str) -> bool {
    let Some((base, bits)) = network.split_once('/') else {
        return false;
    };
    let (Ok(base), Ok(bits)) = (base.parse::<IpAddr>(), bits.parse::<u32>()) else {
        return false;
    };
    match (ip, base) {
        (IpAddr::V4(ip), IpAddr::V4(base)) if bits <= 32 => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            ip.to_bits() & mask == base.to_bits() & mask
        }
        (IpAddr::V6(ip), IpAddr::V6(base)) if bits <= 128 => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            ip.to_bits() & mask == base.to_bits() & mask
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn chosen(endpoint: &str, environment: &[(&str, &str)]) -> Option<String> {
        let find = |name: &str| {
            environment
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned())
        };
        from_environment(&endpoint.parse().unwrap(), find)
            .and_then(|p| p.host_str().map(str::to_owned))
    }

    #[test]
    fn the_variable_of_the_scheme_counts_then_all_proxy() {
        let both = [
            ("HTTPS_PROXY", "http://secure:1"),
            ("http_proxy", "http://plain:1"),
        ];
        assert_eq!(
            chosen("https://idx1:8088/", &both).as_deref(),
            Some("secure")
        );
        assert_eq!(chosen("http://idx1:8088/", &both).as_deref(), Some("plain"));
        assert_eq!(
            chosen("http://idx1/", &[("HTTPS_PROXY", "http://secure:1")]),
            None
        );
        let all = [("ALL_PROXY", "http://any:1"), ("http_proxy", "")];
        assert_eq!(chosen("http://idx1/", &all).as_deref(), Some("any"));
        assert_eq!(chosen("https://idx1/", &[]), None);
    }

    #[test]
    fn no_proxy_names_domains_addresses_and_networks() {
        for (list, host, bypassed) in [
            ("*", "idx1", true),
            ("example.com", "example.com", true),
            ("example.com", "idx1.example.com", true),
            (".example.com", "idx1.example.com", true),
            ("*.example.com", "idx1.EXAMPLE.com", true),
            ("example.com", "notexample.com", false),
            ("a, b ,idx1", "idx1", true),
            ("10.0.0.0/8", "10.1.2.3", true),
            ("10.0.0.0/8", "11.1.2.3", false),
            ("0.0.0.0/0", "11.1.2.3", true),
            ("127.0.0.1", "127.0.0.1", true),
            ("fd00::/8", "[fd00::1]", true),
            ("10.0.0.0/99", "10.1.2.3", false),
            ("", "idx1", false),
        ] {
            assert_eq!(bypasses(list, host), bypassed, "{list} {host}");
        }
    }

    #[test]
    fn a_proxy_option_is_read_or_refused() {
        assert!(parse("").unwrap().is_none());
        for text in ["http://u:p@proxy:3128", "proxy:3128"] {
            let port = parse(text).unwrap().unwrap().port();
            assert_eq!(port, Some(3128), "{text}");
        }
        assert!(parse("socks5://proxy").is_err());
        assert!(parse("not a url").is_err());
    }
}
