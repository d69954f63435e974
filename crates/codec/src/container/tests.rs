//! Each form of a line, and each way in which one is none, by example.

use super::*;
use inrush_event::Timestamp;

/// 2026-11-25T07:21:33Z.
const SECOND: i64 = 1_795_591_293_000_000_000;

const STDOUT: LogStream = LogStream::Stdout;
const STDERR: LogStream = LogStream::Stderr;

/// Time, offset, stream, whether it goes on, and text of a CRI line.
fn cri(line: &[u8]) -> Result<(i64, i16, LogStream, bool, Vec<u8>), CriFault> {
    let found = parse_cri(line)?;
    let mut text = Vec::new();
    found.text(line).push(&mut text);
    Ok((
        found.time.0,
        found.zone_minutes,
        found.stream,
        found.partial,
        text,
    ))
}

/// Time, stream, whether it is complete, text and attributes of a line of Docker's.
fn docker(line: &str) -> Result<(i64, LogStream, bool, String, &str), DockerFault> {
    let found = parse_docker(line.as_bytes())?;
    let mut text = Vec::new();
    found.text(line.as_bytes()).push(&mut text);
    let attrs = str::from_utf8(found.attrs.of(line.as_bytes())).unwrap();
    let text = String::from_utf8(text).unwrap();
    Ok((found.time.0, found.stream, found.complete, text, attrs))
}

#[test]
fn cri_lines_of_every_form() {
    let nanos = SECOND + 334_681_670;
    for (line, wanted) in [
        (
            &b"2026-11-25T07:21:33.33468167Z stdout F one"[..],
            (nanos, 0, STDOUT, false, &b"one"[..]),
        ),
        (
            b"2026-11-25T07:21:33Z stderr P two ",
            (SECOND, 0, STDERR, true, b"two "),
        ),
        (
            b"2026-11-25T09:21:33.5+02:00 stdout F  blank",
            (SECOND + 500_000_000, 120, STDOUT, false, b" blank"),
        ),
        (
            b"2026-11-25T03:51:33.000000001-03:30 stdout P:x F",
            (SECOND + 1, -210, STDOUT, true, b"F"),
        ),
        (
            b"2026-11-25T07:21:33Z stdout F:a:b text",
            (SECOND, 0, STDOUT, false, b"text"),
        ),
        (
            b"2026-11-25T07:21:33Z stdout F ",
            (SECOND, 0, STDOUT, false, b""),
        ),
        (
            b"2026-11-25T07:21:33Z stdout F",
            (SECOND, 0, STDOUT, false, b""),
        ),
        (
            b"2026-11-25T07:21:33Z stdout P:x",
            (SECOND, 0, STDOUT, true, b""),
        ),
        (
            b"2026-11-25T07:21:33Z stdout F \xff\0\r",
            (SECOND, 0, STDOUT, false, b"\xff\0\r"),
        ),
        (
            b"0001-01-01T00:00:00Z stdout F old",
            (Timestamp::NONE.0, 0, STDOUT, false, b"old"),
        ),
        (
            b"2026-02-30T00:00:00Z stdout F none",
            (Timestamp::NONE.0, 0, STDOUT, false, b"none"),
        ),
    ] {
        let found = cri(line).unwrap();
        let found = (found.0, found.1, found.2, found.3, found.4.as_slice());
        assert_eq!(found, wanted, "{}", line.escape_ascii());
    }
}

#[test]
fn what_is_no_cri_line_is_told_by_its_first_wrong_field() {
    for (line, fault) in [
        (&b""[..], CriFault::Time),
        (b"2026-11-25T07:21:3", CriFault::Time),
        (b"2026-11-25T07:21:33Z", CriFault::Time),
        (b"2026-11-25T07:21:33 stdout F no zone", CriFault::Time),
        (b"2026-11-25 07:21:33Z stdout F no T", CriFault::Time),
        (b"2026-11-25T07:21:33Zx stdout F", CriFault::Time),
        (b"2026-11-25T07:21:33Z ", CriFault::Stream),
        (b"2026-11-25T07:21:33Z stdin F x", CriFault::Stream),
        (b"2026-11-25T07:21:33Z stdout", CriFault::Stream),
        (b"2026-11-25T07:21:33Z  stdout F x", CriFault::Stream),
        (b"2026-11-25T07:21:33Z stdout ", CriFault::Tag),
        (b"2026-11-25T07:21:33Z stdout X text", CriFault::Tag),
        (b"2026-11-25T07:21:33Z stdout Full text", CriFault::Tag),
        (b"2026-11-25T07:21:33Z stdout f text", CriFault::Tag),
    ] {
        assert_eq!(cri(line), Err(fault), "{}", line.escape_ascii());
    }
}

