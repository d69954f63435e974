//! Other vendors' texts in what an attacker can write: an event stays what it is.
//!
//! In `tests/sc4s`: `hostile.tsv` has a message for each product, with `{}` where an attacker
//! writes; `marks.tsv` has the texts, and whose they are; `hostile-known.tsv` says which rules may
//! take which products' events all the same, because SC4S's rows say so. `hostile.py` writes what
//! came out into `docs/sc4s-hostile.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::packs::inrush;
use crate::sc4s::configuration;

/// Sourcetypes of events that nothing recognises, or of which only the format is known.
const FALLBACKS: [&str; 4] = ["sc4s:fallback", "nix:syslog", "cef", "json"];

/// Beyond it a record is cut.
const LONGEST_BYTES: usize = 64 * 1024;

struct Product {
    rule: String,
    /// Product of its sender, or the port of its listener, or nothing.
    sender: String,
    sourcetype: String,
    index: String,
    /// `name=value`, or nothing.
    option: String,
    message: String,
}

/// Outcome of a record.
struct Came {
    sourcetype: String,
    index: String,
    vendor: String,
    /// The rule that gave the class.
    taker: String,
    raw: String,
    /// The bytes of `raw_base64`, as many as they can be.
    broken_bytes: usize,
    /// True if the sent text is UTF-8.
    sound: bool,
    /// True if the event is sent as an object.
    object: bool,
}

impl Came {
    fn of(line: &[u8]) -> Self {
        let said: Value = serde_json::from_str(&String::from_utf8_lossy(line)).unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let hec = &said["hec"];
        let rules = text(&said["rule"]);
        Self {
            sourcetype: text(&hec["sourcetype"]),
            index: hec["index"].as_str().unwrap_or("main").to_owned(),
            vendor: text(&hec["fields"]["sc4s_vendor"]),
            taker: rules.rsplit('|').next().unwrap().to_owned(),
            raw: text(&said["raw"]),
            broken_bytes: text(&hec["fields"]["raw_base64"]).len() / 4 * 3,
            sound: std::str::from_utf8(line).is_ok(),
            object: hec["event"].is_object(),
        }
    }

    fn is(&self, product: &Product) -> bool {
        (&self.sourcetype, &self.index) == (&product.sourcetype, &product.index)
    }

    /// True if it is of this vendor, or of none.
    fn is_no_others(&self, vendor: &str) -> bool {
        self.vendor == vendor || FALLBACKS.contains(&self.sourcetype.as_str())
    }
}

fn table(file: &str) -> Vec<Vec<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("sc4s");
    let text = fs::read_to_string(root.join(file)).unwrap();
    let columns = |line: &str| line.split('\t').map(str::to_owned).collect();
    text.lines().map(columns).collect()
}

fn products() -> Vec<Product> {
    let product = |columns: Vec<String>| {
        let [rule, sender, sourcetype, index, option, message] = columns.try_into().unwrap();
        let message = message.replace("\\t", "\t").replace("\\n", "\n");
        Product {
            rule,
            sender,
            sourcetype,
            index,
            option,
            message: message.replace("\\\\", "\\"),
        }
    };
    table("hostile.tsv").into_iter().map(product).collect()
}

/// `{}` as it is, `{j}` as JSON writes it, `{q}` as structured data, `{x}` as XML.
fn filled(message: &str, text: &str) -> String {
    let json = Value::from(text).to_string();
    let mut quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
    quoted = quoted.replace(']', "\\]");
    let xml = text.replace('&', "&amp;").replace('<', "&lt;");
    let xml = xml.replace('>', "&gt;").replace('"', "&quot;");
    let message = message.replace("{}", text).replace("{q}", &quoted);
    let message = message.replace("{x}", &xml);
    message.replace("{j}", &json[1..json.len() - 1])
}

/// The ports of the senders, each with a listener of its own.
fn ports(products: &[&Product]) -> BTreeMap<String, u16> {
    let senders: BTreeSet<&str> = products.iter().map(|p| p.sender.as_str()).collect();
    let port = |(sender, port): (&str, u16)| {
        let own = if sender.is_empty() { 514 } else { port };
        (sender.to_owned(), sender.parse().unwrap_or(own))
    };
    senders.into_iter().zip(20_000..).map(port).collect()
}

