//! The twin itself: it keeps what it promises and takes what it may.
#![allow(clippy::unwrap_used)]

use super::*;

fn errors(call: DiskCall) -> DiskFaults {
    let mut faults = DiskFaults::default();
    faults.errors[call as usize] = u16::MAX;
    faults
}

fn content(disk: &VirtualDisk, name: &str) -> Vec<u8> {
    let file = disk.open(name).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
    bytes
}

/// The contents that `seeds` disks show after `act` on a synced file of 1,024 times `a`.
fn outcomes(seeds: u64, act: impl Fn(&VirtualDisk, &dyn StorageFile)) -> Vec<Vec<u8>> {
    (0..seeds)
        .map(|seed| {
            let disk = VirtualDisk::new(seed);
            let file = disk.create("f").unwrap();
            file.write_at(&[&[b'a'; 1024]], 0).unwrap();
            file.sync().unwrap();
            disk.sync_names().unwrap();
            act(&disk, &*file);
            content(&disk, "f")
        })
        .collect()
}

fn of(parts: &[(u8, usize)]) -> Vec<u8> {
    let run = |(byte, n): &(u8, usize)| vec![*byte; *n];
    parts.iter().flat_map(run).collect()
}

#[test]
fn what_was_synced_survives_every_power_cut() {
    let ends = outcomes(200, |disk, _| disk.cut_power());
    assert!(ends.iter().all(|end| *end == of(&[(b'a', 1024)])));
}

#[test]
fn what_was_written_survives_the_process() {
    let ends = outcomes(50, |disk, file| {
        file.write_at(&[b"bb", b"", b"cc"], 1024).unwrap();
        disk.end_process();
    });
    let all = of(&[(b'a', 1024), (b'b', 2), (b'c', 2)]);
    assert!(ends.iter().all(|end| *end == all));
}

#[test]
fn a_power_cut_keeps_loses_tears_and_reorders() {
    let ends = outcomes(2000, |disk, file| {
        file.write_at(&[&[b'b'; 1024]], 1024).unwrap();
        file.write_at(&[&[b'c'; 512]], 2048).unwrap();
        disk.cut_power();
    });
    let (a, b, c) = ((b'a', 1024), (b'b', 1024), (b'c', 512));
    for (what, wanted) in [
        ("all kept", of(&[a, b, c])),
        ("all lost", of(&[a])),
        ("in order", of(&[a, b])),
        ("reordered", of(&[a, (0, 1024), c])),
        ("a sector", of(&[a, (b'b', 512), (0, 512), c])),
        ("the other sector", of(&[a, (0, 512), (b'b', 512)])),
        ("length alone", of(&[a, (0, 1024)])),
    ] {
        assert!(ends.contains(&wanted), "never {what}");
    }
    let cut_short = |end: &&Vec<u8>| end.len() > 1024 && !end.len().is_multiple_of(512);
    assert!(ends.iter().any(|end| cut_short(&end)), "never cut short");
    assert!(ends.iter().all(|end| end.starts_with(&of(&[a]))));
}

#[test]
fn names_are_kept_or_undone_until_they_are_synced() {
    let mut seen = [[false; 2]; 3];
    for seed in 0..200 {
        let disk = VirtualDisk::new(seed);
        for name in ["gone", "old", "kept"] {
            disk.create(name).unwrap();
        }
        disk.sync_names().unwrap();
        disk.create("new").unwrap();
        disk.remove("gone").unwrap();
        disk.rename("old", "bad/old").unwrap();
        disk.cut_power();
        let names = disk.list().unwrap();
        let has = |name: &str| names.iter().any(|other| other == name);
        assert!(has("kept"));
        assert!(!has("bad/old"), "what is put aside is not listed");
        assert_eq!(has("old"), disk.open("bad/old").is_err());
        for (i, name) in ["new", "gone", "old"].into_iter().enumerate() {
            seen[i][usize::from(has(name))] = true;
        }
    }
    assert_eq!(seen, [[true; 2]; 3]);
}

