//! The health listener: yes or no, bounded, for everybody.

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::Ordering::Relaxed;

use inrush_config::HealthOptions;

use super::*;

fn health_at(listen: SocketAddr) -> HealthOptions {
    HealthOptions {
        listen: AdminAddr(listen),
        max_age: None,
        max_backlog: None,
    }
}

fn with_health(unhealthy: bool) -> StandIn {
    StandIn {
        unhealthy,
        health: Some(health_at("127.0.0.1:0".parse().unwrap())).into(),
        ..StandIn::default()
    }
}

#[test]
fn it_says_yes_or_no_and_nothing_else() {
    for (unhealthy, said) in [(false, (200, "yes")), (true, (503, "no"))] {
        let server = serve(with_health(unhealthy));
        let health = server.health_addr().unwrap();
        let asked = |path| {
            let answer = get(health, path);
            (answer.status, answer.body)
        };
        let yes = (200, "yes".to_owned());
        let said = (said.0, said.1.to_owned());
        assert_eq!(asked("/health"), said);
        assert_eq!(asked("/healthz?verbose"), said);
        // The edge that is ill is a destination: events are accepted.
        assert_eq!(asked("/readyz"), yes);
        assert_eq!(asked("/livez"), yes);
        server.stopping();
        let no = (503, "no".to_owned());
        assert_eq!(asked("/health"), no);
        assert_eq!(asked("/healthz"), no);
        assert_eq!(asked("/readyz"), no);
        assert_eq!(asked("/livez"), yes);
    }
}

#[test]
fn it_has_no_other_path_and_takes_no_change() {
    let server = serve(with_health(false));
    let health = server.health_addr().unwrap();
    for path in [
        "/",
        "/metrics",
        "/api/v1/ledger",
        "/health/",
        "/livez/x",
        "/HEALTH",
        "//",
    ] {
        let answer = get(health, path);
        assert_eq!((answer.status, answer.body.as_str()), (404, ""), "{path}");
    }
    let reload = ask(health, "POST", "/api/v1/reload", "");
    assert_eq!((reload.status, reload.body.as_str()), (404, ""));
    let post = ask(health, "POST", "/health", "");
    assert_eq!((post.status, post.body.as_str()), (405, ""));
    let head = ask(health, "HEAD", "/health", "");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    let answer = get(health, "/health");
    assert_eq!(answer.header("server"), None);
    assert_eq!(answer.header("cache-control"), Some("no-store"));
}

#[test]
fn many_questions_are_one_to_the_pipeline() {
    let admin = with_health(false);
    let verdicts = Arc::clone(&admin.verdicts);
    let server = serve(admin);
    let health = server.health_addr().unwrap();
    let begin = std::time::Instant::now();
    for _ in 0..200 {
        assert_eq!(get(health, "/readyz").status, 200);
    }
    let seconds = begin.elapsed().as_secs() as i64;
    let asked = verdicts.load(Relaxed);
    assert!((1..=1 + seconds).contains(&asked), "{asked} in {seconds} s");
}

#[test]
fn slow_clients_make_room() {
    const HOUR: Duration = Duration::from_secs(3600);
    let limits = ServerLimits {
        health_connections: 8,
        head: HOUR,
        connection: HOUR,
        ..ServerLimits::default()
    };
    let server = serve_within(with_health(false), limits);
    let health = server.health_addr().unwrap();
    let mut slow = Vec::new();
    for _ in 0..64 {
        let mut stream = TcpStream::connect(health).unwrap();
        stream.write_all(b"GET /health HTTP/1.1\r\nx: ").unwrap();
        slow.push(stream);
    }
    // None of them ends by itself for an hour.
    for _ in 0..8 {
        assert_eq!(get(health, "/health").body, "yes");
    }
    let ended = slow.iter_mut().take(32).all(|stream| {
        // A reset is an end too.
        stream.read(&mut [0; 1]).map_or(true, |n| n == 0)
    });
    assert!(ended);
}

#[test]
fn a_head_without_measure_is_refused() {
    let server = serve(with_health(false));
    let health = server.health_addr().unwrap();
    let long = format!("x: {}\r\n", "y".repeat(16 * 1024));
    assert_eq!(ask(health, "GET", "/health", &long).status, 431);
    let many: String = (0..200).map(|i| format!("x-{i}: y\r\n")).collect();
    assert_eq!(ask(health, "GET", "/health", &many).status, 431);
    assert_eq!(get(health, "/health").status, 200);
}

/// A server whose options the test changes, with a reload over the API.
struct Reloaded {
    admin: Arc<StandIn>,
    server: AdminServer,
}

impl Reloaded {
    fn start() -> Self {
        let admin = Arc::new(with_health(false));
        let server = start(&local(), Arc::clone(&admin) as _, None).unwrap();
        Self { admin, server }
    }

    fn to(&self, listen: Option<SocketAddr>) -> Answer {
        *self.admin.health.lock().unwrap() = listen.map(health_at);
        ask(self.server.local_addr(), "POST", "/api/v1/reload", "")
    }
}

#[test]
fn a_reload_moves_closes_and_opens_it() {
    let one = Reloaded::start();
    let first = one.server.health_addr().unwrap();
    // The same port of all addresses: the old listener has to go first.
    let everywhere = SocketAddr::from(([0, 0, 0, 0], first.port()));
    assert_eq!(one.to(Some(first)).status, 200);
    assert_eq!(one.to(Some(everywhere)).status, 200);
    assert_eq!(one.server.health_addr(), Some(everywhere));
    assert_eq!(get(first, "/health").body, "yes");

    assert_eq!(one.to(None).status, 200);
    assert_eq!(one.server.health_addr(), None);
    assert!(TcpStream::connect(first).is_err());

    assert_eq!(one.to(Some(first)).status, 200);
    assert_eq!(get(first, "/health").body, "yes");
}

#[test]
fn an_address_in_use_leaves_the_old_one_open() {
    let one = Reloaded::start();
    let first = one.server.health_addr().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken_at = taken.local_addr().unwrap();
    let answer = one.to(Some(taken_at));
    assert_eq!(answer.status, 400);
    let problems = answer.json()["problems"].clone();
    let said = problems[0].as_str().unwrap();
    let start = format!("health.listen: cannot listen on {taken_at}: ");
    assert!(said.starts_with(&start), "{said}");
    assert_eq!(get(first, "/health").body, "yes");
    // The next reload tries again.
    drop(taken);
    assert_eq!(one.to(Some(taken_at)).status, 200);
    assert_eq!(get(taken_at, "/health").body, "yes");
    assert!(TcpStream::connect(first).is_err());
}

#[test]
fn an_address_in_use_at_the_start_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let admin = StandIn {
        health: Some(health_at(taken.local_addr().unwrap())).into(),
        ..StandIn::default()
    };
    let error = start(&local(), Arc::new(admin), None).err().unwrap();
    assert!(
        error.to_string().ends_with("; set health.listen"),
        "{error}"
    );
}
