//! The dashboard as the binary serves it, and who may see it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Output, Stdio};

use flate2::read::GzDecoder;
use inrush_tests::*;
use nix::sys::signal::Signal;

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

/// One request on a connection of its own, which ends with it.
fn ask(mut stream: impl Read + Write, line: &str, headers: &str, body: &str) -> Raw {
    let length = body.len();
    let request = format!(
        "{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    stream.flush().unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    let end = all.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
    let body = all.split_off(end + 4);
    Raw {
        head: String::from_utf8(all).unwrap(),
        body,
    }
}

fn plain(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream
}

/// `GET path` with more header lines.
fn fetch(address: SocketAddr, path: &str, headers: &str) -> Raw {
    ask(plain(address), &format!("GET {path}"), headers, "")
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

const PASSWORD: &str = "correct horse";
const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const LEDGER: &str = "GET /api/v1/ledger";

fn login(stream: impl Read + Write, password: &str) -> Raw {
    let body = format!("{{\"password\":\"{password}\"}}");
    let headers = "content-type: application/json\r\n";
    ask(stream, "POST /api/v1/login", headers, &body)
}

/// The session that a login began, as a header line.
fn cookie(login: &Raw) -> String {
    assert_eq!(login.status(), "204", "{}", login.head);
    let set = login.header("set-cookie").unwrap();
    format!("cookie: {}\r\n", set.split(';').next().unwrap())
}

fn with_admin(admin: &str) -> String {
    to_file(TCP, "") + &format!("admin: {{ listen: 127.0.0.1:0, {admin} }}\n")
}

#[test]
fn an_address_that_others_reach_needs_a_password() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("inrush.yaml");
    let run = |command: &str, admin: &str| -> Output {
        let yaml = format!(
            "admin: {{ listen: 0.0.0.0:0{admin} }}\n{}",
            to_file(TCP, "")
        );
        std::fs::write(&file, yaml.replace("{dir}", "/tmp")).unwrap();
        let mut process = Command::new(binary());
        process.args([command, "-c"]).arg(&file).output().unwrap()
    };
    for command in ["check", "run"] {
        let refused = run(command, "");
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains("inrush.yaml:1:18: "), "{said}");
        assert!(said.contains("--hash-password"), "{said}");
    }
    let passed = run("check", &format!(", tokens: [{TOKEN}]"));
    assert_eq!(passed.status.code(), Some(0));
}

