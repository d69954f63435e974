//! Asks the admin API for a snapshot.

use std::time::Duration;

use crate::snapshot::Snapshot;

/// How long an answer may take. Gathering takes a millisecond; a reload can hold it up.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Bytes of an answer that are read: thousands of sources and destinations.
const ANSWER_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The variable of the environment that holds a token, where the API asks for one. A flag would
/// show it to everybody who can list processes.
const TOKEN_VARIABLE: &str = "INRUSH_TOKEN";

/// Why there is nothing to show.
#[derive(Debug, thiserror::Error)]
pub enum TopError {
    /// The address makes no sense: wrong usage.
    #[error("`{0}` is not an address of the admin API; write for example http://127.0.0.1:8686")]
    Address(String),
    /// The process does not answer, or not as Inrush does.
    #[error("{url}: {what}")]
    Answer {
        /// What was asked.
        url: String,
        /// What is wrong, and what to do.
        what: String,
    },
    /// The terminal cannot be used.
    #[error("the terminal cannot be used: {0}; `inrush top --once` needs none")]
    Terminal(#[from] std::io::Error),
}

/// One process that is asked again and again.
pub(crate) struct Client {
    base: String,
    agent: ureq::Agent,
    /// The value of the `Authorization` header, if there is a token.
    authorization: Option<String>,
}

impl Client {
    /// A client for the process at `address`: `http://HOST:PORT`, or that without `http://`.
    ///
    /// # Errors
    /// [`TopError::Address`].
    pub(crate) fn new(address: &str) -> Result<Self, TopError> {
        let bad = || TopError::Address(address.to_owned());
        let rest = address.strip_prefix("http://").unwrap_or(address);
        let rest = rest.trim_end_matches('/');
        let odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '?' | '#' | '@');
        if rest.is_empty() || rest.contains("://") || rest.contains(odd) {
            return Err(bad());
        }
        let base = format!("http://{rest}");
        let uri: ureq::http::Uri = base.parse().map_err(|_| bad())?;
        let is_whole = |authority: &ureq::http::uri::Authority| {
            let has_port = authority.as_str().len() > authority.host().len();
            !authority.host().is_empty() && (!has_port || authority.port_u16().is_some())
        };
        uri.authority()
            .filter(|one| is_whole(one))
            .ok_or_else(bad)?;
        let agent = ureq::Agent::config_builder()
            // A proxy meant for the outer world is in the way.
            .proxy(None)
            .http_status_as_error(false)
            .timeout_global(Some(ANSWER_MAX))
            .build()
            .into();
        let token = std::env::var(TOKEN_VARIABLE).ok();
        let token = token.filter(|token| !token.trim().is_empty());
        Ok(Self {
            base,
            agent,
            authorization: token.map(|token| format!("Bearer {}", token.trim())),
        })
    }

    /// What is asked, for people.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// A snapshot, as it was sent.
    pub(crate) fn text(&self) -> Result<String, TopError> {
        self.ask().map_err(|what| TopError::Answer {
            url: self.base.clone(),
            what,
        })
    }

    /// A snapshot, read.
    pub(crate) fn snapshot(&self) -> Result<Snapshot, TopError> {
        let text = self.text()?;
        serde_json::from_str(&text).map_err(|error| TopError::Answer {
            url: self.base.clone(),
            what: format!("the answer is not the one of an inrush of this version: {error}"),
        })
    }

    fn ask(&self) -> Result<String, String> {
        let url = format!("{}/api/v1/flow", self.base);
        let mut request = self.agent.get(&url);
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        let answer = request.call();
        let mut answer = answer.map_err(|error| format!("{error}; is inrush running there?"))?;
        let status = answer.status().as_u16();
        match status {
            200 => {}
            401 => {
                return Err(format!(
                    "refused: put one of its `admin.tokens` into {TOKEN_VARIABLE}"
                ));
            }
            403 => {
                return Err("refused (403): ask for its address, not for a name of it".to_owned());
            }
            404 => {
                return Err("there is no /api/v1/flow: an older inrush, or none".to_owned());
            }
            _ => return Err(format!("status {status}")),
        }
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        body.read_to_string()
            .map_err(|error| format!("the answer broke off: {error}"))
    }
}
