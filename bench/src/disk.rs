//! A file system of a given size: ext4 in a sparse file, mounted by a loop device. It needs root.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use nix::sys::statvfs::statvfs;

/// Names of the folders that disks are mounted at begin with this; the process that did it follows.
const PREFIX: &str = "small-disk-";

/// The kernel's list of what is mounted.
const MOUNTS: &str = "/proc/mounts";

/// One that is mounted; unmounted and deleted when dropped.
pub(crate) struct LoopDisk {
    folder: PathBuf,
}

impl LoopDisk {
    /// Mounts so many GiB at a new folder in `dir`. Disks that an earlier process has left mounted
    /// are unmounted before.
    pub(crate) fn mount(dir: &Path, gib: u64) -> Result<Self> {
        unmount_leftovers()?;
        let folder = dir.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
        let disk = Self { folder };
        let image = disk.image();
        let file = fs::File::create(&image).with_context(|| image.display().to_string())?;
        file.set_len(gib << 30).context("a sparse file")?;
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image))?;
        let mount = ["-o", "loop,discard"];
        run(Command::new("mount")
            .args(mount)
            .arg(&image)
            .arg(&disk.folder))?;
        Ok(disk)
    }

    /// The folder that it is mounted at.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Bytes of the file system, and those that are free for all.
    pub(crate) fn bytes(&self) -> Result<(u64, u64)> {
        let stat = statvfs(&self.folder).context("statvfs")?;
        let unit = stat.fragment_size();
        Ok((stat.blocks() * unit, stat.blocks_available() * unit))
    }

    fn image(&self) -> PathBuf {
        self.folder.with_extension("img")
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        // Each fails only where mounting did not come so far.
        let _ = unmount(&self.folder);
        let _ = fs::remove_file(self.image());
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Unmounts, at last also where a file is open, and deletes, what processes that are gone have
/// mounted.
fn unmount_leftovers() -> Result<()> {
    let mounts = fs::read_to_string(MOUNTS).context(MOUNTS)?;
    for folder in mounted(&mounts) {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let pid = name.strip_prefix(PREFIX).unwrap_or_default();
        if !Path::new("/proc").join(pid).exists() {
            drop(LoopDisk { folder });
        }
    }
    Ok(())
}

/// The folders at which disks of this program are mounted.
fn mounted(mounts: &str) -> Vec<PathBuf> {
    let folders = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    let ours = |folder: &PathBuf| {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        name.strip_prefix(PREFIX)
            .is_some_and(|pid| !pid.is_empty() && pid.bytes().all(|b| b.is_ascii_digit()))
    };
    folders.map(PathBuf::from).filter(ours).collect()
}

/// At once, or when the last file in it is closed.
fn unmount(folder: &Path) -> Result<()> {
    let now = run(Command::new("umount").arg(folder));
    now.or_else(|_| run(Command::new("umount").arg("--lazy").arg(folder)))
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{command:?} (needs root): {}",
        words.trim()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_disks_of_this_program_are_known_again() {
        let mounts = "/dev/vda / ext4 rw 0 0\n\
                      /dev/loop0 /tmp/inrush-bench-x/small-disk-77 ext4 rw 0 0\n\
                      /dev/loop1 /tmp/small-disk-mine ext4 rw 0 0\n\
                      /dev/loop2 /tmp/small-disk- ext4 rw 0 0\n";
        let found = mounted(mounts);
        assert_eq!(found, [Path::new("/tmp/inrush-bench-x/small-disk-77")]);
    }
}
