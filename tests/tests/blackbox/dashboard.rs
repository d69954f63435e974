//! The dashboard as the binary serves it, and who may see it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use flate2::read::GzDecoder;
use inrush_tests::*;

use crate::{TCP, to_file};

/// The product's promise for all of the page, gzipped.
const WEIGHT_BYTES_MAX: usize = 300 * 1000;

/// An answer with its head and its bytes.
struct Raw {
    head: String,
    body: Vec<u8>,
}

impl Raw {
    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().skip(1);
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    fn status(&self) -> &str {
        self.head.get(9..12).unwrap_or_default()
    }
}

/// `GET path` with more header lines.
fn fetch(address: SocketAddr, path: &str, headers: &str) -> Raw {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let request =
        format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    let end = all.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
    let body = all.split_off(end + 4);
    Raw {
        head: String::from_utf8(all).unwrap(),
        body,
    }
}

/// What the page loads: the files that its HTML names.
fn loads(page: &str) -> Vec<String> {
    let named = page.split(['"', '\'']).filter(|text| {
        let file = !text.contains(['/', ' ', ':']);
        file && [".js", ".css"].iter().any(|end| text.ends_with(end))
    });
    named.map(str::to_owned).collect()
}

#[test]
fn the_page_is_in_the_binary_small_and_kept_by_browsers() {
    let inrush = Inrush::start(&to_file(TCP, ""));
    let at = inrush.admin();
    let page = fetch(at, "/", "");
    let html = String::from_utf8(page.body).unwrap();
    assert_eq!(page.head.get(9..12), Some("200"), "make web first: {html}");
    assert!(html.contains("<title>Inrush</title>"), "{html}");
    let files = loads(&html);
    assert!(files.len() >= 2, "a script and a style: {files:?}");
    let mut weight = fetch(at, "/", "accept-encoding: gzip\r\n").body.len();
    for file in &files {
        let plain = fetch(at, &format!("/{file}"), "");
        let packed = fetch(at, &format!("/{file}"), "accept-encoding: gzip, br\r\n");
        assert_eq!((plain.status(), packed.status()), ("200", "200"), "{file}");
        assert_eq!(packed.header("content-encoding"), Some("gzip"));
        for answer in [&plain, &packed] {
            let kept = answer.header("cache-control").unwrap();
            assert!(kept.contains("immutable"), "{file}: {kept}");
        }
        let mut unpacked = Vec::new();
        GzDecoder::new(&packed.body[..])
            .read_to_end(&mut unpacked)
            .unwrap();
        assert!(unpacked == plain.body, "{file} is another file when packed");
        weight += packed.body.len();
    }
    assert!(
        weight > 10_000 && weight < WEIGHT_BYTES_MAX,
        "{weight} bytes"
    );
}

#[test]
fn the_page_runs_nothing_but_its_own_script() {
    let inrush = Inrush::start(&to_file(TCP, ""));
    let page = fetch(inrush.admin(), "/", "");
    assert_eq!(page.header("cache-control"), Some("no-store"));
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none';") && !policy.contains("unsafe"));
    let html = String::from_utf8(page.body).unwrap();
    for (tag, attribute) in [("<script", "src="), ("<link", "href=")] {
        for part in html.split(tag).skip(1) {
            let tag = part.split('>').next().unwrap();
            assert!(tag.contains(attribute), "inline: {tag}");
            assert!(!tag.contains("href=\"http") && !tag.contains("src=\"http"));
            assert!(!tag.contains("\"//"), "from elsewhere: {tag}");
        }
    }
}
