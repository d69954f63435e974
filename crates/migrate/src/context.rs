//! The context files: `splunk_metadata.csv`, `host.csv`, `compliance_meta_by_source.*` and
//! `vendor_product_by_source.*`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::MigrationNote;
use crate::environment::EnvFile;
use crate::yaml::quoted;

/// The texts of the context files; one that is not there is empty.
#[derive(Clone, Default, Debug)]
pub struct ContextFiles {
    /// `splunk_metadata.csv`: key, metadata, value.
    pub splunk_metadata_csv: String,
    /// `host.csv`: address, `HOST`, name.
    pub host_csv: String,
    /// `compliance_meta_by_source.conf`: filters.
    pub compliance_conf: String,
    /// `compliance_meta_by_source.csv`: filter, field, value.
    pub compliance_csv: String,
    /// `vendor_product_by_source.conf`: filters.
    pub vendor_product_conf: String,
    /// `vendor_product_by_source.csv`: filter, field, value.
    pub vendor_product_csv: String,
}

/// Entries under `packs:`.
#[derive(Default)]
pub(crate) struct PacksSection {
    metadata: BTreeMap<String, BTreeMap<&'static str, String>>,
    /// Rules, as lines of YAML.
    rules: Vec<String>,
    pub(crate) notes: Vec<MigrationNote>,
}

impl PacksSection {
    pub(crate) fn read(context: &ContextFiles, env: &mut EnvFile) -> Self {
        let mut packs = Self::default();
        packs.metadata(&context.splunk_metadata_csv);
        packs.hosts(&context.host_csv);
        let hints = (
            context.vendor_product_conf.as_str(),
            context.vendor_product_csv.as_str(),
        );
        packs.by_source("vendor_product_by_source", hints, "hint", hint);
        let compliance = (
            context.compliance_conf.as_str(),
            context.compliance_csv.as_str(),
        );
        packs.by_source(
            "compliance_meta_by_source",
            compliance,
            "after",
            override_of,
        );
        // Its only use is in the variables above.
        env.take("SC4S_DEST_SPLUNK_HEC_FALLBACK_INDEX");
        packs
    }

    fn note(&mut self, what: String, why: impl Into<String>) {
        self.notes.push(MigrationNote {
            what,
            why: why.into(),
        });
    }

    fn metadata(&mut self, csv: &str) {
        for (line, row) in rows(csv) {
            let what = format!("splunk_metadata.csv:{line}");
            let [key, field, value] = row.as_slice() else {
                self.note(what, "not three columns: key, metadata, value");
                continue;
            };
            let field = match field.as_str() {
                "index" => "index",
                "source" => "source",
                "sourcetype" => "sourcetype",
                "sc4s_template" => "template",
                "host" => {
                    self.note(what, "`host` had no effect there either");
                    continue;
                }
                other => {
                    self.note(what, format!("`{other}` is no metadata"));
                    continue;
                }
            };
            self.metadata
                .entry(key.clone())
                .or_default()
                .insert(field, value.clone());
        }
    }

    fn hosts(&mut self, csv: &str) {
        for (line, row) in rows(csv) {
            let what = format!("host.csv:{line}");
            match row.as_slice() {
                [ip, field, name] if field == "HOST" && ip.parse::<std::net::IpAddr>().is_ok() => {
                    let (ip, name) = (quoted(ip), quoted(name));
                    let number = self.rules.len() + 1;
                    self.rules.push(format!(
                        "- {{ name: own_{number}, stage: hint, when: {{ sender: {ip}, host: \
                         [\"\", '/^[0-9.]+$$/', '/^[0-9a-fA-F]*:[0-9a-fA-F:]*$$/'] }}, set: {{ host: {name} }} }}"
                    ));
                }
                _ => self.note(what, "not `address,HOST,name`"),
            }
        }
    }

    /// Rules of filters and of what a table sets for them.
    fn by_source(
        &mut self,
        file: &str,
        (conf, csv): (&str, &str),
        stage: &str,
        set: fn(&str, &str) -> Result<String, String>,
    ) {
        let filters = filters(conf);
        let mut by_filter: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (line, row) in rows(csv) {
            let what = format!("{file}.csv:{line}");
            let [filter, field, value] = row.as_slice() else {
                self.note(what, "not three columns: filter, field, value");
                continue;
            };
            match set(field, value) {
                Ok(text) => by_filter.entry(filter.clone()).or_default().push(text),
                Err(why) => self.note(what, why),
            }
        }
        for (filter, sets) in by_filter {
            let what = format!("{file}.conf: {filter}");
            match filters.get(&filter).map(|body| condition(body)) {
                Some(Ok(when)) => {
                    let fields = joined(sets);
                    self.rules.push(format!(
                        "- {{ name: own_{}, stage: {stage}, when: {when}, set: {{ {fields} }} }}",
                        filter.to_ascii_lowercase()
                    ));
                }
                Some(Err(why)) => self.note(what, why),
                None => self.note(what, "there is no such filter"),
            }
        }
    }

    /// Writes what goes under `packs:`.
    pub(crate) fn write(&self, out: &mut String) {
        if !self.metadata.is_empty() {
            out.push_str("  metadata:\n");
        }
        for (key, fields) in &self.metadata {
            let fields: Vec<String> = fields
                .iter()
                .map(|(field, value)| format!("{field}: {}", quoted(value)))
                .collect();
            // Writing to a text cannot fail.
            let _ = writeln!(out, "    {}: {{ {} }}", quoted(key), fields.join(", "));
        }
        if self.rules.is_empty() {
            return;
        }
        out.push_str("  inline: |\n    about: carried over from SC4S\n    rules:\n");
        for rule in &self.rules {
            let _ = writeln!(out, "      {rule}");
        }
    }
}

