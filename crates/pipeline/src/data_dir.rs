//! The data directory: made, owned by one process, closed to strangers.

use std::path::{Path, PathBuf};

use inrush_config::Config;
use inrush_files::TightenReport;
use inrush_sink::SinkConfig;

use crate::data_dir_lock::DataDirLock;
use crate::upgrade;

/// Names of the files and folders of Inrush in `data_dir`. What else is there is not ours: `file`
/// destinations have permissions of their own.
const OURS: [&str; 8] = [
    "queue",
    "quarantine",
    "names.json",
    "zones.json",
    "given-up",
    "owner.pid",
    "owner.lock",
    upgrade::FILE,
];

/// Makes the directory, takes it, and takes from what an earlier version left there whatever
/// others could do with it.
///
/// # Errors
/// It cannot be made or used; in words for the operator.
pub(crate) fn open(config: &Config) -> Result<DataDirLock, String> {
    let access = config
        .data_access
        .resolve()
        .map_err(|(key, what)| format!("data_access.{key}: {what}"))?;
    inrush_files::set_own(access);
    let data_dir = &config.data_dir;
    let said = |error: std::io::Error| error.to_string();
    inrush_files::create_dir_all(data_dir, &access).map_err(said)?;
    // Without it the folder is one that Inrush has not used before, and perhaps not for it alone.
    let known = data_dir.join("owner.pid").exists();
    let owner = DataDirLock::take(data_dir).map_err(said)?;
    let mut done = TightenReport::default();
    for path in ours(config) {
        done.add(inrush_files::tighten(&path, &access));
    }
    if known && let Ok(metadata) = data_dir.metadata() {
        done.one(data_dir, &metadata, &access);
    }
    tell(data_dir, &done);
    upgrade::tell(config, known, &access);
    Ok(owner)
}

fn ours(config: &Config) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = OURS.iter().map(|name| config.data_dir.join(name)).collect();
    for sink in config.destinations.values() {
        if let SinkConfig::Store(store) = sink
            && !store.is_remote()
        {
            let folder = config.data_dir.join(&store.path);
            // Else it is a folder that no store was in yet.
            paths.extend(folder.join("_log").is_dir().then_some(folder));
        }
    }
    paths
}

fn tell(data_dir: &Path, done: &TightenReport) {
    let data_dir = data_dir.display();
    if done.changed > 0 {
        tracing::warn!(
            %data_dir,
            files = done.changed,
            "other users could read what is kept: they cannot any more; `data_access` gives a \
             group access"
        );
    }
    if let Some(example) = &done.example {
        let example = example.display();
        tracing::warn!(
            %data_dir,
            files = done.left,
            %example,
            "other users can read what is kept, and it belongs to another user: chown it"
        );
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn nothing_of_others_in_the_folder_is_touched() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("shared");
        std::fs::create_dir(&folder).unwrap();
        for (path, mode) in [("theirs", 0o644), ("names.json", 0o644)] {
            std::fs::write(folder.join(path), "{}").unwrap();
            let wide = PermissionsExt::from_mode(mode);
            std::fs::set_permissions(folder.join(path), wide).unwrap();
        }
        std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o755)).unwrap();
        let mut config = Config::builtin(Some(&folder)).unwrap();
        config.destinations.clear();
        let mode = |name: &str| folder.join(name).metadata().unwrap().mode() & 0o777;
        drop(open(&config).unwrap());
        // The folder was not ours before.
        assert_eq!(
            (mode("theirs"), mode("names.json"), mode(".")),
            (0o644, 0o600, 0o755)
        );
        assert_eq!((mode("owner.pid"), mode("owner.lock")), (0o600, 0o600));
        drop(open(&config).unwrap());
        assert_eq!((mode("theirs"), mode(".")), (0o644, 0o700));
        assert_eq!(inrush_files::own(), inrush_files::Access::PRIVATE);
    }
}
