//! The endpoints.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, Query, State};
use axum::http::{Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use inrush_inspect::explain::RECORD_BYTES_MAX;
use inrush_pipeline::ReloadReport;
use inrush_pipeline::quarantine::QuarantineQuery;
use inrush_status::Admin;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::ReloadFollowers;
use crate::auth::AccessControl;
use crate::flow::SnapshotHub;
use crate::metrics;
use crate::serve::StreamProgress;
use crate::tls::ListenerTls;

#[derive(Clone)]
struct ApiState {
    admin: Arc<dyn Admin>,
    /// Held while a reload runs; a second one is told so instead of waiting.
    reloading: Arc<Mutex<()>>,
    hub: SnapshotHub,
}

/// The whole API over `admin`.
pub(crate) fn router(admin: Arc<dyn Admin>, hub: SnapshotHub) -> Router {
    let door = ApiState {
        admin,
        reloading: Arc::new(Mutex::new(())),
        hub,
    };
    let lists = Router::new()
        .route("/ledger", get(ledger))
        .route("/sources", get(sources))
        .route("/doors", get(doors))
        .route("/files", get(files))
        .route("/destinations", get(destinations))
        .route("/senders", get(senders));
    Router::new()
        .route("/livez", get(alive))
        .route("/readyz", get(ready))
        .route("/healthz", get(health))
        .route("/metrics", get(scrape))
        .route("/api/v1/reload", post(reload))
        .route("/api/v1/flow", get(flow))
        .route("/api/v1/flow/stream", get(flow_stream))
        .route(
            "/api/v1/explain",
            post(explain).layer(DefaultBodyLimit::max(RECORD_BYTES_MAX)),
        )
        .route("/api/v1/unknown", get(unrecognised))
        .route("/api/v1/quarantine", get(quarantine))
        .route("/api/v1/quarantine/replay", post(replay))
        .route("/api/v1/quarantine/drop", post(drop_quarantined))
        .merge(lists.clone())
        .nest("/api/v1", lists)
        .fallback(unknown)
        .method_not_allowed_fallback(wrong_method)
        .with_state(door)
}

/// An answer that says what is wrong.
pub(crate) fn problem(status: StatusCode, what: &str) -> Response {
    (status, Json(json!({ "error": what }))).into_response()
}

async fn unknown(uri: Uri) -> Response {
    problem(
        StatusCode::NOT_FOUND,
        &format!("no such path: {}", uri.path()),
    )
}

async fn wrong_method(method: Method, uri: Uri) -> Response {
    problem(
        StatusCode::METHOD_NOT_ALLOWED,
        &format!("{} does not take {method}", uri.path()),
    )
}

/// Liveness probe: the process lives if it answers, whatever its destinations do.
async fn alive() -> Response {
    Json(json!({ "alive": true })).into_response()
}

/// Readiness probe: the process accepts events; it does not while it stops.
async fn ready(Extension(followers): Extension<Arc<ReloadFollowers>>) -> Response {
    let ready = followers.health.is_ready();
    let status = match ready {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, Json(json!({ "ready": ready }))).into_response()
}

async fn health(State(door): State<ApiState>) -> Response {
    let health = door.admin.health();
    let status = if health.healthy {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (status, Json(health)).into_response()
}

async fn scrape(
    State(door): State<ApiState>,
    Extension(access): Extension<Arc<AccessControl>>,
    Extension(tls): Extension<Option<Arc<ListenerTls>>>,
) -> Response {
    let mut samples = door.admin.metrics();
    samples.extend(access.metrics());
    samples.extend(tls.iter().flat_map(|tls| tls.metrics()));
    let page = metrics::render(&samples);
    ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], page).into_response()
}

async fn ledger(State(door): State<ApiState>) -> Response {
    Json(door.admin.ledger()).into_response()
}

async fn sources(State(door): State<ApiState>) -> Json<Value> {
    Json(json!({ "sources": door.admin.sources() }))
}

async fn destinations(State(door): State<ApiState>) -> Json<Value> {
    Json(json!({ "destinations": door.admin.destinations() }))
}

async fn doors(State(door): State<ApiState>) -> Response {
    Json(door.admin.doors()).into_response()
}

/// Asks the kernel about each file, so it runs beside the one thread.
async fn files(State(door): State<ApiState>) -> Response {
    let work = tokio::task::spawn_blocking(move || door.admin.files());
    match work.await {
        Ok(files) => Json(files).into_response(),
        Err(_) => problem(StatusCode::INTERNAL_SERVER_ERROR, "failed; see the log"),
    }
}

async fn senders(State(door): State<ApiState>) -> Response {
    Json(door.admin.senders()).into_response()
}

async fn flow(State(door): State<ApiState>) -> Response {
    door.hub.snapshot().await
}

async fn flow_stream(
    State(door): State<ApiState>,
    Extension(stay): Extension<StreamProgress>,
) -> Response {
    door.hub.stream(stay)
}

/// As which source a record is to be read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SourceParams {
    source: Option<String>,
}

