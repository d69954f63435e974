//! As much of HTTP/1.1 as clients of a HEC endpoint use: keep-alive, `Content-Length` and chunked
//! bodies, `Expect: 100-continue`, gzip. Sans-IO: bytes in, answers out.

use std::io::Write;

use flate2::write::MultiGzDecoder;
use memchr::memmem;

use super::count::{BodyCounter, Counter};

/// Longest head of a request or line of a chunk that is waited for, in bytes.
const HEAD_BYTES_MAX: usize = 64 << 10;

const SUCCESS: &str = r#"{"text":"Success","code":0}"#;

/// The state of one connection.
#[derive(Default)]
pub(super) struct Exchange {
    phase: Phase,
    /// A head, or the line before a chunk, of which the end has not yet come.
    partial: Vec<u8>,
}

#[derive(Default)]
enum Phase {
    #[default]
    Head,
    Body {
        body: Body,
        left: BodyRemainder,
    },
}

/// Part of the body that is still to come.
#[derive(Clone, Copy, Debug, PartialEq)]
enum BodyRemainder {
    Bytes(u64),
    ChunkSize,
    Chunk(u64),
    ChunkEnd,
    Trailer,
}

enum Body {
    Plain(Box<BodyCounter>),
    Gzip(Box<MultiGzDecoder<Box<BodyCounter>>>),
}

struct RequestHead {
    count_asked: bool,
    left: BodyRemainder,
    gzip: bool,
    expects_continue: bool,
}

impl Exchange {
    /// Takes what was read, counts, appends answers to `out`. Nothing: not HTTP, hang up.
    pub(super) fn feed(
        &mut self,
        mut data: &[u8],
        counter: &mut Counter,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        while !data.is_empty() {
            data = match std::mem::take(&mut self.phase) {
                Phase::Head => self.head(data, counter, out)?,
                Phase::Body { body, left } => self.body(body, left, data, counter, out)?,
            };
        }
        Some(())
    }

    fn head<'d>(
        &mut self,
        data: &'d [u8],
        counter: &mut Counter,
        out: &mut Vec<u8>,
    ) -> Option<&'d [u8]> {
        let Some((head, rest)) = self.until(b"\r\n\r\n", data)? else {
            return Some(&[]);
        };
        let head = parse_head(&head)?;
        if head.count_asked {
            answer(out, &counter.json());
            return Some(rest);
        }
        if head.expects_continue {
            out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        let plain = Box::new(counter.begin_body());
        let body = match head.gzip {
            true => Body::Gzip(Box::new(MultiGzDecoder::new(plain))),
            false => Body::Plain(plain),
        };
        if head.left == BodyRemainder::Bytes(0) {
            finish(body, counter, out)?;
        } else {
            self.phase = Phase::Body {
                body,
                left: head.left,
            };
        }
        Some(rest)
    }

    fn body<'d>(
        &mut self,
        mut body: Body,
        left: BodyRemainder,
        data: &'d [u8],
        counter: &mut Counter,
        out: &mut Vec<u8>,
    ) -> Option<&'d [u8]> {
        let (left, rest) = match left {
            BodyRemainder::Bytes(n) | BodyRemainder::Chunk(n) => {
                let here = data.len().min(usize::try_from(n).unwrap_or(usize::MAX));
                body.take(&data[..here], counter)?;
                (after_bytes(left, n - here as u64), &data[here..])
            }
            BodyRemainder::ChunkSize | BodyRemainder::ChunkEnd | BodyRemainder::Trailer => {
                let Some((line, rest)) = self.until(b"\r\n", data)? else {
                    self.phase = Phase::Body { body, left };
                    return Some(&[]);
                };
                (after_line(left, &line)?, rest)
            }
        };
        if left == BodyRemainder::Bytes(0) {
            finish(body, counter, out)?;
        } else {
            self.phase = Phase::Body { body, left };
        }
        Some(rest)
    }

    /// Returns the bytes before `end`, and those that follow; keeps the part where `end` has not
    /// come. The outer nothing: it is longer than anyone sends.
    #[allow(clippy::type_complexity)]
    fn until<'d>(&mut self, end: &[u8], data: &'d [u8]) -> Option<Option<(Vec<u8>, &'d [u8])>> {
        let known = self.partial.len();
        // The end may be split between what is kept and what came.
        self.partial
            .extend_from_slice(&data[..data.len().min(HEAD_BYTES_MAX)]);
        let from = known.saturating_sub(end.len() - 1);
        let Some(at) = memmem::find(&self.partial[from..], end).map(|at| at + from) else {
            return (self.partial.len() < HEAD_BYTES_MAX).then_some(None);
        };
        let mut line = std::mem::take(&mut self.partial);
        line.truncate(at);
        Some(Some((line, &data[at + end.len() - known..])))
    }
}

impl Body {
    fn take(&mut self, bytes: &[u8], counter: &mut Counter) -> Option<()> {
        counter.wire(bytes.len());
        match self {
            Self::Plain(plain) => plain.write_all(bytes).ok(),
            Self::Gzip(gzip) => gzip.write_all(bytes).ok(),
        }
    }
}

fn finish(body: Body, counter: &mut Counter, out: &mut Vec<u8>) -> Option<()> {
    counter.body(*match body {
        Body::Plain(plain) => plain,
        Body::Gzip(gzip) => gzip.finish().ok()?,
    });
    answer(out, SUCCESS);
    Some(())
}

fn answer(out: &mut Vec<u8>, body: &str) {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ";
    out.extend_from_slice(format!("{head}{}\r\n\r\n{body}", body.len()).as_bytes());
}

