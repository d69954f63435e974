//! The manifests: what they promise about rights, and that their parts fit together.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{document, items, of_kind, plain, title};

/// The pods of all workloads: the object and the template's `spec`.
fn pods(objects: &[Value]) -> Vec<(&Value, &Value)> {
    let workloads = ["DaemonSet", "Deployment", "StatefulSet"]
        .iter()
        .flat_map(|kind| of_kind(objects, kind));
    let pods: Vec<_> = workloads
        .map(|object| (object, &object["spec"]["template"]["spec"]))
        .collect();
    assert!(!pods.is_empty());
    pods
}

/// Checks that are true for the manifests and for every rendering of the chart.
pub(crate) fn check(objects: &[Value]) {
    for (object, pod) in pods(objects) {
        fits_together(objects, object, pod);
        is_confined(object, pod);
    }
    only_reads(objects);
}

fn named(objects: &[Value], kind: &str, name: &Value) -> bool {
    let found = of_kind(objects, kind);
    found.iter().any(|one| &one["metadata"]["name"] == name)
}

/// Names that objects use for each other are there.
fn fits_together(objects: &[Value], object: &Value, pod: &Value) {
    let title = title(object);
    let labels = &object["spec"]["template"]["metadata"]["labels"];
    assert_eq!(
        &object["spec"]["selector"]["matchLabels"], labels,
        "{title}"
    );
    let account = &pod["serviceAccountName"];
    assert!(
        named(objects, "ServiceAccount", account),
        "{title}: {account}"
    );
    for volume in items(&pod["volumes"]) {
        let (map, claim) = (
            &volume["configMap"]["name"],
            &volume["persistentVolumeClaim"]["claimName"],
        );
        assert!(
            map.is_null() || named(objects, "ConfigMap", map),
            "{title}: {map}"
        );
        assert!(
            claim.is_null() || named(objects, "PersistentVolumeClaim", claim),
            "{title}: {claim}"
        );
    }
    let container = &pod["containers"][0];
    let mut volumes: BTreeSet<&str> = names(&pod["volumes"]);
    let claims = items(&object["spec"]["volumeClaimTemplates"]);
    volumes.extend(
        claims
            .iter()
            .filter_map(|one| one["metadata"]["name"].as_str()),
    );
    let mounts: BTreeSet<&str> = names(&container["volumeMounts"]);
    assert_eq!(volumes, mounts, "{title}");
    let ports = names(&container["ports"]);
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        let port = container[probe]["httpGet"]["port"].as_str().unwrap();
        assert!(ports.contains(port), "{title}: {probe}");
    }
    configuration(objects, object, pod);
}

/// The configuration is readable, its folder and ports are those of the pod, and the pod has its
/// variables.
fn configuration(objects: &[Value], object: &Value, pod: &Value) {
    let title = title(object);
    let container = &pod["containers"][0];
    let maps = of_kind(objects, "ConfigMap");
    let name = &items(&pod["volumes"])[0]["configMap"]["name"];
    let map = maps.iter().find(|map| &map["metadata"]["name"] == name);
    let text = map.unwrap()["data"]["inrush.yaml"].as_str().unwrap();
    let config = document(text);
    let mounts = items(&container["volumeMounts"]);
    let state = mounts
        .iter()
        .find(|mount| mount["name"] == "state")
        .unwrap();
    assert_eq!(config["data_dir"], state["mountPath"], "{title}");
    let listen = config["health"]["listen"].as_str().unwrap();
    let port = container["ports"][0]["containerPort"].as_i64().unwrap();
    assert_eq!(listen, format!("0.0.0.0:{port}"), "{title}");
    assert_eq!(config["admin"]["listen"], "127.0.0.1:8686", "{title}");
    let env = names(&container["env"]);
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("${") {
        let (name, after) = after.split_once('}').unwrap();
        assert!(env.contains(name), "{title}: {name}");
        rest = after;
    }
}

fn names(list: &Value) -> BTreeSet<&str> {
    let names = items(list).iter().filter_map(|one| one["name"].as_str());
    names.collect()
}

