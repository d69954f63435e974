//! Heads of requests, as a function over bytes.
//!
//! # What it guarantees
//! * Nothing is read from anywhere and nothing is kept: the caller shows what has come of a
//!   request, from its first byte, again with more until it is enough.
//! * Where two readers could see two ends of a request, it is refused: two lengths, a length beside
//!   chunks, folded lines, lines without CR, a space before a colon (RFC 9112 section 11.2).
//!
//! # Limits
//! A head has at most [`HEAD_BYTES_MAX`] bytes and [`HEADERS_MAX`] fields.

use httparse::{EMPTY_HEADER, Header, Request, Status};

/// Bytes of a head at most; one that is longer is refused with 431.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Fields of a head at most; one with more is refused with 431.
pub const HEADERS_MAX: usize = 100;

/// Fields that say where a request ends, or who sends it: two of one name could be read as two
/// requests, or as two senders.
const ONCE: [&str; 5] = [
    "content-length",
    "transfer-encoding",
    "host",
    "authorization",
    "content-encoding",
];

/// Length of a request's body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BodyLength {
    /// So many bytes; none if no field says how many.
    Bytes(u64),
    /// As its chunks say.
    Chunked,
    /// As its stream of HTTP/2 says; the length that a field announces, which `h2` verifies.
    Streamed(Option<u64>),
}

/// Fault of a head, after which the connection cannot be read on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeadFault {
    /// It is no head, or has two ends: 400.
    Syntax,
    /// It is longer than [`HEAD_BYTES_MAX`], or has more than [`HEADERS_MAX`] fields: 431.
    TooLong,
    /// Its body is encoded in a way that nobody here decodes: 501.
    TransferCoding,
    /// A version of HTTP other than 1.0 and 1.1: 505.
    Version,
}

impl HeadFault {
    /// The status that it is answered with.
    pub const fn status(self) -> u16 {
        match self {
            Self::Syntax => 400,
            Self::TooLong => 431,
            Self::TransferCoding => 501,
            Self::Version => 505,
        }
    }
}

/// Head of a request.
#[derive(Clone, Debug)]
pub struct RequestHead<'a> {
    /// Method, in capitals as it came.
    pub method: &'a str,
    /// Path, without scheme, authority and query; nothing in it is decoded.
    pub path: &'a str,
    /// Query behind the question mark; empty if there is none.
    pub query: &'a str,
    /// Length of the body.
    pub body: BodyLength,
    /// True if it is HTTP/1.0.
    pub is_old: bool,
    /// True if another request may come on the connection.
    pub keep_alive: bool,
    /// True if the client waits for `100 Continue` before it sends the body.
    pub expects_continue: bool,
    fields: Vec<Header<'a>>,
}

impl<'a> RequestHead<'a> {
    /// Head of a stream of HTTP/2, whose fields come apart; an `empty` one has no body.
    ///
    /// # Errors
    /// The fault that it is answered with.
    pub fn of_stream(
        method: &'a str,
        target_text: &'a str,
        fields: impl Iterator<Item = (&'a str, &'a [u8])>,
        empty: bool,
    ) -> Result<Self, HeadFault> {
        let (path, query) = target(target_text);
        let mut head = Self {
            method,
            path,
            query,
            body: BodyLength::Bytes(0),
            is_old: false,
            keep_alive: true,
            expects_continue: false,
            fields: fields.map(|(name, value)| Header { name, value }).collect(),
        };
        check_once(&head.fields)?;
        let announced = body_length(&head, false)?;
        if !empty {
            let known = head.field("content-length").is_some();
            head.body = BodyLength::Streamed(match announced {
                BodyLength::Bytes(bytes) if known => Some(bytes),
                _ => None,
            });
        }
        Ok(head)
    }
}

impl RequestHead<'_> {
    /// The value of the first field of that name, whatever the case; `None` if there is none.
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        let mut fields = self.fields.iter();
        let found = fields.find(|field| field.name.eq_ignore_ascii_case(name));
        found.map(|field| field.value.trim_ascii())
    }
}

