//! HTTP of the virtual clients: requests as they write them, and answers as they read them.

/// An answer of the collector.
#[derive(Debug)]
pub(crate) struct HttpAnswer {
    pub(crate) status: u16,
    /// Number of the request that it is for, by its `Origin`.
    pub(crate) request: Option<u64>,
    /// True if the connection ends after it.
    pub(crate) closes: bool,
    pub(crate) body: String,
}

impl HttpAnswer {
    /// Takes the first answer off the bytes that came; `None`: it is not complete.
    ///
    /// # Errors
    /// It is no answer.
    pub(crate) fn take(bytes: &mut Vec<u8>) -> Result<Option<Self>, String> {
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
            return Ok(None);
        };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let status = head.get(9..12).and_then(|text| text.parse().ok());
        let status = status.ok_or_else(|| format!("{head:?} is no answer"))?;
        let field = |name: &str| {
            let mut lines = head.lines();
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
        };
        let length = field("Content-Length").and_then(|text| text.parse::<usize>().ok());
        let length = length.ok_or_else(|| format!("{head:?} has no length"))?;
        let whole = end + 4 + length;
        if bytes.len() < whole {
            return Ok(None);
        }
        let origin = field("Access-Control-Allow-Origin");
        let request = origin.and_then(|origin| origin.strip_prefix("http://r")?.parse().ok());
        let answer = Self {
            status,
            request,
            closes: field("Connection") == Some("close"),
            body: String::from_utf8_lossy(&bytes[end + 4..whole]).into_owned(),
        };
        bytes.drain(..whole);
        Ok(Some(answer))
    }

    /// A number of the body, such as its `code`.
    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        let (_, rest) = self.body.split_once(&format!("\"{key}\":"))?;
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        rest[..digits].parse().ok()
    }
}

/// A request with a body, in one piece or in chunks of `chunk` bytes.
pub(crate) fn request(
    path: &str,
    (number, token, channel): (u64, &str, &str),
    body: &[u8],
    chunk: Option<usize>,
) -> Vec<u8> {
    let length = match chunk {
        Some(_) => "Transfer-Encoding: chunked".to_owned(),
        None => format!("Content-Length: {}", body.len()),
    };
    let head = format!(
        "POST /services/collector{path} HTTP/1.1\r\nHost: sim\r\nOrigin: http://r{number}\r\n\
         Authorization: Splunk {token}\r\nX-Splunk-Request-Channel: {channel}\r\n{length}\r\n\r\n"
    );
    let mut out = head.into_bytes();
    let Some(chunk) = chunk else {
        out.extend_from_slice(body);
        return out;
    };
    for piece in body.chunks(chunk.max(1)) {
        out.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        out.extend_from_slice(piece);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"0\r\n\r\n");
    out
}
