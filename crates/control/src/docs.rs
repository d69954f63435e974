//! The documentation as pages: Markdown of `docs/` in HTML, at the paths that it has there.
//!
//! Links between documents work as they are written. A link to what is not served, such as a file
//! of the source tree, becomes its text, and so does a picture. A page is made when it is asked
//! for; the largest takes some milliseconds.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Component, Path, PathBuf};

use axum::Router;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};

/// Path and text of each document.
const DOCUMENTS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/documents.rs"));

/// Path of the list of all pages, below the root of the server.
const INDEX: &str = "docs";

/// Path of the style sheet of all pages.
const STYLE: &str = "docs/style.css";

/// Folders of documents in the order of the list, with their titles.
const PARTS: [(&str, &str); 5] = [
    ("docs/guides", "Guides"),
    ("docs/reference", "Reference"),
    ("docs", "Terms and tables"),
    ("docs/specs", "Formats"),
    ("docs/decisions", "Decisions"),
];

/// The routes of all documents, their list and their style sheet.
pub(crate) fn router() -> Router {
    let style = || async {
        let kind = [(header::CONTENT_TYPE, "text/css; charset=utf-8")];
        (kind, include_str!("docs.css"))
    };
    let mut router = Router::new().route(&format!("/{STYLE}"), get(style)).route(
        &format!("/{INDEX}"),
        get(|| async { page(INDEX, "Documentation", &list()) }),
    );
    for (path, text) in DOCUMENTS {
        let serve = move || async move {
            let (title, body) = rendered(path, text);
            page(path, &title, &body)
        };
        router = router.route(&format!("/{path}"), get(serve));
    }
    router
}

/// True if a path is one of these.
pub(crate) fn is_page(path: &str) -> bool {
    let path = path.strip_prefix('/').unwrap_or(path);
    path == INDEX || path == STYLE || is_document(path)
}

fn is_document(path: &str) -> bool {
    DOCUMENTS.iter().any(|(own, _)| *own == path)
}

fn page(path: &str, title: &str, body: &str) -> Response {
    let root = "../".repeat(path.matches('/').count());
    let title = escaped(title);
    let text = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title} · Inrush</title>\n<link rel=\"stylesheet\" href=\"{root}{STYLE}\">\n\
         </head>\n<body>\n<nav><a href=\"{root}{INDEX}\">Documentation</a> \
         <a href=\"{root}./\">Dashboard</a></nav>\n<main>\n{body}</main>\n</body>\n</html>\n"
    );
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], text).into_response()
}

/// The list of all documents.
fn list() -> String {
    let mut body = "<h1>Documentation</h1>\n".to_owned();
    for (folder, title) in PARTS {
        // Writing to a String cannot fail.
        let _ = write!(body, "<h2>{title}</h2>\n<ul>\n");
        for (path, text) in DOCUMENTS {
            if path.rsplit_once('/').is_some_and(|(own, _)| own == folder) {
                let title = escaped(title_of(path, text));
                let _ = writeln!(body, "<li><a href=\"{path}\">{title}</a></li>");
            }
        }
        body.push_str("</ul>\n");
    }
    body
}

/// The first heading of a document.
fn title_of<'a>(path: &'a str, text: &'a str) -> &'a str {
    let mut titles = text.lines().filter_map(|line| line.strip_prefix("# "));
    titles.next().unwrap_or(path)
}

/// Title and HTML of a document.
fn rendered(path: &str, text: &str) -> (String, String) {
    let mut events: Vec<Event<'_>> = Vec::new();
    let mut slugs = BTreeSet::new();
    let mut title = String::new();
    let mut heading: Option<(usize, String)> = None;
    let mut links = Vec::new();
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match &event {
            Event::Start(Tag::Heading { .. }) => heading = Some((events.len(), String::new())),
            Event::Text(part) | Event::Code(part) => {
                if let Some((_, words)) = &mut heading {
                    words.push_str(part);
                }
            }
            Event::Start(Tag::Link { dest_url, .. }) => {
                let served = is_served(path, dest_url);
                links.push(served);
                if !served {
                    continue;
                }
            }
            Event::End(TagEnd::Link) if links.pop() == Some(false) => continue,
            Event::Start(Tag::Image { .. }) | Event::End(TagEnd::Image) => continue,
            Event::Html(_) | Event::InlineHtml(_) => continue,
            _ => {}
        }
        let ends = matches!(event, Event::End(TagEnd::Heading(_)));
        events.push(event);
        if let Some((at, words)) = heading.take_if(|_| ends) {
            if let Some(Event::Start(Tag::Heading { id, .. })) = events.get_mut(at) {
                *id = Some(CowStr::from(new_slug(&words, &mut slugs)));
            }
            if title.is_empty() {
                title = words;
            }
        }
    }
    let mut body = String::new();
    html::push_html(&mut body, events.into_iter());
    (title, body)
}

/// Name of a heading in addresses, as GitHub makes it, told from those before.
fn new_slug(words: &str, slugs: &mut BTreeSet<String>) -> String {
    let lower = words.to_lowercase();
    let kept = lower.chars().filter_map(|c| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
        _ => None,
    });
    let first: String = kept.collect();
    let mut slug = first.clone();
    let mut number = 0;
    while !slugs.insert(slug.clone()) {
        number += 1;
        slug = format!("{first}-{number}");
    }
    slug
}

/// True for a link to the web, to a section of the same page or to another page.
fn is_served(path: &str, link: &str) -> bool {
    if link.starts_with('#') || link.starts_with("https://") || link.starts_with("http://") {
        return true;
    }
    let target = link.split('#').next().unwrap_or_default();
    let folder = Path::new(path).parent().unwrap_or(Path::new(""));
    let mut plain = PathBuf::new();
    for part in folder.join(target).components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain.to_str().is_some_and(is_document)
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;");
    text.replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
