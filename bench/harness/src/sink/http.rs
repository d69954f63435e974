//! As much of HTTP/1.1 as clients of a HEC endpoint use: keep-alive, `Content-Length` and chunked
//! bodies, `Expect: 100-continue`. Sans-IO: bytes in, answers out; a [`HecHandler`] decides them.

use std::borrow::Cow;

use memchr::memmem;

/// Longest head of a request or line of a chunk that is waited for, in bytes.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// Answer of Splunk to events that it took.
pub const SUCCESS: &str = r#"{"text":"Success","code":0}"#;

/// Taker of requests; any `None` hangs up, without an answer to the request.
pub trait HecHandler {
    /// State of a request of which the end has not yet come.
    type Body;

    /// Begins a request.
    fn begin(&mut self, head: &RequestHead<'_>) -> Option<Self::Body>;

    /// Takes some bytes of its body, as they came.
    fn take(&mut self, body: &mut Self::Body, bytes: &[u8]) -> Option<()>;

    /// Ends a request; the JSON of the answer.
    fn finish(&mut self, body: Self::Body) -> Option<Cow<'static, str>>;

    /// Notes that the kernel has all answers so far; told by [`super::serve_on_threads`] alone.
    fn sent(&mut self) {}
}

/// The part of a request before its body.
pub struct RequestHead<'h> {
    /// Method, path and version.
    pub line: &'h str,
    /// True if it names a channel, by which acknowledgements are asked for.
    pub has_channel: bool,
    /// True if its body is compressed.
    pub gzip: bool,
    left: BodyRemainder,
    expects_continue: bool,
}

/// The state of one connection.
pub(super) struct Exchange<H: HecHandler> {
    /// The request whose body has begun.
    begun: Option<(H::Body, BodyRemainder)>,
    /// A head, or the line before a chunk, of which the end has not yet come.
    partial: Vec<u8>,
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

impl<H: HecHandler> Exchange<H> {
    pub(super) fn new() -> Self {
        Self {
            begun: None,
            partial: Vec::new(),
        }
    }

    /// Takes what was read, appends answers to `out`. Nothing: hang up.
    pub(super) fn feed(
        &mut self,
        mut data: &[u8],
        handler: &mut H,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        while !data.is_empty() {
            let (body, left, rest) = match self.begun.take() {
                Some((body, left)) => self.body(body, left, data, handler)?,
                None => {
                    let Some((head, rest)) = self.until(b"\r\n\r\n", data)? else {
                        return Some(());
                    };
                    let head = parse_head(&head)?;
                    if head.expects_continue {
                        out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
                    }
                    (handler.begin(&head)?, head.left, rest)
                }
            };
            if left == BodyRemainder::Bytes(0) {
                answer(out, &handler.finish(body)?);
            } else {
                self.begun = Some((body, left));
            }
            data = rest;
        }
        Some(())
    }

    /// Takes a part of a body; the body, the part of it that is still to come, the rest of `data`.
    fn body<'d>(
        &mut self,
        mut body: H::Body,
        left: BodyRemainder,
        data: &'d [u8],
        handler: &mut H,
    ) -> Option<(H::Body, BodyRemainder, &'d [u8])> {
        let (left, rest) = match left {
            BodyRemainder::Bytes(n) | BodyRemainder::Chunk(n) => {
                let here = data.len().min(usize::try_from(n).unwrap_or(usize::MAX));
                handler.take(&mut body, &data[..here])?;
                (after_bytes(left, n - here as u64), &data[here..])
            }
            BodyRemainder::ChunkSize | BodyRemainder::ChunkEnd | BodyRemainder::Trailer => {
                match self.until(b"\r\n", data)? {
                    Some((line, rest)) => (after_line(left, &line)?, rest),
                    None => (left, &data[data.len()..]),
                }
            }
        };
        Some((body, left, rest))
    }

    /// Returns the bytes before `end`, and those that follow; keeps the part where `end` has not
    /// come. The outer nothing: it is longer than anyone sends.
    #[allow(clippy::type_complexity)]
    fn until<'d>(&mut self, end: &[u8], data: &'d [u8]) -> Option<Option<(Vec<u8>, &'d [u8])>> {
        let known = self.partial.len();
        if known == 0
            && let Some(at) = memmem::find(&data[..data.len().min(HEAD_BYTES_MAX)], end)
        {
            return Some(Some((data[..at].to_vec(), &data[at + end.len()..])));
        }
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

fn parse_head(head: &[u8]) -> Option<RequestHead<'_>> {
    let text = std::str::from_utf8(head).ok()?;
    let mut lines = text.split("\r\n");
    let mut parsed = RequestHead {
        line: lines.next()?,
        has_channel: false,
        gzip: false,
        left: BodyRemainder::Bytes(0),
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
            "x-splunk-request-channel" => parsed.has_channel = true,
            "expect" => parsed.expects_continue = true,
            _ => {}
        }
    }
    parsed.line.ends_with("HTTP/1.1").then_some(parsed)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::super::count::Counter;
    use super::*;

    /// Feeds `wire` in pieces of `piece` bytes; gives the events counted and the answers.
    fn fed(wire: &[u8], piece: usize) -> Option<(u64, String)> {
        let (mut exchange, mut counter) = (Exchange::new(), Counter::new(false, false));
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
