//! Nothing flows upward: not from room to room, nor from module to module within one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::code::{named_modules, of_crate};
use crate::{crates, finding, none, root};

/// Lines of code of a room, without tests, comments and blank lines.
const ROOM_LINES_MAX: usize = 10_000;

/// The order of a room's modules, and the imports that still lead upward.
#[derive(Default)]
struct Order {
    modules: Vec<String>,
    upward: BTreeSet<(String, String)>,
}

/// The orders of all rooms, as `modules.txt` has them.
fn orders() -> BTreeMap<String, Order> {
    let text = fs::read_to_string(root().join("tests/tests/tidy/modules.txt")).unwrap();
    orders_in(&text)
}

fn orders_in(text: &str) -> BTreeMap<String, Order> {
    let mut all = BTreeMap::<String, Order>::new();
    let mut room = String::new();
    for line in text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        if let Some(name) = line.strip_prefix('[') {
            room = name.trim_end_matches(']').to_owned();
            all.entry(room.clone()).or_default();
            continue;
        }
        let order = all.entry(room.clone()).or_default();
        if let Some((from, to)) = line
            .strip_prefix("up = ")
            .and_then(|up| up.split_once(" -> "))
        {
            order.upward.insert((from.to_owned(), to.to_owned()));
            continue;
        }
        let names = line.strip_prefix("order = ").unwrap_or(line);
        let names = names.split_whitespace().map(str::to_owned);
        order.modules.extend(names);
    }
    all
}

/// Faulty imports of a room, each with its place and as `from -> to`.
fn wrong(
    order: &Order,
    modules: &BTreeSet<String>,
    imports: &[(String, String, String)],
) -> Vec<String> {
    let mut findings = Vec::new();
    let place = |name: &String| order.modules.iter().position(|known| known == name);
    for module in modules.iter().filter(|module| place(module).is_none()) {
        findings.push(format!("{module}: give it a place in modules.txt"));
    }
    for module in order.modules.iter().filter(|name| !modules.contains(*name)) {
        findings.push(format!("{module} is in modules.txt only"));
    }
    let mut seen = BTreeSet::new();
    for (from, to, at) in imports {
        let upward = from != to && place(from) > place(to) && place(to).is_some();
        let arrow = (from.clone(), to.clone());
        if upward && !order.upward.contains(&arrow) {
            findings.push(format!("{at}{from} -> {to} leads upward"));
        }
        if upward {
            seen.insert(arrow);
        }
    }
    for (from, to) in order.upward.difference(&seen) {
        findings.push(format!("`up = {from} -> {to}` is gone: take it out"));
    }
    findings
}

#[test]
fn modules_name_only_those_below() {
    let mut findings = Vec::new();
    let mut orders = orders();
    for name in crates() {
        let order = orders.remove(&name).unwrap_or_default();
        let (mut modules, mut imports) = (BTreeSet::new(), Vec::new());
        for file in of_crate(&name) {
            let Some(from) = file.modules.first() else {
                continue;
            };
            modules.insert(from.clone());
            for (to, line) in named_modules(&file) {
                imports.push((from.clone(), to, finding(&file.path, line, "")));
            }
        }
        let wrong = wrong(&order, &modules, &imports);
        findings.extend(wrong.into_iter().map(|wrong| format!("{name}: {wrong}")));
    }
    findings.extend(orders.into_keys().map(|name| format!("{name} is no crate")));
    none(&findings);
}

#[test]
fn no_room_has_too_much_code() {
    let mut findings = Vec::new();
    for name in crates() {
        let lines: usize = of_crate(&name).iter().map(|file| file.count()).sum();
        if lines > ROOM_LINES_MAX {
            findings.push(format!(
                "{name} has {lines} lines of code, at most {ROOM_LINES_MAX}"
            ));
        }
    }
    none(&findings);
}

#[test]
fn upward_imports_are_found() {
    let order = &orders_in("# x\n\n[room]\norder = top middle\n    low\nup = low -> top\n")["room"];
    let modules = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let import = |from: &str, to: &str| (from.to_owned(), to.to_owned(), "a.rs:1: ".to_owned());
    let all = modules(&["top", "middle", "low"]);
    let fine = [
        import("top", "low"),
        import("low", "top"),
        import("low", "low"),
        import("low", "Foreign"),
    ];
    assert_eq!(wrong(order, &all, &fine), Vec::<String>::new());
    let upward = [import("low", "top"), import("low", "middle")];
    let said = ["a.rs:1: low -> middle leads upward"];
    assert_eq!(wrong(order, &all, &upward), said);
    let said = ["`up = low -> top` is gone: take it out"];
    assert_eq!(wrong(order, &all, &[]), said);
    let said = [
        "new: give it a place in modules.txt",
        "middle is in modules.txt only",
    ];
    let modules = modules(&["top", "low", "new"]);
    assert_eq!(wrong(order, &modules, &[import("low", "top")]), said);
}