#[test]
fn a_failed_sync_forgets_what_it_covered() {
    let shown = |then: &dyn Fn(&VirtualDisk)| {
        outcomes(500, |disk, file| {
            file.write_at(&[&[b'b'; 512]], 1024).unwrap();
            disk.fail_next(DiskCall::Sync);
            assert!(file.sync().is_err());
            assert!(file.sync().is_ok(), "as if nothing had been");
            then(disk);
        })
    };
    let (before, after) = (shown(&|_| {}), shown(&VirtualDisk::cut_power));
    let (without, with) = (of(&[(b'a', 1024)]), of(&[(b'a', 1024), (b'b', 512)]));
    assert!(before.contains(&without) && before.contains(&with));
    assert!(after.contains(&without) && after.contains(&with));
    let vanished = (0..500).any(|i| before[i] == with && after[i] == without);
    assert!(vanished, "reads never show more than the disk holds");
}

#[test]
fn a_failed_write_leaves_any_part() {
    let lengths: Vec<usize> = outcomes(200, |disk, file| {
        disk.set_faults(errors(DiskCall::Write));
        let error = file.write_at(&[b"0123456789"], 1024).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(5));
        disk.set_faults(DiskFaults::default());
    })
    .iter()
    .map(Vec::len)
    .collect();
    assert!((1024..=1034).all(|length| lengths.contains(&length)));
}

#[test]
fn a_full_disk_takes_what_fits_and_goes_on_when_there_is_room() {
    let disk = VirtualDisk::new(1);
    let file = disk.create("f").unwrap();
    disk.set_capacity(8);
    assert_eq!(disk.free_bytes().unwrap(), 8);
    let error = file.write_at(&[b"0123456789"], 0).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert_eq!(content(&disk, "f"), b"01234567");
    file.write_at(&[b"ab"], 6).unwrap();
    assert!(disk.create("g").is_err() && file.set_len(9).is_err());
    disk.set_capacity(10);
    file.write_at(&[b"89"], 8).unwrap();
    assert_eq!(content(&disk, "f"), b"012345ab89");
}

#[test]
fn death_comes_within_a_call_and_nothing_follows_it() {
    let disk = VirtualDisk::new(3);
    let file = disk.create("f").unwrap();
    disk.die_after(1);
    file.write_at(&[b"one"], 0).unwrap();
    assert!(!disk.is_dead());
    assert!(file.write_at(&[b"two"], 3).is_err());
    assert!(disk.is_dead());
    assert!(file.sync().is_err() && disk.list().is_err());
    disk.end_process();
    assert!(content(&disk, "f").starts_with(b"one"));
    assert!(file.len().is_err(), "the handle outlived its process");
}

#[test]
fn every_kind_of_call_can_be_made_to_fail() {
    type Ask = fn(&VirtualDisk, &dyn StorageFile) -> bool;
    let asks: [(DiskCall, Ask); DiskCall::COUNT] = [
        (DiskCall::List, |disk, _| disk.list().is_err()),
        (DiskCall::Create, |disk, _| disk.create("g").is_err()),
        (DiskCall::Open, |disk, _| disk.open("f").is_err()),
        (DiskCall::Remove, |disk, _| disk.remove("f").is_err()),
        (DiskCall::Rename, |disk, _| disk.rename("f", "g").is_err()),
        (DiskCall::SyncNames, |disk, _| disk.sync_names().is_err()),
        (DiskCall::FreeBytes, |disk, _| disk.free_bytes().is_err()),
        (DiskCall::Len, |_, file| file.len().is_err()),
        (DiskCall::Read, |_, file| file.read_at(&mut [0], 0).is_err()),
        (DiskCall::Write, |_, file| {
            file.write_at(&[b"x"], 0).is_err()
        }),
        (DiskCall::Sync, |_, file| file.sync().is_err()),
        (DiskCall::SetLen, |_, file| file.set_len(4).is_err()),
    ];
    for (call, ask) in asks {
        let disk = VirtualDisk::new(4);
        let file = disk.create("f").unwrap();
        disk.fail_next(call);
        assert!(ask(&disk, &*file), "{call:?} went well");
        assert!(!ask(&disk, &*file), "{call:?} failed twice");
        assert_eq!(disk.errors_given(), 1);
    }
}

