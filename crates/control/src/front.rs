//! Middleware before every endpoint: who may pass, and what every answer says to a browser.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json, Router};
use serde_json::json;

use crate::api::problem;
use crate::assets::{self, Asset};
use crate::auth::{self, AccessControl, AuthRejection, LOGIN_PATH, SESSION_PATH};
use crate::docs;
use crate::guard;

/// Headers of every answer, for a browser: keep nothing (unless it says otherwise itself), guess no
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

/// Path of the health probe, which a load balancer may ask without a token.
const HEALTH_PATH: &str = "/healthz";

/// Path of the liveness probe, which whoever restarts the process may ask without a token.
const ALIVE_PATH: &str = "/livez";

/// Path of the readiness probe, which a load balancer may ask without a token.
const READY_PATH: &str = "/readyz";

#[derive(Clone)]
struct MiddlewareState {
    access: Arc<AccessControl>,
    assets: &'static [Asset],
    /// True if we listen on a loopback address: see [`guard`].
    loopback: bool,
}

/// The whole server: the page and the login beside `api`, and the watchman before all of them.
/// Every request carries the [`AccessControl`] as an extension.
pub(crate) fn router(
    api: Router,
    access: Arc<AccessControl>,
    assets: &'static [Asset],
    loopback: bool,
) -> Router {
    let front = MiddlewareState {
        access: Arc::clone(&access),
        assets,
        loopback,
    };
    api.merge(assets::router(assets))
        .merge(docs::router())
        .merge(auth::router(Arc::clone(&access)))
        .layer(Extension(access))
        .layer(middleware::from_fn_with_state(front, watchman))
}

/// Refuses who may not pass, and dresses the answer.
async fn watchman(State(front): State<MiddlewareState>, request: Request, next: Next) -> Response {
    let mut answer = front.pass(request, next).await;
    for (name, value) in BROWSER_HEADERS {
        let headers = answer.headers_mut();
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
    answer
}

impl MiddlewareState {
    async fn pass(&self, request: Request, next: Next) -> Response {
        let (method, headers) = (request.method(), request.headers());
        let path = request.uri().path();
        let page = self.is_page(path);
        let target = guard::RequestTarget { path, page };
        let asks = self.access.asks();
        if let Err(why) = guard::check(method, target, headers, self.loopback, asks) {
            return problem(StatusCode::FORBIDDEN, why);
        }
        let pass = match self.access.admit(headers) {
            Ok(pass) => pass,
            Err(refused) => return self.outside(refused, request, next).await,
        };
        // Whoever logs in anew need not show the token of the session before.
        if request.uri().path() != LOGIN_PATH
            && let Err(refused) = self.access.allow(&pass, method, headers)
        {
            self.access.note(refused);
            return turned_away(refused);
        }
        auth::held(next.run(request).await, Arc::clone(&self.access), pass)
    }

    /// True if it is the dashboard, one of its files or a page of the documentation.
    fn is_page(&self, path: &str) -> bool {
        let mut assets = self.assets.iter();
        path == "/" || assets.any(|asset| asset.path == path) || docs::is_page(path)
    }

    /// Answers a stranger: the page, the documentation, the login, that the process lives, and in
    /// one word whether all is well.
    async fn outside(&self, refused: AuthRejection, request: Request, next: Next) -> Response {
        let path = request.uri().path();
        if path == HEALTH_PATH {
            return in_one_word(next.run(request).await);
        }
        let login = path == SESSION_PATH || path == LOGIN_PATH;
        if login || path == ALIVE_PATH || path == READY_PATH || self.is_page(path) {
            return next.run(request).await;
        }
        self.access.note(refused);
        turned_away(refused)
    }
}

/// The status of a health answer without its details.
fn in_one_word(answer: Response) -> Response {
    let healthy = answer.status() == StatusCode::OK;
    (answer.status(), Json(json!({ "healthy": healthy }))).into_response()
}

fn turned_away(refused: AuthRejection) -> Response {
    match refused {
        AuthRejection::Stranger => {
            let words = "log in, or send `Authorization: Bearer TOKEN`";
            let scheme = [(header::WWW_AUTHENTICATE, "Bearer")];
            (scheme, problem(StatusCode::UNAUTHORIZED, words)).into_response()
        }
        AuthRejection::Forged => problem(
            StatusCode::FORBIDDEN,
            "the x-inrush-csrf header of this session is missing: reload the page",
        ),
    }
}
