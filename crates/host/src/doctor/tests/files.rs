//! Files of sources, and the watches that they need.

use super::Severity::{Info, Ok as Well, Warn};
use super::*;

fn paths(names: &[&str]) -> FoundPaths {
    FoundPaths {
        listed: names
            .iter()
            .map(|name| (name.into(), "why".to_owned()))
            .collect(),
        count: names.len() as u64,
    }
}

fn made(one: FileRequirement) -> Made {
    let mut made = Made::good(1);
    made.sysctl("fs.inotify.max_user_watches", "65536")
        .sysctl("fs.inotify.max_user_instances", "128");
    made.ask.files = vec![FileRequirement {
        source: "pods".to_owned(),
        folders: 10,
        files: 90,
        ..one
    }];
    made
}

#[test]
fn a_source_whose_files_can_be_read_is_well_and_none_is_asked_nothing() {
    let good = made(FileRequirement::default());
    let found = good.finding("files.found:pods");
    assert_eq!(found.found, "source pods: 90 files in 10 folders");
    for id in ["files.found:pods", "files.watches", "files.instances"] {
        assert_eq!(good.finding(id).severity, Well, "{id}");
    }
    let ids = |made: &Made| -> Vec<String> {
        made.report()
            .findings
            .into_iter()
            .map(|one| one.id)
            .collect()
    };
    assert_eq!(
        ids(&good)
            .iter()
            .filter(|id| id.starts_with("files."))
            .count(),
        3
    );
    assert!(
        !ids(&Made::good(1))
            .iter()
            .any(|id| id.starts_with("files."))
    );
}

#[test]
fn what_is_wrong_with_files_is_named_with_the_command_that_shows_it() {
    let many = ["/a'b", "/b", "/c\n", "/d", "/e"];
    let ill = made(FileRequirement {
        denied: paths(&many),
        skipped: paths(&["/pipe"]),
        polled: paths(&["/nfs"]),
        unmatched: vec!["/x/*.log".to_owned(), "/y".to_owned()],
        is_partial: true,
        ..FileRequirement::default()
    });
    for (id, severity, found, command) in [
        (
            "files.unreadable:pods",
            Warn,
            "source pods: /a'b: why; /b: why; /c\\n: why; and 2 more",
            "namei -l '/a'\\''b'",
        ),
        (
            "files.skipped:pods",
            Info,
            "source pods: /pipe: why",
            "ls -l '/pipe'",
        ),
        (
            "files.polled:pods",
            Info,
            "source pods: /nfs: why",
            "findmnt -T '/nfs'",
        ),
        (
            "files.unmatched:pods",
            Warn,
            "source pods: `/x/*.log`, `/y` match nothing",
            "inrush check",
        ),
    ] {
        let finding = ill.finding(id);
        assert_eq!(
            (finding.severity, finding.found.as_str()),
            (severity, found)
        );
        assert_eq!(finding.command.as_deref(), Some(command));
    }
    assert!(
        ill.finding("files.found:pods")
            .found
            .contains("at least 90 files")
    );
}

#[test]
fn limits_of_inotify_are_judged_by_the_files_that_there_are() {
    let watches = |limit: &str, no_watch: Option<&str>| {
        let made = made(FileRequirement {
            no_watch: no_watch.map(str::to_owned),
            ..FileRequirement::default()
        });
        made.sysctl("fs.inotify.max_user_watches", limit);
        made.finding("files.watches")
    };
    for (limit, severity) in [("8392", Well), ("8391", Info), ("100", Info), ("99", Warn)] {
        assert_eq!(watches(limit, None).severity, severity, "{limit}");
    }
    let short = watches("99", None);
    let line = "sysctl -w fs.inotify.max_user_watches=16384";
    assert!(
        short.command.as_ref().unwrap().starts_with(line),
        "{short:?}"
    );
    assert!(
        short.settings.is_empty(),
        "`--apply` sets no limit of watches"
    );
    let used_up = watches("65536", Some("the limit of watches is reached"));
    assert_eq!(used_up.severity, Warn);
    assert!(used_up.command.unwrap().contains("=131072"));

    let few = made(FileRequirement::default());
    few.sysctl("fs.inotify.max_user_instances", "64");
    let few = few.finding("files.instances");
    assert_eq!(few.severity, Warn);
    let line = "sysctl -w fs.inotify.max_user_instances=128";
    assert!(few.command.as_ref().unwrap().starts_with(line), "{few:?}");
}
