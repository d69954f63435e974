//! Asking a program for its account.

use anyhow::{Context, Result};

/// The body of a GET, which must be answered with success.
pub fn get(url: &str) -> Result<String> {
    let mut response = ureq::get(url).call().with_context(|| url.to_owned())?;
    response
        .body_mut()
        .read_to_string()
        .with_context(|| url.to_owned())
}

/// Posts nothing to `url`, which must be answered with success.
pub fn post(url: &str) -> Result<()> {
    ureq::post(url)
        .send_empty()
        .map(drop)
        .with_context(|| url.to_owned())
}
