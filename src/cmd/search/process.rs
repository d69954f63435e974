//! Answers from the process that runs: it has in memory what is in no file yet.

use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use inrush_pipeline::config::Config;
use inrush_search::SearchRequest;
use inrush_store::reply::{Failure, Reply};

use super::{Replies, Searcher};

/// Timeout of the connection: it is our own machine.
const CONNECT_MAX: Duration = Duration::from_secs(2);

/// Timeout until an answer begins: a search waits for its turn as long as it may run.
const BEGIN_MAX: Duration = Duration::from_secs(130);

/// Time that a page may take: it is in memory.
const PAGE_MAX: Duration = Duration::from_secs(5);

/// The variable of the environment that holds a token, where the API asks for one.
const TOKEN_VARIABLE: &str = "INRUSH_TOKEN";

/// Characters of an answer that is none, which a message repeats.
const SHOWN_CHARS: usize = 200;

/// A process that runs with the configuration.
pub(crate) struct Process {
    agent: ureq::Agent,
    base: String,
    authorization: Option<String>,
}

impl Process {
    /// The process that listens where the configuration says; none if nobody does, or only over
    /// TLS, whose certificate is made for a name that is not known here.
    pub(crate) fn find(config: &Config) -> Option<Self> {
        if config.admin.tls.is_some() {
            return None;
        }
        let address = reachable(config.admin.listen.0);
        std::net::TcpStream::connect_timeout(&address, CONNECT_MAX).ok()?;
        let agent = ureq::Agent::config_builder()
            .proxy(None)
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT_MAX))
            .timeout_recv_response(Some(BEGIN_MAX))
            .build()
            .into();
        let given = std::env::var(TOKEN_VARIABLE).ok();
        let configured = config.admin.tokens.first().map(|t| t.expose().to_owned());
        let token = given
            .filter(|token| !token.trim().is_empty())
            .or(configured);
        Some(Self {
            agent,
            base: format!("http://{address}"),
            authorization: token.map(|token| format!("Bearer {}", token.trim())),
        })
    }

    /// A page of the API, if it gives one soon.
    pub(crate) fn page(&self, path: &str) -> Option<String> {
        let request = self.agent.get(format!("{}/api/v1/{path}", self.base));
        let request = match &self.authorization {
            Some(authorization) => request.header("authorization", authorization),
            None => request,
        };
        let request = request.config().timeout_global(Some(PAGE_MAX)).build();
        let mut answer = request
            .call()
            .ok()
            .filter(|answer| answer.status() == 200)?;
        answer.body_mut().read_to_string().ok()
    }

    fn ask(&self, path: &str, asked: &[(&str, String)]) -> Result<Replies<'static>, Failure> {
        let mut request = self.agent.get(format!("{}/api/v1/{path}", self.base));
        for (name, value) in asked {
            request = request.query(*name, value);
        }
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        let base = &self.base;
        let answer = request.call();
        let mut answer = answer.map_err(|error| failure(format!("{base}: {error}")))?;
        let status = answer.status().as_u16();
        if status == 200 {
            let body = BufReader::new(answer.into_body().into_reader());
            return Ok(Box::new(Lines { body: Some(body) }));
        }
        let text = answer.body_mut().read_to_string().unwrap_or_default();
        if let Ok(Reply::Error(failure)) = serde_json::from_str(&text) {
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

impl Searcher for Process {
    fn search(&self, request: SearchRequest) -> Result<Replies<'_>, Failure> {
        let mut asked = vec![
            ("q", request.query),
            ("limit", request.limit.to_string()),
            ("buckets", request.buckets.to_string()),
            (
                "since",
                match request.from_ns {
                    i64::MIN => "all".to_owned(),
                    ns => time(ns),
                },
            ),
        ];
        if request.to_ns != i64::MAX {
            asked.push(("until", time(request.to_ns)));
        }
        self.ask("search", &asked)
    }

    fn sql(&self, statement: &str, limit: u64) -> Result<Replies<'_>, Failure> {
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
    type Item = Reply;

    fn next(&mut self) -> Option<Reply> {
        let mut line = String::new();
        let read = self.body.as_mut()?.read_line(&mut line);
        let reply = match read {
            Ok(0) => Err("the answer broke off".to_owned()),
            Ok(_) => serde_json::from_str(&line).map_err(|error| error.to_string()),
            Err(error) => Err(format!("the answer broke off: {error}")),
        };
        let reply = reply.unwrap_or_else(|what| Reply::Error(failure(what)));
        if matches!(reply, Reply::End(_) | Reply::Error(_)) {
            self.body = None;
        }
        Some(reply)
    }
}

fn failure(message: String) -> Failure {
    Failure {
        message,
        ..Failure::default()
    }
}

/// An address that listens everywhere is reached on this machine.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        });
    }
    address
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
        assert!(matches!(last, Some(Reply::Error(_))), "{last:?}");
        let last = lines(format!("{line}what")).last();
        assert!(matches!(last, Some(Reply::Error(_))), "{last:?}");
    }

    #[test]
    fn a_time_keeps_its_nanoseconds() {
        for ns in [0, 1, 1_795_287_605_123_456_789, -1] {
            let read = inrush_store::query::when::time(&time(ns), 0);
            assert_eq!(read, Some(ns));
        }
    }
}
