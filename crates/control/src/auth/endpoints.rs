//! `GET /api/v1/session`, `POST /api/v1/login` and `POST /api/v1/logout`.
//!
//! No answer repeats what was sent.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{AccessControl, LoginOutcome, PeerAddress, RequestCredential};
use crate::api::problem;

/// Path of the session: who one is, and whether one has to be somebody; answered to everybody.
pub(crate) const SESSION_PATH: &str = "/api/v1/session";
/// The way in; answered to everybody.
pub(crate) const LOGIN_PATH: &str = "/api/v1/login";
const LOGOUT_PATH: &str = "/api/v1/logout";

/// Bytes of a login: a password of 1 KiB, every character of it escaped, and braces.
const LOGIN_BYTES_MAX: usize = 8 * 1024;

/// The routes.
pub(crate) fn router(access: Arc<AccessControl>) -> Router {
    Router::new()
        .route(SESSION_PATH, get(session))
        .route(LOGIN_PATH, post(login))
        .route(LOGOUT_PATH, post(logout))
        .with_state(access)
}

/// It has no `Debug`: a password must not get into a log.
#[derive(Deserialize)]
struct Login {
    password: String,
}

async fn session(State(access): State<Arc<AccessControl>>, headers: HeaderMap) -> Json<Value> {
    let pass = access.admit(&headers).ok();
    let csrf = match &pass {
        Some(RequestCredential::Session(id)) => access.sessions().csrf(id),
        _ => None,
    };
    let required = access.asks();
    let user = (required && pass.is_some()).then_some("admin");
    Json(json!({ "required": required, "user": user, "csrf": csrf.unwrap_or_default() }))
}

async fn login(
    State(access): State<Arc<AccessControl>>,
    Extension(PeerAddress(peer)): Extension<PeerAddress>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    if !access.asks() {
        return problem(StatusCode::BAD_REQUEST, "nobody has to log in here");
    }
    // A form of another site can send text, but not this type.
    let kind = headers.get(header::CONTENT_TYPE);
    if !kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json")) {
        return problem(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "send application/json: {\"password\": \"…\"}",
        );
    }
    let body = match whole(body, access.body).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    let Ok(Login { password }) = serde_json::from_slice(&body) else {
        return problem(StatusCode::BAD_REQUEST, "send {\"password\": \"…\"}");
    };
    // Whoever logs in again is done with the session before.
    let before = access.cookie.of(&headers);
    let outcome = access.login(peer, password).await;
    if let LoginOutcome::In(_) = outcome {
        before.iter().for_each(|id| access.sessions().close(id));
    }
    answer(outcome)
}

async fn whole(body: Body, limit: Duration) -> Result<Bytes, Response> {
    match timeout(limit, to_bytes(body, LOGIN_BYTES_MAX)).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(_)) => Err(problem(
            StatusCode::PAYLOAD_TOO_LARGE,
            "a login is no larger than 8 KiB",
        )),
        Err(_) => Err(problem(
            StatusCode::REQUEST_TIMEOUT,
            "the login took too long to arrive",
        )),
    }
}

fn answer(outcome: LoginOutcome) -> Response {
    match outcome {
        LoginOutcome::In(cookie) => {
            (StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response()
        }
        LoginOutcome::Wrong => problem(StatusCode::UNAUTHORIZED, "that is not the password"),
        LoginOutcome::Later(wait) => later(wait, "too many wrong passwords from this address"),
        LoginOutcome::Busy => later(Duration::from_secs(2), "too many are logging in just now"),
        LoginOutcome::NoPassword => problem(
            StatusCode::FORBIDDEN,
            "no password is configured: scripts send a token, and people cannot log in",
        ),
        LoginOutcome::Failed => problem(
            StatusCode::SERVICE_UNAVAILABLE,
            "the system is out of threads or of random bytes",
        ),
    }
}

fn later(wait: Duration, why: &str) -> Response {
    let seconds = wait.as_secs_f64().ceil() as u64;
    let body = problem(
        StatusCode::TOO_MANY_REQUESTS,
        &format!("{why}: try again in {seconds} s"),
    );
    ([(header::RETRY_AFTER, seconds.to_string())], body).into_response()
}

async fn logout(State(access): State<Arc<AccessControl>>, headers: HeaderMap) -> Response {
    for id in access.cookie.of(&headers) {
        access.sessions().close(&id);
    }
    let gone = [(header::SET_COOKIE, access.cookie.clear())];
    (StatusCode::NO_CONTENT, gone).into_response()
}
