//! Indexed fields of a container's events, and the names that other collectors give them.
//!
//! # What it guarantees
//! * [`FieldNaming::Otel`] has the names of Splunk's distribution of the OpenTelemetry collector
//!   (semantic conventions `k8s`), on which searches of its users are built.
//! * Labels and annotations are fields only where a pattern names them: each value of one is a
//!   word of the index.
//!
//! # Limits
//! [`EXTRA_FIELDS_MAX`] labels and annotations of a pod, of [`VALUE_BYTES_MAX`] each.

use crate::docker::DockerContainer;
use crate::objects::PodObject;
use crate::store::PodMetadata;
use crate::text_map::TextMap;

/// Labels and annotations that become fields, of one pod.
const EXTRA_FIELDS_MAX: usize = 64;
/// Bytes of a value that becomes a field. An index of Splunk takes no longer words.
const VALUE_BYTES_MAX: usize = 1 << 10;

/// Names of the fields of a container's events.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FieldNaming {
    /// Those of Splunk's OpenTelemetry collector: `k8s.pod.name`, sourcetype `kube:container:NAME`.
    #[default]
    Otel,
    /// Those of Collectord: `kubernetes_pod_name`, sourcetype `kubernetes_logs`.
    Collectord,
}

/// Fields that events of containers get.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FieldSettings {
    /// Their names.
    pub naming: FieldNaming,
    /// Patterns of labels that become fields: `*` is any text, `?` any character.
    pub labels: Vec<String>,
    /// The same of annotations.
    pub annotations: Vec<String>,
}

/// Parts of a container that have a field.
#[derive(Clone, Copy)]
enum FieldKind {
    Namespace,
    Pod,
    PodUid,
    PodIp,
    Container,
    ContainerId,
    Image,
    Node,
}

/// Names and values of fields, in order.
type FieldList = Vec<(String, String)>;

/// Fields as each container keeps them: in one piece of memory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FieldTexts {
    text: Box<str>,
    /// Length of each name and of its value.
    lengths: Box<[(u32, u32)]>,
}

impl FieldTexts {
    /// Names and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut rest = &*self.text;
        self.lengths.iter().map_while(move |(name, value)| {
            let (name, behind) = rest.split_at_checked(*name as usize)?;
            let (value, behind) = behind.split_at_checked(*value as usize)?;
            rest = behind;
            Some((name, value))
        })
    }
}

impl From<FieldList> for FieldTexts {
    fn from(fields: FieldList) -> Self {
        let mut text = String::new();
        // Names and values are parts of objects and paths, which are bounded far below that.
        let length = |text: &str| u32::try_from(text.len()).unwrap_or(0);
        let lengths = fields.iter().map(|(name, value)| {
            text.push_str(name);
            text.push_str(value);
            (length(name), length(value))
        });
        Self {
            lengths: lengths.collect(),
            text: text.into(),
        }
    }
}

impl FieldNaming {
    fn name(self, kind: FieldKind) -> &'static str {
        use FieldKind as Kind;
        match (self, kind) {
            (Self::Otel, Kind::Namespace) => "k8s.namespace.name",
            (Self::Otel, Kind::Pod) => "k8s.pod.name",
            (Self::Otel, Kind::PodUid) => "k8s.pod.uid",
            (Self::Otel, Kind::PodIp) => "k8s.pod.ip",
            (Self::Otel, Kind::Container) => "k8s.container.name",
            (Self::Otel, Kind::ContainerId) => "container.id",
            (Self::Otel, Kind::Image) => "container.image.name",
            (Self::Otel, Kind::Node) => "k8s.node.name",
            (Self::Collectord, Kind::Namespace) => "kubernetes_namespace",
            (Self::Collectord, Kind::Pod) => "kubernetes_pod_name",
            (Self::Collectord, Kind::PodUid) => "kubernetes_pod_id",
            (Self::Collectord, Kind::PodIp) => "kubernetes_pod_ip",
            (Self::Collectord, Kind::Container) => "kubernetes_container_name",
            (Self::Collectord, Kind::ContainerId) => "kubernetes_container_id",
            (Self::Collectord, Kind::Image) => "kubernetes_container_image",
            (Self::Collectord, Kind::Node) => "kubernetes_node_name",
        }
    }

    /// Name of the field that says which stream a line comes from.
    pub const fn stream(self) -> &'static str {
        match self {
            Self::Otel => "log.iostream",
            Self::Collectord => "stream",
        }
    }

    /// Sourcetype of a container's events.
    pub fn sourcetype(self, container: &str) -> String {
        match self {
            Self::Otel => format!("kube:container:{container}"),
            Self::Collectord => "kubernetes_logs".to_owned(),
        }
    }

    fn workload(self, kind: &str) -> String {
        let kind = kind.to_ascii_lowercase();
        match self {
            Self::Otel => format!("k8s.{kind}.name"),
            Self::Collectord => format!("kubernetes_{kind}_name"),
        }
    }

    fn extra(self, kind: &str, name: &str) -> String {
        match self {
            Self::Otel => format!("k8s.pod.{kind}s.{name}"),
            Self::Collectord => format!("kubernetes_pod_{kind}_{name}"),
        }
    }
}

impl FieldSettings {
    /// Fields by what the path of a log says.
    pub fn of_path(&self, names: [&str; 4]) -> FieldTexts {
        let kinds = [
            FieldKind::Namespace,
            FieldKind::Pod,
            FieldKind::PodUid,
            FieldKind::Container,
        ];
        let all = kinds.into_iter().zip(names);
        self.named(all).into()
    }

