//! An `env_file` and context files in, a configuration out.
#![allow(clippy::unwrap_used)]
use crate::{ContextFiles, sc4s};

#[test]
fn an_env_file_becomes_a_configuration_and_what_is_left_is_named() {
    let env = "# comment\nSC4S_DEST_SPLUNK_HEC_DEFAULT_URL=https://a:8088,https://b:8088\n\
        SC4S_DEST_SPLUNK_HEC_DEFAULT_TOKEN=secret-token\n\
        SC4S_DEST_SPLUNK_HEC_DEFAULT_TLS_VERIFY=no\n\
        SC4S_DEST_SPLUNK_HEC_DEFAULT_CONNECTION_CLOSE=Yes\n\
        SC4S_LISTEN_CISCO_ESA_TCP_PORT=9000,9001\nSC4S_LISTEN_SIMPLE_ACME_GADGET_UDP_PORT=5514\n\
        SC4S_USE_VPS_CACHE=yes\nSC4S_ENABLE_EBPF=yes\nSC4S_SEND_METRICS_TERMINAL=no\nNO_SUCH=1\n\
        SC4S_SOURCE_RICOH_SYSLOG_FIXHOST=yes\nSC4S_DEFAULT_TIMEZONE=Europe/Rome\n";
    let made = sc4s(env, &ContextFiles::default());
    for wanted in [
        "listen: [\"tcp://0.0.0.0:514\", \"tcp://0.0.0.0:601\", \"udp://0.0.0.0:514\", \"udp://0.0.0.0:601\"]",
        "  cisco_esa:\n    type: syslog\n    listen: [\"tcp://0.0.0.0:9000\", \"tcp://0.0.0.0:9001\"]\n    product: \"cisco/esa\"",
        "  simple_acme_gadget:",
        "endpoints: [\"https://a:8088\", \"https://b:8088\"]",
        "token: \"${SC4S_DEST_SPLUNK_HEC_DEFAULT_TOKEN}\"",
        "verify: false",
        "connection_max_requests: 1",
        "remember_hosts: true",
        "ricoh_syslog_fixhost: \"yes\"",
        "timezone: \"Europe/Rome\"\n    guess_timezone: true",
    ] {
        assert!(
            made.config.contains(wanted),
            "{wanted} is not in\n{}",
            made.config
        );
    }
    assert!(
        !made.config.contains("secret-token"),
        "a token must not be printed"
    );
    let names: Vec<&str> = made.notes.iter().map(|note| note.what.as_str()).collect();
    assert_eq!(
        names,
        ["NO_SUCH", "SC4S_ENABLE_EBPF", "SC4S_SEND_METRICS_TERMINAL"]
    );
}

#[test]
fn a_secret_behind_a_variable_is_not_printed() {
    for (token, printed) in [
        ("${HEC_TOKEN}", "token: \"${HEC_TOKEN}\""),
        (
            "${A}secret",
            "token: \"${SC4S_DEST_SPLUNK_HEC_DEFAULT_TOKEN}\"",
        ),
        (
            "${}secret}",
            "token: \"${SC4S_DEST_SPLUNK_HEC_DEFAULT_TOKEN}\"",
        ),
    ] {
        let env = format!(
            "SC4S_DEST_SPLUNK_HEC_DEFAULT_URL=https://a:8088\n\
             SC4S_DEST_SPLUNK_HEC_DEFAULT_TOKEN={token}\n"
        );
        let made = sc4s(&env, &ContextFiles::default());
        assert!(made.config.contains(printed), "{token}: {}", made.config);
        assert!(!made.config.contains("secret"), "{token}");
    }
}

#[test]
fn the_name_cache_and_reverse_dns_are_carried_over() {
    let cases = [
        (
            "SC4S_USE_NAME_CACHE=yes\nSC4S_CLEAR_NAME_CACHE=no",
            "hosts:\n  remember_names: true\nd",
        ),
        (
            "SC4S_USE_NAME_CACHE=yes\nSC4S_CLEAR_NAME_CACHE=yes\nSC4S_USE_REVERSE_DNS=1",
            "hosts:\n  remember_names: true\n  keep_names: false\n  reverse_dns: { enabled: true }\nd",
        ),
        (
            "SC4S_USE_REVERSE_DNS=yes\nSC4S_REVERSE_DNS_KEEP_FQDN=yes\nSC4S_USE_NAME_CACHE=no",
            "hosts:\n  reverse_dns: { enabled: true, keep_fqdn: true }\nd",
        ),
    ];
    for (env, wanted) in cases {
        let made = sc4s(env, &ContextFiles::default());
        assert!(
            made.config.contains(wanted),
            "{wanted} is not in\n{}",
            made.config
        );
        assert!(
            made.notes.iter().all(|note| note.what.contains("_URL")),
            "{:?}",
            made.notes
        );
    }
    let alone = sc4s(
        "SC4S_CLEAR_NAME_CACHE=yes\nSC4S_REVERSE_DNS_KEEP_FQDN=yes",
        &ContextFiles::default(),
    );
    assert!(!alone.config.contains("hosts:"), "{}", alone.config);
}