#[test]
fn docker_lines_of_every_form() {
    let nanos = SECOND + 949_538_347;
    let time = r#""time":"2026-11-25T07:21:33.949538347Z""#;
    for (line, wanted) in [
        (
            format!(r#"{{"log":"text\n","stream":"stdout",{time}}}"#),
            (nanos, STDOUT, true, "text", ""),
        ),
        (
            format!(r#"{{"log":"a piece","stream":"stderr",{time}}}"#),
            (nanos, STDERR, false, "a piece", ""),
        ),
        (
            format!(r#"{{"log":"\n","stream":"stdout",{time}}}"#),
            (nanos, STDOUT, true, "", ""),
        ),
        (
            format!(r#"{{"log":"\u003ca\u003e\t\u0026\u2028\r\n","stream":"stdout",{time}}}"#),
            (nanos, STDOUT, true, "<a>\t&\u{2028}\r", ""),
        ),
        (
            format!(r#"{{"log":"C:\\new\\n","stream":"stdout",{time}}}"#),
            (nanos, STDOUT, false, r"C:\new\n", ""),
        ),
        (
            format!(r#"{{"log":"\\\n","stream":"stdout",{time}}}"#),
            (nanos, STDOUT, true, r"\", ""),
        ),
        (
            format!(r#"{{"log":"x\u000A","stream":"stdout",{time}}}"#),
            (nanos, STDOUT, true, "x", ""),
        ),
        (
            format!(r#"{{"log":"x\n","stream":"stdout","attrs":{{"a":"}}"}},{time}}}"#),
            (nanos, STDOUT, true, "x", r#"{"a":"}"}"#),
        ),
        (
            format!(r#" {{ {time} , "new":[1,{{}}], "stream" : "std\u006fut", "log":"x" }} "#),
            (nanos, STDOUT, false, "x", ""),
        ),
        (
            format!(r#"{{"log":7,"l\u006fg":"last","stream":"x","stream":"stderr",{time}}}"#),
            (nanos, STDERR, false, "last", ""),
        ),
        (
            r#"{"log":"x\n","stream":"stdout","attrs":null,"time":"0001-01-01T00:00:00Z"}"#.into(),
            (Timestamp::NONE.0, STDOUT, true, "x", ""),
        ),
    ] {
        let (time, stream, complete, text, attrs) = wanted;
        let wanted = Ok((time, stream, complete, text.to_owned(), attrs));
        assert_eq!(docker(&line), wanted, "{line}");
        // A file's last line may have its LF, and need not.
        let with_lf = line.clone() + "\n";
        assert_eq!(docker(&with_lf), wanted, "{with_lf}");
    }
    let plain = r#"{"log":"plain\n","stream":"stdout","time":"2026-11-25T07:21:33Z"}"#;
    assert!(!parse_docker(plain.as_bytes()).unwrap().escaped);
}

#[test]
fn what_is_no_line_of_docker_is_told_by_name() {
    let time = r#""time":"2026-11-25T07:21:33Z""#;
    for (line, fault) in [
        (String::new(), DockerFault::Cut),
        ("text".into(), DockerFault::Format),
        ("{".into(), DockerFault::Cut),
        (r#"{"log":"cut in the mid"#.to_string(), DockerFault::Cut),
        (
            format!(r#"{{"log":"x","stream":"stdout",{time}"#),
            DockerFault::Cut,
        ),
        (
            format!(r#"{{"log":"x{{"log":"y","stream":"stdout",{time}}}"#),
            DockerFault::Format,
        ),
        (
            format!(r#"{{"log":"x","stream":"stdout",{time}}}{{"#),
            DockerFault::Format,
        ),
        (
            format!("{{\"log\":\"a\tb\",\"stream\":\"stdout\",{time}}}"),
            DockerFault::Format,
        ),
        ("{}".into(), DockerFault::Log),
        (format!(r#"{{"stream":"stdout",{time}}}"#), DockerFault::Log),
        (
            format!(r#"{{"log":"x","log":null,"stream":"stdout",{time}}}"#),
            DockerFault::Log,
        ),
        (
            format!(r#"{{"log":"x","stream":"stdin",{time}}}"#),
            DockerFault::Stream,
        ),
        (r#"{"log":"x","stream":"stdout"}"#.into(), DockerFault::Time),
        (
            r#"{"log":"x","stream":"stdout","time":"2026-11-25T07:21:33Z "}"#.into(),
            DockerFault::Time,
        ),
        (
            format!(r#"{{"log":"x","stream":"stdout","attrs":[],{time}}}"#),
            DockerFault::Attrs,
        ),
        (format!(r#"{{"a":{}"#, "[".repeat(200)), DockerFault::Format),
    ] {
        assert_eq!(docker(&line), Err(fault), "{line}");
    }
}

#[test]
fn formats_are_told_from_one_line() {
    let docker = br#"{"log":"x","stream":"stdout","time":"2026-11-25T07:21:33Z"}"#;
    assert_eq!(detect(docker), Some(ContainerFormat::Docker));
    let cri = b"2026-11-25T07:21:33Z stdout F x";
    assert_eq!(detect(cri), Some(ContainerFormat::Cri));
    for line in [
        &b""[..],
        b"text",
        b"2026-11-25T07:21:33Z INFO stdout F",
        b"{\"msg\":\"x\",\"time\":\"2026-11-25T07:21:33Z\"}",
        &docker[..30],
    ] {
        assert_eq!(detect(line), None, "{}", line.escape_ascii());
    }
}
