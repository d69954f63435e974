//! What stands before every endpoint: who may pass, and what every answer says to a browser.

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::Response;

use crate::api::problem;
use crate::assets::{self, Asset};
use crate::guard;

/// What every answer says to a browser: keep nothing (unless it says otherwise itself), guess no
/// type, load nothing from elsewhere, and share nothing with the pages of others.
const BROWSER_HEADERS: [(HeaderName, &str); 7] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (header::CONTENT_SECURITY_POLICY, assets::POLICY),
];

/// The whole server: the page beside `api`, and the watchman before both. `loopback`: whether we
/// listen on a loopback address, see [`guard`].
pub(crate) fn router(api: Router, assets: &'static [Asset], loopback: bool) -> Router {
    api.merge(assets::router(assets))
        .layer(middleware::from_fn_with_state(loopback, watchman))
}

/// Refuses what [`guard`] refuses, and dresses the answer.
async fn watchman(State(loopback): State<bool>, request: Request, next: Next) -> Response {
    let mut answer = match guard::check(request.method(), request.headers(), loopback) {
        Ok(()) => next.run(request).await,
        Err(why) => problem(StatusCode::FORBIDDEN, why),
    };
    for (name, value) in BROWSER_HEADERS {
        let headers = answer.headers_mut();
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
    answer
}
