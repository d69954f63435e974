//! Configuration checker: walks the located tree along the schema and yields plain values.
//!
//! # What it guarantees
//! * A value is returned only if it has no fault. Each fault is a finding with its place.
//! * A fault does not end the walk: all keys and items beside it are checked too. Only a value of
//!   the wrong kind, `type` or length is not looked into.
//! * A problem shows a variable as it is written in the file, never its value: it may be a secret.
//! * A unit or an address is read by the parser of its option, so that both always agree.
//!
//! # Limits
//! A name that the user chooses has at most `NAME_CHARS_MAX` characters. The reader bounds the
//! tree, and with it the recursion here; [`Findings`] bounds the problems.

use inrush_event::{ByteSize, Network, Period};
use inrush_transport::config::ListenAddr;
use inrush_transport::peers::PermittedPeer;
use inrush_yaml::{Findings, Location, listed, nearest};
use inrush_yaml::{MapEntry, NodeKind, Scalar, YamlNode, kind_name};
use serde_json::{Map, Value};

use super::schema::{SchemaKind, is_required, shape};

/// Name of a value in a problem, and the location of its key.
#[derive(Clone, Copy)]
pub(super) struct NamedLocation<'a> {
    pub(super) name: &'a str,
    pub(super) at: Location,
}

/// Checks `node` against `schema`; the value is there if nothing was wrong with it.
pub(super) fn value(
    node: &YamlNode,
    schema: &Value,
    owner: NamedLocation<'_>,
    findings: &mut Findings,
) -> Option<Value> {
    if matches!(node.kind, NodeKind::Unresolved) {
        return None;
    }
    match shape(schema) {
        SchemaKind::Object(options) => object(node, schema, options, owner, findings),
        SchemaKind::Map(values) => map(node, schema, values, owner, findings),
        SchemaKind::Union(variants) => union(node, &variants, owner, findings),
        SchemaKind::Words(words) => word(node, &words, owner, findings),
        SchemaKind::List(items) => list(node, schema, items, owner, findings),
        SchemaKind::Either(choices) => either(node, choices, owner, findings),
        SchemaKind::Scalar => scalar(node, schema, owner, findings),
    }
}

fn mismatch(node: &YamlNode, expected: &str, owner: NamedLocation<'_>, findings: &mut Findings) {
    let (name, found) = (owner.name, kind_name(node));
    findings.add(node.at, format!("`{name}` is {found}; give {expected}"));
}

fn object(
    node: &YamlNode,
    schema: &Value,
    options: &Map<String, Value>,
    owner: NamedLocation<'_>,
    findings: &mut Findings,
) -> Option<Value> {
    let NodeKind::Map(entries) = &node.kind else {
        // `tls:` whose options are all commented out is as good as no `tls:`.
        if node.is_null() && schema.get("required").is_none() {
            return Some(Value::Object(Map::new()));
        }
        let options = listed(options.keys().map(String::as_str), "and");
        mismatch(
            node,
            &format!("a mapping of options; there are {options}"),
            owner,
            findings,
        );
        return None;
    };
    let mut out = Map::new();
    let mut sound = true;
    for entry in entries {
        let Some(schema_of_option) = options.get(&entry.key) else {
            unknown_key(entry, options, owner, findings);
            sound = false;
            continue;
        };
        if entry.value.is_null() && !is_required(schema, &entry.key) {
            continue;
        }
        let inner = NamedLocation {
            name: &entry.key,
            at: entry.key_at,
        };
        match value(&entry.value, schema_of_option, inner, findings) {
            Some(read) => drop(out.insert(entry.key.clone(), read)),
            None => sound = false,
        }
    }
    // An option that was only misspelt is not reported a second time as missing.
    let misspelt: Vec<_> = entries
        .iter()
        .filter_map(|entry| meant(entry, options))
        .collect();
    for (name, option) in options.iter().filter(|(name, _)| is_required(schema, name)) {
        if node.get(name).is_none() && !misspelt.contains(&name.as_str()) {
            missing(name, option, owner, findings);
            sound = false;
        }
    }
    sound.then_some(Value::Object(out))
}