/// The configuration of SC4S's tests with these senders, and no pack but those built in.
fn written(dir: &Path, products: &[&Product], option: &str, pack: &str) {
    let ports = ports(products);
    let known = ports.iter().filter(|(sender, _)| sender.contains('/'));
    let senders: Vec<Value> = known
        .map(|(hint, port)| json!({ "hint": hint, "port": port }))
        .collect();
    let mut options = Map::new();
    if let Some((name, value)) = option.split_once('=') {
        options.insert(name.to_owned(), value.into());
    }
    let config = configuration(&senders, &options.into());
    let start = config.find("  files: [").unwrap();
    let end = start + config[start..].find('\n').unwrap();
    let config = format!("{}  files: [{pack}]{}", &config[..start], &config[end..]);
    fs::write(dir.join("inrush.yaml"), config).unwrap();
}

fn explained(dir: &Path, args: &[&str], input: &[u8]) -> Vec<Came> {
    let explain = ["explain", "-c", "inrush.yaml", "--json", "--fresh"];
    let output = inrush(&[&explain[..], args].concat(), dir, input);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let lines = output.stdout.split(|byte| *byte == b'\n');
    lines.filter(|l| !l.is_empty()).map(Came::of).collect()
}

/// Outcomes of these records, each from its product's sender and under its option.
fn ask(records: &[(&Product, String)]) -> Vec<Came> {
    let products: Vec<&Product> = records.iter().map(|(product, _)| *product).collect();
    let ports = ports(&products);
    let dir = tempfile::tempdir().unwrap();
    let mut came: Vec<Option<Came>> = records.iter().map(|_| None).collect();
    let options: BTreeSet<&str> = products.iter().map(|p| p.option.as_str()).collect();
    for option in options {
        written(dir.path(), &products, option, "");
        let under = |(product, _): &(&Product, String)| product.option == option;
        let some: Vec<usize> = (0..records.len()).filter(|n| under(&records[*n])).collect();
        let line = |n: &usize| {
            let (product, raw) = &records[*n];
            let listener = format!("tcp:{}", ports[&product.sender]);
            let record = json!({ "raw": raw, "peer": "127.0.0.1", "listener": listener,
                "received_at": 1_714_979_289.5 });
            format!("{record}\n")
        };
        let input: String = some.iter().map(line).collect();
        let said = explained(dir.path(), &["--input", "json"], input.as_bytes());
        assert_eq!(said.len(), some.len());
        for (n, one) in some.into_iter().zip(said) {
            came[n] = Some(one);
        }
    }
    came.into_iter().map(Option::unwrap).collect()
}

/// The vendor of each product, as it is said of its message with nothing in the fields.
fn vendors(products: &[Product]) -> Vec<String> {
    let records: Vec<_> = products
        .iter()
        .map(|p| (p, filled(&p.message, "")))
        .collect();
    let came = ask(&records);
    for ((product, raw), came) in records.iter().zip(&came) {
        let (rule, sourcetype) = (&product.rule, &came.sourcetype);
        assert!(came.is(product), "{rule}: {sourcetype} with nothing there");
        assert_eq!(&came.raw, raw, "{rule}");
    }
    came.into_iter().map(|one| one.vendor).collect()
}

