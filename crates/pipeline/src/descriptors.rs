//! Descriptors that a configuration asks for: those of connections, and the reserve for all else.

use inrush_config::Config;
use inrush_event::AutoCount;
use inrush_sink::SinkConfig;

/// Descriptors that the queue and quarantine open now and then: segments written, read and synced.
const QUEUE_FILES: u64 = 8;

/// Descriptors for each destination: its cursor, and the segment that it reads.
const DESTINATION_FILES: u64 = 2;

/// Descriptors of an embedded store: files that are written, merged, and read by searches.
const STORE_FILES: u64 = 16;

/// Descriptors of an embedded store where the limit of open files is large.
const STORE_FILES_MAX: u64 = 128;

/// Descriptors for what is seldom: a certificate that is read again, `/proc`, a name server.
const OTHER_FILES: u64 = 4;

/// Descriptors of a `file` destination beside its files: a folder that is synced, one that is
/// compressed.
const FILE_OTHERS: u64 = 2;

/// The part of the limit of open files that a `file` destination may have open at once.
const OPEN_FILES_PART: u64 = 32;

/// Connections to a collector that `workers: auto` comes to at most.
const COLLECTOR_CONNECTIONS: u64 = 16;

/// Connections of the admin API, unless the limit of open files is small.
const ADMIN_CONNECTIONS_MAX: u64 = 128;

/// As few connections as the admin API has, however small the limit is.
const ADMIN_CONNECTIONS_MIN: u64 = 4;

/// Connections of the health listener, unless the limit of open files is small.
const HEALTH_CONNECTIONS_MAX: u64 = 64;

/// The part of the limit of open files that one elastic user may have: a store, the admin API.
const ELASTIC_PART: u64 = 16;

/// Files that a `file` destination may have open of the `wanted` ones, under this limit.
pub(crate) fn open_files(limit: u64, wanted: u32) -> u32 {
    let most = (limit / OPEN_FILES_PART).max(2);
    wanted.min(u32::try_from(most).unwrap_or(u32::MAX))
}

/// Connections that the admin API may have under this limit.
pub fn admin_connections(limit: u64) -> usize {
    let part = limit / ELASTIC_PART;
    part.clamp(ADMIN_CONNECTIONS_MIN, ADMIN_CONNECTIONS_MAX) as usize
}

/// Connections that the health listener may have under this limit.
pub fn health_connections(limit: u64) -> usize {
    let part = limit / ELASTIC_PART;
    part.clamp(ADMIN_CONNECTIONS_MIN, HEALTH_CONNECTIONS_MAX) as usize
}

/// Descriptors that all but connections may open, under a limit of open files.
pub(crate) fn reserve(config: &Config, limit: u64) -> u64 {
    let destination = |sink: &SinkConfig| {
        DESTINATION_FILES
            + match sink {
                // Open ones, their second handles while they are synced, and closed ones that wait
                // for that.
                SinkConfig::File(file) => {
                    3 * u64::from(open_files(limit, file.max_open_files)) + FILE_OTHERS
                }
                SinkConfig::Store(_) => (limit / ELASTIC_PART).clamp(STORE_FILES, STORE_FILES_MAX),
                SinkConfig::SplunkHec(hec) => match hec.workers {
                    AutoCount::Count(n) => u64::from(n.get()),
                    AutoCount::Auto => COLLECTOR_CONNECTIONS,
                },
                SinkConfig::Stdout(_) | SinkConfig::Blackhole(_) => 0,
            }
    };
    let destinations: u64 = config.destinations.values().map(destination).sum();
    let health = config
        .health
        .as_ref()
        .map_or(0, |_| health_connections(limit));
    QUEUE_FILES + OTHER_FILES + destinations + (admin_connections(limit) + health) as u64
}

/// Warning that a configuration asks for more than a limit of open files, with the remedy; `None`
/// if it fits.
///
/// It runs all the same: connections beyond the limit are refused and counted.
pub fn shortage(config: &Config, limit: u64) -> Option<String> {
    let sources = config.sources.values();
    let connections: u64 = sources.map(|one| one.options().connections_max()).sum();
    let files = |sink: &SinkConfig| match sink {
        SinkConfig::File(file) => u64::from(file.max_open_files),
        _ => 0,
    };
    let files: u64 = config.destinations.values().map(files).sum();
    let reserve = reserve(config, limit).max(files);
    let wanted = connections + reserve;
    (wanted > limit).then(|| {
        format!(
            "the limit of open files is {limit}, and this configuration may want {wanted}: \
             {connections} connections (`max_connections` of every listener) and {reserve} for \
             queue, destinations and the admin API, which come first; connections beyond the \
             limit are refused and counted. Raise it: `LimitNOFILE={}` in the systemd unit, \
             `ulimit -Hn` in a shell, `--ulimit nofile=` of a container; or lower \
             `max_connections`",
            wanted.next_multiple_of(1024)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_limits_shrink_what_is_elastic() {
        assert_eq!((open_files(64, 256), open_files(20_000, 256)), (2, 256));
        assert_eq!(
            (admin_connections(64), admin_connections(1 << 20)),
            (4, 128)
        );
        assert_eq!(
            (health_connections(64), health_connections(1 << 20)),
            (4, 64)
        );
    }
}
