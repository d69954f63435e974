//! The JSON Schema of the configuration, made plain.
//!
//! `schemars` writes what the option structs declare. Here its references, merged objects and
//! optional types are worked out into one form that the checker, the reference page and an editor
//! read alike: an object has `properties` and `additionalProperties: false`, a map has a schema
//! as `additionalProperties`, a choice by `type` is a `oneOf` of objects, and a choice of words a
//! `oneOf` of constants with their meaning.

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::Config;

/// Levels that references are followed; the options are a tree, so this is never reached.
const DEPTH_MAX: usize = 32;

/// The schema in its plain form, made once.
pub(super) static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let generated = SchemaSettings::draft2020_12()
        .into_generator()
        .into_root_schema_for::<Config>();
    let mut root = generated.to_value();
    let definitions = root.get_mut("$defs").map(Value::take).unwrap_or_default();
    if let Some(root) = root.as_object_mut() {
        root.remove("$defs");
    }
    plain(&root, &definitions, 0)
});

/// Works `schema` out: no references, no nulls, closed objects.
fn plain(schema: &Value, definitions: &Value, depth: usize) -> Value {
    let Some(object) = schema.as_object() else {
        return json!({});
    };
    if depth > DEPTH_MAX {
        return json!({});
    }
    let mut out = merged(object, definitions, depth);
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = out.get_mut(key).filter(|inner| inner.is_object()) {
            *inner = plain(inner, definitions, depth + 1);
        }
    }
    for key in ["oneOf", "anyOf"] {
        for variant in out
            .get_mut(key)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            *variant = plain(variant, definitions, depth + 1);
        }
    }
    if let Some(properties) = out.get_mut("properties").and_then(Value::as_object_mut) {
        for property in properties.values_mut() {
            *property = plain(property, definitions, depth + 1);
        }
        out.shift_remove("unevaluatedProperties");
        out.insert("additionalProperties".into(), Value::Bool(false));
    }
    words(&mut out);
    if out.get("default").is_some_and(Value::is_null) {
        out.shift_remove("default");
    }
    Value::Object(out)
}

/// Follows `$ref`, `allOf` and the `anyOf` of an optional type, keeping what stands beside them.
fn merged(object: &Map<String, Value>, definitions: &Value, depth: usize) -> Map<String, Value> {
    let mut out = Map::new();
    let mut own = object.clone();
    if let Some(name) = own.shift_remove("$ref") {
        let name = name
            .as_str()
            .and_then(|path| path.strip_prefix("#/$defs/"))
            .unwrap_or_default();
        if let Some(target) = definitions.get(name).and_then(Value::as_object)
            && depth < DEPTH_MAX
        {
            merge(&mut out, merged(target, definitions, depth + 1));
        }
    }
    for part in own
        .shift_remove("allOf")
        .iter()
        .filter_map(Value::as_array)
        .flatten()
    {
        if let Some(part) = part.as_object() {
            merge(&mut out, merged(part, definitions, depth + 1));
        }
    }
    if let Some(Value::Array(choices)) = own.get_mut("anyOf") {
        choices.retain(|choice| choice["type"] != "null");
        if let [only] = choices.as_slice() {
            let only = only.as_object().cloned().unwrap_or_default();
            own.shift_remove("anyOf");
            merge(&mut out, merged(&only, definitions, depth + 1));
        }
    }
    if let Some(Value::Array(types)) = own.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            own.insert("type".into(), only);
        }
    }
    merge(&mut out, own);
    out
}

/// Lays `over` upon `base`: objects join their options, everything else is replaced.
fn merge(base: &mut Map<String, Value>, over: Map<String, Value>) {
    // The tag of a variant stands before the options of that variant.
    let tag_first = over
        .get("properties")
        .is_some_and(|own| own.get("type").is_some());
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Object(old)), Value::Object(new)) if key == "properties" => {
                if tag_first {
                    let mut joined = new;
                    joined.extend(std::mem::take(old));
                    *old = joined;
                } else {
                    old.extend(new);
                }
            }
            (Some(Value::Array(old)), Value::Array(new)) if key == "required" => {
                let fresh: Vec<_> = new.into_iter().filter(|name| !old.contains(name)).collect();
                old.splice(0..0, fresh);
            }
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

/// Turns `enum`, and `oneOf` that mixes `const` and `enum`, into one `oneOf` of constants.
fn words(out: &mut Map<String, Value>) {
    let mut constants = Vec::new();
    for group in [out.get("enum"), out.get("oneOf")].into_iter().flatten() {
        for choice in group.as_array().into_iter().flatten() {
            match choice {
                Value::Object(variant) if variant.contains_key("const") => {
                    let mut variant = variant.clone();
                    variant.shift_remove("type");
                    constants.push(Value::Object(variant));
                }
                Value::Object(variant) if is_words(variant) => {
                    let inner = variant.get("oneOf").and_then(Value::as_array);
                    constants.extend(inner.into_iter().flatten().cloned());
                }
                Value::String(_) => constants.push(json!({ "const": choice })),
                _ => return,
            }
        }
    }
    if !constants.is_empty() {
        out.shift_remove("enum");
        out.insert("type".into(), "string".into());
        out.insert("oneOf".into(), Value::Array(constants));
    }
}

fn is_words(variant: &Map<String, Value>) -> bool {
    let choices = variant.get("oneOf").and_then(Value::as_array);
    choices.is_some_and(|all| !all.is_empty() && all.iter().all(|one| one.get("const").is_some()))
}

/// Kind of value that a (plain) schema asks for.
pub(super) enum SchemaKind<'s> {
    /// Named options.
    Object(&'s Map<String, Value>),
    /// Names of the user's own, all with values of this schema.
    Map(&'s Value),
    /// Objects told apart by their `type`.
    Union(Vec<(&'s str, &'s Value)>),
    /// One of these words.
    Words(Vec<&'s str>),
    /// Values of this schema.
    List(&'s Value),
    /// Any of these.
    Either(&'s [Value]),
    /// Text, a number, true or false.
    Scalar,
}

pub(super) fn shape(schema: &Value) -> SchemaKind<'_> {
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        return SchemaKind::Object(properties);
    }
    if let Some(values) = schema.get("additionalProperties").filter(|s| s.is_object()) {
        return SchemaKind::Map(values);
    }
    if let Some(items) = schema.get("items") {
        return SchemaKind::List(items);
    }
    if let Some(choices) = schema.get("anyOf").and_then(Value::as_array) {
        return SchemaKind::Either(choices);
    }
    if let Some(word) = schema.get("const").and_then(Value::as_str) {
        return SchemaKind::Words(vec![word]);
    }
    let Some(variants) = schema.get("oneOf").and_then(Value::as_array) else {
        return SchemaKind::Scalar;
    };
    let words: Vec<&str> = variants
        .iter()
        .filter_map(|v| v["const"].as_str())
        .collect();
    if !words.is_empty() {
        return SchemaKind::Words(words);
    }
    let tag = |variant: &'_ Value| variant["properties"]["type"]["const"].as_str().is_some();
    if variants.iter().all(tag) {
        let named = |v| (tag_of(v), v);
        return SchemaKind::Union(variants.iter().map(named).collect());
    }
    SchemaKind::Either(variants)
}

fn tag_of(variant: &Value) -> &str {
    variant["properties"]["type"]["const"]
        .as_str()
        .unwrap_or_default()
}

/// True if an object's option must be given.
pub(super) fn is_required(schema: &Value, option: &str) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    required.is_some_and(|names| names.iter().any(|name| name == option))
}