fn after_bytes(left: BodyRemainder, n: u64) -> BodyRemainder {
    match (left, n) {
        (BodyRemainder::Chunk(_), 0) => BodyRemainder::ChunkEnd,
        (BodyRemainder::Chunk(_), n) => BodyRemainder::Chunk(n),
        (_, n) => BodyRemainder::Bytes(n),
    }
}

/// `Bytes(0)` stands for the end of the body, as it does where the length was told.
fn after_line(left: BodyRemainder, line: &[u8]) -> Option<BodyRemainder> {
    match left {
        BodyRemainder::ChunkSize => {
            let digits = line.split(|byte| *byte == b';').next()?;
            let size = u64::from_str_radix(std::str::from_utf8(digits).ok()?.trim(), 16).ok()?;
            Some(if size == 0 {
                BodyRemainder::Trailer
            } else {
                BodyRemainder::Chunk(size)
            })
        }
        BodyRemainder::Trailer if line.is_empty() => Some(BodyRemainder::Bytes(0)),
        BodyRemainder::Trailer => Some(BodyRemainder::Trailer),
        _ => Some(BodyRemainder::ChunkSize),
    }
}

fn parse_head(head: &[u8]) -> Option<RequestHead> {
    let text = std::str::from_utf8(head).ok()?;
    let mut lines = text.split("\r\n");
    let request = lines.next()?;
    let mut parsed = RequestHead {
        count_asked: request.starts_with("GET /count"),
        left: BodyRemainder::Bytes(0),
        gzip: false,
        expects_continue: false,
    };
    for line in lines {
        let (name, value) = line.split_once(':')?;
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => parsed.left = BodyRemainder::Bytes(value.parse().ok()?),
            "transfer-encoding" if value.eq_ignore_ascii_case("chunked") => {
                parsed.left = BodyRemainder::ChunkSize;
            }
            "content-encoding" => parsed.gzip = value.eq_ignore_ascii_case("gzip"),
            "expect" => parsed.expects_continue = true,
            _ => {}
        }
    }
    request.ends_with("HTTP/1.1").then_some(parsed)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    /// Feeds `wire` in pieces of `piece` bytes; gives the events counted and the answers.
    fn fed(wire: &[u8], piece: usize) -> Option<(u64, String)> {
        let (mut exchange, mut counter) = (Exchange::default(), Counter::new(false, false));
        let mut out = Vec::new();
        for part in wire.chunks(piece) {
            exchange.feed(part, &mut counter, &mut out)?;
        }
        Some((counter.counts().events, String::from_utf8(out).unwrap()))
    }

    const BODY: &[u8] = br#"{"time":1,"event":"a"}{"event":"b"}{"event":{"c":1}}"#;

    fn with_length(extra: &str, body: &[u8]) -> Vec<u8> {
        let length = body.len();
        let head = format!("POST /x HTTP/1.1\r\n{extra}content-length: {length}\r\n\r\n");
        [head.as_bytes(), body].concat()
    }

    #[test]
    fn events_are_counted_however_the_bytes_are_cut() {
        let wire = [with_length("", BODY), with_length("", BODY)].concat();
        for piece in [1, 2, 3, 7, 64, wire.len()] {
            let (events, out) = fed(&wire, piece).unwrap();
            assert_eq!(
                (events, out.matches(SUCCESS).count()),
                (6, 2),
                "pieces of {piece}"
            );
        }
    }

    #[test]
    fn a_gzip_body_is_counted_by_what_is_in_it() {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(BODY).unwrap();
        let wire = with_length("Content-Encoding: gzip\r\n", &gzip.finish().unwrap());
        assert_eq!(fed(&wire, 5).unwrap().0, 3);
    }

    #[test]
    fn a_chunked_body_is_counted_across_its_chunks() {
        let head: &[u8] = b"POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        let (first, second) = BODY.split_at(12);
        let sizes = [first, second].map(|part| format!("{:x}\r\n", part.len()));
        let chunks = [
            sizes[0].as_bytes(),
            first,
            b"\r\n",
            sizes[1].as_bytes(),
            second,
        ];
        let wire = [head, &chunks.concat(), b"\r\n0\r\n\r\n"].concat();
        for piece in [1, 4, wire.len()] {
            let (events, out) = fed(&wire.repeat(2), piece).unwrap();
            assert_eq!(
                (events, out.matches(SUCCESS).count()),
                (6, 2),
                "pieces of {piece}"
            );
        }
    }

    #[test]
    fn a_client_that_waits_for_100_gets_it_before_the_body() {
        let wire = with_length("Expect: 100-continue\r\n", BODY);
        let head = wire.len() - BODY.len();
        let out = fed(&wire[..head], head).unwrap().1;
        assert_eq!(out, "HTTP/1.1 100 Continue\r\n\r\n");
    }

    #[test]
    fn the_count_is_told() {
        let wire = [
            &with_length("", BODY)[..],
            b"GET /count HTTP/1.1\r\nHost: x\r\n\r\n",
        ]
        .concat();
        assert!(fed(&wire, 9).unwrap().1.contains(r#""events":3"#));
    }

    #[test]
    fn what_is_not_http_is_hung_up_on() {
        assert!(fed(b"<13>hello\r\n\r\n", 64).is_none());
        assert!(fed(b"POST /x HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 64).is_none());
        assert!(fed(&b"x".repeat(HEAD_BYTES_MAX * 2), 1 << 20).is_none());
    }
}
