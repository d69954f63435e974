//! A line that a rotation of a real kubelet has cut, as `INRUSH_RECORD=1 make test-kubernetes`
//! recorded it: the end of the rotated file and the beginning of the next one.

use std::fs;
use std::path::Path;

use inrush_tests::*;

/// The recorded bytes of a file.
fn recorded(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/kubernetes");
    fs::read_to_string(folder.join(name)).unwrap()
}

/// The lines of a stream, from the pieces of both files; the last one if it is whole.
fn lines_of_stream(text: &str, stream: &str) -> Vec<String> {
    let (mut lines, mut open) = (Vec::new(), String::new());
    for line in text.lines() {
        let mut words = line.splitn(4, ' ').skip(1);
        let (of, tag) = (words.next().unwrap(), words.next().unwrap());
        if of != stream {
            continue;
        }
        open += words.next().unwrap();
        if tag == "F" {
            lines.push(std::mem::take(&mut open));
        }
    }
    lines
}

#[test]
fn a_line_that_a_rotation_of_the_kubelet_has_cut_is_one_event() {
    let (rotated, next) = (recorded("rotated.log"), recorded("next.log"));
    let last = rotated.lines().next_back().unwrap();
    assert_eq!(last.split(' ').nth(2), Some("P"), "the recording is cut");
    let yaml = "sources:\n  pods: { type: file, include: [\"{dir}/pods/*/*/*.log\"] }\n\
        destinations:\n  out: { type: file, path: \"{dir}/out.jsonl\" }\n";
    let inrush = Inrush::start(yaml);
    let folder = inrush.path("pods/default_writer0_1b2c/c0");
    fs::create_dir_all(&folder).unwrap();
    let log = folder.join("0.log");
    fs::write(&log, &rotated).unwrap();
    eventually("the rotated file is read", || {
        let page = inrush.http("GET", "/metrics").body;
        let read = "inrush_file_read_bytes_total{source=\"pods\"}";
        let line = page.lines().find(|line| line.starts_with(read))?;
        let bytes: f64 = line.rsplit(' ').next()?.parse().ok()?;
        (bytes as usize >= rotated.len()).then_some(())
    });
    fs::rename(&log, folder.join("0.log.20261128-134000")).unwrap();
    fs::write(&log, &next).unwrap();
    let both = rotated + &next;
    let expected = ["stdout", "stderr"].map(|stream| lines_of_stream(&both, stream));
    let events = eventually("all lines", || {
        let events = inrush.events_so_far("out.jsonl");
        (events.len() >= expected.iter().map(Vec::len).sum()).then_some(events)
    });
    for (stream, expected) in ["stdout", "stderr"].iter().zip(expected) {
        let own = events
            .iter()
            .filter(|event| event["fields"]["log.iostream"] == *stream);
        let texts: Vec<_> = own
            .map(|event| event["message"].as_str().unwrap())
            .collect();
        assert_eq!(texts, expected, "{stream}");
    }
}
