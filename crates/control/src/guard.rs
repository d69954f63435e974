//! Who may ask: a rule for each way in which a web page could make a browser ask for it.
//!
//! Without a password, whoever reaches the port may read the API. A browser on the same machine
//! reaches it too, so that a page from anywhere could use the browser as its hands:
//! * **DNS rebinding** (a foreign name made to resolve to our address): on a loopback address the
//!   `Host` must be an IP address or `localhost`, which no foreign name can be.
//! * **Cross-site requests**: anything but GET and HEAD must come from no browser (no `Origin`,
//!   no `Sec-Fetch-Site`), or from our own page: `Origin` names the `Host`, and that again is an
//!   IP address or `localhost`, whatever the listening address is. GET and HEAD change nothing, but
//!   a search costs: what a page of another site loads (a picture, a script, `fetch`) is refused; a
//!   link that somebody follows is not.
//!
//! Where a session or token is asked for, a foreign page has neither: a browser sends the cookie to
//! the name it came from and to no other. So any `Host` will do, as it must behind a proxy or under
//! a name of one's own, and `Origin` still has to name it.

use std::net::{IpAddr, Ipv6Addr};

use axum::http::{HeaderMap, HeaderName, Method, header};

/// Why a request is refused, in words for the answer.
pub(crate) type Refusal = &'static str;

const FOREIGN: Refusal = "a request from a page of another site";

/// Whether a request may pass. `loopback`: whether we listen on a loopback address; `asks`: whether
/// a session or token is asked for.
pub(crate) fn check(
    method: &Method,
    headers: &HeaderMap,
    loopback: bool,
    asks: bool,
) -> Result<(), Refusal> {
    let host = text(headers, header::HOST);
    if loopback && !asks && !host.is_none_or(is_address_or_localhost) {
        return Err("this Host is not an address of this machine: ask for 127.0.0.1 or localhost");
    }
    let fetch = |what: &'static str| text(headers, HeaderName::from_static(what));
    let site = fetch("sec-fetch-site");
    if method.is_safe() {
        let foreign = matches!(site, Some("cross-site" | "same-site"));
        return match foreign && fetch("sec-fetch-mode") != Some("navigate") {
            true => Err(FOREIGN),
            false => Ok(()),
        };
    }
    if site.is_some_and(|site| site != "same-origin") {
        return Err(FOREIGN);
    }
    match (text(headers, header::ORIGIN), host) {
        (None, _) if !headers.contains_key(header::ORIGIN) => Ok(()),
        (Some(origin), Some(host)) if is_own(origin, host, asks) => Ok(()),
        _ => Err("an Origin that is not this page's own"),
    }
}

/// A header's text; `None` if it is absent or not ASCII.
fn text<K: Into<Option<header::HeaderName>>>(headers: &HeaderMap, name: K) -> Option<&str> {
    headers.get(name.into()?)?.to_str().ok()
}

fn is_own(origin: &str, host: &str, asks: bool) -> bool {
    let same = origin
        .strip_prefix("http://")
        .or_else(|| origin.strip_prefix("https://"));
    same == Some(host) && (asks || is_address_or_localhost(host))
}

fn is_address_or_localhost(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    if name.eq_ignore_ascii_case("localhost") {
        return true;
    }
    match name
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
    {
        Some(inner) => inner.parse::<Ipv6Addr>().is_ok(),
        None => name.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv4()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn verdict(method: Method, pairs: &[(&'static str, &'static str)], loopback: bool) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, HeaderValue::from_static(value));
        }
        check(&method, &headers, loopback, false).is_ok()
    }

    #[test]
    fn reading_on_loopback_takes_addresses_and_localhost_only() {
        for (host, ok) in [
            ("127.0.0.1:8686", true),
            ("[::1]:8686", true),
            ("localhost", true),
            ("LOCALHOST:8686", true),
            ("evil.example:8686", false),
            ("127.0.0.1.evil.example", false),
            ("localhost.evil.example:8686", false),
            ("[::1", false),
            ("", false),
        ] {
            assert_eq!(verdict(Method::GET, &[("host", host)], true), ok, "{host}");
        }
        assert!(
            verdict(Method::GET, &[], true),
            "HTTP/1.0 without a Host is no browser"
        );
        assert!(verdict(
            Method::GET,
            &[("host", "inrush.corp.example")],
            false
        ));
    }

    #[test]
    fn reading_takes_links_from_anywhere_and_nothing_that_a_foreign_page_loads() {
        let host = ("host", "127.0.0.1:8686");
        for (site, mode, ok) in [
            ("same-origin", "cors", true),
            ("same-origin", "no-cors", true),
            ("none", "navigate", true),
            ("cross-site", "navigate", true),
            ("cross-site", "no-cors", false),
            ("cross-site", "cors", false),
            ("same-site", "no-cors", false),
        ] {
            let pairs = [host, ("sec-fetch-site", site), ("sec-fetch-mode", mode)];
            assert_eq!(verdict(Method::GET, &pairs, true), ok, "{site} {mode}");
            assert_eq!(verdict(Method::HEAD, &pairs, false), ok, "{site} {mode}");
        }
    }

    #[test]
    fn changing_takes_no_browser_or_our_own_page() {
        let host = ("host", "127.0.0.1:8686");
        for (more, ok) in [
            (None, true),
            (Some(("origin", "http://127.0.0.1:8686")), true),
            (Some(("origin", "https://127.0.0.1:8686")), true),
            (Some(("origin", "http://127.0.0.1:9999")), false),
            (Some(("origin", "http://evil.example")), false),
            (Some(("origin", "null")), false),
            (Some(("origin", "127.0.0.1:8686")), false),
            (Some(("sec-fetch-site", "same-origin")), true),
            (Some(("sec-fetch-site", "cross-site")), false),
            (Some(("sec-fetch-site", "none")), false),
        ] {
            let pairs: Vec<_> = [host].into_iter().chain(more).collect();
            assert_eq!(verdict(Method::POST, &pairs, true), ok, "{more:?}");
        }
    }

    #[test]
    fn a_rebound_name_cannot_change_anything_on_any_address() {
        let pairs = [
            ("host", "evil.example:8686"),
            ("origin", "http://evil.example:8686"),
        ];
        assert!(!verdict(Method::POST, &pairs, false));
        assert!(
            verdict(Method::POST, &[("host", "inrush.corp.example")], false),
            "curl by name"
        );
    }

    #[test]
    fn with_a_password_names_will_do_and_other_sites_still_not() {
        let post = |pairs: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.insert(*name, HeaderValue::from_static(value));
            }
            check(&Method::POST, &headers, true, true).is_ok()
        };
        let host = ("host", "inrush.corp.example");
        assert!(post(&[host, ("origin", "https://inrush.corp.example")]));
        assert!(post(&[host, ("sec-fetch-site", "same-origin")]));
        assert!(!post(&[host, ("origin", "https://evil.example")]));
        assert!(!post(&[host, ("origin", "null")]));
        assert!(!post(&[host, ("sec-fetch-site", "same-site")]));
    }

    #[test]
    fn an_origin_that_is_not_text_is_an_origin() {
        let mut headers = HeaderMap::new();
        headers.insert("host", HeaderValue::from_static("127.0.0.1"));
        headers.insert(
            "origin",
            HeaderValue::from_bytes(b"http://\xff").expect("legal bytes"),
        );
        assert!(check(&Method::POST, &headers, true, false).is_err());
        assert!(check(&Method::POST, &headers, true, true).is_err());
    }
}
