//! Requests in recorded bytes, read with a reader of the tests' own, and the events in them.

use std::io::Read;

use flate2::read::GzDecoder;
use serde_json::Value;

/// One request.
#[derive(Clone, Debug)]
pub struct RecordedRequest {
    /// Method and target, such as `POST /services/collector`.
    pub line: String,
    /// Names, in lower case, and values of the header.
    pub fields: Vec<(String, String)>,
    /// The body without chunks and compression.
    pub body: Vec<u8>,
}

impl RecordedRequest {
    /// The first request, and its length in bytes; `None` if it is not whole.
    pub fn first_of(bytes: &[u8]) -> Option<(Self, usize)> {
        let end = find(bytes, b"\r\n\r\n")? + 4;
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        let mut lines = head.trim_end().split("\r\n");
        let line = lines.next().unwrap().rsplit_once(' ').unwrap().0.to_owned();
        let field = |line: &str| {
            let (name, value) = line.split_once(':').unwrap();
            (name.to_ascii_lowercase(), value.trim().to_owned())
        };
        let fields = lines.map(field).collect();
        let mut request = Self {
            line,
            fields,
            body: Vec::new(),
        };
        let (body, length) = match request.field("transfer-encoding") {
            Some("chunked") => chunks(&bytes[end..])?,
            _ => {
                let length = request
                    .field("content-length")
                    .map_or(0, |n| n.parse().unwrap());
                (bytes[end..].get(..length)?.to_vec(), length)
            }
        };
        request.body = match request.field("content-encoding") {
            Some("gzip") => inflated(&body),
            _ => body,
        };
        Some((request, end + length))
    }

    /// Every request of a connection.
    ///
    /// # Panics
    /// If the last one is not whole.
    pub fn all_of(mut bytes: &[u8]) -> Vec<Self> {
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let (request, length) = Self::first_of(bytes).expect("a whole request");
            found.push(request);
            bytes = &bytes[length..];
        }
        found
    }

    /// A field of the header.
    pub fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The objects of the body.
    pub fn objects(&self) -> Vec<Value> {
        let stream = serde_json::Deserializer::from_slice(&self.body).into_iter();
        stream.map(|object| object.unwrap()).collect()
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|part| part == what)
}

/// The bytes of a chunked body, and its length as it was sent.
fn chunks(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (mut body, mut at) = (Vec::new(), 0);
    loop {
        let line = find(&bytes[at..], b"\r\n")?;
        let size = std::str::from_utf8(&bytes[at..at + line]).unwrap();
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        let start = at + line + 2;
        let chunk = bytes.get(start..start + size + 2)?;
        body.extend_from_slice(&chunk[..size]);
        at = start + size + 2;
        if size == 0 {
            return Some((body, at));
        }
    }
}

fn inflated(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut plain).unwrap();
    plain
}