    fn named<'a>(&self, all: impl IntoIterator<Item = (FieldKind, &'a str)>) -> FieldList {
        let known = all.into_iter().filter(|(_, value)| !value.is_empty());
        let named =
            known.map(|(kind, value)| (self.naming.name(kind).to_owned(), value.to_owned()));
        named.collect()
    }

    /// Fields of a pod's container. `uid` is that of the log's folder, which a static pod has of
    /// its own.
    pub fn of_pod(&self, metadata: &PodMetadata, uid: &str, container: &str) -> FieldTexts {
        let pod: &PodObject = &metadata.pod;
        let found = pod.container(container);
        let mut fields = self.named([
            (FieldKind::Namespace, &*pod.namespace),
            (FieldKind::Pod, &*pod.name),
            (FieldKind::PodUid, uid),
            (FieldKind::Container, container),
            (FieldKind::Image, found.map_or("", |one| &*one.image)),
            (FieldKind::ContainerId, found.map_or("", |one| &*one.id)),
            (FieldKind::Node, &*pod.node),
        ]);
        if self.naming == FieldNaming::Collectord {
            fields.extend(self.named([(FieldKind::PodIp, &*pod.ip)]));
            let workloads = metadata.workloads.iter();
            fields.extend(
                workloads.map(|one| (self.naming.workload(&one.kind), one.name.to_string())),
            );
        }
        self.add_extra("label", &self.labels, &pod.labels, &mut fields);
        self.add_extra(
            "annotation",
            &self.annotations,
            &pod.annotations,
            &mut fields,
        );
        fields.into()
    }

    fn add_extra(&self, kind: &str, patterns: &[String], of: &TextMap, fields: &mut FieldList) {
        if patterns.is_empty() {
            return;
        }
        let is_wanted = |name: &str| patterns.iter().any(|pattern| matches_name(pattern, name));
        let wanted = of.entries.iter().filter(|(name, _)| is_wanted(name));
        let wanted = wanted.filter(|(_, value)| value.len() <= VALUE_BYTES_MAX);
        let wanted = wanted.map(|(name, value)| (self.naming.extra(kind, name), value.to_string()));
        fields.extend(wanted.take(EXTRA_FIELDS_MAX));
    }

    /// Fields of a container that docker runs by itself.
    pub fn of_docker(&self, container: &DockerContainer) -> FieldTexts {
        let names = match self.naming {
            FieldNaming::Otel => ["container.name", "container.id", "container.image.name"],
            FieldNaming::Collectord => [
                "docker_container_name",
                "docker_container_id",
                "docker_container_image",
            ],
        };
        let values = [&container.name, &container.id, &container.image];
        let all = names.into_iter().zip(values);
        let known = all.filter(|(_, value)| !value.is_empty() && value.len() <= VALUE_BYTES_MAX);
        let known = known.map(|(name, value)| (name.to_owned(), value.clone()));
        known.collect::<FieldList>().into()
    }
}

/// True if a name has the form of a pattern: `*` is any text, `?` one character.
fn matches_name(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut seen) = (0, 0);
    // Place of the last star, and up to where it has been tried.
    let mut star = None;
    while seen < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, seen));
                at += 1;
            }
            Some(one) if *one == '?' || *one == name[seen] => {
                at += 1;
                seen += 1;
            }
            _ => match &mut star {
                Some((star, tried)) => {
                    *tried += 1;
                    (at, seen) = (*star + 1, *tried);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|one| *one == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_fields_are_the_same() {
        for texts in [
            &[][..],
            &[("", "")],
            &[("a", ""), ("", "b\0c"), ("name", "w\u{e4}rme"), ("a", "")],
        ] {
            let fields = texts
                .iter()
                .map(|(name, value)| (name.to_string(), value.to_string()));
            let kept = FieldTexts::from(fields.collect::<FieldList>());
            assert_eq!(kept.iter().collect::<Vec<_>>(), texts);
        }
    }

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, fits) in [
            ("app", "app", true),
            ("app", "apps", false),
            ("app.kubernetes.io/*", "app.kubernetes.io/name", true),
            ("*", "", true),
            ("*/name", "a/b/name", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("t?am", "team", true),
            ("t?am", "tam", false),
        ] {
            assert_eq!(matches_name(pattern, name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn a_pod_has_the_names_of_the_collector_that_is_asked_for() {
        let long = "x".repeat(2000);
        let labels = [("app", "shop"), ("hash", "1"), ("long", &*long)];
        let pod = PodObject {
            namespace: "web".into(),
            name: "shop-1".into(),
            uid: "u".into(),
            node: "n1".into(),
            ip: "10.0.0.7".into(),
            labels: labels.into_iter().collect(),
            ..PodObject::default()
        };
        let metadata = PodMetadata {
            pod: pod.into(),
            namespace: None,
            workloads: vec![crate::WorkloadMetadata {
                kind: "Deployment".into(),
                name: "shop".into(),
                annotations: Default::default(),
            }],
            removed: false,
        };
        let fields = |naming| {
            let settings = FieldSettings {
                naming,
                labels: vec!["a*".to_owned(), "l*".to_owned()],
                annotations: vec!["*".to_owned()],
            };
            let fields = settings.of_pod(&metadata, "u", "nginx");
            let fields = fields.iter().map(|(name, value)| format!("{name}={value}"));
            fields.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            fields(FieldNaming::Otel),
            "k8s.namespace.name=web k8s.pod.name=shop-1 k8s.pod.uid=u k8s.container.name=nginx \
             k8s.node.name=n1 k8s.pod.labels.app=shop"
        );
        assert_eq!(
            fields(FieldNaming::Collectord),
            "kubernetes_namespace=web kubernetes_pod_name=shop-1 kubernetes_pod_id=u \
             kubernetes_container_name=nginx kubernetes_node_name=n1 kubernetes_pod_ip=10.0.0.7 \
             kubernetes_deployment_name=shop kubernetes_pod_label_app=shop"
        );
    }
}
