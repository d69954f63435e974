//! Guard against requests of web pages: a rule for each way in which a page could make a browser
//! ask for it.
//!
//! Without a password, whoever reaches the port may read the API. A browser on the same machine
//! reaches it too, so that a page from anywhere could use the browser as its hands:
//! * **DNS rebinding** (a foreign name made to resolve to our address): on a loopback address the
//!   `Host` must be an IP address or `localhost`, which no foreign name can be.
//! * **Cross-site requests**: a browser says of each request which page is behind it
//!   (`Sec-Fetch-Site`), and in which way (`Sec-Fetch-Mode`). What a page of another site starts is
//!   refused in every mode: a picture, a frame, a form, `fetch`, a link, a redirect. The dashboard
//!   itself is the one exception: a link may lead to it, and it does nothing that its address asks
//!   for without its own script, whose requests are `same-origin`.
//! * **Browsers that say less**: one without `Sec-Fetch-Site` names the page in `Origin` or
//!   `Referer`, which then must be our own. Programs such as `curl` send none of the three.
//! * **Changes** (anything but GET and HEAD) must come from no browser or from our own page:
//!   `Origin` names the `Host`, and that again is an IP address or `localhost`, whatever the
//!   listening address is.
//! * **Addresses that somebody typed** (`Sec-Fetch-Site: none`) may have led elsewhere first, and
//!   come here by a redirect; browsers say `none` of that too. So what costs (searches and the
//!   like, [`COSTLY`]) takes no navigation but one from our own page.
//!
//! Where a session or token is asked for, a foreign page has neither: a browser sends the cookie to
//! the name it came from and to no other. So any `Host` will do, as it must behind a proxy or under
//! a name of one's own, and `Origin` still has to name it.

use std::net::{IpAddr, Ipv6Addr};

use axum::http::{HeaderMap, HeaderName, Method, header};

/// Reason that a request is refused, in words for the answer.
pub(crate) type RefusalReason = &'static str;

const FOREIGN: RefusalReason = "a request from a page of another site";
const ORIGIN: RefusalReason = "an Origin that is not this page's own";
const TYPED: RefusalReason =
    "a search that a browser was sent to by an address: use the dashboard, or curl";

/// Paths below which a request costs more than a look at counters.
const COSTLY: [&str; 6] = [
    "/api/v1/search",
    "/api/v1/sql",
    "/api/v1/export",
    "/api/v1/tail",
    "/api/v1/unknown",
    "/api/v1/quarantine",
];

/// Target of a request, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestTarget<'a> {
    /// The path of the request.
    pub(crate) path: &'a str,
    /// True if it is the dashboard or one of its files.
    pub(crate) page: bool,
}

/// Checks that a request may pass. `loopback` is true if we listen on a loopback address, `asks` if
/// a session or token is asked for.
pub(crate) fn check(
    method: &Method,
    target: RequestTarget<'_>,
    headers: &HeaderMap,
    loopback: bool,
    asks: bool,
) -> Result<(), RefusalReason> {
    let host = text(headers, header::HOST);
    if loopback && !asks && !host.is_none_or(is_address_or_localhost) {
        return Err("this Host is not an address of this machine: ask for 127.0.0.1 or localhost");
    }
    let reads = *method == Method::GET || *method == Method::HEAD;
    if headers.contains_key(SITE) {
        by_site(reads, target, headers)?;
    }
    if reads && target.page {
        return Ok(());
    }
    for name in [header::ORIGIN, header::REFERER] {
        let mut pages = headers.get_all(&name).iter();
        if !pages.all(|page| page.to_str().is_ok_and(|page| is_own(page, host, asks))) {
            return Err(if name == header::ORIGIN {
                ORIGIN
            } else {
                FOREIGN
            });
        }
    }
    Ok(())
}

const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// Checks a request by what the browser says of the page behind it (`Sec-Fetch-*`).
fn by_site(
    reads: bool,
    target: RequestTarget<'_>,
    headers: &HeaderMap,
) -> Result<(), RefusalReason> {
    let navigates = text(headers, MODE) == Some("navigate");
    // A frame, an object and a plugin navigate too.
    let as_document = text(headers, DEST).is_none_or(|dest| dest == "document");
    match text(headers, SITE) {
        Some("same-origin") => Ok(()),
        Some("none") if reads => {
            let costly = |path: &&str| target.path.starts_with(*path);
            match navigates && !target.page && COSTLY.iter().any(costly) {
                true => Err(TYPED),
                false => Ok(()),
            }
        }
        // A link to the dashboard.
        _ if reads && target.page && navigates && as_document => Ok(()),
        _ => Err(FOREIGN),
    }
}

/// A header's text; `None` if it is absent or not ASCII.
fn text<K: Into<Option<header::HeaderName>>>(headers: &HeaderMap, name: K) -> Option<&str> {
    headers.get(name.into()?)?.to_str().ok()
}