/// The option that an unknown key was probably meant to be.
fn meant<'o>(entry: &MapEntry, options: &'o Map<String, Value>) -> Option<&'o str> {
    let unknown = !options.contains_key(&entry.key);
    unknown.then(|| nearest(&entry.key, options.keys().map(String::as_str)))?
}

fn unknown_key(
    entry: &MapEntry,
    options: &Map<String, Value>,
    owner: NamedLocation<'_>,
    findings: &mut Findings,
) {
    let names = || options.keys().map(String::as_str);
    let key = inrush_yaml::quoted(&entry.key);
    let place = if owner.name.is_empty() {
        String::new()
    } else {
        format!(" in `{}`", owner.name)
    };
    let remedy = match meant(entry, options) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the keys here are {}", listed(names(), "and")),
    };
    findings.add(entry.key_at, format!("unknown key {key}{place}; {remedy}"));
}

fn missing(name: &str, option: &Value, owner: NamedLocation<'_>, findings: &mut Findings) {
    let place = if owner.name.is_empty() {
        String::new()
    } else {
        format!("`{}`: ", owner.name)
    };
    let expected = expected(option);
    findings.add(
        owner.at,
        format!("{place}`{name}` is missing; give {expected}"),
    );
}

/// The longest name of a source or destination, in characters: it is a label of every metric.
const NAME_CHARS_MAX: usize = 64;

fn map(
    node: &YamlNode,
    schema: &Value,
    values: &Value,
    owner: NamedLocation<'_>,
    findings: &mut Findings,
) -> Option<Value> {
    let least = schema["minProperties"].as_u64().unwrap_or(0);
    if node.entries().len() as u64 >= least
        && (node.is_null() || matches!(node.kind, NodeKind::Map(_)))
    {
        let mut out = Map::new();
        let mut sound = true;
        for entry in node.entries() {
            sound &= name_is_good(entry, findings);
            let inner = NamedLocation {
                name: &entry.key,
                at: entry.key_at,
            };
            match value(&entry.value, values, inner, findings) {
                Some(read) => drop(out.insert(entry.key.clone(), read)),
                None => sound = false,
            }
        }
        return sound.then_some(Value::Object(out));
    }
    let name = owner.name;
    let remedy = format!("give at least one, as in `{name}: {{ name: {{ type: … }} }}`");
    let (at, found) = match &node.kind {
        NodeKind::Map(_) => (owner.at, "empty".into()),
        _ if node.is_null() => (owner.at, "empty".into()),
        _ => (node.at, kind_name(node)),
    };
    findings.add(at, format!("`{name}` is {found}; {remedy}"));
    None
}

fn name_is_good(entry: &MapEntry, findings: &mut Findings) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let first = entry.key.chars().next();
    let good = first.is_some_and(|c| c.is_ascii_alphanumeric())
        && entry.key.chars().all(allowed)
        && entry.key.len() <= NAME_CHARS_MAX;
    if !good {
        let key = inrush_yaml::quoted(&entry.key);
        findings.add(
            entry.key_at,
            format!(
                "{key} cannot be a name; take up to {NAME_CHARS_MAX} letters, digits, `_`, `-` \
                 and `.`, beginning with a letter or digit"
            ),
        );
    }
    good
}

fn union(
    node: &YamlNode,
    variants: &[(&str, &Value)],
    owner: NamedLocation<'_>,
    findings: &mut Findings,
) -> Option<Value> {
    let types = || variants.iter().map(|(tag, _)| *tag);
    if !matches!(node.kind, NodeKind::Map(_)) {
        let all = listed(types(), "or");
        mismatch(
            node,
            &format!("a mapping with a `type`: {all}"),
            owner,
            findings,
        );
        return None;
    }
    let Some(tag) = node.get("type").filter(|tag| !tag.is_null()) else {
        let (name, all) = (owner.name, listed(types(), "or"));
        findings.add(
            owner.at,
            format!("`{name}`: `type` is missing; it is {all}"),
        );
        return None;
    };
    let known = match &tag.kind {
        NodeKind::Unresolved => return None,
        NodeKind::Scalar(scalar) => variants.iter().find(|(name, _)| *name == scalar.text),
        _ => None,
    };
    let Some((_, variant)) = known else {
        let near = match &tag.kind {
            NodeKind::Scalar(scalar) => nearest(&scalar.text, types()),
            _ => None,
        };
        let remedy = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None if variants.len() == 1 => format!("there is only {}", listed(types(), "and")),
            None => format!("there are {}", listed(types(), "and")),
        };
        findings.add(
            tag.at,
            format!(
                "unknown type {} of `{}`; {remedy}",
                kind_name(tag),
                owner.name
            ),
        );
        return None;
    };
    value(node, variant, owner, findings)
}

