//! What is below: CPUs, memory, disk, limits, clock.

use super::Severity::{Critical, Info, Warn};
use super::*;

#[test]
fn a_group_that_is_held_back_is_named_with_its_share() {
    let made = Made::good(2);
    made.is_well("cpu.cgroup");
    made.group("cpu.max", "50000 100000\n");
    made.is_well("cpu.cgroup");
    let stat = |throttled: u64| {
        format!("usage_usec 9\nnr_periods 1000\nnr_throttled {throttled}\nthrottled_usec 2500000\n")
    };
    let command = "echo max > /sys/fs/cgroup/system.slice/inrush.service/cpu.max";
    made.group("cpu.stat", &stat(5));
    made.says("cpu.cgroup", Warn, None, command);
    made.group("cpu.stat", &stat(100));
    made.says("cpu.cgroup", Critical, None, command);
    let found = made.finding("cpu.cgroup").found;
    assert!(
        found.contains("0.50 CPUs") && found.ends_with("2.5 s in all"),
        "{found}"
    );
}

#[test]
fn the_tightest_group_above_counts() {
    let made = Made::good(2);
    made.group("cpu.max", "200000 100000\n");
    made.write("sys/fs/cgroup/system.slice/cpu.max", "150000 100000\n");
    let stat = "nr_periods 10\nnr_throttled 10\nthrottled_usec 1\n";
    made.write("sys/fs/cgroup/system.slice/cpu.stat", stat);
    let command = "echo max > /sys/fs/cgroup/system.slice/cpu.max";
    made.says("cpu.cgroup", Critical, None, command);
}

#[test]
fn in_a_container_the_group_is_the_root_of_what_is_seen() {
    let made = Made::good(2);
    made.write("proc/4711/cgroup", "0::/../../outside\n");
    made.write("sys/fs/cgroup/memory.max", &format!("{}\n", 256 * MIB));
    let need = 128 * MIB + 2 * 2 * 64 * MIB + 116 * MIB;
    let command = format!("echo {need} > /sys/fs/cgroup/memory.max");
    made.says("memory.bound", Warn, None, &command);
}

#[test]
fn a_bound_of_memory_below_what_is_configured_is_named() {
    let made = Made::good(2);
    made.is_well("memory.bound");
    made.group("memory.max", "max\n");
    made.is_well("memory.bound");
    made.group("memory.max", "268435456\n");
    let group = "/sys/fs/cgroup/system.slice/inrush.service";
    let command = format!("echo 524288000 > {group}/memory.max");
    made.says("memory.bound", Warn, None, &command);
    made.group("memory.events", "low 0\nmax 12\noom 1\noom_kill 1\n");
    made.says("memory.bound", Critical, None, &command);
}

#[test]
fn a_host_with_little_memory_is_named() {
    let made = Made::good(1);
    made.write("proc/meminfo", "MemTotal:  500000 kB\nMemFree: 1 kB\n");
    made.says("memory.bound", Warn, None, "free -m");
}

#[test]
fn governors_that_slow_down_are_named() {
    let made = Made::good(2);
    let governor = |cpu: usize, name: &str| {
        let folder = format!("sys/devices/system/cpu/cpu{cpu}/cpufreq");
        made.write(&format!("{folder}/scaling_governor"), &format!("{name}\n"));
        made.write(&format!("{folder}/scaling_driver"), "acpi-cpufreq\n");
    };
    let none = |finding: &Finding| finding.id != "cpu.governor";
    assert!(made.report().findings.iter().all(none), "a virtual machine");
    governor(0, "performance");
    governor(1, "performance");
    made.is_well("cpu.governor");
    let command = "cpupower frequency-set -g performance";
    governor(1, "powersave");
    made.says("cpu.governor", Warn, None, command);
    let found = made.finding("cpu.governor").found;
    assert_eq!(
        found,
        "performance on 1 CPUs, powersave on 1 CPUs, driver acpi-cpufreq"
    );
    let driver = "sys/devices/system/cpu/cpu0/cpufreq/scaling_driver";
    made.write(driver, "intel_pstate\n");
    made.says("cpu.governor", Info, None, command);
}