/// Settings of a filter, with its indexed fields together.
fn joined(sets: Vec<String>) -> String {
    let (fields, mut others): (Vec<_>, Vec<_>) =
        sets.into_iter().partition(|set| set.starts_with("fields."));
    if !fields.is_empty() {
        let fields: Vec<&str> = fields
            .iter()
            .filter_map(|set| set.strip_prefix("fields."))
            .collect();
        others.push(format!("fields: {{ {} }}", fields.join(", ")));
    }
    others.join(", ")
}

fn hint(field: &str, value: &str) -> Result<String, String> {
    match field {
        "sc4s_vendor_product" => match value.split_once('_') {
            Some((vendor, product)) => {
                Ok(format!("hint: {}", quoted(&format!("{vendor}/{product}"))))
            }
            None => Ok(format!("hint: {}", quoted(&format!("{value}/{value}")))),
        },
        "sc4s_time_zone" => Ok(format!("zone: {}", quoted(value))),
        "sc4s_use_recv_time" if value == "yes" => Ok("time: received".to_owned()),
        other => Err(format!("`{other}` is not known here")),
    }
}

fn override_of(field: &str, value: &str) -> Result<String, String> {
    match field {
        ".splunk.index" => Ok(format!("index: {}", quoted(value))),
        ".splunk.source" => Ok(format!("source: {}", quoted(value))),
        ".splunk.sourcetype" => Ok(format!("sourcetype: {}", quoted(value))),
        other => match other.strip_prefix("fields.") {
            Some(name) => Ok(format!("fields.{}: {}", quoted(name), quoted(value))),
            None => Err(format!("`{other}` is not known here")),
        },
    }
}

/// The lines of a table with their numbers; comments and empty lines left out.
fn rows(csv: &str) -> impl Iterator<Item = (usize, Vec<String>)> {
    csv.lines().enumerate().filter_map(|(number, line)| {
        let line = line.trim();
        (!line.is_empty() && !line.starts_with('#')).then(|| (number + 1, columns(line)))
    })
}

fn columns(line: &str) -> Vec<String> {
    let mut columns = vec![String::new()];
    let mut quoted = false;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                columns
                    .last_mut()
                    .into_iter()
                    .for_each(|column| column.push('"'));
            }
            '"' => quoted = !quoted,
            ',' if !quoted => columns.push(String::new()),
            c => columns
                .last_mut()
                .into_iter()
                .for_each(|column| column.push(c)),
        }
    }
    columns
        .into_iter()
        .map(|column| column.trim().to_owned())
        .collect()
}

/// The bodies of `filter name { … };` by their names.
fn filters(conf: &str) -> BTreeMap<String, String> {
    let mut plain = String::new();
    for line in conf.lines() {
        plain.push_str(line.split_once('#').map_or(line, |(before, _)| before));
        plain.push('\n');
    }
    let mut found = BTreeMap::new();
    let mut rest = plain.as_str();
    while let Some(at) = rest.find("filter ") {
        rest = &rest[at + "filter ".len()..];
        let Some((name, body)) = rest.split_once('{') else {
            break;
        };
        let Some((body, after)) = body.split_once("};") else {
            break;
        };
        found.insert(
            name.trim().to_owned(),
            body.trim().trim_end_matches(';').trim().to_owned(),
        );
        rest = after;
    }
    found
}

/// A filter's body as a condition: `host(…)`, `netmask(…)` and `"${HOST}" eq "…"`, joined by `or`.
/// SC4S has the host in small letters when it asks, so here case is let be.
fn condition(body: &str) -> Result<String, String> {
    let body = body.split_whitespace().collect::<Vec<_>>().join(" ");
    let terms: Vec<String> = body
        .split(" or ")
        .map(|term| term.trim().trim_end_matches(';').trim())
        .map(|term| {
            one(term).ok_or_else(|| format!("`{term}` is not understood; write the rule by hand"))
        })
        .collect::<Result<_, _>>()?;
    Ok(match terms.as_slice() {
        [only] => only.clone(),
        more => format!("{{ any: [{}] }}", more.join(", ")),
    })
}

fn one(term: &str) -> Option<String> {
    if let Some(inner) = term
        .strip_prefix("netmask(")
        .and_then(|rest| rest.strip_suffix(')'))
    {
        let network = inner.trim().trim_matches(['"', '\'']);
        return Some(format!("{{ sender: {} }}", quoted(network)));
    }
    if let Some(rest) = term.strip_prefix("\"${HOST}\" eq ") {
        return Some(format!(
            "{{ host: {} }}",
            quoted(&format!("i:{}", rest.trim().trim_matches('"')))
        ));
    }
    let inner = term.strip_prefix("host(")?.strip_suffix(')')?.trim();
    let quote = inner.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let (text, options) = inner[1..].split_once(quote)?;
    let options = options.replace(' ', "");
    let pattern = match options.as_str() {
        glob if glob.contains("type(glob)") => format!("i:{text}"),
        string if string.contains("type(string)") && string.contains("prefix") => {
            format!("i:{text}*")
        }
        string if string.contains("type(string)") => format!("i:{text}"),
        _ => format!("i:/{text}/"),
    };
    Some(format!("{{ host: {} }}", quoted(&pattern)))
}