fn word(
    node: &YamlNode,
    words: &[&str],
    owner: NamedLocation<'_>,
    findings: &mut Findings,
) -> Option<Value> {
    let written = match &node.kind {
        NodeKind::Scalar(scalar) if words.contains(&scalar.text.as_str()) => {
            return Some(Value::from(scalar.text.as_str()));
        }
        NodeKind::Scalar(scalar) => scalar.text.as_str(),
        _ => "",
    };
    let all = listed(words.iter().copied(), "or");
    let remedy = match nearest(written, words.iter().copied()) {
        Some(near) => format!("did you mean `{near}`? It is {all}"),
        None => format!("give {all}"),
    };
    findings.add(
        node.at,
        format!("`{}` is {}; {remedy}", owner.name, kind_name(node)),
    );
    None
}

fn list(
    node: &YamlNode,
    schema: &Value,
    items: &Value,
    owner: NamedLocation<'_>,
    findings: &mut Findings,
) -> Option<Value> {
    let NodeKind::List(nodes) = &node.kind else {
        if items["format"] == "password" {
            let name = owner.name;
            let words = format!("`{name}` is no list; give one: {name}: [\"${{VARIABLE}}\"]");
            findings.add(node.at, words);
            return None;
        }
        let item = match &node.kind {
            NodeKind::Scalar(scalar) if !scalar.is_null() => {
                format!("\"{}\"", scalar.written.as_deref().unwrap_or(&scalar.text))
            }
            _ => example(items),
        };
        let remedy = format!("a list: {}: [{item}]", owner.name);
        mismatch(node, &remedy, owner, findings);
        return None;
    };
    let least = schema["minItems"].as_u64().unwrap_or(0);
    if (nodes.len() as u64) < least {
        let (name, item) = (owner.name, example(items));
        findings.add(
            node.at,
            format!("`{name}` is empty; list at least {least}, as in [{item}]"),
        );
        return None;
    }
    if let Some(most) = schema["maxItems"]
        .as_u64()
        .filter(|most| nodes.len() as u64 > *most)
    {
        let (name, found) = (owner.name, nodes.len());
        findings.add(
            node.at,
            format!("`{name}` lists {found}; list at most {most}"),
        );
        return None;
    }
    // Every item is looked at even after one was found wrong.
    let read: Vec<_> = nodes
        .iter()
        .map(|item| value(item, items, owner, findings))
        .collect();
    read.into_iter()
        .collect::<Option<Vec<_>>>()
        .map(Value::Array)
}

fn example(schema: &Value) -> String {
    match schema["examples"].get(0) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => "…".to_owned(),
    }
}

fn either(
    node: &YamlNode,
    choices: &[Value],
    owner: NamedLocation<'_>,
    findings: &mut Findings,
) -> Option<Value> {
    for choice in choices {
        let mut tried = Findings::default();
        if let Some(read) = value(node, choice, owner, &mut tried) {
            return Some(read);
        }
    }
    let expected: Vec<String> = choices.iter().map(expected).collect();
    mismatch(node, &expected.join(" or "), owner, findings);
    None
}

