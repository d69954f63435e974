//! Configuration of a Splunk heavy forwarder: its HTTP Event Collector and where it sends.
//!
//! # What it guarantees
//! * Each setting is carried over, or named with its file and line and the reason.
//! * No token and no password is printed: the configuration takes tokens from variables.
//! * What is not understood changes nothing: an event goes where it went without that line.

use std::collections::BTreeMap;

use crate::yaml::{list, quoted};
use crate::{Migration, MigrationNote};

/// Files of a forwarder, each with its name, in the order in which later ones win.
#[derive(Clone, Debug, Default)]
pub struct SplunkFiles {
    /// All `inputs.conf`.
    pub inputs: Vec<(String, String)>,
    /// All `outputs.conf`.
    pub outputs: Vec<(String, String)>,
    /// All `limits.conf`.
    pub limits: Vec<(String, String)>,
}

/// A setting, and where it stands.
#[derive(Clone, Debug)]
struct ConfSetting {
    value: String,
    place: String,
}

/// Settings of a stanza that nobody has asked for yet.
#[derive(Clone, Debug, Default)]
struct ConfStanza(BTreeMap<String, ConfSetting>);

/// Stanzas of all files of a name.
type ConfStanzas = BTreeMap<String, ConfStanza>;

/// Reads files in the format of Splunk's `.conf` files: stanzas in brackets, `key = value`, `#` for
/// comments, and a backslash at the end of a line that goes on.
fn read(files: &[(String, String)]) -> ConfStanzas {
    let mut stanzas = ConfStanzas::new();
    for (name, text) in files {
        let mut stanza = "default".to_owned();
        let mut lines = text.lines().enumerate();
        while let Some((number, line)) = lines.next() {
            let mut line = line.trim().to_owned();
            while line.ends_with('\\')
                && let Some((_, more)) = lines.next()
            {
                line.pop();
                line.push_str(more.trim());
            }
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(inner) = line
                .strip_prefix('[')
                .and_then(|rest| rest.strip_suffix(']'))
            {
                inner.trim().clone_into(&mut stanza);
                continue;
            }
            let Some((key, value)) = line.split_once('=') else {
                continue;
            };
            let setting = ConfSetting {
                value: value.trim().to_owned(),
                place: format!("{name}:{}", number + 1),
            };
            let settings = stanzas.entry(stanza.clone()).or_default();
            settings.0.insert(key.trim().to_owned(), setting);
        }
    }
    stanzas
}

impl ConfStanza {
    /// Takes a setting out; its value.
    fn take(&mut self, key: &str) -> Option<String> {
        self.0.remove(key).map(|setting| setting.value)
    }

    /// Takes a yes or no, as Splunk reads them.
    fn take_flag(&mut self, key: &str) -> Option<bool> {
        let value = self.take(key)?;
        Some(matches!(
            value.to_ascii_lowercase().as_str(),
            "1" | "true" | "t" | "yes" | "y"
        ))
    }

    /// Takes out settings that mean nothing here, or that are as they are here anyway.
    fn drop_known(&mut self, keys: &[&str]) {
        for key in keys {
            self.0.remove(*key);
        }
    }
}

/// A configuration that is made, and what is not carried over.
#[derive(Default)]
struct SplunkMigration {
    out: String,
    notes: Vec<MigrationNote>,
}

/// Names of `[http]` of which nothing is to be said: they tune what tunes itself here.
const NEEDLESS: [&str; 12] = [
    "dedicatedIoThreads",
    "maxSockets",
    "maxThreads",
    "keepAliveIdleTimeout",
    "busyKeepAliveIdleTimeout",
    "ackIdleCleanup",
    "maxIdleTime",
    "sslVersions",
    "cipherSuite",
    "outputgroup",
    "useDeploymentServer",
    "disabled",
];