/// Result of reading the first bytes of a request.
#[derive(Clone, Debug)]
pub enum HeadParse<'a> {
    /// So far they could be the beginning of a head.
    NeedMore,
    /// A whole head, and the bytes that it takes.
    Head(RequestHead<'a>, usize),
    /// They are none.
    Bad(HeadFault),
}

/// Reads the head at the start of `bytes`, which are all that has come so far of a request.
pub fn parse_head(bytes: &[u8]) -> HeadParse<'_> {
    let mut fields = [EMPTY_HEADER; HEADERS_MAX];
    let mut request = Request::new(&mut fields);
    let parsed = request.parse(&bytes[..bytes.len().min(HEAD_BYTES_MAX)]);
    let used = match parsed {
        Ok(Status::Complete(used)) => used,
        Ok(Status::Partial) if bytes.len() >= HEAD_BYTES_MAX => {
            return HeadParse::Bad(HeadFault::TooLong);
        }
        Ok(Status::Partial) => return HeadParse::NeedMore,
        Err(httparse::Error::TooManyHeaders) => return HeadParse::Bad(HeadFault::TooLong),
        Err(httparse::Error::Version) => return HeadParse::Bad(HeadFault::Version),
        Err(_) => return HeadParse::Bad(HeadFault::Syntax),
    };
    if has_bare_line_end(&bytes[..used]) {
        return HeadParse::Bad(HeadFault::Syntax);
    }
    match head(&request) {
        Ok(head) => HeadParse::Head(head, used),
        Err(fault) => HeadParse::Bad(fault),
    }
}

/// True if a line ends without CR, or a CR stands within one.
fn has_bare_line_end(head: &[u8]) -> bool {
    // Empty lines before a request may be any (RFC 9112 section 2.2).
    let start = head.iter().position(|byte| !matches!(byte, b'\r' | b'\n'));
    let head = &head[start.unwrap_or(0)..];
    let lone = |(at, byte): (usize, &u8)| match byte {
        b'\n' => at == 0 || head[at - 1] != b'\r',
        b'\r' => head.get(at + 1) != Some(&b'\n'),
        _ => false,
    };
    head.iter().enumerate().any(lone)
}

fn head<'a>(request: &Request<'_, 'a>) -> Result<RequestHead<'a>, HeadFault> {
    let method = request.method.unwrap_or_default();
    let (path, query) = target(request.path.unwrap_or_default());
    let old = request.version != Some(1);
    let fields = request.headers.to_vec();
    let mut head = RequestHead {
        method,
        path,
        query,
        body: BodyLength::Bytes(0),
        is_old: old,
        keep_alive: !old,
        expects_continue: false,
        fields,
    };
    check_once(&head.fields)?;
    head.body = body_length(&head, old)?;
    let says = |head: &RequestHead<'_>, name: &str, word: &str| {
        let words = head
            .field(name)
            .unwrap_or_default()
            .split(|byte| *byte == b',');
        let mut words = words.map(<[u8]>::trim_ascii);
        words.any(|one| one.eq_ignore_ascii_case(word.as_bytes()))
    };
    head.keep_alive = match old {
        true => says(&head, "connection", "keep-alive"),
        false => !says(&head, "connection", "close"),
    };
    head.expects_continue = !old && says(&head, "expect", "100-continue");
    Ok(head)
}

