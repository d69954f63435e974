//! Answers from the process that runs: it has in memory what is in no file yet.

use std::io::{BufRead, BufReader, Read};
use std::time::Duration;

use inrush_client::{AdminClient, AdminTarget, ClientTimeouts, TOKEN_VARIABLE, reachable};
use inrush_config::Config;
use inrush_search::SearchRequest;
use inrush_store::reply::{SearchError, SearchReply};

use super::{ReplyIterator, SearchBackend};

/// Timeout of the connection: it is our own machine.
const CONNECT_MAX: Duration = Duration::from_secs(2);

/// Timeout until an answer begins: a search waits for its turn as long as it may run.
const BEGIN_MAX: Duration = Duration::from_secs(130);

/// Time that a page may take: it is in memory.
const PAGE_MAX: Duration = Duration::from_secs(5);

/// Characters of an answer that is none, which a message repeats.
const SHOWN_CHARS: usize = 200;

/// Bytes of a page or of an answer that is none.
const TEXT_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// A process that runs with the configuration.
pub(crate) struct ProcessBackend {
    client: AdminClient,
    /// For pages, which are in memory.
    pages: AdminClient,
}

impl ProcessBackend {
    /// The process that listens where the configuration says; none if nobody does, or only over
    /// TLS, whose certificate is made for a name that is not known here.
    pub(crate) fn find(config: &Config) -> Option<Self> {
        if config.admin.tls.is_some() {
            return None;
        }
        let address = reachable(config.admin.listen.0);
        std::net::TcpStream::connect_timeout(&address, CONNECT_MAX).ok()?;
        let configured = config.admin.tokens.first();
        let target = AdminTarget {
            url: format!("http://{address}"),
            token: inrush_client::token(configured.map(|token| token.expose())),
            verifier: None,
        };
        let client = |answer, all| {
            let timeouts = ClientTimeouts {
                connect: CONNECT_MAX,
                answer,
                all,
            };
            AdminClient::new(&target, timeouts).ok()
        };
        Some(Self {
            client: client(BEGIN_MAX, None)?,
            pages: client(PAGE_MAX, Some(PAGE_MAX))?,
        })
    }

    /// A page of the API, if it gives one soon.
    pub(crate) fn page(&self, path: &str) -> Option<String> {
        let answer = self.pages.get(path, &[]).ok();
        let mut answer = answer.filter(|answer| answer.status() == 200)?;
        answer.text(TEXT_BYTES_MAX).ok()
    }

    fn ask(
        &self,
        path: &str,
        asked: &[(&str, String)],
    ) -> Result<ReplyIterator<'static>, SearchError> {
        let base = self.client.base();
        let answer = self.client.get(path, asked);
        let mut answer = answer.map_err(|error| failure(format!("{base}: {error}")))?;
        let status = answer.status();
        if status == 200 {
            let body = BufReader::new(answer.into_reader());
            return Ok(Box::new(Lines { body: Some(body) }));
        }
        let text = answer.text(TEXT_BYTES_MAX).unwrap_or_default();
        if let Ok(SearchReply::Error(failure)) = serde_json::from_str(&text) {
            return Err(failure);
        }
        Err(failure(match status {
            401 => format!("{base} refuses: put one of its `admin.tokens` into {TOKEN_VARIABLE}"),
            _ => {
                let text: String = text.chars().take(SHOWN_CHARS).collect();
                format!("{base} answers {status}: {text}")
            }
        }))
    }
}

impl SearchBackend for ProcessBackend {
    fn search(&self, request: SearchRequest) -> Result<ReplyIterator<'_>, SearchError> {
        let mut asked = vec![
            ("q", request.query),
            ("buckets", request.buckets.to_string()),
            (
                "since",
                match request.from_ns {
                    i64::MIN => "all".to_owned(),
                    ns => time(ns),
                },
            ),
        ];
        if let Some(limit) = request.limit {
            asked.push(("limit", limit.to_string()));
        }
        // A range that ends now is the usual one: the process counts what lies behind it.
        if !request.future {
            let until = match request.to_ns {
                i64::MAX => "all".to_owned(),
                ns => time(ns),
            };
            asked.push(("until", until));
        }
        self.ask("search", &asked)
    }

    fn sql(&self, statement: &str, limit: u64) -> Result<ReplyIterator<'_>, SearchError> {
        let asked = [("q", statement.to_owned()), ("limit", limit.to_string())];
        self.ask("sql", &asked)
    }
}

/// A time that loses nothing on its way.
fn time(ns: i64) -> String {
    jiff::Timestamp::from_nanosecond(ns.into())
        .unwrap_or_default()
        .to_string()
}

/// The lines of an answer.
struct Lines<R> {
    /// There until the end.
    body: Option<BufReader<R>>,
}

impl<R: Read> Iterator for Lines<R> {
    type Item = SearchReply;

    fn next(&mut self) -> Option<SearchReply> {
        let mut line = String::new();
        let read = self.body.as_mut()?.read_line(&mut line);
        let reply = match read {
            Ok(0) => Err("the answer broke off".to_owned()),
            Ok(_) => serde_json::from_str(&line).map_err(|error| error.to_string()),
            Err(error) => Err(format!("the answer broke off: {error}")),
        };
        let reply = reply.unwrap_or_else(|what| SearchReply::Error(failure(what)));
        if matches!(reply, SearchReply::End(_) | SearchReply::Error(_)) {
            self.body = None;
        }
        Some(reply)
    }
}

fn failure(message: String) -> SearchError {
    SearchError {
        message,
        ..SearchError::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_ends_with_its_end_or_says_that_it_broke_off() {
        let line = "{\"type\":\"row\",\"values\":[1]}\n";
        let end = "{\"type\":\"end\",\"matched\":1,\"elapsed_ms\":1,\"stopped\":null}\n";
        let lines = |text: String| Lines {
            body: Some(BufReader::new(std::io::Cursor::new(text.into_bytes()))),
        };
        assert_eq!(lines(format!("{line}{end}{line}")).count(), 2);
        let last = lines(line.to_owned()).last();
        assert!(matches!(last, Some(SearchReply::Error(_))), "{last:?}");
        let last = lines(format!("{line}what")).last();
        assert!(matches!(last, Some(SearchReply::Error(_))), "{last:?}");
    }

    #[test]
    fn a_time_keeps_its_nanoseconds() {
        for ns in [0, 1, 1_795_287_605_123_456_789, -1] {
            let read = inrush_query::when::time(&time(ns), 0);
            assert_eq!(read, Some(ns));
        }
    }
}