/// `inrush check --hash-password` with this on stdin.
fn hash(password: &str) -> Output {
    let mut child = Command::new(binary())
        .args(["check", "--hash-password"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(password.as_bytes()).unwrap();
    drop(stdin);
    child.wait_with_output().unwrap()
}

#[test]
fn a_hash_from_the_command_line_lets_its_password_in() {
    let made = hash(&format!("{PASSWORD}\n"));
    assert_eq!(made.status.code(), Some(0));
    let made = String::from_utf8(made.stdout).unwrap();
    assert!(made.starts_with("$argon2id$") && made.lines().count() == 1);
    let inrush = Inrush::start(&with_admin(&format!("password_hash: \"{}\"", made.trim())));
    let at = inrush.admin();
    assert_eq!(ask(plain(at), LEDGER, "", "").status(), "401");
    assert_eq!(login(plain(at), "wrong horse").status(), "401");
    let cookie = cookie(&login(plain(at), PASSWORD));
    assert_eq!(ask(plain(at), LEDGER, &cookie, "").status(), "200");

    let short = hash("short");
    assert_eq!((short.status.code(), short.stdout), (Some(2), Vec::new()));
}

#[test]
fn people_log_in_over_tls_and_nobody_sees_the_password() {
    let dir = tempfile::tempdir().unwrap();
    let pki = Pki::new(dir.path());
    let first = pki.issue("server");
    let tls = "tls: { cert_file: \"{dir}/server.pem\", key_file: \"{dir}/server.key\" }";
    let options = Options {
        dir: Some(dir),
        env: &[("PASSWORD", PASSWORD), ("TOKEN", TOKEN)],
        ..Options::default()
    };
    let admin = format!("password: \"${{PASSWORD}}\", tokens: [\"${{TOKEN}}\"], {tls}");
    let inrush = Inrush::with(&with_admin(&admin), options);
    assert!(
        inrush
            .stderr()
            .contains("inrush: admin on https://127.0.0.1:")
    );
    let connect = || tls_connect(inrush.admin(), &pki.client(None)).unwrap();

    let page = ask(connect(), "GET /", "", "");
    assert!(
        String::from_utf8(page.body)
            .unwrap()
            .contains("<title>Inrush</title>")
    );
    assert_eq!(ask(connect(), LEDGER, "", "").status(), "401");
    let entered = login(connect(), PASSWORD);
    let set = entered.header("set-cookie").unwrap();
    assert!(
        set.starts_with("__Host-") && set.contains("; Secure"),
        "{set}"
    );
    assert_eq!(
        ask(connect(), LEDGER, &cookie(&entered), "").status(),
        "200"
    );
    let token = format!("authorization: Bearer {TOKEN}\r\n");
    assert_eq!(ask(connect(), LEDGER, &token, "").status(), "200");

    // Plain text on this port is no HTTP, and costs nobody else anything.
    let mut clear = plain(inrush.admin());
    clear
        .write_all(b"GET /api/v1/ledger HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .unwrap();
    let mut said = Vec::new();
    let _ = clear.read_to_end(&mut said);
    assert!(!said.starts_with(b"HTTP"), "{said:?}");

    let second = pki.issue("server");
    assert_ne!(first, second);
    eventually("the new certificate", || {
        let stream = connect();
        let served = stream.conn.peer_certificates()?[0].clone().into_owned();
        (served == second).then_some(())
    });
    let log = inrush.stderr();
    assert!(!log.contains(PASSWORD) && !log.contains(TOKEN), "{log}");
}

#[test]
fn a_signal_changes_the_password_without_a_restart() {
    let inrush = Inrush::start(&with_admin("password: correct horse"));
    let at = inrush.admin();
    let old = cookie(&login(plain(at), PASSWORD));
    inrush.rewrite(&with_admin("password: battery staple"));
    inrush.signal(Signal::SIGHUP);
    inrush.line("inrush: reload: admin");
    eventually("the old session to end", || {
        (ask(plain(at), LEDGER, &old, "").status() == "401").then_some(())
    });
    assert_eq!(login(plain(at), PASSWORD).status(), "401");
    let new = cookie(&login(plain(at), "battery staple"));
    assert_eq!(ask(plain(at), LEDGER, &new, "").status(), "200");
}

#[test]
fn tokens_and_sessions_can_be_asked_for_on_loopback_too() {
    let inrush = Inrush::start(&with_admin(&format!("tokens: [{TOKEN}]")));
    let at = inrush.admin();
    for path in ["/metrics", "/api/v1/ledger", "/api/v1/senders", "/ledger"] {
        assert_eq!(fetch(at, path, "").status(), "401", "{path}");
        let token = format!("authorization: Bearer {TOKEN}\r\n");
        assert_eq!(fetch(at, path, &token).status(), "200", "{path}");
    }
    assert_eq!(fetch(at, "/healthz", "").body, br#"{"healthy":true}"#);
    assert_eq!(fetch(at, "/", "").status(), "200");
    let away = "127.0.0.1.evil.example";
    let reload = format!("origin: http://{away}\r\nauthorization: Bearer {TOKEN}\r\n");
    let refused = ask(plain(at), "POST /api/v1/reload", &reload, "");
    assert_eq!(refused.status(), "403", "not for the page of another site");
}

#[test]
fn top_shows_its_token_where_it_is_asked_for_one() {
    let inrush = Inrush::start(&with_admin(&format!("tokens: [{TOKEN}]")));
    let top = |token: Option<&str>| {
        let mut command = Command::new(binary());
        command.args(["top", "--json", &inrush.admin().to_string()]);
        command.env_remove("INRUSH_TOKEN");
        token.map(|token| command.env("INRUSH_TOKEN", token));
        let done = command.output().unwrap();
        (done.status.code(), String::from_utf8(done.stderr).unwrap())
    };
    for wrong in [None, Some(""), Some("0123456789abcdef")] {
        let (code, said) = top(wrong);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("INRUSH_TOKEN"), "{said}");
        assert!(!said.contains("0123456789abcdef"), "{said}");
    }
    assert_eq!(top(Some(TOKEN)), (Some(0), String::new()));
}

#[test]
fn a_stream_ends_with_its_session() {
    let inrush = Inrush::start(&with_admin("password: correct horse"));
    let at = inrush.admin();
    assert_eq!(
        ask(plain(at), "GET /api/v1/flow/stream", "", "").status(),
        "401"
    );
    let cookie = cookie(&login(plain(at), PASSWORD));
    let mut stream = plain(at);
    let request = format!(
        "GET /api/v1/flow/stream HTTP/1.1\r\nhost: {at}\r\nconnection: close\r\n{cookie}\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut some = [0; 4096];
    let read = stream.read(&mut some).unwrap();
    assert!(some[..read].starts_with(b"HTTP/1.1 200"));

    let told = ask(plain(at), "GET /api/v1/session", &cookie, "");
    let told: serde_json::Value = serde_json::from_slice(&told.body).unwrap();
    let csrf = told["csrf"].as_str().unwrap();
    let leave = format!("{cookie}x-inrush-csrf: {csrf}\r\n");
    assert_eq!(
        ask(plain(at), "POST /api/v1/logout", &leave, "").status(),
        "204"
    );
    // Would read for ever if it went on.
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(rest.ends_with(b"0\r\n\r\n"), "a whole answer");
}
