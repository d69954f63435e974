//! The dashboard's files: what is served, to whom in which form, and that nothing else is.

use std::io::Read;
use std::net::{SocketAddr, TcpStream};

use super::*;
use crate::assets::Asset;

static PAGE: [Asset; 2] = [
    Asset {
        path: "/",
        kind: "text/html; charset=utf-8",
        plain: b"<!doctype html><script src=app-X1.js></script>",
        gzip: b"\x1f\x8bpage",
    },
    Asset {
        path: "/app-X1.js",
        kind: "text/javascript; charset=utf-8",
        plain: b"let one = 1;",
        gzip: b"\x1f\x8bscript",
    },
];

fn serving(assets: &'static [Asset]) -> AdminServer {
    let admin = Arc::new(StandIn::default());
    crate::open(&local(), admin, None, ServerLimits::default(), assets).unwrap()
}

fn page() -> AdminServer {
    serving(&PAGE)
}

/// The body as bytes.
fn bytes(address: SocketAddr, path: &str, headers: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    let request =
        format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    let end = all.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
    all.split_off(end + 4)
}

#[test]
fn the_page_is_fetched_each_time_and_what_it_loads_is_kept() {
    let server = page();
    let at = server.local_addr();
    let index = get(at, "/");
    assert_eq!(index.status, 200);
    assert_eq!(index.header("cache-control"), Some("no-store"));
    assert_eq!(
        index.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    assert!(index.body.starts_with("<!doctype html>"));
    let script = get(at, "/app-X1.js");
    let kept = script.header("cache-control").unwrap();
    assert!(kept.contains("immutable"), "{kept}");
    assert_eq!(
        script.header("content-type"),
        Some("text/javascript; charset=utf-8")
    );
    assert_eq!(script.body, "let one = 1;");
    assert_eq!(ask(at, "HEAD", "/app-X1.js", "").body, "");
}

#[test]
fn each_file_is_sent_in_the_form_that_is_asked_for() {
    let server = page();
    let at = server.local_addr();
    for path in ["/", "/app-X1.js"] {
        let plain = get(at, path);
        assert_eq!(plain.header("content-encoding"), None);
        assert_eq!(plain.header("vary"), Some("accept-encoding"));
        let packed = bytes(at, path, "accept-encoding: br\r\naccept-encoding: gzip\r\n");
        assert_eq!(packed[..2], [0x1f, 0x8b], "{path}");
    }
}

#[test]
fn every_answer_tells_a_browser_to_be_strict() {
    let server = page();
    for path in ["/", "/app-X1.js", "/healthz", "/nothing"] {
        let answer = get(server.local_addr(), path);
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'"));
        assert!(!policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("x-frame-options"), Some("DENY"));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(
            answer.header("cross-origin-resource-policy"),
            Some("same-origin")
        );
        assert_eq!(
            answer.header("cross-origin-opener-policy"),
            Some("same-origin")
        );
    }
}

#[test]
fn a_path_is_one_of_the_table_or_not_there() {
    let server = page();
    for path in [
        "/app-X1.js/",
        "//app-X1.js",
        "/./app-X1.js",
        "/x/../app-X1.js",
        "/%61pp-X1.js",
        "/app-X1.js%00",
        "/app-X1.js.gz",
        "/APP-X1.JS",
        "/index.html",
        "/../../etc/passwd",
        "/..%2f..%2fetc%2fpasswd",
        "/.gitignore",
        "/dist/app-X1.js",
    ] {
        let answer = get(server.local_addr(), path);
        assert_eq!(answer.status, 404, "{path}");
        assert_eq!(
            answer.header("content-type"),
            Some("application/json"),
            "{path}"
        );
    }
}

#[test]
fn a_binary_without_the_page_says_how_to_have_it() {
    let server = serving(&[]);
    let answer = get(server.local_addr(), "/");
    assert_eq!(answer.status, 404);
    assert!(answer.body.contains("make web"), "{}", answer.body);
    assert_eq!(get(server.local_addr(), "/healthz").status, 200);
}
