//! Reloads that are refused.
#![allow(clippy::unwrap_used)]

use super::*;

fn config(data_dir: &Path, rest: &str) -> Config {
    let text = format!(
        "data_dir: {}\nsources: {{ s: {{ type: syslog, listen: [\"tcp://127.0.0.1:0\"] }} }}\n\
         destinations: {{ out: {{ type: blackhole }} }}\n{rest}",
        data_dir.display()
    );
    inrush_config::parse(&text, "test", &|_| None).unwrap()
}

#[test]
fn a_reload_that_is_refused_forgets_no_names() {
    let dir = tempfile::tempdir().unwrap();
    let names = dir.path().join("names.json");
    std::fs::write(&names, r#"{"version":1,"senders":[]}"#).unwrap();
    let memory = "queue: { durability: memory }\nhosts: { remember_names: true }\n";
    let disk = "hosts: { remember_names: true, keep_names: false }\n";
    let next = config(dir.path(), disk);
    let loader: ConfigLoader = Box::new(move || Ok(next.clone()));
    let first = config(dir.path(), memory);
    let pipeline = Pipeline::start(first, InheritedSockets::default(), loader).unwrap();
    let problems = pipeline.reload().unwrap_err();
    assert!(problems[0].contains("durability"), "{problems:?}");
    assert!(names.exists());
    pipeline.stop();
}
