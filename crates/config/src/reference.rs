//! The reference page, written from the schema.

use std::fmt::Write;

use inrush_event::limits;
use serde_json::{Map, Value};

use super::check::bounds;
use super::schema::{SchemaKind, is_required, shape};

/// The page for the schema `root`.
pub(super) fn markdown(root: &Value) -> String {
    let mut page = String::new();
    page.push_str(HEAD);
    let _ = write!(page, "{}", reading());
    page.push_str("## Without a file\n\nThis holds when `inrush run` is started without `-c`:\n\n");
    let _ = write!(page, "```yaml\n{}```\n\n", super::BUILTIN_YAML);
    page.push_str("## The file\n\n");
    let SchemaKind::Object(options) = shape(root) else {
        return page;
    };
    page.push_str(TABLE);
    for (name, option) in options {
        row(&mut page, name, option, is_required(root, name));
    }
    for (name, option) in options {
        section(&mut page, name, option);
    }
    page
}

const HEAD: &str = "\
<!-- Written by `inrush check --print-reference`; run `make docs` after changing an option. -->

# Configuration

Every option of `inrush.yaml`. [inrush.schema.json](inrush.schema.json) says the same to an editor.

";

const TABLE: &str = "| Option | Type | Default | Meaning |\n|---|---|---|---|\n";

fn reading() -> String {
    format!(
        "\
## How the file is read

- It is YAML 1.2 in UTF-8: one document of at most {} KiB, without tags. Anchors and aliases work.
- `${{VAR}}` in a value is replaced with that variable of the environment, `${{VAR:-default}}` with
  the default where the variable is missing or empty; `$$` is a dollar sign. A missing variable
  without a default is an error. What a variable holds is always one value: it cannot add keys or
  list items. An IPv6 address inside `[ ]` needs quotes: `[\"tcp://[::]:514\"]`.
- An option that is left out, or has no value, takes its default.
- An unknown key or a value out of bounds is an error. `inrush check FILE` lists all of them as
  `file:line:column: what is wrong; what to do`, reads the certificates and keys, and ends with 2
  if anything was found. `inrush run` and a reload check the same; a reload that fails leaves the
  old configuration running.
- A *size* is a number of bytes or a number with a unit: `64KiB`, `4MB`, `1.5GiB`. `K`, `M`, `G` and
  `T` alone are powers of 1024.
- A *duration* is a number of seconds or a number with a unit: `300ms`, `5s`, `10m`, `1h 30m`, `7d`.
- A *secret* is never printed or logged. Keep it out of the file with `${{VAR}}`.

",
        limits::CONFIG_FILE_BYTES_MAX / 1024
    )
}

/// The part of the page about one key of the file, if it has options of its own.
fn section(page: &mut String, name: &str, schema: &Value) {
    match shape(schema) {
        SchemaKind::Object(options) => {
            let _ = write!(page, "\n## `{name}`\n\n{}\n\n{TABLE}", description(schema));
            rows(page, "", options, schema);
        }
        SchemaKind::Map(values) => {
            let _ = write!(page, "\n## `{name}`\n\n{}\n", description(schema));
            if let SchemaKind::Union(variants) = shape(values) {
                for (tag, variant) in variants {
                    union(page, tag, variant);
                }
            }
        }
        SchemaKind::List(items) => {
            if let SchemaKind::Object(options) = shape(items) {
                let _ = write!(page, "\n## `{name}[]`\n\n{}\n\n{TABLE}", description(items));
                rows(page, "", options, items);
            }
        }
        _ => {}
    }
}

fn union(page: &mut String, tag: &str, variant: &Value) {
    let _ = write!(page, "\n### `type: {tag}`\n\n{}\n", description(variant));
    if let SchemaKind::Object(options) = shape(variant) {
        let own: Map<String, Value> = options
            .iter()
            .filter(|(name, _)| *name != "type")
            .map(cloned)
            .collect();
        if own.is_empty() {
            page.push_str("\nIt has no options.\n");
            return;
        }
        let _ = write!(page, "\n{TABLE}");
        rows(page, "", &own, variant);
    }
}