#[test]
fn context_files_become_metadata_and_rules() {
    let context = ContextFiles {
        splunk_metadata_csv: "cisco_asa,index,fw\ncisco_asa,host,x\n".into(),
        host_csv: "192.0.2.7,HOST,fw7\n".into(),
        vendor_product_conf: "filter f_ny {\n  host(\"ny-*\" type(glob))\n  #or netmask(x)\n};\n\
            filter f_f5 { host('^f5') or \"${HOST}\" eq \"lb\" };\nfilter f_odd { program(\"x\") };\n"
            .into(),
        vendor_product_csv: "f_ny,sc4s_time_zone,\"America/New_York\"\nf_f5,sc4s_vendor_product,f5_bigip\n\
            f_odd,sc4s_vendor_product,a_b\n"
            .into(),
        compliance_conf: "filter f_pci { netmask(10.1.0.0/16) };".into(),
        compliance_csv: "f_pci,.splunk.index,pci\nf_pci,fields.compliance,\"pci\"\n".into(),
    };
    let made = sc4s("", &context);
    for wanted in [
        "\"cisco_asa\": { index: \"fw\" }",
        "set: { host: \"fw7\" }",
        "stage: hint, when: { host: \"i:ny-*\" }, set: { zone: \"America/New_York\" }",
        "when: { any: [{ host: \"i:/^f5/\" }, { host: \"i:lb\" }] }, set: { hint: \"f5/bigip\" }",
        "stage: after, when: { sender: \"10.1.0.0/16\" }, set: { index: \"pci\", fields: { \"compliance\": \"pci\" } }",
        "local: { type: store }",
    ] {
        assert!(
            made.config.contains(wanted),
            "{wanted} is not in\n{}",
            made.config
        );
    }
    let notes: Vec<String> = made
        .notes
        .iter()
        .map(|note| format!("{}: {}", note.what, note.why))
        .collect();
    assert!(
        notes
            .iter()
            .any(|note| note.starts_with("splunk_metadata.csv:2: `host` had no effect")),
        "{notes:?}"
    );
    assert!(
        notes
            .iter()
            .any(|note| note.starts_with("vendor_product_by_source.conf: f_odd: `program(\"x\")`")),
        "{notes:?}"
    );
}

/// What means another thing there than here, whoever sends it.
#[test]
fn a_zone_with_two_meanings_keeps_that_of_sc4s() {
    let made = sc4s("", &ContextFiles::default());
    let wanted = "  options:\n    # Of Cisco devices. Without it IST is India's, +05:30.\n    cisco_ist: irish\n";
    assert!(made.config.contains(wanted), "{}", made.config);
}

/// Where rules leave malformed events to the fallback, there is an option for it; where they never
/// do, there is nothing to carry over.
#[test]
fn malformed_events_are_taken_as_there() {
    let dropping = ["CEF", "RAW_BSD", "CISCO", "VMWARE_VSPHERE"];
    let taking = ["XML", "VMWARE_CB_PROTECT", "HPE"];
    let all = dropping.iter().chain(&taking);
    let env: String = all
        .map(|name| format!("SC4S_DISABLE_DROP_INVALID_{name}=yes\n"))
        .collect();
    let made = sc4s(&env, &ContextFiles::default());
    for name in dropping {
        let wanted = format!(
            "    disable_drop_invalid_{}: \"yes\"\n",
            name.to_lowercase()
        );
        let config = &made.config;
        assert!(config.contains(&wanted), "{wanted} is not in\n{config}");
    }
    let not_needed = |name: &str| {
        let mut notes = made.notes.iter();
        let note = notes.find(|note| note.what.ends_with(&format!("DROP_INVALID_{name}")));
        note.is_some_and(|note| note.why.starts_with("not needed: "))
    };
    assert!(taking.into_iter().all(not_needed), "{:?}", made.notes);
    assert!(!dropping.into_iter().any(not_needed), "{:?}", made.notes);
}