async fn explain(
    State(door): State<ApiState>,
    query: Result<Query<SourceParams>, QueryRejection>,
    record: Result<Bytes, BytesRejection>,
) -> Response {
    let Query(SourceParams { source }) = match query {
        Ok(query) => query,
        Err(error) => return problem(StatusCode::BAD_REQUEST, &error.body_text()),
    };
    let record = match record {
        Ok(record) => record,
        Err(error) if error.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            let most = format!("a record has at most {RECORD_BYTES_MAX} bytes here");
            return problem(StatusCode::PAYLOAD_TOO_LARGE, &most);
        }
        Err(error) => return problem(StatusCode::BAD_REQUEST, &error.body_text()),
    };
    match door.admin.explain(source.as_deref(), &record) {
        Ok(json) => ([(header::CONTENT_TYPE, "application/json")], json).into_response(),
        Err(error) => problem(StatusCode::BAD_REQUEST, &error),
    }
}

/// Asks every rule about every sample, so it runs beside the one thread.
async fn unrecognised(State(door): State<ApiState>) -> Response {
    let work = tokio::task::spawn_blocking(move || door.admin.unknown());
    match work.await {
        Ok(kinds) => Json(json!({ "unknown": kinds })).into_response(),
        Err(_) => problem(StatusCode::INTERNAL_SERVER_ERROR, "failed; see the log"),
    }
}

/// Reads files, so it runs beside the one thread: a scrape does not wait for it.
async fn reload(
    State(door): State<ApiState>,
    Extension(followers): Extension<Arc<ReloadFollowers>>,
) -> Response {
    let Ok(one_at_a_time) = Arc::clone(&door.reloading).try_lock_owned() else {
        return problem(StatusCode::CONFLICT, "a reload is running");
    };
    let admin = door.admin;
    // The lock travels with the work: a client that goes away does not let a second one in.
    let work = tokio::task::spawn_blocking(move || {
        let _one_at_a_time = one_at_a_time;
        log_reload(followers.follow(admin.reload()))
    });
    match work.await {
        Ok(Ok(report)) => Json(report).into_response(),
        Ok(Err(problems)) => {
            let body = json!({
                "error": "the configuration is not valid; the old one goes on running",
                "problems": problems,
            });
            (StatusCode::BAD_REQUEST, Json(body)).into_response()
        }
        Err(_) => problem(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the reload failed; see the log",
        ),
    }
}

/// Logs how a reload over the API ended: whoever looks for the cause of a change finds it.
fn log_reload(ended: Result<ReloadReport, Vec<String>>) -> Result<ReloadReport, Vec<String>> {
    match &ended {
        Ok(report) if report.changed.is_empty() => {
            tracing::info!("the configuration was reloaded over the API: no change");
        }
        Ok(report) => {
            let changed = report.changed.join("; ");
            tracing::info!(%changed, "the configuration was reloaded over the API");
        }
        Err(problems) => {
            let problems = problems.join("; ");
            tracing::warn!(%problems, "a reload over the API failed; the old configuration runs on");
        }
    }
    ended
}

type QuarantineParams = Result<Query<QuarantineQuery>, QueryRejection>;

async fn quarantine(State(door): State<ApiState>, query: QuarantineParams) -> Response {
    asked(door, query, |admin, query| admin.quarantine(query)).await
}

async fn replay(State(door): State<ApiState>, query: QuarantineParams) -> Response {
    let replay = |admin: &dyn Admin, query: &QuarantineQuery| admin.replay(query);
    match unchosen(&query) {
        true => problem(StatusCode::BAD_REQUEST, UNCHOSEN),
        false => asked(door, query, replay).await,
    }
}

async fn drop_quarantined(State(door): State<ApiState>, query: QuarantineParams) -> Response {
    let drop = |admin: &dyn Admin, query: &QuarantineQuery| {
        let dropped = admin.drop_quarantined(query)?;
        Ok(json!({ "dropped": dropped }))
    };
    match unchosen(&query) {
        true => problem(StatusCode::BAD_REQUEST, UNCHOSEN),
        false => asked(door, query, drop).await,
    }
}

const UNCHOSEN: &str = "which entries? destination, reason, id or since, or all=true";

/// True if a change names no entries: a forgotten condition must not mean all.
fn unchosen(query: &QuarantineParams) -> bool {
    query.as_ref().is_ok_and(|Query(query)| !query.is_chosen())
}

/// Answers from files, so it runs beside the one thread: a scrape does not wait for it.
async fn asked<T: Serialize + Send + 'static>(
    door: ApiState,
    query: QuarantineParams,
    work: impl FnOnce(&dyn Admin, &QuarantineQuery) -> Result<T, String> + Send + 'static,
) -> Response {
    let query = match query {
        Ok(Query(query)) => query,
        Err(error) => return problem(StatusCode::BAD_REQUEST, &error.body_text()),
    };
    if let Err(error) = query.filter() {
        return problem(StatusCode::BAD_REQUEST, &error);
    }
    let work = tokio::task::spawn_blocking(move || work(&*door.admin, &query));
    match work.await {
        Ok(Ok(answer)) => Json(answer).into_response(),
        Ok(Err(error)) => problem(StatusCode::SERVICE_UNAVAILABLE, &error),
        Err(_) => problem(StatusCode::INTERNAL_SERVER_ERROR, "failed; see the log"),
    }
}