fn cloned((name, schema): (&String, &Value)) -> (String, Value) {
    (name.clone(), schema.clone())
}

/// One row an option; the options of an option follow it, as `tls.cert_file`.
fn rows(page: &mut String, prefix: &str, options: &Map<String, Value>, owner: &Value) {
    for (name, option) in options {
        let path = format!("{prefix}{name}");
        row(page, &path, option, is_required(owner, name));
        if let SchemaKind::Object(inner) = shape(option) {
            rows(page, &format!("{path}."), inner, option);
        }
    }
}

fn row(page: &mut String, path: &str, option: &Value, required: bool) {
    let kind = kind(option);
    let default = match (required, default(option)) {
        (true, _) => "**required**".to_owned(),
        (false, Some(default)) => default,
        (false, None) => String::new(),
    };
    let mut meaning = cell(description(option));
    for (word, about) in words(option) {
        let _ = match about.is_empty() {
            true => write!(meaning, "<br>`{word}`"),
            false => write!(meaning, "<br>`{word}`: {}", cell(about)),
        };
    }
    let _ = writeln!(page, "| `{path}` | {kind} | {default} | {meaning} |");
}

fn description(schema: &Value) -> &str {
    schema["description"].as_str().unwrap_or_default()
}

/// Text fit for a table: one line, its bars escaped.
fn cell(text: &str) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace('|', "\\|")
}

fn words(schema: &Value) -> Vec<(&str, &str)> {
    let of_items = &schema["items"]["oneOf"];
    let choices = if of_items.is_array() {
        of_items
    } else {
        &schema["oneOf"]
    };
    let constants = choices.as_array().into_iter().flatten();
    constants
        .filter_map(|one| Some((one["const"].as_str()?, description(one))))
        .collect()
}

/// The default of a value; options of an option show their own.
fn default(schema: &Value) -> Option<String> {
    match schema.get("default")? {
        Value::Object(_) | Value::Null => None,
        Value::String(text) => Some(format!("`{}`", cell(text))),
        other => Some(format!("`{other}`")),
    }
}

fn kind(schema: &Value) -> String {
    let name = match shape(schema) {
        SchemaKind::Object(_) => "options",
        SchemaKind::Map(values) if matches!(shape(values), SchemaKind::Union(_)) => {
            "names with options"
        }
        SchemaKind::Map(values) => return format!("names, each with {}", kind(values)),
        SchemaKind::Union(_) => "options by `type`",
        SchemaKind::Words(only) if schema.get("const").is_some() => {
            return format!("`{}`", only.first().copied().unwrap_or_default());
        }
        SchemaKind::Words(_) => "word",
        SchemaKind::List(items) => return format!("list: {}", kind(items)),
        SchemaKind::Either(choices) => {
            return choices.iter().map(kind).collect::<Vec<_>>().join(" or ");
        }
        SchemaKind::Scalar => return scalar_kind(schema),
    };
    name.to_owned()
}

fn scalar_kind(schema: &Value) -> String {
    let name = match (schema["format"].as_str(), schema["type"].as_str()) {
        (Some("size"), _) => "size",
        (Some("duration"), _) => "duration",
        (Some("password"), _) => "secret",
        (Some("password-hash"), _) => "password hash",
        (Some("listen-address"), _) => "listen address",
        (Some("socket-address"), _) => "address and port",
        (Some("timezone"), _) => "time zone",
        (Some("encoding"), _) => "encoding",
        (Some("mode"), _) => "octal permissions",
        (Some("network"), _) => "network",
        (Some("permitted-peer"), _) => "name or fingerprint",
        (Some("uri" | "url"), _) => "URL",
        (_, Some("boolean")) => "true or false",
        (_, Some("integer")) => "whole number",
        (_, Some("number")) => "number",
        _ => "text",
    };
    match bounds(schema) {
        // Unbounded but for not being negative, which needs no words.
        Some(bounds) if bounds != "at least 0" => format!("{name}, {bounds}"),
        _ => name.to_owned(),
    }
}