fn scalar(
    node: &YamlNode,
    schema: &Value,
    owner: NamedLocation<'_>,
    findings: &mut Findings,
) -> Option<Value> {
    let NodeKind::Scalar(scalar) = &node.kind else {
        mismatch(node, &expected(schema), owner, findings);
        return None;
    };
    let Some(read) = typed(scalar, schema) else {
        mismatch(node, &expected(schema), owner, findings);
        return None;
    };
    let fault = format_fault(&read, schema).or_else(|| bound_fault(&read, schema, owner.name));
    match fault {
        None => Some(read),
        Some(fault) if scalar.written.is_none() => {
            findings.add(node.at, fault);
            None
        }
        // The value came from the environment and may be a secret: it is not quoted.
        Some(_) => {
            let (name, shown) = (owner.name, scalar.shown());
            let expected = expected(schema);
            findings.add(
                node.at,
                format!("`{name}`: the value of {shown} is not usable; it must be {expected}"),
            );
            None
        }
    }
}

/// The scalar as one of the types that the schema allows.
fn typed(scalar: &Scalar, schema: &Value) -> Option<Value> {
    let allows = |name: &str| match &schema["type"] {
        Value::String(only) => only == name,
        Value::Array(types) => types.iter().any(|one| one == name),
        _ => true,
    };
    if scalar.is_null() {
        return None;
    }
    if allows("boolean")
        && let Some(flag) = scalar.as_bool()
    {
        return Some(Value::Bool(flag));
    }
    if (allows("integer") || allows("number"))
        && let Some(number) = scalar.as_integer()
    {
        // Numbers beyond 64 bits stay text where text will do, and are refused elsewhere.
        let narrow = u64::try_from(number).map(Value::from);
        if let Ok(number) = narrow.or_else(|_| i64::try_from(number).map(Value::from)) {
            return Some(number);
        }
    }
    if allows("number")
        && let Some(number) = scalar.as_float().and_then(serde_json::Number::from_f64)
    {
        return Some(Value::Number(number));
    }
    // `index: 2024` is meant as text where only text makes sense.
    allows("string").then(|| Value::from(scalar.text.as_str()))
}

/// Reads a unit or address with the parser that the option itself uses.
fn format_fault(value: &Value, schema: &Value) -> Option<String> {
    fn fault<T: serde::de::DeserializeOwned>(value: &Value) -> Option<String> {
        serde_json::from_value::<T>(value.clone())
            .err()
            .map(|error| error.to_string())
    }
    match schema["format"].as_str()? {
        "size" => fault::<ByteSize>(value),
        "duration" => fault::<Period>(value),
        "listen-address" => fault::<ListenAddr>(value),
        "timezone" => inrush_codec::Zone::named(value.as_str()?)
            .err()
            .map(|e| e.to_string()),
        "socket-address" => fault::<super::AdminAddr>(value),
        "dns-server" => fault::<super::DnsServer>(value),
        "password-hash" => fault::<super::PasswordHash>(value),
        "encoding" => fault::<inrush_codec::Charset>(value),
        "mode" => fault::<inrush_files::FileMode>(value),
        "network" => fault::<Network>(value),
        "permitted-peer" => fault::<PermittedPeer>(value),
        _ => None,
    }
}

/// The number that bounds apply to: bytes of a size, seconds of a duration.
fn magnitude(value: &Value, schema: &Value) -> Option<f64> {
    match schema["format"].as_str() {
        Some("size") => serde_json::from_value::<ByteSize>(value.clone())
            .ok()
            .map(|size| size.0 as f64),
        Some("duration") => serde_json::from_value::<Period>(value.clone())
            .ok()
            .map(|period| period.0.as_secs_f64()),
        _ => value.as_f64(),
    }
}

fn bound_fault(value: &Value, schema: &Value, name: &str) -> Option<String> {
    let shown = value
        .as_str()
        .map_or_else(|| format!("`{value}`"), inrush_yaml::quoted);
    if let Some(number) = magnitude(value, schema) {
        let bound = |key: &str| schema[key].as_f64();
        let low = bound("minimum").is_some_and(|least| number < least)
            || bound("exclusiveMinimum").is_some_and(|least| number <= least);
        let high = bound("maximum").is_some_and(|most| number > most);
        if low || high {
            let side = if low { "small" } else { "large" };
            let bounds = bounds_with(schema, true)?;
            return Some(format!("{shown} is too {side}; `{name}` is {bounds}"));
        }
    }
    let text = value.as_str()?;
    if schema["minLength"]
        .as_u64()
        .is_some_and(|least| (text.chars().count() as u64) < least)
    {
        return Some(format!("`{name}` is empty; give {}", expected(schema)));
    }
    let most = schema["maxLength"].as_u64()?;
    (text.chars().count() as u64 > most)
        .then(|| format!("`{name}` is too long; give at most {most} characters"))
}