/// Makes a configuration of the files of a forwarder.
pub fn splunk(files: &SplunkFiles) -> Migration {
    let mut made = SplunkMigration::default();
    made.out.push_str(
        "# Made by `inrush migrate splunk`. What is not carried over stands on stderr.\n",
    );
    let mut inputs = read(&files.inputs);
    let mut limits = read(&files.limits);
    let mut outputs = read(&files.outputs);
    made.sources(&mut inputs, &mut limits);
    made.destinations(&mut outputs);
    for stanzas in [inputs, limits, outputs] {
        made.left(stanzas);
    }
    made.notes.sort();
    Migration {
        config: made.out,
        notes: made.notes,
    }
}

impl SplunkMigration {
    fn note(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.notes.push(MigrationNote {
            what: what.into(),
            why: why.into(),
        });
    }

    fn line(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn sources(&mut self, inputs: &mut ConfStanzas, limits: &mut ConfStanzas) {
        let tokens: Vec<String> = inputs
            .keys()
            .filter(|name| name.starts_with("http://"))
            .cloned()
            .collect();
        let mut http = inputs.remove("http").unwrap_or_default();
        self.line("sources:");
        if tokens.is_empty() {
            self.note(
                "inputs.conf",
                "it has no [http://…] with a token: one is made at the start",
            );
        }
        let port = http.take("port").unwrap_or_else(|| "8088".to_owned());
        let port: u16 = port.parse().unwrap_or(8088);
        self.line("  hec:");
        self.line("    type: splunk_hec");
        self.line(&format!("    listen: 0.0.0.0:{port}"));
        if http.take_flag("enableSSL").unwrap_or(true) {
            self.line("    tls: { cert_file: /etc/inrush/hec.pem, key_file: /etc/inrush/hec.key }");
            self.note(
                "inputs.conf [http] enableSSL",
                "split `serverCert` into /etc/inrush/hec.pem (certificate) and hec.key (key, not \
                 encrypted)",
            );
            http.drop_known(&["serverCert", "sslPassword", "caCertFile", "caPath"]);
        }
        self.cors(&mut http);
        let mut input = limits.remove("http_input").unwrap_or_default();
        if let Some(bytes) = input.take("max_content_length") {
            match bytes.parse::<u64>() {
                Ok(bytes) => self.line(&format!("    max_content_length: {bytes}")),
                Err(_) => self.note("limits.conf max_content_length", "it is no number of bytes"),
            }
        }
        for (key, what) in [("index", "index"), ("sourcetype", "sourcetype")] {
            if let Some(value) = http.take(key) {
                self.line(&format!("    {what}: {}", quoted(&value)));
            }
        }
        http.drop_known(&NEEDLESS);
        self.line("    tokens:");
        if tokens.is_empty() {
            self.line("      - { token_file: hec-token }");
        }
        for name in tokens {
            let stanza = inputs.remove(&name).unwrap_or_default();
            self.token(&name, stanza);
        }
        let rest = [("http".to_owned(), http), ("http_input".to_owned(), input)];
        self.left(rest.into_iter().collect());
    }

    fn cors(&mut self, http: &mut ConfStanza) {
        let words = |value: String| -> Vec<String> {
            let split = value.split([' ', ',']).filter(|word| !word.is_empty());
            split.map(str::to_owned).collect()
        };
        let origins = http.take("crossOriginSharingPolicy").map(words);
        let headers = http.take("crossOriginSharingHeaders").map(words);
        if let Some(origins) = origins.filter(|origins| !origins.is_empty()) {
            let headers = list(&headers.unwrap_or_default());
            let origins = list(&origins);
            self.line(&format!(
                "    cors: {{ origins: {origins}, headers: {headers} }}"
            ));
        }
    }

    fn token(&mut self, stanza_name: &str, mut stanza: ConfStanza) {
        let name = stanza_name.trim_start_matches("http://");
        let variable = variable(name);
        if stanza.take("token").is_some() {
            self.note(
                format!("inputs.conf [{stanza_name}] token"),
                format!("set the variable {variable} to it"),
            );
        } else {
            self.note(
                format!("inputs.conf [{stanza_name}]"),
                format!("it has no token: set the variable {variable} to one"),
            );
        }
        self.line(&format!("      - token: \"${{{variable}}}\""));
        self.line(&format!("        name: {}", quoted(name)));
        if stanza.take_flag("disabled").unwrap_or(false) {
            self.line("        disabled: true");
        }
        for key in ["index", "sourcetype", "source"] {
            if let Some(value) = stanza.take(key).filter(|value| !value.is_empty()) {
                self.line(&format!("        {key}: {}", quoted(&value)));
            }
        }
        if let Some(indexes) = stanza.take("indexes").filter(|value| !value.is_empty()) {
            let indexes = indexes.split(',').map(|one| one.trim().to_owned());
            let indexes: Vec<String> = indexes.filter(|one| !one.is_empty()).collect();
            self.line(&format!("        indexes: {}", list(&indexes)));
        }
        if stanza.take_flag("useACK").unwrap_or(false) {
            self.line("        ack: delivered");
        }
        if stanza.take_flag("allowQueryStringAuth").unwrap_or(false) {
            self.line("        query_string_auth: true");
        }
        match stanza.take("connection_host").as_deref() {
            None | Some("ip") => {}
            Some("proxied_ip") => {
                self.line("        host: proxied");
                self.note(
                    format!("inputs.conf [{stanza_name}] connection_host"),
                    "name the proxies in `stream.trusted_proxies`: only theirs is believed",
                );
            }
            Some("none") => self.line("        host: header"),
            Some("dns") => self.line("        host: dns"),
            Some(other) => self.note(
                format!("inputs.conf [{stanza_name}] connection_host"),
                format!("`{other}` is not known"),
            ),
        }
        stanza.drop_known(&[
            "description",
            "queueSize",
            "persistentQueueSize",
            "outputgroup",
        ]);
        self.left([(stanza_name.to_owned(), stanza)].into_iter().collect());
    }

    fn destinations(&mut self, outputs: &mut ConfStanzas) {
        self.line("destinations:");
        let mut any = false;
        if let Some(mut http) = outputs.remove("httpout") {
            let uri = http.take("uri").unwrap_or_default();
            let endpoints: Vec<String> = uri.split(',').map(|one| one.trim().to_owned()).collect();
            if http.take("httpEventCollectorToken").is_some() {
                self.note(
                    "outputs.conf [httpout] httpEventCollectorToken",
                    "set the variable SPLUNK_TOKEN to it",
                );
            }
            self.splunk_destination("httpout", &endpoints);
            any = true;
            self.left([("httpout".to_owned(), http)].into_iter().collect());
        }
        let groups: Vec<String> = outputs
            .keys()
            .filter(|name| name.starts_with("tcpout:"))
            .cloned()
            .collect();
        for group in groups {
            let mut stanza = outputs.remove(&group).unwrap_or_default();
            let servers = stanza.take("server").unwrap_or_default();
            let hosts = servers
                .split(',')
                .map(str::trim)
                .filter(|one| !one.is_empty());
            let host = |one: &str| {
                one.rsplit_once(':')
                    .map_or(one, |(host, _)| host)
                    .to_owned()
            };
            let endpoints: Vec<String> = hosts
                .map(|one| format!("https://{}:8088", host(one)))
                .collect();
            self.note(
                format!("outputs.conf [{group}]"),
                "S2S is spoken by Splunk only: switch HEC on at these indexers, port 8088, with \
                 one token for all, and set the variable SPLUNK_TOKEN to it",
            );
            let name = group.trim_start_matches("tcpout:");
            self.splunk_destination(name, &endpoints);
            any = true;
            self.left([(group.clone(), stanza)].into_iter().collect());
        }
        if let Some(mut all) = outputs.remove("tcpout") {
            all.drop_known(&["defaultGroup", "useACK", "compressed", "indexAndForward"]);
            self.left([("tcpout".to_owned(), all)].into_iter().collect());
        }
        if !any {
            self.line("  local: { type: store }");
            self.note(
                "outputs.conf",
                "it names no server: events are kept in the store",
            );
        }
    }

    fn splunk_destination(&mut self, name: &str, endpoints: &[String]) {
        let name: String = name
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || "_-.".contains(c) {
                    c
                } else {
                    '_'
                }
            })
            .collect();
        self.line(&format!("  {name}:"));
        self.line("    type: splunk_hec");
        self.line(&format!("    endpoints: {}", list(endpoints)));
        self.line("    token: \"${SPLUNK_TOKEN}\"");
    }

    /// Names what nobody asked for.
    fn left(&mut self, stanzas: ConfStanzas) {
        for (stanza, settings) in stanzas {
            for (key, setting) in settings.0 {
                let why = match stanza.as_str() {
                    other if other.starts_with("tcp") || other.starts_with("udp") => {
                        "a network input: see `type: syslog`"
                    }
                    other if other.starts_with("monitor") => "files are not read yet",
                    _ => "it has no counterpart",
                };
                self.note(format!("{} [{stanza}] {key}", setting.place), why);
            }
        }
    }
}

