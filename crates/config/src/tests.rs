//! Broken configurations and exactly what is said of them; hostile ones; the fresh reference.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use proptest::prelude::*;

use super::*;

fn environment(name: &str) -> Option<String> {
    match name {
        "PORT" => Some("5514".into()),
        "TOKEN" => Some("s3cr3t".into()),
        "INJECT" => Some("main\nsourcetype: evil, extra: [1]".into()),
        "SIZE" => Some("hunter2".into()),
        _ => None,
    }
}

/// Reads a file without the checks of other rooms.
fn load(path: &Path, env: VariableLookup<'_>) -> Result<Config, FileProblems> {
    load_with(path, env, |_, _, _| ())
}

fn check(text: &str) -> Result<Config, FileProblems> {
    parse(text, "t.yaml", &environment)
}

/// Asserts that exactly these problems are found, each as `line:column: message`.
#[track_caller]
pub(super) fn finds(text: &str, expected: &[&str]) {
    let found = check(text).expect_err("problems").to_string();
    let found: Vec<_> = found
        .lines()
        .map(|l| l.strip_prefix("t.yaml:").unwrap())
        .collect();
    assert_eq!(found, expected, "in\n{text}");
}

/// A sound file with `source` as the options of its one source.
pub(super) fn with_source(source: &str) -> String {
    format!(
        "destinations: {{ n: {{ type: blackhole }} }}\nsources:\n  s:\n    type: syslog\n{source}"
    )
}