/// `from 1 to 256`, `at least 480`: the bounds in the unit of the option.
pub(super) fn bounds(schema: &Value) -> Option<String> {
    bounds_with(schema, false)
}

/// The limits of the integer type itself tell a reader nothing until they are passed.
fn bounds_with(schema: &Value, type_limits: bool) -> Option<String> {
    let least = schema
        .get("minimum")
        .filter(|least| least.as_f64() != Some(0.0));
    let show = |bound: &Value| match schema["format"].as_str() {
        Some("size") => bound
            .as_u64()
            .map_or_else(|| bound.to_string(), |n| ByteSize(n).to_string()),
        Some("duration") => {
            let seconds = bound.as_f64().unwrap_or(0.0).max(0.0);
            Period(std::time::Duration::from_secs_f64(seconds)).to_string()
        }
        _ => bound.to_string(),
    };
    let most = schema
        .get("maximum")
        .filter(|_| type_limits || !is_type_limit(schema));
    match (least, most) {
        (Some(least), Some(most)) => Some(format!("from {} to {}", show(least), show(most))),
        (Some(least), None) => Some(format!("at least {}", show(least))),
        (None, Some(most)) => Some(format!("at most {}", show(most))),
        (None, None) => schema
            .get("minimum")
            .map(|least| format!("at least {}", show(least))),
    }
}

/// True if the maximum is only that of the integer type.
fn is_type_limit(schema: &Value) -> bool {
    let most = schema["maximum"].as_u64();
    match schema["format"].as_str() {
        Some("uint8") => most == Some(u8::MAX.into()),
        Some("uint16") => most == Some(u16::MAX.into()),
        Some("uint32") => most == Some(u32::MAX.into()),
        _ => false,
    }
}

/// Description of the values that a schema accepts, for the remedy of a problem.
pub(super) fn expected(schema: &Value) -> String {
    match shape(schema) {
        SchemaKind::Object(_) => "a mapping of options".to_owned(),
        SchemaKind::Map(_) => "a mapping of names".to_owned(),
        SchemaKind::Union(variants) => {
            format!(
                "a mapping with a `type`: {}",
                listed(variants.iter().map(|(tag, _)| *tag), "or")
            )
        }
        SchemaKind::Words(words) => listed(words, "or"),
        SchemaKind::List(items) => format!("a list such as [{}]", example(items)),
        SchemaKind::Either(choices) => choices
            .iter()
            .map(expected)
            .collect::<Vec<_>>()
            .join(" or "),
        SchemaKind::Scalar => expected_scalar(schema),
    }
}

fn expected_scalar(schema: &Value) -> String {
    let kind = match (schema["format"].as_str(), schema["type"].as_str()) {
        (Some("size"), _) => "a size such as 64KiB",
        (Some("duration"), _) => "a duration such as 5s",
        (Some("password"), _) => "a secret, best as \"${VARIABLE}\"",
        (Some("mode"), _) => "permissions in octal such as 0640",
        (Some("password-hash"), _) => "what `inrush check --hash-password` prints, in quotes",
        (Some("socket-address"), _) => "an address and port such as 127.0.0.1:8686",
        (_, Some("boolean")) => "true or false",
        (_, Some("integer")) => "a whole number",
        (_, Some("number")) => "a number",
        _ => "text",
    };
    let mut out = kind.to_owned();
    if kind == "text" && !schema["examples"].get(0).is_none_or(Value::is_null) {
        out = format!("text such as {}", example(schema));
    }
    if let Some(bounds) = bounds(schema) {
        out = format!("{out}, {bounds}");
    }
    out
}
