//! ARCHITECTURE.md says what the code does: its threads, its rooms, and which may name which.

use std::collections::BTreeSet;
use std::fs;

use crate::code::{Code, of_crate, of_folder};
use crate::{crates, finding, none, root};

/// Rows of the table that follows a heading of ARCHITECTURE.md, each as its cells.
fn table(text: &str, heading: &str) -> Vec<Vec<String>> {
    let after = text.lines().skip_while(|line| line != &heading).skip(1);
    let rows = after
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'));
    let cells = |line: &str| {
        let cells = line.trim_matches('|').split('|');
        cells.map(|cell| cell.trim().to_owned()).collect()
    };
    rows.skip(2).map(cells).collect()
}

fn architecture() -> String {
    fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap()
}

/// Texts that stand in backquotes.
fn quoted(cell: &str) -> Vec<String> {
    let parts = cell.split('`').skip(1).step_by(2);
    parts.map(str::to_owned).collect()
}

/// A room: its name, and the rooms that it names.
type Room = (String, BTreeSet<String>);

/// The rooms from the top down, as ARCHITECTURE.md has them.
fn rooms(text: &str) -> Vec<Room> {
    let rows = table(text, "## Rooms").into_iter();
    let rooms = rows.filter_map(|row| {
        let name = quoted(&row[0]).first()?.strip_prefix("crates/")?.to_owned();
        Some((name, quoted(&row[2]).into_iter().collect()))
    });
    rooms.collect()
}

/// The rooms that a manifest names.
fn named_rooms(manifest: &str) -> BTreeSet<String> {
    let lines = manifest
        .lines()
        .take_while(|line| *line != "[dev-dependencies]");
    let names = lines.filter_map(|line| {
        let name = line.strip_prefix("inrush-")?;
        name.split(['.', ' ', '=']).next().map(str::to_owned)
    });
    names.collect()
}

/// Faults of the rooms, given what their manifests name.
fn wrong(rooms: &[Room], named: &[Room]) -> Vec<String> {
    let mut findings = Vec::new();
    let place = |name: &str| rooms.iter().position(|(known, _)| known == name);
    for (name, said) in rooms {
        let Some((_, real)) = named.iter().find(|(known, _)| known == name) else {
            findings.push(format!("crates/{name} is in ARCHITECTURE.md only"));
            continue;
        };
        for other in real.difference(said) {
            findings.push(format!(
                "{name} names {other}: ARCHITECTURE.md does not say so"
            ));
        }
        for other in said.difference(real) {
            findings.push(format!(
                "{name} does not name {other}, ARCHITECTURE.md says it does"
            ));
        }
        for other in real {
            if place(other) <= place(name) {
                findings.push(format!("{name} -> {other} leads upward"));
            }
        }
    }
    let unknown = named.iter().filter(|(name, _)| place(name).is_none());
    findings.extend(unknown.map(|(name, _)| format!("crates/{name} is not in ARCHITECTURE.md")));
    findings
}

#[test]
fn rooms_name_only_those_below() {
    let named = crates().map(|name| {
        let manifest = root().join(format!("crates/{name}/Cargo.toml"));
        let manifest = fs::read_to_string(manifest).unwrap();
        (name, named_rooms(&manifest))
    });
    none(&wrong(&rooms(&architecture()), &named.collect::<Vec<_>>()));
}

/// Names that a file gives to threads, and where: what is filled in is `*`. A thread without a name
/// is `None`.
fn thread_names(file: &Code, constants: &[(String, String)]) -> Vec<(Option<String>, usize)> {
    let mut found = Vec::new();
    for (at, line) in file.raw.iter().enumerate() {
        let near = || file.raw[at..].iter().take(4).map(|line| line.trim());
        let text: String = near().collect();
        if line.contains("thread::Builder::new()") {
            found.push((name_in(&text, ".name(", constants), at));
        } else if line.contains(".thread_name(") {
            found.push((name_in(&text, ".thread_name(", constants), at));
        } else if line.contains(".thread_name_fn(") {
            found.push((name_in(&text, "format!(", constants), at));
        } else if line.contains("thread::spawn(") && !line.trim_start().starts_with("//") {
            found.push((None, at));
        }
    }
    found
}

