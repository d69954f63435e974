//! Replies: status line, fields and body of an answer.

use std::io::Write;
use std::time::Instant;

use inrush_codec::hec::HecAnswer;

/// Answer to a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct HecReply {
    /// Content.
    pub(super) content: ReplyContent,
    /// Number of the acknowledgement of what was taken.
    pub(super) ack_id: Option<u64>,
    /// Time at which the first byte of the request was read.
    pub(super) begun: Instant,
    /// True if the connection ends after it.
    pub(super) close: bool,
    /// True if the request was HEAD: the body is left out.
    pub(super) head_only: bool,
    /// Fields for a browser or a load balancer, each with its line end; mostly empty.
    pub(super) fields: String,
    /// True if the request was HTTP/1.0, where a connection that stays open is said to.
    pub(super) old: bool,
}

/// Content of a reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum ReplyContent {
    /// Answer of the collector, with the number of the object at fault.
    Hec(HecAnswer, Option<u64>),
    /// The answer to a poll for acknowledgements.
    Acks(String),
    /// There is no such path.
    NotFound,
    /// The path has no such method; the methods that it has.
    Method(&'static str),
    /// Nothing; the methods that the path has.
    Options(&'static str),
    /// The body is compressed in a way that is not understood.
    Encoding,
    /// The body is longer than this.
    TooLarge(u64),
    /// A fault of HTTP, with this status.
    Http(u16),
}

/// Body of 404 and 405, as Splunk has it.
const NO_SUCH_PATH: &str =
    r#"{"text":"The requested URL was not found on this server.","code":404}"#;

impl ReplyContent {
    /// The status of HTTP.
    pub(super) fn status(&self) -> u16 {
        match self {
            Self::Hec(answer, _) => answer.status(),
            Self::Acks(_) => 200,
            Self::NotFound => 404,
            Self::Method(_) => 405,
            Self::Options(_) => 200,
            Self::Encoding => 415,
            Self::TooLarge(_) => 413,
            Self::Http(status) => *status,
        }
    }

    pub(super) fn write_body(&self, ack_id: Option<u64>, out: &mut Vec<u8>) {
        match self {
            Self::Hec(answer, invalid) => answer.write(*invalid, ack_id, out),
            Self::Acks(text) => out.extend_from_slice(text.as_bytes()),
            Self::NotFound | Self::Method(_) => out.extend_from_slice(NO_SUCH_PATH.as_bytes()),
            Self::Options(_) => {}
            Self::Encoding => out.extend_from_slice(
                b"{\"text\":\"Unsupported Media Type: the body may be compressed by gzip only\",\
                  \"code\":415}",
            ),
            Self::TooLarge(most) => {
                // Writing to a vector does not fail.
                let _ = write!(
                    out,
                    r#"{{"text":"The body is larger than {most} bytes","code":413}}"#
                );
            }
            Self::Http(status) => {
                let _ = write!(out, r#"{{"text":"{}","code":{status}}}"#, phrase(*status));
            }
        }
    }
}

impl HecReply {
    /// Its fields, each with its line end, but those of the connection; and its body.
    pub(super) fn parts(&self) -> (String, Vec<u8>) {
        let mut body = Vec::with_capacity(128);
        self.content.write_body(self.ack_id, &mut body);
        let mut fields = format!(
            "Content-Type: application/json; charset=UTF-8\r\nContent-Length: {}\r\n\
             Vary: Authorization\r\nX-Content-Type-Options: nosniff\r\n",
            body.len()
        );
        match self.content {
            ReplyContent::Method(methods) | ReplyContent::Options(methods) => {
                fields += &format!("Allow: {methods}\r\n");
            }
            ReplyContent::Hec(answer, _) if matches!(answer.status(), 429 | 503) => {
                fields += "Retry-After: 1\r\n";
            }
            _ => {}
        }
        fields += &self.fields;
        if self.head_only {
            body.clear();
        }
        (fields, body)
    }

    /// Appends the whole reply of HTTP/1.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let status = self.content.status();
        let (fields, body) = self.parts();
        let _ = write!(out, "HTTP/1.1 {status} {}\r\n{fields}", phrase(status));
        match (self.close, self.old) {
            (true, _) => out.extend_from_slice(b"Connection: close\r\n"),
            (false, true) => out.extend_from_slice(b"Connection: keep-alive\r\n"),
            (false, false) => {}
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&body);
    }
}

/// The phrase of a status (RFC 9110 section 15).
fn phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        _ => "Internal Server Error",
    }
}