#[test]
fn deep_sleep_is_named_unless_it_is_forbidden() {
    let made = Made::good(2);
    let state = |n: usize, name: &str, us: u64, disabled: u64| {
        let folder = format!("sys/devices/system/cpu/cpu0/cpuidle/state{n}");
        made.write(&format!("{folder}/name"), &format!("{name}\n"));
        made.write(&format!("{folder}/latency"), &format!("{us}\n"));
        made.write(&format!("{folder}/disable"), &format!("{disabled}\n"));
    };
    state(0, "POLL", 0, 0);
    state(1, "C1", 2, 0);
    made.is_well("cpu.idle_states");
    state(2, "C6", 133, 0);
    made.says("cpu.idle_states", Info, None, "cpupower idle-set -D 100");
    state(2, "C6", 133, 1);
    made.is_well("cpu.idle_states");
}

#[test]
fn memory_that_may_not_lie_in_large_pages_is_named() {
    let made = Made::good(2);
    made.is_well("memory.huge_pages");
    let file = "sys/kernel/mm/transparent_hugepage/enabled";
    made.write(file, "always madvise [never]\n");
    made.says(
        "memory.huge_pages",
        Info,
        None,
        &format!("echo madvise > /{file}"),
    );
}

#[test]
fn a_disk_that_the_queue_can_fill_is_named() {
    let mut made = Made::good(2);
    made.is_well("disk.space");
    let mut free = |bytes| {
        made.disk.space.as_mut().unwrap().free_bytes = bytes;
        made.finding("disk.space")
    };
    // The queue has 1 GiB of its 10, and leaves half a GiB free.
    assert_eq!(free(9 * GIB + 512 * MIB).severity, Severity::Ok);
    assert_eq!(free(9 * GIB).severity, Warn);
    assert_eq!(free(511 * MIB).severity, Critical);
    let command = "df -h /data/inrush; du -xh -d1 /data/inrush";
    made.says("disk.space", Critical, None, command);
}

#[test]
fn a_file_system_that_forgets_or_is_far_away_is_named() {
    let made = Made::good(2);
    made.is_well("disk.file_system");
    made.mount("/data", "tmpfs");
    made.says("disk.file_system", Warn, None, "findmnt -T /data/inrush");
    let finding = made.finding("disk.file_system");
    assert!(
        finding.found.ends_with("is on tmpfs, mounted at /data"),
        "{finding:?}"
    );
    made.mount("/data/inrush", "nfs4");
    assert!(made.finding("disk.file_system").why.contains("network"));
    // Not above the folder, although its name begins so.
    made.mount("/data/in", "tmpfs");
    made.is_well("disk.file_system");
}

#[test]
fn a_slow_disk_is_named_with_its_times() {
    let mut made = Made::good(2);
    made.is_well("disk.sync");
    let ms = Duration::from_millis;
    made.disk.syncs = Ok([vec![ms(1); 15], vec![ms(400)]].concat());
    made.says("disk.sync", Warn, None, "iostat -x 1 5");
    let found = made.finding("disk.sync").found;
    assert!(found.ends_with("p50 1.00 ms, max 400.00 ms"), "{found}");
    made.disk.syncs = Ok(vec![ms(30); 16]);
    made.says("disk.sync", Warn, None, "iostat -x 1 5");
    made.disk.syncs = Err("permission denied".to_owned());
    made.says("disk.sync", Info, None, "ls -ld /data/inrush");
}

#[test]
fn a_limit_of_open_files_below_the_connections_is_named() {
    let made = Made::good(2);
    made.is_well("limits.open_files");
    made.limits("proc/4711", "4096");
    let command = "prlimit --pid 4711 --nofile=33792:33792";
    made.says("limits.open_files", Warn, None, command);
    made.limits("proc/4711", "unlimited");
    made.is_well("limits.open_files");
    // The process is gone: what is left is the limit of this shell.
    fs::remove_file(made.root.path().join("proc/4711/comm")).unwrap();
    made.limits("proc/self", "1024");
    made.says("limits.open_files", Info, None, "ulimit -Hn 33792");
    // Another one has its number by now.
    made.write("proc/4711/comm", "bash\n");
    made.says("limits.open_files", Info, None, "ulimit -Hn 33792");
}

