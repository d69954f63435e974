//! The dashboard: what `web/` builds, held in the binary in both forms it is asked for.
//!
//! # What it guarantees
//! * A path is one of the table's, byte for byte, or it is not found: nothing is decoded, joined or
//!   looked up on a disk, so there is nothing for a trick with `..` or `%2f` to reach.
//! * A name carries a hash of its content, so a browser may keep it for ever; the page itself,
//!   which names the others, is fetched each time.
//! * The page runs under [`POLICY`]: its own script, its own style, requests to its own origin.

use axum::Router;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

/// One file of the dashboard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asset {
    /// Path at which it is served: `/` or `/NAME-HASH.EXTENSION`.
    pub(crate) path: &'static str,
    /// Its media type.
    pub(crate) kind: &'static str,
    pub(crate) plain: &'static [u8],
    /// The same, gzipped.
    pub(crate) gzip: &'static [u8],
}

/// Files of `web/dist` when this was compiled; without `/` when it was empty.
pub(crate) const BUILT_IN: &[Asset] = include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// True if the dashboard was there when this was compiled.
pub const HAS_DASHBOARD: bool = !BUILT_IN.is_empty();

/// Content security policy of the page: nothing is inline, nothing comes from elsewhere, no frame
/// shows it, and its forms are sent by its script alone.
pub(crate) const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     connect-src 'self'; img-src 'self' data:; font-src 'self'; frame-ancestors 'none'; \
     base-uri 'none'; form-action 'none'";

const FOR_EVER: &str = "public, max-age=31536000, immutable";

/// Answer of `/` in a binary that was built without the page.
const MISSING: &str = "This binary was built without the dashboard: `make web`, then build again.\n\
     What it shows is at /api/v1/ledger, /healthz and /metrics.\n";

/// The routes of `assets`.
pub(crate) fn router(assets: &'static [Asset]) -> Router {
    let mut router = Router::new();
    if !assets.iter().any(|asset| asset.path == "/") {
        router = router.route("/", get(|| async { (StatusCode::NOT_FOUND, MISSING) }));
    }
    for asset in assets {
        let serve = move |headers: HeaderMap| async move { answer(asset, &headers) };
        router = router.route(asset.path, get(serve));
    }
    router
}

fn answer(asset: &Asset, headers: &HeaderMap) -> Response {
    let asked = headers.get_all(header::ACCEPT_ENCODING);
    let gzipped = asked.iter().any(|value| takes_gzip(value.to_str().ok()));
    let mut answer = match gzipped {
        true => ([(header::CONTENT_ENCODING, "gzip")], asset.gzip).into_response(),
        false => asset.plain.into_response(),
    };
    let mut say = |name, value| {
        let value = axum::http::HeaderValue::from_static(value);
        answer.headers_mut().insert(name, value);
    };
    say(header::CONTENT_TYPE, asset.kind);
    say(header::VARY, "accept-encoding");
    if asset.path != "/" {
        say(header::CACHE_CONTROL, FOR_EVER);
    }
    answer
}

/// True if an `Accept-Encoding` names gzip (RFC 9110, 12.5.3) and does not refuse it.
fn takes_gzip(accepted: Option<&str>) -> bool {
    accepted.unwrap_or_default().split(',').any(|item| {
        let (coding, weight) = item.split_once(';').unwrap_or((item, ""));
        let weight = weight.trim().trim_start_matches("q=");
        let refused = weight.parse::<f32>().is_ok_and(|weight| weight <= 0.0);
        coding.trim().eq_ignore_ascii_case("gzip") && !refused
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_sent_to_those_who_ask_for_it() {
        for (accepted, expected) in [
            ("gzip", true),
            ("br, GZIP", true),
            ("gzip, deflate, br, zstd", true),
            ("gzip;q=0.5", true),
            ("gzip;q=0", false),
            ("gzip; q=0.000", false),
            ("x-gzip-not", false),
            ("identity", false),
            ("", false),
        ] {
            assert_eq!(takes_gzip(Some(accepted)), expected, "{accepted}");
        }
        assert!(!takes_gzip(None));
    }
}
