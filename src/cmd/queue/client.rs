//! Asks the admin API of the running process.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use inrush_pipeline::config::Config;
use inrush_pipeline::quarantine::QuarantineQuery;
use serde_json::Value;

/// Timeout until an answer begins: a large replay is written and synced first.
const ANSWER_MAX: Duration = Duration::from_secs(600);

/// Timeout of the connection: it is our own machine.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// The variable of the environment that holds a token, where the API asks for one.
const TOKEN_VARIABLE: &str = "INRUSH_TOKEN";

/// Has the process at `address` change what the query means.
pub(crate) fn post(
    address: SocketAddr,
    token: Option<&str>,
    path: &str,
    query: &QuarantineQuery,
) -> anyhow::Result<Value> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .proxy(None)
        .http_status_as_error(false)
        .timeout_connect(Some(CONNECT_MAX))
        .timeout_recv_response(Some(ANSWER_MAX))
        .build()
        .into();
    let address = reachable(address);
    let url = format!("http://{address}/api/v1/quarantine/{path}");
    let mut request = agent.post(&url);
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    if let Value::Object(conditions) = serde_json::to_value(query)? {
        for (key, value) in conditions {
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            request = request.query(key, text);
        }
    }
    let mut answer = request.send_empty().with_context(|| {
        format!("cannot ask the admin API at {address}; is inrush running, and --admin right?")
    })?;
    let status = answer.status();
    let text = answer.body_mut().read_to_string()?;
    let body: Value = serde_json::from_str(&text)
        .map_err(|_| anyhow!("what answers at {address} is not inrush ({status})"))?;
    if !status.is_success() {
        bail!(
            "{}",
            body["error"].as_str().unwrap_or("the process refused")
        );
    }
    Ok(body)
}

/// Token for the admin API: INRUSH_TOKEN, or the first of `admin.tokens`.
pub(crate) fn token(config: Option<&Config>) -> Option<String> {
    let given = std::env::var(TOKEN_VARIABLE).ok();
    let given = given.filter(|token| !token.trim().is_empty());
    let configured = || Some(config?.admin.tokens.first()?.expose().to_owned());
    let token = given.or_else(configured)?;
    Some(token.trim().to_owned())
}

/// An address that listens everywhere is reached on this machine.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        let local = match address.ip() {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(_) => IpAddr::V6(std::net::Ipv6Addr::LOCALHOST),
        };
        address.set_ip(local);
    }
    address
}
