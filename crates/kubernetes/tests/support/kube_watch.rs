//! Laws of a watch's bytes: whatever they are and however they are cut, nothing panics, and the
//! lines are the same. Included by the fuzz target `kube_watch` and by the tests of its crate,
//! which both have the modules under these names.

use crate::anomaly::ObjectAnomalyCounts;
use crate::answer::{WatchEvent, read_event, read_list, read_status};
use crate::lines::{EventLine, EventSplitter};
use crate::objects::{NamespaceObject, PodObject, WatchedObject, WorkloadObject, named_workloads};
use crate::text_map::{ENTRIES_MAX, TextMap, VALUE_BYTES_MAX};

/// Bytes of the longest line of these laws.
const LINE_BYTES_MAX: usize = 4096;

/// Checks the laws. The first byte says how the others are cut.
pub(crate) fn check(input: &[u8]) {
    let Some((&cut, bytes)) = input.split_first() else {
        return;
    };
    let whole = lines(&[bytes]);
    let pieces: Vec<&[u8]> = bytes.chunks(usize::from(cut) + 1).collect();
    assert_eq!(whole, lines(&pieces), "pieces make a difference");
    for line in whole.iter().flatten() {
        assert!(line.len() <= LINE_BYTES_MAX && !line.contains(&b'\n'));
        check_event::<PodObject>(line, |pod| {
            assert!(named_workloads(pod).len() <= 2);
            is_bounded(&pod.labels);
            is_bounded(&pod.annotations);
        });
        check_event::<NamespaceObject>(line, |namespace| is_bounded(&namespace.labels));
        check_event::<WorkloadObject>(line, |workload| is_bounded(&workload.annotations));
    }
    let counts = ObjectAnomalyCounts::default();
    let mut take = |pod: PodObject| assert!(pod.is_named());
    if let Ok(page) = read_list(bytes, &counts, &mut take) {
        assert!(!page.version.is_empty());
    }
    assert!(read_status(500, bytes).message.len() <= 300);
}

fn is_bounded(texts: &TextMap) {
    assert!(texts.entries.len() <= ENTRIES_MAX);
    assert!(
        texts
            .entries
            .values()
            .all(|value| value.len() <= VALUE_BYTES_MAX)
    );
}

fn check_event<T: WatchedObject>(line: &[u8], law: impl Fn(&T)) {
    if let Ok((WatchEvent::Applied(object) | WatchEvent::Deleted(object), _)) =
        read_event::<T>(line)
    {
        law(&object);
    }
}

/// The lines of pieces; `None` for one that is too long.
fn lines(pieces: &[&[u8]]) -> Vec<Option<Vec<u8>>> {
    let mut splitter = EventSplitter::new(LINE_BYTES_MAX);
    let mut found = Vec::new();
    for piece in pieces {
        splitter.push(piece);
        while let Some(line) = splitter.next_line() {
            found.push(match line {
                EventLine::Whole(line) => Some(line.to_vec()),
                EventLine::TooLong => None,
            });
        }
    }
    found
}
