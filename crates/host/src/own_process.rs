//! Resources that this process uses, as Prometheus clients report them (`process_*`).

use std::fs;
use std::path::Path;

use crate::text;

/// Resources in use at one moment.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct OwnProcess {
    /// CPU time since the start, in seconds.
    pub cpu_s: f64,
    /// Bytes of resident memory.
    pub resident_bytes: u64,
    /// Bytes of address space.
    pub virtual_bytes: u64,
    /// Threads.
    pub threads: u64,
    /// Open descriptors.
    pub open_files: u64,
}

impl OwnProcess {
    /// Reads `/proc/self` below `root`; what cannot be read is 0.
    pub fn read(root: &Path) -> Self {
        let own = root.join("proc/self");
        let read = |name: &str| fs::read_to_string(own.join(name)).unwrap_or_default();
        let (status, stat) = (read("status"), read("stat"));
        let kib = |name| text::named(&status, name).unwrap_or(0);
        Self {
            cpu_s: text::stat(&stat).unwrap_or(0) as f64 / 1e9,
            resident_bytes: kib("VmRSS:").saturating_mul(1024),
            virtual_bytes: kib("VmSize:").saturating_mul(1024),
            threads: kib("Threads:"),
            // The one that lists them is among them.
            open_files: fs::read_dir(own.join("fd")).map_or(0, |files| files.count() as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_the_kernel_says_of_the_process_is_read() {
        let root = tempfile::tempdir().unwrap();
        let own = root.path().join("proc/self");
        fs::create_dir_all(own.join("fd")).unwrap();
        fs::write(own.join("fd/0"), "").unwrap();
        fs::write(own.join("fd/1"), "").unwrap();
        let status = "Name:\tx\nVmSize:\t  40 kB\nVmRSS:\t  12 kB\nThreads:\t7\n";
        fs::write(own.join("status"), status).unwrap();
        let stat = "1 (a b) S 1 1 1 0 -1 4194304 1 2 3 4 150 25 0 0 20 0 7 0 99 4096 3";
        fs::write(own.join("stat"), stat).unwrap();
        let read = OwnProcess::read(root.path());
        assert_eq!((read.cpu_s, read.threads, read.open_files), (1.75, 7, 2));
        assert_eq!((read.resident_bytes, read.virtual_bytes), (12_288, 40_960));
        assert_eq!(
            OwnProcess::read(&root.path().join("gone")),
            OwnProcess::default()
        );
    }
}