/// The constants of a file that are texts.
fn constants(file: &Code) -> Vec<(String, String)> {
    let texts = file.raw.iter().filter_map(|line| {
        let (before, text) = line.split_once(": &str = \"")?;
        let name = before.split_whitespace().next_back()?;
        Some((name.to_owned(), text.trim_end_matches("\";").to_owned()))
    });
    texts.collect()
}

/// The text behind a call, each value that is filled in as `*`.
fn name_in(text: &str, call: &str, constants: &[(String, String)]) -> Option<String> {
    let (_, rest) = text.split_once(call)?;
    let rest = rest.strip_prefix("format!(").unwrap_or(rest);
    let Some(rest) = rest.strip_prefix('"') else {
        let mut known = constants.iter();
        let known = known.find(|(name, _)| rest.starts_with(&format!("{name}.")));
        return known.map(|(_, text)| text.clone());
    };
    let (name, _) = rest.split_once('"')?;
    let mut parts = name.split('{');
    let mut plain = parts.next()?.to_owned();
    for part in parts {
        plain.push('*');
        plain.push_str(part.split_once('}')?.1);
    }
    Some(plain)
}

/// The threads that ARCHITECTURE.md has: a word in capitals is `*`.
fn threads(text: &str) -> BTreeSet<String> {
    let rows = table(text, "## Threads").into_iter();
    let names = rows.flat_map(|row| quoted(&row[0]));
    let star = |part: &str| match part.chars().all(|c| c.is_ascii_uppercase()) {
        true => "*".to_owned(),
        false => part.to_owned(),
    };
    names
        .map(|name| name.split('-').map(star).collect::<Vec<_>>().join("-"))
        .collect()
}

#[test]
fn threads_are_those_of_the_table() {
    let mut findings = Vec::new();
    let said = threads(&architecture());
    let mut files = of_folder(&root().join("src"));
    files.extend(crates().flat_map(|name| of_crate(&name)));
    let constants: Vec<_> = files.iter().flat_map(constants).collect();
    let mut seen = BTreeSet::new();
    for file in &files {
        for (name, line) in thread_names(file, &constants) {
            let Some(name) = name else {
                findings.push(finding(&file.path, line, "name this thread in its builder"));
                continue;
            };
            if !said.contains(&name) {
                let wrong = format!("thread {name} is not in ARCHITECTURE.md");
                findings.push(finding(&file.path, line, &wrong));
            }
            seen.insert(name);
        }
    }
    let gone = said.difference(&seen);
    findings.extend(gone.map(|name| format!("ARCHITECTURE.md: no thread {name}")));
    none(&findings);
}

#[test]
fn what_the_document_does_not_say_is_found() {
    let text = "## Rooms\n\nText.\n\n| folder | what | names |\n|---|---|---|\n\
        | `crates/top` | a | `low` |\n| `crates/low` | b | |\n\n## Threads\n\n\
        | thread | n |\n|---|---|\n| `in-NAME`, `out` | one |\n";
    let rooms = rooms(text);
    let room = |name: &str, names: &[&str]| {
        let names = names.iter().map(|&name| name.to_owned()).collect();
        (name.to_owned(), names)
    };
    let fine = [room("top", &["low"]), room("low", &[])];
    assert_eq!(wrong(&rooms, &fine), Vec::<String>::new());
    let upward = [room("top", &[]), room("low", &["top"]), room("new", &[])];
    let said = [
        "top does not name low, ARCHITECTURE.md says it does",
        "low names top: ARCHITECTURE.md does not say so",
        "low -> top leads upward",
        "crates/new is not in ARCHITECTURE.md",
    ];
    assert_eq!(wrong(&rooms, &upward), said);
    let manifest = "[dependencies]\ninrush-low.workspace = true\nserde = \"1\"\n\
        [dev-dependencies]\ninrush-top.workspace = true\n";
    assert_eq!(named_rooms(manifest), room("", &["low"]).1);
    let names: Vec<String> = threads(text).into_iter().collect();
    assert_eq!(names, ["in-*", "out"]);
    let call = "thread::Builder::new().name(format!(\"in-{name}\"))";
    assert_eq!(name_in(call, ".name(", &[]), Some("in-*".to_owned()));
    assert_eq!(name_in("Builder::new().spawn(f)", ".name(", &[]), None);
    let constant = ("OUT".to_owned(), "out".to_owned());
    let call = "Builder::new().name(OUT.to_owned())";
    assert_eq!(name_in(call, ".name(", &[constant]), Some("out".to_owned()));
}
