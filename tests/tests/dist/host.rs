//! What packages and images have: the configuration, the units, and the compose file. That they
//! work is shown by `make test-package`.

use serde_json::Value;

use crate::{checked, document, items, root};

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join("dist").join(name)).unwrap()
}

/// Values of a key of a unit, in their order.
fn values(unit: &str, key: &str) -> Vec<String> {
    let found = unit.lines().filter_map(|line| line.strip_prefix(key));
    let values = found.filter_map(|rest| rest.strip_prefix('='));
    values.map(str::to_owned).collect()
}

#[test]
fn the_packaged_configuration_is_sound_and_listens_where_the_socket_does() {
    let text = read("inrush.yaml");
    checked::check("dist/inrush.yaml", &text);
    let config = document(&text);
    assert_eq!(config["packs"]["enabled"], true);
    assert_eq!(config["destinations"]["local"]["type"], "store");
    let listeners = items(&config["sources"]["syslog"]["listen"]);
    let listeners: Vec<&str> = listeners.iter().filter_map(Value::as_str).collect();
    let socket = read("inrush.socket");
    let opened = |key, protocol| {
        let addresses = values(&socket, key).into_iter();
        addresses.map(move |address| format!("{protocol}://{address}"))
    };
    let udp = opened("ListenDatagram", "udp");
    let opened: Vec<String> = udp.chain(opened("ListenStream", "tcp")).collect();
    assert_eq!(opened, listeners);
}

#[test]
fn the_configuration_of_the_image_is_the_packaged_one_above_port_1024() {
    let file = read("Containerfile");
    assert!(file.contains(r"sed 's/:514\b/:5514/g' dist/inrush.yaml"));
    let text = read("inrush.yaml")
        .replace(":514,", ":5514,")
        .replace(":514]", ":5514]");
    assert!(!text.contains(":514"), "{text}");
    checked::check("the image", &text);
    let exposed = file.lines().find_map(|line| line.strip_prefix("EXPOSE "));
    assert!(exposed.unwrap().contains("5514/udp 5514/tcp"));
}

#[test]
fn the_compose_file_runs_the_image_of_the_manifests_on_a_volume_of_its_own() {
    let compose = document(&read("compose.yaml"));
    let service = &compose["services"]["inrush"];
    let pods =
        crate::of_kind(&crate::syslog(), "StatefulSet")[0]["spec"]["template"]["spec"].clone();
    assert_eq!(service["image"], pods["containers"][0]["image"]);
    let (volume, place) = service["volumes"][0]
        .as_str()
        .unwrap()
        .split_once(':')
        .unwrap();
    assert!(compose["volumes"].as_object().unwrap().contains_key(volume));
    assert_eq!(
        Some(place),
        document(&read("inrush.yaml"))["data_dir"].as_str()
    );
    assert_eq!(service["network_mode"], "host");
}