/// True if the address of a page, or an origin, is that of this `host`.
fn is_own(page: &str, host: Option<&str>, asks: bool) -> bool {
    let Some(host) = host else {
        return false;
    };
    let rest = page
        .strip_prefix("http://")
        .or_else(|| page.strip_prefix("https://"));
    let name = rest.and_then(|rest| rest.split(['/', '?', '#']).next());
    name == Some(host) && (asks || is_address_or_localhost(host))
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

    const LEDGER: RequestTarget<'_> = RequestTarget {
        path: "/api/v1/ledger",
        page: false,
    };
    const PAGE: RequestTarget<'_> = RequestTarget {
        path: "/",
        page: true,
    };

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    fn verdict(method: Method, pairs: &[(&'static str, &'static str)], loopback: bool) -> bool {
        check(&method, LEDGER, &headers(pairs), loopback, false).is_ok()
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

    /// What browsers send, in each way in which a page can make them ask: site, mode, destination.
    /// As Chromium 156 sends it, and Fetch Metadata has it; a typed address that redirects here has
    /// `none`.
    const FOREIGN_WAYS: [(&str, &str, &str, &str); 22] = [
        ("link", "cross-site", "navigate", "document"),
        ("link of another port", "same-site", "navigate", "document"),
        ("form, GET", "cross-site", "navigate", "document"),
        ("window.open", "cross-site", "navigate", "document"),
        ("redirect", "cross-site", "navigate", "document"),
        ("prerender", "cross-site", "navigate", "document"),
        ("frame", "cross-site", "navigate", "iframe"),
        ("old frame", "cross-site", "navigate", "frame"),
        ("frame of another port", "same-site", "navigate", "iframe"),
        ("object", "cross-site", "navigate", "object"),
        ("embed", "cross-site", "navigate", "embed"),
        ("picture", "cross-site", "no-cors", "image"),
        ("script", "cross-site", "no-cors", "script"),
        ("style", "cross-site", "no-cors", "style"),
        ("video", "cross-site", "no-cors", "video"),
        ("fetch without CORS", "cross-site", "no-cors", "empty"),
        ("prefetch", "cross-site", "no-cors", "empty"),
        ("ping", "cross-site", "no-cors", "empty"),
        ("fetch", "cross-site", "cors", "empty"),
        ("module, font", "cross-site", "cors", "script"),
        ("EventSource", "cross-site", "cors", "empty"),
        ("WebSocket", "cross-site", "websocket", "websocket"),
    ];

    #[test]
    fn nothing_that_a_foreign_page_starts_reaches_more_than_the_dashboard() {
        let paths = [
            "/api/v1/sql",
            "/api/v1/ledger",
            "/api/v1/session",
            "/metrics",
            "/healthz",
            "/ledger",
            "/nosuch",
        ];
        for (way, site, mode, dest) in FOREIGN_WAYS {
            let headers = headers(&[
                ("host", "127.0.0.1:8686"),
                ("sec-fetch-site", site),
                ("sec-fetch-mode", mode),
                ("sec-fetch-dest", dest),
            ]);
            for path in paths {
                let target = RequestTarget { path, page: false };
                for method in [Method::GET, Method::HEAD, Method::POST, Method::OPTIONS] {
                    for (loopback, asks) in [(true, false), (true, true), (false, true)] {
                        let verdict = check(&method, target, &headers, loopback, asks);
                        assert!(verdict.is_err(), "{way}: {method} {path}");
                    }
                }
            }
            let link = mode == "navigate" && dest == "document";
            let verdict = check(&Method::GET, PAGE, &headers, true, false);
            assert_eq!(verdict.is_ok(), link, "{way}: the dashboard");
        }
    }

    #[test]
    fn our_own_page_and_addresses_that_somebody_typed_are_answered() {
        let of = |path, site, mode| {
            let headers = headers(&[
                ("host", "127.0.0.1:8686"),
                ("sec-fetch-site", site),
                ("sec-fetch-mode", mode),
                ("sec-fetch-dest", "empty"),
            ]);
            let target = RequestTarget { path, page: false };
            check(&Method::GET, target, &headers, true, false).is_ok()
        };
        for path in ["/api/v1/sql", "/api/v1/export", "/api/v1/ledger"] {
            assert!(of(path, "same-origin", "cors"), "{path}");
            assert!(of(path, "same-origin", "navigate"), "{path}: a download");
        }
        for path in ["/api/v1/ledger", "/metrics", "/healthz"] {
            assert!(of(path, "none", "navigate"), "{path}");
        }
        // Somebody may have typed the address of a page that redirects here.
        for path in COSTLY {
            assert!(!of(path, "none", "navigate"), "{path}");
            assert!(of(path, "none", "cors"), "{path}: an extension");
        }
    }

    #[test]
    fn browsers_without_fetch_metadata_name_the_page_in_other_headers() {
        let host = ("host", "127.0.0.1:8686");
        for (more, ok) in [
            (("origin", "http://127.0.0.1:8686"), true),
            (("origin", "http://127.0.0.1:9999"), false),
            (("origin", "http://evil.example"), false),
            (("origin", "null"), false),
            (("referer", "http://127.0.0.1:8686/search?q=x"), true),
            (("referer", "http://127.0.0.1:9999/"), false),
            (("referer", "http://evil.example/127.0.0.1:8686"), false),
            (("referer", "http://127.0.0.1:8686.evil.example/"), false),
        ] {
            assert_eq!(verdict(Method::GET, &[host, more], true), ok, "{more:?}");
        }
        let two = [
            host,
            ("origin", "http://127.0.0.1:8686"),
            ("origin", "http://evil.example"),
        ];
        assert!(!verdict(Method::POST, &two, true), "two origins");
        assert!(verdict(Method::GET, &[host], true), "curl");
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
            check(&Method::POST, LEDGER, &headers(pairs), true, true).is_ok()
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
        assert!(check(&Method::POST, LEDGER, &headers, true, false).is_err());
        assert!(check(&Method::POST, LEDGER, &headers, true, true).is_err());
    }
}
