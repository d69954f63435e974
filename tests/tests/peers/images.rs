//! Images of containers from scratch: nothing but busybox, as `docker save` writes them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use inrush_tests::run_ok;
use serde_json::json;

/// Image of the containers: nothing but busybox.
pub(crate) const IMAGE: &str = "localhost/bb:1";

/// Image of the sandbox of a pod.
pub(crate) const PAUSE: &str = "localhost/pause:1";

fn sha256(path: &Path) -> String {
    let said = run_ok(Command::new("sha256sum").arg(path));
    said.split(' ').next().unwrap().to_owned()
}

/// Writes an archive with both images.
pub(crate) fn write_images(dir: &Path, busybox: &Path) -> PathBuf {
    let folder = dir.join("images");
    fs::create_dir(&folder).unwrap();
    let (root, layer) = (dir.join("image"), folder.join("layer.tar"));
    fs::create_dir_all(root.join("bin")).unwrap();
    fs::copy(busybox, root.join("busybox")).unwrap();
    // For `system` of awk.
    symlink("/busybox", root.join("bin/sh")).unwrap();
    let mut tar = Command::new("tar");
    tar.arg("-C").arg(&root).arg("-cf").arg(&layer);
    run_ok(tar.args(["busybox", "bin"]));
    let layers = json!({"type": "layers", "diff_ids": [format!("sha256:{}", sha256(&layer))]});
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        _ => "arm64",
    };
    let image = |name: &str, entry: &[&str]| {
        let config = json!({"architecture": arch, "os": "linux", "rootfs": layers,
            "config": {"Entrypoint": entry}});
        fs::write(folder.join(name), config.to_string()).unwrap();
    };
    image("bb.json", &["/busybox"]);
    image("pause.json", &["/busybox", "sleep", "1000000"]);
    let manifest = json!([
        {"Config": "bb.json", "RepoTags": [IMAGE], "Layers": ["layer.tar"]},
        {"Config": "pause.json", "RepoTags": [PAUSE], "Layers": ["layer.tar"]},
    ]);
    fs::write(folder.join("manifest.json"), manifest.to_string()).unwrap();
    let archive = dir.join("images.tar");
    run_ok(
        Command::new("tar")
            .arg("-C")
            .arg(&folder)
            .arg("-cf")
            .arg(&archive)
            .arg("."),
    );
    archive
}
