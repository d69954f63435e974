//! The parameters of STRUCTURED-DATA (RFC 5424 section 6.3), and the indexed fields of events, as
//! keys and values.

use crate::schema::{EVENT_SOURCE, RAW_BASE64, TLS_CLIENT};

/// Keys of one event at most: what a hostile sender packs into a message beyond is still in `raw`.
const PARAMS_MAX: usize = 256;

/// Calls `each` with `ID.NAME` and the value of every parameter, escapes taken off. What cannot be
/// read ends it; all of it is in the raw text anyway. A key that comes twice is given twice: the
/// first counts for those who look one up.
pub(crate) fn each_param(sdata: &str, each: &mut dyn FnMut(&str, &str)) {
    let (mut key, mut value) = (String::new(), String::new());
    let mut params = 0;
    let mut rest = sdata;
    while let Some(element) = rest.strip_prefix('[') {
        let end = element.find([' ', ']']).unwrap_or(element.len());
        let id = &element[..end];
        rest = &element[end..];
        while let Some(param) = rest.strip_prefix(' ') {
            let param = param.trim_start_matches(' ');
            let named = param.split_once("=\"");
            let Some((name, quoted)) = named.filter(|(name, _)| !name.contains([' ', ']', '"']))
            else {
                rest = param;
                break;
            };
            value.clear();
            let Some(behind) = unquote(quoted, &mut value) else {
                return;
            };
            key.clear();
            key.push_str(id);
            key.push('.');
            key.push_str(name);
            each(&key, &value);
            rest = behind;
            params += 1;
            if params == PARAMS_MAX {
                return;
            }
        }
        let Some(behind) = rest.strip_prefix(']') else {
            return;
        };
        rest = behind;
    }
}

/// Calls `each` with the name and each value of every indexed field of a JSON object
/// (RFC 8259: an object of strings, numbers and lists of these). A name that is one of ours gets
/// `fields.` before it, so that no sender can make ours.
pub(crate) fn each_field(fields: &str, each: &mut dyn FnMut(&str, &str)) {
    use serde_json::Value;
    let fields: serde_json::Map<String, Value> = serde_json::from_str(fields).unwrap_or_default();
    for (name, value) in fields.iter().take(PARAMS_MAX) {
        let values = match value {
            Value::Array(values) => values.as_slice(),
            one => std::slice::from_ref(one),
        };
        for value in values.iter().take(PARAMS_MAX) {
            match value {
                Value::String(text) => one_field(name, text, each),
                other => one_field(name, &other.to_string(), each),
            }
        }
    }
}

/// Calls `each` with the name and value of an indexed field, renamed like those of [`each_field`].
pub(crate) fn one_field(name: &str, value: &str, each: &mut dyn FnMut(&str, &str)) {
    match [TLS_CLIENT, RAW_BASE64, EVENT_SOURCE].contains(&name) {
        true => each(&format!("fields.{name}"), value),
        false => each(name, value),
    }
}

/// Appends a value up to its closing quote, and returns what follows; `None` if there is no quote.
fn unquote<'a>(quoted: &'a str, value: &mut String) -> Option<&'a str> {
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some(&quoted[at + 1..]),
            '\\' => match chars.next() {
                Some((_, c @ ('"' | '\\' | ']'))) => value.push(c),
                Some((_, c)) => value.extend(['\\', c]),
                None => return None,
            },
            c => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(sdata: &str) -> Vec<(String, String)> {
        let mut found = Vec::new();
        each_param(sdata, &mut |key, value| {
            found.push((key.to_owned(), value.to_owned()))
        });
        found
    }

    #[test]
    fn fields_of_a_collector_are_values_and_none_is_one_of_ours() {
        let fields = r#"{"k":["a","b"],"n":1.5,"yes":true,"tls_client":"forged"}"#;
        let mut found = Vec::new();
        each_field(fields, &mut |key, value| {
            found.push(format!("{key}={value}"))
        });
        found.sort();
        let wanted = [
            "fields.tls_client=forged",
            "k=a",
            "k=b",
            "n=1.5",
            "yes=true",
        ];
        assert_eq!(found, wanted);
        each_field("{", &mut |_, _| panic!("nothing is in it"));
    }

    #[test]
    fn parameters_of_all_elements_with_their_escapes_taken_off() {
        let sdata = r#"[ex@32473 iut="3" text="a \"b\" \] \\ \n"][empty][meta  seq="7"]"#;
        let expected = [
            ("ex@32473.iut", "3"),
            ("ex@32473.text", r#"a "b" ] \ \n"#),
            ("meta.seq", "7"),
        ];
        let expected = expected.map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(params(sdata), expected);
    }

    #[test]
    fn what_is_broken_ends_it_without_a_panic() {
        for (sdata, found) in [
            ("", 0),
            ("[", 0),
            ("[id", 0),
            ("[id a=\"1", 0),
            ("[id a=\"1\\", 0),
            ("[id a=\"1\" b]", 1),
            ("[id a=\"1\"] x=\"2\"", 1),
            ("[é ü=\"ß\"]", 1),
            ("[id b] c=\"1\"]", 0),
        ] {
            assert_eq!(params(sdata).len(), found, "{sdata}");
        }
        let many = format!("[id{}]", " k=\"v\"".repeat(1000));
        assert_eq!(params(&many).len(), PARAMS_MAX);
    }
}
