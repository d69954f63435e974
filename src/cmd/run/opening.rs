//! First lines of the log: what starts, where it keeps events, where they go, and what is off.

use std::path::{Path, absolute};

use inrush_config::Config;
use inrush_sink::SinkConfig;

/// Tells of the configuration that came from `origin`.
pub(super) fn tell(config: &Config, origin: &str) {
    tracing::info!("version {} with {origin}", env!("CARGO_PKG_VERSION"));
    tracing::info!("data in {}", whole(&config.data_dir).display());
    let destinations = config.destinations.iter();
    let destinations: Vec<String> = destinations
        .map(|(name, sink)| format!("{name} ({})", sink.kind()))
        .collect();
    tracing::info!("delivering to {}", destinations.join(", "));
    let off = off(config);
    if !off.is_empty() {
        tracing::info!("off: {}", off.join("; "));
    }
}

/// Tells where to look, once the admin API answers at this address.
pub(super) fn tell_where(url: &str) {
    tracing::info!("open {url} in a browser for the dashboard and {url}/docs for the guides");
}

fn whole(path: &Path) -> std::path::PathBuf {
    absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Parts that are not used, with the option that turns each on.
fn off(config: &Config) -> Vec<&'static str> {
    let store = |sink: &SinkConfig| matches!(sink, SinkConfig::Store(_));
    let parts = [
        (
            !config.packs.enabled,
            "packs, so no product is recognised (`packs.enabled`)",
        ),
        (
            !config.destinations.values().any(store),
            "search, as no destination is a store (`type: store`)",
        ),
        (
            !config.queue.durability.has_disk(),
            "the queue on disk (`queue.durability`)",
        ),
        (
            !config.admin.asks(),
            "a login at the dashboard (`admin.password_hash`)",
        ),
    ];
    let off = parts.into_iter().filter(|(is_off, _)| *is_off);
    off.map(|(_, words)| words).collect()
}
