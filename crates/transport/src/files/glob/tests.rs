//! Tests of patterns: each form, and a differential test against the crate `glob`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use proptest::prelude::*;

use super::*;

fn set(include: &[&str], exclude: &[&str]) -> GlobSet {
    let owned = |patterns: &[&str]| patterns.iter().map(|text| text.to_string()).collect();
    let (include, exclude): (Vec<String>, Vec<String>) = (owned(include), owned(exclude));
    GlobSet::new(&include, &exclude).unwrap()
}

fn fault(pattern: &str) -> GlobFault {
    GlobSet::new(&[pattern.to_owned()], &[]).unwrap_err().1
}

fn matches(pattern: &str, path: &[u8]) -> bool {
    set(&[pattern], &[]).matches(Path::new(OsStr::from_bytes(path)))
}

#[test]
fn patterns_match_names_of_any_bytes() {
    let table: &[(&str, &[u8], bool)] = &[
        ("/a/*.log", b"/a/x.log", true),
        ("/a/*.log", b"/a/.log", true),
        ("/a/*.log", b"/a/b/x.log", false),
        ("/a/*.log", b"/a/\xff\n.log", true),
        ("/a/?", b"/a/\xff", true),
        ("/a/?", "/a/é".as_bytes(), true),
        ("/a/??", "/a/é".as_bytes(), false),
        ("/a/*?", "/a/é".as_bytes(), true),
        ("/a/?", b"/a/", false),
        ("/a/[a-c]x", b"/a/bx", true),
        ("/a/[!a-c]x", b"/a/bx", false),
        ("/a/[^a-c]x", b"/a/\xffx", true),
        ("/a/[]]x", b"/a/]x", true),
        ("/a/[!]]x", b"/a/]x", false),
        ("/a/[a\\]]", b"/a/]", true),
        ("/a/[а-я]", "/a/ж".as_bytes(), true),
        ("/a/[a-]", b"/a/-", true),
        ("/a/{b,c*}", b"/a/cd", true),
        ("/a/{b,c/d}/e", b"/a/c/d/e", true),
        ("/{a,{b,c}}/d{1,2}", b"/c/d2", true),
        ("/a/[{]b,c}", b"/a/{b,c}", true),
        ("/a/\\{b,c\\}", b"/a/{b,c}", true),
        ("/a/\\*", b"/a/*", true),
        ("/a/\\*", b"/a/b", false),
        ("/**/x", b"/x", true),
        ("/**/x", b"/a/b/c/x", true),
        ("/a/**/b/**/c", b"/a/b/1/2/c", true),
        ("/a/**/b/**/c", b"/a/1/b/2/c", true),
        ("/a/**/b/**/c", b"/a/1/2/c", false),
        ("/a/**", b"/a", false),
        ("/a/**", b"/a/b/c", true),
        ("/a/b**c", b"/a/b1c", true),
        ("/a//b/./c", b"/a/b/c", true),
        ("/a/*a*a*a*b", b"/a/aaaaaaaaaaaaaaaaaaaaaaaaaaaa", false),
    ];
    for (pattern, path, expected) in table {
        let path_text = String::from_utf8_lossy(path);
        assert_eq!(matches(pattern, path), *expected, "{pattern} {path_text}");
    }
}

#[test]
fn what_is_no_pattern_has_its_fault() {
    let deep = "/x".repeat(NAMES_MAX + 1);
    let doubled = format!("/{}", "{a,b}".repeat(9));
    let long = "x".repeat(PATTERN_BYTES_MAX);
    let table = [
        ("a/b", GlobFault::NotAbsolute),
        ("", GlobFault::NotAbsolute),
        ("/", GlobFault::NamesFolder),
        ("/a/", GlobFault::NamesFolder),
        ("/a/.", GlobFault::NamesFolder),
        ("/a/../b", GlobFault::ParentFolder),
        ("/a\0", GlobFault::Nul),
        ("/a/[b", GlobFault::OpenClass),
        ("/a/[b/c]", GlobFault::OpenClass),
        ("/a/[z-a]", GlobFault::EmptyRange),
        ("/a/{b", GlobFault::OpenBrace),
        ("/a/{{b}", GlobFault::OpenBrace),
        ("/a/b\\", GlobFault::LoneEscape),
        ("/a\\/b", GlobFault::LoneEscape),
        (&deep, GlobFault::TooDeep),
        (&doubled, GlobFault::TooMany),
        (&format!("/{long}"), GlobFault::TooLong),
    ];
    for (pattern, expected) in table {
        // `/a/.` is `/a`: the folder itself.
        match pattern {
            "/a/." => assert!(matches(pattern, b"/a")),
            pattern => assert_eq!(fault(pattern), expected, "{pattern}"),
        }
    }
    let refused = GlobSet::new(&["/a".to_owned()], &["[".to_owned()]);
    assert_eq!(refused, Err(("[".to_owned(), GlobFault::OpenClass)));
    let longest = "/x".repeat(NAMES_MAX);
    assert!(matches(&longest, longest.as_bytes()));
}