/// The variable for the token of an input.
fn variable(name: &str) -> String {
    let letters = name.chars().map(|c| match c.is_ascii_alphanumeric() {
        true => c.to_ascii_uppercase(),
        false => '_',
    });
    format!("HEC_TOKEN_{}", letters.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    const INPUTS: &str = "\
[http]
disabled = 0
port = 8089
enableSSL = 0
crossOriginSharingPolicy = https://*.example.com, !*
unknownSetting = 7

# the pods
[http://pods]
token = 11111111-2222-3333-4444-555555555555
index = k8s
indexes = k8s, \\
  main
useACK = 1
connection_host = none
[udp://514]
sourcetype = syslog
";

    fn made() -> Migration {
        splunk(&SplunkFiles {
            inputs: vec![("inputs.conf".into(), INPUTS.into())],
            outputs: vec![(
                "outputs.conf".into(),
                "[tcpout:primary]\nserver = idx1:9997, idx2:9997\n".into(),
            )],
            limits: vec![(
                "limits.conf".into(),
                "[http_input]\nmax_content_length = 1000000\n".into(),
            )],
        })
    }

    #[test]
    fn tokens_and_servers_are_carried_over() {
        let wanted = "\
# Made by `inrush migrate splunk`. What is not carried over stands on stderr.
sources:
  hec:
    type: splunk_hec
    listen: 0.0.0.0:8089
    cors: { origins: [\"https://*.example.com\", \"!*\"], headers: [] }
    max_content_length: 1000000
    tokens:
      - token: \"${HEC_TOKEN_PODS}\"
        name: \"pods\"
        index: \"k8s\"
        indexes: [\"k8s\", \"main\"]
        ack: delivered
        host: header
destinations:
  primary:
    type: splunk_hec
    endpoints: [\"https://idx1:8088\", \"https://idx2:8088\"]
    token: \"${SPLUNK_TOKEN}\"
";
        assert_eq!(made().config, wanted);
    }

    #[test]
    fn hosts_of_tokens_are_carried_over() {
        for (rule, wanted) in [
            ("dns", "host: dns"),
            ("proxied_ip", "host: proxied"),
            ("none", "host: header"),
        ] {
            let inputs = INPUTS.replace(
                "connection_host = none",
                &format!("connection_host = {rule}"),
            );
            let made = splunk(&SplunkFiles {
                inputs: vec![("inputs.conf".into(), inputs)],
                ..SplunkFiles::default()
            });
            assert!(made.config.contains(wanted), "{rule}: {}", made.config);
        }
    }

    #[test]
    fn what_is_left_is_named_with_its_line_and_no_secret() {
        let made = made();
        let notes: Vec<String> = made
            .notes
            .iter()
            .map(|note| format!("{}: {}", note.what, note.why))
            .collect();
        for wanted in [
            "inputs.conf:6 [http] unknownSetting: it has no counterpart",
            "inputs.conf:17 [udp://514] sourcetype: a network input: see `type: syslog`",
            "inputs.conf [http://pods] token: set the variable HEC_TOKEN_PODS to it",
        ] {
            assert!(
                notes.iter().any(|note| note == wanted),
                "{wanted}\nin {notes:#?}"
            );
        }
        assert!(!notes.concat().contains("11111111") && !made.config.contains("11111111"));
    }
}