/// Refuses two fields of a name that may come once only.
fn check_once(fields: &[Header<'_>]) -> Result<(), HeadFault> {
    let is_twice = |name: &str| {
        let same = |field: &&Header<'_>| field.name.eq_ignore_ascii_case(name);
        fields.iter().filter(same).count() > 1
    };
    match ONCE.iter().any(|name| is_twice(name)) {
        true => Err(HeadFault::Syntax),
        false => Ok(()),
    }
}

/// Path and query of a request target in origin or absolute form (RFC 9112 section 3.2).
fn target(target: &str) -> (&str, &str) {
    let rest = match target.split_once("://") {
        Some((scheme, rest)) if !scheme.contains(['/', '?']) => {
            rest.find(['/', '?']).map_or("/", |at| &rest[at..])
        }
        _ => target,
    };
    rest.split_once('?').unwrap_or((rest, ""))
}

fn body_length(head: &RequestHead<'_>, old: bool) -> Result<BodyLength, HeadFault> {
    let length = head.field("content-length");
    let Some(coding) = head.field("transfer-encoding") else {
        let digits = length.unwrap_or(b"0");
        // `+1` is a number to the standard library, and not to HTTP.
        let sane = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        let number = str::from_utf8(digits).ok().filter(|_| sane);
        let number = number.and_then(|number| number.parse().ok());
        return number.map(BodyLength::Bytes).ok_or(HeadFault::Syntax);
    };
    match coding.eq_ignore_ascii_case(b"chunked") {
        _ if length.is_some() || old => Err(HeadFault::Syntax),
        true => Ok(BodyLength::Chunked),
        false => Err(HeadFault::TransferCoding),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> Option<HeadFault> {
        match parse_head(text.as_bytes()) {
            HeadParse::Bad(fault) => Some(fault),
            HeadParse::NeedMore | HeadParse::Head(..) => None,
        }
    }

    fn good(text: &str) -> RequestHead<'_> {
        match parse_head(text.as_bytes()) {
            HeadParse::Head(head, used) => {
                assert_eq!(used, text.len());
                head
            }
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn a_head_gives_target_length_and_fields() {
        let head = good(
            "POST /services/collector/raw?host=a%20b HTTP/1.1\r\nHost: x\r\n\
             authorization:  Splunk t \r\nContent-Length: 12\r\nExpect: 100-continue\r\n\r\n",
        );
        assert_eq!(
            (head.method, head.path),
            ("POST", "/services/collector/raw")
        );
        assert_eq!(head.query, "host=a%20b");
        assert_eq!(head.field("Authorization"), Some(&b"Splunk t"[..]));
        assert_eq!(head.body, BodyLength::Bytes(12));
        assert!(head.keep_alive && head.expects_continue);
        let head = good("GET http://x:1/health?ack=1 HTTP/1.1\r\nConnection: x, Close\r\n\r\n");
        assert_eq!(
            (head.path, head.query, head.keep_alive),
            ("/health", "ack=1", false)
        );
        let head = good("POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n");
        assert_eq!(head.body, BodyLength::Chunked);
        assert!(!good("GET / HTTP/1.0\r\n\r\n").keep_alive);
        assert!(good("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n").keep_alive);
    }

    #[test]
    fn what_two_readers_could_read_in_two_ways_is_refused() {
        let with = |fields: &str| fault(&format!("POST / HTTP/1.1\r\nHost: x\r\n{fields}\r\n"));
        for fields in [
            "Content-Length: 1\r\nContent-Length: 1\r\n",
            "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
            "Content-Length: 1, 1\r\n",
            "Content-Length: +1\r\n",
            "Content-Length: -1\r\n",
            "Content-Length: 0x1\r\n",
            "Content-Length:\r\n",
            "Content-Length: 99999999999999999999\r\n",
            "Content-Length : 1\r\n",
            "X: a\r\n folded\r\n",
            "X: a\n",
            "X: a\rb\r\n",
            "Host: y\r\n",
            "Authorization: a\r\nAuthorization: b\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        ] {
            assert_eq!(with(fields), Some(HeadFault::Syntax), "{fields:?}");
        }
        for coding in ["gzip, chunked", "identity", "xchunked"] {
            let fields = format!("Transfer-Encoding: {coding}\r\n");
            assert_eq!(with(&fields), Some(HeadFault::TransferCoding), "{coding}");
        }
        let old = "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(fault(old), Some(HeadFault::Syntax));
        assert_eq!(fault("POST / HTTP/2.0\r\n\r\n"), Some(HeadFault::Version));
    }

    #[test]
    fn a_cut_head_needs_more_and_a_long_one_is_refused() {
        let text = "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n";
        for end in 0..text.len() {
            let cut = parse_head(&text.as_bytes()[..end]);
            assert!(matches!(cut, HeadParse::NeedMore), "{end}: {cut:?}");
        }
        let long = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(HEAD_BYTES_MAX));
        assert_eq!(fault(&long), Some(HeadFault::TooLong));
        let many = format!(
            "GET / HTTP/1.1\r\n{}\r\n",
            "X: y\r\n".repeat(HEADERS_MAX + 1)
        );
        assert_eq!(fault(&many), Some(HeadFault::TooLong));
    }
}