const SOUND: &str = "\
sources:
  s: { type: syslog, listen: [udp://127.0.0.1:5514] }
destinations:
  n: { type: blackhole }
";

#[test]
fn the_builtin_configuration_is_sound() {
    let config = Config::builtin(None).unwrap();
    assert_eq!(config.data_dir, Path::new("./inrush-data"));
    let source = config.sources["syslog"].as_syslog().unwrap();
    let listen: Vec<_> = source.listen.iter().map(ToString::to_string).collect();
    assert_eq!(listen, ["udp://0.0.0.0:5514", "tcp://0.0.0.0:5514"]);
    assert_eq!(config.admin.listen.to_string(), "127.0.0.1:8686");
    let moved = Config::builtin(Some(Path::new("/srv/in: [rush"))).unwrap();
    assert_eq!(moved.data_dir, Path::new("/srv/in: [rush"));
    assert_eq!(moved.destinations["local"].kind(), "store");
}

#[test]
fn what_is_left_out_or_empty_takes_its_default() {
    let config = check(SOUND).unwrap();
    assert_eq!(config.data_dir, Path::new("/var/lib/inrush"));
    assert_eq!(config.shutdown_timeout.to_string(), "5s");
    let source = config.sources["s"].as_syslog().unwrap();
    assert_eq!(
        (source.index.as_str(), source.sourcetype.as_str()),
        ("main", "syslog")
    );
    let empty = format!("{SOUND}queue:\nadmin:\n  listen:\ndata_dir: ~\n");
    assert_eq!(check(&empty).unwrap(), config);
}

#[test]
fn dns_servers_have_an_address_and_a_port_of_their_own_or_that_of_dns() {
    let with = |options: &str| format!("{SOUND}hosts: {{ reverse_dns: {{ {options} }} }}\n");
    let config = check(&with("servers: [192.0.2.53, \"[::1]:5353\", \"::1\"]")).unwrap();
    let servers = config.hosts.reverse_dns.servers.iter();
    let servers: Vec<_> = servers.map(ToString::to_string).collect();
    assert_eq!(servers, ["192.0.2.53:53", "[::1]:5353", "[::1]:53"]);
    assert!(!config.hosts.reverse_dns.enabled && config.hosts.keep_names);
    finds(
        &with("servers: [ns1], timeout: 5m"),
        &[
            "5:35: `ns1` is not the address of a server; write for example 192.0.2.53 or [::1]:5353",
            "5:50: `5m` is too large; `timeout` is from 10ms to 1m",
        ],
    );
}

#[test]
fn the_order_of_names_is_that_of_the_file() {
    let text = "destinations: { z: {type: blackhole}, a: {type: blackhole} }\n\
                sources: { s: { type: syslog, listen: [\"udp://[::1]:1\"] } }";
    let config = check(text).unwrap();
    assert_eq!(config.destinations.keys().collect::<Vec<_>>(), ["z", "a"]);
}

#[test]
fn broken_structure_is_located() {
    finds(
        "",
        &["1:1: the file is empty; give at least `sources` and `destinations`"],
    );
    finds(
        "# only words\n",
        &["1:1: the file is empty; give at least `sources` and `destinations`"],
    );
    finds("a\0b", &["1:2: a NUL byte; save the file as UTF-8 text"]);
    finds(
        "- a\n",
        &[
            "1:1: `` is a list; give a mapping of options; there are `data_dir`, `data_access`, `admin`, `health`, `sources`, `destinations`, `packs`, `hosts`, `transforms`, `routes`, `queue`, `workers` and `shutdown_timeout`",
        ],
    );
    finds(
        &format!("{SOUND}---\na: 1\n"),
        &["5:1: a second YAML document; keep one in a file, without a second `---`"],
    );
    finds(
        &format!("{SOUND}sources: {{}}\n"),
        &["5:1: `sources` is given twice, first on line 1; keep one"],
    );
    finds(
        &format!("{SOUND}? [a]\n: 1\n"),
        &["5:3: a list or mapping cannot be a key; write `key: value`"],
    );
    finds(
        &format!("{SOUND}data_dir: !path x\n"),
        &["5:11: YAML tags are not supported; remove `!path`"],
    );
}

#[test]
fn syntax_errors_say_where() {
    for (text, start, said) in [
        ("sources: [a", "2:1: ", "not valid YAML"),
        (
            "sources: { s: { listen: [tcp://[::]:514] } }",
            "1:",
            "write an IPv6 address in quotes",
        ),
        ("a:\n\tb: 1\n", "2:2: ", "indent with spaces"),
        ("a: b: c\n", "1:5: ", "not valid YAML"),
        ("a: \"x\n", "", "not valid YAML"),
        ("a: *none\n", "1:4: ", "not valid YAML"),
    ] {
        let found = check(text).unwrap_err().to_string();
        assert!(
            found.starts_with(&format!("t.yaml:{start}")),
            "{text:?}: {found}"
        );
        assert!(found.contains(said), "{text:?}: {found}");
    }
}

#[test]
fn unknown_keys_and_types_name_the_nearest() {
    finds(
        "sorces: {}\ndestinations: {}\n",
        &[
            "1:1: unknown key `sorces`; did you mean `sources`?",
            "2:1: `destinations` is empty; give at least one, as in `destinations: { name: { type: … } }`",
        ],
    );
    finds(
        &with_source("    lsiten: [udp://0.0.0.0:514]\n    index: x\n    colour: red\n"),
        &[
            "5:5: unknown key `lsiten` in `s`; did you mean `listen`?",
            "7:5: unknown key `colour` in `s`; the keys here are `type`, `listen`, `tls`, `udp`, `stream`, `framing`, `max_message_bytes`, `timezone`, `guess_timezone`, `max_time_skew`, `encoding`, `index`, `product` and `sourcetype`",
        ],
    );
    finds(
        "sources:\n  a: { type: sylog }\n  b: { listen: [] }\n  c: 5\n  d d: {type: kafka}\ndestinations: { n: { type: blackhole } }",
        &[
            "2:14: unknown type `sylog` of `a`; did you mean `syslog`?",
            "3:3: `b`: `type` is missing; it is `syslog`, `splunk_hec`, `file`, `journald` or `kubernetes_events`",
            "4:6: `c` is `5`; give a mapping with a `type`: `syslog`, `splunk_hec`, `file`, `journald` or `kubernetes_events`",
            "5:3: `d d` cannot be a name; take up to 64 letters, digits, `_`, `-` and `.`, beginning with a letter or digit",
            "5:15: unknown type `kafka` of `d d`; there are `syslog`, `splunk_hec`, `file`, `journald` and `kubernetes_events`",
        ],
    );
    finds(
        &format!("{SOUND}pipelines: []\n"),
        &[
            "5:1: unknown key `pipelines`; the keys here are `data_dir`, `data_access`, `admin`, `health`, `sources`, `destinations`, `packs`, `hosts`, `transforms`, `routes`, `queue`, `workers` and `shutdown_timeout`",
        ],
    );
}

#[test]
fn wrong_values_say_what_to_give() {
    let listen = "    listen: [udp://127.0.0.1:1]\n";
    finds(
        &format!("{SOUND}queue: {{ memory_bytes: 1k }}\n"),
        &["5:24: `1k` is too small; `memory_bytes` is at least 4MiB"],
    );
    let one = |option: &str, expected: &str| {
        finds(
            &with_source(&format!("{listen}    {option}\n")),
            &[expected],
        );
    };
    one("index: [a]", "6:12: `index` is a list; give text");
    one("index: ''", "6:12: `index` is empty; give text");
    one(
        "framing: nl",
        "6:14: `framing` is `nl`; give `auto`, `newline` or `octet_counting`",
    );
    one(
        "framing: newlines",
        "6:14: `framing` is `newlines`; did you mean `newline`? It is `auto`, `newline` or `octet_counting`",
    );
    one(
        "udp: 5",
        "6:10: `udp` is `5`; give a mapping of options; there are `sockets`, `balance` and `receive_buffer`",
    );
    one(
        "udp: { sockets: many }",
        "6:21: `sockets` is `many`; give `auto` or a whole number, from 1 to 256",
    );
    one(
        "udp: { sockets: 0 }",
        "6:21: `sockets` is `0`; give `auto` or a whole number, from 1 to 256",
    );
    one(
        "udp: { receive_buffer: 5 apples }",
        "6:28: `5 apples` is not a size; write for example 64KiB or 4MB",
    );
    one(
        "stream: { idle_timeout: -5s }",
        "6:29: `-5s` is not a duration; write for example 300ms, 5s or 10m",
    );
    one(
        "stream: { max_connections: \"5\" }",
        "6:32: `max_connections` is `5`; give a whole number, at least 1",
    );
    one(
        "timezone: Mars/Phobos",
        "6:15: `Mars/Phobos` is not a time zone known here; write an IANA name such as Europe/Berlin, `local`, or an offset such as +02:00",
    );
    one(
        "max_message_bytes: 10",
        "6:24: `10` is too small; `max_message_bytes` is from 480 to 1MiB",
    );
}

#[test]
fn wrong_addresses_are_named() {
    finds(
        &with_source("    listen: [udp://0.0.0.0:99999, 0.0.0.0:514, http://1.1.1.1:1]\n"),
        &[
            "5:14: port `99999` is out of range; a port is a number from 1 to 65535",
            "5:35: `0.0.0.0:514` does not say which transport; write udp://0.0.0.0:514, tcp://0.0.0.0:514, tls://0.0.0.0:514, relp://0.0.0.0:514 or relps://0.0.0.0:514",
            "5:48: `http://` is not a transport; use udp://, tcp://, tls://, relp:// or relps://",
        ],
    );
    finds(
        &with_source("    listen: udp://0.0.0.0:514\n"),
        &["5:13: `listen` is `udp://0.0.0.0:514`; give a list: listen: [\"udp://0.0.0.0:514\"]"],
    );
    finds(
        &with_source("    listen: []\n"),
        &["5:13: `listen` is empty; list at least 1, as in [udp://0.0.0.0:514]"],
    );
    finds(
        &with_source("    index: main\n"),
        &["3:3: `s`: `listen` is missing; give a list such as [udp://0.0.0.0:514]"],
    );
    finds(
        &format!("{SOUND}admin: {{ listen: localhost }}\n"),
        &[
            "5:18: `localhost` is not an address and port; write for example 127.0.0.1:8686 or [::1]:8686",
        ],
    );
}

#[test]
fn listeners_that_cannot_both_be_bound_are_told_apart() {
    let text = "\
admin: { listen: 127.0.0.1:8686 }
health: { listen: 0.0.0.0:8686 }
sources:
  a: { type: syslog, listen: [udp://0.0.0.0:1, tcp://127.0.0.1:1, tcp://127.0.0.2:1] }
  b:
    type: syslog
    listen:
    - udp://127.0.0.1:1
    - udp://127.0.0.1:0
    - udp://127.0.0.1:0
    - tls://127.0.0.2:1
    - tcp://[::]:8686
    tls: { cert_file: c, key_file: k }
destinations: { n: { type: blackhole } }
";
    finds(
        text,
        &[
            "2:19: `0.0.0.0:8686` collides with `127.0.0.1:8686` of `admin`; give each its own port",
            "8:7: `udp://127.0.0.1:1` collides with `udp://0.0.0.0:1` of `a`; give each its own port",
            "11:7: `tls://127.0.0.2:1` collides with `tcp://127.0.0.2:1` of `a`; give each its own port",
            "12:7: `tcp://[::]:8686` collides with `127.0.0.1:8686` of `admin`; give each its own port",
        ],
    );
}

#[test]
fn of_listeners_that_collide_the_wider_one_is_enough() {
    for (one, other, remedy) in [
        (
            "udp://0.0.0.0:5",
            "udp://[::]:5",
            "`udp://[::]:5` alone takes both: remove `udp://0.0.0.0:5`",
        ),
        (
            "udp://[::]:5",
            "udp://0.0.0.0:5",
            "`udp://[::]:5` alone takes both: remove `udp://0.0.0.0:5`",
        ),
        (
            "tcp://[::]:5",
            "tcp://0.0.0.0:5",
            "`tcp://[::]:5` alone takes both: remove `tcp://0.0.0.0:5`",
        ),
        (
            "udp://0.0.0.0:5",
            "udp://127.0.0.1:5",
            "`udp://0.0.0.0:5` alone takes both: remove `udp://127.0.0.1:5`",
        ),
        (
            "udp://127.0.0.1:5",
            "udp://0.0.0.0:5",
            "`udp://0.0.0.0:5` alone takes both: remove `udp://127.0.0.1:5`",
        ),
        (
            "udp://[::1]:5",
            "udp://[::]:5",
            "`udp://[::]:5` alone takes both: remove `udp://[::1]:5`",
        ),
        (
            "udp://127.0.0.1:5",
            "udp://[::]:5",
            "`udp://[::]:5` alone takes both: remove `udp://127.0.0.1:5`",
        ),
        ("udp://[::]:5", "udp://[::]:5", "remove one of the two"),
        ("tcp://0.0.0.0:5", "relp://[::]:5", "give each its own port"),
        (
            "tcp://127.0.0.1:5",
            "relp://127.0.0.1:5",
            "give each its own port",
        ),
    ] {
        let text = format!(
            "sources: {{ s: {{ type: syslog, listen: ['{one}', '{other}'] }} }}\n\
             destinations: {{ n: {{ type: blackhole }} }}\n"
        );
        let at = 1 + text.find(&format!("'{other}'] ")).unwrap();
        finds(
            &text,
            &[&format!(
                "1:{at}: `{other}` collides with `{one}` of `s`; {remedy}"
            )],
        );
    }
}

#[test]
fn two_destinations_do_not_write_to_one_place() {
    let text = "\
data_dir: /var/lib/nowhere
sources: { s: { type: syslog, listen: [udp://127.0.0.1:1] } }
destinations:
  a: { type: store }
  b: { type: store, path: ./store/ }
  c: { type: store, path: /var/lib/nowhere/x/../store/inner }
  d: { type: file, path: out/all.log }
  e: { type: file, path: /var/lib/nowhere/out/all.log }
  f: { type: file, path: out/other.log }
";
    finds(
        text,
        &[
            "5:27: `path` of `b` and of `a` lead to one folder (/var/lib/nowhere/store), and a \
             store has one writer; give each a folder of its own",
            "6:27: `path` of `c` and of `a` lead to one folder (/var/lib/nowhere/store/inner), and \
             a store has one writer; give each a folder of its own",
            "8:26: `path` of `e` and of `d` name one file (/var/lib/nowhere/out/all.log); give \
             each a file of its own",
        ],
    );
}

#[test]
fn tls_needs_its_files() {
    finds(
        &with_source("    listen: [\"tcp://[::1]:1\", \"tls://[::1]:2\"]\n"),
        &[
            "5:31: `s` listens for TLS without a certificate; add `tls: { cert_file: …, key_file: … }`",
        ],
    );
    finds(
        &with_source("    listen: [\"relp://[::1]:1\", \"relps://[::1]:2\"]\n"),
        &[
            "5:32: `s` listens for TLS without a certificate; add `tls: { cert_file: …, key_file: … }`",
        ],
    );
    finds(
        &with_source("    listen: [\"tls://[::1]:2\"]\n    tls: { cert_file: c }\n"),
        &["6:5: `tls`: `key_file` is missing; give text"],
    );
    finds(
        &with_source(
            "    listen: [\"tls://[::1]:2\"]\n    tls: { cert_file: c, key_file: k, client_auth: required }\n",
        ),
        &["6:52: client certificates need the authority that signs them; add `client_ca_file`"],
    );
}

#[test]
fn variables_fill_one_value_and_no_more() {
    let text = with_source(
        "    listen: [udp://127.0.0.1:${PORT}, \"udp://127.0.0.1:1${PORT:-}\"]\n    index: ${INJECT}\n    sourcetype: a$$b ${NONE:-c: d}\n    udp: { sockets: ${N:-auto} }\n",
    );
    let config = check(&text).unwrap();
    let source = config.sources["s"].as_syslog().unwrap();
    assert_eq!(source.listen[0].to_string(), "udp://127.0.0.1:5514");
    assert_eq!(source.listen[1].to_string(), "udp://127.0.0.1:15514");
    assert_eq!(source.index, "main\nsourcetype: evil, extra: [1]");
    assert_eq!(source.sourcetype, "a$b c: d");
}

#[test]
fn a_missing_variable_is_located_where_it_stands() {
    finds(
        &with_source(
            "    listen: [\"udp://${HOST}:${PORT}\"]\n    index: é ${A}${B}\n    sourcetype: |\n      x\n      y ${C\n",
        ),
        &[
            "5:21: the environment has no variable `HOST`; set it, or write ${HOST:-default}",
            "6:14: the environment has no variable `A`; set it, or write ${A:-default}",
            "6:18: the environment has no variable `B`; set it, or write ${B:-default}",
            "9:9: `${` without its `}`; close it, or write `$$` for a dollar sign",
        ],
    );
}

#[test]
fn no_problem_quotes_what_a_variable_holds() {
    let listen = "    listen: [\"${TOKEN}\"]\n    max_message_bytes: ${SIZE}\n    framing: ${SIZE}\n    udp: { sockets: \"${SIZE}\" }\n    tls: ${SIZE}\n    type: x\n";
    let found = check(&with_source(listen)).unwrap_err().to_string();
    assert!(
        !found.contains("s3cr3t") && !found.contains("hunter2"),
        "{found}"
    );
    assert!(found.contains("t.yaml:5:14: `listen`: the value of `${TOKEN}` is not usable; it must be text such as udp://0.0.0.0:514"), "{found}");
    assert!(
        found.contains("t.yaml:7:14: `framing` is `${SIZE}`; give `auto`"),
        "{found}"
    );
}

#[test]
fn aliases_work_and_bombs_do_not() {
    let text = "\
sources:
  a: { type: syslog, listen: [udp://127.0.0.1:1], stream: &s { keepalive: 5s } }
  b: { type: syslog, listen: [udp://127.0.0.1:2], stream: *s }
destinations: { n: { type: blackhole } }
";
    let config = check(text).unwrap();
    let source = config.sources["b"].as_syslog().unwrap();
    assert_eq!(source.stream.keepalive.to_string(), "5s");

    let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for level in 1..30 {
        let before = format!("*a{},", level - 1).repeat(10);
        bomb.push_str(&format!("a{level}: &a{level} [{before}]\n"));
    }
    let found = check(&bomb).unwrap_err().to_string();
    assert!(
        found.contains("once aliases and variables are filled in"),
        "{found}"
    );

    let text = format!(
        "a: &a {}\nb: [{}]\n",
        "x".repeat(100_000),
        "*a,".repeat(1000)
    );
    let found = check(&text).unwrap_err().to_string();
    assert!(
        found.contains("once aliases and variables are filled in"),
        "{found}"
    );
}

#[test]
fn depth_is_bounded() {
    for text in ["[".repeat(100_000), "- ".repeat(10_000), "{a: ".repeat(50)] {
        let found = check(&text).unwrap_err().to_string();
        assert!(
            found.contains("nested deeper") || found.contains("not valid YAML"),
            "{found}"
        );
    }
}

#[test]
fn problems_are_bounded_and_printable() {
    let text: String = (0..5000).map(|n| format!("\"k{n}\\e[31m\": 1\n")).collect();
    let problems = check(&text).unwrap_err();
    assert!(problems.iter().count() <= 200);
    assert!(!problems.to_string().contains('\u{1b}'));
}

#[test]
fn a_file_is_read_with_its_certificates() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("inrush.yaml");
    let junk = dir.path().join("junk.pem");
    std::fs::write(&junk, "junk").unwrap();
    let tls = format!(
        "    tls: {{ cert_file: /no/such/c, key_file: {} }}\n",
        junk.display()
    );
    let text = with_source("    listen: [\"tls://[::1]:2\"]\n") + &tls;
    std::fs::write(&path, text).unwrap();
    let problems = load(&path, &environment).unwrap_err();
    let [problem] = problems.iter().as_slice() else {
        panic!("{problems}")
    };
    assert_eq!((problem.line, problem.column), (6, 23));
    assert!(
        problem
            .message
            .starts_with("`cert_file` `/no/such/c` cannot be read: No such file"),
        "{problems}"
    );

    let text = with_source("    listen: [\"tls://[::1]:2\"]\n")
        + &tls.replace("/no/such/c", &junk.display().to_string());
    std::fs::write(&path, text).unwrap();
    let problems = load(&path, &environment).unwrap_err().to_string();
    assert!(
        problems.contains(":6:23: `cert_file` `") && problems.contains("holds no certificate"),
        "{problems}"
    );
}

#[test]
fn a_destination_is_checked_as_a_source_is() {
    let text = "\
sources:
  s: { type: syslog, listen: [udp://127.0.0.1:1] }
destinations:
  a: { type: splunk_hec, endpoints: [], token: \"${TOKEN}\" }
  b: { type: splunk_hec, endpoints: [https://i:1, \"ftp://${TOKEN}\"], token: t, batch: { max_events: 0 } }
  c: { type: file, path: \"x/{hots}.log\", rotate: { max_bytes: 1, evry: 1h } }
";
    let found = check(text).unwrap_err().to_string();
    assert!(
        found.contains("t.yaml:6:66: unknown key `evry` in `rotate`; did you mean `every`?"),
        "{found}"
    );
    let found = check(&text.replace(", evry: 1h", ""))
        .unwrap_err()
        .to_string();
    for start in [
        "4:37: `endpoints` ",
        "5:51: `endpoints[1]` ",
        "5:101: `batch.max_events` ",
        "6:26: `path` ",
        "6:63: `rotate.max_bytes` ",
    ] {
        assert!(
            found.contains(&format!("t.yaml:{start}of `")),
            "{start}: {found}"
        );
    }
    assert!(!found.contains("s3cr3t"), "{found}");
}

#[test]
fn the_files_of_a_destination_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let (path, junk) = (dir.path().join("inrush.yaml"), dir.path().join("junk.pem"));
    std::fs::write(&junk, "junk").unwrap();
    let hec = "{ type: splunk_hec, endpoints: [https://i:1], token: t, tls: { ca_file: CA } }";
    for (ca, said) in [
        ("/no/such", "`ca_file` `/no/such` cannot be read: No such"),
        (junk.to_str().unwrap(), "junk.pem"),
    ] {
        std::fs::write(
            &path,
            with_source("    listen: [udp://127.0.0.1:1]\n")
                .replace("{ type: blackhole }", &hec.replace("CA", ca)),
        )
        .unwrap();
        let found = load(&path, &environment).unwrap_err().to_string();
        assert!(
            found.contains(".yaml:1:92: ") && found.contains(said),
            "{found}"
        );
    }
    assert_eq!(
        std::fs::read_dir(dir.path()).unwrap().count(),
        2,
        "nothing is created"
    );
}

#[test]
fn a_file_that_is_no_text_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("inrush.yaml");
    let found = load(&path, &environment).unwrap_err().to_string();
    assert!(
        found.contains("inrush.yaml:1:1: the configuration cannot be read: No such file"),
        "{found}"
    );
    std::fs::write(&path, b"a: b\nc: \xff\n").unwrap();
    let found = load(&path, &environment).unwrap_err().to_string();
    assert!(found.contains("inrush.yaml:2:4: not UTF-8"), "{found}");
    std::fs::write(&path, vec![b'#'; 2_000_000]).unwrap();
    let found = load(&path, &environment).unwrap_err().to_string();
    assert!(found.contains("larger than"), "{found}");
    assert!(load(dir.path(), &environment).is_err());
    std::fs::write(&path, format!("\u{feff}{SOUND}")).unwrap();
    load(&path, &environment).unwrap();
}

#[test]
fn every_option_is_described() {
    fn walk(path: &str, schema: &Value) {
        for (name, option) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            let described = option["description"]
                .as_str()
                .is_some_and(|text| !text.is_empty());
            assert!(described || name == "type", "{path} has no description");
            assert!(option.get("$ref").is_none(), "{path}");
            walk(&path, option);
        }
        for variant in schema["additionalProperties"]["oneOf"]
            .as_array()
            .into_iter()
            .flatten()
        {
            walk(
                &format!("{path}[{}]", variant["properties"]["type"]["const"]),
                variant,
            );
        }
    }
    walk("", &schema());
}

/// The committed pages say what the options say.
#[test]
fn the_reference_is_fresh() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    let schema = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
    let pack = serde_json::to_string_pretty(&inrush_packs::schema()).unwrap() + "\n";
    for (file, fresh) in [
        ("inrush.schema.json", schema),
        ("pack.schema.json", pack),
        ("configuration.md", reference_markdown()),
    ] {
        let committed = std::fs::read_to_string(docs.join(file)).unwrap_or_default();
        assert!(
            committed == fresh,
            "docs/reference/{file} is stale: run `make docs` and commit it"
        );
    }
}

/// Text that looks enough like a configuration to get past the YAML parser.
fn almost_yaml() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "sources",
        "destinations",
        "type",
        "syslog",
        "listen",
        "tls",
        "queue",
        ":",
        ": ",
        "\n",
        "\n  ",
        "- ",
        "[",
        "]",
        "{",
        "}",
        ",",
        "${PORT}",
        "${",
        "$$",
        "&a ",
        "*a",
        "!t ",
        "|\n",
        "\"",
        "'",
        "#",
        "---\n",
        "\t",
        "é",
        "0x",
        "null",
        "? ",
        "%",
        "@",
        "\r",
        "udp://0.0.0.0:1",
    ]);
    prop::collection::vec(word, 0..40).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn any_text_is_read_without_panic(text in any::<String>()) {
        if let Err(problems) = check(&text) {
            prop_assert!(problems.iter().count() > 0);
        }
    }

    #[test]
    fn any_likely_text_is_read_without_panic(text in almost_yaml()) {
        for changed in [text.clone(), format!("{SOUND}{text}"), format!("{text}{SOUND}")] {
            for problem in check(&changed).err().iter().flat_map(FileProblems::iter) {
                prop_assert!(problem.line >= 1 && problem.column >= 1);
                prop_assert!(problem.line <= changed.split(['\n', '\r']).count() + 1);
            }
        }
    }
}