#[test]
fn excluded_files_are_left_out_and_only_whole_folders_are_not_entered() {
    let set = set(
        &["/logs/**/*"],
        &["*.gz", "/logs/private/**", "/logs/tmp*", "/logs/x/**/y/**"],
    );
    let file = |path: &str| set.matches(Path::new(path));
    let folder = |folder: &str, name: &str| {
        set.verdict(&set.at(Path::new(folder)), name.as_bytes())
            .folder
    };
    assert!(file("/logs/a") && file("/logs/b/c"));
    assert!(!file("/logs/a.gz") && !file("/logs/b/c/d.gz"));
    assert!(!file("/logs/private/a") && !file("/logs/tmp1") && file("/logs/tmp1/a"));
    assert!(!folder("/logs", "private") && folder("/logs", "tmp1") && folder("/logs", "b"));
    assert!(!folder("/logs/x", "y") && !folder("/logs/x/1/2", "y") && folder("/logs", "y"));
    assert!(!folder("/", "other") && folder("/", "logs"));
}

#[test]
fn folders_to_begin_with_are_the_fixed_prefixes() {
    let set = set(
        &[
            "/var/log/pods/*/*/*.log",
            "/var/log/{messages,syslog}",
            "/srv/app[1]/x",
            "/var/logs/a\\*b/x",
            "/opt/**/x.log",
        ],
        &["/etc/x"],
    );
    let paths = |texts: &[&str]| texts.iter().map(PathBuf::from).collect::<Vec<_>>();
    assert_eq!(
        set.prefixes(),
        paths(&["/opt", "/srv", "/var/log", "/var/log/pods", "/var/logs/a*b"])
    );
    assert_eq!(
        set.roots(),
        paths(&["/opt", "/srv", "/var/log", "/var/logs/a*b"])
    );
}

#[test]
fn a_folder_is_entered_only_as_far_as_a_pattern_reaches() {
    let set = set(&["/a/*/c/*.log"], &[]);
    let folder = |path: &str, name: &str| {
        set.verdict(&set.at(Path::new(path)), name.as_bytes())
            .folder
    };
    assert!(folder("/a", "x") && folder("/a/x", "c"));
    assert!(!folder("/a/x", "d") && !folder("/a/x/c", "y") && !folder("/a/x/c", "y.log"));
}

/// Patterns that both grammars read alike.
fn shared_pattern() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just("*".to_owned()),
        Just("?".to_owned()),
        Just("[ab]".to_owned()),
        Just("[!a-c]".to_owned()),
        "[abcé.]{0,2}[abcé]",
    ];
    let name = prop::collection::vec(part, 1..5).prop_map(|parts| {
        // The other one has no `**` within a name.
        parts.concat().replace("**", "*").replace("**", "*")
    });
    let name = prop_oneof![4 => name, 1 => Just("**".to_owned())];
    prop::collection::vec(name, 1..5).prop_map(|names| match names.join("/") {
        // At the end it is any file below for us, and folders too for the other one.
        tree if tree.ends_with("**") => format!("/{tree}/*"),
        pattern => format!("/{pattern}"),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn it_agrees_with_the_crate_glob(
        pattern in shared_pattern(),
        names in prop::collection::vec("[abcé.]{0,4}[abcé]", 1..5),
    ) {
        let path = format!("/{}", names.join("/"));
        let options = glob::MatchOptions {
            case_sensitive: true,
            require_literal_separator: true,
            require_literal_leading_dot: false,
        };
        let other = glob::Pattern::new(&pattern).unwrap();
        prop_assert_eq!(
            matches(&pattern, path.as_bytes()),
            other.matches_with(&path, options),
            "{} {}", pattern, path
        );
    }

    /// A file that matches can be reached: every folder on its way is to be entered.
    #[test]
    fn what_matches_is_reached(
        pattern in shared_pattern(),
        names in prop::collection::vec("[abc.]{1,3}", 1..6),
    ) {
        let set = set(&[&pattern], &[]);
        let mut state = set.begin();
        let mut reached = true;
        for name in &names[..names.len() - 1] {
            reached &= set.verdict(&state, name.as_bytes()).folder;
            state = set.enter(&state, name.as_bytes());
        }
        let last = names[names.len() - 1].as_bytes();
        let file = set.verdict(&state, last).file;
        prop_assert!(!file || reached);
        let path = format!("/{}", names.join("/"));
        prop_assert_eq!(file, set.matches(Path::new(&path)));
    }

    #[test]
    fn any_text_is_a_pattern_or_has_a_fault(
        text in "[/*?a\\[\\]{},\\\\!^.-]{0,40}",
        name in any::<Vec<u8>>(),
    ) {
        if let Ok(set) = GlobSet::new(&[format!("/{text}")], &[text]) {
            let state = set.begin();
            set.verdict(&set.enter(&state, &name), &name);
            prop_assert!(!set.prefixes().is_empty());
        }
    }
}