#[test]
fn flips_change_one_bit_of_what_is_read_and_rot_one_of_what_is_kept() {
    let flipped = |disk: &VirtualDisk| {
        let wrong = content(disk, "f").into_iter().map(|byte| byte ^ b'a');
        wrong.map(u8::count_ones).sum::<u32>()
    };
    outcomes(20, |disk, _| {
        disk.set_faults(DiskFaults {
            flips: u16::MAX,
            ..DiskFaults::default()
        });
        assert_eq!(flipped(disk), 1);
        disk.set_faults(DiskFaults::default());
        assert_eq!(flipped(disk), 0);
        assert_eq!(disk.rot().unwrap().0, "f");
        assert_eq!(flipped(disk), 1);
        disk.cut_power();
        assert_eq!(flipped(disk), 1);
    });
}

#[test]
fn the_last_durable_write_is_known() {
    let disk = VirtualDisk::new(5);
    let file = disk.create("f").unwrap();
    disk.set_mark(7);
    file.write_at(&[b"x"], 0).unwrap();
    disk.set_mark(8);
    file.sync().unwrap();
    assert_eq!(disk.durable_since("f"), None, "its name is not durable");
    disk.sync_names().unwrap();
    assert_eq!(disk.durable_since("f"), Some(7));
    disk.set_mark(9);
    disk.fail_next(DiskCall::Write);
    assert!(file.write_at(&[b"y"], 0).is_err());
    assert_eq!(
        disk.written_since("f"),
        Some(7),
        "a write that failed counts for nothing"
    );
    disk.set_mark(10);
    file.write_at(&[b"z"], 0).unwrap();
    assert_eq!(disk.written_since("f"), Some(10));
    assert_eq!(disk.durable_since("f"), Some(7));
    disk.fail_next(DiskCall::Sync);
    assert!(file.sync().is_err() && file.sync().is_ok());
    assert_eq!(
        disk.durable_since("f"),
        Some(7),
        "the failed sync forgot it"
    );
}

#[test]
fn what_is_written_again_is_no_newer_and_a_sync_promises_what_was_there_when_it_began() {
    let disk = VirtualDisk::new(6);
    let file = disk.create("f").unwrap();
    disk.sync_names().unwrap();
    for (mark, bytes) in [(3, b"x"), (4, b"y"), (5, b"x")] {
        disk.set_mark(mark);
        file.write_at(&[bytes], u64::from(bytes[0])).unwrap();
    }
    assert_eq!(disk.written_since("f"), Some(4));
    disk.begin_sync("f");
    disk.set_mark(6);
    file.write_at(&[b"z"], 0).unwrap();
    file.sync().unwrap();
    assert_eq!(disk.durable_since("f"), Some(4));
    file.sync().unwrap();
    assert_eq!(disk.durable_since("f"), Some(6));
}

#[test]
fn the_same_seed_and_calls_give_the_same_history() {
    let run = |seed, last: &[u8]| {
        let disk = VirtualDisk::new(seed);
        disk.set_faults(DiskFaults {
            errors: [9000; DiskCall::COUNT],
            latency_ns: 10..1000,
            ..DiskFaults::default()
        });
        for i in 0..50_u64 {
            if let Ok(file) = disk.create(&i.to_string()) {
                let _ = file.write_at(&[b"0123", last], i);
                let _ = file.sync();
            }
        }
        disk.cut_power();
        (disk.take_elapsed(), disk.digest(), disk.errors_given())
    };
    assert_eq!(run(1, b"x"), run(1, b"x"));
    assert_ne!(run(1, b"x").1, run(2, b"x").1);
    assert_ne!(run(1, b"x").1, run(1, b"yy").1);
    assert!(run(1, b"x").0 > Duration::ZERO);
}
