//! Asks the admin API of the running process to change quarantine.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use inrush_client::{AdminClient, AdminTarget, ClientTimeouts, reachable};
use inrush_config::Config;
use inrush_pipeline::quarantine::QuarantineQuery;
use serde_json::Value;

/// Timeout until an answer begins: a large replay is written and synced first.
const ANSWER_MAX: Duration = Duration::from_secs(600);

/// Timeout of the connection: it is our own machine.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// Bytes of an answer that are read: it is a number or an error.
const ANSWER_BYTES_MAX: u64 = 1024 * 1024;

/// Has the process at `address` change what the query means.
pub(crate) fn post(
    address: SocketAddr,
    token: Option<&str>,
    path: &str,
    query: &QuarantineQuery,
) -> anyhow::Result<Value> {
    let address = reachable(address);
    let target = AdminTarget {
        url: format!("http://{address}"),
        token: token.map(str::to_owned),
        verifier: None,
    };
    let timeouts = ClientTimeouts {
        connect: CONNECT_MAX,
        answer: ANSWER_MAX,
        all: None,
    };
    let client = AdminClient::new(&target, timeouts)?;
    let mut conditions = Vec::new();
    let query = serde_json::to_value(query)?;
    for (key, value) in query.as_object().into_iter().flatten() {
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        conditions.push((key.as_str(), text));
    }
    let answer = client.post(&format!("quarantine/{path}"), &conditions);
    let mut answer = answer.with_context(|| {
        format!("cannot ask the admin API at {address}; is inrush running, and --admin right?")
    })?;
    let status = answer.status();
    let body: Value = serde_json::from_str(&answer.text(ANSWER_BYTES_MAX)?)
        .map_err(|_| anyhow!("what answers at {address} is not inrush ({status})"))?;
    if !(200..300).contains(&status) {
        bail!(
            "{}",
            body["error"].as_str().unwrap_or("the process refused")
        );
    }
    Ok(body)
}

/// Token for the admin API: INRUSH_TOKEN, or the first of `admin.tokens`.
pub(crate) fn token(config: Option<&Config>) -> Option<String> {
    let configured = config.and_then(|config| config.admin.tokens.first());
    inrush_client::token(configured.map(|token| token.expose()))
}
