//! Snapshots of a running process, by the admin API.

use std::time::Duration;

use inrush_client::{AdminClient, AdminTarget, ClientError, ClientTimeouts, TOKEN_VARIABLE};

use crate::snapshot::Snapshot;

/// Timeout of an answer. Gathering takes a millisecond; a reload can hold it up.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Bytes of an answer that are read: thousands of sources and destinations.
const ANSWER_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Reason why there is nothing to show.
#[derive(Debug, thiserror::Error)]
pub enum TopError {
    /// The address or the token makes no sense: wrong usage.
    #[error(transparent)]
    Usage(ClientError),
    /// The process does not answer, or not as Inrush does.
    #[error("{url}: {what}")]
    Answer {
        /// Address that was asked.
        url: String,
        /// The failure, and what to do about it.
        what: String,
    },
    /// The terminal cannot be used.
    #[error("the terminal cannot be used: {0}; `inrush top --once` needs none")]
    Terminal(#[from] std::io::Error),
}

/// One process whose snapshots are shown.
pub(crate) struct SnapshotClient(AdminClient);

impl SnapshotClient {
    /// A client for the process at `target`.
    ///
    /// # Errors
    /// [`TopError::Usage`]; [`TopError::Answer`] if there is no TLS.
    pub(crate) fn new(target: &AdminTarget) -> Result<Self, TopError> {
        let timeouts = ClientTimeouts {
            connect: ANSWER_MAX,
            answer: ANSWER_MAX,
            all: Some(ANSWER_MAX),
        };
        let client = AdminClient::new(target, timeouts);
        client.map(Self).map_err(|error| match error {
            ClientError::Connection(what) => TopError::Answer {
                url: target.url.clone(),
                what,
            },
            usage => TopError::Usage(usage),
        })
    }

    /// Scheme and address that are asked, for people.
    pub(crate) fn base(&self) -> &str {
        self.0.base()
    }

    /// A snapshot, as it was sent.
    pub(crate) fn text(&self) -> Result<String, TopError> {
        self.ask().map_err(|what| TopError::Answer {
            url: self.base().to_owned(),
            what,
        })
    }

    /// A snapshot, read.
    pub(crate) fn snapshot(&self) -> Result<Snapshot, TopError> {
        let text = self.text()?;
        serde_json::from_str(&text).map_err(|error| TopError::Answer {
            url: self.base().to_owned(),
            what: format!("the answer is not the one of an inrush of this version: {error}"),
        })
    }

    fn ask(&self) -> Result<String, String> {
        let answer = self.0.get("flow", &[]);
        let mut answer = answer.map_err(|error| format!("{error}; is inrush running there?"))?;
        match answer.status() {
            200 => {}
            401 => {
                let token = match self.0.has_token() {
                    false => "it asks for a token",
                    true => "it does not take this token",
                };
                return Err(format!(
                    "{token}: put one of its `admin.tokens` into {TOKEN_VARIABLE}"
                ));
            }
            403 => {
                return Err("refused (403): ask for its address, not for a name of it".to_owned());
            }
            404 => {
                return Err("there is no /api/v1/flow: an older inrush, or none".to_owned());
            }
            status => return Err(format!("status {status}")),
        }
        let text = answer.text(ANSWER_BYTES_MAX);
        text.map_err(|error| error.to_string())
    }
}