/// A pod has the rights that its part needs, and no more; secrets come by reference.
fn is_confined(object: &Value, pod: &Value) {
    let title = title(object);
    for key in ["hostNetwork", "hostPID", "hostIPC"] {
        assert!(pod[key].is_null(), "{title}: {key}");
    }
    assert_eq!(items(&pod["containers"]).len(), 1, "{title}");
    let container = &pod["containers"][0];
    let rights = &container["securityContext"];
    assert_eq!(rights["readOnlyRootFilesystem"], true, "{title}");
    assert_eq!(rights["allowPrivilegeEscalation"], false, "{title}");
    assert!(rights["privileged"].is_null(), "{title}");
    assert_eq!(rights["capabilities"]["drop"], json!(["ALL"]), "{title}");
    let node = object["kind"] == "DaemonSet";
    let added = &rights["capabilities"]["add"];
    if node {
        assert_eq!(added, &json!(["DAC_READ_SEARCH"]), "{title}");
        assert_eq!(rights["runAsUser"], 0, "{title}");
    } else {
        assert!(added.is_null(), "{title}");
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true, "{title}");
    }
    let mounts = items(&container["volumeMounts"]);
    for volume in items(&pod["volumes"]) {
        let mount = mounts.iter().find(|mount| mount["name"] == volume["name"]);
        let writable = mount.unwrap()["readOnly"] != true;
        assert_eq!(writable, volume["name"] == "state", "{title}: {volume}");
        assert!(node || volume["hostPath"].is_null(), "{title}: {volume}");
    }
    for variable in items(&container["env"]) {
        let secret = variable["name"].as_str().unwrap().contains("TOKEN");
        let from = &variable["valueFrom"]["secretKeyRef"];
        assert_eq!(secret, from.is_object(), "{title}: {variable}");
    }
}

/// Nobody may change anything but the Lease.
fn only_reads(objects: &[Value]) {
    for role in ["Role", "ClusterRole"]
        .iter()
        .flat_map(|kind| of_kind(objects, kind))
    {
        for rule in items(&role["rules"]) {
            let lease = rule["resources"] == json!(["leases"]) && role["kind"] == "Role";
            for verb in items(&rule["verbs"]) {
                let reads = ["get", "list", "watch"].contains(&verb.as_str().unwrap());
                assert!(reads || lease, "{}: {rule}", title(role));
            }
        }
    }
    for kind in ["RoleBinding", "ClusterRoleBinding"] {
        for binding in of_kind(objects, kind) {
            let reference = &binding["roleRef"];
            let role = reference["kind"].as_str().unwrap();
            assert!(
                named(objects, role, &reference["name"]),
                "{}",
                title(binding)
            );
            for subject in items(&binding["subjects"]) {
                assert!(
                    named(objects, "ServiceAccount", &subject["name"]),
                    "{subject}"
                );
            }
        }
    }
}

#[test]
fn the_manifests_fit_together_and_confine_their_pods() {
    check(&plain());
}

#[test]
fn the_part_for_syslog_fits_together_and_its_service_reaches_its_listeners() {
    let objects = crate::syslog();
    check(&objects);
    let set = of_kind(&objects, "StatefulSet")[0];
    let service = &of_kind(&objects, "Service")[0]["spec"];
    let template = &set["spec"]["template"];
    assert_eq!(service["selector"], template["metadata"]["labels"]);
    assert_eq!(service["externalTrafficPolicy"], "Local");
    let text = of_kind(&objects, "ConfigMap")[0]["data"]["inrush.yaml"]
        .as_str()
        .unwrap();
    let listeners = document(text)["sources"]["syslog"]["listen"].clone();
    let ports = items(&template["spec"]["containers"][0]["ports"]);
    for (open, listener) in items(&service["ports"]).iter().zip(items(&listeners)) {
        assert_eq!(open["port"], 514);
        let port = ports.iter().find(|port| port["name"] == open["targetPort"]);
        let port = port.unwrap();
        assert_eq!(port["protocol"], open["protocol"]);
        let protocol = open["protocol"].as_str().unwrap().to_lowercase();
        let wanted = format!("{protocol}://0.0.0.0:{}", port["containerPort"]);
        assert_eq!(listener, &Value::from(wanted));
    }
    assert_eq!(items(&listeners).len(), items(&service["ports"]).len());
}

#[test]
fn the_nodes_part_sees_the_logs_of_the_host() {
    let objects = plain();
    let daemon = of_kind(&objects, "DaemonSet")[0];
    let pod = &daemon["spec"]["template"]["spec"];
    let paths: Vec<(&str, &str)> = items(&pod["volumes"])
        .iter()
        .filter_map(|volume| {
            let path = volume["hostPath"]["path"].as_str()?;
            let mounts = items(&pod["containers"][0]["volumeMounts"]);
            let mount = mounts
                .iter()
                .find(|mount| mount["name"] == volume["name"])?;
            Some((path, mount["mountPath"].as_str()?))
        })
        .collect();
    let wanted = [
        "/var/lib/inrush",
        "/var/log/pods",
        "/var/log/containers",
        "/var/lib/docker/containers",
        "/var/log/journal",
        "/run/log/journal",
        "/etc/machine-id",
    ];
    assert_eq!(paths, wanted.map(|path| (path, path)));
    assert_eq!(pod["priorityClassName"], "system-node-critical");
    assert_eq!(pod["tolerations"], json!([{ "operator": "Exists" }]));
    let update = &daemon["spec"]["updateStrategy"];
    assert_eq!(update["type"], "RollingUpdate");
    assert_eq!(update["rollingUpdate"]["maxSurge"], 0);
}