#[test]
fn an_event_stays_what_it_is_whatever_its_user_writes() {
    let (products, marks) = (products(), table("marks.tsv"));
    let mut known = BTreeSet::new();
    for row in table("hostile-known.tsv") {
        assert!(
            !row[1].is_empty() && !row[2].is_empty(),
            "a reason: {row:?}"
        );
        let pair = |rule: &str| (row[0].clone(), rule.to_owned());
        known.extend(row[3].split(' ').map(pair));
    }
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    for times in [1, 2] {
        let mut records = Vec::new();
        for product in &products {
            // A vendor's own texts are no others'.
            let others = marks.iter().filter(|m| !product.rule.starts_with(&m[0]));
            let texts = others.map(|mark| vec![mark[1].as_str(); times].join(" "));
            records.extend(texts.map(|text| (product, filled(&product.message, &text))));
        }
        eprintln!("{} records", records.len());
        for ((product, raw), came) in records.iter().zip(ask(&records)) {
            assert_eq!(&came.raw, raw);
            let pair = (came.taker.clone(), product.rule.clone());
            if came.is(product) {
                continue;
            }
            if !known.contains(&pair) {
                wrong.push(format!("{pair:?}: {} of {raw}", came.sourcetype));
            }
            seen.insert(pair);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let unused: Vec<_> = known.difference(&seen).collect();
    assert!(unused.is_empty(), "no longer so: {unused:?}");
}

#[test]
fn a_field_of_64_kib_makes_no_other_vendors_event() {
    let products = products();
    let vendors = vendors(&products);
    let mut wrong = Vec::new();
    // A part of them at a time: what is said of them is long.
    for (products, vendors) in products.chunks(32).zip(vendors.chunks(32)) {
        let mut records = Vec::new();
        for (product, vendor) in products.iter().zip(vendors) {
            let fields = filled(&product.message, "\0").replace("\\u0000", "\0");
            let fields = fields.matches('\0').count();
            // As long as a record may be, and a field that alone is as long: that is cut.
            let whole = (LONGEST_BYTES - product.message.len()) / fields;
            for bytes in [whole, LONGEST_BYTES] {
                let long = "a b ".repeat(bytes / 4);
                records.push(((product, filled(&product.message, &long)), vendor));
            }
        }
        let (records, vendors): (Vec<_>, Vec<_>) = records.into_iter().unzip();
        for (((product, raw), vendor), came) in records.iter().zip(vendors).zip(ask(&records)) {
            let kept = &raw[..raw.len().min(LONGEST_BYTES)];
            if !came.is_no_others(vendor) || came.raw != kept {
                let (rule, bytes) = (&product.rule, came.raw.len());
                wrong.push(format!("{rule}: {}, {bytes} bytes", came.sourcetype));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Faults of events, sent as an object or as text, of whose fields some are not UTF-8.
fn wrong_if_not_utf8(object: bool) -> Vec<String> {
    let products = products();
    let vendors = vendors(&products);
    // Such bytes come in as they are on the wire, where one listener has them all: here what is
    // written into the field says who sends it.
    let asked = |p: &&Product| p.option.is_empty() && p.sender.parse::<u16>().is_err();
    let some: Vec<&Product> = products.iter().filter(asked).collect();
    let ports = ports(&some);
    let dir = tempfile::tempdir().unwrap();
    written(dir.path(), &some, "", "senders.yaml");
    let mut pack = "about: senders\nrules:\n".to_owned();
    for (hint, port) in ports.iter().filter(|(sender, _)| !sender.is_empty()) {
        pack.push_str(&format!(
            "  - {{ name: sender_{port}, stage: hint, when: {{ text: \"*~{port}~*\" }}, \
             set: {{ hint: {hint} }} }}\n"
        ));
    }
    fs::write(dir.path().join("senders.yaml"), pack).unwrap();
    let sent = |product: &&Product| {
        let text = format!("\0~{}~", ports[&product.sender]);
        let message = filled(&product.message, &text).replace("\\u0000", "\0");
        let mut bytes = message.into_bytes();
        bytes
            .iter_mut()
            .filter(|b| **b == 0)
            .for_each(|b| *b = 0xff);
        bytes
    };
    let sent: Vec<Vec<u8>> = some.iter().map(sent).collect();
    let framed = sent
        .iter()
        .flat_map(|bytes| [format!("{} ", bytes.len()).as_bytes(), bytes].concat());
    let came = explained(
        dir.path(),
        &["--source", "default"],
        &framed.collect::<Vec<u8>>(),
    );
    assert_eq!(came.len(), some.len());
    let mut wrong = Vec::new();
    for ((product, bytes), came) in some.iter().zip(&sent).zip(came) {
        let of = products.iter().position(|p| p.rule == product.rule);
        let kept = came.raw == String::from_utf8_lossy(bytes)
            && came.broken_bytes == bytes.len().next_multiple_of(3);
        let right = kept && came.sound && came.is_no_others(&vendors[of.unwrap()]);
        if came.object == object && !right {
            let (rule, sourcetype) = (&product.rule, &came.sourcetype);
            let sound = came.sound;
            wrong.push(format!(
                "{rule}: {sourcetype}, kept: {kept}, UTF-8: {sound}"
            ));
        }
    }
    wrong
}

#[test]
fn a_field_that_is_not_utf8_makes_no_other_vendors_event() {
    let wrong = wrong_if_not_utf8(false);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_object_with_a_field_that_is_not_utf8_is_sent_as_utf8_with_its_bytes_beside_it() {
    let wrong = wrong_if_not_utf8(true);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