#[test]
fn a_slow_clock_is_named_with_a_better_one() {
    let made = Made::good(2);
    made.is_well("clock.source");
    let folder = "sys/devices/system/clocksource/clocksource0";
    let file = format!("{folder}/current_clocksource");
    made.write(&file, "hpet\n");
    made.says("clock.source", Warn, None, &format!("echo tsc > /{file}"));
    made.write(
        &format!("{folder}/available_clocksource"),
        "hpet acpi_pm \n",
    );
    let command = "dmesg | grep -i -E 'tsc|clocksource'";
    made.says("clock.source", Warn, None, command);
}

/// A host with control groups of version 1, where our process has half a CPU and 256 MiB.
fn version_1(made: &Made, mounts: &str, groups: &str) {
    fs::remove_dir_all(made.root.path().join("sys/fs/cgroup")).unwrap();
    made.write("proc/self/mountinfo", mounts);
    made.write("proc/4711/cgroup", groups);
    for (folder, quota, limit) in [
        ("", "-1", "9223372036854771712"),
        ("/half", "50000", "268435456"),
    ] {
        let cpu = format!("sys/fs/cgroup/cpu,cpuacct{folder}");
        made.write(&format!("{cpu}/cgroup.procs"), "4711\n")
            .write(&format!("{cpu}/cpu.cfs_quota_us"), &format!("{quota}\n"))
            .write(&format!("{cpu}/cpu.cfs_period_us"), "100000\n");
        let memory = format!("sys/fs/cgroup/memory{folder}");
        made.write(&format!("{memory}/cgroup.procs"), "4711\n")
            .write(
                &format!("{memory}/memory.limit_in_bytes"),
                &format!("{limit}\n"),
            )
            .write(&format!("{memory}/memory.failcnt"), "12\n");
    }
}

const MOUNTS_1: &str = "\
    30 1 254:0 / / rw - ext4 /dev/vda rw\n\
    31 30 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
    32 30 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
    33 30 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

#[test]
fn groups_of_version_1_are_looked_at_too() {
    let made = Made::good(2);
    let groups = "4:memory:/half\n2:cpu,cpuacct:/half\n1:cpuset:/\n0::/\n";
    version_1(&made, MOUNTS_1, groups);
    made.is_well("cpu.cgroup");
    let stat = "nr_periods 1000\nnr_throttled 100\nthrottled_time 2500000000\n";
    made.write("sys/fs/cgroup/cpu,cpuacct/half/cpu.stat", stat);
    let command = "echo -1 > /sys/fs/cgroup/cpu,cpuacct/half/cpu.cfs_quota_us";
    made.says("cpu.cgroup", Critical, None, command);
    let found = made.finding("cpu.cgroup").found;
    assert!(
        found.contains("0.50 CPUs") && found.ends_with("2.5 s in all"),
        "{found}"
    );
    let command = "echo 524288000 > /sys/fs/cgroup/memory/half/memory.limit_in_bytes";
    made.says("memory.bound", Warn, None, command);
    let found = made.finding("memory.bound").found;
    assert!(found.contains("256 MiB, reached: 12"), "{found}");
    let control = "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n";
    made.write("sys/fs/cgroup/memory/half/memory.oom_control", control);
    made.says("memory.bound", Critical, None, command);
    let unread = |f: &Finding| f.id == "host.unread";
    assert!(!made.report().findings.iter().any(unread));
}

#[test]
fn without_a_bound_of_version_1_the_hosts_memory_counts() {
    let made = Made::good(2);
    version_1(&made, MOUNTS_1, "4:memory:/\n2:cpu,cpuacct:/\n");
    let found = made.finding("memory.bound").found;
    assert!(found.starts_with("the host's memory: 7.6 GiB"), "{found}");
    assert_eq!(
        made.finding("cpu.cgroup").found,
        "no bound of CPU time for process 4711"
    );
}

#[test]
fn a_container_is_shown_its_own_group_of_version_1_as_the_root() {
    let made = Made::good(2);
    let mounts = "\
        30 1 254:0 / / rw - overlay overlay rw\n\
        31 30 0:29 /docker/12ab /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n\
        32 30 0:30 /docker/12ab /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
    let groups = "4:memory:/docker/12ab/half\n2:cpu,cpuacct:/docker/12ab/half\n";
    version_1(&made, mounts, groups);
    let command = "echo 524288000 > /sys/fs/cgroup/memory/half/memory.limit_in_bytes";
    made.says("memory.bound", Warn, None, command);
}
