//! Who may come in: logins, sessions, tokens, and those who try to get in otherwise.

use std::net::{SocketAddr, TcpStream};

use inrush_event::Secret;

use super::client::read_answer;
use super::*;

const PASSWORD: &str = "correct horse";
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// The paths of the API, and of nothing at all.
const BEHIND: [&str; 9] = [
    "/metrics",
    "/ledger",
    "/api/v1/ledger",
    "/api/v1/senders",
    "/api/v1/files",
    "/api/v1/quarantine",
    "/api/v1/reload",
    "/api/v1/logout",
    "/no/such/path",
];

fn options(password: Option<&str>, tokens: &[&str]) -> AdminOptions {
    AdminOptions {
        password: password.map(Secret::new),
        tokens: tokens.iter().copied().map(Secret::new).collect(),
        ..local()
    }
}

/// Opened by these, and after a reload by the same.
fn opened_by(options: AdminOptions, admin: StandIn) -> AdminServer {
    *admin.options.lock().unwrap() = options.clone();
    start(&options, Arc::new(admin), None).unwrap()
}

fn locked() -> AdminServer {
    opened_by(options(Some(PASSWORD), &[TOKEN]), StandIn::default())
}

/// A request with a body, on a connection of its own.
fn send(at: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> Answer {
    let length = body.len();
    let mut stream = TcpStream::connect(at).unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {at}\r\nconnection: close\r\n\
         content-length: {length}\r\n{headers}\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    // The answer may come, and the connection go, before all of it was sent.
    let _ = stream.write_all(body.as_bytes());
    read_answer(stream)
}

fn login_with(at: SocketAddr, password: &str, headers: &str) -> Answer {
    let body = serde_json::json!({ "password": password }).to_string();
    let headers = format!("content-type: application/json\r\n{headers}");
    send(at, "POST", "/api/v1/login", &headers, &body)
}

/// A session: its cookie as a header line, and its CSRF token.
struct Session {
    cookie: String,
    csrf: String,
}

impl Session {
    fn of(at: SocketAddr, login: &Answer) -> Self {
        assert_eq!(login.status, 204, "{}", login.body);
        let set = login.header("set-cookie").unwrap();
        let cookie = format!("cookie: {}\r\n", set.split(';').next().unwrap());
        let told = ask(at, "GET", "/api/v1/session", &cookie).json();
        assert_eq!(told["user"], "admin");
        let csrf = told["csrf"].as_str().unwrap().to_owned();
        Self { cookie, csrf }
    }

    fn begin(at: SocketAddr) -> Self {
        Self::of(at, &login_with(at, PASSWORD, ""))
    }

    /// All that the page sends with a change.
    fn headers(&self) -> String {
        format!("{}x-inrush-csrf: {}\r\n", self.cookie, self.csrf)
    }

    fn is_good(&self, at: SocketAddr) -> bool {
        ask(at, "GET", "/api/v1/ledger", &self.cookie).status == 200
    }
}

fn bearer(token: &str) -> String {
    format!("authorization: Bearer {token}\r\n")
}

#[test]
fn strangers_get_the_page_and_nothing_behind_it() {
    let server = locked();
    let at = server.local_addr();
    for path in BEHIND {
        for method in ["GET", "POST", "HEAD", "DELETE"] {
            let answer = ask(at, method, path, "");
            assert_eq!(answer.status, 401, "{method} {path}");
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
            assert!(!answer.body.contains("syslog") && !answer.body.contains("tape"));
        }
    }
    assert_ne!(get(at, "/").status, 401);
    let session = get(at, "/api/v1/session").json();
    let expected = serde_json::json!({ "required": true, "user": null, "csrf": "" });
    assert_eq!(session, expected);
}

#[test]
fn health_is_one_word_for_strangers_and_all_of_it_for_others() {
    let ill = StandIn {
        unhealthy: true,
        ..StandIn::default()
    };
    let server = opened_by(options(None, &[TOKEN]), ill);
    let answer = get(server.local_addr(), "/healthz");
    assert_eq!(
        (answer.status, answer.body.as_str()),
        (503, r#"{"healthy":false}"#)
    );
    let known = ask(server.local_addr(), "GET", "/healthz", &bearer(TOKEN));
    assert_eq!(
        (known.status, &known.json()["edges"][1]["name"]),
        (503, &"tape".into())
    );
    let well = locked();
    let answer = get(well.local_addr(), "/healthz");
    assert_eq!(
        (answer.status, answer.body.as_str()),
        (200, r#"{"healthy":true}"#)
    );
}

#[test]
fn without_password_and_tokens_nobody_is_asked() {
    let server = serve(StandIn::default());
    let at = server.local_addr();
    let session = get(at, "/api/v1/session").json();
    let expected = serde_json::json!({ "required": false, "user": null, "csrf": "" });
    assert_eq!(session, expected);
    assert_eq!(get(at, "/api/v1/ledger").status, 200);
    assert_eq!(login_with(at, PASSWORD, "").status, 400);
    assert_eq!(ask(at, "POST", "/api/v1/logout", "").status, 204);
}

#[test]
fn a_login_opens_everything_until_logout() {
    let server = locked();
    let at = server.local_addr();
    let login = login_with(at, PASSWORD, "");
    let set = login.header("set-cookie").unwrap();
    assert!(
        set.contains("; HttpOnly") && set.contains("; SameSite=Strict"),
        "{set}"
    );
    let session = Session::of(at, &login);
    for path in ["/metrics", "/ledger", "/api/v1/senders", "/healthz"] {
        assert_eq!(ask(at, "GET", path, &session.cookie).status, 200, "{path}");
    }
    assert_eq!(ask(at, "GET", "/no/such/path", &session.cookie).status, 404);
    let out = ask(at, "POST", "/api/v1/logout", &session.headers());
    assert_eq!(out.status, 204);
    assert!(out.header("set-cookie").unwrap().contains("Max-Age=0"));
    assert!(!session.is_good(at));
}

#[test]
fn a_change_carries_the_token_of_its_own_session() {
    let server = locked();
    let at = server.local_addr();
    let (one, other) = (Session::begin(at), Session::begin(at));
    let post = |csrf: &str| {
        let headers = format!("{}{csrf}", one.cookie);
        ask(at, "POST", "/api/v1/quarantine/drop?all=true", &headers).status
    };
    let line = |csrf: &str| format!("x-inrush-csrf: {csrf}\r\n");
    assert_eq!(post(""), 403);
    assert_eq!(post(&line("")), 403);
    assert_eq!(post(&line(&other.csrf)), 403);
    assert_eq!(post(&line(&one.csrf[..63])), 403);
    assert_eq!(
        post(&format!(
            "origin: http://evil.example\r\n{}",
            line(&one.csrf)
        )),
        403
    );
    assert_eq!(post(&line(&one.csrf)), 200);
    assert_eq!(ask(at, "POST", "/api/v1/logout", &one.cookie).status, 403);
    assert!(one.is_good(at), "a logout is a change too");
}

#[test]
fn a_planted_cookie_is_never_taken_over() {
    let server = locked();
    let at = server.local_addr();
    let port = at.port();
    let planted = format!("cookie: inrush-{port}={}\r\n", "a".repeat(64));
    let login = login_with(at, PASSWORD, &planted);
    let session = Session::of(at, &login);
    assert!(!session.cookie.contains(&"a".repeat(64)));
    assert_eq!(ask(at, "GET", "/api/v1/ledger", &planted).status, 401);

    let again = login_with(at, PASSWORD, &session.cookie);
    let second = Session::of(at, &again);
    assert_ne!(session.cookie, second.cookie);
    assert!(
        second.is_good(at) && !session.is_good(at),
        "the one before ended"
    );
    let wrong = login_with(at, "wrong horse", &second.cookie);
    assert!(
        wrong.status == 401 && second.is_good(at),
        "a wrong password ends none"
    );
}

#[test]
fn a_token_opens_everything_and_needs_no_csrf() {
    let tokens = options(None, &["x".repeat(32).as_str(), TOKEN]);
    let server = opened_by(tokens, StandIn::default());
    let at = server.local_addr();
    assert_eq!(ask(at, "GET", "/api/v1/ledger", &bearer(TOKEN)).status, 200);
    let lower = format!("Authorization: bearer  {TOKEN}\r\n");
    assert_eq!(ask(at, "POST", "/api/v1/reload", &lower).status, 200);
    for wrong in [
        bearer(""),
        bearer(&TOKEN[1..]),
        bearer(&TOKEN[..31]),
        bearer(&format!("{TOKEN}0")),
        bearer(&TOKEN.to_uppercase()),
        format!("authorization: {TOKEN}\r\n"),
        format!("authorization: Basic {TOKEN}\r\n"),
        format!("x-inrush-token: {TOKEN}\r\n"),
        format!("cookie: inrush-{}={TOKEN}\r\n", at.port()),
    ] {
        assert_eq!(
            ask(at, "GET", "/api/v1/ledger", &wrong).status,
            401,
            "{wrong}"
        );
    }
    assert_eq!(
        get(at, &format!("/api/v1/ledger?token={TOKEN}")).status,
        401
    );
    let login = login_with(at, TOKEN, "");
    assert_eq!(login.status, 403, "a token is no password");
}

#[test]
fn a_wrong_token_is_not_made_good_by_a_session_but_a_proxys_password_does_no_harm() {
    let server = locked();
    let at = server.local_addr();
    let session = Session::begin(at);
    let both = |line: &str| format!("{}{line}", session.cookie);
    let wrong = ask(at, "GET", "/api/v1/ledger", &both(&bearer("wrong")));
    assert_eq!(wrong.status, 401);
    let basic = both("authorization: Basic dXNlcjpwdw==\r\n");
    assert_eq!(ask(at, "GET", "/api/v1/ledger", &basic).status, 200);
}

#[test]
fn guessing_gets_slow_for_the_right_password_too() {
    let server = locked();
    let at = server.local_addr();
    for _ in 0..3 {
        let wrong = login_with(at, "wrong horse", "");
        assert_eq!((wrong.status, wrong.header("set-cookie")), (401, None));
    }
    let later = login_with(at, PASSWORD, "");
    assert_eq!(later.status, 429);
    let wait: u64 = later.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    assert_eq!(get(at, "/api/v1/ledger").status, 401);
    let page = ask(at, "GET", "/metrics", &bearer(TOKEN)).body;
    for line in [
        "inrush_admin_logins_total{result=\"refused\"} 3",
        "inrush_admin_logins_total{result=\"throttled\"} 1",
        "inrush_admin_requests_refused_total{reason=\"login\"} 1",
    ] {
        assert!(page.contains(line), "{line} in {page}");
    }
}

#[test]
fn a_login_that_is_none_is_refused_without_an_echo() {
    let server = locked();
    let at = server.local_addr();
    let json = "content-type: application/json\r\n";
    let attack = r#"{"password":"<script>hacked()</script>"}"#;
    let large = format!(r#"{{"password":"{}"}}"#, "x".repeat(100_000));
    for (headers, body, status) in [
        ("", attack, 415),
        ("content-type: text/plain\r\n", attack, 415),
        (
            "content-type: application/x-www-form-urlencoded\r\n",
            "password=x",
            415,
        ),
        (json, "", 400),
        (json, "<script>hacked()</script>", 400),
        (json, r#"{"password":["<script>hacked()</script>"]}"#, 400),
        (json, r#"{"password":null}"#, 400),
        (json, "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", 400),
        (json, &large, 413),
        (json, attack, 401),
    ] {
        let answer = send(at, "POST", "/api/v1/login", headers, body);
        assert_eq!(answer.status, status, "{headers}{body:.60}");
        assert!(!answer.body.contains("hacked"), "{}", answer.body);
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    }
    assert_eq!(get(at, "/api/v1/login").status, 405);
}

#[test]
fn a_login_that_never_arrives_is_given_up() {
    let limits = ServerLimits {
        body: Duration::from_millis(50),
        ..ServerLimits::default()
    };
    let admin = Arc::new(StandIn::default());
    let server = start_within(&options(Some(PASSWORD), &[]), admin, None, limits).unwrap();
    let at = server.local_addr();
    let mut slow = TcpStream::connect(at).unwrap();
    let head = format!(
        "POST /api/v1/login HTTP/1.1\r\nhost: {at}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: 30\r\n\r\n{{\"passw"
    );
    slow.write_all(head.as_bytes()).unwrap();
    assert_eq!(read_answer(slow).status, 408);
}

#[test]
fn a_reload_changes_the_keys_and_ends_what_was_opened_with_the_old_ones() {
    let admin = Arc::new(StandIn::default());
    let new_token = "fedcba9876543210fedcba9876543210";
    let server = start(
        &options(Some(PASSWORD), &[TOKEN]),
        Arc::clone(&admin) as _,
        None,
    )
    .unwrap();
    let at = server.local_addr();
    let session = Session::begin(at);

    // Another token: sessions go on.
    *admin.options.lock().unwrap() = options(Some(PASSWORD), &[new_token]);
    assert_eq!(
        ask(at, "POST", "/api/v1/reload", &bearer(TOKEN)).status,
        200
    );
    assert_eq!(ask(at, "GET", "/ledger", &bearer(TOKEN)).status, 401);
    assert_eq!(ask(at, "GET", "/ledger", &bearer(new_token)).status, 200);
    assert!(session.is_good(at));

    // Another password, by a signal rather than over the API.
    *admin.options.lock().unwrap() = options(Some("battery staple"), &[new_token]);
    server
        .follow(Ok(inrush_pipeline::ReloadReport::default()))
        .unwrap();
    assert!(!session.is_good(at));
    assert_eq!(login_with(at, PASSWORD, "").status, 401);
    assert_eq!(login_with(at, "battery staple", "").status, 204);
}
