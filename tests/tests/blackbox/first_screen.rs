//! The first screen: what the start says, and guides from the binary.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::Command;

use inrush_tests::*;

use crate::{TCP, to_file};

#[test]
fn the_start_says_what_runs_where_and_what_is_off() {
    let inrush = Inrush::start(&(to_file(TCP, "") + "packs: { enabled: false }\n"));
    let said = inrush.stderr();
    let version = Command::new(binary()).arg("--version").output().unwrap();
    let version = String::from_utf8(version.stdout).unwrap();
    let version = version.trim().rsplit(' ').next().unwrap();
    let file = inrush.path("inrush.yaml");
    for words in [
        format!(
            "version {version} with the configuration {}",
            file.display()
        ),
        format!("data in {}", inrush.path("data").display()),
        "delivering to out (file)".to_owned(),
        format!("open http://{} in a browser", inrush.admin()),
        "off: packs, so no product is recognised (`packs.enabled`); search".to_owned(),
    ] {
        assert!(said.contains(&words), "{words}:\n{said}");
    }
}

/// Values of an attribute in a page.
fn attributes<'a>(page: &'a str, name: &str) -> BTreeSet<&'a str> {
    let mark = format!(" {name}=\"");
    let parts = page.split(&mark).skip(1).collect::<Vec<_>>();
    parts
        .into_iter()
        .map(|part| part.split('"').next().unwrap())
        .collect()
}

fn page(at: SocketAddr, path: &str) -> String {
    let answer = http(at, "GET", path);
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    answer.body
}

/// The path that a link in the page at `path` leads to, with its section.
fn target(path: &str, link: &str) -> (String, Option<String>) {
    let (to, section) = match link.split_once('#') {
        Some((to, section)) => (to, Some(section.to_owned())),
        None => (link, None),
    };
    if to.is_empty() {
        return (path.to_owned(), section);
    }
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in to.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            part => parts.push(part),
        }
    }
    (parts.join("/"), section)
}

#[test]
fn the_guides_are_in_the_binary_and_their_links_lead_on() {
    let inrush = Inrush::start(&to_file(TCP, ""));
    let at = inrush.admin();
    let list = page(at, "/docs");
    let guides = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guides");
    for guide in std::fs::read_dir(guides).unwrap() {
        let name = guide.unwrap().file_name().into_string().unwrap();
        let path = format!("docs/guides/{name}");
        assert!(attributes(&list, "href").contains(path.as_str()), "{path}");
    }
    let mut seen = BTreeSet::from(["/docs".to_owned()]);
    let mut left = vec!["/docs".to_owned()];
    while let Some(path) = left.pop() {
        let text = page(at, &path);
        for link in attributes(&text, "href") {
            if link.starts_with("http") || link.ends_with("./") {
                continue;
            }
            let (to, section) = target(&path, link);
            if let Some(section) = section {
                let ids = page(at, &to);
                assert!(
                    attributes(&ids, "id").contains(section.as_str()),
                    "{path}: {link}"
                );
            }
            if seen.insert(to.clone()) {
                left.push(to);
            }
        }
    }
    assert!(seen.len() > 50, "{seen:?}");
    assert!(seen.contains("/docs/style.css") && seen.contains("/docs/glossary.md"));
}

#[test]
fn an_alarm_links_to_its_section_of_a_guide() {
    let yaml = crate::hec::to_hec(&["http://127.0.0.1:9".to_owned()], "");
    let inrush = Inrush::start(&yaml);
    Tcp::connect(inrush.address("tcp")).send("<13>May  6 07:08:09 h a: one\n");
    let alarm = crate::doors::await_alarm(&inrush, "destination-failing:splunk", || {});
    let link = format!("/{}", alarm["link"].as_str().unwrap());
    let (path, section) = link.split_once('#').unwrap();
    let text = page(inrush.admin(), path);
    assert!(attributes(&text, "id").contains(section), "{link}");
}
