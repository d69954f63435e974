//! A GET over plain HTTP, for ledgers and for lines that arrived.

use std::io::{Read, Take};
use std::time::Duration;

use crate::error::LoadError;

/// Timeout of a connection, and of the beginning of an answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Bytes of the largest ledger that is read.
const LEDGER_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// One address that is asked again and again.
#[derive(Debug)]
pub(crate) struct HttpClient {
    url: String,
    agent: ureq::Agent,
}

impl HttpClient {
    /// A client for `url`.
    ///
    /// # Errors
    /// [`LoadError::Usage`] if it is not `http://`.
    pub(crate) fn new(url: &str) -> Result<Self, LoadError> {
        if !url.starts_with("http://") {
            return Err(LoadError::Usage(format!(
                "`{url}`: only http:// addresses can be read"
            )));
        }
        let config = ureq::Agent::config_builder()
            // Receivers under test are near: a proxy meant for the outer world is in the way.
            .proxy(None)
            .timeout_connect(Some(ANSWER_MAX))
            .timeout_recv_response(Some(ANSWER_MAX))
            .build();
        Ok(Self {
            url: url.to_owned(),
            agent: config.into(),
        })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The body, as a stream.
    pub(crate) fn get(&self) -> Result<impl Read + use<>, LoadError> {
        let answer = self
            .agent
            .get(&self.url)
            .call()
            .map_err(|error| self.failed(&error))?;
        Ok(answer
            .into_body()
            .into_with_config()
            .limit(u64::MAX)
            .reader())
    }

    /// The body if it is no larger than a ledger can be.
    pub(crate) fn get_small(&self) -> Result<Vec<u8>, LoadError> {
        let mut body: Take<_> = self.get()?.take(LEDGER_BYTES_MAX);
        let mut bytes = Vec::new();
        body.read_to_end(&mut bytes)
            .map_err(|error| self.failed(&error))?;
        Ok(bytes)
    }

    pub(crate) fn failed(&self, error: &dyn std::error::Error) -> LoadError {
        LoadError::Verify {
            from: self.url.clone(),
            what: error.to_string(),
        }
    }
}
